/* check_bench.c - how fast the kernels are: medians of wall time, after all checks passed.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "check.h"

enum {
    SAMPLES = 31,
    POOL = 192 << 20, /* bytes of weights read in turn: more than any last-level cache here */
};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(struct check *c, double median, double least, double bytes, double macs)
{
    c->measured++;
    if (c->json)
        printf("{\"isa\":\"%s\",\"case\":\"%s\",\"ns\":%.1f,\"ns_min\":%.1f,\"gb_s\":%.2f,"
               "\"gmac_s\":%.2f}\n",
               KR_ISA, c->name, median, least, bytes / median, macs / median);
    else
        printf("%-44s %12.0f ns (min %.0f)  %7.2f GB/s  %7.2f GMAC/s\n", c->name, median, least,
               bytes / median, macs / median);
    fflush(stdout);
}

void check_bench(struct check *c, double bytes, double macs, void (*run)(void *arg, size_t i),
                 void *arg)
{
    double sample[SAMPLES];
    size_t turns = 1, i = 0;
    for (;;) { /* how many runs take a millisecond; warms up, too */
        const double start = now_ns();
        for (size_t t = 0; t < turns; t++)
            run(arg, i++);
        if (now_ns() - start >= 1e6)
            break;
        turns *= 2;
    }
    for (size_t s = 0; s < SAMPLES; s++) {
        const double start = now_ns();
        for (size_t t = 0; t < turns; t++)
            run(arg, i++);
        sample[s] = (now_ns() - start) / (double)turns;
    }
    qsort(sample, SAMPLES, sizeof *sample, by_value);
    report(c, sample[SAMPLES / 2], sample[0], bytes, macs);
}

/* Memory on huge pages if there are any, as the runtime has its weights. */
static uint8_t *pool_new(size_t bytes)
{
    uint8_t *p = aligned_alloc(2 << 20, bytes);
    if (!p) {
        fprintf(stderr, "checkkern: out of memory\n");
        exit(1);
    }
    madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

struct matmul_bench {
    struct kern_matrix w;
    uint8_t *pool;
    void *acts;
    float *y;
    size_t cols, bytes, copies;
};

static void run_matmul(void *arg, size_t i)
{
    struct matmul_bench *b = arg;
    b->w.data = b->pool + i % b->copies * b->bytes;
    kern_matmul(b->y, b->w.rows, &b->w, b->acts, b->cols, 0, b->w.rows);
}

/* What the memory gives at best: every cache line of the pool, once. */
static void run_probe(void *arg, size_t i)
{
    const struct matmul_bench *b = arg;
    const uint64_t *p = (const uint64_t *)(b->pool + i % b->copies * b->bytes);
    uint64_t sum[4] = {0};
    for (size_t j = 0; j + 32 <= b->bytes / sizeof *p; j += 32)
        for (size_t k = 0; k < 4; k++)
            sum[k] += p[j + 8 * k];
    volatile uint64_t sink = sum[0] + sum[1] + sum[2] + sum[3];
    (void)sink;
}

static void bench_shape(struct check *c, uint8_t *pool, enum kern_wtype wtype, size_t rows,
                        size_t k, size_t cols)
{
    if (!check_case(c, "matmul %s %zux%zu cols=%zu", wtype == KERN_Q8 ? "q8" : "q4", rows, k, cols))
        return;
    struct kern_matrix file = check_matrix(c, wtype, KERN_F16, rows, k);
    struct matmul_bench b = {.w = check_packed(c, &file), .pool = pool, .cols = cols};
    b.bytes = rows * k / KERN_BLOCK * (wtype == KERN_Q8 ? 34 : 18); /* rows % 16 = k % 64 = 0 */
    b.copies = cols > 1 ? 2 : POOL / b.bytes;
    for (size_t i = 0; i < b.copies; i++)
        memcpy(pool + i * b.bytes, b.w.data, b.bytes);
    float *x = check_floats(c, cols * k);
    check_fill_small(c, x, cols * k, 1.0f);
    b.acts = check_buf(c, kern_acts_bytes(k, cols), 64);
    b.y = check_floats(c, cols * rows);
    kern_quantize(b.acts, k, cols, 0, cols, 0, k / KERN_BLOCK, x, k);
    const double macs = (double)rows * (double)k * (double)cols;
    check_bench(c, (double)b.bytes, macs, run_matmul, &b);
    if (cols == 1 && check_case(c, "read probe after %s %zux%zu", wtype ? "q4" : "q8", rows, k))
        check_bench(c, (double)b.bytes, 0.0, run_probe, &b);
}

void bench_matmul(struct check *c)
{
    static const size_t shapes[][2] = {{4864, 896}, {896, 4864}, {576, 1536}}, cols[] = {1, 8, 128};
    uint8_t *pool = pool_new(POOL);
    for (size_t n = 0; n < 3; n++)
        for (size_t i = 0; i < 3; i++)
            for (size_t w = 0; w < 2; w++)
                bench_shape(c, pool, w, shapes[i][0], shapes[i][1], cols[n]);
    free(pool);
}

struct vector_bench {
    float *x, *y, *gain;
    void *acts;
    size_t n;
};

static void run_quantize(void *arg, size_t i)
{
    const struct vector_bench *b = arg;
    (void)i;
    kern_quantize(b->acts, b->n, 1, 0, 1, 0, b->n / KERN_BLOCK, b->x, b->n);
}

static void run_norm(void *arg, size_t i)
{
    const struct vector_bench *b = arg;
    (void)i;
    kern_rmsnorm(b->y, b->x, b->gain, b->n, 1e-6f);
}

static void run_silu(void *arg, size_t i)
{
    const struct vector_bench *b = arg;
    (void)i;
    kern_silu_mul(b->y, b->x, b->gain, b->n);
}

static void bench_vector(struct check *c, const char *name, size_t n,
                         void (*run)(void *arg, size_t i))
{
    if (!check_case(c, "%s n=%zu", name, n))
        return;
    struct vector_bench b = {check_floats(c, n), check_floats(c, n), check_floats(c, n),
                             check_buf(c, kern_acts_bytes(n, 1), 64), n};
    check_fill_small(c, b.x, n, 1.0f);
    check_fill_small(c, b.gain, n, 1.0f);
    check_bench(c, (double)n * sizeof(float), 0.0, run, &b);
}

void bench_quantize(struct check *c)
{
    bench_vector(c, "quantize", 896, run_quantize);
    bench_vector(c, "quantize", 4864, run_quantize);
}

void bench_norm(struct check *c)
{
    bench_vector(c, "rmsnorm", 896, run_norm);
    bench_vector(c, "silu_mul", 4864, run_silu);
}

struct attn_bench {
    struct kern_kv kv[2];
    struct kern_queries in;
    struct kern_parts out;
    void *scratch;
    size_t n;
};

static void run_attn(void *arg, size_t i)
{
    const struct attn_bench *b = arg;
    struct kern_span spans[16];
    struct kern_queries in = b->in;
    in.spans = spans;
    for (size_t pos = 0; pos < b->n; pos += KERN_SEGMENT) {
        const size_t end = b->n - pos < KERN_SEGMENT ? b->n : pos + KERN_SEGMENT;
        for (size_t t = 0; t < in.tokens; t++)
            spans[t] = (struct kern_span){(uint32_t)pos, (uint32_t)end};
        kern_attend(&b->out, &in, &b->kv[i % 2], b->scratch);
    }
}

static void bench_cache(struct check *c, enum kern_kvtype type, size_t tokens, size_t heads,
                        size_t dim, size_t n)
{
    static const char *const names[] = {"f32", "f16", "q8"};
    static const size_t sizes[] = {4, 2, 1};
    if (!check_case(c, "attend %s tokens=%zu heads=%zu head_dim=%zu n=%zu", names[type], tokens,
                    heads, dim, n))
        return;
    const size_t rows = tokens * heads;
    struct attn_bench b = {.n = n};
    float *k = check_floats(c, dim), *v = check_floats(c, dim), *q = check_floats(c, rows * dim);
    for (size_t i = 0; i < 2; i++) {
        b.kv[i] = (struct kern_kv){check_buf(c, n * dim * sizes[type], 64),
                                   check_buf(c, n * dim * sizes[type], 64),
                                   check_floats(c, n),
                                   check_floats(c, n),
                                   (uint32_t)dim,
                                   type};
        for (size_t pos = 0; pos < n; pos++) {
            check_fill_small(c, k, dim, 1.0f);
            check_fill_small(c, v, dim, 1.0f);
            kern_kv_store(&b.kv[i], pos, k, v);
        }
    }
    check_fill_small(c, q, rows * dim, 1.0f);
    b.in = (struct kern_queries){
        .q = q, .q_stride = heads * dim, .tokens = tokens, .heads = heads, .scale = 0.125f};
    b.out = (struct kern_parts){check_floats(c, rows * dim), check_floats(c, rows),
                                check_floats(c, rows), heads * dim, heads};
    b.scratch = check_buf(c, kern_attend_bytes(type, dim), 64);
    const double kv_elements = 2.0 * (double)n * (double)dim;
    check_bench(c, kv_elements * (double)sizes[type], kv_elements * (double)rows, run_attn, &b);
}

void bench_attn(struct check *c)
{
    static const size_t lengths[] = {128, 2048};
    for (size_t i = 0; i < 2; i++)
        for (size_t t = 0; t < 3; t++) {
            bench_cache(c, t, 1, 3, 64, lengths[i]);
            bench_cache(c, t, 16, 3, 64, lengths[i]);
            bench_cache(c, t, 1, 7, 64, lengths[i]);
            bench_cache(c, t, 16, 7, 64, lengths[i]);
            bench_cache(c, t, 1, 4, 256, lengths[i]);
        }
}
