/* avx512vnni/attn.c - attention over 16 positions or dimensions at a time, one zmm.
 * SPDX-License-Identifier: MIT */
#include <isa.h>
#include <vec.h>

#include "attn.tmpl.h"
