/* sampler_pick.h - what a sampler does to a whole vocabulary: find, weigh, choose, draw.
 *
 * The results depend on the numbers alone: every sum has a fixed order, and the
 * exponential is our own.  Nothing here can fail.
 * SPDX-License-Identifier: MIT */
#ifndef KR_SAMPLER_PICK_H
#define KR_SAMPLER_PICK_H

#include <stddef.h>
#include <stdint.h>

struct kr_candidate {
    float value; /* a logit, or a weight */
    int32_t id;
};

/* The index of the first of the largest of logits[0..n), or -1 if all are -infinity; or of the
 * first NaN or +infinity, and then *bad is 1, else 0. */
int32_t kr_pick_best(const float *logits, size_t n, int *bad);

/* weights[i] = e^x, x = (logits[i] - best) / temperature, with a relative error below
 * 2.5e-7 (1 + |x| / 2), where best is the largest logit; 0 where that leaves the normal floats.
 * The two may be one array.  Returns the sum of the weights. */
double kr_pick_weigh(float *weights, const float *logits, size_t n, float best, float temperature);

/* The indices of at least `least` into c [n]; their number. */
size_t kr_pick_heavy(struct kr_candidate *c, const float *weights, size_t n, float least);

/* The k largest into c [k], in any order; of equals the lower ids.  1 <= k <= n. */
void kr_pick_top_k(struct kr_candidate *c, size_t k, const float *logits, size_t n);

/* The heaviest of c[0..*n), as few as weigh at least `target` together, of equals the lower ids:
 * moved to the end of c, where the result points; *n is their number.  Weights are in [0, 1]. */
struct kr_candidate *kr_pick_top_p(struct kr_candidate *c, size_t *n, double target);

/* The sum of the weights of c[0..n). */
double kr_pick_mass(const struct kr_candidate *c, size_t n);

/* The id of one of c[0..n), each as likely as its share of all weights, by u in [0, 1).  n >= 1. */
int32_t kr_pick_draw(const struct kr_candidate *c, size_t n, double u);
/* The same of all weights[0..n), by a mark in [0, their sum); `best` should rounding lead past the
 * last one. */
int32_t kr_pick_draw_all(const float *weights, size_t n, double mark, int32_t best);

#endif
