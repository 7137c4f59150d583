/* packcache_win32.c - a file appears whole or not at all, on Windows.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <windows.h>

#include "clock.h"
#include "model.h"

enum { NAME_CAP = 4096 + 64 };

static bool write_all(HANDLE file, const void *data, size_t bytes, struct kr_progress *progress)
{
    const uint8_t *at = data;
    while (bytes > 0) {
        const size_t most = 1u << 24; /* a moment */
        DWORD n;
        if (!WriteFile(file, at, (DWORD)(bytes < most ? bytes : most), &n, NULL) || n == 0)
            return false;
        at += n;
        bytes -= n;
        kr_progress_add(progress, (uint64_t)n);
    }
    return true;
}

/* Paths are UTF-8 in this library. */
static bool wide(wchar_t *out, const char *path)
{
    return MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, out, NAME_CAP) > 0;
}

bool kr_packcache_write(const char *path, const void *head, size_t head_bytes, const void *data,
                        size_t data_bytes, struct kr_progress *progress)
{
    char name[NAME_CAP];
    wchar_t temporary[NAME_CAP], target[NAME_CAP];
    const int n = snprintf(name, sizeof name, "%s.%lu-%.0f.tmp", path, GetCurrentProcessId(),
                           1e9 * kr_clock_seconds());
    if (n < 0 || (size_t)n >= sizeof name || !wide(temporary, name) || !wide(target, path))
        return false;
    const HANDLE file = CreateFileW(temporary, GENERIC_WRITE, 0, NULL, CREATE_NEW, 0, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return false;
    bool ok = write_all(file, head, head_bytes, NULL) &&
              write_all(file, data, data_bytes, progress) && FlushFileBuffers(file);
    ok = CloseHandle(file) && ok;
    ok = ok && MoveFileExW(temporary, target, MOVEFILE_REPLACE_EXISTING);
    if (!ok)
        DeleteFileW(temporary);
    return ok;
}
