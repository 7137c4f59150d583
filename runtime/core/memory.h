/* memory.h - how much memory may still be taken (memory_posix.c, memory_win32.c).
 * SPDX-License-Identifier: MIT */
#ifndef KR_MEMORY_H
#define KR_MEMORY_H

#include "error.h"

/* Bytes available without swapping: the system's, or what the control groups or ulimit -v leave if
 * that is less.  UINT64_MAX if the system does not tell.  root is put before /proc and /sys: "" except
 * in tests. */
uint64_t kr_memory_available(const char *root);

#endif
