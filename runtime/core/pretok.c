/* pretok.c - the pre-tokenizers of byte-level BPE, by hand instead of by regular expression.
 * SPDX-License-Identifier: MIT */
#include "pretok.h"

#include <assert.h>

#include "compiler.h"
#include "unicode.h"
#include "utf8.h"

/* What the characters of a text are, to one pre-tokenizer. */
struct view {
    const uint8_t *text;
    size_t n;
    bool marks;          /* combining marks count as letters */
    bool ends_at_number; /* the text ends before the first number character */
};

/* Numbers of Unicode 17, which the library's splitting of digits has; its expressions follow 16. */
static bool is_new_number(uint32_t code)
{
    return (code >= 0x11de0 && code <= 0x11de9) || (code >= 0x16ff4 && code <= 0x16ff6);
}

/* class_at for what is not ASCII. */
static enum kr_class wide_class_at(const struct view *v, size_t at, size_t *length)
{
    uint32_t code;
    *length = kr_utf8_next((const char *)v->text + at, v->n - at, &code);
    if (!*length) {
        *length = 1;
        return KR_OTHER;
    }
    const unsigned bits = kr_unicode_bits(code);
    if (v->marks && (bits & KR_UNICODE_MARK))
        return KR_LETTER;
    if (v->ends_at_number && ((bits & KR_UNICODE_CLASS) == KR_NUMBER || is_new_number(code))) {
        *length = 0;
        return KR_SPACE;
    }
    return (enum kr_class)(bits & KR_UNICODE_CLASS);
}

/* Class of the character at `at` and its length; at the end white space of length 0. */
KR_INLINE enum kr_class class_at(const struct view *v, size_t at, size_t *length)
{
    if (at < v->n && v->text[at] >= 0x80)
        return wide_class_at(v, at, length);
    *length = at < v->n;
    if (at == v->n)
        return KR_SPACE;
    const enum kr_class class = (enum kr_class)(kr_unicode_ascii[v->text[at]] & KR_UNICODE_CLASS);
    if (v->ends_at_number && class == KR_NUMBER) {
        *length = 0;
        return KR_SPACE;
    }
    return class;
}

/* End of the run of at most `most` characters of this class that begins at `at`. */
static size_t run_end(const struct view *v, size_t at, enum kr_class class, size_t most)
{
    size_t length;
    for (; most && class_at(v, at, &length) == class && length; most--)
        at += length;
    return at;
}

/* Length of 's 't 're 've 'm 'll 'd at the start, or 0.  Without case, the long s is an s too. */
static size_t contraction(const struct view *v, bool any_case)
{
    const uint8_t *s = v->text;
    if (s[0] != '\'' || v->n < 2)
        return 0;
    const uint8_t lower = any_case ? 0x20 : 0;
    const uint8_t first = s[1] | lower, second = v->n > 2 ? s[2] | lower : 0;
    if (first == 's' || first == 't' || first == 'm' || first == 'd')
        return 2;
    if (second && ((first == 'r' && second == 'e') || (first == 'v' && second == 'e') ||
                   (first == 'l' && second == 'l')))
        return 3;
    return any_case && v->n > 2 && s[1] == 0xc5 && s[2] == 0xbf ? 3 : 0; /* U+017F */
}

static bool is_line_end(uint8_t byte)
{
    return byte == '\n' || byte == '\r';
}

/* \s+(?!\S)|\s+, and before it \s*[\r\n]+ with `lines`: the last space of several goes with what
 * follows; a run with line ends goes up to the last of them. */
static size_t white_space(const struct view *v, bool lines)
{
    size_t end = 0, last = 0, line_end = 0, length;
    enum kr_class class;
    while ((class = class_at(v, end, &length)) == KR_SPACE && length) {
        last = end;
        end += length;
        if (is_line_end(v->text[last]))
            line_end = end;
    }
    if (lines && line_end)
        return line_end;
    return class == KR_SPACE || last == 0 ? end : last;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ */
static size_t gpt2(const struct view *v)
{
    size_t length = contraction(v, false);
    if (length)
        return length;
    const size_t space = v->text[0] == ' ';
    const enum kr_class class = class_at(v, space, &length);
    return class == KR_SPACE ? white_space(v, false) : run_end(v, space, class, v->n);
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|
 * \s*[\r\n]+|\s+(?!\S)|\s+ */
static size_t llama3(const struct view *v, size_t digits)
{
    size_t length = contraction(v, true), next_length;
    if (length)
        return length;
    const enum kr_class class = class_at(v, 0, &length);
    if (class == KR_NUMBER)
        return run_end(v, 0, KR_NUMBER, digits);
    if (class == KR_LETTER)
        return run_end(v, length, KR_LETTER, v->n);
    const enum kr_class next = class_at(v, length, &next_length);
    if (next == KR_LETTER && !is_line_end(v->text[0]))
        return run_end(v, length, KR_LETTER, v->n);
    if (class == KR_SPACE && !(v->text[0] == ' ' && next == KR_OTHER))
        return white_space(v, true);
    size_t end = run_end(v, length, KR_OTHER, v->n);
    while (end < v->n && is_line_end(v->text[end]))
        end++;
    return end;
}

size_t kr_pretok_next(enum kr_pretok pretok, const uint8_t *text, size_t n)
{
    struct view v = {.text = text, .n = n};
    size_t length;
    uint32_t code;
    switch (pretok) {
    case KR_PRETOK_GPT2:
        return gpt2(&v);
    case KR_PRETOK_GPT2_DIGITS: /* what is between numbers is a text of its own */
        v.ends_at_number = true;
        class_at(&v, 0, &length);
        return length ? gpt2(&v) : kr_utf8_next((const char *)text, n, &code);
    case KR_PRETOK_LLAMA3:
        return llama3(&v, 3);
    case KR_PRETOK_QWEN3_5:
        v.marks = true; /* [\p{L}\p{M}] for \p{L} wherever something is or is not a letter */
        return llama3(&v, 1);
    case KR_PRETOK_QWEN2:
        return llama3(&v, 1);
    case KR_PRETOK_NONE:
        break;
    }
    assert(!"pretok");
    return n;
}
