/* model.c - open, describe and close a model.
 *
 * The file's format is mlb.c; where the weights are used from is model_pack.c
 * and packcache.c.
 * SPDX-License-Identifier: MIT */
#include "model.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "threads.h"

void krafla_model_defaults(krafla_model_options *o)
{
    *o = (krafla_model_options){.struct_size = sizeof *o, .pack = KRAFLA_PACK_MEMORY};
}

static krafla_status check_options(const krafla_model_options *o, krafla_error *err)
{
    if (o->struct_size != sizeof *o)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "krafla_model_options: struct_size is %u, expected %zu: call "
                       "krafla_model_defaults() first",
                       o->struct_size, sizeof *o);
    if (o->pack < KRAFLA_PACK_MEMORY || o->pack > KRAFLA_PACK_CACHE)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "krafla_model_options: pack is %d, expected 0 to 2",
                       o->pack);
    if (o->n_threads < 0 || o->n_threads > KR_MAX_THREADS)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "krafla_model_options: n_threads is %d, expected 0 to %d", o->n_threads,
                       KR_MAX_THREADS);
    return KRAFLA_OK;
}

/* Move *v to the arena (a first pass with an arena that counts leaves it where it is). */
static void copy_vector(struct kr_arena *a, const float **v, size_t n)
{
    if (!*v)
        return;
    float *copy = kr_arena_take(a, n, sizeof **v);
    if (copy) {
        memcpy(copy, *v, n * sizeof *copy);
        *v = copy;
    }
}

static void copy_vectors(struct kr_arena *a, struct kr_mlb *f)
{
    copy_vector(a, &f->rope_freq, (size_t)f->rotary_dim / 2);
    copy_vector(a, &f->rope_freq_local, (size_t)f->rotary_dim / 2);
    for (int32_t i = 0; i < f->n_layers; i++) {
        struct kr_tensor tensors[KR_LAYER_TENSORS];
        const size_t n = kr_mlb_layer_tensors(f, &f->layers[i], tensors);
        for (const struct kr_tensor *t = tensors; t < tensors + n; t++)
            if (t->vector)
                copy_vector(a, t->vector, (size_t)t->k);
    }
    copy_vector(a, &f->out_norm, (size_t)f->dim);
}

/* Refuse an element outside [least, most], or a NaN.  layer < 0: the vector is the whole model's. */
static krafla_status check_vector(const float *v, int32_t n, float least, float most, int32_t layer,
                                  const char *name, const char *path, krafla_error *err)
{
    for (int32_t i = 0; i < n; i++) {
        if (v[i] >= least && v[i] <= most)
            continue;
        char prefix[24] = ""; /* "layers.65535." */
        if (layer >= 0)
            snprintf(prefix, sizeof prefix, "layers.%d.", layer);
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: tensor %s%s: element %d is %g, expected %g to %g; convert the "
                       "checkpoint again",
                       path, prefix, name, i, (double)v[i], (double)least, (double)most);
    }
    return KRAFLA_OK;
}

/* A decay is at most 1; all else is only finite, because quantization would lose a NaN. */
static krafla_status check_layer(struct kr_mlb *f, int32_t layer, const char *path,
                                 krafla_error *err)
{
    struct kr_layer *l = &f->layers[layer];
    struct kr_tensor tensors[KR_LAYER_TENSORS];
    const size_t n = kr_mlb_layer_tensors(f, l, tensors);
    krafla_status st = KRAFLA_OK;
    for (const struct kr_tensor *t = tensors; t < tensors + n && st == KRAFLA_OK; t++) {
        const float least = t->vector == &l->decay_rate ? 0.0f : -FLT_MAX;
        if (t->vector)
            st = check_vector(*t->vector, t->k, least, FLT_MAX, layer, t->name, path, err);
    }
    return st;
}

/* What the kernels rely on: kern_rope_angles takes angles up to 2^24, and positions are below that.
 */
static krafla_status check_vectors(struct kr_mlb *f, const char *path, krafla_error *err)
{
    const int32_t pairs = f->rotary_dim / 2;
    krafla_status st = check_vector(f->rope_freq, pairs, 0.0f, 1.0f, -1, "rope_freq", path, err);
    if (st == KRAFLA_OK && f->rope_freq_local)
        st = check_vector(f->rope_freq_local, pairs, 0.0f, 1.0f, -1, "rope_freq_local", path, err);
    for (int32_t i = 0; i < f->n_layers && st == KRAFLA_OK; i++)
        st = check_layer(f, i, path, err);
    if (st == KRAFLA_OK)
        st = check_vector(f->out_norm, f->dim, -FLT_MAX, FLT_MAX, -1, "out_norm", path, err);
    return st;
}

static krafla_status load_vectors(struct krafla_model *m, const char *path, krafla_error *err)
{
    struct kr_mlb *f = &m->file;
    const krafla_status st = check_vectors(f, path, err);
    if (st != KRAFLA_OK)
        return st;
    copy_vectors(&m->vectors, f);
    if (!kr_arena_alloc(&m->vectors))
        return kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for the norm vectors", path);
    copy_vectors(&m->vectors, f);
    return KRAFLA_OK;
}

static krafla_status load_matrices(struct krafla_model *m, const char *path,
                                   const krafla_model_options *o, krafla_error *err)
{
    const size_t threads = (size_t)(o->n_threads ? o->n_threads : krafla_default_threads(NULL));
    const uint64_t in_file = kr_model_weight_bytes(m);
    struct kr_progress progress = {o->progress, o->progress_arg, .total = in_file};
    if (o->pack == KRAFLA_PACK_NONE)
        return kr_model_check(m, path, threads, &progress, err);
    if (o->pack == KRAFLA_PACK_CACHE) {
        const uint64_t packed = kr_model_packed_bytes(m);
        progress.total = packed;
        if (kr_packcache_load(m, path, &progress))
            return KRAFLA_OK;
        progress.total = m->file.file.data_bytes + in_file + 2 * packed;
    }
    /* The cache outlives this file: one of damaged weights would be taken for their repaired file's.
     */
    krafla_status st = KRAFLA_OK;
    if (o->pack == KRAFLA_PACK_CACHE)
        st = kr_envelope_verify(&m->file.file, path, &progress, err);
    if (st == KRAFLA_OK)
        st = kr_model_pack(m, path, threads, &progress, err);
    if (st == KRAFLA_OK && o->pack == KRAFLA_PACK_CACHE) {
        kr_packcache_save(m, path, &progress);
        kr_progress_end(&progress); /* if it could not be written */
    }
    return st;
}

krafla_status krafla_model_open(krafla_model **out, const char *path, const krafla_model_options *o,
                                krafla_error *err)
{
    *out = NULL;
    krafla_model_options defaults;
    krafla_model_defaults(&defaults);
    if (!o)
        o = &defaults;
    krafla_status st = check_options(o, err);
    if (st != KRAFLA_OK)
        return st;

    krafla_model *m = calloc(1, sizeof *m);
    if (!m)
        return kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory", path);
    st = kr_mlb_open(&m->file, path, err);
    if (st == KRAFLA_OK)
        st = load_vectors(m, path, err);
    if (st == KRAFLA_OK)
        st = kr_model_list(m, path, err);
    if (st == KRAFLA_OK)
        st = load_matrices(m, path, o, err);
    if (st != KRAFLA_OK) {
        krafla_model_close(m);
        return st;
    }
    *out = m;
    return KRAFLA_OK;
}

void krafla_model_close(krafla_model *m)
{
    if (!m)
        return;
    if (m->weights)
        kr_big_free(m->weights, m->weights_bytes);
    kr_envelope_close(&m->cache);
    kr_arena_free(&m->vectors);
    free(m->matrix);
    kr_mlb_close(&m->file);
    free(m);
}

void krafla_model_describe(const krafla_model *m, krafla_model_info *info)
{
    const struct kr_mlb *f = &m->file;
    const krafla_model_info full = {
        .struct_size = info->struct_size,
        .vocab = f->vocab,
        .dim = f->dim,
        .hidden_dim = f->hidden_dim,
        .n_layers = f->n_layers,
        .n_heads = f->n_heads,
        .n_kv_heads = f->n_kv_heads,
        .head_dim = f->head_dim,
        .max_seq = f->max_seq,
        .packed = m->packed,
        .file_bytes = f->file.map.size,
        .weight_bytes = kr_model_weight_bytes(m),
    };
    memcpy(info, &full, info->struct_size < sizeof full ? info->struct_size : sizeof full);
}

const char *krafla_model_name(const krafla_model *m)
{
    return m->file.name;
}

const char *krafla_model_chat(const krafla_model *m)
{
    return m->file.chat;
}

size_t krafla_model_stop_ids(const krafla_model *m, const int32_t **ids)
{
    *ids = m->file.stop_ids;
    return m->file.n_stop_ids;
}

void krafla_model_sampling(const krafla_model *m, krafla_sampler_options *o)
{
    const struct kr_sampling *s = &m->file.sampling;
    o->temperature = s->temperature;
    o->top_k = s->top_k;
    o->top_p = s->top_p;
    o->min_p = s->min_p;
    o->repeat_penalty = s->repeat_penalty;
    if (s->repeat_penalty != 1.0f)
        o->repeat_last_n = INT32_MAX; /* as transformers, for whom the number was written */
}
