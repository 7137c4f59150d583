/* mlb.c - from the header of a model file to checked C structures.
 *
 * The tensors are mlb_tensors.c.
 * SPDX-License-Identifier: MIT */
#include "mlb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AGAIN "download or convert it again"

enum {
    SHOWN = 40,        /* bytes of a wrong value shown in a message */
    LAYER_TENSORS = 9, /* of a layer at least */
};

/* Of a positive number in `arch`: what the header's decimals can express. */
static const double least = 1e-22, most = 1e37;

/* ---- single values ------------------------------------------------------------------------- */

static krafla_status read_i32(const struct kr_json *j, size_t object, const char *key, int64_t min,
                              int64_t max, int32_t *out, krafla_error *err)
{
    int64_t v = 0;
    const krafla_status st = kr_json_int(j, object, key, min, max, &v, err);
    *out = (int32_t)v;
    return st;
}

static krafla_status read_f32(const struct kr_json *j, size_t object, const char *key, double min,
                              double max, float *out, krafla_error *err)
{
    double v = 0;
    const krafla_status st = kr_json_double(j, object, key, min, max, &v, err);
    *out = (float)v;
    return st;
}

/* The index of the string at key in a NULL-terminated list of words. */
static krafla_status read_word(const struct kr_json *j, size_t object, const char *key,
                               const char *const *words, int *out, krafla_error *err)
{
    char word[16], list[128] = "";
    const krafla_status st = kr_json_string(j, object, key, word, sizeof word, err);
    if (st != KRAFLA_OK)
        return st;
    size_t used = 0;
    for (*out = 0; words[*out]; ++*out) {
        if (strcmp(word, words[*out]) == 0)
            return KRAFLA_OK;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", used ? ", " : "",
                                 words[*out]);
    }
    return kr_fail(err, KRAFLA_E_FORMAT, "%s: %s: expected one of %s, found \"%s\"; " AGAIN,
                   j->where, key, list, word);
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

/* ---- the architecture ---------------------------------------------------------------------- */

static krafla_status parse_numbers(struct kr_mlb *m, size_t arch, krafla_error *err)
{
    const struct {
        const char *key;
        int32_t min, max;
        int32_t *out;
    } sizes[] = {
        {"dim", 1, KR_MAX_WIDTH, &m->dim},
        {"hidden_dim", 1, KR_MAX_WIDTH, &m->hidden_dim},
        {"n_layers", 1, KR_MAX_WIDTH, &m->n_layers},
        {"n_heads", 1, KR_MAX_WIDTH, &m->n_heads},
        {"n_kv_heads", 1, KR_MAX_WIDTH, &m->n_kv_heads},
        {"head_dim", 1, KR_MAX_WIDTH, &m->head_dim},
        {"rotary_dim", 2, KR_MAX_WIDTH, &m->rotary_dim},
        {"vocab", 1, KR_MAX_VOCAB, &m->vocab},
        {"max_seq", 1, KR_MAX_VOCAB, &m->max_seq},
        {"window", 0, KR_MAX_VOCAB, &m->window},
    };
    const struct {
        const char *key;
        double min;
        float *out;
    } numbers[] = {
        {"norm_eps", least, &m->norm_eps},       {"attn_scale", least, &m->attn_scale},
        {"embed_scale", least, &m->embed_scale}, {"rope_scale", least, &m->rope_scale},
        {"attn_cap", 0, &m->attn_cap},           {"logit_cap", 0, &m->logit_cap},
    };
    const struct kr_json *j = &m->file.json;
    krafla_status st = KRAFLA_OK;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && st == KRAFLA_OK; i++)
        st = read_i32(j, arch, sizes[i].key, sizes[i].min, sizes[i].max, sizes[i].out, err);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && st == KRAFLA_OK; i++)
        st = read_f32(j, arch, numbers[i].key, numbers[i].min, most, numbers[i].out, err);
    return st;
}

static krafla_status parse_choices(struct kr_mlb *m, size_t arch, krafla_error *err)
{
    static const char *const families[] = {"llama",   "mistral", "qwen2",  "qwen3", "qwen3_5",
                                           "smollm3", "gemma2",  "gemma3", NULL};
    static const char *const activations[] = {"silu", "gelu_tanh", NULL};
    const struct {
        const char *key;
        bool *out;
    } flags[] = {
        {"tied", &m->tied},         {"qk_norm", &m->qk_norm},     {"post_norms", &m->post_norms},
        {"qkv_bias", &m->qkv_bias}, {"attn_gate", &m->attn_gate}, {"local_rope", &m->local_rope},
    };
    const struct kr_json *j = &m->file.json;
    int family, activation = 0;
    krafla_status st = read_word(j, arch, "family", families, &family, err);
    if (st == KRAFLA_OK)
        st = read_word(j, arch, "activation", activations, &activation, err);
    m->activation = activation ? KR_GELU_TANH : KR_SILU;
    for (size_t i = 0; i < sizeof flags / sizeof *flags && st == KRAFLA_OK; i++)
        st = kr_json_bool(j, arch, flags[i].key, flags[i].out, err);
    return st;
}

/* A product of sizes: a multiple of `step`, and a width itself. */
static krafla_status check_width(const struct kr_mlb *m, const char *what, int64_t value,
                                 int32_t step, krafla_error *err)
{
    if (value % step || value > KR_MAX_WIDTH)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: %s is %lld, expected a multiple of %d up to %d; " AGAIN,
                       m->file.json.where, what, (long long)value, step, KR_MAX_WIDTH);
    return KRAFLA_OK;
}

/* One size has to be a multiple of another. */
static krafla_status check_multiple(const struct kr_mlb *m, const char *what, int32_t value,
                                    const char *of, int32_t divisor, krafla_error *err)
{
    if (value % divisor)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: %s %d is not a multiple of %s %d; " AGAIN,
                       m->file.json.where, what, value, of, divisor);
    return KRAFLA_OK;
}

/* What two or more keys must agree on. */
static krafla_status check_shapes(const struct kr_mlb *m, krafla_error *err)
{
    const int64_t q_dim = (int64_t)m->n_heads * m->head_dim;
    krafla_status st;
    if ((st = check_width(m, "dim", m->dim, KERN_BLOCK, err)) ||
        (st = check_width(m, "hidden_dim", m->hidden_dim, KERN_BLOCK, err)) ||
        (st = check_width(m, "n_heads * head_dim", q_dim, KERN_BLOCK, err)) ||
        (st = check_multiple(m, "n_heads", m->n_heads, "n_kv_heads", m->n_kv_heads, err)))
        return st;
    if (m->head_dim % 2)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: head_dim is %d, expected an even number; " AGAIN,
                       m->file.json.where, m->head_dim);
    if (m->rotary_dim % 2 || m->rotary_dim > m->head_dim)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: rotary_dim is %d, expected an even number up to head_dim %d; " AGAIN,
                       m->file.json.where, m->rotary_dim, m->head_dim);
    return KRAFLA_OK;
}

/* The sizes of linear layers: all there, or, without such layers, all 0. */
static krafla_status parse_linear(struct kr_mlb *m, size_t arch, krafla_error *err)
{
    struct kr_linear *l = &m->linear;
    const bool any = m->n_linear > 0;
    const int32_t min = any ? 1 : 0, max = any ? KR_MAX_WIDTH : 0;
    const struct kr_json *j = &m->file.json;
    krafla_status st;
    if ((st = read_i32(j, arch, "linear_k_heads", min, max, &l->k_heads, err)) ||
        (st = read_i32(j, arch, "linear_v_heads", min, max, &l->v_heads, err)) ||
        (st = read_i32(j, arch, "linear_k_dim", min, max, &l->k_dim, err)) ||
        (st = read_i32(j, arch, "linear_v_dim", min, max, &l->v_dim, err)) ||
        (st = read_i32(j, arch, "conv_taps", any ? 2 : 0, any ? KR_MAX_TAPS : 0, &l->taps, err)) ||
        !any)
        return st;
    const int64_t keys = (int64_t)l->k_heads * l->k_dim, values = (int64_t)l->v_heads * l->v_dim;
    if ((st = check_multiple(m, "linear_v_heads", l->v_heads, "linear_k_heads", l->k_heads, err)) ||
        (st = check_width(m, "linear_v_heads * linear_v_dim", values, KERN_BLOCK, err)) ||
        (st = check_width(m, "linear_k_heads * linear_k_dim", keys, 1, err)) ||
        (st = check_width(m, "linear queries, keys and values", 2 * keys + values, 1, err)))
        return st;
    l->keys = (int32_t)keys;
    l->values = (int32_t)values;
    l->channels = (int32_t)(2 * keys + values);
    return KRAFLA_OK;
}

/* ---- which layers are special ------------------------------------------------------------------ */

/* The ascending list at key into layers[n_layers]. */
static krafla_status read_layers(const struct kr_mlb *m, size_t arch, const char *key,
                                 int32_t *layers, size_t *n, krafla_error *err)
{
    const struct kr_json *j = &m->file.json;
    const krafla_status st =
        read_ids(j, arch, key, (size_t)m->n_layers, m->n_layers, layers, n, err);
    for (size_t i = 1; i < *n && st == KRAFLA_OK; i++)
        if (layers[i - 1] >= layers[i])
            return kr_fail(err, KRAFLA_E_FORMAT, "%s: %s are not in ascending order; " AGAIN,
                           j->where, key);
    return st;
}

/* Mark the layers of each list; list: room for n_layers. */
static krafla_status mark_layers(struct kr_mlb *m, size_t arch, int32_t *list, krafla_error *err)
{
    const char *const where = m->file.json.where;
    size_t linear = 0, local = 0, no_rope = 0;
    krafla_status st = read_layers(m, arch, "linear_layers", list, &linear, err);
    for (size_t i = 0; i < linear && st == KRAFLA_OK; i++)
        m->layers[list[i]].linear = true;
    if (st == KRAFLA_OK)
        st = read_layers(m, arch, "local_layers", list, &local, err);
    for (size_t i = 0; i < local && st == KRAFLA_OK; i++)
        m->layers[list[i]].local = true;
    if (st == KRAFLA_OK)
        st = read_layers(m, arch, "no_rope_layers", list, &no_rope, err);
    for (size_t i = 0; i < no_rope && st == KRAFLA_OK; i++)
        m->layers[list[i]].rope = false;
    if (st != KRAFLA_OK)
        return st;
    for (int32_t i = 0; i < m->n_layers; i++) {
        struct kr_layer *l = &m->layers[i];
        if (l->linear && (l->local || !l->rope))
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: layer %d is in linear_layers and in %s; " AGAIN, where, i,
                           l->local ? "local_layers" : "no_rope_layers");
        l->index = (uint32_t)(l->linear ? m->n_linear++ : m->n_attention++);
    }
    if ((local > 0) != (m->window > 0))
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: window is %d with %zu local layers; " AGAIN,
                       where, m->window, local);
    if (m->local_rope && local == 0)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: local_rope without local layers; " AGAIN, where);
    return KRAFLA_OK;
}

static krafla_status parse_layers(struct kr_mlb *m, size_t arch, krafla_error *err)
{
    const size_t n = (size_t)m->n_layers;
    m->layers = calloc(n, sizeof *m->layers);
    int32_t *list = malloc(n * sizeof *list);
    krafla_status st;
    if (m->layers && list) {
        for (size_t i = 0; i < n; i++)
            m->layers[i].rope = true;
        st = mark_layers(m, arch, list, err);
    } else {
        st = kr_fail(err, KRAFLA_E_MEMORY, "out of memory for %zu layers of %s", n,
                     m->file.json.where);
    }
    free(list);
    return st;
}

/* Everything in `arch`; the table of tensors tells how many layers there can be. */
static krafla_status parse_arch(struct kr_mlb *m, size_t arch, size_t table, krafla_error *err)
{
    static const char *const keys[] = {"family",
                                       "dim",
                                       "hidden_dim",
                                       "n_layers",
                                       "n_heads",
                                       "n_kv_heads",
                                       "head_dim",
                                       "vocab",
                                       "max_seq",
                                       "norm_eps",
                                       "attn_scale",
                                       "embed_scale",
                                       "attn_cap",
                                       "logit_cap",
                                       "activation",
                                       "window",
                                       "tied",
                                       "qk_norm",
                                       "post_norms",
                                       "local_layers",
                                       "local_rope",
                                       "qkv_bias",
                                       "attn_gate",
                                       "rotary_dim",
                                       "rope_scale",
                                       "no_rope_layers",
                                       "linear_layers",
                                       "linear_k_heads",
                                       "linear_v_heads",
                                       "linear_k_dim",
                                       "linear_v_dim",
                                       "conv_taps",
                                       NULL};
    const struct kr_json *j = &m->file.json;
    krafla_status st;
    if ((st = kr_json_only(j, arch, "arch", keys, err)) || (st = parse_numbers(m, arch, err)) ||
        (st = parse_choices(m, arch, err)) || (st = check_shapes(m, err)))
        return st;
    if (j->values[table].count / LAYER_TENSORS < (uint32_t)m->n_layers)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: tensors: expected %d or more in each of %d layers, found %u; " AGAIN,
                       j->where, LAYER_TENSORS, m->n_layers, (unsigned)j->values[table].count);
    st = parse_layers(m, arch, err);
    return st == KRAFLA_OK ? parse_linear(m, arch, err) : st;
}

/* ---- the rest of the header ---------------------------------------------------------------- */

static krafla_status parse_sampling(struct kr_mlb *m, krafla_error *err)
{
    static const char *const keys[] = {"temperature", "top_p",          "min_p",
                                       "top_k",       "repeat_penalty", NULL};
    const struct {
        const char *key;
        double min, max;
        float *out;
    } numbers[] = {
        {"temperature", 0, 100, &m->sampling.temperature},
        {"top_p", 0, 1, &m->sampling.top_p},
        {"min_p", 0, 1, &m->sampling.min_p},
        {"repeat_penalty", 0.01, 100, &m->sampling.repeat_penalty},
    };
    const struct kr_json *j = &m->file.json;
    m->sampling = (struct kr_sampling){.repeat_penalty = 1.0f};
    size_t o;
    krafla_status st = kr_json_member(j, 0, "sampling", KR_JSON_OBJECT, &o, err);
    if (st == KRAFLA_OK)
        st = kr_json_only(j, o, "sampling", keys, err);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && st == KRAFLA_OK; i++)
        if (kr_json_find(j, o, numbers[i].key) >= 0)
            st =
                read_f32(j, o, numbers[i].key, numbers[i].min, numbers[i].max, numbers[i].out, err);
    if (st == KRAFLA_OK && kr_json_find(j, o, "top_k") >= 0)
        st = read_i32(j, o, "top_k", 0, KR_MAX_VOCAB, &m->sampling.top_k, err);
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
        st = parse_sampling(m, err);
    return st == KRAFLA_OK ? check_provenance(j, err) : st;
}

/* Everything, from the checked envelope in m->file. */
static krafla_status parse(struct kr_mlb *m, krafla_error *err)
{
    const struct kr_json *j = &m->file.json;
    size_t arch = 0, table = 0;
    krafla_status st = kr_json_member(j, 0, "arch", KR_JSON_OBJECT, &arch, err);
    if (st == KRAFLA_OK)
        st = kr_json_member(j, 0, "tensors", KR_JSON_ARRAY, &table, err);
    if (st == KRAFLA_OK)
        st = parse_arch(m, arch, table, err);
    if (st == KRAFLA_OK)
        st = parse_names(m, err);
    return st == KRAFLA_OK ? kr_mlb_parse_tensors(m, table, err) : st;
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
