/* console_posix.c - terminals, pipes, signals and clocks of POSIX systems.
 * SPDX-License-Identifier: MIT */
#include "console.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

bool console_is_terminal(FILE *f)
{
    return isatty(fileno(f)) == 1;
}

static void end_at_once(int number)
{
    _exit(128 + number); /* as a shell says it */
}

void console_prepare(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* ulimit -f */
    if (getpid() == 1) {      /* of a container: Linux keeps from it what it does not handle */
        signal(SIGINT, end_at_once);
        signal(SIGTERM, end_at_once);
    }
}

_Noreturn void console_die_interrupted(void)
{
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
    exit(130); /* only if the signal is blocked */
}

FILE *console_create_file(const char *path)
{
    return fopen(path, "wbx");
}

void console_remove_file(const char *path)
{
    remove(path);
}

bool console_replace_file(const char *from, const char *to)
{
    return rename(from, to) == 0;
}

double console_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
