/* deltanet.h - linear layers: the gated delta rule, and the state it leaves for the next token.
 *
 * The state of all linear layers is one block of floats, so that a snapshot of
 * it is one copy (snapshots.h):
 *
 *     [layer]{ delta [v_heads][k_dim][v_dim16] | history [taps - 1][channels] | to a multiple of 16 }
 *
 * history holds the convolution's inputs of the last positions; that of position
 * p is row p mod (taps - 1).  All zero is the state before position 0.
 * SPDX-License-Identifier: MIT */
#ifndef KR_DELTANET_H
#define KR_DELTANET_H

#include "arena.h"
#include "mlb.h"

struct kr_forward;
struct kr_step;

struct kr_delta {
    float *state; /* NULL: the model has no linear layers */
    size_t state_floats;
    size_t head_floats, layer_floats; /* of it */
    size_t stride;                    /* floats of a token in f->qkv: channels, z, b, a */
    float *conv;                      /* [T][channels]      queries, keys and values convolved */
    float *gates;                     /* [T][2][v_heads]    decay and strength */
};

/* Sizes for this model, and the buffers of steps of T tokens (twice: see arena.h). */
void kr_delta_lay_out(struct kr_delta *d, const struct kr_mlb *m, struct kr_arena *a, size_t t);

/* Convolve, norm and gate token t of the step; f->qkv holds its products with wqkv, wz, wb, wa. */
void kr_delta_token(const struct kr_forward *f, const struct kr_step *s, const struct kr_layer *l,
                    size_t t);
/* After that of all tokens: move the state over them, outputs to f->att [T][values]. */
void kr_delta_mix(const struct kr_forward *f, const struct kr_step *s, const struct kr_layer *l);
/* Norm and gate token t's output; returns it, [values]. */
const float *kr_delta_output(const struct kr_forward *f, const struct kr_layer *l, size_t t);

#endif
