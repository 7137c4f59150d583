/* pretok.h - the pre-tokenizers of byte-level BPE: where the next piece of a text ends.
 *
 * Each follows its model family's regular expression exactly, by hand and in
 * linear time.  A new family is one more function and one more case.
 * A byte that is not valid UTF-8 counts as one character that is no letter,
 * number or space.
 * SPDX-License-Identifier: MIT */
#ifndef KR_PRETOK_H
#define KR_PRETOK_H

#include "mlt.h"

/* Bytes of the first piece of text[0..n), n >= 1; pretok is not KR_PRETOK_NONE. */
size_t kr_pretok_next(enum kr_pretok pretok, const uint8_t *text, size_t n);

#endif
