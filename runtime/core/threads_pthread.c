/* threads_pthread.c - the pool on POSIX threads: contiguous shares, then stealing.
 *
 * A share is one 64-bit word {next:32, end:32} on its own cache lines.  Whoever
 * wants a chunk, its owner or a thief, advances `next` by compare-exchange.
 * A thread that holds a chunk keeps its run from ending, so the job it reads
 * after taking the chunk is the right one; a thread that comes late finds empty
 * shares and nothing else.  Nobody is pinned.
 * SPDX-License-Identifier: MIT */
#include "threads.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"
#include "kernels.h"

enum {
    LINE = 128,       /* two cache lines: neighbours are prefetched in pairs */
    SPINS = 400,      /* pauses before yielding, 4 to 16 us: the usual wait between two runs */
    YIELDS = 250,     /* before sleeping, 100 us if nobody else wants the CPU: the sampler's time */
    STACK = 1u << 20, /* bytes per worker; kernels keep a few KB there */
};

struct share {
    _Atomic uint64_t range; /* next << 32 | end */
    char pad[LINE - sizeof(uint64_t)];
};

struct kr_pool {
    struct share share[KR_MAX_THREADS];
    _Atomic uint32_t run; /* number of runs and wake-ups so far: what idle workers watch */
    char pad0[LINE];
    _Atomic uint32_t done; /* chunks finished in this run */
    char pad1[LINE];
    _Atomic uint32_t sleepers; /* workers in, or about to enter, pthread_cond_wait */
    _Atomic bool waiting;      /* the caller sleeps until the last chunk is done */
    _Atomic bool stop;

    kr_chunk_fn *fn; /* the job: written before the shares are published */
    void *arg;
    uint32_t chunks;

    size_t threads;
    size_t started; /* workers that exist */
    pthread_mutex_t mutex;
    pthread_cond_t work, finished;
    pthread_t thread[KR_MAX_THREADS];
    struct seat {
        struct kr_pool *pool;
        size_t thread;
    } seat[KR_MAX_THREADS];
};

static bool take(struct share *s, size_t *chunk)
{
    uint64_t range = atomic_load_explicit(&s->range, memory_order_acquire);
    while ((uint32_t)(range >> 32) < (uint32_t)range) {
        const uint64_t rest = range + ((uint64_t)1 << 32);
        if (atomic_compare_exchange_weak_explicit(&s->range, &range, rest, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            *chunk = (size_t)(range >> 32);
            return true;
        }
    }
    return false;
}

/* Own share first, then the neighbours'. */
static void work(struct kr_pool *p, size_t thread)
{
    for (size_t v = 0; v < p->threads; v++) {
        struct share *s = &p->share[(thread + v) % p->threads];
        for (size_t chunk; take(s, &chunk);) {
            const uint32_t chunks = p->chunks;
            p->fn(p->arg, chunk, thread);
            /* After this add the caller may start the next run. */
            if (atomic_fetch_add(&p->done, 1) + 1 == chunks && atomic_load(&p->waiting)) {
                pthread_mutex_lock(&p->mutex);
                pthread_cond_signal(&p->finished);
                pthread_mutex_unlock(&p->mutex);
            }
        }
    }
}

/* A thread that waits for one without a CPU must not keep one from it: with more threads than CPUs,
 * or less of them than a container may use, a token takes two to three times as long without the
 * yield. */
static void relax(size_t round)
{
    if (round < SPINS)
        KR_PAUSE();
    else
        sched_yield();
}

/* Wait until the run counter leaves `seen`; returns its new value. */
static uint32_t idle(struct kr_pool *p, uint32_t seen)
{
    for (size_t i = 0; i < SPINS + YIELDS; i++) {
        const uint32_t run = atomic_load_explicit(&p->run, memory_order_acquire);
        if (run != seen)
            return run;
        relax(i);
    }
    pthread_mutex_lock(&p->mutex);
    atomic_fetch_add(&p->sleepers, 1); /* before the look at `run`: see announce */
    while (atomic_load(&p->run) == seen)
        pthread_cond_wait(&p->work, &p->mutex);
    atomic_fetch_sub(&p->sleepers, 1);
    pthread_mutex_unlock(&p->mutex);
    return atomic_load(&p->run);
}

static void *worker(void *arg)
{
    const struct seat *seat = arg;
    struct kr_pool *p = seat->pool;
    const uint32_t fp = kern_fp_begin();
    for (uint32_t seen = 0; !atomic_load(&p->stop);) {
        seen = idle(p, seen);
        work(p, seat->thread);
    }
    kern_fp_end(fp);
    return NULL;
}

/* Sequentially consistent on both sides: either the worker sees the new count
 * before it sleeps, or we see the sleeper. */
static void announce(struct kr_pool *p)
{
    atomic_fetch_add(&p->run, 1);
    if (atomic_load(&p->sleepers) == 0)
        return;
    pthread_mutex_lock(&p->mutex);
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->mutex);
}

/* Until the other threads have finished the chunks they hold. */
static void wait_done(struct kr_pool *p, uint32_t chunks)
{
    for (size_t i = 0; i < SPINS + YIELDS; i++) {
        if (atomic_load_explicit(&p->done, memory_order_acquire) == chunks)
            return;
        relax(i);
    }
    pthread_mutex_lock(&p->mutex);
    atomic_store(&p->waiting, true);
    while (atomic_load(&p->done) != chunks)
        pthread_cond_wait(&p->finished, &p->mutex);
    atomic_store(&p->waiting, false);
    pthread_mutex_unlock(&p->mutex);
}

void kr_pool_run(struct kr_pool *p, kr_chunk_fn *fn, void *arg, size_t chunks)
{
    assert(chunks <= UINT32_MAX);
    if (p->threads == 1 || chunks <= 1) {
        for (size_t i = 0; i < chunks; i++)
            fn(arg, i, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->chunks = (uint32_t)chunks;
    atomic_store_explicit(&p->done, 0, memory_order_relaxed);
    for (size_t t = 0; t < p->threads; t++) {
        const uint64_t next = (uint64_t)chunks * t / p->threads;
        const uint64_t end = (uint64_t)chunks * (t + 1) / p->threads;
        atomic_store_explicit(&p->share[t].range, next << 32 | end, memory_order_release);
    }
    announce(p);
    work(p, 0);
    wait_done(p, (uint32_t)chunks);
}

void kr_pool_wake(struct kr_pool *p)
{
    if (p->threads > 1 && atomic_load(&p->sleepers) > 0)
        announce(p); /* they find empty shares, and spin */
}

size_t kr_pool_threads(const struct kr_pool *p)
{
    return p->threads;
}

krafla_status kr_pool_create(struct kr_pool **out, size_t threads, krafla_error *err)
{
    *out = NULL;
    assert(threads >= 1 && threads <= KR_MAX_THREADS);
    struct kr_pool *p = calloc(1, sizeof *p);
    if (!p)
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory for a pool of %zu threads", threads);
    p->threads = threads;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->finished, NULL);

    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK);
    int failed = 0;
    for (size_t t = 1; t < threads && !failed; t++) {
        p->seat[t] = (struct seat){p, t};
        failed = pthread_create(&p->thread[t], &attr, worker, &p->seat[t]);
        p->started += !failed;
    }
    pthread_attr_destroy(&attr);
    if (failed) {
        const size_t got = p->started + 1;
        kr_pool_free(p);
        return kr_fail(err, KRAFLA_E_MEMORY,
                       "cannot start %zu threads, only %zu (%s): use a smaller -t", threads, got,
                       strerror(failed));
    }
    *out = p;
    return KRAFLA_OK;
}

void kr_pool_free(struct kr_pool *p)
{
    if (!p)
        return;
    atomic_store(&p->stop, true);
    announce(p);
    for (size_t t = 1; t <= p->started; t++)
        pthread_join(p->thread[t], NULL);
    pthread_cond_destroy(&p->finished);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

int32_t krafla_default_threads(const char **reason)
{
    return (int32_t)kr_cpu_usable("", KR_MAX_THREADS, reason);
}
