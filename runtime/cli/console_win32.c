/* console_win32.c - terminals, interrupts and clocks of Windows.
 * SPDX-License-Identifier: MIT */
#include "console.h"

#include <errno.h>
#include <fcntl.h>
#include <io.h>
#include <windows.h>

bool console_is_terminal(FILE *f)
{
    return _isatty(_fileno(f)) != 0;
}

void console_prepare(void)
{
    _setmode(_fileno(stdin), _O_BINARY);
    _setmode(_fileno(stdout), _O_BINARY);
    SetConsoleOutputCP(CP_UTF8);
}

_Noreturn void console_die_interrupted(void)
{
    ExitProcess((UINT)STATUS_CONTROL_C_EXIT);
}

bool console_replace_file(const char *from, const char *to)
{
    if (MoveFileExA(from, to, MOVEFILE_REPLACE_EXISTING))
        return true;
    errno = EACCES;
    return false;
}

double console_seconds(void)
{
    LARGE_INTEGER ticks, per_second;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&per_second);
    return (double)ticks.QuadPart / (double)per_second.QuadPart;
}
