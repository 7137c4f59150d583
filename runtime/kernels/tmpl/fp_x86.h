/* tmpl/fp_x86.h - kern_fp_begin and kern_fp_end for SSE and later.
 * Include once, from an elementwise.c or fp_x86.c.
 * SPDX-License-Identifier: MIT */
#include <xmmintrin.h>

#include "compiler.h"
#include "kernels.h"

uint32_t kern_fp_begin(void)
{
    KR_CLEAR_UPPER();
    const uint32_t saved = _mm_getcsr();
    /* all exceptions masked (0x1f80), round to nearest (no 0x6000), FTZ 0x8000, DAZ 0x40 */
    _mm_setcsr(0x1f80 | 0x8000 | 0x0040);
    return saved;
}

void kern_fp_end(uint32_t saved)
{
    _mm_setcsr(saved);
}
