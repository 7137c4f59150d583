/* bench_limits.c - the two walls a kernel runs into: memory, and the dot instruction.
 *
 * Both move with the neighbours on a shared machine, so both are measured in
 * short pieces between those of what is compared with them.
 * SPDX-License-Identifier: MIT */
#include "bench.h"
#include "console.h"

enum {
    LINE_WORDS = 8, /* a 64-byte cache line: one load brings all of it */
    STREAMS = 4,    /* independent sums, so that no add waits for a load */
    PEAK_RUNS = 3,
};

static const double PEAK_SECONDS = 1e-3;

struct reading {
    const uint64_t *p;
    size_t groups, chunks; /* groups of STREAMS lines */
};

/* One word of each line, in order: as fast as the widest loads, in any instruction set. */
static void read_chunk(void *arg, size_t chunk, size_t thread)
{
    const struct reading *r = arg;
    (void)thread;
    const size_t from = r->groups * chunk / r->chunks, to = r->groups * (chunk + 1) / r->chunks;
    uint64_t sum[STREAMS] = {0};
    for (size_t g = from; g < to; g++)
        for (size_t s = 0; s < STREAMS; s++)
            sum[s] += r->p[(g * STREAMS + s) * LINE_WORDS];
    volatile uint64_t sink = sum[0] + sum[1] + sum[2] + sum[3];
    (void)sink;
}

double bench_read_rate(struct kr_pool *pool, const uint8_t *p, size_t bytes)
{
    struct reading r = {(const uint64_t *)p, bytes / (STREAMS * LINE_WORDS * sizeof(uint64_t)),
                        kr_pool_threads(pool) * KR_CHUNKS_PER_THREAD};
    const double start = console_seconds();
    kr_pool_run(pool, read_chunk, &r, r.chunks);
    return (double)bytes / (console_seconds() - start);
}

struct peak {
    enum kern_wtype w;
    size_t rounds;
    uint64_t macs; /* of one chunk: the same for all */
    const char *name;
};

static void peak_chunk(void *arg, size_t chunk, size_t thread)
{
    struct peak *p = arg;
    (void)thread;
    const char *name;
    const uint64_t macs = kern_peak(p->w, p->rounds, &name);
    if (chunk == 0) {
        p->macs = macs;
        p->name = name;
    }
}

double bench_peak_rate(struct kr_pool *pool, enum kern_wtype w, const char **name)
{
    const size_t chunks = kr_pool_threads(pool) * KR_CHUNKS_PER_THREAD;
    struct peak p = {.w = w, .rounds = 16};
    double best = 0.0;
    for (size_t runs = 0; runs < PEAK_RUNS;) {
        const double start = console_seconds();
        kr_pool_run(pool, peak_chunk, &p, chunks);
        const double seconds = console_seconds() - start;
        if (seconds < PEAK_SECONDS) { /* too short to tell: this also wakes the threads */
            p.rounds *= 2;
            continue;
        }
        const double rate = (double)p.macs * (double)chunks / seconds;
        best = rate > best ? rate : best;
        runs++;
    }
    if (name)
        *name = p.name;
    return best;
}
