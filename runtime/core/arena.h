/* arena.h - one block of memory for all buffers of a session.
 *
 * The layout is written once, as a function that takes every buffer from the
 * arena in order, and run twice: before kr_arena_alloc it only counts (take
 * returns NULL), after it the same calls hand out the addresses.  Everything
 * is 64-byte aligned and zero.  Nothing is given back piece by piece.
 * SPDX-License-Identifier: MIT */
#ifndef KR_ARENA_H
#define KR_ARENA_H

#include "error.h"

struct kr_arena {
    uint8_t *base; /* NULL while counting */
    size_t bytes;  /* size of the block */
    size_t used;   /* bytes taken or counted so far */
    bool overflow; /* a size did not fit size_t: kr_arena_alloc fails */
};

/* count * size bytes.  NULL while counting. */
void *kr_arena_take(struct kr_arena *a, size_t count, size_t size);
/* Allocate what has been counted.  False without memory, or if a size overflowed. */
bool kr_arena_alloc(struct kr_arena *a);
void kr_arena_free(struct kr_arena *a);

#endif
