/* utf8.h - where a valid UTF-8 sequence ends, and writing one.
 *
 * Shortest form only, no surrogates, nothing above U+10FFFF (Unicode table 3-7).
 * Conversion to and classes of code points are the tokenizer's business.
 * SPDX-License-Identifier: MIT */
#ifndef KR_UTF8_H
#define KR_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length of the sequence at s[0..n), n >= 1, and its code point; 0 if it is not valid. */
static inline size_t kr_utf8_next(const char *s, size_t n, uint32_t *code)
{
    const uint8_t *u = (const uint8_t *)s;
    if (u[0] < 0x80) {
        *code = u[0];
        return 1;
    }
    const size_t len = u[0] >= 0xf0 ? 4 : u[0] >= 0xe0 ? 3 : 2;
    if (u[0] < 0xc2 || u[0] > 0xf4 || len > n)
        return 0;
    uint32_t c = u[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((u[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (u[i] & 0x3f);
    }
    if ((len == 3 && (c < 0x800 || (c >= 0xd800 && c <= 0xdfff))) ||
        (len == 4 && (c < 0x10000 || c > 0x10ffff)))
        return 0;
    *code = c;
    return len;
}

/* Write code, at most 0x10ffff, to s[0..4); returns how many bytes it takes. */
static inline size_t kr_utf8_put(uint8_t *s, uint32_t code)
{
    if (code < 0x80) {
        s[0] = (uint8_t)code;
        return 1;
    }
    const size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--, code >>= 6)
        s[i] = (uint8_t)(0x80 | (code & 0x3f));
    s[0] = (uint8_t)(0xf00u >> len | code);
    return len;
}

#endif
