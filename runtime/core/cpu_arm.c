/* cpu_arm.c - the capabilities the kernel announces (HWCAP), which include the state it saves; the
 * numbers in /proc/cpuinfo that stand for a name.
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#include <stdio.h>
#include <string.h>
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

/* The number after "key ... :" in the line, if it is that line. */
static void take_number(const char *line, const char *key, unsigned *value)
{
    const char *colon = strchr(line, ':');
    if (colon && strncmp(line, key, strlen(key)) == 0)
        sscanf(colon + 1, "%x", value);
}

/* ARM CPUs have numbers, not names. */
void kr_cpu_name(char *name, size_t cap)
{
    unsigned implementer = 0, part = 0;
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        take_number(line, "CPU implementer", &implementer);
        take_number(line, "CPU part", &part);
    }
    if (f)
        fclose(f);
    if (implementer || part)
        snprintf(name, cap, "ARM CPU, implementer 0x%02x, part 0x%03x", implementer, part);
    else
        snprintf(name, cap, "ARM CPU");
}
