/* spellings.c - a hash table of the tokens' bytes.
 * SPDX-License-Identifier: MIT */
#include "spellings.h"

#include <stdlib.h>
#include <string.h>

/* At most half full: 75 are expected at worst among 2 million spellings. */
enum { MAX_PROBES = 256 };

static uint64_t hash_of(const uint8_t *s, size_t n)
{
    uint64_t h = n, word;
    for (; n >= sizeof word; s += sizeof word, n -= sizeof word) {
        memcpy(&word, s, sizeof word);
        h = (h ^ word) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    word = 0;
    memcpy(&word, s, n);
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* The slot of the spelling or the free one where it belongs; NULL after too many steps. */
static uint32_t *slot_of(const struct kr_spellings *v, const uint8_t *s, size_t n)
{
    size_t at = (size_t)hash_of(s, n);
    for (int probes = 0; probes < MAX_PROBES; probes++, at++) {
        uint32_t *slot = &v->slots[at & v->mask];
        if (*slot == 0)
            return slot;
        size_t bytes;
        const uint8_t *text = kr_mlt_token(v->t, (int32_t)(*slot - 1), &bytes);
        if (bytes == n && memcmp(text, s, n) == 0)
            return slot;
    }
    return NULL;
}

bool kr_spellings_create(struct kr_spellings *v, const struct kr_mlt *t)
{
    size_t slots = 1024;
    while (slots < 2 * (size_t)t->size)
        slots *= 2;
    *v = (struct kr_spellings){t, calloc(slots, sizeof *v->slots), slots - 1};
    return v->slots != NULL;
}

void kr_spellings_free(struct kr_spellings *v)
{
    free(v->slots);
    v->slots = NULL;
}

bool kr_spellings_add(struct kr_spellings *v, int32_t id)
{
    size_t bytes;
    const uint8_t *s = kr_mlt_token(v->t, id, &bytes);
    uint32_t *slot = slot_of(v, s, bytes);
    if (slot && *slot == 0)
        *slot = (uint32_t)id + 1;
    return slot != NULL;
}

int32_t kr_spellings_find(const struct kr_spellings *v, const uint8_t *s, size_t n)
{
    const uint32_t *slot = v->slots ? slot_of(v, s, n) : NULL;
    return slot ? (int32_t)*slot - 1 : -1;
}
