/* memory_posix.c - MemAvailable, the memory limits of the control groups, and ulimit -v.
 *
 * File pages that a group holds count as available: the kernel drops them first.
 * SPDX-License-Identifier: MIT */
#include "memory.h"

#include "proc.h"

/* limit and use of one group, by the file names of its version */
static void one_version(uint64_t *left, const char *root, const char *dir, const char *limit_name,
                        const char *used_name, const char *prefix_inactive,
                        const char *prefix_active)
{
    uint64_t limit, used, inactive = 0, active = 0;
    if (!kr_proc_number(root, dir, limit_name, "", &limit) ||
        !kr_proc_number(root, dir, used_name, "", &used))
        return;
    kr_proc_number(root, dir, "memory.stat", prefix_inactive, &inactive);
    kr_proc_number(root, dir, "memory.stat", prefix_active, &active);
    const uint64_t files = inactive + active;
    used = used > files ? used - files : 0;
    const uint64_t rest = limit > used ? limit - used : 0;
    if (rest < *left)
        *left = rest;
}

static void visit(void *arg, const char *root, const char *dir)
{
    one_version(arg, root, dir, "memory.max", "memory.current", "inactive_file", "active_file");
    one_version(arg, root, dir, "memory.limit_in_bytes", "memory.usage_in_bytes",
                "total_inactive_file", "total_active_file");
}

/* ulimit -v bounds addresses, mapped files among them, not memory in use. */
static void address_space(uint64_t *left, const char *root)
{
    uint64_t limit, used_kib = 0;
    if (!kr_proc_number(root, "/proc", "self/limits", "Max address space", &limit))
        return; /* "unlimited" is no number */
    kr_proc_number(root, "/proc", "self/status", "VmSize:", &used_kib);
    const uint64_t used = used_kib * 1024;
    const uint64_t rest = limit > used ? limit - used : 0;
    if (rest < *left)
        *left = rest;
}

uint64_t kr_memory_available(const char *root)
{
    uint64_t left = UINT64_MAX, kib;
    if (kr_proc_number(root, "/proc", "meminfo", "MemAvailable:", &kib))
        left = kib * 1024;
    kr_proc_cgroups(root, "memory", visit, &left);
    address_space(&left, root);
    return left;
}
