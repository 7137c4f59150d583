/* bench_kernels.c - each kernel alone, on one thread, beside the limit that it would hit first.
 *
 * "cold" walks through more memory than any cache holds, as decoding does with
 * its weights; "hot" stays in the second-level cache.  The limit is what takes
 * longer: reading the bytes at the speed of memory (cold only), or making the
 * products at the peak of the dot instruction (matmul only).
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "console.h"
#include "kvcache.h"
#include "map.h"
#include "pack.h"

enum {
    MAX_ROWS = 128,
    MAX_TAKEN = 8,
    WINDOWS = 8, /* of cold memory, each read by one probe: as short as a sample of the kernel */
    NO_PEAK = -1,
};

static const double SAMPLE_SECONDS = 1e-3;

struct bench {
    struct bench_kernel_result *out;
    const char *pattern;
    char name[sizeof((struct bench_kernel_row *)0)->name];
    struct kr_pool *one; /* the calling thread */
    uint64_t rng;
    double *seconds, *percent, *read, *peak; /* [reps] */
    double read_sum, peak_sum[2];            /* of medians */
    size_t reads, peaks[2];
    void *taken[MAX_TAKEN]; /* memory of the current case */
    size_t taken_bytes[MAX_TAKEN], n_taken;
    bool failed; /* out of memory */
};

/* One case, ready to run. */
struct kernel {
    void (*run)(void *arg, size_t i); /* i counts up: cold cases go to the next copy */
    void *arg;
    double bytes, macs;
    const uint8_t *memory; /* all copies, if the case is cold, else NULL */
    size_t memory_bytes;
    int peak; /* the kern_wtype, or NO_PEAK */
};

/* ---- cases ------------------------------------------------------------------------------------ */

/* Whether name is the pattern, in which * stands for anything. */
static bool matches(const char *pattern, const char *name)
{
    if (*pattern == '*')
        return matches(pattern + 1, name) || (*name && matches(pattern, name + 1));
    return *pattern == *name && (!*name || matches(pattern + 1, name + 1));
}

/* Whether the case that b->name names is wanted. */
static bool wanted(struct bench *b)
{
    bench_heed_interrupt();
    if (b->failed || b->out->n_rows == MAX_ROWS || (b->pattern && !matches(b->pattern, b->name)))
        return false;
    console_progress("%s ...", b->name);
    return true;
}

/* Memory until the end of the case; NULL and b->failed if there is none. */
static void *take(struct bench *b, size_t bytes)
{
    void *p = b->n_taken < MAX_TAKEN ? kr_big_alloc(bytes) : NULL;
    if (!p) {
        b->failed = true;
        return NULL;
    }
    b->taken[b->n_taken] = p;
    b->taken_bytes[b->n_taken++] = bytes;
    return p;
}

static void give_back(struct bench *b)
{
    while (b->n_taken > 0) {
        b->n_taken--;
        kr_big_free(b->taken[b->n_taken], b->taken_bytes[b->n_taken]);
    }
}

static uint64_t random_bits(struct bench *b)
{
    b->rng ^= b->rng << 13; /* xorshift64 */
    b->rng ^= b->rng >> 7;
    b->rng ^= b->rng << 17;
    return b->rng;
}

/* n floats in -1..1. */
static float *take_floats(struct bench *b, size_t n)
{
    float *p = take(b, n * sizeof *p);
    for (size_t i = 0; p && i < n; i++)
        p[i] = (float)(int32_t)(random_bits(b) >> 32) * 0x1p-31f;
    return p;
}

static double run_seconds(const struct kernel *k, size_t turns, size_t *i)
{
    const double start = console_seconds();
    for (size_t t = 0; t < turns; t++)
        k->run(k->arg, (*i)++);
    return (console_seconds() - start) / (double)turns;
}

/* All samples of a case, each beside its limits; one more row. */
static void measure(struct bench *b, const struct kernel *k)
{
    const size_t window = k->memory_bytes / WINDOWS / sizeof(double) * sizeof(double);
    size_t turns = 1, i = 0;
    while (run_seconds(k, turns, &i) * (double)turns < SAMPLE_SECONDS) /* warms up, too */
        turns *= 2;
    for (size_t s = 0; s < b->out->reps; s++) {
        b->read[s] =
            k->memory ? bench_read_rate(b->one, k->memory + s % WINDOWS * window, window) : 0.0;
        b->peak[s] = k->peak != NO_PEAK ? bench_peak_rate(b->one, (enum kern_wtype)k->peak,
                                                          &b->out->peak_name[k->peak])
                                        : 0.0;
        b->seconds[s] = run_seconds(k, turns, &i);
        const double reading = k->memory ? k->bytes / b->read[s] : 0.0;
        const double computing = k->peak != NO_PEAK ? k->macs / b->peak[s] : 0.0;
        b->percent[s] = 100.0 * (reading > computing ? reading : computing) / b->seconds[s];
    }
    struct bench_kernel_row *row = &b->out->rows[b->out->n_rows++];
    *row = (struct bench_kernel_row){.seconds = bench_stat(b->seconds, b->out->reps),
                                     .bytes = k->bytes,
                                     .macs = k->macs,
                                     .percent = bench_stat(b->percent, b->out->reps).median};
    memcpy(row->name, b->name, sizeof row->name);
    const double read = bench_stat(b->read, b->out->reps).median;
    const double peak = bench_stat(b->peak, b->out->reps).median;
    if (k->memory) {
        row->limit = BENCH_MEMORY;
        b->read_sum += read;
        b->reads++;
    }
    if (k->peak != NO_PEAK) {
        if (!k->memory || k->macs / peak > k->bytes / read)
            row->limit = BENCH_PEAK;
        b->peak_sum[k->peak] += peak;
        b->peaks[k->peak]++;
    }
}

/* ---- matmul -------------------------------------------------------------------------------------- */

struct matmul {
    struct kern_matrix w;
    const uint8_t *weights;
    void *acts;
    float *x, *y;
    size_t cols, bytes, copies;
};

static void run_matmul(void *arg, size_t i)
{
    struct matmul *m = arg;
    m->w.data = m->weights + i % m->copies * m->bytes;
    kern_matmul(m->y, m->w.rows, &m->w, m->acts, m->cols, 0, m->w.rows);
}

/* Random blocks with f16 scales, packed, in as many copies as there is room for. */
static bool make_weights(struct bench *b, struct matmul *m, size_t room)
{
    const enum kern_wtype w = (enum kern_wtype)m->w.wtype;
    const size_t d_bytes = w == KERN_Q8 ? 32 : 16, blocks = m->w.rows * (m->w.k / KERN_BLOCK);
    uint8_t *file = take(b, blocks * (2 + d_bytes)), *packed = take(b, room);
    if (!file || !packed)
        return false;
    for (size_t i = 0; i < blocks; i++) {
        uint8_t *block = file + i * (2 + d_bytes);
        for (size_t j = 0; j < 2 + d_bytes; j++) {
            const uint8_t bits = (uint8_t)(random_bits(b) >> 24);
            block[j] = bits == 0x80 ? 0x81 : bits; /* q8 has no -128 */
        }
        block[1] = 0x20; /* a scale of 2^-7 and a bit */
    }
    kr_pack(packed, &kern_layout[w], file, w, KERN_F16, m->w.rows, m->w.k, 0, m->w.rows);
    for (size_t i = 1; i < m->copies; i++)
        memcpy(packed + i * m->bytes, packed, m->bytes);
    m->weights = packed;
    return true;
}

static void bench_shape(struct bench *b, enum kern_wtype w, size_t rows, size_t k, size_t cols,
                        bool cold)
{
    snprintf(b->name, sizeof b->name, "matmul %s %zux%zu cols=%zu %s", w == KERN_Q8 ? "q8" : "q4",
             rows, k, cols, cold ? "cold" : "hot");
    if (!wanted(b))
        return;
    const struct pack_layout *l = &kern_layout[w];
    const size_t whole = kr_pack_bytes(l, w, KERN_F16, rows, k);
    if (!cold && whole > BENCH_HOT_BYTES) { /* as many rows as fit, in panels of 16 */
        const size_t fit = BENCH_HOT_BYTES / (whole / rows) / KERN_LANES * KERN_LANES;
        rows = fit > 0 ? fit : KERN_LANES;
    }
    struct matmul m = {.w = {NULL, (uint32_t)rows, (uint32_t)k, w, KERN_F16, true}, .cols = cols};
    m.bytes = kr_pack_bytes(l, w, KERN_F16, rows, k);
    m.copies = cold ? BENCH_COLD_BYTES / m.bytes : 1;
    m.x = take_floats(b, cols * k);
    m.y = take_floats(b, cols * rows);
    m.acts = take(b, kern_acts_bytes(k, cols));
    if (make_weights(b, &m, m.copies * m.bytes) && !b->failed) {
        kern_quantize(m.acts, k, cols, 0, cols, 0, k / KERN_BLOCK, m.x, k);
        const struct kernel kernel = {.run = run_matmul,
                                      .arg = &m,
                                      .bytes = (double)m.bytes,
                                      .macs = (double)rows * (double)k * (double)cols,
                                      .memory = cold ? m.weights : NULL,
                                      .memory_bytes = m.copies * m.bytes,
                                      .peak = (int)w};
        measure(b, &kernel);
    }
    give_back(b);
}

static void bench_matmul(struct bench *b)
{
    static const size_t shapes[][2] = {{4864, 896}, {896, 4864}, {576, 1536}}, cols[] = {1, 8, 128};
    for (size_t n = 0; n < 3; n++)
        for (size_t i = 0; i < 3; i++)
            for (size_t w = 0; w < 2; w++)
                for (size_t cold = 0; cold < 2; cold++)
                    bench_shape(b, (enum kern_wtype)w, shapes[i][0], shapes[i][1], cols[n], cold);
}

/* ---- over one vector ------------------------------------------------------------------------------ */

struct vector {
    float *x, *y, *z;
    void *acts;
    size_t n;
};

static void run_quantize(void *arg, size_t i)
{
    const struct vector *v = arg;
    (void)i;
    kern_quantize(v->acts, v->n, 1, 0, 1, 0, v->n / KERN_BLOCK, v->x, v->n);
}

static void run_rmsnorm(void *arg, size_t i)
{
    const struct vector *v = arg;
    (void)i;
    kern_rmsnorm(v->y, v->x, v->z, v->n, 1e-6f);
}

static void run_silu_mul(void *arg, size_t i)
{
    const struct vector *v = arg;
    (void)i;
    kern_silu_mul(v->y, v->x, v->z, v->n);
}

static void run_sigmoid_mul(void *arg, size_t i)
{
    const struct vector *v = arg;
    (void)i;
    kern_sigmoid_mul(v->y, v->x, v->z, v->n);
}

static void run_softcap(void *arg, size_t i)
{
    const struct vector *v = arg;
    (void)i;
    kern_softcap(v->y, v->n, 30.0f);
}

static void run_l2norm(void *arg, size_t i)
{
    const struct vector *v = arg;
    (void)i;
    kern_l2norm(v->y, v->x, v->n, 1e-6f, 1.0f);
}

static void bench_vector(struct bench *b, const char *kernel, size_t n,
                         void (*run)(void *arg, size_t i))
{
    snprintf(b->name, sizeof b->name, "%s n=%zu hot", kernel, n);
    if (!wanted(b))
        return;
    struct vector v = {take_floats(b, n), take_floats(b, n), take_floats(b, n),
                       take(b, kern_acts_bytes(n, 1)), n};
    const struct kernel k = {
        .run = run, .arg = &v, .bytes = (double)n * sizeof(float), .peak = NO_PEAK};
    if (!b->failed)
        measure(b, &k);
    give_back(b);
}

/* ---- attention ------------------------------------------------------------------------------------- */

enum { MAX_QUERY_TOKENS = 16 };

struct attend {
    struct kr_kvcache kv; /* one KV head; a layer is a copy */
    struct kern_queries in;
    struct kern_parts out;
    void *scratch;
    size_t n;
};

static void run_attend(void *arg, size_t i)
{
    const struct attend *a = arg;
    struct kern_span spans[MAX_QUERY_TOKENS];
    struct kern_queries in = a->in;
    in.spans = spans;
    for (size_t pos = 0; pos < a->n; pos += KERN_SEGMENT) {
        const struct kern_kv kv = kr_kvcache_at(&a->kv, i % a->kv.layers, 0, pos / KERN_SEGMENT);
        const size_t end = a->n - pos < KERN_SEGMENT ? a->n - pos : KERN_SEGMENT;
        for (size_t t = 0; t < in.tokens; t++)
            spans[t] = (struct kern_span){0, (uint32_t)end};
        kern_attend(&a->out, &in, &kv, a->scratch);
    }
}

/* Random K and V of every position and layer. */
static void fill_cache(struct bench *b, struct attend *a)
{
    const size_t dim = a->kv.head_dim;
    float *x =
        take_floats(b, dim * (KERN_SEGMENT + 1)); /* position pos begins at float pos % 512 */
    for (size_t layer = 0; x && layer < a->kv.layers; layer++)
        for (size_t pos = 0; pos < a->n; pos++) {
            const struct kern_kv kv = kr_kvcache_at(&a->kv, layer, 0, pos / KERN_SEGMENT);
            const size_t at = pos % KERN_SEGMENT;
            kern_kv_store(&kv, at, x + at, x + 2 * at);
        }
}

/* The only query's limit is to read the cache once; more tokens share that reading. */
static void bench_cache(struct bench *b, enum kern_kvtype type, size_t tokens, size_t heads,
                        size_t dim, size_t n)
{
    const bool cold = n > KERN_SEGMENT;
    snprintf(b->name, sizeof b->name, "attend %s tokens=%zu heads=%zu head_dim=%zu n=%zu %s",
             args_kv_types[type], tokens, heads, dim, n, cold ? "cold" : "hot");
    if (!wanted(b))
        return;
    const size_t rows = tokens * heads;
    struct attend a = {.n = n};
    kr_kvcache_plan(&a.kv, type, n, 1, 1, dim);
    const size_t one = a.kv.bytes, copies = cold ? BENCH_COLD_BYTES / one : 1;
    kr_kvcache_plan(&a.kv, type, n, copies, 1, dim);
    a.in = (struct kern_queries){.q = take_floats(b, rows * dim),
                                 .q_stride = heads * dim,
                                 .tokens = tokens,
                                 .heads = heads,
                                 .scale = 0.125f};
    a.out = (struct kern_parts){.o = take_floats(b, rows * dim),
                                .m = take_floats(b, rows),
                                .l = take_floats(b, rows),
                                .o_stride = heads * dim,
                                .ml_stride = heads};
    a.scratch = take(b, kern_attend_bytes(type, dim));
    if (kr_kvcache_alloc(&a.kv) && !b->failed) {
        fill_cache(b, &a);
        const struct kernel k = {.run = run_attend,
                                 .arg = &a,
                                 .bytes = (double)one,
                                 .macs = 2.0 * (double)n * (double)dim * (double)rows,
                                 .memory = cold && tokens == 1 ? a.kv.base : NULL,
                                 .memory_bytes = a.kv.bytes,
                                 .peak = NO_PEAK};
        measure(b, &k);
    } else {
        b->failed = true;
    }
    kr_kvcache_free(&a.kv);
    give_back(b);
}

static void bench_attend(struct bench *b)
{
    static const size_t lengths[] = {128, 2048};
    for (size_t i = 0; i < 2; i++)
        for (size_t t = 0; t < 3; t++) {
            bench_cache(b, (enum kern_kvtype)t, 1, 3, 64, lengths[i]);
            bench_cache(b, (enum kern_kvtype)t, MAX_QUERY_TOKENS, 3, 64, lengths[i]);
            bench_cache(b, (enum kern_kvtype)t, 1, 7, 64, lengths[i]);
            bench_cache(b, (enum kern_kvtype)t, MAX_QUERY_TOKENS, 7, 64, lengths[i]);
            bench_cache(b, (enum kern_kvtype)t, 1, 4, 256, lengths[i]);
        }
}

/* ---- the gated delta rule -------------------------------------------------------------------------- */

enum { DELTA_HEADS = 16, DELTA_DIM = 128, DELTA_TAPS = 4 }; /* of Qwen3.5 0.8B */

struct conv {
    const float *x[DELTA_TAPS], *w;
    float *y;
    size_t n;
};

static void run_conv(void *arg, size_t i)
{
    const struct conv *v = arg;
    (void)i;
    kern_conv_silu(v->y, v->x, v->w, DELTA_TAPS, v->n);
}

/* All channels of one token: queries, keys and values. */
static void bench_conv(struct bench *b)
{
    struct conv v = {.n = (size_t)3 * DELTA_HEADS * DELTA_DIM};
    snprintf(b->name, sizeof b->name, "conv_silu n=%zu taps=%d hot", v.n, DELTA_TAPS);
    if (!wanted(b))
        return;
    for (size_t j = 0; j < DELTA_TAPS; j++)
        v.x[j] = take_floats(b, v.n);
    v.w = take_floats(b, DELTA_TAPS * v.n);
    v.y = take_floats(b, v.n);
    const struct kernel k = {.run = run_conv,
                             .arg = &v,
                             .bytes = (double)(DELTA_TAPS * v.n * sizeof(float)),
                             .peak = NO_PEAK};
    if (!b->failed)
        measure(b, &k);
    give_back(b);
}

static void run_gates(void *arg, size_t i)
{
    float *const *g = arg;
    (void)i;
    kern_delta_gates(g[0], g[1], g[2], g[3], g[4], g[5], DELTA_HEADS);
}

/* All heads of one token; the rate is 0, which takes no less time. */
static void bench_gates(struct bench *b)
{
    snprintf(b->name, sizeof b->name, "delta_gates n=%d hot", DELTA_HEADS);
    if (!wanted(b))
        return;
    float *g[6];
    for (size_t j = 0; j < 6; j++)
        g[j] = take_floats(b, DELTA_HEADS);
    if (!b->failed) {
        memset(g[4], 0, DELTA_HEADS * sizeof *g[4]);
        const struct kernel k = {.run = run_gates,
                                 .arg = g,
                                 .bytes = 4.0 * DELTA_HEADS * sizeof(float),
                                 .peak = NO_PEAK};
        measure(b, &k);
    }
    give_back(b);
}

struct delta {
    struct kern_delta in;
    float *out, *states;
    size_t copies;
};

static void run_delta(void *arg, size_t i)
{
    const struct delta *d = arg;
    kern_delta(d->out, DELTA_DIM, d->states + i % d->copies * DELTA_DIM * DELTA_DIM, &d->in);
}

/* One head.  The limit of a token alone is to read the state once; it is written back, too. */
static void bench_delta(struct bench *b, size_t tokens)
{
    const bool cold = tokens == 1;
    snprintf(b->name, sizeof b->name, "delta tokens=%zu k_dim=%d v_dim=%d %s", tokens, DELTA_DIM,
             DELTA_DIM, cold ? "cold" : "hot");
    if (!wanted(b))
        return;
    const size_t one = (size_t)DELTA_DIM * DELTA_DIM * sizeof(float), values = tokens * DELTA_DIM;
    struct delta d = {.copies = cold ? BENCH_COLD_BYTES / one : 1};
    d.states = take(b, d.copies * one);
    d.out = take_floats(b, values);
    float *gates = take(b, tokens * sizeof *gates); /* decay and beta, both 0.5 */
    d.in = (struct kern_delta){.q = take_floats(b, values),
                               .k = take_floats(b, values),
                               .v = take_floats(b, values),
                               .decay = gates,
                               .beta = gates,
                               .qkv_stride = DELTA_DIM,
                               .gate_stride = 1,
                               .k_dim = DELTA_DIM,
                               .v_dim = DELTA_DIM,
                               .tokens = tokens};
    if (!b->failed) {
        for (size_t t = 0; t < tokens; t++)
            gates[t] = 0.5f;
        memset(d.states, 0, d.copies * one);
        const struct kernel k = {.run = run_delta,
                                 .arg = &d,
                                 .bytes = (double)one,
                                 .macs = 3.0 * DELTA_DIM * DELTA_DIM * (double)tokens,
                                 .memory = cold ? (const uint8_t *)d.states : NULL,
                                 .memory_bytes = d.copies * one,
                                 .peak = NO_PEAK};
        measure(b, &k);
    }
    give_back(b);
}

/* ---- all of it -------------------------------------------------------------------------------------- */

static void bench_all(struct bench *b)
{
    const uint32_t fp = kern_fp_begin();
    bench_matmul(b);
    bench_vector(b, "quantize", 896, run_quantize);
    bench_vector(b, "quantize", 4864, run_quantize);
    bench_vector(b, "rmsnorm", 896, run_rmsnorm);
    bench_vector(b, "silu_mul", 4864, run_silu_mul);
    bench_vector(b, "sigmoid_mul", 2048, run_sigmoid_mul);
    bench_vector(b, "softcap", 262144, run_softcap);
    bench_vector(b, "l2norm", DELTA_DIM, run_l2norm);
    bench_conv(b);
    bench_gates(b);
    bench_delta(b, 1);
    bench_delta(b, KERN_MAX_COLS);
    bench_attend(b);
    kern_fp_end(fp);
    console_progress("%s", "");

    b->out->read_bytes = b->reads ? b->read_sum / (double)b->reads : 0.0;
    for (size_t w = 0; w < 2; w++)
        b->out->peak_macs[w] = b->peaks[w] ? b->peak_sum[w] / (double)b->peaks[w] : 0.0;
}

int bench_kernels(struct bench_kernel_result *out, const char *pattern, size_t reps)
{
    krafla_error err;
    struct bench b = {.out = out, .pattern = pattern, .rng = 1};
    *out = (struct bench_kernel_result){.reps = reps};
    if (kr_pool_create(&b.one, 1, &err) != KRAFLA_OK)
        return args_failed(&err);
    double *samples = calloc(4 * reps, sizeof *samples);
    out->rows = calloc(MAX_ROWS, sizeof *out->rows);
    b.failed = !samples || !out->rows;
    if (!b.failed) {
        b.seconds = samples;
        b.percent = samples + reps;
        b.read = samples + 2 * reps;
        b.peak = samples + 3 * reps;
        bench_all(&b);
    }
    if (b.failed)
        console_error("out of memory for the kernels' data: end other programs");
    free(samples);
    kr_pool_free(b.one);
    return b.failed ? ARGS_RUNTIME : ARGS_OK;
}
