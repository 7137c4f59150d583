/* error.h - the only way to fail, and arithmetic of sizes.
 *
 * Every fallible function returns krafla_status and takes krafla_error *err
 * last; `return kr_fail(...)` with what, where, expected, found and remedy.
 * SPDX-License-Identifier: MIT */
#ifndef KR_ERROR_H
#define KR_ERROR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "compiler.h"
#include "krafla.h"

/* Fill err (may be NULL) and return status.  The message is one line: control
 * characters and invalid UTF-8 in it are replaced by '?'.  One that does not fit
 * loses its middle, so put a path first or last and the facts at the other end. */
krafla_status kr_fail(krafla_error *err, krafla_status status, const char *fmt, ...)
    KR_PRINTF(3, 4);

/* Pass a status on: the message of a KRAFLA_E_FORMAT that has no remedy yet (no ';') gets
 * "; remedy". */
krafla_status kr_fail_hint(krafla_error *err, krafla_status status, const char *remedy);

/* *out = a * b, a + b; false if that wraps size_t. */
bool kr_size_mul(size_t *out, size_t a, size_t b);
bool kr_size_add(size_t *out, size_t a, size_t b);
/* The next multiple of `to`, which must fit. */
static inline uint64_t kr_round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

#endif
