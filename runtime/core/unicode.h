/* unicode.h - letter, number, white space, or something else: all the pre-tokenizers ask.
 *
 * Two table steps per code point; the tables are generated
 * (scripts/make_unicode_tables.py) and agree with the `tokenizers` library.
 * SPDX-License-Identifier: MIT */
#ifndef KR_UNICODE_H
#define KR_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum kr_class {
    KR_OTHER = 0,
    KR_LETTER = 1, /* \p{L} */
    KR_NUMBER = 2, /* \p{N} */
    KR_SPACE = 3,  /* White_Space, which is \s */
};

/* What is known of a code point. */
enum {
    KR_UNICODE_CLASS = 3, /* mask of enum kr_class */
    KR_UNICODE_WORD = 4,  /* \w */
    KR_UNICODE_MARK = 8,  /* \p{M}, of class KR_OTHER */
};

/* Page of every 256 code points; in a page, code point 2i is the low half of byte i. */
extern const uint8_t kr_unicode_index[];
extern const uint8_t kr_unicode_pages[][128];

/* The same of ASCII, one to the byte. */
extern const uint8_t kr_unicode_ascii[128];

/* code is at most 0x10ffff. */
static inline unsigned kr_unicode_bits(uint32_t code)
{
    const uint8_t pair = kr_unicode_pages[kr_unicode_index[code >> 8]][(code & 0xff) >> 1];
    return code & 1 ? pair >> 4 : pair & 0xf;
}

static inline enum kr_class kr_unicode_class(uint32_t code)
{
    return (enum kr_class)(kr_unicode_bits(code) & KR_UNICODE_CLASS);
}

static inline bool kr_unicode_word(uint32_t code)
{
    return (kr_unicode_bits(code) & KR_UNICODE_WORD) != 0;
}

#endif
