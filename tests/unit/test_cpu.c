/* test_cpu.c - the guard's names, and thread and memory limits read from made-up /proc and /sys.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cpu.h"
#include "memory.h"

static char root[256]; /* of the made-up file system */

/* root/path with this text, and the directories above it. */
static void put(const char *path, const char *text)
{
    char full[1024];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(full, 0755);
        *slash = '/';
    }
    FILE *f = fopen(full, "w");
    EXPECT(f != NULL);
    if (f) {
        fputs(text, f);
        fclose(f);
    }
}

static void new_root(const char *name)
{
    const char *dir = getenv("TMPDIR");
    snprintf(root, sizeof root, "%s/krafla-unit-cpu-%ld-%s", dir && *dir ? dir : "/tmp",
             (long)getpid(), name);
}

static void drop_root(void)
{
    char command[300];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    EXPECT(system(command) == 0);
}

static void missing_features_are_named_in_order(void)
{
    size_t length = 0;
    EXPECT(kr_cpu_missing("", 0, &length) == NULL);
    EXPECT(kr_cpu_missing("  ", 0, &length) == NULL);

    char needs[256];
    snprintf(needs, sizeof needs, "%s nonsense", kr_cpu_features[0]);
    const char *name = kr_cpu_missing(needs, UINT32_MAX, &length);
    EXPECT(name && length == strlen("nonsense") && strncmp(name, "nonsense", length) == 0);
    name = kr_cpu_missing(needs, 0, &length);
    EXPECT(name == needs && length == strlen(kr_cpu_features[0]));
    /* A name that another begins with is not that one. */
    EXPECT(kr_cpu_missing("s", UINT32_MAX, &length) != NULL);
}

static void every_name_is_one_bit(void)
{
    size_t n = 0;
    for (; kr_cpu_features[n]; n++) {
        size_t length;
        EXPECT(kr_cpu_missing(kr_cpu_features[n], (uint32_t)1 << n, &length) == NULL);
        EXPECT(kr_cpu_missing(kr_cpu_features[n], ~((uint32_t)1 << n), &length) != NULL);
    }
    EXPECT(n >= 1 && n <= 32);
}

static void this_build_runs_here(void)
{
    krafla_error err = {0};
    EXPECT(krafla_cpu_check(&err) == KRAFLA_OK);
    EXPECT(krafla_cpu_has(KR_ISA_NEEDS) == 1);
    EXPECT(krafla_cpu_has("") == 1);
    EXPECT(krafla_cpu_has("no-such-feature") == 0);
    EXPECT(krafla_cpu_has(KR_ISA_NEEDS " no-such-feature") == 0);
    EXPECT(strlen(krafla_version()) >= 5);
    EXPECT(strlen(krafla_isa()) >= 3);
}

static void allow(const char *list)
{
    char text[128];
    snprintf(text, sizeof text, "Name:\tx\nCpus_allowed_list:\t%s\n", list);
    put("/proc/self/status", text);
}

static void topology(int cpu, const char *siblings, const char *capacity)
{
    char path[128];
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu);
    put(path, siblings);
    if (capacity) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpu_capacity", cpu);
        put(path, capacity);
    }
}

static void hyper_threads_are_not_cores(void)
{
    new_root("smt");
    allow("0-7");
    for (int i = 0; i < 8; i++) {
        char siblings[16];
        snprintf(siblings, sizeof siblings, "%d,%d\n", i % 4, i % 4 + 4);
        topology(i, siblings, NULL);
    }
    const char *reason;
    EXPECT(kr_cpu_usable(root, 64, &reason) == 4);
    EXPECT(strstr(reason, "physical cores") != NULL);
    allow("1,5-6"); /* 1 and 5 are one core */
    EXPECT(kr_cpu_usable(root, 64, NULL) == 2);
    EXPECT(kr_cpu_usable(root, 1, &reason) == 1);
    drop_root();
}

static void little_cores_are_not_counted(void)
{
    new_root("biglittle");
    allow("0-5");
    for (int i = 0; i < 6; i++) {
        char siblings[16];
        snprintf(siblings, sizeof siblings, "%d\n", i);
        topology(i, siblings, i < 4 ? "446\n" : "1024\n");
    }
    const char *reason;
    EXPECT(kr_cpu_usable(root, 64, &reason) == 2);
    EXPECT(strstr(reason, "fast cores") != NULL);
    allow("0-3"); /* only little ones: they are the fastest there are */
    EXPECT(kr_cpu_usable(root, 64, NULL) == 4);

    allow("0-5");
    put("/sys/devices/cpu_core/cpus", "0-2\n"); /* Intel's own list wins */
    EXPECT(kr_cpu_usable(root, 64, NULL) == 3);
    drop_root();
}

static void a_quota_of_any_parent_counts(void)
{
    const char *reason;
    new_root("cgroup2");
    allow("0-15");
    put("/proc/self/cgroup", "0::/a/b\n");
    put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    EXPECT(kr_cpu_quota(root) == SIZE_MAX);
    EXPECT(kr_cpu_usable(root, 64, NULL) == 16);
    put("/sys/fs/cgroup/a/cpu.max", "250000 100000\n");
    EXPECT(kr_cpu_usable(root, 64, &reason) == 3); /* 2.5 CPUs, rounded up */
    EXPECT(strstr(reason, "quota") != NULL);
    put("/sys/fs/cgroup/a/b/cpu.max", "10000 100000\n");
    EXPECT(kr_cpu_usable(root, 64, NULL) == 1);
    drop_root();

    new_root("cgroup1");
    allow("0-15");
    put("/proc/self/cgroup", "5:memory:/x\n4:cpu,cpuacct:/docker/1\n");
    /* inside the container, /docker/1 is / */
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    EXPECT(kr_cpu_usable(root, 64, NULL) == 4);
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    EXPECT(kr_cpu_usable(root, 64, NULL) == 16);
    put("/sys/fs/cgroup/cpu/docker/cpu.cfs_quota_us", "50000\n"); /* of a parent, half a CPU */
    put("/sys/fs/cgroup/cpu/docker/cpu.cfs_period_us", "100000\n");
    EXPECT(kr_cpu_usable(root, 64, &reason) == 1);
    EXPECT(strstr(reason, "quota") != NULL);
    drop_root();

    new_root("cgroup1-unlinked");
    allow("0-15");
    put("/proc/self/cgroup", "4:cpu,cpuacct:/a\n2:cpuset:/a\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "500000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "200000\n");
    EXPECT(kr_cpu_usable(root, 64, NULL) == 3);
    drop_root();

    new_root("cgroup-both"); /* version 2 without the CPU controller beside version 1 */
    allow("0-15");
    put("/proc/self/cgroup", "1:cpu:/\n0::/\n");
    put("/sys/fs/cgroup/unified/cgroup.controllers", "\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "700000\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    EXPECT(kr_cpu_usable(root, 64, NULL) == 7);
    EXPECT(kr_cpu_usable(root, 4, NULL) == 4);
    drop_root();
}

static void cores_and_quota_limit_each_other(void)
{
    const char *reason;
    new_root("smt-quota");
    allow("0-7");
    for (int i = 0; i < 8; i++) {
        char siblings[16];
        snprintf(siblings, sizeof siblings, "%d-%d\n", i / 2 * 2, i / 2 * 2 + 1);
        topology(i, siblings, NULL);
    }
    put("/proc/self/cgroup", "0::/\n");
    put("/sys/fs/cgroup/cpu.max", "600000 100000\n");
    EXPECT(kr_cpu_usable(root, 64, &reason) == 4); /* 6 CPUs' time, 4 cores */
    EXPECT(strstr(reason, "physical cores") != NULL);
    put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
    EXPECT(kr_cpu_usable(root, 64, &reason) == 2);
    EXPECT(strstr(reason, "quota") != NULL);
    drop_root();
}

static void available_memory_is_the_smallest_limit(void)
{
    new_root("memory");
    EXPECT(kr_memory_available(root) == UINT64_MAX);
    put("/proc/meminfo", "MemTotal:  900 kB\nMemFree: 10 kB\nMemAvailable:    800 kB\n");
    EXPECT(kr_memory_available(root) == 800 * 1024);
    put("/proc/self/cgroup", "0::/a\n");
    put("/sys/fs/cgroup/a/memory.max", "500000\n");
    put("/sys/fs/cgroup/a/memory.current", "300000\n");
    EXPECT(kr_memory_available(root) == 200000);
    put("/sys/fs/cgroup/a/memory.stat", "anon 1\ninactive_file 50000\nactive_file 20000\n");
    EXPECT(kr_memory_available(root) == 270000);
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    EXPECT(kr_memory_available(root) == 800 * 1024);
    put("/sys/fs/cgroup/a/memory.max", "100\n"); /* more in use than allowed */
    EXPECT(kr_memory_available(root) == 0);
    put("/sys/fs/cgroup/a/memory.max", "max\n");
    put("/proc/self/limits", "Limit  Soft Limit  Hard Limit  Units\n"
                             "Max resident set  unlimited  unlimited  bytes\n"
                             "Max address space  600000  700000  bytes\n");
    put("/proc/self/status", "Name: x\nVmPeak:  500 kB\nVmSize:     100 kB\n");
    EXPECT(kr_memory_available(root) == 600000 - 100 * 1024);
    put("/proc/self/status", "VmSize:  10000 kB\n");
    EXPECT(kr_memory_available(root) == 0);
    put("/proc/self/limits", "Max address space  unlimited  unlimited  bytes\n");
    EXPECT(kr_memory_available(root) == 800 * 1024);
    drop_root();
}

int main(void)
{
    missing_features_are_named_in_order();
    every_name_is_one_bit();
    this_build_runs_here();
    hyper_threads_are_not_cores();
    little_cores_are_not_counted();
    a_quota_of_any_parent_counts();
    cores_and_quota_limit_each_other();
    available_memory_is_the_smallest_limit();
    return unit_done("test_cpu");
}
