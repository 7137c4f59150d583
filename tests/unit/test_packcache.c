/* test_packcache.c - the pack cache is used when it fits, and only then.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

#include "krafla.h"
#include "model.h"
#include "tiny_model.h"

static char path[512], cache[512];
static struct tiny_file file;
static const int32_t tokens[] = {1, 5, 9, 70, 3, 3, 20};

static void write_model(uint32_t seed)
{
    tiny_build(&file, seed);
    EXPECT(tiny_write(&file, path));
}

/* Open with this packing, run the tokens; true if the weights came from the cache. */
static bool run(int32_t pack, float *logits)
{
    krafla_model_options o;
    krafla_model_defaults(&o);
    o.pack = pack;
    krafla_model *m = NULL;
    krafla_session *s = NULL;
    krafla_error err = {0};
    EXPECT(krafla_model_open(&m, path, &o, &err) == KRAFLA_OK);
    EXPECT_STR("", err.message);
    EXPECT(krafla_session_create(&s, m, NULL, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_sync(s, tokens, sizeof tokens / sizeof *tokens, NULL) == KRAFLA_OK);
    memcpy(logits, krafla_session_logits(s), TINY_VOCAB * sizeof *logits);
    const bool cached = m->cache.data != NULL;
    krafla_session_free(s);
    krafla_model_close(m);
    return cached;
}

/* What one start told about its progress. */
struct told {
    uint64_t done, total;
    size_t calls, wrong;
    pthread_t thread;
};

static void on_progress(void *arg, uint64_t done, uint64_t total)
{
    struct told *t = arg;
    t->wrong += done <= t->done || done > total || (t->total && total != t->total) ||
                !pthread_equal(t->thread, pthread_self());
    t->done = done;
    t->total = total;
    t->calls++;
}

static uint64_t told_total(int32_t pack)
{
    struct told t = {.thread = pthread_self()};
    krafla_model_options o;
    krafla_model_defaults(&o);
    o.pack = pack;
    o.n_threads = 3;
    o.progress = on_progress;
    o.progress_arg = &t;
    krafla_model *m = NULL;
    EXPECT(krafla_model_open(&m, path, &o, NULL) == KRAFLA_OK);
    EXPECT(t.calls > 0 && t.wrong == 0);
    EXPECT(t.done == t.total);
    krafla_model_close(m);
    return t.total;
}

static void progress_counts_every_byte_that_is_read_and_written(void)
{
    write_model(7);
    const uint64_t file_bytes = told_total(KRAFLA_PACK_NONE);
    EXPECT(file_bytes > 0 && told_total(KRAFLA_PACK_MEMORY) == file_bytes);
    const uint64_t created = told_total(KRAFLA_PACK_CACHE);
    const uint64_t mapped = told_total(KRAFLA_PACK_CACHE);
    EXPECT(mapped >= file_bytes);
    EXPECT(created >= 2 * file_bytes + 2 * mapped); /* hashed and packed, hashed and written */
}

/* A signal that waits stops the writing (packcache_posix.c), but not the start. */
static void progress_ends_with_all_even_if_the_cache_cannot_be_written(void)
{
    unlink(cache);
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    raise(SIGTERM);
    told_total(KRAFLA_PACK_CACHE);
    int number;
    EXPECT(sigwait(&term, &number) == 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    EXPECT(access(cache, F_OK) != 0);
}

static float packed[TINY_VOCAB], got[TINY_VOCAB];

static void expect_same(void)
{
    EXPECT(memcmp(packed, got, sizeof got) == 0);
}

static void the_second_start_maps_the_cache(void)
{
    write_model(1);
    EXPECT(!run(KRAFLA_PACK_MEMORY, packed));
    EXPECT(access(cache, F_OK) != 0);
    EXPECT(!run(KRAFLA_PACK_NONE, got));
    expect_same();
    EXPECT(!run(KRAFLA_PACK_CACHE, got)); /* writes it */
    expect_same();
    EXPECT(access(cache, F_OK) == 0);
    EXPECT(run(KRAFLA_PACK_CACHE, got));
    expect_same();
}

static void another_model_of_the_same_shape_makes_it_stale(void)
{
    write_model(2);
    EXPECT(!run(KRAFLA_PACK_MEMORY, packed));
    EXPECT(!run(KRAFLA_PACK_CACHE, got));
    expect_same();
    EXPECT(run(KRAFLA_PACK_CACHE, got));
    expect_same();
}

/* Replace the byte `at` bytes after `key` in the cache's header, or cut the file there. */
static void damage(const char *key, size_t at, int byte)
{
    FILE *f = fopen(cache, "r+b");
    EXPECT(f != NULL);
    static char head[2048];
    EXPECT(fread(head, 1, sizeof head - 1, f) == sizeof head - 1);
    size_t pos = 0;
    while (strncmp(head + pos, key, strlen(key)) != 0 && pos < sizeof head - 64)
        pos++;
    EXPECT(pos < sizeof head - 64);
    pos += strlen(key) + at;
    fseek(f, (long)pos, SEEK_SET);
    if (byte >= 0)
        fputc(byte, f);
    fclose(f);
    if (byte < 0)
        EXPECT(truncate(cache, (off_t)pos) == 0);
}

static void a_damaged_cache_is_rewritten(void)
{
    static const struct {
        const char *key;
        size_t at;
        int byte;
    } cases[] = {
        {"\"layout_q4\":\"", 1, '9'},    {"\"layout_q8\":\"", 0, 'x'},
        {"\"model_sha256\":\"", 5, 'z'}, {"\"model_bytes\":", 0, '7'},
        {"\"pack_version\":", 0, '9'},   {"\"data_bytes\":", 0, '9'},
        {"\"format\":\"", 0, 'm'},       {"\"pack_version\":", 1, -1},
        {"\"layout_q4\"", 0, -1},        {"ML", 0, 'B'},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        damage(cases[i].key, cases[i].at, cases[i].byte);
        EXPECT(!run(KRAFLA_PACK_CACHE, got));
        expect_same();
        EXPECT(run(KRAFLA_PACK_CACHE, got));
        expect_same();
    }
    FILE *f = fopen(cache, "wb"); /* empty */
    fclose(f);
    EXPECT(!run(KRAFLA_PACK_CACHE, got));
    EXPECT(run(KRAFLA_PACK_CACHE, got));
    expect_same();
}

/* A directory in its place: as a user without the right to write sees it, even for root. */
static void a_place_that_cannot_be_written_is_no_error(void)
{
    remove(cache);
    EXPECT(mkdir(cache, 0755) == 0);
    EXPECT(!run(KRAFLA_PACK_CACHE, got));
    expect_same();
    EXPECT(rmdir(cache) == 0);
}

/* Of a program in another container, with the same process id. */
static void another_writers_file_is_left_alone(void)
{
    char other[600];
    snprintf(other, sizeof other, "%s.%ld.tmp", cache, (long)getpid());
    FILE *f = fopen(other, "wb");
    EXPECT(f && fputs("half", f) >= 0 && fclose(f) == 0);
    EXPECT(kr_packcache_write(cache, "head", 4, "data", 4, NULL));
    struct stat st;
    EXPECT(stat(other, &st) == 0 && st.st_size == 4);
    EXPECT(stat(cache, &st) == 0 && st.st_size == 8);
    remove(other);
}

/* The header stays: the repaired file would be taken for the one that the cache was made from. */
static void a_damaged_model_leaves_no_cache(void)
{
    write_model(1);
    remove(cache);
    FILE *f = fopen(path, "r+b");
    EXPECT(f && fseek(f, -1, SEEK_END) == 0);
    const int last = fgetc(f);
    EXPECT(fseek(f, -1, SEEK_END) == 0 && fputc(last ^ 1, f) != EOF && fclose(f) == 0);
    krafla_model *m;
    krafla_error err;
    const krafla_model_options o = {.struct_size = sizeof o, .pack = KRAFLA_PACK_CACHE};
    EXPECT(krafla_model_open(&m, path, &o, &err) == KRAFLA_E_FORMAT);
    EXPECT(strstr(err.message, "damaged: the data's SHA-256 is") != NULL);
    struct stat st;
    EXPECT(stat(cache, &st) != 0);
}

/* A signal that is waiting to end the program stops the writing, and nothing is left behind. */
static void a_signal_leaves_no_half_file(void)
{
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    sigprocmask(SIG_BLOCK, &term, &before);
    raise(SIGTERM);
    EXPECT(!kr_packcache_write(cache, "head", 4, "data", 4, NULL));
    int number;
    EXPECT(sigwait(&term, &number) == 0);
    sigprocmask(SIG_SETMASK, &before, NULL);
    glob_t left;
    char pattern[600];
    snprintf(pattern, sizeof pattern, "%s*", cache);
    EXPECT(glob(pattern, 0, NULL, &left) == GLOB_NOMATCH);
}

int main(void)
{
    tiny_path(path, sizeof path, "packcache.mlb");
    tiny_path(cache, sizeof cache, "packcache.pk16");
    progress_counts_every_byte_that_is_read_and_written();
    progress_ends_with_all_even_if_the_cache_cannot_be_written();
    the_second_start_maps_the_cache();
    another_model_of_the_same_shape_makes_it_stale();
    a_damaged_cache_is_rewritten();
    a_place_that_cannot_be_written_is_no_error();
    another_writers_file_is_left_alone();
    a_damaged_model_leaves_no_cache();
    a_signal_leaves_no_half_file();
    remove(path);
    remove(cache);
    return unit_done("test_packcache");
}
