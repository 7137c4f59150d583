/* json.h - a small strict JSON reader over a buffer it does not own.
 *
 * RFC 8259, UTF-8 only, no duplicate keys, no trailing bytes; at most 64 levels
 * and 1 million values.  Values are indices into one array in document order;
 * 0 is the root.  Numbers are kept as their text.
 * SPDX-License-Identifier: MIT */
#ifndef KR_JSON_H
#define KR_JSON_H

#include "error.h"

enum kr_json_type {
    KR_JSON_NULL,
    KR_JSON_BOOL,
    KR_JSON_NUMBER,
    KR_JSON_STRING,
    KR_JSON_ARRAY,
    KR_JSON_OBJECT
};

struct kr_json_value {
    uint8_t type;
    uint8_t boolean;
    uint32_t start, length; /* text of the value in the document; a string without its quotes */
    uint32_t count;         /* members of an array, pairs of an object */
    uint32_t next;          /* index just past this value and all it contains */
};

struct kr_json {
    const char *text;
    size_t bytes;
    struct kr_json_value *values; /* an object's pairs are key, value, key, value ... */
    size_t n_values;
    const char *where; /* file name for error messages, borrowed */
};

/* where (a file name) is borrowed for error messages. */
krafla_status kr_json_parse(struct kr_json *j, const char *text, size_t bytes, const char *where,
                            krafla_error *err);
void kr_json_free(struct kr_json *j);

/* Value of `key` in object `object`, or -1. */
int64_t kr_json_find(const struct kr_json *j, size_t object, const char *key);

/* Typed access with complete error messages: the key's name, expected, found.  Numbers and
 * booleans are not touched on failure. */
krafla_status kr_json_int(const struct kr_json *j, size_t object, const char *key, int64_t min,
                          int64_t max, int64_t *out, krafla_error *err);
/* A number of at most 15 significant digits and a power of ten in -22..22: exact decimal
 * to double without the C locale; anything else is refused. */
krafla_status kr_json_double(const struct kr_json *j, size_t object, const char *key, double min,
                             double max, double *out, krafla_error *err);
krafla_status kr_json_bool(const struct kr_json *j, size_t object, const char *key, bool *out,
                           krafla_error *err);
/* Unescaped copy into out[cap], NUL-terminated; one that does not fit or holds NUL is refused. */
krafla_status kr_json_string(const struct kr_json *j, size_t object, const char *key, char *out,
                             size_t cap, krafla_error *err);
/* The array or object itself. */
krafla_status kr_json_member(const struct kr_json *j, size_t object, const char *key,
                             enum kr_json_type type, size_t *out, krafla_error *err);
/* Every key of `object` is one of keys, a NULL-terminated list in which "x_*" stands for every
 * key that begins with x_.  what names the object in the message about another key. */
krafla_status kr_json_only(const struct kr_json *j, size_t object, const char *what,
                           const char *const *keys, krafla_error *err);

/* The integer / unescaped string that value v is, without a key: `what` names it in errors. */
krafla_status kr_json_int_at(const struct kr_json *j, size_t v, const char *what, int64_t min,
                             int64_t max, int64_t *out, krafla_error *err);
krafla_status kr_json_string_at(const struct kr_json *j, size_t v, const char *what, char *out,
                                size_t cap, krafla_error *err);

#endif
