/* levels.h - the CPU that vnnirun pretends to be.
 *
 * A level hides what came after it in what CPUID says.  It makes no instruction
 * fault: that a build uses nothing above its level is shown by QEMU and by the
 * audit of the object files (scripts/krafla_release).
 * SPDX-License-Identifier: MIT */
#ifndef LEVELS_H
#define LEVELS_H

#include <stdbool.h>
#include <stdint.h>

enum level { SSE2, SSSE3, SSE41, AVX2, AVXVNNI, AVX512VNNI, HOST };

struct cpuid {
    uint32_t reg[4]; /* eax, ebx, ecx, edx */
};

/* The level of a name such as "sse41" or "host"; false if there is none. */
bool level_find(enum level *level, const char *name);
/* What the CPU of a level says; AVXVNNI has AVX-VNNI whatever this CPU has. */
struct cpuid level_cpuid(enum level level, uint32_t leaf, uint32_t subleaf);
/* Whether this CPU has the EVEX forms that take the place of AVX-VNNI. */
bool host_has_evex_dot(void);

#endif
