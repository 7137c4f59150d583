/* test_session_alloc.c - the forward pass takes no memory: malloc and its kin are counted here.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "compiler.h"
#include "krafla.h"
#include "tiny_model.h"

/* A bump allocator in the C library's place; nothing is given back.  It runs before a sanitizer is
 * ready, and so without one. */
enum { HEAP = 32 << 20, HEADER = 64, ROUNDS = 3 };

static _Alignas(64) uint8_t heap[HEAP];
static _Atomic size_t heap_used;
static _Atomic size_t allocations;

KR_NO_SANITIZE void *malloc(size_t bytes)
{
    atomic_fetch_add(&allocations, 1);
    const size_t size = (bytes + 2 * HEADER - 1) / HEADER * HEADER; /* header and rounding */
    const size_t at = atomic_fetch_add(&heap_used, size);
    if (bytes > HEAP || at + size > HEAP) {
        errno = ENOMEM;
        return NULL;
    }
    *(size_t *)(void *)(heap + at) = bytes;
    return heap + at + HEADER;
}

KR_NO_SANITIZE void *calloc(size_t n, size_t size)
{
    return size && n > HEAP / size ? NULL : malloc(n * size); /* the heap is zero */
}

KR_NO_SANITIZE void *realloc(void *old, size_t bytes)
{
    void *p = malloc(bytes);
    if (p && old) {
        size_t had;
        memcpy(&had, (uint8_t *)old - HEADER, sizeof had);
        memcpy(p, old, had < bytes ? had : bytes);
    }
    return p;
}

KR_NO_SANITIZE void *aligned_alloc(size_t align, size_t bytes)
{
    return align <= HEADER ? malloc(bytes) : NULL;
}

KR_NO_SANITIZE void free(void *p)
{
    (void)p;
}

/* Batches, single tokens, a shorter timeline, another one, logits of a position. */
static void use(krafla_session *s, int32_t *tokens)
{
    const float *logits;
    EXPECT(krafla_session_sync(s, tokens, 600, NULL) == KRAFLA_OK);
    for (size_t i = 601; i <= 700; i++)
        EXPECT(krafla_session_sync(s, tokens, i, NULL) == KRAFLA_OK);
    tokens[300] ^= 1;
    EXPECT(krafla_session_sync(s, tokens, 700, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_sync(s, tokens, 3, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_logits_at(s, 2, &logits, NULL) == KRAFLA_OK);
}

static void expect_nothing_taken(const struct tiny_arch *arch)
{
    static struct tiny_file file;
    char path[512];
    tiny_path(path, sizeof path, "alloc.mlb");
    tiny_build_as(&file, 1, arch);
    EXPECT(tiny_write(&file, path));

    krafla_model *m = NULL;
    krafla_session *s = NULL;
    krafla_session_options o;
    krafla_session_defaults(&o);
    o.n_threads = 3;
    o.all_logits = 1;
    const size_t start = allocations;
    EXPECT(krafla_model_open(&m, path, NULL, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_create(&s, m, &o, NULL) == KRAFLA_OK);
    EXPECT(allocations > start); /* the counter counts */
    int32_t tokens[700];
    for (size_t i = 0; i < 700; i++)
        tokens[i] = (int32_t)(i * 7 % TINY_VOCAB);

    /* A sanitizer allocates when a worker begins, which may be late: then once more. */
    size_t taken = 1;
    for (int round = 0; round < ROUNDS && taken > 0; round++) {
        const size_t before = allocations;
        use(s, tokens);
        taken = allocations - before;
    }
    EXPECT(taken == 0);

    krafla_session_free(s);
    krafla_model_close(m);
    remove(path);
}

int main(void)
{
    expect_nothing_taken(&tiny_plain);
    expect_nothing_taken(&tiny_hybrid);
    return unit_done("test_session_alloc");
}
