/* packcache_posix.c - a file appears whole or not at all.
 *
 * Programs in containers that share the directory may have the same process id
 * and start at the same time: the temporary file has the time in its name, too,
 * and must be new.  A signal that ends the program waits until that file has
 * its name or is gone.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"
#include "model.h"

enum { NAME_CAP = 4096 + 64 };

static const int ending[] = {SIGHUP, SIGINT, SIGTERM};

/* Whether one of the signals in `ending` has come; they are blocked. */
static bool any_came(void)
{
    sigset_t came;
    if (sigpending(&came) != 0)
        return false;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        if (sigismember(&came, ending[i]) == 1)
            return true;
    }
    return false;
}

/* In parts that end at multiples of their size in the file, so that Linux keeps it on huge pages. */
static bool write_all(int fd, size_t offset, const void *data, size_t bytes,
                      struct kr_progress *progress)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        if (any_came())
            return false;
        const size_t part = 1u << 24; /* a moment, and below the limit of one write() */
        const size_t most = part - offset % part;
        const ssize_t n = write(fd, at, bytes < most ? bytes : most);
        if (n <= 0)
            return false;
        offset += (size_t)n;
        at += n;
        bytes -= (size_t)n;
        kr_progress_add(progress, (uint64_t)n);
    }
    return true;
}

static bool write_file(const char *path, const void *head, size_t head_bytes, const void *data,
                       size_t data_bytes, struct kr_progress *progress)
{
    char name[NAME_CAP];
    const int n = snprintf(name, sizeof name, "%s.%ld-%.0f.tmp", path, (long)getpid(),
                           1e9 * kr_clock_seconds());
    if (n < 0 || (size_t)n >= sizeof name)
        return false;
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return false;
    bool ok = write_all(fd, 0, head, head_bytes, NULL) &&
              write_all(fd, head_bytes, data, data_bytes, progress) && fsync(fd) == 0;
    ok = close(fd) == 0 && ok;
    ok = ok && rename(name, path) == 0;
    if (!ok)
        unlink(name);
    return ok;
}

bool kr_packcache_write(const char *path, const void *head, size_t head_bytes, const void *data,
                        size_t data_bytes, struct kr_progress *progress)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        sigaddset(&signals, ending[i]);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    const bool ok = write_file(path, head, head_bytes, data, data_bytes, progress);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}
