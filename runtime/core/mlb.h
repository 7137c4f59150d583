/* mlb.h - the .mlb file as checked C structures (docs/format-mlb.md).
 *
 * kr_mlb_open validates everything the header says before anything is used:
 * every hyper-parameter in its range, every tensor that the architecture needs
 * there once with the right type, shape, offset and size, none besides.
 * SPDX-License-Identifier: MIT */
#ifndef KR_MLB_H
#define KR_MLB_H

#include "envelope.h"
#include "kernels.h"

enum {
    KR_MAX_WIDTH = 65536,   /* dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim */
    KR_MAX_VOCAB = 1 << 24, /* vocab and max_seq */
    KR_MAX_STOP_IDS = 16,
    KR_NAME_CAP = 128,
};

enum kr_activation { KR_SILU = 0, KR_GELU_TANH = 1 };

/* f32 vectors point into the map (4-byte aligned there, as offsets are multiples of 64). */
struct kr_layer {
    struct kern_matrix wq, wk, wv, wo; /* [n_heads*head_dim][dim] ... [dim][n_heads*head_dim] */
    struct kern_matrix gate, up, down; /* [hidden_dim][dim] x2, [dim][hidden_dim] */
    const float *attn_norm, *ffn_norm; /* [dim] */
    const float *q_norm, *k_norm;      /* [head_dim] or NULL */
    const float *attn_post_norm, *ffn_post_norm; /* [dim] or NULL */
    bool local; /* sliding window, and the second RoPE base if there is one */
};

struct kr_mlb {
    struct kr_envelope file; /* its JSON is freed */
    char name[KR_NAME_CAP], chat[KR_NAME_CAP];
    int32_t vocab, dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, max_seq;
    int32_t window; /* positions a local layer sees, 0: no local layer */
    enum kr_activation activation;
    float norm_eps, embed_scale, attn_scale, attn_cap, logit_cap; /* caps: 0 = none */
    int32_t stop_ids[KR_MAX_STOP_IDS];
    size_t n_stop_ids;
    struct kern_matrix embed, classifier; /* classifier equals embed if tied */
    bool tied;
    const float *out_norm;        /* [dim] */
    const float *rope_freq;       /* [head_dim/2] radians per position and pair */
    const float *rope_freq_local; /* the same for local layers, or NULL: rope_freq */
    struct kr_layer *layers;      /* [n_layers] */
};

krafla_status kr_mlb_open(struct kr_mlb *m, const char *path, krafla_error *err);
/* The second half of kr_mlb_open: m is zero but for the checked envelope m->file.  On return its
 * JSON is freed; on failure everything is. */
krafla_status kr_mlb_parse(struct kr_mlb *m, krafla_error *err);
void kr_mlb_close(struct kr_mlb *m);

#endif
