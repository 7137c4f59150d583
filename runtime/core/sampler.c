/* sampler.c - from logits to the next token.
 *
 * The order is in krafla.h.  It is that of transformers; llama.cpp differs in
 * one thing: it divides by the temperature last, so that its top-p and min-p do
 * not see it.  Only IEEE operations in a fixed order and no libm: the same
 * logits and seed give the same token in every build.  sampler_pick.c does the
 * work.  Knows nothing of text or of stopping.
 * SPDX-License-Identifier: MIT */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "sampler_pick.h"
#include "tokenizer.h"

static const float coldest = 1e-4f; /* a temperature below counts as 0; its inverse is finite */

struct krafla_sampler {
    krafla_sampler_options o;
    int32_t vocab;
    uint64_t state;
    krafla_logit_bias *bias; /* [n_bias]: the caller's, then -infinity for ids without a token */
    size_t n_bias;
    float *work;                /* [vocab]: logits after bias and penalties, then weights */
    struct kr_candidate *picks; /* [vocab] */
    uint32_t *counts;           /* [vocab], all 0 between calls */
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

static size_t count_holes(const krafla_tokenizer *t, int32_t vocab)
{
    size_t n = 0;
    for (int32_t id = 0; t && id < vocab; id++)
        n += !kr_tokenizer_has(t, id);
    return n;
}

static void copy_bias(krafla_sampler *s)
{
    for (size_t i = 0; i < s->o.n_logit_bias; i++)
        s->bias[s->n_bias++] = s->o.logit_bias[i];
    for (int32_t id = 0; s->o.tokenizer && id < s->vocab; id++)
        if (!kr_tokenizer_has(s->o.tokenizer, id))
            s->bias[s->n_bias++] = (krafla_logit_bias){id, -INFINITY};
    s->o.logit_bias = NULL; /* the caller's again */
    s->o.tokenizer = NULL;
}

/* All the sampler's arrays; false if there is no memory for one. */
static bool allocate(krafla_sampler *s)
{
    const size_t vocab = (size_t)s->vocab;
    size_t n_bias = count_holes(s->o.tokenizer, s->vocab);
    if (!kr_size_add(&n_bias, n_bias, s->o.n_logit_bias))
        return false;
    s->bias = calloc(n_bias + 1, sizeof *s->bias);
    s->work = calloc(vocab, sizeof *s->work);
    s->picks = calloc(vocab, sizeof *s->picks);
    s->counts = calloc(vocab, sizeof *s->counts);
    return s->bias && s->work && s->picks && s->counts;
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
    if (st == KRAFLA_OK && o->tokenizer && krafla_tokenizer_vocab(o->tokenizer) < vocab)
        vocab = krafla_tokenizer_vocab(o->tokenizer); /* rows past it only pad the model */
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
    copy_bias(s);
    *out = s;
    return KRAFLA_OK;
}

void krafla_sampler_free(krafla_sampler *s)
{
    if (!s)
        return;
    free(s->bias);
    free(s->work);
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
        const float l = s->work[id];
        s->work[id] = (l > 0.0f ? l / s->o.repeat_penalty : l * s->o.repeat_penalty) -
                      ((float)s->counts[id] * s->o.frequency_penalty + s->o.presence_penalty);
        s->counts[id] = 0;
    }
    return KRAFLA_OK;
}

/* Steps 1 and 2, on a copy; *logits points to it then. */
static krafla_status adjust(krafla_sampler *s, const float **logits, const int32_t *history,
                            size_t n, krafla_error *err)
{
    const bool penalties = s->o.repeat_penalty != 1.0f || s->o.presence_penalty != 0.0f ||
                           s->o.frequency_penalty != 0.0f;
    if (!penalties && s->n_bias == 0)
        return KRAFLA_OK;
    memcpy(s->work, *logits, (size_t)s->vocab * sizeof *s->work);
    *logits = s->work;
    for (size_t i = 0; i < s->n_bias; i++)
        s->work[s->bias[i].id] += s->bias[i].bias;
    return penalties ? penalize(s, history, n, err) : KRAFLA_OK;
}

/* Step 3, which also tells whether the logits are such. */
static krafla_status find_best(const krafla_sampler *s, const float *logits, int32_t *best,
                               krafla_error *err)
{
    int bad;
    const int32_t found = kr_pick_best(logits, (size_t)s->vocab, &bad);
    if (bad)
        return kr_fail(err, KRAFLA_E_NUMERIC,
                       "the logit of token %d is %g: the model's weights are damaged, or too large "
                       "for this arithmetic",
                       (int)found, (double)logits[found]);
    if (found < 0)
        return kr_fail(err, KRAFLA_E_NUMERIC, "all %d logits are -infinity: nothing to choose",
                       (int)s->vocab);
    *best = found;
    return KRAFLA_OK;
}

/* The logits of picks[0..n) become weights, and what weighs less than `least` is left out: how many
 * remain.  *sum is the weight of all n. */
static size_t weigh_picks(krafla_sampler *s, size_t n, float best, float least, double *sum)
{
    for (size_t i = 0; i < n; i++)
        s->work[i] = s->picks[i].value;
    *sum = kr_pick_weigh(s->work, s->work, n, best, s->o.temperature);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (s->work[i] >= least)
            s->picks[kept++] = (struct kr_candidate){s->work[i], s->picks[i].id};
    return kept;
}

/* The tokens whose weight can be `least` into picks; their number.  In double: against a large logit
 * a float would lose the steps. */
static size_t pick_near(krafla_sampler *s, const float *logits, float best, float least)
{
    const double halving = 0.6932 * (double)s->o.temperature; /* ln 2, rounded up */
    double bound = (double)best - halving;                    /* room for rounding */
    for (float p = least; p < 1.0f; p *= 2.0f)
        bound -= halving;
    return kr_pick_heavy(s->picks, logits, (size_t)s->vocab, (float)bound);
}

/* Of the tokens of s->work, whose weights have this sum, those that can be in the nucleus into
 * picks; their number. */
static size_t pick_likely(krafla_sampler *s, double sum, float least)
{
    const size_t vocab = (size_t)s->vocab;
    const double p = (double)s->o.top_p;
    /* All tokens below (1 - p) / vocab of the sum hold less than 1 - p of it together: the nucleus
     * is among the others.  0.99 is for the rounding. */
    const double tail = 0.99 * (1.0 - p) / (double)vocab * sum;
    const float lowest = (double)least > tail ? least : (float)tail;
    float bound = 0x1p-8f; /* mostly that is enough */
    size_t n;
    do {
        bound = bound > lowest ? bound : lowest;
        n = kr_pick_heavy(s->picks, s->work, vocab, bound);
        if (bound == lowest)
            break;
        bound /= 32.0f;
    } while (kr_pick_mass(s->picks, n) < p * sum);
    return n;
}

/* Steps 4 to 8.  The best token weighs 1, so that min_p is a weight too; to leave out what is below
 * it before the nucleus is found comes to the same. */
static int32_t sample(krafla_sampler *s, const float *logits, int32_t best)
{
    const float least = s->o.min_p > FLT_MIN ? s->o.min_p : FLT_MIN; /* never what weighs 0 */
    const bool nucleus = s->o.top_p > 0.0f && s->o.top_p < 1.0f;
    const size_t vocab = (size_t)s->vocab, k = (size_t)s->o.top_k;
    double sum;
    size_t n;
    if (k > 0 && k < vocab) {
        kr_pick_top_k(s->picks, k, logits, vocab);
        n = weigh_picks(s, k, logits[best], least, &sum);
    } else if (!nucleus && s->o.min_p > 0.0f) {
        n = pick_near(s, logits, logits[best], least);
        n = weigh_picks(s, n, logits[best], least, &sum);
    } else {
        sum = kr_pick_weigh(s->work, logits, vocab, logits[best], s->o.temperature);
        if (!nucleus)
            return kr_pick_draw_all(s->work, vocab, next_uniform(s) * sum, best);
        n = pick_likely(s, sum, least);
    }
    const struct kr_candidate *c =
        nucleus ? kr_pick_top_p(s->picks, &n, (double)s->o.top_p * sum) : s->picks;
    return kr_pick_draw(c, n, next_uniform(s));
}

krafla_status krafla_sampler_next(krafla_sampler *s, const float *logits, const int32_t *history,
                                  size_t n, int32_t *id, krafla_error *err)
{
    *id = -1;
    if (!logits || (!history && n > 0))
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "krafla_sampler_next: %s is NULL: after a failed sync there are no logits",
                       logits ? "history" : "logits");
    krafla_status st = adjust(s, &logits, history, n, err);
    int32_t best = -1;
    if (st == KRAFLA_OK)
        st = find_best(s, logits, &best, err);
    if (st != KRAFLA_OK)
        return st;
    const bool greedy = s->o.temperature < coldest || s->o.top_k == 1;
    *id = greedy ? best : sample(s, logits, best);
    return KRAFLA_OK;
}
