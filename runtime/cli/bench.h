/* bench.h - the parts of ml_bench: limits of this machine, a model, the kernels, the report.
 *
 * Everything is measured first and printed last: a run that is stopped prints
 * nothing.  Functions that return int give an exit code and have printed the
 * error if it is not ARGS_OK.  These files look inside the library (kernels.h
 * and core/): what they measure has no other name.
 * SPDX-License-Identifier: MIT */
#ifndef BENCH_H
#define BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "args.h"
#include "kernels.h"
#include "threads.h"

enum {
    BENCH_LIST = 16,
    BENCH_MAX_REPS = 1000,
    BENCH_HOT_BYTES = 256 << 10,  /* of weights: they stay in the second-level cache */
    BENCH_COLD_BYTES = 192 << 20, /* more than any last-level cache here */
};

/* Repetitions in order of size; low and high are the quartiles. */
struct bench_stat {
    double min, low, median, high, max;
};

/* bench_report.c: sorts values[n], n >= 1. */
struct bench_stat bench_stat(double *values, size_t n);

/* ---- bench_limits.c: what this machine gives at best, at this moment ---- */

/* Bytes per second with which the pool's threads read p[0..bytes) once, each its own part, in
 * order.  p is 8-byte aligned. */
double bench_read_rate(struct kr_pool *pool, const uint8_t *p, size_t bytes);

/* Multiply-accumulates per second of kern_peak on all threads of the pool, the best of a few
 * runs; *name (may be NULL) says of which instructions. */
double bench_peak_rate(struct kr_pool *pool, enum kern_wtype w, const char **name);

/* ---- bench_model.c ---- */

struct bench_plan {
    const char *path;
    int32_t threads[BENCH_LIST], depths[BENCH_LIST]; /* threads: 0 is the default */
    size_t n_threads, n_depths;
    size_t prompt, decode, reps; /* tokens, repetitions */
    int32_t batch, kv, pack;
    const struct args_program *program; /* whose command line it was */
};

/* One thread count at one depth.  Percentages are medians of each repetition's own. */
struct bench_cell {
    int32_t threads, depth;
    struct bench_stat prefill, decode; /* tokens per second */
    double prefill_macs, peak_macs;    /* per second, of the matrix products */
    double prefill_percent;
    double decode_bytes, read_bytes; /* per second: weights and KV cache; the probe */
    double decode_percent;
};

struct bench_model_result {
    char name[512]; /* the file's words */
    krafla_model_info info;
    double load_seconds;
    uint64_t position_bytes;  /* K and V of one position in all layers */
    const char *peak_name;    /* instructions */
    struct bench_cell *cells; /* [n_cells] */
    size_t n_cells;
};

/* Measure; the result's cells are the caller's to free, also on failure. */
int bench_model(struct bench_model_result *out, const struct bench_plan *plan);

/* ---- bench_kernels.c ---- */

enum bench_limit { BENCH_NO_LIMIT, BENCH_MEMORY, BENCH_PEAK };

struct bench_kernel_row {
    char name[96];
    struct bench_stat seconds;
    double bytes, macs;     /* of one run; 0: none worth telling */
    enum bench_limit limit; /* the one that would be hit first */
    double percent;         /* of what the limit allows: the median of each sample's own */
};

struct bench_kernel_result {
    struct bench_kernel_row *rows; /* [n_rows] */
    size_t n_rows, reps;
    double read_bytes, peak_macs[2]; /* per second: medians of all samples; 0: not needed */
    const char *peak_name[2];
};

/* Measure the kernels that the pattern (with * for anything) names, all if it is NULL; one
 * thread.  The rows are the caller's to free, also on failure. */
int bench_kernels(struct bench_kernel_result *out, const char *pattern, size_t reps);

/* ---- bench_report.c ---- */

/* End the program here if Ctrl-C was pressed since the start. */
void bench_heed_interrupt(void);

void bench_print_model(const struct bench_model_result *r, const struct bench_plan *plan,
                       bool json);
void bench_print_kernels(const struct bench_kernel_result *r, bool json);

#endif
