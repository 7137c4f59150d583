/* model_pack.c - from the mapped file to panels in one block of huge pages.
 *
 * Work is cut into pieces of about 2 MiB, and these into rounds between which
 * progress is told.  A piece's file pages are given back as soon as it is
 * packed, so the peak is the model plus a few pieces.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "memory.h"
#include "model.h"
#include "pack.h"
#include "threads.h"

enum {
    PIECE_BYTES = 2 << 20,
    PIECES_PER_THREAD = 4, /* of a round */
    PANEL = KERN_LANES,    /* every layout's panels have 16 rows */
};

struct piece {
    uint32_t matrix;
    uint32_t row0, row1;
    bool bad;
};

struct pieces {
    struct krafla_model *m;
    uint8_t *dst;         /* packed copy, or NULL: only check */
    const size_t *offset; /* of each matrix in dst */
    struct piece *piece;
    size_t count;
    size_t first; /* piece of this round */
};

krafla_status kr_model_list(struct krafla_model *m, const char *path, krafla_error *err)
{
    struct kr_mlb *f = &m->file;
    const size_t most = (size_t)f->n_layers * KR_LAYER_TENSORS + 1;
    m->matrix = calloc(most, sizeof *m->matrix);
    if (!m->matrix)
        return kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for a list of %zu matrices", path,
                       most);
    for (int32_t i = 0; i < f->n_layers; i++) {
        struct kr_tensor tensors[KR_LAYER_TENSORS];
        const size_t n = kr_mlb_layer_tensors(f, &f->layers[i], tensors);
        for (const struct kr_tensor *t = tensors; t < tensors + n; t++)
            if (t->matrix)
                m->matrix[m->matrices++] = (struct kr_model_matrix){t->matrix, t->name, i};
    }
    m->matrix[m->matrices++] =
        (struct kr_model_matrix){&f->classifier, f->tied ? "embed" : "classifier", -1};
    return KRAFLA_OK;
}

/* Bytes of rows x w->k in a layout. */
static size_t bytes_in(const struct pack_layout *layouts, const struct kern_matrix *w, size_t rows)
{
    return kr_pack_bytes(&layouts[w->wtype], (enum kern_wtype)w->wtype, (enum kern_stype)w->stype,
                         rows, w->k);
}

size_t kr_model_packed_bytes(const struct krafla_model *m)
{
    size_t total = 0;
    for (size_t i = 0; i < m->matrices; i++) {
        const struct kern_matrix *w = m->matrix[i].w;
        const size_t bytes = bytes_in(kern_layout, w, w->rows);
        if (bytes == 0 || !kr_size_add(&total, total, bytes))
            return 0;
    }
    return total;
}

uint64_t kr_model_weight_bytes(const struct krafla_model *m)
{
    uint64_t total = 0;
    for (size_t i = 0; i < m->matrices; i++) {
        const struct kern_matrix *w = m->matrix[i].w;
        total += bytes_in(w->packed ? kern_layout : kern_layout_file, w, w->rows);
    }
    return total;
}

void kr_model_use_packed(struct krafla_model *m, const void *base)
{
    const uint8_t *at = base;
    for (size_t i = 0; i < m->matrices; i++) {
        struct kern_matrix *w = m->matrix[i].w;
        w->data = at;
        w->packed = 1;
        at += bytes_in(kern_layout, w, w->rows);
    }
    if (m->file.tied)
        m->file.embed = m->file.classifier;
    m->packed = kern_layout[m->file.classifier.wtype].rows;
}

/* Rows of w per piece: whole panels. */
static size_t piece_rows(const struct kern_matrix *w)
{
    const size_t row = bytes_in(kern_layout_file, w, 1);
    const size_t rows = PIECE_BYTES / row / PANEL * PANEL;
    return rows ? rows : PANEL;
}

/* Fill p->piece, or only count if it is NULL. */
static void cut(struct pieces *p)
{
    p->count = 0;
    for (size_t i = 0; i < p->m->matrices; i++) {
        const struct kern_matrix *w = p->m->matrix[i].w;
        const size_t step = piece_rows(w);
        for (size_t row = 0; row < w->rows; row += step, p->count++) {
            const size_t end = row + step < w->rows ? row + step : w->rows;
            if (p->piece)
                p->piece[p->count] = (struct piece){
                    .matrix = (uint32_t)i, .row0 = (uint32_t)row, .row1 = (uint32_t)end};
        }
    }
}

/* Where the piece lies in the file, and how long it is there. */
static const uint8_t *piece_source(const struct pieces *p, size_t i, size_t *bytes)
{
    const struct piece *piece = &p->piece[i];
    const struct kern_matrix *w = p->m->matrix[piece->matrix].w;
    const size_t row = bytes_in(kern_layout_file, w, 1);
    *bytes = (piece->row1 - piece->row0) * row;
    return (const uint8_t *)w->data + piece->row0 * row;
}

static void do_piece(void *arg, size_t chunk, size_t thread)
{
    (void)thread;
    const struct pieces *p = arg;
    const size_t i = p->first + chunk;
    struct piece *piece = &p->piece[i];
    const struct kern_matrix *w = p->m->matrix[piece->matrix].w;
    const enum kern_wtype wtype = (enum kern_wtype)w->wtype;
    const enum kern_stype stype = (enum kern_stype)w->stype;
    size_t bytes;
    const uint8_t *src = piece_source(p, i, &bytes);

    if (!p->dst) {
        piece->bad = !kr_pack_check(src, wtype, stype, piece->row1 - piece->row0, w->k);
        return;
    }
    piece->bad = !kr_pack(p->dst + p->offset[piece->matrix], &kern_layout[wtype], w->data, wtype,
                          stype, w->rows, w->k, piece->row0, piece->row1);
    const struct kr_map *map = &p->m->file.file.map;
    kr_map_release(map, (size_t)(src - map->base), bytes);
}

static krafla_status first_bad(const struct pieces *p, const char *path, krafla_error *err)
{
    for (size_t i = 0; i < p->count; i++) {
        if (!p->piece[i].bad)
            continue;
        const struct kr_model_matrix *bad = &p->m->matrix[p->piece[i].matrix];
        char layer[24] = ""; /* "layers.65535." */
        if (bad->layer >= 0)
            snprintf(layer, sizeof layer, "layers.%d.", bad->layer);
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: tensor %s%s, rows %u to %u: a scale is infinite or NaN, or a weight is "
                       "-128; the file is damaged: download or convert it again",
                       path, layer, bad->name, p->piece[i].row0, p->piece[i].row1 - 1);
    }
    return KRAFLA_OK;
}

static void do_rounds(struct pieces *p, struct kr_pool *pool, struct kr_progress *progress)
{
    const size_t most = PIECES_PER_THREAD * kr_pool_threads(pool);
    kr_pool_wake(pool);
    for (size_t n; p->first < p->count; p->first += n) {
        const size_t left = p->count - p->first;
        n = left < most ? left : most;
        kr_pool_run(pool, do_piece, p, n);
        uint64_t done = 0;
        for (size_t i = 0; i < n; i++) {
            size_t bytes;
            piece_source(p, p->first + i, &bytes);
            done += bytes;
        }
        kr_progress_add(progress, done);
    }
}

/* Pack into dst, or check if it is NULL. */
static krafla_status do_all(struct krafla_model *m, uint8_t *dst, const char *path, size_t threads,
                            struct kr_progress *progress, krafla_error *err)
{
    struct kr_pool *pool;
    krafla_status st = kr_pool_create(&pool, threads, err);
    if (st != KRAFLA_OK)
        return st;

    struct pieces p = {.m = m, .dst = dst};
    cut(&p);
    p.piece = calloc(p.count, sizeof *p.piece);
    size_t *offset = calloc(m->matrices, sizeof *offset);
    if (p.piece && offset) {
        cut(&p);
        for (size_t i = 1; i < m->matrices; i++) {
            const struct kern_matrix *before = m->matrix[i - 1].w;
            offset[i] = offset[i - 1] + bytes_in(kern_layout, before, before->rows);
        }
        p.offset = offset;
        do_rounds(&p, pool, progress);
        st = first_bad(&p, path, err);
    } else {
        st = kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for a list of %zu pieces", path,
                     p.count);
    }
    free(offset);
    free(p.piece);
    kr_pool_free(pool);
    return st;
}

krafla_status kr_model_check(struct krafla_model *m, const char *path, size_t threads,
                             struct kr_progress *progress, krafla_error *err)
{
    return do_all(m, NULL, path, threads, progress, err);
}

krafla_status kr_model_pack(struct krafla_model *m, const char *path, size_t threads,
                            struct kr_progress *progress, krafla_error *err)
{
    const size_t bytes = kr_model_packed_bytes(m);
    const uint64_t left = kr_memory_available("");
    if (bytes > 0 && bytes <= left) {
        m->weights = kr_big_alloc(bytes);
        m->weights_bytes = bytes;
    }
    if (!m->weights)
        return kr_fail(
            err, KRAFLA_E_MEMORY,
            "%s: out of memory: the packed weights need %zu MiB, %llu MiB are available; "
            "--no-pack makes no copy, a Q4 file is smaller",
            path, bytes >> 20, (unsigned long long)(left >> 20));

    const krafla_status st = do_all(m, m->weights, path, threads, progress, err);
    if (st != KRAFLA_OK)
        return st;
    kr_model_use_packed(m, m->weights);
    kr_map_release(&m->file.file.map, 0, m->file.file.map.size);
    return KRAFLA_OK;
}
