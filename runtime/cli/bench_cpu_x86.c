/* bench_cpu_x86.c - the brand string of CPUID.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "bench.h"

#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#endif

/* The leaves 0x80000002..4 hold 16 characters each. */
enum { BRAND_LEAF = 2, BRAND_LEAVES = 3, BRAND_CAP = BRAND_LEAVES * 16 };

static void cpuid(uint32_t leaf, uint32_t reg[4])
{
#if defined(_MSC_VER)
    __cpuid((int *)reg, (int)leaf);
#else
    __cpuid(leaf, reg[0], reg[1], reg[2], reg[3]);
#endif
}

void bench_cpu_name(char *name, size_t cap)
{
    char brand[BRAND_CAP + 1] = "";
    uint32_t reg[4];
    cpuid(0x80000000u, reg);
    for (uint32_t i = 0; reg[0] >= 0x80000000u + BRAND_LEAF && i < BRAND_LEAVES; i++) {
        uint32_t part[4];
        cpuid(0x80000000u + BRAND_LEAF + i, part);
        memcpy(brand + 16 * i, part, sizeof part);
    }
    size_t n = 0;
    for (const char *c = brand; *c && n + 1 < cap; c++) {
        const bool space = *c == ' ' && (n == 0 || name[n - 1] == ' '); /* Intel pads with them */
        if (*c >= ' ' && *c <= '~' && !space)
            name[n++] = *c;
    }
    while (n > 0 && name[n - 1] == ' ')
        n--;
    name[n] = '\0';
    if (n == 0)
        strncat(name, "x86-64 CPU", cap - 1);
}
