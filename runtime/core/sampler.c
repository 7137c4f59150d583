/* sampler.c - from logits to the next token.
 *
 * The order is in krafla.h.  It is that of transformers; llama.cpp differs in
 * one thing: it divides by the temperature last, so that its top-p and min-p do
 * not see it.  Only IEEE operations in a fixed order and no libm: the same
 * logits and seed give the same token in every build.  Knows nothing of text or
 * of stopping.
 * SPDX-License-Identifier: MIT */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

static const float coldest = 1e-4f; /* a temperature below counts as 0; its inverse is finite */

struct candidate {
    float value; /* a logit while the top k are found, then a weight: exp((logit - best) / T) */
    int32_t id;
};

struct krafla_sampler {
    krafla_sampler_options o;
    int32_t vocab;
    uint64_t state;
    krafla_logit_bias *bias; /* [o.n_logit_bias] */
    float *logits;           /* [vocab], after bias and penalties; then weights in their place */
    struct candidate *picks; /* [vocab] */
    uint32_t *counts;        /* [vocab], all 0 between calls */
};

void krafla_sampler_defaults(krafla_sampler_options *o)
{
    *o = (krafla_sampler_options){
        .struct_size = sizeof *o,
        .temperature = 0.0f,
        .top_p = 0.9f,
        .repeat_last_n = 64,
        .repeat_penalty = 1.0f,
        .seed = 1,
    };
}

/* Written so that NaN fails too. */
static krafla_status check_range(const char *what, float value, double low, double high,
                                 krafla_error *err)
{
    if (value >= (float)low && value <= (float)high)
        return KRAFLA_OK;
    return kr_fail(err, KRAFLA_E_ARGUMENT, "%s is %g, expected %g to %g", what, (double)value, low,
                   high);
}

static krafla_status check_options(const krafla_sampler_options *o, krafla_error *err)
{
    if (o->struct_size != sizeof *o)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "krafla_sampler_options: struct_size is %u, expected %zu: call "
                       "krafla_sampler_defaults() first",
                       (unsigned)o->struct_size, sizeof *o);
    krafla_status st = check_range("temperature", o->temperature, 0, 100, err);
    if (st == KRAFLA_OK)
        st = check_range("top_p", o->top_p, 0, 1, err);
    if (st == KRAFLA_OK)
        st = check_range("min_p", o->min_p, 0, 1, err);
    if (st == KRAFLA_OK)
        st = check_range("repeat_penalty", o->repeat_penalty, 0.01, 100, err);
    if (st == KRAFLA_OK)
        st = check_range("presence_penalty", o->presence_penalty, -2, 2, err);
    if (st == KRAFLA_OK)
        st = check_range("frequency_penalty", o->frequency_penalty, -2, 2, err);
    if (st != KRAFLA_OK)
        return st;
    if (o->top_k < 0)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "top_k is %d, expected 0 or more", (int)o->top_k);
    if (o->repeat_last_n < 0)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "repeat_last_n is %d, expected 0 or more",
                       (int)o->repeat_last_n);
    return KRAFLA_OK;
}

static krafla_status check_bias(const krafla_sampler_options *o, int32_t vocab, krafla_error *err)
{
    if (o->n_logit_bias > 0 && !o->logit_bias)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "logit_bias is NULL, but n_logit_bias is %zu",
                       o->n_logit_bias);
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        const krafla_logit_bias b = o->logit_bias[i];
        if (b.id < 0 || b.id >= vocab)
            return kr_fail(err, KRAFLA_E_ARGUMENT, "logit_bias: the id %d is not from 0 to %d",
                           (int)b.id, (int)vocab - 1);
        if (!(b.bias >= -100.0f && b.bias <= 100.0f) && b.bias != -INFINITY)
            return kr_fail(err, KRAFLA_E_ARGUMENT,
                           "logit_bias of token %d is %g, expected -100 to 100 or -infinity",
                           (int)b.id, (double)b.bias);
    }
    return KRAFLA_OK;
}

/* All the sampler's arrays; false if there is no memory for one. */
static bool allocate(krafla_sampler *s)
{
    const size_t vocab = (size_t)s->vocab;
    s->bias = calloc(s->o.n_logit_bias + 1, sizeof *s->bias);
    s->logits = calloc(vocab, sizeof *s->logits);
    s->picks = calloc(vocab, sizeof *s->picks);
    s->counts = calloc(vocab, sizeof *s->counts);
    return s->bias && s->logits && s->picks && s->counts;
}

krafla_status krafla_sampler_create(krafla_sampler **out, int32_t vocab,
                                    const krafla_sampler_options *o, krafla_error *err)
{
    *out = NULL;
    krafla_sampler_options defaults;
    krafla_sampler_defaults(&defaults);
    if (!o)
        o = &defaults;
    if (vocab < 1)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "vocab is %d, expected 1 or more", (int)vocab);
    krafla_status st = check_options(o, err);
    if (st == KRAFLA_OK)
        st = check_bias(o, vocab, err);
    if (st != KRAFLA_OK)
        return st;

    krafla_sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->o = *o;
        s->vocab = vocab;
        s->state = o->seed ? o->seed : 1; /* xorshift never leaves 0 */
    }
    if (!s || !allocate(s)) {
        krafla_sampler_free(s);
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory for a sampler of %d tokens",
                       (int)vocab);
    }
    for (size_t i = 0; i < o->n_logit_bias; i++)
        s->bias[i] = o->logit_bias[i];
    *out = s;
    return KRAFLA_OK;
}

void krafla_sampler_free(krafla_sampler *s)
{
    if (!s)
        return;
    free(s->bias);
    free(s->logits);
    free(s->picks);
    free(s->counts);
    free(s);
}

/* xorshift64*, the upper 53 bits as a number in [0, 1). */
static double next_uniform(krafla_sampler *s)
{
    s->state ^= s->state >> 12;
    s->state ^= s->state << 25;
    s->state ^= s->state >> 27;
    return (double)((s->state * 0x2545F4914F6CDD1Du) >> 11) * 0x1p-53;
}

/* e^x for x <= 0, relative error below 2e-7; 0 below -87.7, where e^x leaves the normal floats. */
static inline float exp_negative(float x)
{
    const float in = x > -88.0f ? x : -88.0f;
    /* in = n ln2 + r, |r| <= ln2 / 2; ln2 in two parts, the first with 9 significant bits, so
     * that n * 0.693359375 is exact. */
    const int32_t n = (int32_t)(in * 1.44269504f - 0.5f);
    const float r = (in - (float)n * 0.693359375f) - (float)n * -2.12194440e-4f;
    /* (e^r - 1 - r) / r^2, the polynomial of Cephes' expf */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const float er = (p * r * r + r) + 1.0f;
    const uint32_t bits = (uint32_t)(n + 127) << 23; /* 2^n, and 0 for n = -127 */
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return er * scale;
}

/* Step 2 of krafla.h.  Ids from vocab on, which are never chosen, are passed over. */
static krafla_status penalize(krafla_sampler *s, const int32_t *history, size_t n,
                              krafla_error *err)
{
    const size_t last = (size_t)s->o.repeat_last_n;
    const size_t count = n < last ? n : last;
    const int32_t *recent = history + (n - count);
    for (size_t i = 0; i < count; i++)
        if (recent[i] < 0)
            return kr_fail(err, KRAFLA_E_ARGUMENT, "history holds the token id %d, below 0",
                           (int)recent[i]);
    for (size_t i = 0; i < count; i++)
        if (recent[i] < s->vocab)
            s->counts[recent[i]]++;
    for (size_t i = 0; i < count; i++) {
        const int32_t id = recent[i];
        if (id >= s->vocab || s->counts[id] == 0)
            continue;
        const float l = s->logits[id];
        s->logits[id] = (l > 0.0f ? l / s->o.repeat_penalty : l * s->o.repeat_penalty) -
                        ((float)s->counts[id] * s->o.frequency_penalty + s->o.presence_penalty);
        s->counts[id] = 0;
    }
    return KRAFLA_OK;
}

static krafla_status not_a_logit(int32_t id, float logit, krafla_error *err)
{
    return kr_fail(err, KRAFLA_E_NUMERIC,
                   "the logit of token %d is %g: the model's weights are damaged, or too large for "
                   "this arithmetic",
                   (int)id, (double)logit);
}

/* The first of the largest logits. */
static krafla_status find_best(const float *logits, int32_t vocab, int32_t *best, krafla_error *err)
{
    int32_t first = -1;
    float most = -FLT_MAX;
    for (int32_t i = 0; i < vocab; i++) {
        const float l = logits[i];
        if (KR_UNLIKELY(!(l <= FLT_MAX)))
            return not_a_logit(i, l, err);
        if (KR_UNLIKELY(l > most || (first < 0 && l == most))) {
            most = l;
            first = i;
        }
    }
    if (first < 0)
        return kr_fail(err, KRAFLA_E_NUMERIC, "all %d logits are -infinity: nothing to choose",
                       (int)vocab);
    *best = first;
    return KRAFLA_OK;
}

/* ---- sampling ---- */

static bool better(const struct candidate *a, const struct candidate *b)
{
    return a->value > b->value || (a->value == b->value && a->id < b->id);
}

/* Restore the heap below i; its top is the best, or the worst, of it. */
static void sift_down(struct candidate *c, size_t n, size_t i, bool best_on_top)
{
    const struct candidate moving = c[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && better(&c[child + 1], &c[child]) == best_on_top)
            child++;
        if (better(&c[child], &moving) != best_on_top)
            break;
        c[i] = c[child];
    }
    c[i] = moving;
}

static void make_heap(struct candidate *c, size_t n, bool best_on_top)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(c, n, i, best_on_top);
}

/* The k best into picks: a heap with the worst of them on top, which the others must beat. */
static void pick_top_k(krafla_sampler *s, int32_t k)
{
    struct candidate *c = s->picks;
    for (int32_t i = 0; i < k; i++)
        c[i] = (struct candidate){s->logits[i], i};
    make_heap(c, (size_t)k, false);
    for (int32_t i = k; i < s->vocab; i++) {
        if (s->logits[i] > c[0].value) { /* on equality the lower id is already there */
            c[0] = (struct candidate){s->logits[i], i};
            sift_down(c, (size_t)k, 0, false);
        }
    }
}

/* The nucleus, the shortest run of the best of c[0..*n) that holds p of sum, without what weighs
 * less than `least`: moved to the end of c, where the result points; *n is its length. */
static struct candidate *pick_top_p(struct candidate *c, size_t *n, double sum, double p,
                                    float least)
{
    size_t left = *n;
    double held = 0.0;
    make_heap(c, left, true);
    while (left > 0 && held < p * sum && c[0].value >= least) {
        const struct candidate best = c[0];
        c[0] = c[--left];
        c[left] = best;
        sift_down(c, left, 0, true);
        held += (double)best.value;
    }
    *n -= left;
    return c + left;
}

/* Logits to weights in place; their sum. */
static double weigh_all(krafla_sampler *s, float best)
{
    const float per_unit = 1.0f / s->o.temperature;
    double sum = 0.0;
    for (int32_t i = 0; i < s->vocab; i++) {
        s->logits[i] = exp_negative((s->logits[i] - best) * per_unit);
        sum += (double)s->logits[i];
    }
    return sum;
}

static double weigh_picks(krafla_sampler *s, size_t n, float best)
{
    const float per_unit = 1.0f / s->o.temperature;
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        s->picks[i].value = exp_negative((s->picks[i].value - best) * per_unit);
        sum += (double)s->picks[i].value;
    }
    return sum;
}

/* The tokens that weigh at least `least` into picks. */
static size_t keep_heavy(krafla_sampler *s, double least)
{
    size_t n = 0;
    for (int32_t i = 0; i < s->vocab; i++)
        if ((double)s->logits[i] >= least)
            s->picks[n++] = (struct candidate){s->logits[i], i};
    return n;
}

/* Those of c[0..n) that weigh at least `least` to its front; their number. */
static size_t keep_picks(struct candidate *c, size_t n, float least)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].value >= least)
            c[kept++] = c[i];
    return kept;
}

static int32_t draw(krafla_sampler *s, const struct candidate *c, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)c[i].value;
    const double mark = next_uniform(s) * sum;
    double held = 0.0;
    size_t chosen = 0; /* ends as the last token with a weight, should mark round up to sum */
    for (size_t i = 0; i < n; i++) {
        if (c[i].value > 0.0f)
            chosen = i;
        held += (double)c[i].value;
        if (mark < held)
            break;
    }
    return c[chosen].id;
}

static int32_t sample(krafla_sampler *s, float best)
{
    const double p = (double)s->o.top_p;
    const float least = s->o.min_p; /* the best token weighs 1 */
    const bool nucleus = p > 0.0 && p < 1.0;
    size_t n;
    double sum;
    if (s->o.top_k > 0 && s->o.top_k < s->vocab) {
        n = (size_t)s->o.top_k;
        pick_top_k(s, s->o.top_k);
        sum = weigh_picks(s, n, best);
        if (!nucleus)
            n = keep_picks(s->picks, n, least);
    } else {
        /* All tokens below (1 - p) / vocab of the mass hold less than 1 - p of it together: the
         * nucleus is among the others. */
        sum = weigh_all(s, best);
        const double tail = nucleus ? (1.0 - p) / (double)s->vocab * sum : 0.0;
        n = keep_heavy(s, tail > (double)least ? tail : (double)least);
    }
    const struct candidate *c = nucleus ? pick_top_p(s->picks, &n, sum, p, least) : s->picks;
    return draw(s, c, n);
}

krafla_status krafla_sampler_next(krafla_sampler *s, const float *logits, const int32_t *history,
                                  size_t n, int32_t *id, krafla_error *err)
{
    *id = -1;
    if (!logits || (!history && n > 0))
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "krafla_sampler_next: %s is NULL: after a failed sync there are no logits",
                       logits ? "history" : "logits");
    const bool penalties = s->o.repeat_penalty != 1.0f || s->o.presence_penalty != 0.0f ||
                           s->o.frequency_penalty != 0.0f;
    const bool greedy = s->o.temperature < coldest || s->o.top_k == 1;
    if (penalties || s->o.n_logit_bias > 0 || !greedy) {
        memcpy(s->logits, logits, (size_t)s->vocab * sizeof *logits);
        logits = s->logits;
    }
    for (size_t i = 0; i < s->o.n_logit_bias; i++)
        s->logits[s->bias[i].id] += s->bias[i].bias;
    if (penalties) {
        const krafla_status st = penalize(s, history, n, err);
        if (st != KRAFLA_OK)
            return st;
    }
    int32_t best = -1;
    const krafla_status st = find_best(logits, s->vocab, &best, err);
    if (st != KRAFLA_OK)
        return st;
    *id = greedy ? best : sample(s, logits[best]);
    return KRAFLA_OK;
}
