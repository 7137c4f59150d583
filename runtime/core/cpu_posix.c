/* cpu_posix.c - how many threads suit this machine, on Linux.
 *
 * Hyper-threads, slow cores of a mixed CPU and CPUs that a container may not
 * use make every run wait for the slowest chunk, so none of them is counted.
 * SPDX-License-Identifier: MIT */
#include "cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc.h"

enum {
    MAX_CPUS = 1024,
    FAST_PERCENT = 60, /* a core this much slower than the fastest belongs to another class */
};

static const char reason_allowed[] = "the CPUs this process may use";
static const char reason_quota[] = "the CPU quota of this container";
static const char reason_cores[] = "the physical cores of this machine";
static const char reason_fast[] = "the fast cores of this machine";
static const char reason_max[] = "the most threads there can be";

struct cpus {
    bool in[MAX_CPUS];
};

static size_t count(const struct cpus *c)
{
    size_t n = 0;
    for (size_t i = 0; i < MAX_CPUS; i++)
        n += c->in[i];
    return n;
}

/* "0-3,8,10-11" */
static bool parse_list(struct cpus *c, const char *text)
{
    *c = (struct cpus){0};
    while (*text >= '0' && *text <= '9') {
        char *end;
        const unsigned long first = strtoul(text, &end, 10);
        const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        for (unsigned long i = first; i <= last && i < MAX_CPUS; i++)
            c->in[i] = true;
        text = end + (*end == ',');
    }
    return count(c) > 0;
}

static bool read_list(struct cpus *c, const char *root, const char *dir, const char *name)
{
    char text[KR_PROC_TEXT];
    return kr_proc_read(root, dir, name, text, sizeof text) && parse_list(c, text);
}

/* With another root, what its /proc/self/status says is allowed. */
static void allowed_cpus(struct cpus *c, const char *root)
{
    *c = (struct cpus){0};
    if (*root) {
        char text[KR_PROC_TEXT];
        const char *key = "Cpus_allowed_list:";
        const char *at = kr_proc_read(root, "/proc/self", "status", text, sizeof text)
                             ? strstr(text, key)
                             : NULL;
        if (at && parse_list(c, at + strlen(key) + strspn(at + strlen(key), " \t")))
            return;
    }
    cpu_set_t *set = CPU_ALLOC(MAX_CPUS);
    const size_t bytes = CPU_ALLOC_SIZE(MAX_CPUS);
    if (set && sched_getaffinity(0, bytes, set) == 0)
        for (size_t i = 0; i < MAX_CPUS; i++)
            c->in[i] = CPU_ISSET_S(i, bytes, set);
    CPU_FREE(set);
    if (count(c) == 0)
        c->in[0] = true;
}

/* Keep one CPU of every physical core. */
static void drop_siblings(struct cpus *c, const char *root)
{
    for (size_t i = 0; i < MAX_CPUS; i++) {
        char dir[64];
        struct cpus same;
        snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%zu/topology", i);
        if (!c->in[i] || !read_list(&same, root, dir, "thread_siblings_list"))
            continue;
        for (size_t k = i + 1; k < MAX_CPUS; k++)
            c->in[k] = c->in[k] && !same.in[k];
    }
}

/* Keep the cores of the fastest class: Intel names it, elsewhere the speeds tell. */
static void drop_slow(struct cpus *c, const char *root)
{
    struct cpus fast = *c, named;
    if (read_list(&named, root, "/sys/devices/cpu_core", "cpus")) {
        for (size_t i = 0; i < MAX_CPUS; i++)
            fast.in[i] = c->in[i] && named.in[i];
    } else {
        uint64_t speed[MAX_CPUS] = {0}, best = 0;
        for (size_t i = 0; i < MAX_CPUS; i++) {
            char dir[64];
            snprintf(dir, sizeof dir, "/sys/devices/system/cpu/cpu%zu", i);
            if (c->in[i] && !kr_proc_number(root, dir, "cpu_capacity", "", &speed[i]))
                kr_proc_number(root, dir, "cpufreq/cpuinfo_max_freq", "", &speed[i]);
            best = speed[i] > best ? speed[i] : best;
        }
        for (size_t i = 0; i < MAX_CPUS; i++)
            fast.in[i] = c->in[i] && speed[i] * 100 >= best * FAST_PERCENT;
    }
    if (count(&fast) > 0)
        *c = fast;
}

static void visit_quota(void *arg, const char *root, const char *dir)
{
    size_t *least = arg;
    char text[64];
    uint64_t quota = 0, period = 0;
    if (kr_proc_read(root, dir, "cpu.max", text, sizeof text)) { /* "200000 100000", "max 100000" */
        char *end;
        quota = strtoull(text, &end, 10);
        period = end != text ? strtoull(end, NULL, 10) : 0;
    } else if (!kr_proc_number(root, dir, "cpu.cfs_quota_us", "", &quota) ||
               !kr_proc_number(root, dir, "cpu.cfs_period_us", "", &period)) {
        return;
    }
    if (quota == 0 || period == 0)
        return;
    const uint64_t cpus = (quota - 1) / period + 1;
    if (cpus < *least)
        *least = (size_t)cpus;
}

size_t kr_cpu_quota(const char *root)
{
    size_t least = SIZE_MAX;
    kr_proc_cgroups(root, "cpu", visit_quota, &least);
    return least;
}

size_t kr_cpu_usable(const char *root, size_t max, const char **reason)
{
    struct cpus c;
    allowed_cpus(&c, root);
    size_t n = count(&c);
    const char *why = reason_allowed;

    drop_siblings(&c, root);
    if (count(&c) < n) {
        n = count(&c);
        why = reason_cores;
    }
    drop_slow(&c, root);
    if (count(&c) < n) {
        n = count(&c);
        why = reason_fast;
    }
    const size_t quota = kr_cpu_quota(root);
    if (quota < n) {
        n = quota;
        why = reason_quota;
    }
    if (max < n) {
        n = max;
        why = reason_max;
    }
    if (reason)
        *reason = why;
    return n;
}
