/* normalize.h - text to NFC (Unicode normalization form C).
 *
 * Linear in time and memory whatever the text, also for a megabyte of
 * combining marks.  Bytes that are not valid UTF-8 stay as they are, and no
 * character joins them.
 * SPDX-License-Identifier: MIT */
#ifndef KR_NORMALIZE_H
#define KR_NORMALIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Scratch memory and result; zero it before the first use. */
struct kr_nfc {
    uint8_t *text;
    size_t bytes, text_cap;
    uint32_t *codes, *sorted; /* [codes_cap]: a stretch between two boundaries */
    size_t n_codes, codes_cap;
};

/* Point *s and *n at the NFC of s[0..n): at the same text if it is in NFC already, else at b->text,
 * which lives until the next call.  False: out of memory. */
bool kr_nfc(struct kr_nfc *b, const uint8_t **s, size_t *n);
void kr_nfc_free(struct kr_nfc *b);

#endif
