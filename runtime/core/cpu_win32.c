/* cpu_win32.c - how many threads suit this machine, on Windows: its physical cores, at most the
 * CPUs this process may use.
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#include <stdlib.h>
#include <windows.h>

static size_t physical_cores(void)
{
    DWORD bytes = 0;
    GetLogicalProcessorInformation(NULL, &bytes);
    SYSTEM_LOGICAL_PROCESSOR_INFORMATION *info = malloc(bytes ? bytes : 1);
    size_t cores = 0;
    if (info && GetLogicalProcessorInformation(info, &bytes))
        for (size_t i = 0; i < bytes / sizeof *info; i++)
            cores += info[i].Relationship == RelationProcessorCore;
    free(info);
    return cores ? cores : SIZE_MAX;
}

size_t kr_cpu_quota(const char *root)
{
    (void)root;
    return SIZE_MAX;
}

size_t kr_cpu_usable(const char *root, size_t max, const char **reason)
{
    (void)root;
    DWORD_PTR mine = 1, all;
    GetProcessAffinityMask(GetCurrentProcess(), &mine, &all);
    size_t n = 0;
    for (; mine; mine &= mine - 1)
        n++;
    const char *why = "the CPUs this process may use";
    const size_t cores = physical_cores();
    if (cores < n) {
        n = cores;
        why = "the physical cores of this machine";
    }
    if (max < n) {
        n = max;
        why = "the most threads there can be";
    }
    if (reason)
        *reason = why;
    return n ? n : 1;
}
