/* kvcache.h - keys and values of a session, all layers in one block of memory.
 *
 * The block is ordered by segments of KERN_SEGMENT positions, then layers, then
 * KV heads:
 *
 *     [segment][layer][head]{ k | v | ks | vs }                             (kern_kv in kernels.h)
 *
 * so memory is touched as the timeline grows, in steps of 512 positions, and
 * a segment of one head lies in one piece.  A context below 512 is one segment
 * of just that size, rounded up to 16.
 * SPDX-License-Identifier: MIT */
#ifndef KR_KVCACHE_H
#define KR_KVCACHE_H

#include "error.h"
#include "kernels.h"

struct kr_kvcache {
    uint8_t *base;
    size_t bytes;
    size_t k_bytes, v_bytes, scale_bytes; /* one segment of one head */
    size_t head_bytes;                    /* k, v and both scales */
    size_t layers, heads, head_dim;
    enum kern_kvtype type;
};

/* Sizes for n_ctx positions; no memory yet.  False if they do not fit size_t. */
bool kr_kvcache_plan(struct kr_kvcache *c, enum kern_kvtype type, size_t n_ctx, size_t layers,
                     size_t heads, size_t head_dim);
/* Zeroed memory for the plan; false if there is none. */
bool kr_kvcache_alloc(struct kr_kvcache *c);
void kr_kvcache_free(struct kr_kvcache *c);

/* One segment of one head: the kernels see positions 0..511 of it. */
struct kern_kv kr_kvcache_at(const struct kr_kvcache *c, size_t layer, size_t head, size_t segment);

/* Store zeros at positions [pos0, pos1) of all layers.  zero: head_dim zeros. */
void kr_kvcache_clear(const struct kr_kvcache *c, size_t pos0, size_t pos1, const float *zero);

#endif
