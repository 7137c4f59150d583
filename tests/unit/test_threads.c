/* test_threads.c - the pool: every chunk once, whatever the counts, under load and idleness.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

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
        if (r % 1000 == 0)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL); /* they have gone to sleep */
        if (r % 2000 == 0)
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

struct slow {
    _Atomic bool started;
    bool finished; /* no atomic: the end of the run has to publish it */
};

/* Chunk 0, the caller's, ends as soon as a worker has begun the long chunk 1. */
static void slow_chunk(void *arg, size_t chunk, size_t thread)
{
    struct slow *s = arg;
    (void)thread;
    if (chunk == 0) {
        while (!s->started)
            KR_PAUSE();
        return;
    }
    s->started = true;
    for (size_t i = 0; i < 1000000; i++) /* far longer than the caller spins */
        KR_PAUSE();
    s->finished = true;
}

static void a_slow_chunk_is_waited_for(void)
{
    struct kr_pool *pool;
    EXPECT(kr_pool_create(&pool, 2, NULL) == KRAFLA_OK);
    for (int i = 0; i < 3 && kr_pool_threads(pool) > 1; i++) {
        struct slow s = {0};
        kr_pool_run(pool, slow_chunk, &s, 2);
        EXPECT(s.finished);
    }
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
    a_slow_chunk_is_waited_for();
    a_pool_may_be_freed_unused();
    the_default_is_at_least_one_and_has_a_reason();
    return unit_done("test_threads");
}
