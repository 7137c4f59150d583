/* file.h - frames and temporary files for the unit tests of the formats.
 * SPDX-License-Identifier: MIT */
#ifndef FILE_H
#define FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct bytes {
    uint8_t *p; /* 64-byte aligned */
    size_t n;
};

/* A file: magic, version, header, zeros to the next multiple of 64, data.  In header, '@' stands
 * for file_bytes.  free(result.p). */
static inline struct bytes make_file(const char *magic, uint32_t version, const char *header,
                                     const void *data, size_t data_bytes)
{
    char text[16384] = "";
    size_t size = 0;
    for (int i = 0; i < 4; i++) { /* file_bytes counts its own digits */
        const char *at = strchr(header, '@');
        const int head = at ? (int)(at - header) : (int)strlen(header);
        if (at)
            snprintf(text, sizeof text, "%.*s%zu%s", head, header, size, at + 1);
        else
            snprintf(text, sizeof text, "%s", header);
        size = (16 + strlen(text) + 63) / 64 * 64 + data_bytes;
    }
    const uint32_t length = (uint32_t)strlen(text);
    uint8_t *p = aligned_alloc(64, (size + 63) / 64 * 64);
    if (!p)
        abort();
    memset(p, 0, size);
    memcpy(p, magic, 8);
    for (int i = 0; i < 4; i++) {
        p[8 + i] = (uint8_t)(version >> 8 * i);
        p[12 + i] = (uint8_t)(length >> 8 * i);
    }
    memcpy(p + 16, text, length);
    if (data_bytes > 0)
        memcpy(p + size - data_bytes, data, data_bytes);
    return (struct bytes){p, size};
}

/* A file name in /tmp that no other process uses. */
static inline const char *temporary_path(const char *test)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/%s-%ld.tmp", test, (long)getpid());
    return path;
}

/* Write a file or abort. */
static inline void write_file(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || (n > 0 && fwrite(data, 1, n, f) != n) || fclose(f) != 0) {
        perror(path);
        abort();
    }
}

#endif
