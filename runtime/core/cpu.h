/* cpu.h - what this CPU and its operating system can run, and how many threads suit it.
 *
 * Features and name are cpu_x86.c and cpu_arm.c, threads cpu_posix.c and cpu_win32.c,
 * the guard is cpu.c.  All of it is baseline code.
 * SPDX-License-Identifier: MIT */
#ifndef KR_CPU_H
#define KR_CPU_H

#include "error.h"

/* Bit i: the CPU has kr_cpu_features[i] and the system saves its registers. */
uint32_t kr_cpu_detect(void);
/* The names of isas.txt that this architecture knows, NULL at the end; at most 32. */
extern const char *const kr_cpu_features[];

/* What the CPU calls itself, printable ASCII. */
void kr_cpu_name(char *name, size_t cap);

/* The first name of the space-separated list `needs` that is not in `features`, or NULL; its
 * length goes to *length.  A name that is not known at all is missing. */
const char *kr_cpu_missing(const char *needs, uint32_t features, size_t *length);

/* The smallest of the CPUs this process may use, the container's quota, the physical cores
 * (of the fastest class, where cores differ) and `max`; at least 1.  *reason says which, a
 * constant; NULL if not wanted.  root is put before /proc and /sys: "" except in tests. */
size_t kr_cpu_usable(const char *root, size_t max, const char **reason);

/* One of the counts behind it: CPUs' worth of time the control groups grant, rounded up;
 * SIZE_MAX if there is no limit. */
size_t kr_cpu_quota(const char *root);

#endif
