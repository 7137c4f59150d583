/* progress.h - how far a long job has come, told to whoever asked for it.
 * SPDX-License-Identifier: MIT */
#ifndef KR_PROGRESS_H
#define KR_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

struct kr_progress {
    void (*tell)(void *arg, uint64_t done, uint64_t total); /* NULL: nobody asked */
    void *arg;
    uint64_t done, total; /* bytes */
};

/* p may be NULL.  Not for workers of a pool. */
static inline void kr_progress_add(struct kr_progress *p, uint64_t bytes)
{
    if (!p || !p->tell)
        return;
    p->done += bytes;
    p->tell(p->arg, p->done, p->total);
}

/* Nothing of what is left will be done. */
static inline void kr_progress_end(struct kr_progress *p)
{
    if (p->done < p->total)
        kr_progress_add(p, p->total - p->done);
}

#endif
