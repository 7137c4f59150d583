/* threads.c - which work is worth the pool; the same for both kinds of pool.
 * SPDX-License-Identifier: MIT */
#include "threads.h"

bool kr_pool_worth(const struct kr_pool *p, uint64_t work)
{
    return work >= KR_SMALL_WORK && kr_pool_threads(p) > 1;
}

void kr_pool_share(struct kr_pool *p, kr_chunk_fn *fn, void *arg, size_t chunks, uint64_t work)
{
    if (kr_pool_worth(p, work)) {
        kr_pool_run(p, fn, arg, chunks);
        return;
    }
    for (size_t i = 0; i < chunks; i++)
        fn(arg, i, 0);
}
