/* tmpl/fp_arm.h - kern_fp_begin and kern_fp_end for AArch64 and ARMv7.
 * Include once, from an elementwise.c or fp_arm.c.
 * SPDX-License-Identifier: MIT */
#include "kernels.h"

enum { FP_FLUSH_TO_ZERO = 1 << 24 }; /* FZ, in FPCR and FPSCR; all else 0 is round to nearest */

#if defined(__aarch64__)
uint32_t kern_fp_begin(void)
{
    uint64_t saved;
    __asm__ volatile("mrs %0, fpcr" : "=r"(saved));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)FP_FLUSH_TO_ZERO));
    return (uint32_t)saved;
}

void kern_fp_end(uint32_t saved)
{
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)saved));
}
#else
uint32_t kern_fp_begin(void)
{
    uint32_t saved;
    __asm__ volatile("vmrs %0, fpscr" : "=r"(saved));
    __asm__ volatile("vmsr fpscr, %0" : : "r"(FP_FLUSH_TO_ZERO));
    return saved;
}

void kern_fp_end(uint32_t saved)
{
    __asm__ volatile("vmsr fpscr, %0" : : "r"(saved));
}
#endif
