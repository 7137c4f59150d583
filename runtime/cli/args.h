/* args.h - the command line of every program: one table, strict values, --help.
 *
 * An option that is not given leaves its target as it was, so defaults are
 * initial values.  "--name value" and "--name=value" are the same.  The last
 * of repeated options counts.  Whether options fit together is the program's
 * business.
 * SPDX-License-Identifier: MIT */
#ifndef ARGS_H
#define ARGS_H

#include <stdbool.h>
#include <stddef.h>

#include "compiler.h"
#include "krafla.h"

enum args_exit { ARGS_OK = 0, ARGS_RUNTIME = 1, ARGS_USAGE = 2, ARGS_CPU = 3 };

enum args_type {
    ARGS_FLAG,   /* bool: set to true, takes no value */
    ARGS_INT,    /* int32_t in [min, max] */
    ARGS_SEED,   /* uint64_t, any */
    ARGS_FLOAT,  /* float in [min, max] */
    ARGS_TEXT,   /* const char *: points into argv */
    ARGS_CHOICE, /* int32_t: index into choices */
};

struct args_option {
    const char *name;  /* "-n" or "--ctx" */
    const char *value; /* what --help calls the value: "N"; NULL for a flag */
    enum args_type type;
    void *target;
    double min, max;
    const char *const *choices; /* NULL-terminated */
    const char *help;           /* sentences; lines are broken where needed */
    bool *given;                /* set to true if the option is there; may be NULL */
};

struct args_program {
    const char *name;     /* "ml_run" */
    const char *operands; /* "MODEL.mlb" */
    const char *about;    /* one or two sentences */
    const char *examples; /* whole lines, indented */
    const struct args_option *options;
    size_t n_options;
    size_t min_operands, max_operands;
};

/* Parse argv[1..argc).  operands[0..max_operands) receives the words that are no options, NULL
 * for those not given.  True: go on.  False: end with *exit_code; the page of --help, the line
 * of --version or the error has been printed. */
bool args_parse(const struct args_program *p, int argc, char **argv, const char **operands,
                int *exit_code);

/* "error: ..." and where help is; returns ARGS_USAGE. */
int args_usage_error(const struct args_program *p, const char *fmt, ...) KR_PRINTF(2, 3);

/* A decimal integer that is all of text[0..bytes) and lies in [min, max]. */
bool args_int(const char *text, size_t bytes, int32_t min, int32_t max, int32_t *out);
/* The same for a number with a point and an exponent. */
bool args_float(const char *text, size_t bytes, double min, double max, float *out);

/* On stderr: the number of threads and the reason for it, where -t has not given it (asked is 0); a
 * warning where -t asks for more than suits this machine.  used: krafla_session_threads(). */
void args_print_threads(int32_t asked, int32_t used);

/* Print the error of a failed library call; its exit code. */
int args_failed(const krafla_error *err);

/* Choices of --kv, in the order of KRAFLA_KV_F32, _F16, _Q8. */
extern const char *const args_kv_types[];

#endif
