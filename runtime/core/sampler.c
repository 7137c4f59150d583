/* sampler.c - from logits to the next token.
 *
 * The order is: repetition penalty, then the most likely token if the
 * temperature is 0 or top-k is 1, else temperature, top-k, top-p, draw.  Only
 * IEEE operations in a fixed order and no libm: the same logits and seed give
 * the same token in every build.  Knows nothing of text or of stopping.
 * SPDX-License-Identifier: MIT */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"

struct candidate {
    float logit;
    float weight; /* exp((logit - best) / temperature) */
    int32_t id;
};

struct krafla_sampler {
    krafla_sampler_options o;
    int32_t vocab;
    uint64_t state;
    float *logits;           /* [vocab], after the penalty */
    struct candidate *picks; /* [vocab] */
    uint8_t *seen;           /* [vocab], all 0 between calls */
};

void krafla_sampler_defaults(krafla_sampler_options *o)
{
    *o = (krafla_sampler_options){
        .struct_size = sizeof *o,
        .temperature = 0.0f,
        .top_p = 0.9f,
        .top_k = 0,
        .repeat_penalty = 1.0f,
        .repeat_last_n = 64,
        .seed = 1,
    };
}

static krafla_status check_options(const krafla_sampler_options *o, krafla_error *err)
{
    if (o->struct_size != sizeof *o)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "krafla_sampler_options: struct_size is %u, expected %zu: call "
                       "krafla_sampler_defaults() first",
                       (unsigned)o->struct_size, sizeof *o);
    /* Written so that NaN fails too. */
    if (!(o->temperature >= 0.0f && o->temperature <= 100.0f))
        return kr_fail(err, KRAFLA_E_ARGUMENT, "temperature is %g, expected 0 to 100",
                       (double)o->temperature);
    if (!(o->top_p >= 0.0f && o->top_p <= 1.0f))
        return kr_fail(err, KRAFLA_E_ARGUMENT, "top_p is %g, expected 0 to 1", (double)o->top_p);
    if (o->top_k < 0)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "top_k is %d, expected 0 or more", (int)o->top_k);
    if (!(o->repeat_penalty >= 0.01f && o->repeat_penalty <= 100.0f))
        return kr_fail(err, KRAFLA_E_ARGUMENT, "repeat_penalty is %g, expected 0.01 to 100",
                       (double)o->repeat_penalty);
    if (o->repeat_last_n < 0)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "repeat_last_n is %d, expected 0 or more",
                       (int)o->repeat_last_n);
    return KRAFLA_OK;
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
    const krafla_status st = check_options(o, err);
    if (st != KRAFLA_OK)
        return st;

    krafla_sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->logits = calloc((size_t)vocab, sizeof *s->logits);
        s->picks = calloc((size_t)vocab, sizeof *s->picks);
        s->seen = calloc((size_t)vocab, sizeof *s->seen);
    }
    if (!s || !s->logits || !s->picks || !s->seen) {
        krafla_sampler_free(s);
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory for a sampler of %d tokens",
                       (int)vocab);
    }
    s->o = *o;
    s->vocab = vocab;
    s->state = o->seed ? o->seed : 1; /* xorshift never leaves 0 */
    *out = s;
    return KRAFLA_OK;
}

void krafla_sampler_free(krafla_sampler *s)
{
    if (!s)
        return;
    free(s->logits);
    free(s->picks);
    free(s->seen);
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

/* e^x for x <= 0, relative error below 2e-7; 0 below -87, where e^x leaves the normal floats. */
static float exp_negative(float x)
{
    if (!(x > -87.0f))
        return 0.0f;
    /* x = n ln2 + r, |r| <= ln2 / 2; ln2 in two parts, the first with 9 significant bits, so
     * that n * 0.693359375 is exact. */
    const int32_t n = (int32_t)(x * 1.44269504f - 0.5f);
    const float r = (x - (float)n * 0.693359375f) - (float)n * -2.12194440e-4f;
    /* (e^r - 1 - r) / r^2, the polynomial of Cephes' expf */
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    const float er = (p * r * r + r) + 1.0f;
    const uint32_t bits = (uint32_t)(n + 127) << 23; /* 2^n */
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return er * scale;
}

/* Each distinct token of the last repeat_last_n: a positive logit is divided, a negative one
 * multiplied by the penalty, once. */
static krafla_status penalize(krafla_sampler *s, const int32_t *history, size_t n,
                              krafla_error *err)
{
    const size_t last = (size_t)s->o.repeat_last_n;
    const int32_t *recent = n > last ? history + (n - last) : history;
    const size_t count = n > last ? last : n;
    krafla_status st = KRAFLA_OK;
    for (size_t i = 0; i < count && st == KRAFLA_OK; i++) {
        const int32_t id = recent[i];
        if (id < 0)
            st = kr_fail(err, KRAFLA_E_ARGUMENT, "history holds the token id %d, below 0", (int)id);
        else if (id < s->vocab && !s->seen[id]) { /* ids above vocab are never sampled anyway */
            float *l = s->logits + id;
            *l = *l > 0.0f ? *l / s->o.repeat_penalty : *l * s->o.repeat_penalty;
            s->seen[id] = 1;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (recent[i] >= 0 && recent[i] < s->vocab)
            s->seen[recent[i]] = 0;
    return st;
}

/* The first of the largest logits. */
static krafla_status find_best(const float *logits, int32_t vocab, int32_t *best, krafla_error *err)
{
    *best = -1;
    for (int32_t i = 0; i < vocab; i++) {
        if (!(logits[i] <= FLT_MAX))
            return kr_fail(err, KRAFLA_E_NUMERIC,
                           "the logit of token %d is %g: the model's weights are damaged, or too "
                           "large for this arithmetic",
                           (int)i, (double)logits[i]);
        if (logits[i] >= -FLT_MAX && (*best < 0 || logits[i] > logits[*best]))
            *best = i;
    }
    if (*best < 0)
        return kr_fail(err, KRAFLA_E_NUMERIC, "all %d logits are -infinity: nothing to choose",
                       (int)vocab);
    return KRAFLA_OK;
}

static bool worse(const struct candidate *a, const struct candidate *b)
{
    return a->logit < b->logit || (a->logit == b->logit && a->id > b->id);
}

/* Restore the heap below i: a parent is worse than its children. */
static void sift_down(struct candidate *c, size_t n, size_t i)
{
    const struct candidate moving = c[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && worse(&c[child + 1], &c[child]))
            child++;
        if (!worse(&c[child], &moving))
            break;
        c[i] = c[child];
    }
    c[i] = moving;
}

static void make_heap(struct candidate *c, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(c, n, i);
}

/* From a heap to best-first order. */
static void sort_heap(struct candidate *c, size_t n)
{
    while (n > 1) {
        const struct candidate last = c[--n];
        c[n] = c[0];
        c[0] = last;
        sift_down(c, n, 0);
    }
}

/* The k best, best first: a heap of k with its worst on top, which the others must beat. */
static size_t pick_top_k(krafla_sampler *s)
{
    const size_t k = (size_t)s->o.top_k;
    struct candidate *c = s->picks;
    for (size_t i = 0; i < k; i++)
        c[i] = (struct candidate){s->logits[i], 0.0f, (int32_t)i};
    make_heap(c, k);
    for (int32_t i = s->o.top_k; i < s->vocab; i++) {
        if (s->logits[i] > c[0].logit) { /* on equality the lower id is already there */
            c[0] = (struct candidate){s->logits[i], 0.0f, i};
            sift_down(c, k, 0);
        }
    }
    sort_heap(c, k);
    return k;
}

static double weigh(krafla_sampler *s, size_t n, float best)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        s->picks[i].weight = exp_negative((s->picks[i].logit - best) / s->o.temperature);
        sum += (double)s->picks[i].weight;
    }
    return sum;
}

/* Everything that can be in the top p: n tokens below (1 - p) / n of the mass together hold less
 * than 1 - p of it, so the rest holds p. */
static size_t drop_unlikely(struct candidate *c, size_t n, double sum, double p)
{
    const double least = (1.0 - p) / (double)n * sum;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if ((double)c[i].weight >= least)
            c[kept++] = c[i];
    return kept;
}

/* The shortest run of the best that holds p of the mass. */
static size_t cut_top_p(const struct candidate *c, size_t n, double sum, double p)
{
    double held = 0.0;
    for (size_t i = 0; i < n; i++) {
        held += (double)c[i].weight;
        if (held >= p * sum)
            return i + 1;
    }
    return n;
}

static int32_t draw(krafla_sampler *s, size_t n)
{
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        sum += (double)s->picks[i].weight;
    const double mark = next_uniform(s) * sum;
    double held = 0.0;
    size_t chosen = 0; /* ends as the last token with a weight, should mark round up to sum */
    for (size_t i = 0; i < n; i++) {
        if (s->picks[i].weight > 0.0f)
            chosen = i;
        held += (double)s->picks[i].weight;
        if (mark < held)
            break;
    }
    return s->picks[chosen].id;
}

static int32_t sample(krafla_sampler *s, float best)
{
    const double p = (double)s->o.top_p;
    const bool nucleus = p > 0.0 && p < 1.0;
    const bool ranked = s->o.top_k > 0 && s->o.top_k < s->vocab;
    size_t n;
    if (ranked) {
        n = pick_top_k(s);
    } else {
        n = (size_t)s->vocab;
        for (size_t i = 0; i < n; i++)
            s->picks[i] = (struct candidate){s->logits[i], 0.0f, (int32_t)i};
    }
    const double sum = weigh(s, n, best);
    if (nucleus && !ranked) {
        n = drop_unlikely(s->picks, n, sum, p);
        make_heap(s->picks, n);
        sort_heap(s->picks, n);
    }
    if (nucleus)
        n = cut_top_p(s->picks, n, sum, p);
    return draw(s, n);
}

krafla_status krafla_sampler_next(krafla_sampler *s, const float *logits, const int32_t *history,
                                  size_t n, int32_t *id, krafla_error *err)
{
    *id = -1;
    const bool penalty = s->o.repeat_penalty != 1.0f && s->o.repeat_last_n > 0 && n > 0;
    const bool greedy = s->o.temperature == 0.0f || s->o.top_k == 1;
    if (penalty || !greedy) {
        memcpy(s->logits, logits, (size_t)s->vocab * sizeof *logits);
        logits = s->logits;
    }
    if (penalty) {
        const krafla_status st = penalize(s, history, n, err);
        if (st != KRAFLA_OK)
            return st;
    }
    int32_t best;
    const krafla_status st = find_best(logits, s->vocab, &best, err);
    if (st != KRAFLA_OK)
        return st;
    *id = greedy ? best : sample(s, logits[best]);
    return KRAFLA_OK;
}
