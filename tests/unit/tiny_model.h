/* tiny_model.h - writes a small random model file for unit tests that need a whole one.
 *
 * Two layers, grouped heads, a sliding window in layer 1, q8 and q4 matrices, odd
 * numbers of rows and blocks.
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
    TINY_DATA_CAP = 1 << 18,
    TINY_HEAD_CAP = 1 << 13,
};

struct tiny_file {
    uint8_t data[TINY_DATA_CAP];
    size_t data_bytes;
    char head[TINY_HEAD_CAP];
    size_t head_bytes;
    uint32_t random;
    size_t tensors;
};

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

static void tiny_layer(struct tiny_file *f, int layer)
{
    const struct {
        const char *name;
        size_t rows, k;
        int q8;
    } parts[] = {
        {"attn_norm", 0, TINY_DIM, 0},
        {"wq", TINY_HEADS * TINY_HEAD_DIM, TINY_DIM, 0},
        {"wk", TINY_KV_HEADS * TINY_HEAD_DIM, TINY_DIM, 1},
        {"wv", TINY_KV_HEADS * TINY_HEAD_DIM, TINY_DIM, 1},
        {"wo", TINY_DIM, TINY_HEADS * TINY_HEAD_DIM, 0},
        {"ffn_norm", 0, TINY_DIM, 0},
        {"gate", TINY_HIDDEN, TINY_DIM, 0},
        {"up", TINY_HIDDEN, TINY_DIM, 0},
        {"down", TINY_DIM, TINY_HIDDEN, 1},
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char name[64];
        snprintf(name, sizeof name, "layers.%d.%s", layer, parts[i].name);
        if (parts[i].rows)
            tiny_matrix(f, name, parts[i].rows, parts[i].k, parts[i].q8);
        else
            tiny_vector(f, name, parts[i].k, 0.5f, 1.0f);
    }
}

/* Everything but the frame. */
static void tiny_build(struct tiny_file *f, uint32_t seed)
{
    memset(f, 0, sizeof *f);
    f->random = seed;
    char arch[1024];
    snprintf(arch, sizeof arch,
             "{\"arch\":{\"activation\":\"silu\",\"attn_cap\":0,\"attn_scale\":0.2,\"dim\":%d,"
             "\"embed_scale\":1,\"family\":\"llama\",\"head_dim\":%d,\"hidden_dim\":%d,"
             "\"local_layers\":[1],\"local_rope\":false,\"logit_cap\":0,\"max_seq\":%d,"
             "\"n_heads\":%d,\"n_kv_heads\":%d,\"n_layers\":%d,\"norm_eps\":1e-5,"
             "\"post_norms\":false,\"qk_norm\":false,\"tied\":false,\"vocab\":%d,\"window\":600},"
             "\"chat\":null,",
             TINY_DIM, TINY_HEAD_DIM, TINY_HIDDEN, TINY_MAX_SEQ, TINY_HEADS, TINY_KV_HEADS,
             TINY_LAYERS, TINY_VOCAB);
    tiny_text(f, arch);
    tiny_text(f, "\"format\":\"mlb\",\"min_version\":\"0.1.0\",\"name\":\"tiny\","
                 "\"provenance\":{},\"sampling\":{},\"stop_ids\":[],\"tensors\":[");
    tiny_matrix(f, "embed", TINY_VOCAB, TINY_DIM, 1);
    tiny_vector(f, "rope_freq", TINY_HEAD_DIM / 2, 0.1f, 0.5f);
    for (int layer = 0; layer < TINY_LAYERS; layer++)
        tiny_layer(f, layer);
    tiny_vector(f, "out_norm", TINY_DIM, 0.5f, 1.0f);
    tiny_matrix(f, "classifier", TINY_VOCAB, TINY_DIM, 0);
}

/* Where the tensor's data begins. */
static inline uint8_t *tiny_data(struct tiny_file *f, const char *name)
{
    char entry[128];
    snprintf(entry, sizeof entry, "\"%s\",\"offset\":", name);
    return f->data + strtoul(strstr(f->head, entry) + strlen(entry), NULL, 10);
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

/* A temporary file of this process: out[cap] = "/tmp/krafla-unit-PID-name". */
static void tiny_path(char *out, size_t cap, const char *name)
{
    const char *dir = getenv("TMPDIR");
    snprintf(out, cap, "%s/krafla-unit-%ld-%s", dir && *dir ? dir : "/tmp", (long)getpid(), name);
}

#endif
