/* sampler_pick.c - the loops of a sampler over a whole vocabulary.
 *
 * They go over LANES numbers at a time, in a form that compilers turn into
 * vector code for any instruction set: the bits are the same with and without.
 * SPDX-License-Identifier: MIT */
#include "sampler_pick.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

enum {
    LANES = 16,
    BLOCK = 512,     /* numbers whose sum is taken in float, one chain of 32 per lane */
    DIGIT_BITS = 10, /* of a weight's 30: it is at most 1 */
    DIGITS = 1 << DIGIT_BITS,
    FEW = 64, /* candidates that are put in order rather than sorted out further */
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The LANES numbers from x on, of which n are there; -infinity, which is no maximum and weighs
 * nothing, for the others. */
static const float *lanes_of(const float *x, size_t n, float spare[LANES])
{
    if (n >= LANES)
        return x;
    for (size_t j = 0; j < LANES; j++)
        spare[j] = j < n ? x[j] : -INFINITY;
    return spare;
}

/* ---- the best ---- */

/* The largest of x[0..n), -infinity at least; *bad becomes 1 as kr_pick_best says. */
static float block_top(const float *x, size_t n, int *bad)
{
    float top[LANES], spare[LANES];
    int32_t wrong[LANES] = {0};
    for (size_t j = 0; j < LANES; j++)
        top[j] = -INFINITY;
    for (size_t i = 0; i < n; i += LANES) {
        const float *v = lanes_of(x + i, n - i, spare);
        for (size_t j = 0; j < LANES; j++) {
            top[j] = v[j] > top[j] ? v[j] : top[j];
            wrong[j] |= !(v[j] <= FLT_MAX);
        }
    }
    float most = -INFINITY;
    for (size_t j = 0; j < LANES; j++) {
        most = top[j] > most ? top[j] : most;
        *bad |= wrong[j];
    }
    return most;
}

int32_t kr_pick_best(const float *logits, size_t n, int *bad)
{
    float most = -INFINITY;
    size_t at = n; /* the block of it */
    *bad = 0;
    for (size_t i = 0; i < n; i += BLOCK) {
        const float top = block_top(logits + i, smaller(n - i, BLOCK), bad);
        if (*bad) {
            while (logits[i] <= FLT_MAX)
                i++;
            return (int32_t)i;
        }
        if (top > most) {
            most = top;
            at = i;
        }
    }
    if (at == n)
        return -1;
    while (logits[at] != most)
        at++;
    return (int32_t)at;
}

/* ---- weights ---- */

/* The sum of w[0..BLOCK): one chain per lane, then those in order. */
static double block_sum(const float *w)
{
    float sum[LANES] = {0};
    for (size_t i = 0; i < BLOCK; i += LANES)
        for (size_t j = 0; j < LANES; j++)
            sum[j] += w[i + j];
    double all = 0.0;
    for (size_t j = 0; j < LANES; j++)
        all += (double)sum[j];
    return all;
}

/* w[j] = 2^((l[j] - best) * scale), which is at most 0, of BLOCK. */
static void weigh_block(float *w, const float *l, float best, float scale)
{
    float x[BLOCK];
    /* A loop of its own: compilers would make a branch of it in the next one. */
    for (size_t j = 0; j < BLOCK; j++) {
        const float in = (l[j] - best) * scale;
        x[j] = in > -127.0f ? in : -127.0f;
    }
    for (size_t j = 0; j < BLOCK; j++) {
        const int32_t n = (int32_t)(x[j] - 0.5f);
        const uint32_t bits = (uint32_t)(n + 127) << 23; /* 2^n, and 0 for n = -127 */
        const float f = x[j] - (float)n;                 /* in -0.5..0.5 */
        float power;
        memcpy(&power, &bits, sizeof power);
        /* (2^f - 1) / f with the least relative error of 2^f, 9.1e-8; 1.9e-7 with rounding */
        float p = 1.3264727e-3f;
        p = p * f + 9.6715127e-3f;
        p = p * f + 5.5507337e-2f;
        p = p * f + 2.4022242e-1f;
        p = p * f + 6.9314698e-1f;
        x[j] = (p * f + 1.0f) * power;
    }
    memcpy(w, x, sizeof x);
}

double kr_pick_weigh(float *weights, const float *logits, size_t n, float best, float temperature)
{
    const float scale = 1.44269504f / temperature; /* log2(e) */
    const size_t body = n - n % BLOCK;
    double sum = 0.0;
    for (size_t i = 0; i < body; i += BLOCK) {
        weigh_block(weights + i, logits + i, best, scale);
        sum += block_sum(weights + i);
    }
    if (body < n) {
        float row[BLOCK];
        for (size_t j = 0; j < BLOCK; j++)
            row[j] = body + j < n ? logits[body + j] : -INFINITY; /* which weighs nothing */
        weigh_block(row, row, best, scale);
        sum += block_sum(row);
        memcpy(weights + body, row, (n - body) * sizeof *row);
    }
    return sum;
}

static bool any_above(const float *x, float least)
{
    int32_t some = 0;
    for (size_t j = 0; j < LANES; j++)
        some |= x[j] >= least;
    return some;
}

size_t kr_pick_heavy(struct kr_candidate *c, const float *weights, size_t n, float least)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i += LANES) {
        if (n - i >= LANES && !any_above(weights + i, least))
            continue;
        for (size_t j = i; j < smaller(i + LANES, n); j++)
            if (weights[j] >= least)
                c[found++] = (struct kr_candidate){weights[j], (int32_t)j};
    }
    return found;
}

/* ---- the best of many ---- */

static bool better(const struct kr_candidate *a, const struct kr_candidate *b)
{
    return a->value > b->value || (a->value == b->value && a->id < b->id);
}

/* Restore the heap below i; its top is the best, or the worst, of it. */
static void sift_down(struct kr_candidate *c, size_t n, size_t i, bool best_on_top)
{
    const struct kr_candidate moving = c[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(&c[child + 1], &c[child]) == best_on_top)
            child++;
        if (better(&c[child], &moving) != best_on_top)
            break;
        c[i] = c[child];
    }
    c[i] = moving;
}

static void make_heap(struct kr_candidate *c, size_t n, bool best_on_top)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(c, n, i, best_on_top);
}

/* A heap with the worst on top, which the others must beat. */
void kr_pick_top_k(struct kr_candidate *c, size_t k, const float *logits, size_t n)
{
    for (size_t i = 0; i < k; i++)
        c[i] = (struct kr_candidate){logits[i], (int32_t)i};
    make_heap(c, k, false);
    for (size_t i = k; i < n; i += LANES) {
        if (n - i >= LANES && !any_above(logits + i, c[0].value))
            continue;
        for (size_t j = i; j < smaller(i + LANES, n); j++) {
            if (logits[j] > c[0].value) { /* on equality the lower id is already there */
                c[0] = (struct kr_candidate){logits[j], (int32_t)j};
                sift_down(c, k, 0, false);
            }
        }
    }
}

/* The bits of weights, which are not negative, are in the order of the weights. */
static uint32_t digit(float weight, int shift)
{
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits >> shift & (DIGITS - 1);
}

static void swap(struct kr_candidate *a, struct kr_candidate *b)
{
    const struct kr_candidate c = *a;
    *a = *b;
    *b = c;
}

/* c[*low..*high), of equal bits above this digit, becomes the part of it with the one digit at
 * which `target` is reached; what is lighter lies below, what is heavier above.  held: the weight
 * of what lies above; returned is the new one. */
static double narrow(struct kr_candidate *c, size_t *low, size_t *high, int shift, double held,
                     double target)
{
    double mass[DIGITS] = {0};
    for (size_t i = *low; i < *high; i++)
        mass[digit(c[i].value, shift)] += (double)c[i].value;
    uint32_t edge = DIGITS - 1;
    while (edge > 0 && held + mass[edge] < target)
        held += mass[edge--];
    for (size_t i = *low; i < *high;) {
        const uint32_t d = digit(c[i].value, shift);
        if (d > edge)
            swap(&c[i], &c[--*high]);
        else if (d < edge)
            swap(&c[i++], &c[(*low)++]);
        else
            i++;
    }
    return held;
}

struct kr_candidate *kr_pick_top_p(struct kr_candidate *c, size_t *n, double target)
{
    size_t low = 0, high = *n;
    double held = 0.0;
    for (int shift = 2 * DIGIT_BITS; shift >= 0 && high - low > FEW; shift -= DIGIT_BITS)
        held = narrow(c, &low, &high, shift, held, target);
    make_heap(c + low, high - low, true);
    while (low < high && held < target) {
        swap(&c[low], &c[--high]);
        sift_down(c + low, high - low, 0, true);
        held += (double)c[high].value;
    }
    *n -= high;
    return c + high;
}

/* ---- the draw ---- */

double kr_pick_mass(const struct kr_candidate *c, size_t n)
{
    double sum[4] = {0}; /* chains that do not wait for each other */
    for (size_t i = 0; i < n; i++)
        sum[i % 4] += (double)c[i].value;
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

int32_t kr_pick_draw(const struct kr_candidate *c, size_t n, double u)
{
    double left = u * kr_pick_mass(c, n);
    size_t i = 0; /* ends as the last, should the sum in this order round below the mark */
    for (; i < n - 1 && left >= (double)c[i].value; i++)
        left -= (double)c[i].value;
    return c[i].id;
}

int32_t kr_pick_draw_all(const float *weights, size_t n, double mark, int32_t best)
{
    size_t i = 0;
    for (; n - i >= BLOCK; i += BLOCK) {
        const double mass = block_sum(weights + i);
        if (mark < mass)
            break;
        mark -= mass;
    }
    for (const size_t end = i + smaller(n - i, BLOCK); i < end; i++) {
        if (mark < (double)weights[i])
            return (int32_t)i;
        mark -= (double)weights[i];
    }
    return best;
}
