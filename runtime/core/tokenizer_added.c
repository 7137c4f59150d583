/* tokenizer_added.c - added tokens: a sorted list, narrowed byte by byte at each position.
 * SPDX-License-Identifier: MIT */
#include "tokenizer_added.h"

#include <stdlib.h>
#include <string.h>

#include "unicode.h"
#include "utf8.h"

static int by_text(const void *a, const void *b)
{
    const struct kr_added *x = a, *y = b;
    const int order = memcmp(x->text, y->text, x->bytes < y->bytes ? x->bytes : y->bytes);
    if (order)
        return order;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

void kr_added_sort(struct kr_added_set *set)
{
    if (set->n)
        qsort(set->tokens, set->n, sizeof *set->tokens, by_text);
    size_t at = 0;
    for (size_t b = 0; b <= 256; b++) {
        while (at < set->n && set->tokens[at].text[0] < b)
            at++;
        set->first[b] = at;
    }
}

/* First of tokens[lo..hi), all longer than depth, whose byte at depth is at least b. */
static size_t lower_bound(const struct kr_added *tokens, size_t lo, size_t hi, size_t depth,
                          unsigned b)
{
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (tokens[mid].text[depth] < b)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* The longest token that text[0..n) begins with, or NULL. */
static const struct kr_added *longest(const struct kr_added_set *set, const uint8_t *text, size_t n)
{
    const struct kr_added *found = NULL;
    size_t lo = set->first[text[0]], hi = set->first[text[0] + 1];
    for (size_t depth = 1; lo < hi; depth++) {
        if (set->tokens[lo].bytes == depth) { /* the shortest of a common start sorts first */
            found = &set->tokens[lo];
            while (lo < hi && set->tokens[lo].bytes == depth)
                lo++;
        }
        if (depth == n)
            break;
        lo = lower_bound(set->tokens, lo, hi, depth, text[depth]);
        hi = lower_bound(set->tokens, lo, hi, depth, text[depth] + 1u);
    }
    return found;
}

/* The character that begins at text[0..n) / ends at text[n): its code point and length, 0 if
 * there is none or it is not valid UTF-8. */
static size_t char_after(const uint8_t *text, size_t n, uint32_t *code)
{
    return n ? kr_utf8_next((const char *)text, n, code) : 0;
}

static size_t char_before(const uint8_t *text, size_t n, uint32_t *code)
{
    for (size_t length = 1; length <= 4 && length <= n; length++) {
        if ((text[n - length] & 0xc0) != 0x80)
            return kr_utf8_next((const char *)text + n - length, length, code) == length ? length
                                                                                         : 0;
    }
    return 0;
}

static bool is_word_alone(const struct kr_added_walk *w, size_t start, size_t stop)
{
    uint32_t code;
    if (char_before(w->text, start, &code) && kr_unicode_word(code))
        return false;
    return !(char_after(w->text + stop, w->bytes - stop, &code) && kr_unicode_word(code));
}

static void widen(struct kr_added_walk *w, const struct kr_added *token, size_t *start,
                  size_t *stop)
{
    uint32_t code;
    size_t n;
    if (token->flags & KR_TOKEN_LSTRIP) {
        while (*start > w->given && (n = char_before(w->text, *start, &code)) &&
               kr_unicode_class(code) == KR_SPACE)
            *start -= n;
        if (*start < w->given)
            *start = w->given;
    }
    if (!(token->flags & KR_TOKEN_RSTRIP))
        return;
    /* A token may itself lie in white space that was walked over before: once is enough. */
    if (*stop < w->white_start || *stop > w->white_stop) {
        w->white_start = w->white_stop = *stop;
        while ((n = char_after(w->text + w->white_stop, w->bytes - w->white_stop, &code)) &&
               kr_unicode_class(code) == KR_SPACE)
            w->white_stop += n;
    }
    *stop = w->white_stop;
}

/* Find the next token that counts and remember it in w->pending. */
static bool search(struct kr_added_walk *w)
{
    while (w->searched < w->bytes) {
        size_t start = w->searched;
        const struct kr_added *token = longest(w->set, w->text + start, w->bytes - start);
        if (!token) {
            w->searched++;
            continue;
        }
        size_t stop = w->searched = start + token->bytes;
        if ((token->flags & KR_TOKEN_SPECIAL) && !w->special)
            continue;
        if ((token->flags & KR_TOKEN_WORD) && !is_word_alone(w, start, stop))
            continue;
        widen(w, token, &start, &stop);
        w->pending = token;
        w->pending_start = start;
        w->pending_stop = stop;
        return true;
    }
    return false;
}

bool kr_added_next(struct kr_added_walk *w, int32_t *id, size_t *start, size_t *stop)
{
    if (!w->pending && w->set->n)
        search(w);
    const size_t text_end = w->pending ? w->pending_start : w->bytes;
    if (w->given < text_end) {
        *id = -1;
        *start = w->given;
        *stop = w->given = text_end;
        return true;
    }
    if (!w->pending)
        return false;
    *id = w->pending->id;
    *start = w->pending_start;
    *stop = w->given = w->pending_stop;
    w->pending = NULL;
    return true;
}
