/* json.c - a small strict JSON reader.
 *
 * One pass validates and records where each value lies; strings are unescaped
 * and numbers converted only when they are asked for.  No writer: headers are
 * written by the Python tools.
 * SPDX-License-Identifier: MIT */
#include "json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "utf8.h"

enum {
    MAX_DEPTH = 64,
    MAX_VALUES = 1000000,
    MAX_DIGITS = 15, /* 10^15 < 2^53: the digits are exact as a double */
    MAX_POWER = 22,  /* 10^22 is the largest power of ten that is exact as a double */
    SHOWN = 40       /* bytes of a wrong value shown in a message */
};

struct parser {
    struct kr_json *j;
    size_t at, cap;
    krafla_error *err;
};

/* ---- errors -------------------------------------------------------------------------------- */

static krafla_status bad_syntax(const struct parser *p, const char *expected)
{
    const struct kr_json *j = p->j;
    if (p->at >= j->bytes)
        return kr_fail(p->err, KRAFLA_E_FORMAT, "%s: JSON ends at byte %zu, expected %s", j->where,
                       p->at, expected);
    const size_t left = j->bytes - p->at;
    return kr_fail(p->err, KRAFLA_E_FORMAT, "%s: JSON byte %zu: expected %s, found '%.*s'",
                   j->where, p->at, expected, (int)(left < 12 ? left : 12), j->text + p->at);
}

static int shown_bytes(const struct kr_json_value *v)
{
    return v->length < SHOWN ? (int)v->length : SHOWN;
}

/* Say that value v, called what, is not what was expected. */
static krafla_status bad_value(const struct kr_json *j, size_t v, const char *what,
                               const char *expected, krafla_error *err)
{
    const struct kr_json_value *value = &j->values[v];
    const char *quote = value->type == KR_JSON_STRING ? "\"" : "";
    const char *more = value->length > SHOWN ? "..." : "";
    return kr_fail(err, KRAFLA_E_FORMAT, "%s: %s: expected %s, found %s%.*s%s%s", j->where, what,
                   expected, quote, shown_bytes(value), j->text + value->start, more, quote);
}

/* ---- strings ------------------------------------------------------------------------------- */

/* The four hex digits at s[0..n), or -1. */
static int32_t hex4(const char *s, size_t n)
{
    static const char digits[] = "0123456789abcdefABCDEF";
    int32_t code = 0;
    for (size_t i = 0; i < 4; i++) {
        const char *found = i < n && s[i] ? strchr(digits, s[i]) : NULL;
        if (!found)
            return -1;
        const int32_t digit = (int32_t)(found - digits);
        code = code << 4 | (digit < 16 ? digit : digit - 6);
    }
    return code;
}

/* Bytes of the escape sequence at s[0..n) and the code point it means; 0 if it is not valid. */
static size_t unescape(const char *s, size_t n, uint32_t *code)
{
    static const char names[] = "\"\\/bfnrt", means[] = "\"\\/\b\f\n\r\t";
    if (n < 2)
        return 0;
    if (s[1] != 'u') {
        const char *found = s[1] ? strchr(names, s[1]) : NULL;
        if (!found)
            return 0;
        *code = (uint8_t)means[found - names];
        return 2;
    }
    const int32_t high = hex4(s + 2, n - 2);
    if (high < 0 || (high >= 0xdc00 && high <= 0xdfff))
        return 0;
    *code = (uint32_t)high;
    if (high < 0xd800 || high > 0xdbff)
        return 6;
    if (n < 12 || s[6] != '\\' || s[7] != 'u')
        return 0;
    const int32_t low = hex4(s + 8, n - 8);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *code = 0x10000u + ((uint32_t)(high - 0xd800) << 10) + (uint32_t)(low - 0xdc00);
    return 12;
}

/* Bytes of the next character of a string's text s[0..n), n >= 1; 0 if it is not valid there. */
static size_t next_char(const char *s, size_t n, uint32_t *code)
{
    if ((uint8_t)s[0] < 0x20)
        return 0;
    return s[0] == '\\' ? unescape(s, n, code) : kr_utf8_next(s, n, code);
}

struct text {
    const char *s;
    size_t n;
};

/* Order two valid string texts by the code points they mean. */
static int compare_text(const void *va, const void *vb)
{
    struct text a = *(const struct text *)va, b = *(const struct text *)vb;
    while (a.n > 0 && b.n > 0) {
        uint32_t ca = 0, cb = 0;
        const size_t la = next_char(a.s, a.n, &ca), lb = next_char(b.s, b.n, &cb);
        if (ca != cb)
            return ca < cb ? -1 : 1;
        a.s += la, a.n -= la;
        b.s += lb, b.n -= lb;
    }
    return a.n > 0 ? 1 : b.n > 0 ? -1 : 0;
}

/* Does a valid string text mean this ASCII name?  A '*' in the name matches any rest. */
static bool matches(struct text key, const char *name)
{
    for (; *name && *name != '*'; name++) {
        uint32_t code = 0;
        const size_t len = key.n > 0 ? next_char(key.s, key.n, &code) : 0;
        if (len == 0 || code != (uint8_t)*name)
            return false;
        key.s += len, key.n -= len;
    }
    return *name == '*' || key.n == 0;
}

/* ---- parsing ------------------------------------------------------------------------------- */

static krafla_status parse_value(struct parser *p, size_t depth);

static void skip_space(struct parser *p)
{
    while (p->at < p->j->bytes && p->j->text[p->at] && strchr(" \t\n\r", p->j->text[p->at]))
        p->at++;
}

/* The next byte, or 0 at the end (a NUL byte is no JSON either). */
static char peek(const struct parser *p)
{
    return p->at < p->j->bytes ? p->j->text[p->at] : '\0';
}

/* Append a value of this type that starts here; *v is its index. */
static krafla_status add_value(struct parser *p, enum kr_json_type type, size_t *v)
{
    struct kr_json *j = p->j;
    if (j->n_values == p->cap) {
        if (p->cap >= MAX_VALUES)
            return kr_fail(p->err, KRAFLA_E_FORMAT, "%s: JSON has more than %d values", j->where,
                           MAX_VALUES);
        const size_t doubled = p->cap ? p->cap * 2 : 64;
        const size_t cap = doubled < MAX_VALUES ? doubled : MAX_VALUES;
        struct kr_json_value *grown = realloc(j->values, cap * sizeof *grown);
        if (!grown)
            return kr_fail(p->err, KRAFLA_E_MEMORY, "out of memory reading the JSON of %s",
                           j->where);
        j->values = grown;
        p->cap = cap;
    }
    *v = j->n_values++;
    j->values[*v] = (struct kr_json_value){.type = (uint8_t)type, .start = (uint32_t)p->at};
    return KRAFLA_OK;
}

/* Value v is complete: everything since belongs to it. */
static void end_value(struct parser *p, size_t v)
{
    p->j->values[v].length = (uint32_t)p->at - p->j->values[v].start;
    p->j->values[v].next = (uint32_t)p->j->n_values;
}

static krafla_status parse_string(struct parser *p)
{
    if (peek(p) != '"')
        return bad_syntax(p, "a string");
    p->at++;
    size_t v;
    const krafla_status st = add_value(p, KR_JSON_STRING, &v);
    if (st != KRAFLA_OK)
        return st;
    while (peek(p) != '"') {
        uint32_t code;
        const size_t left = p->j->bytes - p->at;
        const size_t len = left ? next_char(p->j->text + p->at, left, &code) : 0;
        if (len == 0)
            return bad_syntax(p, "a string in UTF-8 with valid escapes");
        p->at += len;
    }
    end_value(p, v);
    p->at++;
    return KRAFLA_OK;
}

static size_t skip_digits(struct parser *p)
{
    const size_t from = p->at;
    while (peek(p) >= '0' && peek(p) <= '9')
        p->at++;
    return p->at - from;
}

static krafla_status parse_number(struct parser *p)
{
    size_t v;
    const krafla_status st = add_value(p, KR_JSON_NUMBER, &v);
    if (st != KRAFLA_OK)
        return st;
    if (peek(p) == '-')
        p->at++;
    if (peek(p) == '0')
        p->at++;
    else if (skip_digits(p) == 0)
        return bad_syntax(p, "a JSON value");
    if (peek(p) == '.') {
        p->at++;
        if (skip_digits(p) == 0)
            return bad_syntax(p, "a digit");
    }
    if (peek(p) == 'e' || peek(p) == 'E') {
        p->at++;
        if (peek(p) == '+' || peek(p) == '-')
            p->at++;
        if (skip_digits(p) == 0)
            return bad_syntax(p, "a digit");
    }
    end_value(p, v);
    return KRAFLA_OK;
}

static krafla_status parse_word(struct parser *p, const char *word, enum kr_json_type type)
{
    const size_t n = strlen(word);
    if (p->j->bytes - p->at < n || memcmp(p->j->text + p->at, word, n) != 0)
        return bad_syntax(p, "a JSON value");
    size_t v;
    const krafla_status st = add_value(p, type, &v);
    if (st != KRAFLA_OK)
        return st;
    p->j->values[v].boolean = word[0] == 't';
    p->at += n;
    end_value(p, v);
    return KRAFLA_OK;
}

/* Refuse two equal keys in object v. */
static krafla_status check_keys(struct parser *p, size_t v)
{
    const struct kr_json *j = p->j;
    const size_t count = j->values[v].count;
    if (count < 2)
        return KRAFLA_OK;
    struct text *keys = malloc(count * sizeof *keys);
    if (!keys)
        return kr_fail(p->err, KRAFLA_E_MEMORY, "out of memory reading the JSON of %s", j->where);
    size_t key = v + 1;
    for (size_t i = 0; i < count; i++, key = j->values[key + 1].next)
        keys[i] = (struct text){j->text + j->values[key].start, j->values[key].length};
    qsort(keys, count, sizeof *keys, compare_text);

    krafla_status st = KRAFLA_OK;
    for (size_t i = 1; i < count && st == KRAFLA_OK; i++) {
        if (compare_text(&keys[i - 1], &keys[i]) == 0)
            st = kr_fail(p->err, KRAFLA_E_FORMAT, "%s: JSON key \"%.*s\" occurs twice", j->where,
                         (int)(keys[i].n < SHOWN ? keys[i].n : SHOWN), keys[i].s);
    }
    free(keys);
    return st;
}

/* The members between the brackets of an array or object. */
static krafla_status parse_members(struct parser *p, enum kr_json_type type, size_t depth)
{
    const char close = type == KR_JSON_ARRAY ? ']' : '}';
    if (depth >= MAX_DEPTH)
        return kr_fail(p->err, KRAFLA_E_FORMAT, "%s: JSON byte %zu: nested deeper than %d levels",
                       p->j->where, p->at, MAX_DEPTH);
    size_t v;
    krafla_status st = add_value(p, type, &v);
    p->at++;
    skip_space(p);
    while (st == KRAFLA_OK && peek(p) != close) {
        if (p->j->values[v].count++ > 0) {
            if (peek(p) != ',')
                return bad_syntax(p, close == ']' ? "',' or ']'" : "',' or '}'");
            p->at++;
            skip_space(p);
        }
        if (type == KR_JSON_OBJECT) {
            st = parse_string(p);
            if (st != KRAFLA_OK)
                break;
            skip_space(p);
            if (peek(p) != ':')
                return bad_syntax(p, "':'");
            p->at++;
            skip_space(p);
        }
        st = parse_value(p, depth + 1);
        skip_space(p);
    }
    if (st != KRAFLA_OK)
        return st;
    p->at++;
    end_value(p, v);
    return type == KR_JSON_OBJECT ? check_keys(p, v) : KRAFLA_OK;
}

static krafla_status parse_value(struct parser *p, size_t depth)
{
    switch (peek(p)) {
    case '{':
        return parse_members(p, KR_JSON_OBJECT, depth);
    case '[':
        return parse_members(p, KR_JSON_ARRAY, depth);
    case '"':
        return parse_string(p);
    case 't':
        return parse_word(p, "true", KR_JSON_BOOL);
    case 'f':
        return parse_word(p, "false", KR_JSON_BOOL);
    case 'n':
        return parse_word(p, "null", KR_JSON_NULL);
    default:
        return parse_number(p);
    }
}

krafla_status kr_json_parse(struct kr_json *j, const char *text, size_t bytes, const char *where,
                            krafla_error *err)
{
    *j = (struct kr_json){.text = text, .bytes = bytes, .where = where};
    if (bytes > INT32_MAX)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: %zu bytes of JSON, expected at most %d", where,
                       bytes, INT32_MAX);
    struct parser p = {.j = j, .err = err};
    skip_space(&p);
    krafla_status st = parse_value(&p, 0);
    skip_space(&p);
    if (st == KRAFLA_OK && p.at < bytes)
        st = bad_syntax(&p, "the end of the JSON");
    if (st != KRAFLA_OK)
        kr_json_free(j);
    return st;
}

void kr_json_free(struct kr_json *j)
{
    free(j->values);
    *j = (struct kr_json){0};
}

/* ---- access -------------------------------------------------------------------------------- */

int64_t kr_json_find(const struct kr_json *j, size_t object, const char *key)
{
    if (j->values[object].type != KR_JSON_OBJECT)
        return -1;
    size_t k = object + 1;
    for (size_t i = 0; i < j->values[object].count; i++, k = j->values[k + 1].next) {
        if (matches((struct text){j->text + j->values[k].start, j->values[k].length}, key))
            return (int64_t)k + 1;
    }
    return -1;
}

/* Value of `key`, which must be there, in *v. */
static krafla_status require(const struct kr_json *j, size_t object, const char *key, size_t *v,
                             krafla_error *err)
{
    const int64_t found = kr_json_find(j, object, key);
    *v = 0;
    if (found < 0)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: \"%s\" is missing", j->where, key);
    *v = (size_t)found;
    return KRAFLA_OK;
}

/* The number text[0..n) as an integer; false if it is not one or does not fit. */
static bool to_int(const char *text, size_t n, int64_t *out)
{
    const bool negative = text[0] == '-';
    uint64_t sum = 0;
    for (size_t i = negative; i < n; i++) {
        if (text[i] < '0' || text[i] > '9' || sum > (uint64_t)INT64_MAX / 10)
            return false;
        sum = sum * 10 + (uint64_t)(text[i] - '0');
        if (sum > (uint64_t)INT64_MAX)
            return false;
    }
    *out = negative ? -(int64_t)sum : (int64_t)sum;
    return true;
}

krafla_status kr_json_int_at(const struct kr_json *j, size_t v, const char *what, int64_t min,
                             int64_t max, int64_t *out, krafla_error *err)
{
    const struct kr_json_value *value = &j->values[v];
    int64_t number;
    if (value->type == KR_JSON_NUMBER && to_int(j->text + value->start, value->length, &number) &&
        number >= min && number <= max) {
        *out = number;
        return KRAFLA_OK;
    }
    char expected[80];
    snprintf(expected, sizeof expected, min < max ? "an integer from %lld to %lld" : "%lld",
             (long long)min, (long long)max);
    return bad_value(j, v, what, expected, err);
}

krafla_status kr_json_int(const struct kr_json *j, size_t object, const char *key, int64_t min,
                          int64_t max, int64_t *out, krafla_error *err)
{
    size_t v;
    const krafla_status st = require(j, object, key, &v, err);
    return st == KRAFLA_OK ? kr_json_int_at(j, v, key, min, max, out, err) : st;
}

/* The number text[0..n) as digits * 10^power; false if either is beyond what is exact. */
static bool to_decimal(const char *text, size_t n, double *digits, int *power)
{
    uint64_t sum = 0;
    int significant = 0, zeros = 0, scale = 0; /* zeros: not yet known to be significant */
    size_t i = text[0] == '-';
    bool fraction = false;
    for (; i < n && text[i] != 'e' && text[i] != 'E'; i++) {
        if (text[i] == '.') {
            fraction = true;
            continue;
        }
        scale -= fraction;
        if (text[i] == '0') {
            zeros += sum != 0;
            continue;
        }
        significant += zeros + 1;
        if (significant > MAX_DIGITS)
            return false;
        for (; zeros > 0; zeros--)
            sum *= 10;
        sum = sum * 10 + (uint64_t)(text[i] - '0');
    }
    int exponent = 0;
    if (i < n) {
        i++;
        const bool negative = text[i] == '-';
        for (i += text[i] == '-' || text[i] == '+'; i < n && exponent < 100000; i++)
            exponent = exponent * 10 + (text[i] - '0');
        exponent = negative ? -exponent : exponent;
    }
    *digits = (double)sum;
    *power = sum == 0 ? 0 : exponent + scale + zeros;
    return *power >= -MAX_POWER && *power <= MAX_POWER;
}

static double power_of_ten(int power)
{
    static const double exact[MAX_POWER + 1] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                                1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                                1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    return exact[power];
}

krafla_status kr_json_double(const struct kr_json *j, size_t object, const char *key, double min,
                             double max, double *out, krafla_error *err)
{
    size_t v;
    const krafla_status st = require(j, object, key, &v, err);
    if (st != KRAFLA_OK)
        return st;
    const struct kr_json_value *value = &j->values[v];
    const char *text = j->text + value->start;
    double digits;
    int power;
    if (value->type != KR_JSON_NUMBER)
        return bad_value(j, v, key, "a number", err);
    if (!to_decimal(text, value->length, &digits, &power))
        return bad_value(j, v, key, "a number of at most 15 digits and a power of ten within 22",
                         err);
    /* Both factors are exact, so this rounds once: the nearest double, as strtod gives. */
    const double size = power < 0 ? digits / power_of_ten(-power) : digits * power_of_ten(power);
    const double number = text[0] == '-' ? -size : size;
    if (number >= min && number <= max) {
        *out = number;
        return KRAFLA_OK;
    }
    char expected[80];
    snprintf(expected, sizeof expected, "a number from %g to %g", min, max);
    return bad_value(j, v, key, expected, err);
}

krafla_status kr_json_member(const struct kr_json *j, size_t object, const char *key,
                             enum kr_json_type type, size_t *out, krafla_error *err)
{
    static const char *const names[] = {"null",     "true or false", "a number",
                                        "a string", "an array",      "an object"};
    const krafla_status st = require(j, object, key, out, err);
    if (st != KRAFLA_OK)
        return st;
    return j->values[*out].type == type ? KRAFLA_OK : bad_value(j, *out, key, names[type], err);
}

krafla_status kr_json_bool(const struct kr_json *j, size_t object, const char *key, bool *out,
                           krafla_error *err)
{
    size_t v;
    const krafla_status st = kr_json_member(j, object, key, KR_JSON_BOOL, &v, err);
    if (st == KRAFLA_OK)
        *out = j->values[v].boolean;
    return st;
}

krafla_status kr_json_string_at(const struct kr_json *j, size_t v, const char *what, char *out,
                                size_t cap, krafla_error *err)
{
    const struct kr_json_value *value = &j->values[v];
    if (value->type != KR_JSON_STRING)
        return bad_value(j, v, what, "a string", err);
    struct text in = {j->text + value->start, value->length};
    size_t n = 0;
    while (in.n > 0) {
        uint32_t code = 0;
        uint8_t utf8[4];
        const size_t len = next_char(in.s, in.n, &code);
        const size_t bytes = kr_utf8_put(utf8, code);
        if (code == 0 || bytes >= cap - n) {
            char expected[80];
            snprintf(expected, sizeof expected, "a string of at most %zu bytes without NUL",
                     cap - 1);
            return bad_value(j, v, what, expected, err);
        }
        memcpy(out + n, utf8, bytes);
        n += bytes;
        in.s += len, in.n -= len;
    }
    out[n] = '\0';
    return KRAFLA_OK;
}

krafla_status kr_json_string(const struct kr_json *j, size_t object, const char *key, char *out,
                             size_t cap, krafla_error *err)
{
    size_t v;
    const krafla_status st = require(j, object, key, &v, err);
    return st == KRAFLA_OK ? kr_json_string_at(j, v, key, out, cap, err) : st;
}

static bool listed(struct text key, const char *const *keys)
{
    while (*keys && !matches(key, *keys))
        keys++;
    return *keys != NULL;
}

krafla_status kr_json_only(const struct kr_json *j, size_t object, const char *what,
                           const char *const *keys, krafla_error *err)
{
    if (j->values[object].type != KR_JSON_OBJECT)
        return bad_value(j, object, what, "an object", err);
    size_t k = object + 1;
    for (size_t i = 0; i < j->values[object].count; i++, k = j->values[k + 1].next) {
        const struct kr_json_value *key = &j->values[k];
        if (!listed((struct text){j->text + key->start, key->length}, keys))
            return kr_fail(err, KRAFLA_E_FORMAT, "%s: %s: unknown key \"%.*s\"; get a newer Krafla",
                           j->where, what, shown_bytes(key), j->text + key->start);
    }
    return KRAFLA_OK;
}
