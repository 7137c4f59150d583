/* proc_posix.c - reads /proc, /sys and the control group tree without allocating.
 * SPDX-License-Identifier: MIT */
#include "proc.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool kr_proc_read(const char *root, const char *dir, const char *name, char *text, size_t cap)
{
    char path[KR_PROC_PATH];
    const int n = snprintf(path, sizeof path, "%s%s/%s", root, dir, name);
    if (n < 0 || (size_t)n >= sizeof path)
        return false;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    size_t used = 0;
    ssize_t got;
    while (used < cap - 1 && (got = read(fd, text + used, cap - 1 - used)) > 0)
        used += (size_t)got;
    close(fd);
    text[used] = '\0';
    return used > 0;
}

bool kr_proc_number(const char *root, const char *dir, const char *name, const char *key,
                    uint64_t *value)
{
    char text[KR_PROC_TEXT];
    if (!kr_proc_read(root, dir, name, text, sizeof text))
        return false;
    const size_t length = strlen(key);
    const char *line = text;
    while (strncmp(line, key, length) != 0) {
        line = strchr(line, '\n');
        if (!line)
            return false;
        line++;
    }
    line += length;
    line += strspn(line, " \t:");
    if (*line < '0' || *line > '9')
        return false;
    uint64_t v = 0;
    for (; *line >= '0' && *line <= '9'; line++)
        v = v > UINT64_MAX / 10 - 1 ? UINT64_MAX / 10 - 1 : v * 10 + (uint64_t)(*line - '0');
    *value = v;
    return true;
}

/* base + path, then every parent, then base itself. */
static void visit_up(const char *root, const char *base, const char *path, kr_proc_visit *visit,
                     void *arg)
{
    char dir[KR_PROC_PATH];
    const int n = snprintf(dir, sizeof dir, "%s%s", base, path);
    if (n < 0 || (size_t)n >= sizeof dir)
        return;
    for (size_t end = (size_t)n; end >= strlen(base); end--) {
        if (end > strlen(base) && dir[end] != '/' && dir[end] != '\0')
            continue;
        dir[end] = '\0';
        visit(arg, root, dir);
    }
}

/* Is `name` in the comma-separated list? */
static bool listed(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (const char *at = list; *at; at += strspn(at, ",")) {
        const size_t item = strcspn(at, ",");
        if (item == length && strncmp(at, name, length) == 0)
            return true;
        at += item;
    }
    return false;
}

void kr_proc_cgroups(const char *root, const char *controller, kr_proc_visit *visit, void *arg)
{
    char text[KR_PROC_TEXT], base[128];
    if (!kr_proc_read(root, "/proc/self", "cgroup", text, sizeof text))
        return;
    for (char *line = text, *next; line && *line; line = next) { /* id:controllers:path */
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        char *list = strchr(line, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *list++ = '\0';
        *path++ = '\0';
        if (*list == '\0') { /* version 2; /unified where both versions are mounted */
            visit_up(root, "/sys/fs/cgroup", path, visit, arg);
            visit_up(root, "/sys/fs/cgroup/unified", path, visit, arg);
        } else if (listed(list, controller)) {
            snprintf(base, sizeof base, "/sys/fs/cgroup/%s", controller);
            visit_up(root, base, path, visit, arg);
            /* where no symbolic link leads from the controller to the group of controllers */
            snprintf(base, sizeof base, "/sys/fs/cgroup/%.64s", list);
            visit_up(root, base, path, visit, arg);
        }
    }
}
