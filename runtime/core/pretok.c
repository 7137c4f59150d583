/* pretok.c - the pre-tokenizers of byte-level BPE, by hand instead of by regular expression.
 * SPDX-License-Identifier: MIT */
#include "pretok.h"

#include <assert.h>
#include <string.h>

#include "unicode.h"
#include "utf8.h"

/* Class of the character at s[0..n), n >= 1, and its length. */
static enum kr_class class_at(const uint8_t *s, size_t n, size_t *length)
{
    uint32_t code;
    *length = kr_utf8_next((const char *)s, n, &code);
    if (*length)
        return kr_unicode_class(code);
    *length = 1;
    return KR_OTHER;
}

/* Length of 's 't 're 've 'm 'll 'd at s[0..n), or 0. */
static size_t contraction(const uint8_t *s, size_t n)
{
    if (s[0] != '\'' || n < 2)
        return 0;
    if (strchr("stmd", s[1]) && s[1])
        return 2;
    if (n < 3)
        return 0;
    const bool two = (s[1] == 'r' && s[2] == 'e') || (s[1] == 'v' && s[2] == 'e') ||
                     (s[1] == 'l' && s[2] == 'l');
    return two ? 3 : 0;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
 *
 * digits: every number character is a piece of its own and ends the text before it, as if the
 * expression saw the parts between them one at a time. */
static size_t gpt2(const uint8_t *text, size_t n, bool digits)
{
    size_t length;
    enum kr_class class = class_at(text, n, &length);
    if (digits && class == KR_NUMBER)
        return length;
    const size_t short_form = contraction(text, n);
    if (short_form)
        return short_form;

    size_t at = length;
    if (text[0] == ' ' && n > 1) {
        const enum kr_class next = class_at(text + 1, n - 1, &length);
        if (next != KR_SPACE && !(digits && next == KR_NUMBER)) {
            class = next;
            at += length;
        }
    }
    size_t last = 0; /* start of the last character of the run */
    enum kr_class end = KR_SPACE;
    while (at < n && (end = class_at(text + at, n - at, &length)) == class) {
        last = at;
        at += length;
    }
    if (class != KR_SPACE || at == n || (digits && end == KR_NUMBER))
        return at;
    return last ? last : at; /* the last space of several goes with what follows */
}

size_t kr_pretok_next(enum kr_pretok pretok, const uint8_t *text, size_t n)
{
    switch (pretok) {
    case KR_PRETOK_GPT2:
        return gpt2(text, n, false);
    case KR_PRETOK_GPT2_DIGITS:
        return gpt2(text, n, true);
    case KR_PRETOK_NONE:
        break;
    }
    assert(!"pretok");
    return n;
}
