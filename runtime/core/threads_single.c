/* threads_single.c - the pool of a single-threaded build: the caller does it all.
 * SPDX-License-Identifier: MIT */
#include "threads.h"

struct kr_pool {
    int unused;
};

static struct kr_pool the_pool; /* holds no state: every session may share it */

int32_t krafla_default_threads(const char **reason)
{
    if (reason)
        *reason = "this is a single-threaded build";
    return 1;
}

krafla_status kr_pool_create(struct kr_pool **out, size_t threads, krafla_error *err)
{
    (void)threads;
    (void)err;
    *out = &the_pool;
    return KRAFLA_OK;
}

void kr_pool_free(struct kr_pool *p)
{
    (void)p;
}

size_t kr_pool_threads(const struct kr_pool *p)
{
    (void)p;
    return 1;
}

void kr_pool_run(struct kr_pool *p, kr_chunk_fn *fn, void *arg, size_t chunks)
{
    (void)p;
    for (size_t i = 0; i < chunks; i++)
        fn(arg, i, 0);
}

void kr_pool_wake(struct kr_pool *p)
{
    (void)p;
}
