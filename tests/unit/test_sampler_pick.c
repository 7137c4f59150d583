/* test_sampler_pick.c - the loops over a vocabulary, against plain ones and a sort, for lengths
 * around the widths they work in.
 * SPDX-License-Identifier: MIT */
#include "sampler_pick.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 70000 };

static const size_t lengths[] = {1, 2, 15, 16, 17, 31, 511, 512, 513, 1030, 4097, MOST};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static float numbers[MOST], weights[MOST];
static struct kr_candidate picks[MOST], sorted[MOST];

/* From -span to 0 in `steps` values: few steps are many ties. */
static void fill(float *x, size_t n, uint32_t steps, float span)
{
    uint32_t state = (uint32_t)n * 2654435761u + steps;
    for (size_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = -span * (float)((state >> 8) % steps) / (float)steps;
    }
}

static int heavier_first(const void *a, const void *b)
{
    const struct kr_candidate *x = a, *y = b;
    if (x->value != y->value)
        return x->value < y->value ? 1 : -1;
    return x->id - y->id;
}

static int by_id(const void *a, const void *b)
{
    return ((const struct kr_candidate *)a)->id - ((const struct kr_candidate *)b)->id;
}

/* sorted [n] = x[0..n), the heaviest first. */
static void sort(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        sorted[i] = (struct kr_candidate){x[i], (int32_t)i};
    qsort(sorted, n, sizeof *sorted, heavier_first);
}

/* Whether c[0..n) are the n heaviest by sort(). */
static int are_heaviest(struct kr_candidate *c, size_t n)
{
    qsort(c, n, sizeof *c, by_id);
    qsort(sorted, n, sizeof *sorted, by_id);
    for (size_t i = 0; i < n; i++)
        if (c[i].id != sorted[i].id || c[i].value != sorted[i].value)
            return 0;
    return 1;
}

static void test_the_best_is_the_first_of_the_largest(void)
{
    for (size_t l = 0; l < LENGTHS; l++) {
        const size_t n = lengths[l];
        fill(numbers, n, 50, 9.0f);
        int32_t want = 0;
        for (size_t i = 1; i < n; i++)
            if (numbers[i] > numbers[want])
                want = (int32_t)i;
        int bad = 1;
        EXPECT(kr_pick_best(numbers, n, &bad) == want && !bad);
    }
    for (size_t i = 0; i < 40; i++)
        numbers[i] = -INFINITY;
    int bad = 1;
    EXPECT(kr_pick_best(numbers, 40, &bad) == -1 && !bad);
    numbers[37] = -3e38f;
    EXPECT(kr_pick_best(numbers, 40, &bad) == 37 && !bad);
}

static void test_what_is_no_number_is_found_wherever_it_is(void)
{
    const float wrong[] = {NAN, INFINITY};
    for (size_t at = 0; at < 1100; at++) {
        fill(numbers, 1100, 1000, 9.0f);
        numbers[at] = wrong[at % 2];
        if (at % 3 == 0)
            numbers[1099] = NAN; /* the first counts */
        int bad = 0;
        EXPECT(kr_pick_best(numbers, 1100, &bad) == (int32_t)at && bad);
    }
}

static void test_weights_are_exponentials(void)
{
    const float temperatures[] = {1e-4f, 0.3f, 1.0f, 100.0f};
    for (size_t l = 0; l < LENGTHS; l++) {
        const size_t n = lengths[l];
        const double t = (double)temperatures[l % 4];
        fill(numbers, n, 1u << 24, 80.0f * temperatures[l % 4]);
        const double sum = kr_pick_weigh(weights, numbers, n, 0.0f, temperatures[l % 4]);
        double want_sum = 0, bound = 0, worst = 0;
        for (size_t i = 0; i < n; i++) {
            const double want = exp((double)numbers[i] / t);
            /* Rounding x / T moves the result by up to so much. */
            const double most = 2.5e-7 * (1 + fabs((double)numbers[i] / t) / 2) * want;
            worst = fmax(worst, fabs((double)weights[i] - want) / most);
            want_sum += want;
            bound += most;
        }
        EXPECT(worst < 1);
        EXPECT(fabs(sum - want_sum) < bound + 1e-6 * want_sum);
        EXPECT(kr_pick_weigh(numbers, numbers, n, 0.0f, temperatures[l % 4]) == sum);
        EXPECT(memcmp(numbers, weights, n * sizeof *weights) == 0); /* in place */
    }
    const float edges[] = {0.0f, -INFINITY, -87.0f, -89.0f, -3e38f};
    kr_pick_weigh(weights, edges, 5, 0.0f, 1.0f);
    EXPECT(weights[0] == 1.0f && weights[1] == 0.0f && weights[2] > 0.0f);
    EXPECT(weights[3] == 0.0f && weights[4] == 0.0f);
}

static void test_heavy_ones_are_all_that_are_not_below(void)
{
    for (size_t l = 0; l < LENGTHS; l++) {
        const size_t n = lengths[l];
        fill(numbers, n, 300, 1.0f);
        size_t want = 0;
        const size_t found = kr_pick_heavy(picks, numbers, n, -0.02f);
        for (size_t i = 0; i < n; i++)
            if (numbers[i] >= -0.02f) {
                EXPECT(want < found && picks[want].id == (int32_t)i);
                want++;
            }
        EXPECT(found == want);
    }
}

static void test_top_k_are_the_first_of_a_sort(void)
{
    const uint32_t steps[] = {1, 40, 1u << 24};
    for (size_t l = 0; l < LENGTHS; l++)
        for (size_t s = 0; s < 3; s++) {
            const size_t n = lengths[l], ks[] = {1, n / 3 + 1, n};
            fill(numbers, n, steps[s], 20.0f);
            for (size_t k = 0; k < 3; k++) {
                sort(numbers, n);
                kr_pick_top_k(picks, ks[k], numbers, n);
                EXPECT(are_heaviest(picks, ks[k]));
            }
        }
}

/* Weights that are whole numbers of 1/64 or so, whose sums are exact: the edge is certain. */
static void test_a_nucleus_is_the_shortest_start_of_a_sort(void)
{
    const uint32_t steps[] = {1, 3, 64, 1u << 16};
    for (size_t l = 0; l < LENGTHS; l++)
        for (size_t s = 0; s < 4; s++) {
            const size_t n = lengths[l];
            fill(numbers, n, steps[s], 1.0f);
            double all = 0;
            for (size_t i = 0; i < n; i++) {
                weights[i] = 1.0f + numbers[i];
                all += (double)weights[i];
            }
            const double shares[] = {0.001, 0.5, 0.9, 1.0};
            for (size_t p = 0; p < 4; p++) {
                sort(weights, n);
                size_t want = 0;
                for (double held = 0; held < shares[p] * all && want < n; want++)
                    held += (double)sorted[want].value;
                size_t found = kr_pick_heavy(picks, weights, n, 0.0f);
                struct kr_candidate *c = kr_pick_top_p(picks, &found, shares[p] * all);
                EXPECT(found == want);
                EXPECT(c + found == picks + n);
                EXPECT(are_heaviest(c, found));
            }
        }
}

static void test_a_draw_divides_the_unit_interval_by_weight(void)
{
    for (size_t l = 0; l < LENGTHS; l++) {
        const size_t n = lengths[l];
        double all = 0, below = 0;
        for (size_t i = 0; i < n; i++) {
            picks[i] = (struct kr_candidate){1.0f / (float)(1 + i % 7), (int32_t)(3 * i)};
            all += (double)picks[i].value;
        }
        for (size_t i = 0; i < n;
             i++) { /* a little above the lower edge, a little below the upper */
            const double width = (double)picks[i].value;
            if (i < 20 || i % 97 == 0 || i + 20 > n) {
                EXPECT(kr_pick_draw(picks, n, (below + 0.01 * width) / all) == (int32_t)(3 * i));
                EXPECT(kr_pick_draw(picks, n, (below + 0.99 * width) / all) == (int32_t)(3 * i));
            }
            below += width;
        }
        EXPECT(kr_pick_draw(picks, n, 0.0) == 0);
        EXPECT(kr_pick_draw(picks, n, 0x1.fffffffffffffp-1) == (int32_t)(3 * (n - 1)));
    }
}

static void test_a_draw_of_all_goes_by_id_and_past_what_weighs_nothing(void)
{
    for (size_t l = 0; l < LENGTHS; l++) {
        const size_t n = lengths[l];
        double all = 0, below = 0;
        for (size_t i = 0; i < n; i++) {
            weights[i] = i % 5 == 3 ? 0.0f : 1.0f / (float)(1 + i % 7);
            all += (double)weights[i];
        }
        for (size_t i = 0; i < n; i++) {
            const double width = (double)weights[i];
            if (width > 0 && (i < 20 || i % 97 == 0 || i + 20 > n)) {
                EXPECT(kr_pick_draw_all(weights, n, below + 0.02 * width, -1) == (int32_t)i);
                EXPECT(kr_pick_draw_all(weights, n, below + 0.98 * width, -1) == (int32_t)i);
            }
            below += width;
        }
        EXPECT(kr_pick_draw_all(weights, n, all * 1.001, 77) == 77);
    }
}

int main(void)
{
    test_the_best_is_the_first_of_the_largest();
    test_what_is_no_number_is_found_wherever_it_is();
    test_weights_are_exponentials();
    test_heavy_ones_are_all_that_are_not_below();
    test_top_k_are_the_first_of_a_sort();
    test_a_nucleus_is_the_shortest_start_of_a_sort();
    test_a_draw_divides_the_unit_interval_by_weight();
    test_a_draw_of_all_goes_by_id_and_past_what_weighs_nothing();
    return unit_done("test_sampler_pick");
}
