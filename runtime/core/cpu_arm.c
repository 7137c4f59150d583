/* cpu_arm.c - the capabilities the kernel announces (HWCAP), which include the state it saves.
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#include <sys/auxv.h>

#if defined(__aarch64__)

const char *const kr_cpu_features[] = {"asimd", "dotprod", "i8mm", "sve", NULL};

uint32_t kr_cpu_detect(void)
{
    /* arch/arm64/include/uapi/asm/hwcap.h: spelled out because old headers lack the newer ones */
    const unsigned long caps = getauxval(AT_HWCAP), caps2 = getauxval(AT_HWCAP2);
    const bool asimd = caps >> 1 & 1, dotprod = caps >> 20 & 1, sve = caps >> 22 & 1;
    const bool i8mm = caps2 >> 13 & 1;
    return (uint32_t)asimd | (uint32_t)dotprod << 1 | (uint32_t)i8mm << 2 | (uint32_t)sve << 3;
}

#else

const char *const kr_cpu_features[] = {"neon", NULL};

uint32_t kr_cpu_detect(void)
{
    return getauxval(AT_HWCAP) >> 12 & 1; /* arch/arm/include/uapi/asm/hwcap.h: HWCAP_NEON */
}

#endif
