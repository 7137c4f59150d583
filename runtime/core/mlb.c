/* mlb.c - from the header of a model file to checked C structures.
 *
 * The tensor list is derived from the architecture; the table in the file must
 * agree with it row by row.  Scales are checked by who reads the weights.
 * SPDX-License-Identifier: MIT */
#include "mlb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN "download or convert it again"

enum {
    ALIGN = 64,
    F32_TYPE = -1,
    SHOWN = 40,     /* bytes of a wrong value shown in a message */
    TENSOR_CAP = 48 /* "layers.65535.attn_post_norm" and NUL */
};

/* Of a positive number in `arch`: what the header's decimals can express. */
static const double least = 1e-22, most = 1e37;

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

/* ---- the architecture ---------------------------------------------------------------------- */

static krafla_status read_i32(const struct kr_json *j, size_t object, const char *key, int64_t min,
                              int64_t max, int32_t *out, krafla_error *err)
{
    int64_t v = 0;
    const krafla_status st = kr_json_int(j, object, key, min, max, &v, err);
    *out = (int32_t)v;
    return st;
}

static krafla_status read_f32(const struct kr_json *j, size_t object, const char *key, double min,
                              float *out, krafla_error *err)
{
    double v = 0;
    const krafla_status st = kr_json_double(j, object, key, min, most, &v, err);
    *out = (float)v;
    return st;
}

/* The index in words[n] of the string at key. */
static krafla_status read_word(const struct kr_json *j, size_t object, const char *key,
                               const char *const *words, int n, int *out, krafla_error *err)
{
    char word[16];
    const krafla_status st = kr_json_string(j, object, key, word, sizeof word, err);
    if (st != KRAFLA_OK)
        return st;
    for (*out = 0; *out < n; ++*out) {
        if (strcmp(word, words[*out]) == 0)
            return KRAFLA_OK;
    }
    return kr_fail(err, KRAFLA_E_FORMAT, "%s: %s: expected \"%s\" or \"%s\", found \"%s\"; " AGAIN,
                   j->where, key, words[0], words[1], word);
}

/* An array of integers in [0, below) into out[cap]. */
static krafla_status read_ids(const struct kr_json *j, size_t object, const char *key, size_t cap,
                              int64_t below, int32_t *out, size_t *n, krafla_error *err)
{
    size_t array;
    krafla_status st = kr_json_member(j, object, key, KR_JSON_ARRAY, &array, err);
    if (st != KRAFLA_OK)
        return st;
    *n = j->values[array].count;
    if (*n > cap)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: %s: expected at most %zu, found %zu; " AGAIN,
                       j->where, key, cap, *n);
    for (size_t i = 0, v = array + 1; i < *n && st == KRAFLA_OK; i++, v = j->values[v].next) {
        int64_t id = 0;
        st = kr_json_int_at(j, v, key, 0, below - 1, &id, err);
        out[i] = (int32_t)id;
    }
    return st;
}

/* What two or more keys must agree on. */
static krafla_status check_shapes(const struct kr_mlb *m, const char *path, krafla_error *err)
{
    const int64_t q_dim = (int64_t)m->n_heads * m->head_dim;
    const struct {
        const char *what;
        int64_t value;
    } widths[] = {{"dim", m->dim}, {"hidden_dim", m->hidden_dim}, {"n_heads * head_dim", q_dim}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (widths[i].value % KERN_BLOCK || widths[i].value > KR_MAX_WIDTH)
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: %s is %lld, expected a multiple of %d up to %d; " AGAIN, path,
                           widths[i].what, (long long)widths[i].value, KERN_BLOCK, KR_MAX_WIDTH);
    }
    if (m->head_dim % 2)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: head_dim is %d, expected an even number; " AGAIN,
                       path, m->head_dim);
    if (m->n_heads % m->n_kv_heads)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: n_heads %d is not a multiple of n_kv_heads %d; " AGAIN, path,
                       m->n_heads, m->n_kv_heads);
    return KRAFLA_OK;
}

/* The options that decide which tensors there are. */
struct options {
    bool qk_norm, post_norms, local_rope;
};

static krafla_status parse_arch(struct kr_mlb *m, size_t arch, struct options *o, krafla_error *err)
{
    static const char *const keys[] = {
        "family",     "dim",          "hidden_dim", "n_layers", "n_heads",    "n_kv_heads",
        "head_dim",   "vocab",        "max_seq",    "norm_eps", "attn_scale", "embed_scale",
        "attn_cap",   "logit_cap",    "activation", "window",   "tied",       "qk_norm",
        "post_norms", "local_layers", "local_rope", NULL};
    static const char *const families[] = {"llama", "gemma3"};
    static const char *const activations[] = {"silu", "gelu_tanh"};
    const struct kr_json *j = &m->file.json;
    int family, activation = 0;
    krafla_status st;
    if ((st = kr_json_only(j, arch, "arch", keys, err)) ||
        (st = read_i32(j, arch, "dim", 1, KR_MAX_WIDTH, &m->dim, err)) ||
        (st = read_i32(j, arch, "hidden_dim", 1, KR_MAX_WIDTH, &m->hidden_dim, err)) ||
        (st = read_i32(j, arch, "n_layers", 1, KR_MAX_WIDTH, &m->n_layers, err)) ||
        (st = read_i32(j, arch, "n_heads", 1, KR_MAX_WIDTH, &m->n_heads, err)) ||
        (st = read_i32(j, arch, "n_kv_heads", 1, KR_MAX_WIDTH, &m->n_kv_heads, err)) ||
        (st = read_i32(j, arch, "head_dim", 1, KR_MAX_WIDTH, &m->head_dim, err)) ||
        (st = read_i32(j, arch, "vocab", 1, KR_MAX_VOCAB, &m->vocab, err)) ||
        (st = read_i32(j, arch, "max_seq", 1, KR_MAX_VOCAB, &m->max_seq, err)) ||
        (st = read_i32(j, arch, "window", 0, KR_MAX_VOCAB, &m->window, err)) ||
        (st = read_f32(j, arch, "norm_eps", least, &m->norm_eps, err)) ||
        (st = read_f32(j, arch, "attn_scale", least, &m->attn_scale, err)) ||
        (st = read_f32(j, arch, "embed_scale", least, &m->embed_scale, err)) ||
        (st = read_f32(j, arch, "attn_cap", 0, &m->attn_cap, err)) ||
        (st = read_f32(j, arch, "logit_cap", 0, &m->logit_cap, err)) ||
        (st = read_word(j, arch, "family", families, 2, &family, err)) ||
        (st = read_word(j, arch, "activation", activations, 2, &activation, err)) ||
        (st = kr_json_bool(j, arch, "tied", &m->tied, err)) ||
        (st = kr_json_bool(j, arch, "qk_norm", &o->qk_norm, err)) ||
        (st = kr_json_bool(j, arch, "post_norms", &o->post_norms, err)) ||
        (st = kr_json_bool(j, arch, "local_rope", &o->local_rope, err)))
        return st;
    m->activation = activation ? KR_GELU_TANH : KR_SILU;
    return check_shapes(m, j->where, err);
}

/* Allocate the layers and mark the local ones. */
static krafla_status parse_layers(struct kr_mlb *m, size_t arch, const struct options *o,
                                  krafla_error *err)
{
    const struct kr_json *j = &m->file.json;
    const size_t n_layers = (size_t)m->n_layers;
    m->layers = calloc(n_layers, sizeof *m->layers);
    int32_t *local = malloc(n_layers * sizeof *local);
    if (!m->layers || !local) {
        free(local);
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory for %zu layers of %s", n_layers,
                       j->where);
    }
    size_t n = 0;
    krafla_status st = read_ids(j, arch, "local_layers", n_layers, m->n_layers, local, &n, err);
    for (size_t i = 0; i < n && st == KRAFLA_OK; i++) {
        if (i > 0 && local[i - 1] >= local[i])
            st = kr_fail(err, KRAFLA_E_FORMAT,
                         "%s: local_layers are not in ascending order; " AGAIN, j->where);
        else
            m->layers[local[i]].local = true;
    }
    free(local);
    if (st == KRAFLA_OK && (n > 0) != (m->window > 0))
        st = kr_fail(err, KRAFLA_E_FORMAT, "%s: window is %d with %zu local layers; " AGAIN,
                     j->where, m->window, n);
    if (st == KRAFLA_OK && o->local_rope && n == 0)
        st = kr_fail(err, KRAFLA_E_FORMAT, "%s: local_rope without local layers; " AGAIN, j->where);
    return st;
}

/* ---- the tensor table ---------------------------------------------------------------------- */

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
    const uint64_t offset = (w->end + ALIGN - 1) / ALIGN * ALIGN;
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
    /* rows <= 2^24 and k <= 2^16: no product wraps 64 bits. */
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

/* The tensors of layer i, in file order. */
static krafla_status next_layer(struct walk *w, int32_t i, const struct options *o)
{
    struct kr_mlb *m = w->m;
    struct kr_layer *l = &m->layers[i];
    const int32_t q_dim = m->n_heads * m->head_dim, kv_dim = m->n_kv_heads * m->head_dim;
    const struct {
        const char *name;
        bool there;
        int32_t rows, k; /* rows 0: a vector */
        struct kern_matrix *matrix;
        const float **vector;
    } tensors[] = {
        {"attn_norm", true, 0, m->dim, NULL, &l->attn_norm},
        {"wq", true, q_dim, m->dim, &l->wq, NULL},
        {"wk", true, kv_dim, m->dim, &l->wk, NULL},
        {"wv", true, kv_dim, m->dim, &l->wv, NULL},
        {"q_norm", o->qk_norm, 0, m->head_dim, NULL, &l->q_norm},
        {"k_norm", o->qk_norm, 0, m->head_dim, NULL, &l->k_norm},
        {"wo", true, m->dim, q_dim, &l->wo, NULL},
        {"attn_post_norm", o->post_norms, 0, m->dim, NULL, &l->attn_post_norm},
        {"ffn_norm", true, 0, m->dim, NULL, &l->ffn_norm},
        {"gate", true, m->hidden_dim, m->dim, &l->gate, NULL},
        {"up", true, m->hidden_dim, m->dim, &l->up, NULL},
        {"down", true, m->dim, m->hidden_dim, &l->down, NULL},
        {"ffn_post_norm", o->post_norms, 0, m->dim, NULL, &l->ffn_post_norm},
    };
    for (size_t t = 0; t < sizeof tensors / sizeof *tensors; t++) {
        if (!tensors[t].there)
            continue;
        char name[TENSOR_CAP];
        snprintf(name, sizeof name, "layers.%d.%s", i, tensors[t].name);
        const krafla_status st =
            tensors[t].matrix
                ? next_matrix(w, name, tensors[t].rows, tensors[t].k, tensors[t].matrix)
                : next_vector(w, name, tensors[t].k, tensors[t].vector);
        if (st != KRAFLA_OK)
            return st;
    }
    if (l->gate.wtype != l->up.wtype || l->gate.stype != l->up.stype)
        return kr_fail(w->err, KRAFLA_E_FORMAT,
                       "%s: layers.%d: gate and up differ in type, expected the same; " AGAIN,
                       m->file.json.where, i);
    return KRAFLA_OK;
}

/* How many tensors the architecture has. */
static size_t count_tensors(const struct kr_mlb *m, const struct options *o)
{
    const size_t per_layer = 9 + (o->qk_norm ? 2 : 0) + (o->post_norms ? 2 : 0);
    return 3 + o->local_rope + !m->tied + (size_t)m->n_layers * per_layer;
}

static krafla_status parse_tensors(struct kr_mlb *m, size_t table, const struct options *o,
                                   krafla_error *err)
{
    const struct kr_envelope *file = &m->file;
    struct walk w = {.m = m, .entry = table + 1, .err = err};
    krafla_status st = next_matrix(&w, "embed", m->vocab, m->dim, &m->embed);
    if (st == KRAFLA_OK)
        st = next_vector(&w, "rope_freq", m->head_dim / 2, &m->rope_freq);
    if (st == KRAFLA_OK && o->local_rope)
        st = next_vector(&w, "rope_freq_local", m->head_dim / 2, &m->rope_freq_local);
    for (int32_t i = 0; i < m->n_layers && st == KRAFLA_OK; i++)
        st = next_layer(&w, i, o);
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

/* ---- the rest of the header ---------------------------------------------------------------- */

static krafla_status check_sampling(const struct kr_json *j, krafla_error *err)
{
    static const char *const keys[] = {"temperature", "top_p", "top_k", NULL};
    size_t o;
    double number;
    int64_t integer;
    krafla_status st = kr_json_member(j, 0, "sampling", KR_JSON_OBJECT, &o, err);
    if (st == KRAFLA_OK)
        st = kr_json_only(j, o, "sampling", keys, err);
    if (st == KRAFLA_OK && kr_json_find(j, o, "temperature") >= 0)
        st = kr_json_double(j, o, "temperature", 0, 100, &number, err);
    if (st == KRAFLA_OK && kr_json_find(j, o, "top_p") >= 0)
        st = kr_json_double(j, o, "top_p", 0, 1, &number, err);
    if (st == KRAFLA_OK && kr_json_find(j, o, "top_k") >= 0)
        st = kr_json_int(j, o, "top_k", 0, KR_MAX_VOCAB, &integer, err);
    return st;
}

static krafla_status check_provenance(const struct kr_json *j, krafla_error *err)
{
    size_t o;
    const krafla_status st = kr_json_member(j, 0, "provenance", KR_JSON_OBJECT, &o, err);
    if (st != KRAFLA_OK)
        return st;
    size_t k = o + 1;
    for (size_t i = 0; i < j->values[o].count; i++, k = j->values[k + 1].next) {
        const int type = j->values[k + 1].type;
        if (type == KR_JSON_BOOL || type == KR_JSON_ARRAY || type == KR_JSON_OBJECT)
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: provenance \"%.*s\": expected a string, number or null; " AGAIN,
                           j->where,
                           (int)(j->values[k].length < SHOWN ? j->values[k].length : SHOWN),
                           j->text + j->values[k].start);
    }
    return KRAFLA_OK;
}

/* name, chat, stop_ids and what the runtime does not use but checks all the same. */
static krafla_status parse_names(struct kr_mlb *m, krafla_error *err)
{
    static const char *const keys[] = {
        "format", "data_bytes", "data_sha256", "file_bytes", "min_version", "arch", "chat",
        "name",   "provenance", "sampling",    "stop_ids",   "tensors",     "x_*",  NULL};
    const struct kr_json *j = &m->file.json;
    krafla_status st = kr_json_only(j, 0, "header", keys, err);
    if (st == KRAFLA_OK)
        st = kr_json_string(j, 0, "name", m->name, sizeof m->name, err);
    const int64_t chat = kr_json_find(j, 0, "chat");
    if (st == KRAFLA_OK && (chat < 0 || j->values[chat].type != KR_JSON_NULL))
        st = kr_json_string(j, 0, "chat", m->chat, sizeof m->chat, err);
    if (st == KRAFLA_OK)
        st =
            read_ids(j, 0, "stop_ids", KR_MAX_STOP_IDS, m->vocab, m->stop_ids, &m->n_stop_ids, err);
    if (st == KRAFLA_OK)
        st = check_sampling(j, err);
    return st == KRAFLA_OK ? check_provenance(j, err) : st;
}

/* Everything, from the checked envelope in m->file. */
static krafla_status parse(struct kr_mlb *m, krafla_error *err)
{
    const struct kr_json *j = &m->file.json;
    size_t arch = 0, table = 0;
    struct options o = {0};
    krafla_status st = kr_json_member(j, 0, "arch", KR_JSON_OBJECT, &arch, err);
    if (st == KRAFLA_OK)
        st = parse_arch(m, arch, &o, err);
    if (st == KRAFLA_OK)
        st = parse_names(m, err);
    if (st == KRAFLA_OK)
        st = kr_json_member(j, 0, "tensors", KR_JSON_ARRAY, &table, err);
    /* The header's size bounds the rows of the table, and so the layers to allocate. */
    if (st == KRAFLA_OK && j->values[table].count != count_tensors(m, &o))
        st = kr_fail(err, KRAFLA_E_FORMAT, "%s: tensors: expected %zu, found %u; " AGAIN, j->where,
                     count_tensors(m, &o), (unsigned)j->values[table].count);
    if (st == KRAFLA_OK)
        st = parse_layers(m, arch, &o, err);
    if (st == KRAFLA_OK)
        st = parse_tensors(m, table, &o, err);
    return st;
}

krafla_status kr_mlb_parse(struct kr_mlb *m, krafla_error *err)
{
    const krafla_status st = kr_fail_hint(err, parse(m, err), AGAIN);
    if (st != KRAFLA_OK) {
        kr_mlb_close(m);
        return st;
    }
    kr_json_free(&m->file.json);
    return KRAFLA_OK;
}

krafla_status kr_mlb_open(struct kr_mlb *m, const char *path, krafla_error *err)
{
    *m = (struct kr_mlb){0};
    const krafla_status st = kr_envelope_open(&m->file, path, "mlb", err);
    return st == KRAFLA_OK ? kr_mlb_parse(m, err) : st;
}

void kr_mlb_close(struct kr_mlb *m)
{
    free(m->layers);
    kr_envelope_close(&m->file);
    *m = (struct kr_mlb){0};
}
