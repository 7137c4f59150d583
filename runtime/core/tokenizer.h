/* tokenizer.h - an open tokenizer: what tokenizer.c prepares, tokenizer_encode.c uses.
 *
 * Immutable after open, so that threads may share it.
 * SPDX-License-Identifier: MIT */
#ifndef KR_TOKENIZER_H
#define KR_TOKENIZER_H

#include "bpe.h"
#include "spellings.h"
#include "tokenizer_added.h"

#include <string.h>

enum { KR_CODE_PAGES = 0x110000 / 256 };

struct krafla_tokenizer {
    struct kr_mlt mlt;
    struct kr_merges merges;
    struct kr_spellings whole;       /* ignore_merges: pieces that are tokens; else empty */
    struct kr_added_set raw, normal; /* added tokens matched before and after normalization */
    int32_t byte_id[256];            /* -1: none */
    uint16_t page[KR_CODE_PAGES];    /* of 256 code points: index into chars + 1, 0: no token */
    int32_t (*chars)[256];           /* token of one character, -1: none */
    const uint8_t *space;            /* how KR_BPE_SPM spells a space */
    size_t space_bytes;
    bool can_cut;    /* the space is a token: only `glued` stops a cut before it */
    bool glued[256]; /* a merge joins this last byte with a following space */
};

/* The token of this one character, -1: none. */
static inline int32_t kr_tokenizer_char(const krafla_tokenizer *t, uint32_t code)
{
    const uint16_t page = t->page[code >> 8];
    return page ? t->chars[page - 1][code & 0xff] : -1;
}

static inline bool kr_tokenizer_is_space(const krafla_tokenizer *t, const uint8_t *s, size_t n)
{
    return n >= t->space_bytes && memcmp(s, t->space, t->space_bytes) == 0;
}

/* tokenizer.c: whether there is a token of this id.  Any id may be asked; a vocabulary may have
 * holes. */
bool kr_tokenizer_has(const krafla_tokenizer *t, int32_t id);

#endif
