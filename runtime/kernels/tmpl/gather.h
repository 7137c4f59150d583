/* tmpl/gather.h - rows of a file-layout matrix into panel order, for any layout of 16 rows.
 * SPDX-License-Identifier: MIT */
#ifndef TMPL_GATHER_H
#define TMPL_GATHER_H

#include <string.h>

#include "compiler.h"

/* 16 bytes of each of four rows, exclusive-ored with flip, kbytes of a row (a constant) at a time
 * to the rows' places of a panel of 16. */
KR_INLINE void gather4(const size_t kbytes, uint8_t *quads, const uint8_t *const row[4],
                       uint8_t flip)
{
    for (size_t i = 0; i < 4; i++) {
        for (size_t z = 0; z < 16 / kbytes; z++) {
            uint64_t part = 0;
            memcpy(&part, row[i] + z * kbytes, kbytes);
            part ^= 0x0101010101010101u * flip;
            memcpy(quads + (z * 16 + i) * kbytes, &part, kbytes);
        }
    }
}

#endif
