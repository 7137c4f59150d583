/* avx2/attn.c - attention over 16 positions or dimensions at a time, two ymm.
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "attn.tmpl.h"
