/* test_map.c - file maps and big memory.
 * SPDX-License-Identifier: MIT */
#include "file.h"
#include "map.h"
#include "unit.h"

#include <sys/stat.h>

static const char *path;

static void test_a_map_shows_the_file_also_after_a_release(void)
{
    enum { SIZE = 3 * 65536 + 17 };
    uint8_t *data = malloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8));
    write_file(path, data, SIZE);
    struct kr_map m;
    EXPECT(kr_map_file(&m, path, NULL) == KRAFLA_OK);
    EXPECT(m.size == SIZE && memcmp(m.base, data, SIZE) == 0);
    kr_map_release(&m, 1, SIZE - 1);
    kr_map_release(&m, 5, 10);
    kr_map_release(&m, 0, 0);
    EXPECT(memcmp(m.base, data, SIZE) == 0);
    kr_map_close(&m);
    EXPECT(m.base == NULL && m.size == 0);
    kr_map_close(&m);
    free(data);
}

static void test_a_fifo_is_refused_at_once(void)
{
    unlink(path);
    EXPECT(mkfifo(path, 0600) == 0);
    struct kr_map m;
    EXPECT(kr_map_file(&m, path, NULL) == KRAFLA_E_IO);
    EXPECT(m.base == NULL);
    unlink(path);
}

static void test_big_memory_is_zero_aligned_and_writable(void)
{
    const size_t sizes[] = {0, 1, 4096, (2u << 20) - 1, 2u << 20, (5u << 20) + 3};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *p = kr_big_alloc(sizes[i]);
        EXPECT(p != NULL);
        EXPECT((uintptr_t)p % (2u << 20) == 0);
        for (size_t b = 0; b < sizes[i]; b += 1000)
            EXPECT(p[b] == 0);
        if (sizes[i] > 0)
            memset(p, 0xa5, sizes[i]);
        kr_big_free(p, sizes[i]);
    }
    kr_big_free(NULL, 0);
}

static void test_impossible_sizes_are_refused(void)
{
    EXPECT(kr_big_alloc(SIZE_MAX) == NULL);
    EXPECT(kr_big_alloc(SIZE_MAX - (2u << 20)) == NULL);
    EXPECT(kr_big_alloc(SIZE_MAX - (16u << 20)) == NULL);
}

int main(void)
{
    path = temporary_path("test_map");
    test_a_map_shows_the_file_also_after_a_release();
    test_a_fifo_is_refused_at_once();
    test_big_memory_is_zero_aligned_and_writable();
    test_impossible_sizes_are_refused();
    unlink(path);
    return unit_done("test_map");
}
