/* spellings.h - from the bytes of a token to its id.
 *
 * Open addressing, at most half full; a look-up takes a bounded number of
 * steps.
 * SPDX-License-Identifier: MIT */
#ifndef KR_SPELLINGS_H
#define KR_SPELLINGS_H

#include "mlt.h"

struct kr_spellings {
    const struct kr_mlt *t;
    uint32_t *slots; /* id + 1, or 0; NULL: no spelling is known */
    size_t mask;
};

/* Room for all tokens of t, which is borrowed; false: out of memory. */
bool kr_spellings_create(struct kr_spellings *v, const struct kr_mlt *t);
void kr_spellings_free(struct kr_spellings *v);

/* Know the spelling of id, unless an earlier one has it.  False: too many collide with it. */
bool kr_spellings_add(struct kr_spellings *v, int32_t id);

/* The first token added that is spelled s[0..n), or -1. */
int32_t kr_spellings_find(const struct kr_spellings *v, const uint8_t *s, size_t n);

#endif
