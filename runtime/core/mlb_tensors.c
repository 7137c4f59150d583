/* mlb_tensors.c - the tensors of a model: which there must be, and where they lie in the file.
 *
 * The list is derived from the architecture; the table in the file must agree
 * with it row by row.  Scales are checked by who reads the weights.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "mlb.h"

#define AGAIN "download or convert it again"

enum {
    ALIGN = 64,
    F32_TYPE = -1,
    TENSOR_CAP = 48 /* "layers.65535.attn_post_norm" and NUL */
};

static const struct matrix_type {
    const char *name;
    uint8_t wtype, stype;
    uint8_t block_bytes;
} matrix_types[] = {
    {"q8_0", KERN_Q8, KERN_F16, 34},
    {"q8_0f", KERN_Q8, KERN_F32, 36},
    {"q4_0", KERN_Q4, KERN_F16, 18},
    {"q4_0f", KERN_Q4, KERN_F32, 20},
};

/* ---- the list ------------------------------------------------------------------------------ */

struct list {
    struct kr_tensor *out;
    size_t n;
};

static void matrix(struct list *l, const char *name, struct kern_matrix *m, int32_t rows, int32_t k)
{
    l->out[l->n++] = (struct kr_tensor){.name = name, .matrix = m, .rows = rows, .k = k};
}

static void vector(struct list *l, const char *name, const float **v, int32_t n)
{
    l->out[l->n++] = (struct kr_tensor){.name = name, .vector = v, .k = n};
}

static void attention_tensors(const struct kr_mlb *m, struct kr_layer *l, struct list *t)
{
    const int32_t q_dim = m->n_heads * m->head_dim, kv_dim = m->n_kv_heads * m->head_dim;
    matrix(t, "wq", &l->wq, q_dim, m->dim);
    matrix(t, "wk", &l->wk, kv_dim, m->dim);
    matrix(t, "wv", &l->wv, kv_dim, m->dim);
    if (m->qkv_bias) {
        vector(t, "bq", &l->bq, q_dim);
        vector(t, "bk", &l->bk, kv_dim);
        vector(t, "bv", &l->bv, kv_dim);
    }
    if (m->attn_gate)
        matrix(t, "wg", &l->wg, q_dim, m->dim);
    if (m->qk_norm) {
        vector(t, "q_norm", &l->q_norm, m->head_dim);
        vector(t, "k_norm", &l->k_norm, m->head_dim);
    }
    matrix(t, "wo", &l->wo, m->dim, q_dim);
}

static void linear_tensors(const struct kr_mlb *m, struct kr_layer *l, struct list *t)
{
    const struct kr_linear *n = &m->linear;
    matrix(t, "wqkv", &l->wqkv, n->channels, m->dim);
    matrix(t, "wz", &l->wz, n->values, m->dim);
    matrix(t, "wb", &l->wb, n->v_heads, m->dim);
    matrix(t, "wa", &l->wa, n->v_heads, m->dim);
    vector(t, "conv", &l->conv, n->taps * n->channels);
    vector(t, "dt_bias", &l->dt_bias, n->v_heads);
    vector(t, "decay_rate", &l->decay_rate, n->v_heads);
    vector(t, "delta_norm", &l->delta_norm, n->v_dim);
    matrix(t, "wo", &l->wo, m->dim, n->values);
}

size_t kr_mlb_layer_tensors(const struct kr_mlb *m, struct kr_layer *l,
                            struct kr_tensor out[KR_LAYER_TENSORS])
{
    struct list t = {.out = out};
    vector(&t, "attn_norm", &l->attn_norm, m->dim);
    if (l->linear)
        linear_tensors(m, l, &t);
    else
        attention_tensors(m, l, &t);
    if (m->post_norms)
        vector(&t, "attn_post_norm", &l->attn_post_norm, m->dim);
    vector(&t, "ffn_norm", &l->ffn_norm, m->dim);
    matrix(&t, "gate", &l->gate, m->hidden_dim, m->dim);
    matrix(&t, "up", &l->up, m->hidden_dim, m->dim);
    matrix(&t, "down", &l->down, m->dim, m->hidden_dim);
    if (m->post_norms)
        vector(&t, "ffn_post_norm", &l->ffn_post_norm, m->dim);
    return t.n;
}

/* ---- the table ------------------------------------------------------------------------------ */

/* A walk along the table and the data. */
struct walk {
    struct kr_mlb *m;
    size_t entry; /* the table's next row, a JSON value */
    uint64_t end; /* of the tensor before, in the data */
    krafla_error *err;
};

/* Check the row's type; *type is an index in matrix_types or F32_TYPE. */
static krafla_status read_type(const struct walk *w, const char *name, bool matrix, int *type)
{
    const struct kr_json *j = &w->m->file.json;
    char text[8];
    const krafla_status st = kr_json_string(j, w->entry, "type", text, sizeof text, w->err);
    if (st != KRAFLA_OK)
        return st;
    *type = F32_TYPE;
    if (!matrix && strcmp(text, "f32") == 0)
        return KRAFLA_OK;
    for (int i = 0; matrix && i < (int)(sizeof matrix_types / sizeof *matrix_types); i++) {
        if (strcmp(text, matrix_types[i].name) == 0) {
            *type = i;
            return KRAFLA_OK;
        }
    }
    return kr_fail(w->err, KRAFLA_E_FORMAT, "%s: %s: expected a type of %s, found \"%s\"; " AGAIN,
                   j->where, name, matrix ? "matrix" : "f32", text);
}

/* Check the row's shape against [rows][k], or [k] if rows is 0. */
static krafla_status check_shape(const struct walk *w, const char *name, size_t rows, size_t k)
{
    const struct kr_json *j = &w->m->file.json;
    const int64_t want[2] = {(int64_t)(rows ? rows : k), (int64_t)k};
    const size_t axes = rows ? 2 : 1;
    char what[TENSOR_CAP + 8];
    snprintf(what, sizeof what, "%s: shape", name);
    size_t shape;
    krafla_status st = kr_json_member(j, w->entry, "shape", KR_JSON_ARRAY, &shape, w->err);
    if (st == KRAFLA_OK && j->values[shape].count != axes)
        return kr_fail(w->err, KRAFLA_E_FORMAT, "%s: %s: expected %zu numbers, found %u; " AGAIN,
                       j->where, what, axes, (unsigned)j->values[shape].count);
    for (size_t i = 0, v = shape + 1; i < axes && st == KRAFLA_OK; i++, v = j->values[v].next) {
        int64_t n;
        st = kr_json_int_at(j, v, what, want[i], want[i], &n, w->err);
    }
    return st;
}

/* Check the row's place: offset and bytes as computed, inside the data, zeros before it. */
static krafla_status check_place(struct walk *w, const char *name, uint64_t bytes,
                                 const uint8_t **data)
{
    const struct kr_envelope *file = &w->m->file;
    const uint64_t offset = kr_round_up(w->end, ALIGN);
    char what[TENSOR_CAP + 8];
    int64_t v;
    snprintf(what, sizeof what, "%s: offset", name);
    const int64_t at = kr_json_find(&file->json, w->entry, "offset");
    const int64_t size = kr_json_find(&file->json, w->entry, "bytes");
    if (at < 0 || size < 0)
        return kr_fail(w->err, KRAFLA_E_FORMAT, "%s: %s: \"%s\" is missing; " AGAIN,
                       file->json.where, name, at < 0 ? "offset" : "bytes");
    krafla_status st =
        kr_json_int_at(&file->json, (size_t)at, what, (int64_t)offset, (int64_t)offset, &v, w->err);
    snprintf(what, sizeof what, "%s: bytes", name);
    if (st == KRAFLA_OK)
        st = kr_json_int_at(&file->json, (size_t)size, what, (int64_t)bytes, (int64_t)bytes, &v,
                            w->err);
    if (st != KRAFLA_OK)
        return st;
    if (offset > file->data_bytes || bytes > file->data_bytes - offset)
        return kr_fail(w->err, KRAFLA_E_FORMAT, "%s: %s: ends after the data; " AGAIN,
                       file->json.where, name);
    for (uint64_t i = w->end; i < offset; i++) {
        if (file->data[i])
            return kr_fail(w->err, KRAFLA_E_FORMAT, "%s: bytes before %s are not zero; " AGAIN,
                           file->json.where, name);
    }
    *data = file->data + offset;
    w->end = offset + bytes;
    return KRAFLA_OK;
}

/* Check that the next row is this tensor, a matrix [rows][k] or, if rows is 0, f32 [k]. */
static krafla_status next_tensor(struct walk *w, const char *name, size_t rows, size_t k, int *type,
                                 const uint8_t **data)
{
    static const char *const keys[] = {"bytes", "name", "offset", "shape", "type", NULL};
    const struct kr_json *j = &w->m->file.json;
    char found[TENSOR_CAP];
    krafla_status st = kr_json_only(j, w->entry, name, keys, w->err);
    if (st == KRAFLA_OK)
        st = kr_json_string(j, w->entry, "name", found, sizeof found, w->err);
    if (st == KRAFLA_OK && strcmp(found, name) != 0)
        st = kr_fail(w->err, KRAFLA_E_FORMAT, "%s: expected tensor \"%s\", found \"%s\"; " AGAIN,
                     j->where, name, found);
    if (st == KRAFLA_OK)
        st = read_type(w, name, rows > 0, type);
    if (st == KRAFLA_OK)
        st = check_shape(w, name, rows, k);
    if (st != KRAFLA_OK)
        return st;
    /* rows <= 2^24 and k <= 2^19: no product wraps 64 bits. */
    const uint64_t bytes =
        *type == F32_TYPE ? (uint64_t)k * sizeof(float)
                          : (uint64_t)rows * (k / KERN_BLOCK) * matrix_types[*type].block_bytes;
    st = check_place(w, name, bytes, data);
    w->entry = j->values[w->entry].next;
    return st;
}

static krafla_status next_matrix(struct walk *w, const char *name, int32_t rows, int32_t k,
                                 struct kern_matrix *out)
{
    int type;
    const uint8_t *data;
    const krafla_status st = next_tensor(w, name, (size_t)rows, (size_t)k, &type, &data);
    if (st == KRAFLA_OK)
        *out = (struct kern_matrix){.data = data,
                                    .rows = (uint32_t)rows,
                                    .k = (uint32_t)k,
                                    .wtype = matrix_types[type].wtype,
                                    .stype = matrix_types[type].stype};
    return st;
}

static krafla_status next_vector(struct walk *w, const char *name, int32_t n, const float **out)
{
    int type;
    const uint8_t *data = NULL;
    const krafla_status st = next_tensor(w, name, 0, (size_t)n, &type, &data);
    *out = (const float *)(const void *)data; /* offsets are multiples of 64 */
    return st;
}

/* What the types of a layer's matrices have to be besides. */
static krafla_status check_types(const struct walk *w, int32_t i)
{
    const struct kr_layer *l = &w->m->layers[i];
    if (l->gate.wtype != l->up.wtype || l->gate.stype != l->up.stype)
        return kr_fail(w->err, KRAFLA_E_FORMAT,
                       "%s: layers.%d: gate and up differ in type, expected the same; " AGAIN,
                       w->m->file.json.where, i);
    if (l->linear && (l->wb.wtype != KERN_Q8 || l->wa.wtype != KERN_Q8))
        return kr_fail(w->err, KRAFLA_E_FORMAT,
                       "%s: layers.%d: wb or wa is of a q4 type, expected q8_0 or q8_0f; " AGAIN,
                       w->m->file.json.where, i);
    return KRAFLA_OK;
}

static krafla_status next_layer(struct walk *w, int32_t i)
{
    struct kr_tensor tensors[KR_LAYER_TENSORS];
    const size_t n = kr_mlb_layer_tensors(w->m, &w->m->layers[i], tensors);
    for (const struct kr_tensor *t = tensors; t < tensors + n; t++) {
        char name[TENSOR_CAP];
        snprintf(name, sizeof name, "layers.%d.%s", i, t->name);
        const krafla_status st = t->matrix ? next_matrix(w, name, t->rows, t->k, t->matrix)
                                           : next_vector(w, name, t->k, t->vector);
        if (st != KRAFLA_OK)
            return st;
    }
    return check_types(w, i);
}

/* How many tensors the architecture has. */
static size_t count_tensors(const struct kr_mlb *m)
{
    size_t n = 3 + m->local_rope + !m->tied; /* embed, rope_freq, out_norm */
    for (int32_t i = 0; i < m->n_layers; i++) {
        struct kr_tensor tensors[KR_LAYER_TENSORS];
        n += kr_mlb_layer_tensors(m, &m->layers[i], tensors);
    }
    return n;
}

krafla_status kr_mlb_parse_tensors(struct kr_mlb *m, size_t table, krafla_error *err)
{
    const struct kr_envelope *file = &m->file;
    if (file->json.values[table].count != count_tensors(m))
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: tensors: expected %zu, found %u; " AGAIN,
                       file->json.where, count_tensors(m),
                       (unsigned)file->json.values[table].count);
    struct walk w = {.m = m, .entry = table + 1, .err = err};
    krafla_status st = next_matrix(&w, "embed", m->vocab, m->dim, &m->embed);
    if (st == KRAFLA_OK)
        st = next_vector(&w, "rope_freq", m->rotary_dim / 2, &m->rope_freq);
    if (st == KRAFLA_OK && m->local_rope)
        st = next_vector(&w, "rope_freq_local", m->rotary_dim / 2, &m->rope_freq_local);
    for (int32_t i = 0; i < m->n_layers && st == KRAFLA_OK; i++)
        st = next_layer(&w, i);
    if (st == KRAFLA_OK)
        st = next_vector(&w, "out_norm", m->dim, &m->out_norm);
    if (st == KRAFLA_OK && !m->tied)
        st = next_matrix(&w, "classifier", m->vocab, m->dim, &m->classifier);
    if (st != KRAFLA_OK)
        return st;
    if (m->tied)
        m->classifier = m->embed;
    if (w.end != file->data_bytes)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: the tensors end at %llu of %zu bytes of data; " AGAIN, file->json.where,
                       (unsigned long long)w.end, file->data_bytes);
    return KRAFLA_OK;
}
