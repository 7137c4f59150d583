/* check.h - the engine of checkkern: named cases, memory that ends at a guard
 * page, inputs from a seed, comparisons that hash what they see.
 *
 * A case starts with check_case(); everything until the next one belongs to it.
 * A fault ends the case, and the group of checks goes on with the next one.
 * SPDX-License-Identifier: MIT */
#ifndef CHECK_H
#define CHECK_H

#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler.h"
#include "kernels.h"

struct check {
    const char *only;         /* glob over case names, or NULL */
    uint64_t seed, rng;       /* the run's, the case's */
    uint64_t hash, case_hash; /* of all results so far, of this case's */
    bool fused;               /* class of this build, found out by check_class() */
    bool hashes;              /* print each case's hash */
    char name[96];            /* current case, "" between cases */
    bool failed;              /* the current case */
    const char *fill;         /* what check_fill_* chose last, for the failure report */
    size_t passed, failures;
    size_t index, resume;   /* cases of this group begun; those before `resume` are done */
    struct check_map *maps; /* this case's buffers */
    sigjmp_buf trap;
    volatile sig_atomic_t armed;
};

/* Begin a case: false if --only does not name it. */
bool check_case(struct check *c, const char *fmt, ...) KR_PRINTF(2, 3);

/* End the last case: count it, verify what lies around its buffers, give them back. */
void check_end(struct check *c);

/* The case has failed: print why and how to repeat it. */
void check_fail(struct check *c, const char *fmt, ...) KR_PRINTF(2, 3);

/* Memory filled with 0xff, followed by an inaccessible page.  Ends exactly there if align
 * divides bytes, else less than align before it.  Bytes around it must not change. */
void *check_buf(struct check *c, size_t bytes, size_t align);
float *check_floats(struct check *c, size_t n);
double *check_doubles(struct check *c, size_t n);

uint64_t check_random(struct check *c);
size_t check_below(struct check *c, size_t n);
float check_uniform(struct check *c); /* -1..1 */

/* Floats of one kind: normal, zero, alternating, one hot, tiny, huge; |x| < 2^40. */
void check_fill_f32(struct check *c, float *p, size_t n);
/* |x| <= top, for what goes through an exponential or has no overflow rule. */
void check_fill_small(struct check *c, float *p, size_t n, float top);

/* A random matrix in file layout, extremes and subnormal scales included; data ends at a guard. */
struct kern_matrix check_matrix(struct check *c, enum kern_wtype w, enum kern_stype s, size_t rows,
                                size_t k);
/* The same values packed for this build; the same values with f32 scales. */
struct kern_matrix check_packed(struct check *c, const struct kern_matrix *file);
struct kern_matrix check_wider(struct check *c, const struct kern_matrix *file);

/* |got - want| <= units * 2^-24 * mag + 2^-126 for all; hashes got. */
void check_f32(struct check *c, const double *want, const double *mag, const float *got, size_t n,
               double units);
/* Equal bytes; hashes got.  `what` begins the message. */
void check_bits(struct check *c, const char *what, const void *want, const void *got, size_t bytes);

/* The files of checks. */
void check_matmul(struct check *c);
void check_quantize(struct check *c);
void check_norm(struct check *c);
void check_elementwise(struct check *c);
void check_attn(struct check *c);
void check_delta(struct check *c);
void check_fp_state(struct check *c);

#endif
