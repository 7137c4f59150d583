/* sha256.h - SHA-256 (FIPS 180-4), in pieces.
 * SPDX-License-Identifier: MIT */
#ifndef KR_SHA256_H
#define KR_SHA256_H

#include <stddef.h>
#include <stdint.h>

#include "progress.h"

struct kr_sha256 {
    uint32_t state[8];
    uint64_t bytes;    /* hashed and pending */
    uint8_t block[64]; /* the bytes % 64 pending ones */
};

void kr_sha256_begin(struct kr_sha256 *h);
void kr_sha256_add(struct kr_sha256 *h, const void *data, size_t bytes);
/* Lower-case hex and NUL into hex[65]; h is used up. */
void kr_sha256_end(struct kr_sha256 *h, char *hex);
/* All of it: data[0..bytes).  progress may be NULL. */
void kr_sha256_of(const void *data, size_t bytes, struct kr_progress *progress, char *hex);

#endif
