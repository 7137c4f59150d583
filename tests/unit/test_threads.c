/* test_threads.c - the pool: every chunk once, whatever the counts, under load and idleness.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdint.h>

#include "threads.h"

enum { MAX_CHUNKS = 1000, THREADS = 5 };

struct job {
    uint32_t runs[MAX_CHUNKS]; /* written by whoever runs the chunk: no atomics, on purpose */
    size_t sum[KR_MAX_THREADS][16];
    size_t threads;
};

static void count_chunk(void *arg, size_t chunk, size_t thread)
{
    struct job *j = arg;
    j->runs[chunk]++;
    j->sum[thread < j->threads ? thread : 0][0] += chunk;
}

static void every_chunk_runs_once(void)
{
    static const size_t counts[] = {0, 1, 2, 3, 4, 5, 6, 7, 31, MAX_CHUNKS};
    for (size_t threads = 1; threads <= THREADS; threads++) {
        struct kr_pool *pool;
        EXPECT(kr_pool_create(&pool, threads, NULL) == KRAFLA_OK);
        kr_pool_wake(pool);
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            static struct job j;
            memset(&j, 0, sizeof j);
            j.threads = kr_pool_threads(pool);
            kr_pool_run(pool, count_chunk, &j, counts[i]);
            size_t wrong = 0, sum = 0;
            for (size_t c = 0; c < MAX_CHUNKS; c++)
                wrong += j.runs[c] != (c < counts[i]);
            for (size_t t = 0; t < j.threads; t++)
                sum += j.sum[t][0];
            EXPECT(wrong == 0);
            EXPECT(sum == (counts[i] ? counts[i] * (counts[i] - 1) / 2 : 0));
        }
        kr_pool_rest(pool);
        kr_pool_free(pool);
    }
}

/* Each run reads what the one before wrote, so a run that begins too early is seen. */
static void chain_chunk(void *arg, size_t chunk, size_t thread)
{
    uint32_t *v = arg;
    (void)thread;
    const uint32_t left = v[(chunk + 1) % 64];
    v[64 + chunk] = left + 1;
}

static void runs_do_not_overlap(void)
{
    struct kr_pool *pool;
    EXPECT(kr_pool_create(&pool, THREADS, NULL) == KRAFLA_OK);
    static uint32_t v[128];
    const uint32_t rounds = 3000;
    for (uint32_t r = 0; r < rounds; r++) {
        if (r % 100 == 0)
            kr_pool_rest(pool); /* some of the runs meet sleeping workers */
        if (r % 100 == 50)
            kr_pool_wake(pool);
        kr_pool_run(pool, chain_chunk, v, 64);
        memcpy(v, v + 64, 64 * sizeof *v);
    }
    size_t wrong = 0;
    for (size_t i = 0; i < 64; i++)
        wrong += v[i] != rounds;
    EXPECT(wrong == 0);
    kr_pool_free(pool);
}

static void a_pool_may_be_freed_unused(void)
{
    for (int i = 0; i < 50; i++) {
        struct kr_pool *pool;
        EXPECT(kr_pool_create(&pool, THREADS, NULL) == KRAFLA_OK);
        if (i % 2)
            kr_pool_wake(pool);
        kr_pool_free(pool);
    }
    kr_pool_free(NULL);
}

static void the_default_is_at_least_one_and_has_a_reason(void)
{
    const char *reason = NULL;
    const int32_t n = krafla_default_threads(&reason);
    EXPECT(n >= 1 && n <= KR_MAX_THREADS);
    EXPECT(reason && *reason);
    EXPECT(krafla_default_threads(NULL) == n);
}

int main(void)
{
    every_chunk_runs_once();
    runs_do_not_overlap();
    a_pool_may_be_freed_unused();
    the_default_is_at_least_one_and_has_a_reason();
    return unit_done("test_threads");
}
