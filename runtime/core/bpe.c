/* bpe.c - byte pair encoding: of few symbols by looking at every pair, of many with a linked list of
 * symbols and a heap of possible merges.
 *
 * A heap entry is rank << 32 | position, so the smallest entry is the lowest
 * rank and the leftmost of several.  Entries are never removed when a merge
 * changes a pair: an entry is stale if the symbol at its position is gone or
 * its pair now has another rank.
 * SPDX-License-Identifier: MIT */
#include "bpe.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_PROBES = 4096,
    FEW = 32, /* symbols: up to here looking at every pair is faster than a heap */
};
#define NO_RANK UINT32_MAX
#define NONE UINT32_MAX

struct kr_symbol {
    int32_t id; /* -1: merged into the one before */
    uint32_t prev, next;
    uint32_t rank, result; /* of the merge with the next symbol; NO_RANK: there is none */
};

static size_t slot_of(const struct kr_merges *m, uint32_t left, uint32_t right)
{
    return (size_t)((((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u) >> m->shift);
}

static bool add(struct kr_merges *m, const uint32_t *merge, uint32_t rank)
{
    size_t at = slot_of(m, merge[0], merge[1]);
    for (int probes = 0; probes < MAX_PROBES; probes++, at = (at + 1) & m->mask) {
        struct kr_merge *s = &m->slots[at];
        if (s->left == NONE) {
            *s = (struct kr_merge){merge[0], merge[1], rank, merge[2]};
            return true;
        }
        if (s->left == merge[0] && s->right == merge[1])
            return false;
    }
    return false;
}

static const struct kr_merge *find(const struct kr_merges *m, int32_t left, int32_t right)
{
    size_t at = slot_of(m, (uint32_t)left, (uint32_t)right);
    for (int probes = 0; probes < MAX_PROBES; probes++, at = (at + 1) & m->mask) {
        const struct kr_merge *s = &m->slots[at];
        if (s->left == (uint32_t)left && s->right == (uint32_t)right)
            return s;
        if (s->left == NONE)
            return NULL;
    }
    return NULL; /* a file can fill any number of slots in a row */
}

krafla_status kr_merges_create(struct kr_merges *m, const struct kr_mlt *t, const char *path,
                               krafla_error *err)
{
    unsigned bits = 4;
    while (((size_t)1 << bits) < t->n_merges + t->n_merges / 2)
        bits++;
    const size_t slots = (size_t)1 << bits;
    m->shift = 64 - bits;
    m->mask = slots - 1;
    size_t bytes;
    m->slots = kr_size_mul(&bytes, slots, sizeof *m->slots) ? malloc(bytes) : NULL;
    if (!m->slots)
        return kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for %zu merges", path, t->n_merges);
    memset(m->slots, 0xff, bytes); /* left = NONE everywhere */
    for (size_t i = 0; i < t->n_merges; i++) {
        const uint32_t *merge = t->merges + 3 * i;
        if (!add(m, merge, t->ranks ? t->ranks[i] : (uint32_t)i))
            return kr_fail(
                err, KRAFLA_E_FORMAT,
                "%s: merge %zu of tokens %u and %u is there twice, or collides too often; "
                "download or convert it again",
                path, i, (unsigned)merge[0], (unsigned)merge[1]);
    }
    return KRAFLA_OK;
}

void kr_merges_free(struct kr_merges *m)
{
    free(m->slots);
    m->slots = NULL;
}

krafla_status kr_bpe_reserve(struct kr_bpe *b, size_t n, krafla_error *err)
{
    if (n <= b->cap)
        return KRAFLA_OK;
    /* Half as much again, so that growing pieces cost linear time in total. */
    size_t cap = n + n / 2 + 64, symbols, heap;
    kr_bpe_free(b);
    /* n - 1 pairs at the start; each merge takes one entry at least and adds at most two. */
    if (kr_size_mul(&symbols, cap, sizeof *b->symbols) &&
        kr_size_mul(&heap, cap, 2 * sizeof *b->heap)) {
        b->symbols = malloc(symbols);
        b->heap = malloc(heap);
        b->ids = malloc(cap * sizeof *b->ids);
    }
    if (!b->symbols || !b->heap || !b->ids) {
        kr_bpe_free(b);
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory encoding a piece of %zu bytes", n);
    }
    b->cap = cap;
    return KRAFLA_OK;
}

void kr_bpe_free(struct kr_bpe *b)
{
    free(b->symbols);
    free(b->heap);
    free(b->ids);
    memset(b, 0, sizeof *b);
}

static void push(struct kr_bpe *b, uint64_t entry)
{
    size_t at = b->n_heap++;
    while (at > 0 && b->heap[(at - 1) / 2] > entry) {
        b->heap[at] = b->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    b->heap[at] = entry;
}

static uint64_t pop(struct kr_bpe *b)
{
    const uint64_t top = b->heap[0], last = b->heap[--b->n_heap];
    size_t at = 0, child;
    while ((child = 2 * at + 1) < b->n_heap) {
        if (child + 1 < b->n_heap && b->heap[child + 1] < b->heap[child])
            child++;
        if (b->heap[child] >= last)
            break;
        b->heap[at] = b->heap[child];
        at = child;
    }
    b->heap[at] = last;
    return top;
}

/* Look up the pair that begins at symbol `at` and put it on the heap. */
static void offer(struct kr_bpe *b, const struct kr_merges *m, uint32_t at)
{
    struct kr_symbol *s = &b->symbols[at];
    const struct kr_merge *merge = s->next == NONE ? NULL : find(m, s->id, b->symbols[s->next].id);
    s->rank = NO_RANK;
    if (!merge)
        return;
    s->rank = merge->rank;
    s->result = merge->result;
    push(b, (uint64_t)merge->rank << 32 | at);
}

/* Put the merge of left and right, or none, into *rank and *result. */
static void rate(const struct kr_merges *m, int32_t left, int32_t right, uint32_t *rank,
                 int32_t *result)
{
    const struct kr_merge *merge = find(m, left, right);
    *rank = merge ? merge->rank : NO_RANK;
    *result = merge ? (int32_t)merge->result : 0;
}

/* n from 2 to FEW; rank[i] and result[i] are of the pair that begins at i. */
static size_t merge_few(int32_t *ids, const struct kr_merges *m, size_t n)
{
    uint32_t rank[FEW];
    int32_t result[FEW];
    for (size_t i = 0; i + 1 < n; i++)
        rate(m, ids[i], ids[i + 1], &rank[i], &result[i]);
    rank[n - 1] = NO_RANK;
    for (;;) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++) {
            if (rank[i] < rank[best])
                best = i;
        }
        if (rank[best] == NO_RANK)
            return n;
        ids[best] = result[best];
        n--;
        for (size_t i = best + 1; i < n; i++) {
            ids[i] = ids[i + 1];
            rank[i] = rank[i + 1];
            result[i] = result[i + 1];
        }
        rank[best] = NO_RANK;
        if (best + 1 < n)
            rate(m, ids[best], ids[best + 1], &rank[best], &result[best]);
        if (best > 0)
            rate(m, ids[best - 1], ids[best], &rank[best - 1], &result[best - 1]);
    }
}

static size_t merge_many(struct kr_bpe *b, const struct kr_merges *m, size_t n)
{
    b->n_heap = 0;
    for (uint32_t i = 0; i < n; i++) {
        b->symbols[i] = (struct kr_symbol){
            .id = b->ids[i],
            .prev = i - 1, /* NONE for the first */
            .next = i + 1 < n ? i + 1 : NONE,
        };
    }
    for (uint32_t i = 0; i < n; i++)
        offer(b, m, i);

    while (b->n_heap) {
        const uint64_t entry = pop(b);
        const uint32_t at = (uint32_t)entry;
        struct kr_symbol *left = &b->symbols[at];
        if (left->id < 0 || left->rank != (uint32_t)(entry >> 32))
            continue;
        struct kr_symbol *right = &b->symbols[left->next];
        left->id = (int32_t)left->result;
        left->next = right->next;
        right->id = -1;
        if (left->next != NONE)
            b->symbols[left->next].prev = at;
        offer(b, m, at);
        if (left->prev != NONE)
            offer(b, m, left->prev);
    }

    size_t out = 0;
    for (uint32_t i = 0; i != NONE; i = b->symbols[i].next)
        b->ids[out++] = b->symbols[i].id;
    return out;
}

size_t kr_bpe_merge(struct kr_bpe *b, const struct kr_merges *m, size_t n)
{
    return n < 2 ? n : n <= FEW ? merge_few(b->ids, m, n) : merge_many(b, m, n);
}
