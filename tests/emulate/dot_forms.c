/* dot_forms.c - the AVX-VNNI dot products in every addressing mode; prints a hash of the results.
 *
 * Built twice: with -DENCODING='"%{vex%} "' for vnnirun and with "%{evex%} " for a
 * CPU that has AVX512-VNNI and AVX512VL, which must print the same.
 * SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { INPUTS = 200, BYTES = 4096 };

static uint8_t data[BYTES];
uint8_t global_operand[64]; /* not static: its name stands in the instructions */
static uint64_t hash = 1469598103934665603u;

static void add_to_hash(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ bytes[i]) * 1099511628211u;
}

/* ymm0 += ymm9, ymm15 or ymm3 times a register or memory: r13 and %1 point to the data, %2 is 3. */
#define DOT(words)                                                                                 \
    do {                                                                                           \
        uint8_t sums[32];                                                                          \
        __asm__ volatile("vmovdqu (%1), %%ymm0\n\t"                                                \
                         "vmovdqu 32(%1), %%ymm9\n\t"                                              \
                         "vmovdqu 64(%1), %%ymm15\n\t"                                             \
                         "vmovdqu 96(%1), %%ymm3\n\t"                                              \
                         "mov %1, %%r13\n\t"                                                       \
                         "mov %2, %%r12\n\t" ENCODING words "\n\t"                                 \
                         "vmovdqu %%ymm0, (%0)"                                                    \
                         :                                                                         \
                         : "r"(sums), "r"(data), "r"((uint64_t)3)                                  \
                         : "memory", "xmm0", "xmm3", "xmm9", "xmm15", "r12", "r13");               \
        add_to_hash(sums, sizeof sums);                                                            \
    } while (0)

static void every_form(void)
{
    DOT("vpdpbusd %%ymm9, %%ymm3, %%ymm0");
    DOT("vpdpbusds %%ymm15, %%ymm9, %%ymm0");
    DOT("vpdpwssd %%ymm3, %%ymm15, %%ymm0");
    DOT("vpdpwssds %%ymm9, %%ymm9, %%ymm0");
    DOT("vpdpbusd (%1), %%ymm3, %%ymm0");
    DOT("vpdpbusd 32(%1), %%ymm9, %%ymm0");
    DOT("vpdpbusds -4(%%r13,%%r12,4), %%ymm15, %%ymm0");
    DOT("vpdpwssd 1000(%1,%2,8), %%ymm3, %%ymm0");
    DOT("vpdpbusd global_operand(%%rip), %%ymm3, %%ymm0");
    DOT("vpdpbusds (%%r13), %%ymm3, %%ymm0");
    DOT("vpdpwssds global_operand(,%2,4), %%ymm3, %%ymm0");
    DOT("vpdpbusd %%xmm9, %%xmm3, %%xmm0");
    DOT("vpdpwssd 17(%%r13), %%xmm15, %%xmm0");
}

/* Bytes of any value, every second time most of them large, every fifth all extreme. */
static void fill(int input, uint32_t *random)
{
    for (size_t i = 0; i < sizeof data; i++) {
        *random = *random * 1664525u + 1013904223u;
        const uint8_t sign = input % 2 ? 0x80 * (*random >> 8 & 1) : 0;
        data[i] = (uint8_t)(*random >> 24) | sign;
    }
    if (input % 5 == 0)
        memset(data, input % 10 ? 0xff : 0x7f, 256);
    memcpy(global_operand, data + 500, sizeof global_operand);
}

int main(void)
{
    uint32_t random = 7;
    for (int input = 0; input < INPUTS; input++) {
        fill(input, &random);
        every_form();
    }
    printf("%016llx\n", (unsigned long long)hash);
    return 0;
}
