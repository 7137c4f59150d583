/* map.h - read-only file maps and big anonymous memory (map_posix.c, map_win32.c).
 * SPDX-License-Identifier: MIT */
#ifndef KR_MAP_H
#define KR_MAP_H

#include "error.h"

struct kr_map {
    const uint8_t *base;
    size_t size;
};

/* Map a whole regular file, on huge pages where the system has them for files.  An empty file is
 * an error. */
krafla_status kr_map_file(struct kr_map *m, const char *path, krafla_error *err);
void kr_map_close(struct kr_map *m);
/* The pages inside [offset, offset + bytes) are not needed again soon: give them back. */
void kr_map_release(const struct kr_map *m, size_t offset, size_t bytes);

/* Zeroed anonymous memory, 2 MiB aligned, on huge pages where the system has them;
 * NULL if there is none.  bytes is remembered by the caller. */
void *kr_big_alloc(size_t bytes);
void kr_big_free(void *p, size_t bytes);

#endif
