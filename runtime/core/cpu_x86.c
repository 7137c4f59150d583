/* cpu_x86.c - CPUID, and XGETBV for what the operating system saves.
 *
 * A feature counts only with the register state it needs: a kernel or a virtual
 * machine that hides the upper halves makes AVX an illegal instruction.
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#include <string.h>

#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#endif

enum { EAX, EBX, ECX, EDX };

/* XCR0: SSE and AVX state; with them, masks and both halves of the zmm registers. */
enum { STATE_NONE = 0, STATE_AVX = 0x06, STATE_AVX512 = 0xe6 };

static const struct feature {
    uint32_t leaf, subleaf;
    uint8_t reg, bit, state;
} table[] = {
    {1, 0, EDX, 26, STATE_NONE},   {1, 0, ECX, 9, STATE_NONE},    {1, 0, ECX, 19, STATE_NONE},
    {7, 0, EBX, 5, STATE_AVX},     {1, 0, ECX, 12, STATE_AVX},    {1, 0, ECX, 29, STATE_AVX},
    {7, 0, EBX, 16, STATE_AVX512}, {7, 0, EBX, 30, STATE_AVX512}, {7, 0, EBX, 17, STATE_AVX512},
    {7, 0, EBX, 31, STATE_AVX512}, {7, 0, ECX, 11, STATE_AVX512}, {7, 1, EAX, 4, STATE_AVX},
};

const char *const kr_cpu_features[] = {
    "sse2",     "ssse3",    "sse4.1",   "avx2",        "fma",      "f16c", "avx512f",
    "avx512bw", "avx512dq", "avx512vl", "avx512-vnni", "avx-vnni", NULL,
};

#if defined(_MSC_VER)
static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t reg[4])
{
    __cpuidex((int *)reg, (int)leaf, (int)subleaf);
}

static uint64_t xcr0(void)
{
    return _xgetbv(0);
}
#else
static void cpuid(uint32_t leaf, uint32_t subleaf, uint32_t reg[4])
{
    __cpuid_count(leaf, subleaf, reg[EAX], reg[EBX], reg[ECX], reg[EDX]);
}

static uint64_t xcr0(void)
{
    uint32_t lo, hi;
    __asm__ volatile("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}
#endif

/* Registers of a leaf, zero if the CPU does not have it. */
static void leaf_or_zero(uint32_t leaf, uint32_t subleaf, uint32_t reg[4])
{
    cpuid(0, 0, reg);
    bool there = leaf <= reg[EAX];
    if (there && subleaf > 0) {
        cpuid(leaf, 0, reg);
        there = subleaf <= reg[EAX]; /* leaf 7 counts its subleaves here */
    }
    if (there)
        cpuid(leaf, subleaf, reg);
    else
        reg[EAX] = reg[EBX] = reg[ECX] = reg[EDX] = 0;
}

uint32_t kr_cpu_detect(void)
{
    uint32_t reg[4];
    leaf_or_zero(1, 0, reg);
    const bool osxsave = reg[ECX] >> 27 & 1;
    const uint64_t saved = osxsave ? xcr0() : 0;

    uint32_t features = 0;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        leaf_or_zero(table[i].leaf, table[i].subleaf, reg);
        if (reg[table[i].reg] >> table[i].bit & 1 && (saved & table[i].state) == table[i].state)
            features |= (uint32_t)1 << i;
    }
    return features;
}

/* The leaves 0x80000002..4 hold 16 characters each. */
enum { BRAND_LEAF = 2, BRAND_LEAVES = 3, BRAND_CAP = BRAND_LEAVES * 16 };

void kr_cpu_name(char *name, size_t cap)
{
    char brand[BRAND_CAP + 1] = "";
    uint32_t reg[4];
    cpuid(0x80000000u, 0, reg);
    for (uint32_t i = 0; reg[EAX] >= 0x80000000u + BRAND_LEAF && i < BRAND_LEAVES; i++) {
        uint32_t part[4];
        cpuid(0x80000000u + BRAND_LEAF + i, 0, part);
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
