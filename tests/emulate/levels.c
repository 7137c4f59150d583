/* levels.c - the CPUID bits of each level.
 * SPDX-License-Identifier: MIT */
#include "levels.h"

#include <cpuid.h>
#include <stddef.h>
#include <string.h>

enum { EAX, EBX, ECX, EDX };

#define BIT(n) (UINT32_C(1) << (n))

enum { AVX_VNNI_BIT = 4 }; /* of leaf 7.1 eax */

static const char *const names[] = {"sse2",    "ssse3",      "sse41", "avx2",
                                    "avxvnni", "avx512vnni", "host"};

static const struct {
    uint32_t leaf, subleaf, reg;
    enum level since; /* hidden from the levels before this one */
    uint32_t bits;
} hidden[] = {
    {1, 0, ECX, SSSE3, BIT(0) | BIT(9)},             /* SSE3, SSSE3 */
    {1, 0, ECX, SSE41, BIT(19) | BIT(20) | BIT(23)}, /* SSE4.1, SSE4.2, POPCNT */
    /* FMA, XSAVE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; VAES, VPCLMULQDQ */
    {1, 0, ECX, AVX2, BIT(12) | BIT(26) | BIT(27) | BIT(28) | BIT(29)},
    {7, 0, EBX, AVX2, BIT(3) | BIT(5) | BIT(8)},
    {7, 0, ECX, AVX2, BIT(9) | BIT(10)},
    {7, 1, EAX, AVXVNNI, BIT(AVX_VNNI_BIT)},
    /* AVX512 F, DQ, IFMA, CD, BW, VL; VBMI, VBMI2, VNNI, BITALG, VPOPCNTDQ; VP2INTERSECT, FP16; BF16 */
    {7, 0, EBX, AVX512VNNI, BIT(16) | BIT(17) | BIT(21) | BIT(28) | BIT(30) | BIT(31)},
    {7, 0, ECX, AVX512VNNI, BIT(1) | BIT(6) | BIT(11) | BIT(12) | BIT(14)},
    {7, 0, EDX, AVX512VNNI, BIT(8) | BIT(23)},
    {7, 1, EAX, AVX512VNNI, BIT(5)},
};

bool level_find(enum level *level, const char *name)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(names[i], name) == 0) {
            *level = (enum level)i;
            return true;
        }
    }
    return false;
}

static struct cpuid host_cpuid(uint32_t leaf, uint32_t subleaf)
{
    struct cpuid c;
    __cpuid_count(leaf, subleaf, c.reg[EAX], c.reg[EBX], c.reg[ECX], c.reg[EDX]);
    return c;
}

struct cpuid level_cpuid(enum level level, uint32_t leaf, uint32_t subleaf)
{
    struct cpuid c = host_cpuid(leaf, subleaf);
    for (size_t i = 0; i < sizeof hidden / sizeof *hidden; i++)
        if (hidden[i].leaf == leaf && hidden[i].subleaf == subleaf && level < hidden[i].since)
            c.reg[hidden[i].reg] &= ~hidden[i].bits;

    if (level == AVXVNNI && leaf == 7 && subleaf == 0 && c.reg[EAX] == 0)
        c.reg[EAX] = 1; /* the last subleaf */
    if (level == AVXVNNI && leaf == 7 && subleaf == 1)
        c.reg[EAX] |= BIT(AVX_VNNI_BIT);
    return c;
}

bool host_has_evex_dot(void)
{
    const struct cpuid c = host_cpuid(7, 0);
    return (c.reg[EBX] >> 31 & 1) && (c.reg[ECX] >> 11 & 1); /* AVX512VL, AVX512-VNNI */
}
