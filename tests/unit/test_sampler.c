/* test_sampler.c - what krafla_sampler_next() chooses, against probabilities worked out here.
 * SPDX-License-Identifier: MIT */
#include "krafla.h"
#include "unit.h"

#include <math.h>
#include <stddef.h>

enum { DRAWS = 20000, BIG = 5000 };

static krafla_sampler_options options(float temperature, float top_p, int32_t top_k)
{
    krafla_sampler_options o;
    krafla_sampler_defaults(&o);
    o.temperature = temperature;
    o.top_p = top_p;
    o.top_k = top_k;
    return o;
}

static int32_t choose(const krafla_sampler_options *o, int32_t vocab, const float *logits,
                      const int32_t *history, size_t n)
{
    krafla_sampler *s;
    int32_t id = -2;
    if (krafla_sampler_create(&s, vocab, o, NULL) != KRAFLA_OK)
        return -3;
    krafla_sampler_next(s, logits, history, n, &id, NULL);
    krafla_sampler_free(s);
    return id;
}

static krafla_status status_of(const krafla_sampler_options *o, int32_t vocab, const float *logits)
{
    krafla_sampler *s;
    int32_t id;
    krafla_status st = krafla_sampler_create(&s, vocab, o, NULL);
    if (st == KRAFLA_OK)
        st = krafla_sampler_next(s, logits, NULL, 0, &id, NULL);
    krafla_sampler_free(s);
    return st;
}

/* Draw often; counts[id] of the vocab tokens. */
static void count_draws(const krafla_sampler_options *o, int32_t vocab, const float *logits,
                        int *counts)
{
    krafla_sampler *s;
    memset(counts, 0, (size_t)vocab * sizeof *counts);
    EXPECT(krafla_sampler_create(&s, vocab, o, NULL) == KRAFLA_OK);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id;
        EXPECT(krafla_sampler_next(s, logits, NULL, 0, &id, NULL) == KRAFLA_OK);
        if (id >= 0 && id < vocab)
            counts[id]++;
    }
    krafla_sampler_free(s);
}

/* Whether a count out of DRAWS is within 5 standard deviations of probability p. */
static int near(int count, double p)
{
    const double spread = sqrt(DRAWS * p * (1.0 - p));
    return fabs(count - DRAWS * p) <= 5.0 * spread + 0.5;
}

static void test_greedy_takes_the_lowest_of_equal_ids(void)
{
    const float logits[] = {1, 5, 3, 5, -2};
    krafla_sampler_options o = options(0, 0.9f, 0);
    EXPECT(choose(&o, 5, logits, NULL, 0) == 1);
    o = options(2.0f, 0, 1);
    EXPECT(choose(&o, 5, logits, NULL, 0) == 1);
}

static void test_penalty_counts_each_recent_token_once(void)
{
    const float logits[] = {4, 3.9f, -1, -0.9f};
    const int32_t history[] = {3, 0, 0, 0};
    krafla_sampler_options o = options(0, 0, 0);
    o.repeat_penalty = 1.02f; /* 4 / 1.02 = 3.92 > 3.9; twice it would be 3.84 */
    EXPECT(choose(&o, 4, logits, history, 4) == 0);
    o.repeat_penalty = 1.1f;
    EXPECT(choose(&o, 4, logits, history, 4) == 1);
    o.repeat_last_n = 0;
    EXPECT(choose(&o, 4, logits, history, 4) == 0);

    const float negative[] = {-1.0f, -1.05f};
    const int32_t first[] = {0};
    o.repeat_last_n = 64;
    EXPECT(choose(&o, 2, negative, first, 1) == 1); /* -1 * 1.1 < -1.05 */
    const int32_t old[] = {0, 1, 1};
    o.repeat_last_n = 2;
    EXPECT(choose(&o, 2, negative, old, 3) == 0); /* token 0 is out of sight */
}

static void test_presence_counts_once_and_frequency_each_time(void)
{
    const float logits[] = {4, 3, 2.5f, -1};
    const int32_t history[] = {0, 0, 0, 1, 9}; /* 9 is none of the four */
    krafla_sampler_options o = options(0, 0, 0);
    o.presence_penalty = 0.9f;
    EXPECT(choose(&o, 4, logits, history, 5) == 0); /* 3.1, 2.1, 2.5 */
    o.presence_penalty = 1.6f;
    EXPECT(choose(&o, 4, logits, history, 5) == 2); /* 2.4, 1.4, 2.5 */
    o.presence_penalty = 0;
    o.frequency_penalty = 0.4f;
    EXPECT(choose(&o, 4, logits, history, 5) == 0); /* 2.8, 2.6, 2.5 */
    o.frequency_penalty = 0.6f;
    EXPECT(choose(&o, 4, logits, history, 5) == 2); /* 2.2, 2.4, 2.5 */
    o.repeat_last_n = 3;
    EXPECT(choose(&o, 4, logits, history, 5) == 0); /* one 0 in sight: 3.4 */
    o.repeat_last_n = 0;
    EXPECT(choose(&o, 4, logits, history, 5) == 0);

    o = options(0, 0, 0); /* the repetition penalty comes first: 4 / 2 - 1, not (4 - 1) / 2 */
    o.repeat_penalty = 2;
    o.presence_penalty = 1;
    const float order[] = {4, 1.2f};
    EXPECT(choose(&o, 2, order, history, 1) == 1);
    o.presence_penalty = -2; /* below 0 it draws towards what was there */
    o.repeat_penalty = 1;
    EXPECT(choose(&o, 4, logits, history + 3, 1) == 1);
}

static void test_a_bias_is_added_before_all_else(void)
{
    const float logits[] = {4, 3, 2};
    const int32_t history[] = {1};
    krafla_logit_bias bias[] = {{1, 0.8f}, {1, 0.4f}, {2, 1.9f}};
    krafla_sampler_options o = options(0, 0, 0);
    o.logit_bias = bias;
    o.n_logit_bias = 3;
    EXPECT(choose(&o, 3, logits, NULL, 0) == 1); /* 4, 4.2, 3.9 */
    o.repeat_penalty = 1.05f;
    EXPECT(choose(&o, 3, logits, history, 1) == 0); /* 4.2 / 1.05 = 4; unbiased 2.86 + 1.2 > 4 */
    o.repeat_penalty = 1;
    bias[0].bias = -INFINITY; /* no other bias brings it back */
    bias[1].bias = 100;
    EXPECT(choose(&o, 3, logits, NULL, 0) == 0);

    const float even[] = {0, 0, 0, 0};
    int counts[4];
    o = options(1, 0, 0);
    bias[0] = (krafla_logit_bias){3, logf(2)};
    bias[1] = (krafla_logit_bias){0, -INFINITY};
    o.logit_bias = bias;
    o.n_logit_bias = 2;
    count_draws(&o, 4, even, counts);
    EXPECT(counts[0] == 0 && near(counts[1], 0.25) && near(counts[3], 0.5));
}

static void test_draws_follow_the_softmax(void)
{
    const float logits[] = {1.0f, 2.0f, 0.0f, -1.5f, 3.0f};
    const krafla_sampler_options o = options(0.8f, 0, 0);
    double sum = 0;
    int counts[5];
    for (int i = 0; i < 5; i++)
        sum += exp(logits[i] / 0.8);
    count_draws(&o, 5, logits, counts);
    for (int i = 0; i < 5; i++)
        EXPECT(near(counts[i], exp(logits[i] / 0.8) / sum));
}

static void test_top_k_then_top_p_among_them(void)
{
    /* Probabilities 0.4, 0.3, 0.2, 0.1; the top 3 renormalized: 0.444, 0.333, 0.222. */
    const float logits[] = {logf(0.2f), logf(0.4f), logf(0.1f), logf(0.3f)};
    int counts[4];
    krafla_sampler_options o = options(1, 0, 3);
    count_draws(&o, 4, logits, counts);
    EXPECT(near(counts[1], 4 / 9.0) && near(counts[3], 3 / 9.0) && near(counts[0], 2 / 9.0));
    EXPECT(counts[2] == 0);

    o = options(1, 0.75f, 3); /* 0.444 + 0.333 = 0.777 reaches 0.75; of the full 0.7 would not */
    count_draws(&o, 4, logits, counts);
    EXPECT(near(counts[1], 4 / 7.0) && near(counts[3], 3 / 7.0));
    EXPECT(counts[0] == 0 && counts[2] == 0);

    o = options(1, 0.75f, 0);
    count_draws(&o, 4, logits, counts);
    EXPECT(near(counts[1], 4 / 9.0) && near(counts[3], 3 / 9.0) && near(counts[0], 2 / 9.0));
    EXPECT(counts[2] == 0);
}

static void test_min_p_is_a_share_of_the_best_after_top_p(void)
{
    /* Probabilities 0.4, 0.3, 0.2, 0.1 */
    const float logits[] = {logf(0.2f), logf(0.4f), logf(0.1f), logf(0.3f)};
    int counts[4];
    krafla_sampler_options o = options(1, 0, 0);
    o.min_p = 0.45f; /* of 0.4: 0.18 */
    count_draws(&o, 4, logits, counts);
    EXPECT(near(counts[1], 4 / 9.0) && near(counts[3], 3 / 9.0) && near(counts[0], 2 / 9.0));
    EXPECT(counts[2] == 0);

    o.min_p = 0.6f;
    o.top_k = 3;
    count_draws(&o, 4, logits, counts);
    EXPECT(near(counts[1], 4 / 7.0) && near(counts[3], 3 / 7.0));
    EXPECT(counts[0] == 0 && counts[2] == 0);

    /* 0.4 does not reach 0.45 of all; of what min-p leaves, 0.7, it would. */
    o = options(1, 0.45f, 0);
    o.min_p = 0.6f;
    count_draws(&o, 4, logits, counts);
    EXPECT(near(counts[1], 4 / 7.0) && near(counts[3], 3 / 7.0));

    o = options(0.5f, 0, 0); /* after the temperature: 0.16, 0.09, 0.04, 0.01 of 0.3 */
    o.min_p = 0.3f;
    count_draws(&o, 4, logits, counts);
    EXPECT(near(counts[1], 16 / 25.0) && near(counts[3], 9 / 25.0));
    o.min_p = 1;
    count_draws(&o, 4, logits, counts);
    EXPECT(counts[1] == DRAWS);
}

/* Top-k and top-p of a long list, against a plain sort. */
static float big[BIG];

static int descending(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    if (big[i] != big[j])
        return big[i] < big[j] ? 1 : -1;
    return i - j;
}

/* The number before 2^20 is 1/16 below it: at temperature 0.01 its token has e^-6.25 of the other's
 * weight, which is more than min_p. */
static void test_min_p_keeps_what_is_near_a_large_logit(void)
{
    const float logits[] = {1048575.9375f, 1048576.0f, 1048575.75f};
    krafla_sampler_options o = options(0.01f, 0, 0);
    int counts[3];
    o.min_p = 0.001f;
    count_draws(&o, 3, logits, counts);
    EXPECT(counts[0] > 0 && near(counts[0], exp(-6.25) / (1.0 + exp(-6.25))));
    EXPECT(counts[2] == 0);
}

static void test_selection_equals_a_full_sort(void)
{
    static int32_t order[BIG];
    static int counts[BIG];
    uint32_t x = 12345;
    for (int32_t i = 0; i < BIG; i++) {
        x = x * 1664525u + 1013904223u;
        big[i] = (float)(x >> 20) / 512.0f; /* 4096 values for 5000 ids: many ties */
        order[i] = i;
    }
    qsort(order, BIG, sizeof *order, descending);
    const int k = 7;
    krafla_sampler_options o = options(50.0f, 0, k); /* nearly flat: all k come up */
    count_draws(&o, BIG, big, counts);
    for (int i = 0; i < BIG; i++)
        EXPECT((counts[order[i]] > 0) == (i < k));

    double sum = 0, held = 0;
    for (int i = 0; i < BIG; i++)
        sum += exp((big[order[i]] - big[order[0]]) / 0.2);
    int nucleus = 0;
    while (held < 0.5 * sum)
        held += exp((big[order[nucleus++]] - big[order[0]]) / 0.2);
    o = options(0.2f, 0.5f, 0);
    count_draws(&o, BIG, big, counts);
    for (int i = 0; i < BIG; i++)
        EXPECT(i < nucleus || counts[order[i]] == 0);
    EXPECT(counts[order[nucleus - 1]] > 0);
}

static void test_same_seed_gives_the_same_tokens(void)
{
    const float logits[] = {0.1f, 0.2f, 0.3f, 0.25f, 0.15f, 0.05f, 0.0f, 0.4f};
    const krafla_sampler_options o = options(1, 0.9f, 0);
    krafla_sampler *s;
    EXPECT(krafla_sampler_create(&s, 8, &o, NULL) == KRAFLA_OK);
    /* Fixed for ever: saved seeds reproduce their texts. */
    static const int32_t want[] = {0, 3, 2, 0, 6, 2, 2, 3, 4, 2, 1, 5};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        int32_t id = -1;
        EXPECT(krafla_sampler_next(s, logits, NULL, 0, &id, NULL) == KRAFLA_OK);
        EXPECT(id == want[i]);
    }
    krafla_sampler_free(s);
}

/* FNV-1a of 200 tokens, each of which becomes less likely when it is drawn. */
static uint64_t draw_from_many(const krafla_sampler_options *o, uint64_t hash)
{
    enum { MANY = 70001, HISTORY = 300 };
    static float logits[MANY];
    static int32_t history[HISTORY];
    uint32_t x = 1;
    for (int i = 0; i < MANY; i++) {
        x = x * 1664525u + 1013904223u;
        logits[i] = (float)(x >> 8) * -0x1p-24f * ((x & 7) == 0 ? 6.0f : 30.0f);
    }
    for (int i = 0; i < HISTORY; i++)
        history[i] = i * 7 % 500;
    krafla_sampler *s;
    EXPECT(krafla_sampler_create(&s, MANY, o, NULL) == KRAFLA_OK);
    for (int i = 0; i < 200; i++) {
        int32_t id = -1;
        EXPECT(krafla_sampler_next(s, logits, history, HISTORY, &id, NULL) == KRAFLA_OK);
        hash = (hash ^ (uint64_t)id) * 1099511628211u;
        logits[id] -= 0.5f;
    }
    krafla_sampler_free(s);
    return hash;
}

static void test_every_build_draws_the_same_tokens(void)
{
    const struct {
        float temperature, top_p, min_p;
        int32_t top_k;
    } cases[] = {
        {0.7f, 0, 0, 0},       {0.9f, 0.95f, 0, 0}, {1.1f, 0.5f, 0, 0},   {1.3f, 0.9f, 0.02f, 0},
        {1.5f, 0.9f, 0, 5000}, {1.7f, 0, 0.01f, 0}, {1.9f, 0, 0.1f, 300},
    };
    uint64_t hash = 1469598103934665603u;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        krafla_sampler_options o = options(cases[i].temperature, cases[i].top_p, cases[i].top_k);
        o.min_p = cases[i].min_p;
        o.repeat_penalty = 1.1f;
        o.presence_penalty = 0.3f;
        o.frequency_penalty = 0.1f;
        hash = draw_from_many(&o, hash);
    }
    EXPECT(hash ==
           0x8c9085b343604100u); /* whatever the compiler, the instruction set and its vectors */
}

static void test_numbers_that_are_none_are_errors(void)
{
    const krafla_sampler_options greedy = options(0, 0, 0), warm = options(1, 0.9f, 0);
    const float nan_logits[] = {1, NAN, 2}, inf_logits[] = {1, INFINITY, 2};
    const float none[] = {-INFINITY, -INFINITY, -INFINITY}, masked[] = {-INFINITY, -3, -INFINITY};
    EXPECT(status_of(&greedy, 3, nan_logits) == KRAFLA_E_NUMERIC);
    EXPECT(status_of(&warm, 3, nan_logits) == KRAFLA_E_NUMERIC);
    EXPECT(status_of(&greedy, 3, inf_logits) == KRAFLA_E_NUMERIC);
    EXPECT(status_of(&warm, 3, none) == KRAFLA_E_NUMERIC);
    EXPECT(choose(&greedy, 3, masked, NULL, 0) == 1);
    EXPECT(choose(&warm, 3, masked, NULL, 0) == 1);
    const krafla_sampler_options top2 = options(1, 0, 2);
    EXPECT(choose(&top2, 3, masked, NULL, 0) == 1);

    krafla_sampler *s;
    krafla_error err;
    int32_t id;
    EXPECT(krafla_sampler_create(&s, 3, &warm, NULL) == KRAFLA_OK);
    EXPECT(krafla_sampler_next(s, inf_logits, NULL, 0, &id, &err) == KRAFLA_E_NUMERIC);
    EXPECT_STR("the logit of token 1 is inf: the model's weights are damaged, or too large for "
               "this arithmetic",
               err.message);
    EXPECT(id == -1);
    krafla_sampler_free(s);

    krafla_sampler_options forbidden = options(1, 0, 0);
    const krafla_logit_bias all[] = {{0, -INFINITY}, {1, -INFINITY}, {2, -INFINITY}};
    const float fine[] = {1, 2, 3};
    forbidden.logit_bias = all;
    forbidden.n_logit_bias = 3;
    EXPECT(status_of(&forbidden, 3, fine) == KRAFLA_E_NUMERIC);
    forbidden.n_logit_bias = 1; /* no bias hides a NaN */
    const float first_nan[] = {NAN, 1, 2};
    EXPECT(status_of(&forbidden, 3, first_nan) == KRAFLA_E_NUMERIC);
}

static void test_options_out_of_range_are_refused(void)
{
    krafla_sampler *s;
    krafla_error err;
    krafla_sampler_options o = options(-1, 0, 0);
    EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT && !s);
    EXPECT_STR("temperature is -1, expected 0 to 100", err.message);
    o = options(NAN, 0, 0);
    EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT);
    o = options(1, 1.5f, 0);
    EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT);
    o = options(1, 0, -1);
    EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT);
    const struct {
        size_t at;
        float low, high;
        const char *message;
    } floats[] = {
        {offsetof(krafla_sampler_options, min_p), 0, 1, "min_p is %g, expected 0 to 1"},
        {offsetof(krafla_sampler_options, repeat_penalty), 0.01f, 100,
         "repeat_penalty is %g, expected 0.01 to 100"},
        {offsetof(krafla_sampler_options, presence_penalty), -2, 2,
         "presence_penalty is %g, expected -2 to 2"},
        {offsetof(krafla_sampler_options, frequency_penalty), -2, 2,
         "frequency_penalty is %g, expected -2 to 2"},
    };
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        const float values[] = {floats[i].low - 0.001f, floats[i].high + 0.001f, NAN, -INFINITY,
                                floats[i].low,          floats[i].high};
        for (size_t v = 0; v < sizeof values / sizeof *values; v++) {
            char want[80];
            snprintf(want, sizeof want, floats[i].message, (double)values[v]);
            o = options(1, 0, 0);
            memcpy((char *)&o + floats[i].at, &values[v], sizeof *values);
            if (v < 4) {
                EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT);
                EXPECT_STR(want, err.message);
            } else {
                EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_OK);
                krafla_sampler_free(s);
            }
        }
    }
    o = options(1, 0, 0);
    o.repeat_last_n = -1;
    EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT);
    o = options(1, 0, 0);
    o.struct_size = 4;
    EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(krafla_sampler_create(&s, 0, NULL, &err) == KRAFLA_E_ARGUMENT);
}

static void test_a_bias_out_of_range_is_refused(void)
{
    const struct {
        krafla_logit_bias bias;
        const char *message;
    } cases[] = {
        {{4, 0}, "logit_bias: the id 4 is not from 0 to 3"},
        {{-1, 0}, "logit_bias: the id -1 is not from 0 to 3"},
        {{3, 100.5f}, "logit_bias of token 3 is 100.5, expected -100 to 100 or -infinity"},
        {{3, INFINITY}, "logit_bias of token 3 is inf, expected -100 to 100 or -infinity"},
        {{3, NAN}, NULL}, /* "nan" or "-nan" */
    };
    krafla_sampler *s;
    krafla_error err;
    krafla_sampler_options o = options(1, 0, 0);
    o.n_logit_bias = 1;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        o.logit_bias = &cases[i].bias;
        EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT && !s);
        if (cases[i].message)
            EXPECT_STR(cases[i].message, err.message);
    }
    o.logit_bias = NULL;
    EXPECT(krafla_sampler_create(&s, 4, &o, &err) == KRAFLA_E_ARGUMENT);
}

/* What krafla_session_logits() gives before the first sync. */
static void test_no_logits_are_an_error(void)
{
    const krafla_sampler_options greedy = options(0, 0, 0), warm = options(1, 0.9f, 0);
    EXPECT(status_of(&greedy, 3, NULL) == KRAFLA_E_ARGUMENT);
    EXPECT(status_of(&warm, 3, NULL) == KRAFLA_E_ARGUMENT);
}

int main(void)
{
    test_greedy_takes_the_lowest_of_equal_ids();
    test_penalty_counts_each_recent_token_once();
    test_presence_counts_once_and_frequency_each_time();
    test_a_bias_is_added_before_all_else();
    test_draws_follow_the_softmax();
    test_top_k_then_top_p_among_them();
    test_min_p_is_a_share_of_the_best_after_top_p();
    test_min_p_keeps_what_is_near_a_large_logit();
    test_selection_equals_a_full_sort();
    test_same_seed_gives_the_same_tokens();
    test_every_build_draws_the_same_tokens();
    test_numbers_that_are_none_are_errors();
    test_options_out_of_range_are_refused();
    test_a_bias_out_of_range_is_refused();
    test_no_logits_are_an_error();
    return unit_done("test_sampler");
}
