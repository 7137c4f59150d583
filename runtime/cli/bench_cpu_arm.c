/* bench_cpu_arm.c - ARM CPUs have numbers, not names: those of /proc/cpuinfo.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "bench.h"

/* The number after "key ... :" in the line, if it is that line. */
static void take(const char *line, const char *key, unsigned *value)
{
    const char *colon = strchr(line, ':');
    if (colon && strncmp(line, key, strlen(key)) == 0)
        sscanf(colon + 1, "%x", value);
}

void bench_cpu_name(char *name, size_t cap)
{
    unsigned implementer = 0, part = 0;
    char line[256];
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        take(line, "CPU implementer", &implementer);
        take(line, "CPU part", &part);
    }
    if (f)
        fclose(f);
    if (implementer || part)
        snprintf(name, cap, "ARM CPU, implementer 0x%02x, part 0x%03x", implementer, part);
    else
        snprintf(name, cap, "ARM CPU");
}
