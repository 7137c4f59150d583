/* map_win32.c - read-only file maps and big memory on Windows.
 *
 * Paths are UTF-8.  2 MiB pages need a privilege that users do not have, so big
 * memory is only aligned like them.
 * SPDX-License-Identifier: MIT */
#include "map.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

enum {
    BIG_PAGE = 2 << 20,
    PATH_CAP = 32768, /* the longest path Windows has, in UTF-16 units */
    ALLOC_TRIES = 8
};

/* "The system cannot find the file specified" and the like, in English where Windows has it. */
static void system_message(char *out, DWORD cap)
{
    const DWORD code = GetLastError();
    DWORD n = FormatMessageA(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL, code,
                             MAKELANGID(LANG_ENGLISH, SUBLANG_ENGLISH_US), out, cap, NULL);
    while (n > 0 && (out[n - 1] == '\n' || out[n - 1] == '\r' || out[n - 1] == '.'))
        n--;
    out[n] = '\0';
}

static HANDLE open_file(const char *path)
{
    wchar_t *wide = HeapAlloc(GetProcessHeap(), 0, PATH_CAP * sizeof *wide);
    if (!wide)
        return INVALID_HANDLE_VALUE;
    HANDLE file = INVALID_HANDLE_VALUE;
    if (MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, PATH_CAP) > 0)
        file = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL,
                           OPEN_EXISTING, FILE_ATTRIBUTE_NORMAL, NULL);
    const DWORD code = GetLastError();
    HeapFree(GetProcessHeap(), 0, wide);
    SetLastError(code);
    return file;
}

static krafla_status map_handle(struct kr_map *m, HANDLE file, const char *path, krafla_error *err)
{
    char why[256];
    LARGE_INTEGER size;
    if (GetFileType(file) != FILE_TYPE_DISK || !GetFileSizeEx(file, &size))
        return kr_fail(err, KRAFLA_E_IO,
                       "%s: is not a regular file, so it cannot be mapped; copy it to a disk first",
                       path);
    if (size.QuadPart == 0)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: the file is empty; download it again", path);
    if ((uint64_t)size.QuadPart > SIZE_MAX)
        return kr_fail(err, KRAFLA_E_MEMORY,
                       "%s: %lld bytes do not fit this system's address space; use a smaller model "
                       "or a 64-bit system",
                       path, (long long)size.QuadPart);

    const HANDLE mapping = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    const void *base = mapping ? MapViewOfFile(mapping, FILE_MAP_READ, 0, 0, 0) : NULL;
    if (!base)
        system_message(why, sizeof why);
    if (mapping)
        CloseHandle(mapping); /* the view keeps it */
    if (!base)
        return kr_fail(err, KRAFLA_E_MEMORY, "%s: cannot map %lld bytes: %s", path,
                       (long long)size.QuadPart, why);
    *m = (struct kr_map){.base = base, .size = (size_t)size.QuadPart};
    return KRAFLA_OK;
}

krafla_status kr_map_file(struct kr_map *m, const char *path, krafla_error *err)
{
    *m = (struct kr_map){0};
    const HANDLE file = open_file(path);
    if (file == INVALID_HANDLE_VALUE) {
        char why[256];
        system_message(why, sizeof why);
        return kr_fail(err, KRAFLA_E_IO, "%s: cannot open: %s", path, why);
    }
    const krafla_status st = map_handle(m, file, path, err);
    CloseHandle(file);
    return st;
}

void kr_map_close(struct kr_map *m)
{
    if (m->base)
        UnmapViewOfFile(m->base);
    *m = (struct kr_map){0};
}

void kr_map_release(const struct kr_map *m, size_t offset, size_t bytes)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    const size_t page = info.dwPageSize;
    const size_t first = (offset + page - 1) & ~(page - 1);
    const size_t last = (offset + bytes) & ~(page - 1);
    /* Unlocking pages that are not locked takes them out of the working set. */
    if (first < last)
        VirtualUnlock((void *)(m->base + first), last - first);
}

void *kr_big_alloc(size_t bytes)
{
    size_t room;
    if (!kr_size_add(&room, bytes ? bytes : 1, BIG_PAGE))
        return NULL;
    /* Only whole reservations can be released: find an aligned address, give the range back,
     * ask for exactly that address.  Another thread may be faster; then search again. */
    for (int i = 0; i < ALLOC_TRIES; i++) {
        uint8_t *raw = VirtualAlloc(NULL, room, MEM_RESERVE, PAGE_NOACCESS);
        if (!raw)
            return NULL;
        uint8_t *aligned = raw + (-(uintptr_t)raw & (BIG_PAGE - 1));
        VirtualFree(raw, 0, MEM_RELEASE);
        void *p = VirtualAlloc(aligned, room - BIG_PAGE, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
        if (p)
            return p;
    }
    return NULL;
}

void kr_big_free(void *p, size_t bytes)
{
    (void)bytes;
    if (p)
        VirtualFree(p, 0, MEM_RELEASE);
}
