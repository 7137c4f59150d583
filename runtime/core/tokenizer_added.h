/* tokenizer_added.h - added tokens: finding them in a text before BPE sees it.
 *
 * As the `tokenizers` library does: leftmost, longest, not overlapping; then
 * each match may be rejected (single_word, a special token that is not asked
 * for) or widened over white space (lstrip, rstrip).
 * SPDX-License-Identifier: MIT */
#ifndef KR_TOKENIZER_ADDED_H
#define KR_TOKENIZER_ADDED_H

#include "mlt.h"

/* A spelling to look for; text is borrowed. */
struct kr_added {
    const uint8_t *text;
    size_t bytes;
    int32_t id;
    uint8_t flags;
};

struct kr_added_set {
    struct kr_added *tokens; /* [n], sorted by spelling after kr_added_sort */
    size_t n;
    size_t first[257]; /* tokens that begin with byte b are first[b] .. first[b + 1] - 1 */
};

void kr_added_sort(struct kr_added_set *set);

/* A walk over text[0..bytes); the fields after `special` start as 0. */
struct kr_added_walk {
    const struct kr_added_set *set;
    const uint8_t *text;
    size_t bytes;
    bool special;           /* special tokens count */
    size_t searched, given; /* where the search goes on; up to where the text was handed out */
    const struct kr_added *pending;
    size_t pending_start, pending_stop;
    size_t white_start, white_stop; /* the white space that rstrip walked over last */
};

/* The next stretch of text (id -1, never empty) or added token; false at the end. */
bool kr_added_next(struct kr_added_walk *w, int32_t *id, size_t *start, size_t *stop);

#endif
