/* tokenizer_encode.c - text to ids: the order of the steps, and one piece after the other.
 *
 * Text is split at the added tokens, normalized, split into pieces (pretok.c)
 * and merged (bpe.c).  The scratch memory of an encoding, its cache of words
 * too, lives for one call.
 * SPDX-License-Identifier: MIT */
#include "normalize.h"
#include "pretok.h"
#include "tokenizer.h"
#include "utf8.h"

#include <stdlib.h>

enum {
    CACHE_BITS = 13,   /* 512 KiB at most: stays in a second-level cache */
    CACHE_SHARE = 16,  /* bytes of text per slot below that */
    CACHE_TEXT = 1024, /* shorter texts repeat too few words to pay for a cache */
    KEY_WORDS = 4,
    KEY_BYTES = 8 * KEY_WORDS,
    CACHE_IDS = 7, /* with the key and two counts: one cache line */
};

/* A word and its ids; bytes = 0: free. */
struct cached {
    uint64_t key[KEY_WORDS]; /* zero-padded */
    uint16_t bytes, n;
    int32_t ids[CACHE_IDS];
};

struct encoder {
    const krafla_tokenizer *t;
    bool special, continues;
    int32_t *ids;
    size_t cap, n;
    struct kr_nfc nfc;
    struct kr_bpe bpe;
    struct cached *cache; /* [1 << (64 - shift)] or NULL */
    unsigned shift;
    void *cache_memory; /* what to free */
    uint8_t *text;      /* a normalized stretch */
    size_t text_cap;
    krafla_error *err;
};

static void emit(struct encoder *e, int32_t id)
{
    if (e->n < e->cap)
        e->ids[e->n] = id;
    e->n++;
}

/* The symbols a piece starts from. */
static size_t first_symbols(const krafla_tokenizer *t, const uint8_t *s, size_t n, int32_t *ids)
{
    size_t out = 0;
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        length = t->mlt.kind == KR_BPE_SPM ? kr_utf8_next((const char *)s + i, n - i, &code) : 0;
        const int32_t id = length ? kr_tokenizer_char(t, code) : -1;
        if (id >= 0) {
            ids[out++] = id;
            continue;
        }
        if (!length)
            length = 1;
        for (size_t k = i; k < i + length; k++) {
            if (t->byte_id[s[k]] >= 0) /* like the library, a byte without a token is left out */
                ids[out++] = t->byte_id[s[k]];
        }
    }
    return out;
}

/* The tokens of a piece, in e->bpe.ids. */
static krafla_status merge_piece(struct encoder *e, const uint8_t *s, size_t n, size_t *n_ids)
{
    const krafla_status st = kr_bpe_reserve(&e->bpe, n, e->err);
    if (st != KRAFLA_OK)
        return st;
    const int32_t whole = kr_spellings_find(&e->t->whole, s, n);
    if (whole >= 0) {
        e->bpe.ids[0] = whole;
        *n_ids = 1;
    } else {
        *n_ids = kr_bpe_merge(&e->bpe, &e->t->merges, first_symbols(e->t, s, n, e->bpe.ids));
    }
    return KRAFLA_OK;
}

/* The word s[0..n), n at most KEY_BYTES, as a key; s[0..readable) can be read.  Little-endian, like
 * the mapped file. */
static void load_key(uint64_t key[KEY_WORDS], const uint8_t *s, size_t n, size_t readable)
{
    if (readable < KEY_BYTES) {
        memset(key, 0, KEY_BYTES);
        memcpy(key, s, n);
        return;
    }
    memcpy(key, s, KEY_BYTES); /* of constant size: four loads instead of a call */
    for (size_t i = 0; i < KEY_WORDS; i++) {
        const size_t keep = n > 8 * i ? n - 8 * i : 0;
        key[i] &= keep >= 8 ? UINT64_MAX : ((uint64_t)1 << 8 * keep) - 1;
    }
}

static struct cached *slot_of(const struct encoder *e, const uint64_t key[KEY_WORDS])
{
    const uint64_t h = key[0] * 0x9e3779b97f4a7c15u + key[1] * 0xc2b2ae3d27d4eb4fu +
                       key[2] * 0x165667b19e3779f9u + key[3] * 0x27d4eb2f165667c5u;
    return &e->cache[(h ^ h >> 29) * 0x9e3779b97f4a7c15u >> e->shift];
}

static void emit_all(struct encoder *e, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++)
        emit(e, ids[i]);
}

/* The ids of piece s[0..n); s[0..readable) can be read. */
static krafla_status encode_piece(struct encoder *e, const uint8_t *s, size_t n, size_t readable)
{
    uint64_t key[KEY_WORDS];
    struct cached *slot = NULL;
    if (e->cache && n <= KEY_BYTES) {
        load_key(key, s, n, readable);
        slot = slot_of(e, key);
        if (slot->bytes == n && memcmp(slot->key, key, sizeof key) == 0) {
            emit_all(e, slot->ids, slot->n);
            return KRAFLA_OK;
        }
    }
    size_t n_ids = 0;
    const krafla_status st = merge_piece(e, s, n, &n_ids);
    if (st != KRAFLA_OK)
        return st;
    emit_all(e, e->bpe.ids, n_ids);
    if (slot && n_ids <= CACHE_IDS) {
        memcpy(slot->key, key, sizeof key);
        memcpy(slot->ids, e->bpe.ids, n_ids * sizeof *slot->ids);
        slot->bytes = (uint16_t)n;
        slot->n = (uint16_t)n_ids;
    }
    return KRAFLA_OK;
}

/* Without memory for it, encoding is only slower. */
static void make_cache(struct encoder *e, size_t text_bytes)
{
    unsigned bits = 4;
    while (bits < CACHE_BITS && ((size_t)CACHE_SHARE << bits) < text_bytes)
        bits++;
    e->shift = 64 - bits;
    if (text_bytes >= CACHE_TEXT)
        e->cache_memory = calloc(((size_t)1 << bits) + 1, sizeof *e->cache);
    const uintptr_t past = (uintptr_t)e->cache_memory % sizeof *e->cache;
    if (e->cache_memory) /* whole cache lines, one spare to get there */
        e->cache = (struct cached *)(void *)((char *)e->cache_memory +
                                             (past ? sizeof *e->cache - past : 0));
}

/* Up to the next space that no merge can join to what comes before it. */
static size_t next_cut(const krafla_tokenizer *t, const uint8_t *s, size_t n)
{
    if (!t->can_cut)
        return n;
    bool after_space = kr_tokenizer_is_space(t, s, n);
    size_t at = after_space ? t->space_bytes : 1;
    while (at < n) {
        const uint8_t *hit = memchr(s + at, t->space[0], n - at);
        if (!hit)
            return n;
        if ((size_t)(hit - s) > at)
            after_space = false;
        at = (size_t)(hit - s);
        if (!kr_tokenizer_is_space(t, hit, n - at)) {
            after_space = false;
            at++;
            continue;
        }
        if (!after_space && !t->glued[s[at - 1]])
            return at;
        after_space = true;
        at += t->space_bytes;
    }
    return n;
}

static krafla_status encode_pieces(struct encoder *e, const uint8_t *s, size_t n)
{
    const struct kr_mlt *m = &e->t->mlt;
    krafla_status st = KRAFLA_OK;
    while (n && st == KRAFLA_OK) {
        const size_t piece =
            m->pretok == KR_PRETOK_NONE ? next_cut(e->t, s, n) : kr_pretok_next(m->pretok, s, n);
        st = encode_piece(e, s, piece, n);
        s += piece;
        n -= piece;
    }
    return st;
}

/* Spaces to the tokenizer's own, and a prefix; dst holds space_bytes * (n + 1). */
static size_t normalize(const krafla_tokenizer *t, uint8_t *dst, const uint8_t *src, size_t n,
                        bool first)
{
    const enum kr_prefix prefix = t->mlt.prefix;
    const bool has_space = src[0] == ' ' || kr_tokenizer_is_space(t, src, n);
    size_t out = 0;
    if (prefix == KR_PREFIX_ALWAYS || (prefix == KR_PREFIX_UNLESS_SPACE && !has_space) ||
        (prefix == KR_PREFIX_FIRST && first && !has_space)) {
        memcpy(dst, t->space, t->space_bytes);
        out = t->space_bytes;
    }
    if (t->space_bytes == 1) {
        memcpy(dst + out, src, n);
        return out + n;
    }
    for (size_t i = 0; i < n; i++) {
        if (src[i] == ' ') {
            memcpy(dst + out, t->space, t->space_bytes);
            out += t->space_bytes;
        } else {
            dst[out++] = src[i];
        }
    }
    return out;
}

/* Point *s and *n at the normalized text, which lives until the next call. */
static krafla_status normalize_stretch(struct encoder *e, const uint8_t **s, size_t *n, bool first)
{
    size_t bytes;
    if (!kr_size_mul(&bytes, *n + 1, e->t->space_bytes))
        return kr_fail(e->err, KRAFLA_E_MEMORY, "out of memory encoding %zu bytes", *n);
    if (bytes > e->text_cap) {
        free(e->text);
        e->text_cap = 0;
        e->text = malloc(bytes);
        if (!e->text)
            return kr_fail(e->err, KRAFLA_E_MEMORY, "out of memory encoding %zu bytes", *n);
        e->text_cap = bytes;
    }
    *n = normalize(e->t, e->text, *s, *n, first);
    *s = e->text;
    return KRAFLA_OK;
}

/* The library normalizes before it looks for normalized added tokens; the Metaspace
 * pre-tokenizer (the last two prefix rules) comes after that. */
static bool normalizes_early(const struct kr_mlt *m)
{
    return m->kind == KR_BPE_SPM && (m->prefix == KR_PREFIX_NONE || m->prefix == KR_PREFIX_ALWAYS);
}

/* A stretch of text between added tokens; first: nothing comes before it. */
static krafla_status encode_stretch(struct encoder *e, const uint8_t *s, size_t n, bool first)
{
    const struct kr_mlt *m = &e->t->mlt;
    const bool early = normalizes_early(m);
    if (m->nfc && !kr_nfc(&e->nfc, &s, &n))
        return kr_fail(e->err, KRAFLA_E_MEMORY, "out of memory normalizing %zu bytes", n);
    krafla_status st = early ? normalize_stretch(e, &s, &n, first) : KRAFLA_OK;
    struct kr_added_walk walk = {
        .set = &e->t->normal, .text = s, .bytes = n, .special = e->special};
    int32_t id;
    size_t start, stop;
    while (st == KRAFLA_OK && kr_added_next(&walk, &id, &start, &stop)) {
        if (id >= 0) {
            emit(e, id);
            continue;
        }
        const uint8_t *part = s + start;
        size_t bytes = stop - start;
        if (m->kind == KR_BPE_SPM && !early)
            st = normalize_stretch(e, &part, &bytes, first && start == 0);
        if (st == KRAFLA_OK)
            st = encode_pieces(e, part, bytes);
    }
    return st;
}

static krafla_status encode_text(struct encoder *e, const uint8_t *s, size_t n)
{
    struct kr_added_walk walk = {.set = &e->t->raw, .text = s, .bytes = n, .special = e->special};
    int32_t id;
    size_t start, stop;
    krafla_status st = KRAFLA_OK;
    while (st == KRAFLA_OK && kr_added_next(&walk, &id, &start, &stop)) {
        if (id >= 0)
            emit(e, id);
        else
            st = encode_stretch(e, s + start, stop - start, start == 0 && !e->continues);
    }
    return st;
}

krafla_status krafla_tokenizer_encode(const krafla_tokenizer *t, const char *text, size_t bytes,
                                      uint32_t flags, int32_t *ids, size_t cap, size_t *n_ids,
                                      krafla_error *err)
{
    const uint32_t known = KRAFLA_ENCODE_BOS | KRAFLA_ENCODE_SPECIAL | KRAFLA_ENCODE_CONTINUE;
    if (!t || !n_ids || (!text && bytes) || (!ids && cap) || (flags & ~known))
        return kr_fail(err, KRAFLA_E_ARGUMENT, "krafla_tokenizer_encode: bad argument");
    *n_ids = 0;
    if (bytes > INT32_MAX / 4) /* a piece has 32-bit positions, three bytes may stand for a space */
        return kr_fail(err, KRAFLA_E_ARGUMENT, "text has %zu bytes; at most %d can be encoded",
                       bytes, INT32_MAX / 4);
    struct encoder e = {.t = t,
                        .special = (flags & KRAFLA_ENCODE_SPECIAL) != 0,
                        .continues = (flags & KRAFLA_ENCODE_CONTINUE) != 0,
                        .ids = ids,
                        .cap = cap,
                        .err = err};
    make_cache(&e, bytes);
    if ((flags & KRAFLA_ENCODE_BOS) && t->mlt.add_bos)
        emit(&e, t->mlt.bos);
    const krafla_status st = bytes ? encode_text(&e, (const uint8_t *)text, bytes) : KRAFLA_OK;
    kr_nfc_free(&e.nfc);
    kr_bpe_free(&e.bpe);
    free(e.cache_memory);
    free(e.text);
    if (st == KRAFLA_OK)
        *n_ids = e.n;
    return st;
}
