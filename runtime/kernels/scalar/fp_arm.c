/* scalar/fp_arm.c - the floating-point state of ARM; the build takes it on ARM only.
 * SPDX-License-Identifier: MIT */
#include "fp_arm.h"
