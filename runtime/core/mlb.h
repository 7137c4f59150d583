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
    KR_MAX_WIDTH = 65536,   /* dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, linear_* */
    KR_MAX_VOCAB = 1 << 24, /* vocab and max_seq */
    KR_MAX_TAPS = 8,
    KR_MAX_STOP_IDS = 16,
    KR_NAME_CAP = 128,
    KR_LAYER_TENSORS = 17, /* of one layer at most */
};

enum kr_activation { KR_SILU = 0, KR_GELU_TANH = 1 };

/* f32 vectors point into the map (4-byte aligned there, as offsets are multiples of 64).  What a
 * layer does not have is zero. */
struct kr_layer {
    struct kern_matrix wq, wk, wv, wg; /* attention: [n_heads*head_dim][dim] ... */
    const float *bq, *bk, *bv;         /* as many as the matrix has rows */
    const float *q_norm, *k_norm;      /* [head_dim] */

    struct kern_matrix wqkv, wz, wb,
        wa;                            /* linear: [channels][dim] [values][dim] [v_heads][dim] x2 */
    const float *conv;                 /* [taps][channels] */
    const float *dt_bias, *decay_rate; /* [v_heads] */
    const float *delta_norm;           /* [v_dim] */

    struct kern_matrix wo;             /* [dim][n_heads*head_dim], linear: [dim][values] */
    struct kern_matrix gate, up, down; /* [hidden_dim][dim] x2, [dim][hidden_dim] */
    const float *attn_norm, *ffn_norm; /* [dim] */
    const float *attn_post_norm, *ffn_post_norm; /* [dim] */

    bool linear; /* the gated delta rule instead of attention */
    bool local;  /* sliding window, and the second RoPE base if there is one */
    bool rope;
    uint32_t index; /* among the attention layers, or among the linear ones */
};

/* Of all linear layers; zero if there is none. */
struct kr_linear {
    int32_t k_heads, v_heads, k_dim, v_dim, taps;
    int32_t keys, values, channels; /* k_heads*k_dim, v_heads*v_dim, 2*keys + values */
};

/* What generation_config recommends; what it does not mention is off. */
struct kr_sampling {
    float temperature, top_p, min_p, repeat_penalty;
    int32_t top_k;
};

struct kr_mlb {
    struct kr_envelope file; /* its JSON is freed */
    char name[KR_NAME_CAP], chat[KR_NAME_CAP];
    int32_t vocab, dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, max_seq;
    int32_t n_attention, n_linear; /* layers of each kind */
    int32_t rotary_dim;            /* first elements of a head that turn */
    int32_t window;                /* positions a local layer sees, 0: no local layer */
    enum kr_activation activation;
    float norm_eps, embed_scale, attn_scale, rope_scale, attn_cap, logit_cap; /* caps: 0 = none */
    bool tied, qk_norm, post_norms, qkv_bias, attn_gate, local_rope;
    struct kr_linear linear;
    struct kr_sampling sampling;
    int32_t stop_ids[KR_MAX_STOP_IDS];
    size_t n_stop_ids;
    struct kern_matrix embed, classifier; /* classifier equals embed if tied */
    const float *out_norm;                /* [dim] */
    const float *rope_freq;               /* [rotary_dim/2] radians per position and pair */
    const float *rope_freq_local;         /* the same for local layers, or NULL: rope_freq */
    struct kr_layer *layers;              /* [n_layers] */
};

/* One tensor of a layer: a matrix [rows][k], or, if matrix is NULL, a vector [k]. */
struct kr_tensor {
    const char *name; /* "wq" */
    struct kern_matrix *matrix;
    const float **vector;
    int32_t rows, k;
};

/* mlb_tensors.c: the tensors of this layer in the order of the file, which is that of use; returns
 * how many. */
size_t kr_mlb_layer_tensors(const struct kr_mlb *m, struct kr_layer *l,
                            struct kr_tensor out[KR_LAYER_TENSORS]);
/* mlb_tensors.c: check the table, a JSON array, against the architecture and the data, and set every
 * matrix and vector. */
krafla_status kr_mlb_parse_tensors(struct kr_mlb *m, size_t table, krafla_error *err);

krafla_status kr_mlb_open(struct kr_mlb *m, const char *path, krafla_error *err);
/* The second half of kr_mlb_open: m is zero but for the checked envelope m->file.  On return its
 * JSON is freed; on failure everything is. */
krafla_status kr_mlb_parse(struct kr_mlb *m, krafla_error *err);
void kr_mlb_close(struct kr_mlb *m);

#endif
