/* map_posix.c - read-only file maps and big anonymous memory on POSIX systems.
 *
 * Maps whole files and never writes.  That nobody shortens the file while it
 * is mapped is the user's business: no program can prevent it.
 * SPDX-License-Identifier: MIT */
/* Files over 2 GiB on 32-bit systems are an error of ours, not one of open(). */
#define _FILE_OFFSET_BITS 64

#include "map.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BIG_PAGE = 2 << 20 };

/* Size of the regular file fd in *size. */
static krafla_status file_size(size_t *size, int fd, const char *path, krafla_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kr_fail(err, KRAFLA_E_IO, "%s: cannot get the file's size: %s", path,
                       strerror(errno));
    if (S_ISDIR(st.st_mode))
        return kr_fail(err, KRAFLA_E_IO, "%s: is a directory, expected a file; name the file in it",
                       path);
    if (!S_ISREG(st.st_mode))
        return kr_fail(err, KRAFLA_E_IO,
                       "%s: is not a regular file, so it cannot be mapped; copy it to a disk first",
                       path);
    if (st.st_size == 0)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: the file is empty; download it again", path);
    if ((uint64_t)st.st_size > SIZE_MAX)
        return kr_fail(err, KRAFLA_E_MEMORY,
                       "%s: %lld bytes do not fit this system's address space; use a smaller model "
                       "or a 64-bit system",
                       path, (long long)st.st_size);
    *size = (size_t)st.st_size;
    return KRAFLA_OK;
}

krafla_status kr_map_file(struct kr_map *m, const char *path, krafla_error *err)
{
    *m = (struct kr_map){0};
    /* O_NONBLOCK: a FIFO must be refused below, not waited for here. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return kr_fail(err, KRAFLA_E_IO, "%s: cannot open: %s", path, strerror(errno));

    size_t size = 0;
    krafla_status st = file_size(&size, fd, path, err);
    if (st == KRAFLA_OK) {
        void *base = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (base == MAP_FAILED)
            st = kr_fail(err, KRAFLA_E_MEMORY, "%s: cannot map %zu bytes: %s", path, size,
                         strerror(errno));
        else
            *m = (struct kr_map){.base = base, .size = size};
    }
#ifdef MADV_HUGEPAGE
    /* Linux then reads 2 MiB at a time, whatever the disk's read-ahead, and maps them as one page
     * where the file system can.  They stay the file's, shared by all processes. */
    if (st == KRAFLA_OK)
        madvise((void *)m->base, size, MADV_HUGEPAGE);
#endif
    close(fd);
    return st;
}

void kr_map_close(struct kr_map *m)
{
    if (m->base)
        munmap((void *)m->base, m->size);
    *m = (struct kr_map){0};
}

void kr_map_release(const struct kr_map *m, size_t offset, size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const size_t first = (offset + page - 1) & ~(page - 1);
    const size_t last = (offset + bytes) & ~(page - 1);
    if (first < last)
        madvise((void *)(m->base + first), last - first, MADV_DONTNEED);
}

/* The bytes that kr_big_alloc(bytes) really maps; 0 if that wraps. */
static size_t big_size(size_t bytes)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t up;
    return kr_size_add(&up, bytes ? bytes : 1, page - 1) ? up & ~(page - 1) : 0;
}

void *kr_big_alloc(size_t bytes)
{
    const size_t size = big_size(bytes);
    size_t room;
    if (size == 0 || !kr_size_add(&room, size, BIG_PAGE))
        return NULL;
    uint8_t *raw = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;

    /* Cut the range to [aligned, aligned + size). */
    const size_t head = -(uintptr_t)raw & (BIG_PAGE - 1);
    uint8_t *aligned = raw + head;
    if (head > 0)
        munmap(raw, head);
    munmap(aligned + size, BIG_PAGE - head);
#ifdef MADV_HUGEPAGE
    if (size >= BIG_PAGE)
        madvise(aligned, size, MADV_HUGEPAGE);
#endif
    return aligned;
}

void kr_big_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, big_size(bytes));
}
