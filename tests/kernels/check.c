/* check.c - cases, guarded memory, faults and comparisons of checkkern.
 * Inputs are in check_fill.c, the checks in check_<kernel file>.c; times are ml_bench's.
 * SPDX-License-Identifier: MIT */
#include "check.h"

#include <fnmatch.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { POISON = 0xff }; /* four of them are a NaN */

static struct check *current; /* for the signal handler only */

static uint64_t fnv(uint64_t hash, const void *p, size_t bytes)
{
    const uint8_t *b = p;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ b[i]) * 0x100000001b3;
    return hash;
}

/* ---- memory ----------------------------------------------------------- */

/* | guard page | slack before | the buffer | slack behind | guard page | */
struct check_map {
    struct check_map *next;
    uint8_t *map, *buf;
    size_t bytes, inner; /* of the buffer; of everything between the guard pages */
};

void *check_buf(struct check *c, size_t bytes, size_t align)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t padded = (bytes + align - 1) / align * align;
    const size_t inner = (padded + page) / page * page;
    struct check_map *m = malloc(sizeof *m);
    uint8_t *map = mmap(NULL, inner + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!m || map == MAP_FAILED || mprotect(map + page, inner, PROT_READ | PROT_WRITE)) {
        fprintf(stderr, "checkkern: out of memory\n");
        exit(1);
    }
    memset(map + page, POISON, inner);
    *m = (struct check_map){c->maps, map, map + page + inner - padded, bytes, inner};
    c->maps = m;
    return m->buf;
}

float *check_floats(struct check *c, size_t n)
{
    return check_buf(c, n * sizeof(float), sizeof(float));
}

double *check_doubles(struct check *c, size_t n)
{
    return check_buf(c, n * sizeof(double), sizeof(double));
}

static bool poisoned(const uint8_t *p, const uint8_t *end)
{
    while (p < end)
        if (*p++ != POISON)
            return false;
    return true;
}

static void release_buffers(struct check *c)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    while (c->maps) {
        struct check_map *m = c->maps;
        const uint8_t *first = m->map + page;
        if (!poisoned(first, m->buf) || !poisoned(m->buf + m->bytes, first + m->inner))
            check_fail(c, "bytes outside of a buffer of %zu bytes were written", m->bytes);
        c->maps = m->next;
        munmap(m->map, m->inner + 2 * page);
        free(m);
    }
}

/* ---- cases -------------------------------------------------------------- */

bool check_case(struct check *c, const char *fmt, ...)
{
    check_end(c);
    va_list args;
    va_start(args, fmt);
    vsnprintf(c->name, sizeof c->name, fmt, args);
    va_end(args);
    if (c->index++ < c->resume || (c->only && fnmatch(c->only, c->name, 0) != 0)) {
        c->name[0] = '\0';
        return false;
    }
    c->failed = false;
    c->fill = "-";
    c->case_hash = fnv(0xcbf29ce484222325, c->name, strlen(c->name));
    c->rng = c->seed ^ c->case_hash; /* a case repeats alone */
    return true;
}

void check_end(struct check *c)
{
    if (c->name[0] == '\0')
        return;
    release_buffers(c);
    c->passed += !c->failed;
    c->failures += c->failed;
    c->hash = fnv(c->hash, &c->case_hash, sizeof c->case_hash);
    if (c->hashes)
        printf("%016llx %s\n", (unsigned long long)c->case_hash, c->name);
    c->name[0] = '\0';
}

void check_fail(struct check *c, const char *fmt, ...)
{
    if (c->failed)
        return; /* the first reason is the one to look at */
    c->failed = true;
    fprintf(stderr, "FAIL %s (input: %s)\n  ", c->name, c->fill);
    va_list args;
    va_start(args, fmt);
    vfprintf(stderr, fmt, args);
    va_end(args);
    fprintf(stderr, "\n  again: checkkern --seed %llu --only '%s'\n", (unsigned long long)c->seed,
            c->name);
}

/* ---- faults ------------------------------------------------------------- */

static void on_fault(int number)
{
    if (current->armed) {
        current->armed = 0;
        siglongjmp(current->trap, number);
    }
    signal(number, SIG_DFL);
    raise(number);
}

/* Run a group of checks.  After a fault begin again, and skip the cases up to the one that
 * faulted: so no check has to know about it. */
static void run_group(struct check *c, void (*group)(struct check *c))
{
    const int number = sigsetjmp(c->trap, 1);
    if (number == 0) {
        c->resume = 0;
    } else {
        check_fail(c, "signal %d: %s", number, strsignal(number));
        check_end(c);
        c->resume = c->index;
    }
    c->index = 0;
    c->armed = 1;
    group(c);
    c->armed = 0;
    check_end(c);
}

static void catch_faults(struct check *c)
{
    static const int faults[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    struct sigaction action = {.sa_handler = on_fault};
    current = c;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        sigaction(faults[i], &action, NULL);
}

/* ---- comparisons ---------------------------------------------------------- */

/* A map of the first 64 results: x where it is wrong. */
static const char *picture(char *map, const bool *wrong, size_t n)
{
    const size_t shown = n < 64 ? n : 64;
    for (size_t i = 0; i < shown; i++)
        map[i] = wrong[i] ? 'x' : '.';
    map[shown] = '\0';
    return map;
}

void check_f32(struct check *c, const double *want, const double *mag, const float *got, size_t n,
               double units)
{
    bool wrong[64] = {false};
    size_t first = n, count = 0;
    for (size_t i = 0; i < n; i++) {
        const double error = fabs(got[i] - want[i]);
        const bool bad = !(error <= units * 0x1p-24 * mag[i] + 0x1p-126); /* NaN is bad */
        if (i < 64)
            wrong[i] = bad;
        if (bad && count++ == 0)
            first = i;
    }
    if (count) {
        char map[65];
        check_fail(c,
                   "%zu of %zu wrong, first [%zu]: want %.9g, got %.9g, off by %.3g of %.3g\n  %s",
                   count, n, first, want[first], (double)got[first], fabs(got[first] - want[first]),
                   units * 0x1p-24 * mag[first], picture(map, wrong, n));
    }
    c->case_hash = fnv(c->case_hash, got, n * sizeof *got);
}

void check_bits(struct check *c, const char *what, const void *want, const void *got, size_t bytes)
{
    const uint8_t *a = want, *b = got;
    bool wrong[64] = {false};
    size_t first = bytes, count = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (i / 4 < 64)
            wrong[i / 4] |= a[i] != b[i];
        if (a[i] != b[i] && count++ == 0)
            first = i;
    }
    if (count) {
        char map[65];
        float x[2] = {0.0f, 0.0f};
        if (first / 4 * 4 + 4 <= bytes) {
            memcpy(&x[0], a + first / 4 * 4, sizeof x[0]);
            memcpy(&x[1], b + first / 4 * 4, sizeof x[1]);
        }
        check_fail(c,
                   "%s: %zu of %zu bytes differ, first [%zu]: want %02x, got %02x "
                   "(as floats [%zu]: %.9g, %.9g)\n  %s",
                   what, count, bytes, first, a[first], b[first], first / 4, (double)x[0],
                   (double)x[1], picture(map, wrong, bytes / 4));
    }
    c->case_hash = fnv(c->case_hash, got, bytes);
}

/* ---- the program ---------------------------------------------------------- */

/* Whether kern_rope's fma rounds once: (1 + 2^-12)^2 - 1 keeps its 2^-24 only then. */
static void check_class(struct check *c)
{
    const char *only = c->only;
    c->only = NULL; /* the other cases need to know it */
    if (check_case(c, "class")) {
        float x[2] = {1.0f + 0x1p-12f, -1.0f};
        const float cs[2] = {1.0f + 0x1p-12f, 1.0f}, sn[2] = {1.0f, 0.0f};
        kern_rope(x, 1, 2, 2, cs, sn);
        c->fused = x[0] != 0x1p-11f;
        if (x[0] != 0x1p-11f && x[0] != 0x1p-11f + 0x1p-24f)
            check_fail(c, "(1 + 2^-12)^2 - 1 gives %a", (double)x[0]);
    }
    c->only = only;
}

static int usage(FILE *out)
{
    fputs("usage: checkkern [--seed N] [--only GLOB] [--hash]\n"
          "  --seed N     other inputs (default 1)\n"
          "  --only GLOB  cases by name, e.g. 'matmul q4*'\n"
          "  --hash       print the hash of each case's results: equal for all builds of a class\n",
          out);
    return out == stdout ? 0 : 2;
}

static int run(struct check *c)
{
    static void (*const checks[])(struct check *) = {
        check_matmul, check_quantize, check_norm, check_elementwise, check_attn, check_delta};
    catch_faults(c);
    run_group(c, check_fp_state);
    const uint32_t saved = kern_fp_begin();
    run_group(c, check_class);
    for (size_t i = 0; i < sizeof checks / sizeof *checks; i++)
        run_group(c, checks[i]);
    kern_fp_end(saved);
    printf("class %s, seed %llu, hash %016llx\n", c->fused ? "fused" : "unfused",
           (unsigned long long)c->seed, (unsigned long long)c->hash);
    printf("checkkern %s: %zu passed, %zu failed\n", KR_ISA, c->passed, c->failures);
    if (c->only && strcmp(c->only, "class") != 0 && c->passed + c->failures <= 1) {
        fprintf(stderr, "checkkern: no case is named '%s'\n", c->only);
        return 2;
    }
    return c->failures != 0;
}

int main(int argc, char **argv)
{
    static struct check c = {.seed = 1, .hash = 0xcbf29ce484222325};
    for (int i = 1; i < argc; i++) {
        const bool value = i + 1 < argc;
        if (strcmp(argv[i], "--seed") == 0 && value)
            c.seed = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--only") == 0 && value)
            c.only = argv[++i];
        else if (strcmp(argv[i], "--hash") == 0)
            c.hashes = true;
        else
            return usage(strcmp(argv[i], "--help") == 0 ? stdout : stderr);
    }
    return run(&c);
}
