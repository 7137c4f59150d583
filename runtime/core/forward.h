/* forward.h - one step of the model: T tokens in, K and V stored, hidden states out.
 *
 * Owns the buffers of a step (in the session's arena) and the order of the
 * computation; the timeline belongs to session.c, every float operation to the
 * kernels.  No call here allocates.
 * SPDX-License-Identifier: MIT */
#ifndef KR_FORWARD_H
#define KR_FORWARD_H

#include "arena.h"
#include "deltanet.h"
#include "kvcache.h"
#include "model.h"
#include "threads.h"

enum {
    KR_LOGITS_COLS = 8, /* positions whose logits are computed at once on demand */
};

/* Where the time of a step goes: the members of krafla_profile, in their order. */
enum kr_stage {
    KR_STAGE_QKV,
    KR_STAGE_ATTENTION,
    KR_STAGE_WO,
    KR_STAGE_FFN,
    KR_STAGE_CLASSIFIER,
    KR_STAGE_OTHER,
    KR_STAGES
};

struct kr_forward {
    const struct kr_mlb *m;
    struct kr_pool *pool;
    struct kr_kvcache *kv;
    size_t batch;    /* most tokens of a step: T below */
    size_t segments; /* of the whole context */

    float *x; /* [T][dim]                residual stream */
    float *y; /* [T][dim]                output of wo and down; after a step: normed hidden state */
    float *qkv;   /* [T][qkv_stride]        q, k, v, gate; of a linear layer [T][delta.stride] */
    float *att;   /* [T][q_dim]             attention output; of a linear layer [T][values] */
    float *cs[2]; /* [T][rotary_dim]        RoPE angles: global and local base */
    float *sn[2];
    size_t qkv_stride;
    struct kr_delta delta;
    void *acts_x;      /* quantized, k = dim */
    void *acts_att;    /* k = q_dim or values */
    void *acts_hidden; /* k = hidden_dim */

    float *norm; /* [threads][dim]         a normed token on its way to acts_x */
    float *ffn;  /* [threads][ffn_stride]  gate and up rows of one chunk */
    size_t ffn_stride;

    /* attention.c: a slot is a token of a thread's group, or a KV head */
    uint8_t *attend; /* [threads][attend_stride]  scratch of kern_attend */
    float *part_o;   /* [slots][segments][group][head_dim] */
    float *part_ml;  /* [slots][segments][2][group] */
    size_t attend_stride, group_tokens;

    bool profile;
    double seconds[KR_STAGES];
    double mark; /* end of the last stage */
};

/* One step: tokens[0..cols) at positions pos.. */
struct kr_step {
    const int32_t *tokens;
    size_t cols, pos;
    /* Tokens from this one on need a hidden state after the last layer; cols if none does. */
    size_t first_needed;
};

/* Take the buffers from the arena (twice: see arena.h).  m, pool, kv and batch are set. */
void kr_forward_lay_out(struct kr_forward *f, struct kr_arena *a, size_t n_ctx);

/* Run the step: K and V of all its tokens are in the cache afterwards, and the normed hidden
 * state of token first_needed + i in row i of f->y.  KRAFLA_E_NUMERIC names the layer and the first
 * token that is not finite any more. */
krafla_status kr_forward_step(struct kr_forward *f, const struct kr_step *s, krafla_error *err);

/* logits[n][vocab] of rows [row, row + n) of f->y, n <= max(1, batch). */
void kr_forward_logits(struct kr_forward *f, size_t row, size_t n, float *logits);

/* attention.c: its buffers, as part of the above; segments is set. */
void kr_attention_lay_out(struct kr_forward *f, struct kr_arena *a);

/* attention.c: f->att[t] for tokens [first, cols) of the step; layer's K and V are stored. */
void kr_attention(struct kr_forward *f, const struct kr_step *s, size_t layer, size_t first);

#endif
