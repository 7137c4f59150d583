/* envelope.c - the frame of Krafla's files: magic, version, JSON header, padding, data.
 *
 * Refuses a file that is something else by saying what it is.  The tools read
 * the same frame with the same checks (tools/mlb/envelope.py).
 * SPDX-License-Identifier: MIT */
#include "envelope.h"

#include <stdio.h>
#include <string.h>

#include "ml.h"
#include "sha256.h"

#define AGAIN "download or convert it again"
#define CONVERT "convert the checkpoint with tools/convert.py"
#define DAMAGED "a Krafla file damaged by a transfer as text"

enum {
    MAGIC_BYTES = 8,
    FILE_VERSION = 1,
    FIXED_BYTES = 16, /* magic, version, header bytes */
    HEADER_CAP = 1 << 20,
    ALIGN = 64,
    VERSION_CAP = 18 /* "12345.12345.12345" and NUL */
};

static const struct kind {
    const char *name, *magic, *what;
} kinds[] = {
    {"mlb", "\x89MLB\r\n\x1a\n", "a Krafla model (.mlb)"},
    {"mlt", "\x89MLT\r\n\x1a\n", "a Krafla tokenizer (.mlt)"},
    {"pk", "\x89MLP\r\n\x1a\n", "a Krafla pack cache"},
};

/* What other files begin with, what they are and what to do. */
static const struct sign {
    const char *bytes;
    size_t n;
    const char *what, *remedy;
} signs[] = {
#define SIGN(bytes, what, remedy)                                                                  \
    {                                                                                              \
        bytes, sizeof(bytes) - 1, what, remedy                                                     \
    }
    SIGN("version https://git-lfs", "a Git LFS pointer",
         "run 'git lfs pull' or download the file itself"),
    SIGN("GGUF", "a GGUF file", "convert it with tools/convert.py gguf"),
    SIGN("MLB1", "a file of Krafla's first format",
         "convert the checkpoint again with tools/convert.py"),
    SIGN("PK\x03\x04", "a zip archive or a PyTorch checkpoint", "unpack it, or " CONVERT),
    SIGN("\x1f\x8b", "a gzip file", "unpack it"),
    SIGN("\xfd\x37zXZ", "an xz file", "unpack it"),
    SIGN("\x28\xb5\x2f\xfd", "a zstd file", "unpack it"),
    SIGN("BZh", "a bzip2 file", "unpack it"),
    SIGN("\x80\x02", "a pickled PyTorch checkpoint", CONVERT),
    SIGN("\x80\x03", "a pickled PyTorch checkpoint", CONVERT),
    SIGN("\x80\x04", "a pickled PyTorch checkpoint", CONVERT),
    SIGN("\x80\x05", "a pickled PyTorch checkpoint", CONVERT),
    SIGN("\x89ML", DAMAGED, "transfer it again, as binary"),
    SIGN("\x09ML", DAMAGED, "transfer it again, as binary"),
    SIGN("\xc2\x89ML", DAMAGED, "transfer it again, as binary"),
    SIGN("\xef\xbf\xbdML", DAMAGED, "transfer it again, as binary"),
    SIGN("{", "a JSON file", "name the converted file"),
    SIGN("\0\0\0\0\0\0\0\0", "a file that begins with zeros",
         "the download is not complete: download it again"),
#undef SIGN
};

static uint32_t load_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool begins_with(const uint8_t *base, size_t size, const void *bytes, size_t n)
{
    return size >= n && memcmp(base, bytes, n) == 0;
}

static bool is_markup(const uint8_t *base, size_t size)
{
    size_t i = begins_with(base, size, "\xef\xbb\xbf", 3) ? 3 : 0;
    while (i < size && i < HEADER_CAP && base[i] && strchr(" \t\r\n", base[i]))
        i++;
    return i < size && base[i] == '<';
}

/* Fail with what the file is instead, and what to do. */
static krafla_status fail_foreign(const uint8_t *base, size_t size, const char *path,
                                  krafla_error *err)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (begins_with(base, size, kinds[i].magic, MAGIC_BYTES))
            return kr_fail(
                err, KRAFLA_E_FORMAT,
                "%s: is %s, not what is expected here; check the order of the file names", path,
                kinds[i].what);
    }
    if (is_markup(base, size))
        return kr_fail(
            err, KRAFLA_E_FORMAT,
            "%s: is an HTML or XML page; download the file itself, not the page about it", path);
    if (size > 8 && load_u32(base + 4) == 0 && base[8] == '{')
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: is a safetensors checkpoint; " CONVERT, path);
    for (size_t i = 0; i < sizeof signs / sizeof *signs; i++) {
        if (begins_with(base, size, signs[i].bytes, signs[i].n))
            return kr_fail(err, KRAFLA_E_FORMAT, "%s: is %s; %s", path, signs[i].what,
                           signs[i].remedy);
    }
    char hex[3 * MAGIC_BYTES + 1] = "";
    for (size_t i = 0; i < MAGIC_BYTES && i < size; i++)
        snprintf(hex + 3 * i, 4, " %02x", base[i]);
    return kr_fail(err, KRAFLA_E_FORMAT,
                   "%s: is no Krafla file: begins with%s; check the file name", path, hex);
}

/* "X.Y.Z", up to 5 digits each, as one number that orders like the version; 0 if it is none. */
static uint64_t version_number(const char *text)
{
    uint64_t number = 0;
    for (int part = 0; part < 3; part++) {
        uint32_t value = 0;
        int digits = 0;
        for (; *text >= '0' && *text <= '9' && digits < 5; text++, digits++)
            value = value * 10 + (uint32_t)(*text - '0');
        if (digits == 0 || *text++ != (part < 2 ? '.' : '\0'))
            return 0;
        number = number << 20 | value;
    }
    return number | (uint64_t)1 << 60;
}

/* A file made for a later Krafla is refused before anything in it can look wrong.  The first
 * 16 bytes and "min_version" keep their meaning in every version. */
static krafla_status check_version(const struct kr_json *j, uint32_t version, krafla_error *err)
{
    char needs[VERSION_CAP];
    krafla_status st = kr_json_string(j, 0, "min_version", needs, sizeof needs, err);
    const uint64_t number = st == KRAFLA_OK ? version_number(needs) : 0;
    if (number > version_number(ML_VERSION) || (number && version > FILE_VERSION))
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: needs Krafla %s or later, this is " ML_VERSION "; get a newer release",
                       j->where, needs);
    if (version > FILE_VERSION)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: file version %u, this Krafla reads %d; get a newer release", j->where,
                       (unsigned)version, FILE_VERSION);
    if (st == KRAFLA_OK && number == 0)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: min_version: expected \"X.Y.Z\", found \"%s\"; " AGAIN, j->where,
                       needs);
    return st;
}

static krafla_status check_common(const struct kr_json *j, const char *kind, char digest[65],
                                  krafla_error *err)
{
    char format[8];
    krafla_status st = kr_json_string(j, 0, "format", format, sizeof format, err);
    if (st == KRAFLA_OK && strcmp(format, kind) != 0)
        st = kr_fail(err, KRAFLA_E_FORMAT, "%s: format: expected \"%s\", found \"%s\"; " AGAIN,
                     j->where, kind, format);
    if (st == KRAFLA_OK)
        st = kr_json_string(j, 0, "data_sha256", digest, 65, err);
    if (st == KRAFLA_OK && strspn(digest, "0123456789abcdef") != 64)
        st = kr_fail(err, KRAFLA_E_FORMAT,
                     "%s: data_sha256: expected 64 hex digits, found \"%s\"; " AGAIN, j->where,
                     digest);
    return st;
}

/* Compare what the header promises with what there is. */
static krafla_status check_sizes(const struct kr_json *j, size_t offset, size_t size,
                                 krafla_error *err)
{
    int64_t data = 0, file = 0;
    krafla_status st = kr_json_int(j, 0, "data_bytes", 0, INT64_MAX, &data, err);
    if (st == KRAFLA_OK)
        st = kr_json_int(j, 0, "file_bytes", 0, INT64_MAX, &file, err);
    if (st != KRAFLA_OK)
        return st;
    if (file < (int64_t)offset || file - (int64_t)offset != data)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: file_bytes is %lld, expected %zu plus data_bytes %lld; " AGAIN,
                       j->where, (long long)file, offset, (long long)data);
    if (size < (uint64_t)file)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: truncated: %zu of %lld bytes; download it again",
                       j->where, size, (long long)file);
    if (size > (uint64_t)file)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: %zu bytes after the end of the data; " AGAIN,
                       j->where, (size_t)(size - (uint64_t)file));
    return KRAFLA_OK;
}

/* The header's JSON, and everything in it that is common to all kinds. */
static krafla_status parse_header(struct kr_envelope *e, const uint8_t *base, size_t size,
                                  const char *path, const char *kind, krafla_error *err)
{
    struct kr_json *j = &e->json;
    const uint32_t version = load_u32(base + MAGIC_BYTES), bytes = load_u32(base + 12);
    const size_t end = FIXED_BYTES + (size_t)bytes;
    const size_t offset = kr_round_up(end, ALIGN);

    krafla_status st = kr_json_parse(j, (const char *)base + FIXED_BYTES, bytes, path, err);
    if (st == KRAFLA_OK && j->values[0].type != KR_JSON_OBJECT)
        st = kr_fail(err, KRAFLA_E_FORMAT, "%s: header is not a JSON object; " AGAIN, path);
    if (st == KRAFLA_E_FORMAT && version > FILE_VERSION)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: file version %u, this Krafla reads %d; get a newer release", path,
                       (unsigned)version, FILE_VERSION);
    if (st == KRAFLA_OK)
        st = check_version(j, version, err);
    if (st == KRAFLA_OK)
        st = check_common(j, kind, e->data_sha256, err);
    if (st == KRAFLA_OK)
        st = check_sizes(j, offset, size, err);
    for (size_t i = end; i < offset && st == KRAFLA_OK; i++) {
        if (base[i])
            st = kr_fail(err, KRAFLA_E_FORMAT,
                         "%s: bytes between header and data are not zero; " AGAIN, path);
    }
    return kr_fail_hint(err, st, AGAIN);
}

krafla_status kr_envelope_parse(struct kr_envelope *e, const void *memory, size_t size,
                                const char *path, const char *kind, krafla_error *err)
{
    *e = (struct kr_envelope){0};
    const uint8_t *base = memory;
    const struct kind *k = kinds;
    while (strcmp(k->name, kind) != 0)
        k++;
    const size_t seen = size < MAGIC_BYTES ? size : MAGIC_BYTES;
    if (seen == 0 || memcmp(base, k->magic, seen) != 0)
        return fail_foreign(base, size, path, err);
    if (size < FIXED_BYTES)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: only %zu bytes of %s; download it again", path,
                       size, k->what);
    const uint32_t version = load_u32(base + MAGIC_BYTES), bytes = load_u32(base + 12);
    if (bytes < 2 || bytes > HEADER_CAP)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: header of %u bytes, expected 2 to %d; " AGAIN,
                       path, (unsigned)bytes, HEADER_CAP);
    const size_t offset = kr_round_up(FIXED_BYTES + (size_t)bytes, ALIGN);
    if (size < offset)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: truncated: %zu bytes, the header alone needs %zu; download it again",
                       path, size, offset);
    if (version < FILE_VERSION)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: file version %u, expected %d; " AGAIN, path,
                       (unsigned)version, FILE_VERSION);

    const krafla_status st = parse_header(e, base, size, path, kind, err);
    if (st != KRAFLA_OK) {
        kr_json_free(&e->json);
        return st;
    }
    e->data = base + offset;
    e->data_bytes = size - offset;
    return KRAFLA_OK;
}

krafla_status kr_envelope_open(struct kr_envelope *e, const char *path, const char *kind,
                               krafla_error *err)
{
    *e = (struct kr_envelope){0};
    struct kr_map map;
    krafla_status st = kr_map_file(&map, path, err);
    if (st != KRAFLA_OK)
        return st;
    st = kr_envelope_parse(e, map.base, map.size, path, kind, err);
    if (st != KRAFLA_OK)
        kr_map_close(&map);
    else
        e->map = map;
    return st;
}

void kr_envelope_close(struct kr_envelope *e)
{
    kr_json_free(&e->json);
    kr_map_close(&e->map);
    *e = (struct kr_envelope){0};
}

krafla_status kr_envelope_verify(const struct kr_envelope *e, const char *path,
                                 struct kr_progress *progress, krafla_error *err)
{
    char found[65];
    kr_sha256_of(e->data, e->data_bytes, progress, found);
    if (strcmp(e->data_sha256, found) != 0)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: damaged: the data's SHA-256 is %s, the header says %s; " AGAIN, path,
                       found, e->data_sha256);
    return KRAFLA_OK;
}
