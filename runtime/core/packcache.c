/* packcache.c - packed weights saved beside the model: MODEL.pk<rows per panel>.
 *
 * A cache counts only if it was made from exactly this file (its SHA-256 and
 * length) for exactly these layouts; anything else is written anew.  Its own
 * data is not hashed at each start: the same directory holds the model.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "ml.h"
#include "model.h"
#include "sha256.h"

enum {
    PACK_VERSION = 1, /* counts changes of what the layout names do not tell */
    PATH_CAP = 4096,
    HEAD_CAP = 1024,
    FRAME = 16, /* magic, version, header length */
    ALIGN = 64,
    PAGE = 4096,     /* no system has smaller ones */
    PART = 32 << 20, /* bytes read between two reports */
};

static bool cache_path(char *out, size_t cap, const char *path)
{
    const char *suffix = ".mlb";
    size_t length = strlen(path);
    if (length > strlen(suffix) && strcmp(path + length - strlen(suffix), suffix) == 0)
        length -= strlen(suffix);
    const int n =
        snprintf(out, cap, "%.*s.pk%d", (int)length, path, (int)kern_layout[KERN_Q4].rows);
    return n > 0 && (size_t)n < cap;
}

static bool string_is(const struct kr_json *j, const char *key, const char *expected)
{
    char text[KR_NAME_CAP];
    return kr_json_string(j, 0, key, text, sizeof text, NULL) == KRAFLA_OK &&
           strcmp(text, expected) == 0;
}

static bool int_is(const struct kr_json *j, const char *key, int64_t expected)
{
    int64_t value;
    return kr_json_int(j, 0, key, expected, expected, &value, NULL) == KRAFLA_OK;
}

/* Made from this model, for this build? */
static bool fits(const struct kr_envelope *e, const struct krafla_model *m)
{
    const struct kr_json *j = &e->json;
    return e->data_bytes == kr_model_packed_bytes(m) && int_is(j, "pack_version", PACK_VERSION) &&
           string_is(j, "layout_q4", kern_layout[KERN_Q4].name) &&
           string_is(j, "layout_q8", kern_layout[KERN_Q8].name) &&
           string_is(j, "model_sha256", m->file.file.data_sha256) &&
           int_is(j, "model_bytes", (int64_t)m->file.file.map.size);
}

/* Read all of the weights, in the order of the disk, which is not that of the threads. */
static void populate(const struct kr_envelope *e, struct kr_progress *progress)
{
    for (size_t at = 0, n; at < e->data_bytes; at += n) {
        n = e->data_bytes - at < PART ? e->data_bytes - at : PART;
        for (size_t i = 0; i < n; i += PAGE)
            (void)*(const volatile uint8_t *)(e->data + at + i);
        kr_progress_add(progress, n);
    }
}

bool kr_packcache_load(struct krafla_model *m, const char *path, struct kr_progress *progress)
{
    char name[PATH_CAP];
    if (!cache_path(name, sizeof name, path) ||
        kr_envelope_open(&m->cache, name, "pk", NULL) != KRAFLA_OK)
        return false;
    if (!fits(&m->cache, m)) {
        kr_envelope_close(&m->cache);
        return false;
    }
    kr_json_free(&m->cache.json); /* it borrows name */
    populate(&m->cache, progress);
    kr_model_use_packed(m, m->cache.data);
    return true;
}

static void put_u32(uint8_t *p, size_t v)
{
    for (size_t i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

/* Frame, JSON and padding for a file of file_bytes into head; returns their length. */
static size_t make_head(uint8_t *head, const struct krafla_model *m, const char *sha256,
                        size_t file_bytes)
{
    static const uint8_t magic[8] = {0x89, 'M', 'L', 'P', '\r', '\n', 0x1a, '\n'};
    memset(head, 0, HEAD_CAP);
    const int json = snprintf(
        (char *)head + FRAME, HEAD_CAP - FRAME,
        "{\"data_bytes\":%zu,\"data_sha256\":\"%s\",\"file_bytes\":%zu,\"format\":\"pk\","
        "\"layout_q4\":\"%s\",\"layout_q8\":\"%s\",\"min_version\":\"%s\",\"model_bytes\":%zu,"
        "\"model_sha256\":\"%s\",\"pack_version\":%d}",
        m->weights_bytes, sha256, file_bytes, kern_layout[KERN_Q4].name, kern_layout[KERN_Q8].name,
        ML_VERSION, m->file.file.map.size, m->file.file.data_sha256, PACK_VERSION);
    memcpy(head, magic, sizeof magic);
    put_u32(head + 8, 1);
    put_u32(head + 12, (size_t)json);
    return kr_round_up(FRAME + (size_t)json, ALIGN);
}

void kr_packcache_save(const struct krafla_model *m, const char *path, struct kr_progress *progress)
{
    char name[PATH_CAP], sha256[65];
    if (!cache_path(name, sizeof name, path))
        return;
    kr_sha256_of(m->weights, m->weights_bytes, progress, sha256);

    /* The header holds the file's length, and its own length depends on that number's digits. */
    uint8_t head[HEAD_CAP];
    size_t head_bytes = 0, before;
    do {
        before = head_bytes;
        head_bytes = make_head(head, m, sha256, before + m->weights_bytes);
    } while (head_bytes != before);
    kr_packcache_write(name, head, head_bytes, m->weights, m->weights_bytes, progress);
}
