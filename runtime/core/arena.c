/* arena.c - counts first, then hands out; overflow is remembered, not lost.
 * SPDX-License-Identifier: MIT */
#include "arena.h"

#include <assert.h>

#include "map.h"

enum { ALIGN = 64 };

void *kr_arena_take(struct kr_arena *a, size_t count, size_t size)
{
    size_t bytes, end;
    if (!kr_size_mul(&bytes, count, size) || !kr_size_add(&bytes, bytes, ALIGN - 1) ||
        !kr_size_add(&end, a->used, bytes - bytes % ALIGN)) {
        a->overflow = true;
        return NULL;
    }
    void *p = a->base ? a->base + a->used : NULL;
    a->used = end;
    assert(!a->base || a->used <= a->bytes);
    return p;
}

bool kr_arena_alloc(struct kr_arena *a)
{
    if (a->overflow)
        return false;
    a->bytes = a->used;
    a->used = 0;
    a->base = kr_big_alloc(a->bytes);
    return a->base != NULL;
}

void kr_arena_free(struct kr_arena *a)
{
    if (a->base)
        kr_big_free(a->base, a->bytes);
    *a = (struct kr_arena){0};
}
