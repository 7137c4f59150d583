/* normalize.c - NFC: find what is not normalized, and only there decompose, sort and compose.
 *
 * A stretch is what lies between two boundaries (kind 0 of normalize_tables.h);
 * its characters are kept as code point | combining class << 24.  A byte that is
 * not valid UTF-8 is kept as code point INVALID + byte, of class 0.
 * SPDX-License-Identifier: MIT */
#include "normalize.h"

#include <stdlib.h>
#include <string.h>

#include "normalize_tables.h"
#include "utf8.h"

enum {
    INVALID = 0x110000,
    CODE_MASK = 0x1fffff,
    CCC_SHIFT = 24,
    FEW_MARKS = 32,     /* up to here insertion is faster than counting */
    MAX_DECOMPOSED = 4, /* characters that one becomes, at most */
    FIRST_MARK = 0xcc,  /* lead byte of U+0300: all below is of kind 0 */
    FIRST_PAIR = 0xc0,  /* the lowest code point that decomposes */
    /* Hangul syllables: l, v and t are the first of each kind of jamo. */
    HANGUL = 0xac00,
    HANGUL_L = 0x1100,
    HANGUL_V = 0x1161,
    HANGUL_T = 0x11a7, /* one before the first: a syllable may have none */
    N_L = 19,
    N_V = 21,
    N_T = 28,
};

static unsigned kind_of(uint32_t code)
{
    return code < INVALID ? kr_nfc_pages[kr_nfc_index[code >> 8]][code & 0xff] : 0;
}

/* Length and code point of the character at s[0..n), n >= 1. */
static size_t next_code(const uint8_t *s, size_t n, uint32_t *code)
{
    const size_t length = kr_utf8_next((const char *)s, n, code);
    if (length)
        return length;
    *code = INVALID + s[0];
    return 1;
}

/* Position of the first character from `at` on that is not as in normalized text, n if there is
 * none; *boundary: start of the last character before it that is a boundary, if there is one. */
static size_t normalized_until(const uint8_t *s, size_t n, size_t at, size_t *boundary)
{
    unsigned ccc = 0;
    for (size_t length; at < n; at += length) {
        length = 1;
        if (s[at] < FIRST_MARK) {
            if ((s[at] & 0xc0) != 0x80)
                *boundary = at;
            ccc = 0;
            continue;
        }
        uint32_t code;
        length = next_code(s + at, n - at, &code);
        const unsigned index = kind_of(code);
        if (index == 0) {
            *boundary = at;
            ccc = 0;
            continue;
        }
        const struct kr_nfc_kind kind = kr_nfc_kinds[index];
        if (kind.flags || (kind.ccc && kind.ccc < ccc))
            return at;
        ccc = kind.ccc;
    }
    return n;
}

/* ---- decompose ---- */

static bool push(struct kr_nfc *b, uint32_t code)
{
    if (b->n_codes == b->codes_cap) {
        const size_t cap = b->codes_cap ? 2 * b->codes_cap : 64;
        uint32_t *codes = realloc(b->codes, cap * sizeof *codes);
        if (codes)
            b->codes = codes;
        uint32_t *sorted = codes ? realloc(b->sorted, cap * sizeof *sorted) : NULL;
        if (!sorted)
            return false;
        b->sorted = sorted;
        b->codes_cap = cap;
    }
    b->codes[b->n_codes++] = code | (uint32_t)kr_nfc_kinds[kind_of(code)].ccc << CCC_SHIFT;
    return true;
}

static const struct kr_nfc_pair *pair_of(uint32_t code)
{
    size_t lo = 0, hi = kr_nfc_n_pairs;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (kr_nfc_pairs[mid].code < code)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < kr_nfc_n_pairs && kr_nfc_pairs[lo].code == code ? &kr_nfc_pairs[lo] : NULL;
}

static bool push_decomposed(struct kr_nfc *b, uint32_t code)
{
    uint32_t seconds[MAX_DECOMPOSED];
    size_t n = 0;
    if (code >= HANGUL && code < HANGUL + N_L * N_V * N_T) {
        const uint32_t syllable = code - HANGUL;
        if (syllable % N_T)
            seconds[n++] = HANGUL_T + syllable % N_T;
        seconds[n++] = HANGUL_V + syllable / N_T % N_V;
        code = HANGUL_L + syllable / (N_T * N_V);
    }
    const struct kr_nfc_pair *pair;
    while (code >= FIRST_PAIR && (pair = pair_of(code))) { /* only the first goes on decomposing */
        if (pair->second)
            seconds[n++] = pair->second;
        code = pair->first;
    }
    bool ok = push(b, code);
    while (n)
        ok = push(b, seconds[--n]) && ok;
    return ok;
}

/* ---- sort ---- */

static void sort_few(uint32_t *codes, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const uint32_t code = codes[i];
        size_t at = i;
        for (; at > 0 && codes[at - 1] >> CCC_SHIFT > code >> CCC_SHIFT; at--)
            codes[at] = codes[at - 1];
        codes[at] = code;
    }
}

static void sort_many(uint32_t *codes, uint32_t *sorted, size_t n)
{
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++)
        start[(codes[i] >> CCC_SHIFT) + 1]++;
    for (size_t i = 1; i < 257; i++)
        start[i] += start[i - 1];
    for (size_t i = 0; i < n; i++)
        sorted[start[codes[i] >> CCC_SHIFT]++] = codes[i];
    memcpy(codes, sorted, n * sizeof *codes);
}

/* Bring every run of marks into the order of their classes; equal ones stay in theirs. */
static void sort_marks(struct kr_nfc *b)
{
    for (size_t at = 0; at < b->n_codes; at++) {
        const size_t start = at;
        while (at < b->n_codes && b->codes[at] >> CCC_SHIFT)
            at++;
        if (at - start > FEW_MARKS)
            sort_many(b->codes + start, b->sorted, at - start);
        else
            sort_few(b->codes + start, at - start);
    }
}

/* ---- compose ---- */

/* What first and second make together, 0 if nothing. */
static uint32_t composed(uint32_t first, uint32_t second)
{
    if (first >= HANGUL_L && first < HANGUL_L + N_L && second >= HANGUL_V &&
        second < HANGUL_V + N_V)
        return HANGUL + ((first - HANGUL_L) * N_V + second - HANGUL_V) * N_T;
    if (first >= HANGUL && first < HANGUL + N_L * N_V * N_T && (first - HANGUL) % N_T == 0 &&
        second > HANGUL_T && second < HANGUL_T + N_T)
        return first + second - HANGUL_T;
    if (!(kr_nfc_kinds[kind_of(second)].flags & KR_NFC_SECOND))
        return 0;
    const uint64_t wanted = (uint64_t)first << 32 | second;
    size_t lo = 0, hi = kr_nfc_n_composed;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        const struct kr_nfc_pair *p = &kr_nfc_pairs[kr_nfc_composed[mid]];
        const uint64_t found = (uint64_t)p->first << 32 | p->second;
        if (found == wanted)
            return p->code;
        if (found < wanted)
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}

/* Each character joins the last one of class 0 unless one between them has class 0 too, or a class
 * that is not below its own. */
static void compose(struct kr_nfc *b)
{
    uint32_t *codes = b->codes;
    size_t out = 0, first = SIZE_MAX; /* the last of class 0 among codes[0..out) */
    for (size_t i = 0; i < b->n_codes; i++) {
        const uint32_t code = codes[i] & CODE_MASK, ccc = codes[i] >> CCC_SHIFT;
        if (first != SIZE_MAX && (out == first + 1 || codes[out - 1] >> CCC_SHIFT < ccc)) {
            const uint32_t joined = composed(codes[first], code);
            if (joined) {
                codes[first] = joined;
                continue;
            }
        }
        if (ccc == 0)
            first = out;
        codes[out++] = codes[i];
    }
    b->n_codes = out;
}

/* ---- write ---- */

static bool reserve(struct kr_nfc *b, size_t more)
{
    if (more <= b->text_cap - b->bytes)
        return true;
    const size_t cap = b->bytes + more + (b->bytes + more) / 2;
    uint8_t *text = realloc(b->text, cap);
    if (!text)
        return false;
    b->text = text;
    b->text_cap = cap;
    return true;
}

static bool append(struct kr_nfc *b, const uint8_t *s, size_t n)
{
    if (n == 0)
        return true;
    if (!reserve(b, n))
        return false;
    memcpy(b->text + b->bytes, s, n);
    b->bytes += n;
    return true;
}

static bool append_codes(struct kr_nfc *b)
{
    if (!reserve(b, 4 * b->n_codes))
        return false;
    for (size_t i = 0; i < b->n_codes; i++) {
        const uint32_t code = b->codes[i] & CODE_MASK;
        if (code >= INVALID)
            b->text[b->bytes++] = (uint8_t)(code - INVALID);
        else
            b->bytes += kr_utf8_put(b->text + b->bytes, code);
    }
    return true;
}

/* Normalize from the boundary `at` to the first one after `until`; returns where that is. */
static size_t normalize_stretch(struct kr_nfc *b, const uint8_t *s, size_t n, size_t at,
                                size_t until, bool *ok)
{
    uint32_t code;
    b->n_codes = 0;
    for (size_t length; *ok && at < n; at += length) {
        length = next_code(s + at, n - at, &code);
        if (at > until && kind_of(code) == 0)
            break;
        *ok = push_decomposed(b, code);
    }
    sort_marks(b);
    compose(b);
    *ok = *ok && append_codes(b);
    return at;
}

bool kr_nfc(struct kr_nfc *b, const uint8_t **s, size_t *n)
{
    const uint8_t *text = *s;
    size_t done = 0, boundary = 0, at;
    bool ok = true;
    b->bytes = 0;
    while (ok && (at = normalized_until(text, *n, done, &boundary)) < *n) {
        ok = append(b, text + done, boundary - done);
        boundary = done = normalize_stretch(b, text, *n, boundary, at, &ok);
    }
    if (!ok || done == 0)
        return ok;
    if (!append(b, text + done, *n - done))
        return false;
    *s = b->text;
    *n = b->bytes;
    return true;
}

void kr_nfc_free(struct kr_nfc *b)
{
    free(b->text);
    free(b->codes);
    free(b->sorted);
    *b = (struct kr_nfc){0};
}
