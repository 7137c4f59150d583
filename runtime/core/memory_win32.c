/* memory_win32.c - the memory Windows still has, physical and address space.
 * SPDX-License-Identifier: MIT */
#include "memory.h"

#include <windows.h>

uint64_t kr_memory_available(const char *root)
{
    (void)root;
    MEMORYSTATUSEX m = {.dwLength = sizeof m};
    if (!GlobalMemoryStatusEx(&m))
        return UINT64_MAX;
    return m.ullAvailPhys < m.ullAvailVirtual ? m.ullAvailPhys : m.ullAvailVirtual;
}
