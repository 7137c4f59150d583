/* scalar/attn.c - attention on 16 lanes.
 * SPDX-License-Identifier: MIT */
#include "attn.tmpl.h"
