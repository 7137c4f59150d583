/* bpe.h - byte pair encoding: the merge table and the merging of one piece.
 *
 * Always merges the pair of lowest rank, the leftmost of several, in
 * O(n log n) for a piece of n symbols.  What the symbols are at the start is
 * tokenizer_encode.c's business.
 * SPDX-License-Identifier: MIT */
#ifndef KR_BPE_H
#define KR_BPE_H

#include "mlt.h"

struct kr_merge {
    uint32_t left, right, rank, result;
};

/* Open addressing, at most two thirds full; a look-up takes a bounded number of steps. */
struct kr_merges {
    struct kr_merge *slots;
    unsigned shift; /* 64 - log2(slots) */
    size_t mask;    /* slots - 1 */
};

/* Build the table of t's merges.  A pair that occurs twice is refused. */
krafla_status kr_merges_create(struct kr_merges *m, const struct kr_mlt *t, const char *path,
                               krafla_error *err);
void kr_merges_free(struct kr_merges *m);

/* Scratch memory of one encoding; zero it before the first use. */
struct kr_bpe {
    struct kr_symbol *symbols;
    uint64_t *heap;
    size_t cap, n_heap;
    int32_t *ids; /* [cap]: symbols in, tokens out */
};

/* Make room for n symbols (n is below 2^32). */
krafla_status kr_bpe_reserve(struct kr_bpe *b, size_t n, krafla_error *err);
void kr_bpe_free(struct kr_bpe *b);

/* Merge b->ids[0..n); returns how many are left.  n is at most the reserved count. */
size_t kr_bpe_merge(struct kr_bpe *b, const struct kr_merges *m, size_t n);

#endif
