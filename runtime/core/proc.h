/* proc.h - small text files of /proc and /sys, and this process's control groups (proc_posix.c).
 *
 * Every path gets `root` before it, which is "" except in tests.  A file that
 * is not there is not an error: the fact it would state is unknown.
 * SPDX-License-Identifier: MIT */
#ifndef KR_PROC_H
#define KR_PROC_H

#include "error.h"

enum { KR_PROC_PATH = 1024, KR_PROC_TEXT = 16384 };

/* The file dir/name as text, NUL-terminated, cut at cap - 1 bytes.  False if it cannot be read. */
bool kr_proc_read(const char *root, const char *dir, const char *name, char *text, size_t cap);

/* The number after `key` in dir/name, at the start of the file if key is "".  False if it is not
 * there or not a number ("max"). */
bool kr_proc_number(const char *root, const char *dir, const char *name, const char *key,
                    uint64_t *value);

/* Call visit(arg, root, dir) for the control group directories that limit `controller` for this
 * process, innermost first, of versions 1 and 2, up to the top. */
typedef void kr_proc_visit(void *arg, const char *root, const char *dir);
void kr_proc_cgroups(const char *root, const char *controller, kr_proc_visit *visit, void *arg);

#endif
