/* pack.h - from the file's row-major blocks to panels and back, driven by struct pack_layout.
 *
 * The only packer there is: a layout is data (kernels.h), declared by each ISA.
 * SPDX-License-Identifier: MIT */
#ifndef KR_PACK_H
#define KR_PACK_H

#include <stdbool.h>

#include "kernels.h"

/* Bytes of rows x k in this layout, padding included; 0 if that does not fit size_t. */
size_t kr_pack_bytes(const struct pack_layout *l, enum kern_wtype w, enum kern_stype s, size_t rows,
                     size_t k);

/* Pack rows [row0, row1) of the file-layout matrix src [rows][k] into the panels of dst, which
 * points to panel 0 of the whole matrix and is 64-byte aligned.  row0 is a multiple of l->rows;
 * row1 is one, or rows.  False if a scale is infinite or NaN, or a q8 weight is -128: the matrix
 * must be refused. */
bool kr_pack(void *dst, const struct pack_layout *l, const void *src, enum kern_wtype w,
             enum kern_stype s, size_t rows, size_t k, size_t row0, size_t row1);

/* The inverse, for the tests: dst in file layout [rows][k]. */
void kr_unpack(void *dst, const struct pack_layout *l, const void *src, enum kern_wtype w,
               enum kern_stype s, size_t rows, size_t k);

/* The check of kr_pack alone, for weights that are used as they lie in the file. */
bool kr_pack_check(const void *src, enum kern_wtype w, enum kern_stype s, size_t rows, size_t k);

#endif
