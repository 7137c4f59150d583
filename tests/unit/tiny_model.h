/* tiny_model.h - writes a small random model file for unit tests that need a whole one.
 *
 * Grouped heads, q8 and q4 matrices, odd numbers of rows and blocks.  The plain
 * one has a sliding window in layer 1; others have what struct tiny_arch says.
 * SPDX-License-Identifier: MIT */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sha256.h"

enum {
    TINY_DIM = 96, /* 3 blocks: an odd number is padded by packing */
    TINY_HIDDEN = 160,
    TINY_LAYERS = 2,
    TINY_HEADS = 4,
    TINY_KV_HEADS = 2,
    TINY_HEAD_DIM = 24,
    TINY_VOCAB = 77,
    TINY_MAX_SEQ = 1200, /* three segments */
    TINY_K_HEADS = 2,    /* of linear layers */
    TINY_V_HEADS = 4,
    TINY_K_DIM = 20,
    TINY_V_DIM = 24,
    TINY_TAPS = 4,
    TINY_DATA_CAP = 1 << 19,
    TINY_HEAD_CAP = 1 << 14,
};

struct tiny_file {
    uint8_t data[TINY_DATA_CAP];
    size_t data_bytes;
    char head[TINY_HEAD_CAP];
    size_t head_bytes;
    uint32_t random;
    size_t tensors;
};

/* Lists of layers are the insides of JSON arrays. */
struct tiny_arch {
    int layers;
    const char *linear, *local, *no_rope;
    int window, rotary;
    const char *rope_scale, *logit_cap, *attn_cap;
    int qkv_bias, attn_gate, qk_norm, post_norms;
};

static const struct tiny_arch tiny_plain = {.layers = TINY_LAYERS,
                                            .linear = "",
                                            .local = "1",
                                            .no_rope = "",
                                            .window = 600,
                                            .rotary = TINY_HEAD_DIM,
                                            .rope_scale = "1",
                                            .logit_cap = "0",
                                            .attn_cap = "0"};

/* Every option of attention, and two linear layers before it. */
static const struct tiny_arch tiny_hybrid = {.layers = 4,
                                             .linear = "0,1",
                                             .local = "3",
                                             .no_rope = "2",
                                             .window = 50,
                                             .rotary = 8,
                                             .rope_scale = "1.25",
                                             .logit_cap = "2.5",
                                             .attn_cap = "3",
                                             .qkv_bias = 1,
                                             .attn_gate = 1,
                                             .qk_norm = 1,
                                             .post_norms = 1};

/* One linear layer and nothing else. */
static const struct tiny_arch tiny_linear_only = {.layers = 1,
                                                  .linear = "0",
                                                  .local = "",
                                                  .no_rope = "",
                                                  .rotary = 2,
                                                  .rope_scale = "1",
                                                  .logit_cap = "0",
                                                  .attn_cap = "0"};

static uint32_t tiny_random(struct tiny_file *f)
{
    f->random = f->random * 1664525u + 1013904223u;
    return f->random >> 8;
}

static void tiny_text(struct tiny_file *f, const char *text)
{
    const size_t n = strlen(text);
    memcpy(f->head + f->head_bytes, text, n);
    f->head_bytes += n;
}

/* The table's line; the data begins at the next multiple of 64. */
static void tiny_entry(struct tiny_file *f, const char *name, const char *type, size_t bytes,
                       size_t rows, size_t k)
{
    char line[256], shape[64];
    f->data_bytes = (f->data_bytes + 63) / 64 * 64;
    if (rows)
        snprintf(shape, sizeof shape, "%zu,%zu", rows, k);
    else
        snprintf(shape, sizeof shape, "%zu", k);
    snprintf(line, sizeof line,
             "%s{\"bytes\":%zu,\"name\":\"%s\",\"offset\":%zu,\"shape\":[%s],\"type\":\"%s\"}",
             f->tensors++ ? "," : "", bytes, name, f->data_bytes, shape, type);
    tiny_text(f, line);
}

/* n floats of exponent value around `value`, an f32 tensor. */
static void tiny_vector(struct tiny_file *f, const char *name, size_t n, float value, float spread)
{
    tiny_entry(f, name, "f32", n * sizeof(float), 0, n);
    for (size_t i = 0; i < n; i++) {
        const float v = value + spread * (float)(tiny_random(f) % 1000) / 1000.0f;
        memcpy(f->data + f->data_bytes, &v, sizeof v);
        f->data_bytes += sizeof v;
    }
}

/* Random blocks with f16 scales near 2^-8 (q8) and 2^-4 (q4). */
static void tiny_matrix(struct tiny_file *f, const char *name, size_t rows, size_t k, int q8)
{
    const size_t bytes = q8 ? 34 : 18;
    tiny_entry(f, name, q8 ? "q8_0" : "q4_0", rows * (k / 32) * bytes, rows, k);
    for (size_t b = 0; b < rows * (k / 32); b++) {
        uint8_t *block = f->data + f->data_bytes;
        block[0] = (uint8_t)tiny_random(f);
        block[1] = q8 ? 0x1c : 0x2c;
        for (size_t i = 2; i < bytes; i++) {
            block[i] = (uint8_t)tiny_random(f);
            if (q8 && block[i] == 0x80)
                block[i] = 0;
        }
        f->data_bytes += bytes;
    }
}

/* A tensor of a layer: a matrix, or a vector if rows is 0. */
static void tiny_part(struct tiny_file *f, int layer, const char *part, size_t rows, size_t k,
                      int q8)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.%s", layer, part);
    if (rows)
        tiny_matrix(f, name, rows, k, q8);
    else
        tiny_vector(f, name, k, part[0] == 'b' ? -0.5f : 0.5f, 1.0f); /* biases of both signs */
}

static void tiny_attention(struct tiny_file *f, int layer, const struct tiny_arch *a)
{
    const size_t q_dim = TINY_HEADS * TINY_HEAD_DIM, kv_dim = TINY_KV_HEADS * TINY_HEAD_DIM;
    tiny_part(f, layer, "wq", q_dim, TINY_DIM, 0);
    tiny_part(f, layer, "wk", kv_dim, TINY_DIM, 1);
    tiny_part(f, layer, "wv", kv_dim, TINY_DIM, 1);
    if (a->qkv_bias) {
        tiny_part(f, layer, "bq", 0, q_dim, 0);
        tiny_part(f, layer, "bk", 0, kv_dim, 0);
        tiny_part(f, layer, "bv", 0, kv_dim, 0);
    }
    if (a->attn_gate)
        tiny_part(f, layer, "wg", q_dim, TINY_DIM, 1);
    if (a->qk_norm) {
        tiny_part(f, layer, "q_norm", 0, TINY_HEAD_DIM, 0);
        tiny_part(f, layer, "k_norm", 0, TINY_HEAD_DIM, 0);
    }
    tiny_part(f, layer, "wo", TINY_DIM, q_dim, 0);
}

static void tiny_linear_layer(struct tiny_file *f, int layer)
{
    const size_t values = TINY_V_HEADS * TINY_V_DIM;
    const size_t channels = 2 * TINY_K_HEADS * TINY_K_DIM + values;
    tiny_part(f, layer, "wqkv", channels, TINY_DIM, 0);
    tiny_part(f, layer, "wz", values, TINY_DIM, 0);
    tiny_part(f, layer, "wb", TINY_V_HEADS, TINY_DIM, 1);
    tiny_part(f, layer, "wa", TINY_V_HEADS, TINY_DIM, 1);
    tiny_part(f, layer, "conv", 0, TINY_TAPS * channels, 0);
    tiny_part(f, layer, "dt_bias", 0, TINY_V_HEADS, 0);
    tiny_part(f, layer, "decay_rate", 0, TINY_V_HEADS, 0);
    tiny_part(f, layer, "delta_norm", 0, TINY_V_DIM, 0);
    tiny_part(f, layer, "wo", TINY_DIM, values, 0);
}

static void tiny_layer(struct tiny_file *f, int layer, const struct tiny_arch *a)
{
    tiny_part(f, layer, "attn_norm", 0, TINY_DIM, 0);
    if (strchr(a->linear, '0' + layer))
        tiny_linear_layer(f, layer);
    else
        tiny_attention(f, layer, a);
    if (a->post_norms)
        tiny_part(f, layer, "attn_post_norm", 0, TINY_DIM, 0);
    tiny_part(f, layer, "ffn_norm", 0, TINY_DIM, 0);
    tiny_part(f, layer, "gate", TINY_HIDDEN, TINY_DIM, 0);
    tiny_part(f, layer, "up", TINY_HIDDEN, TINY_DIM, 0);
    tiny_part(f, layer, "down", TINY_DIM, TINY_HIDDEN, 1);
    if (a->post_norms)
        tiny_part(f, layer, "ffn_post_norm", 0, TINY_DIM, 0);
}

static const char *tiny_bool(int value)
{
    return value ? "true" : "false";
}

static void tiny_arch_text(struct tiny_file *f, const struct tiny_arch *a)
{
    char text[2048];
    const int any = a->linear[0] != 0;
    snprintf(text, sizeof text,
             "{\"arch\":{\"activation\":\"silu\",\"attn_cap\":%s,\"attn_gate\":%s,"
             "\"attn_scale\":0.2,\"conv_taps\":%d,\"dim\":%d,\"embed_scale\":1,"
             "\"family\":\"llama\",\"head_dim\":%d,\"hidden_dim\":%d,\"linear_k_dim\":%d,"
             "\"linear_k_heads\":%d,\"linear_layers\":[%s],\"linear_v_dim\":%d,"
             "\"linear_v_heads\":%d,\"local_layers\":[%s],\"local_rope\":false,"
             "\"logit_cap\":%s,\"max_seq\":%d,\"n_heads\":%d,\"n_kv_heads\":%d,"
             "\"n_layers\":%d,\"no_rope_layers\":[%s],\"norm_eps\":1e-5,\"post_norms\":%s,"
             "\"qk_norm\":%s,\"qkv_bias\":%s,\"rope_scale\":%s,\"rotary_dim\":%d,"
             "\"tied\":false,\"vocab\":%d,\"window\":%d},\"chat\":null,",
             a->attn_cap, tiny_bool(a->attn_gate), any ? TINY_TAPS : 0, TINY_DIM, TINY_HEAD_DIM,
             TINY_HIDDEN, any ? TINY_K_DIM : 0, any ? TINY_K_HEADS : 0, a->linear,
             any ? TINY_V_DIM : 0, any ? TINY_V_HEADS : 0, a->local, a->logit_cap, TINY_MAX_SEQ,
             TINY_HEADS, TINY_KV_HEADS, a->layers, a->no_rope, tiny_bool(a->post_norms),
             tiny_bool(a->qk_norm), tiny_bool(a->qkv_bias), a->rope_scale, a->rotary, TINY_VOCAB,
             a->window);
    tiny_text(f, text);
}

/* Everything but the frame. */
static void tiny_build_as(struct tiny_file *f, uint32_t seed, const struct tiny_arch *a)
{
    memset(f, 0, sizeof *f);
    f->random = seed;
    tiny_arch_text(f, a);
    tiny_text(f, "\"format\":\"mlb\",\"min_version\":\"0.1.0\",\"name\":\"tiny\","
                 "\"provenance\":{},\"sampling\":{},\"stop_ids\":[],\"tensors\":[");
    tiny_matrix(f, "embed", TINY_VOCAB, TINY_DIM, 1);
    tiny_vector(f, "rope_freq", (size_t)a->rotary / 2, 0.1f, 0.5f);
    for (int layer = 0; layer < a->layers; layer++)
        tiny_layer(f, layer, a);
    tiny_vector(f, "out_norm", TINY_DIM, 0.5f, 1.0f);
    tiny_matrix(f, "classifier", TINY_VOCAB, TINY_DIM, 0);
}

static inline void tiny_build(struct tiny_file *f, uint32_t seed)
{
    tiny_build_as(f, seed, &tiny_plain);
}

/* Where the tensor's data begins. */
static inline uint8_t *tiny_data(struct tiny_file *f, const char *name)
{
    char entry[128];
    snprintf(entry, sizeof entry, "\"%s\",\"offset\":", name);
    return f->data + strtoul(strstr(f->head, entry) + strlen(entry), NULL, 10);
}

/* All bytes of a matrix, its scales too, become 0, if there is one of this name. */
static inline void tiny_zero(struct tiny_file *f, const char *name)
{
    char entry[128];
    snprintf(entry, sizeof entry, "\"name\":\"%s\"", name);
    const char *at = strstr(f->head, entry);
    if (!at)
        return;
    while (*at != '{')
        at--;
    memset(tiny_data(f, name), 0, strtoul(at + strlen("{\"bytes\":"), NULL, 10));
}

/* Frame and all to path.  The header ends with the keys that depend on the data. */
static int tiny_write(struct tiny_file *f, const char *path)
{
    struct kr_sha256 h;
    char sha256[65], tail[256];
    kr_sha256_begin(&h);
    kr_sha256_add(&h, f->data, f->data_bytes);
    kr_sha256_end(&h, sha256);
    /* file_bytes has as many digits as its place holder, so the length is known before. */
    const char *form = "],\"data_bytes\":%zu,\"data_sha256\":\"%s\",\"file_bytes\":%6zu}";
    const size_t head =
        f->head_bytes + (size_t)snprintf(tail, sizeof tail, form, f->data_bytes, sha256, (size_t)0);
    const size_t start = (16 + head + 63) / 64 * 64;
    snprintf(tail, sizeof tail, form, f->data_bytes, sha256, start + f->data_bytes);

    uint8_t frame[16] = {0x89, 'M', 'L', 'B', '\r', '\n', 0x1a, '\n', 1};
    for (int i = 0; i < 4; i++)
        frame[12 + i] = (uint8_t)(head >> 8 * i);
    static const uint8_t zero[64];
    FILE *out = fopen(path, "wb");
    if (!out)
        return 0;
    fwrite(frame, 1, sizeof frame, out);
    fwrite(f->head, 1, f->head_bytes, out);
    fputs(tail, out);
    fwrite(zero, 1, start - 16 - head, out);
    fwrite(f->data, 1, f->data_bytes, out);
    return fclose(out) == 0;
}

/* The logits of two sessions, bit for bit. */
static inline int tiny_same(const float *a, const float *b)
{
    return a && b && memcmp(a, b, TINY_VOCAB * sizeof *a) == 0;
}

/* A temporary file of this process: out[cap] = "/tmp/krafla-unit-PID-name". */
static void tiny_path(char *out, size_t cap, const char *name)
{
    const char *dir = getenv("TMPDIR");
    snprintf(out, cap, "%s/krafla-unit-%ld-%s", dir && *dir ? dir : "/tmp", (long)getpid(), name);
}

#endif
