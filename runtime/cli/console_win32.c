/* console_win32.c - terminals, words, files, interrupts and clocks of Windows.
 *
 * Text is UTF-8 in the programs, and UTF-16 where Windows takes it: its other
 * interface knows only the characters of one old code page.
 * SPDX-License-Identifier: MIT */
#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <windows.h>

#include <shellapi.h> /* needs what windows.h defines */

enum { PATH_CAP = 32768 }; /* the longest path Windows has, in UTF-16 units */

bool console_is_terminal(FILE *f)
{
    return _isatty(_fileno(f)) != 0;
}

static char *utf8(const wchar_t *text)
{
    const int bytes = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *out = malloc((size_t)bytes);
    if (out)
        WideCharToMultiByte(CP_UTF8, 0, text, -1, out, bytes, NULL, NULL);
    return out;
}

/* The command line anew, and for good.  Without memory for it the words stay as they are. */
static void take_words(int *argc, char ***argv)
{
    int n = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **words = wide ? calloc((size_t)n + 1, sizeof *words) : NULL;
    bool whole = words != NULL;
    for (int i = 0; i < n && whole; i++)
        whole = (words[i] = utf8(wide[i])) != NULL;
    LocalFree(wide);
    if (whole) {
        *argc = n;
        *argv = words;
    }
}

/* NULL, with errno set, if the path is not UTF-8 or there is no memory. */
static wchar_t *wide_path(const char *path)
{
    wchar_t *out = malloc(PATH_CAP * sizeof *out);
    if (out && MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, PATH_CAP) > 0)
        return out;
    errno = out ? EINVAL : ENOMEM;
    free(out);
    return NULL;
}

void console_prepare(int *argc, char ***argv)
{
    take_words(argc, argv);
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
}

_Noreturn void console_die_interrupted(void)
{
    ExitProcess((UINT)STATUS_CONTROL_C_EXIT);
}

FILE *console_create_file(const char *path)
{
    wchar_t *wide = wide_path(path);
    if (!wide)
        return NULL;
    const int fd = _wopen(wide, _O_CREAT | _O_EXCL | _O_WRONLY | _O_BINARY, _S_IREAD | _S_IWRITE);
    free(wide);
    return fd < 0 ? NULL : _fdopen(fd, "wb");
}

void console_remove_file(const char *path)
{
    wchar_t *wide = wide_path(path);
    if (wide)
        _wremove(wide);
    free(wide);
}

bool console_replace_file(const char *from, const char *to)
{
    wchar_t *wide_from = wide_path(from), *wide_to = wide_path(to);
    bool done = false;
    if (wide_from && wide_to) {
        done = MoveFileExW(wide_from, wide_to, MOVEFILE_REPLACE_EXISTING);
        errno = EACCES;
    }
    free(wide_from);
    free(wide_to);
    return done;
}

double console_seconds(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    return (double)ticks.QuadPart / (double)per_second.QuadPart;
}
