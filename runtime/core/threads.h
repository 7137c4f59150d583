/* threads.h - a pool that runs numbered chunks (threads_pthread.c, threads_single.c).
 *
 * kr_pool_run hands chunks 0..n-1 to the pool and the calling thread and
 * returns when all are done.  Every thread first takes the chunks of its own
 * contiguous share, in order, then helps the others; which thread ran a chunk
 * must not matter to the result.  A thread that waits spins briefly, then yields its CPU,
 * then sleeps: a thread without a CPU delays the chunk it holds, nothing else.
 * SPDX-License-Identifier: MIT */
#ifndef KR_THREADS_H
#define KR_THREADS_H

#include "error.h"

enum {
    KR_MAX_THREADS = 64,
    KR_CHUNKS_PER_THREAD = 4, /* of a run, at least: a slow thread can be helped */
};

struct kr_pool;

/* fn(arg, chunk, thread): thread is 0..threads-1 and names a scratch area no one else uses. */
typedef void kr_chunk_fn(void *arg, size_t chunk, size_t thread);

krafla_status kr_pool_create(struct kr_pool **out, size_t threads, krafla_error *err);
void kr_pool_free(struct kr_pool *p);
size_t kr_pool_threads(const struct kr_pool *p);
void kr_pool_run(struct kr_pool *p, kr_chunk_fn *fn, void *arg, size_t chunks);
/* Runs will follow soon: sleeping workers had better wake up now. */
void kr_pool_wake(struct kr_pool *p);

/* threads.c: waking the pool pays from KR_SMALL_WORK multiplications on. */
enum { KR_SMALL_WORK = 1 << 18 };
bool kr_pool_worth(const struct kr_pool *p, uint64_t work);
/* kr_pool_run, or all chunks on the caller as thread 0 if it is not worth it. */
void kr_pool_share(struct kr_pool *p, kr_chunk_fn *fn, void *arg, size_t chunks, uint64_t work);

#endif
