/* tokenizer.c - text to ids and back: the public calls, and the order of the steps.
 *
 * Text is split at the added tokens, normalized (KR_BPE_SPM), split into
 * pieces (pretok.c) and merged (bpe.c).  A tokenizer is immutable after open:
 * the scratch memory of an encoding, its word cache too, lives for one call.
 * SPDX-License-Identifier: MIT */
#include "bpe.h"
#include "chat_templates.h"
#include "pretok.h"
#include "tokenizer.h"
#include "tokenizer_added.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGES = 0x110000 / 256,
    CACHE_SLOTS = 4096, /* 256 KiB: stays in a second-level cache */
    CACHE_TEXT = 4096,  /* shorter texts repeat too few words to pay for a cache */
    CACHE_KEY_BYTES = 32,
    CACHE_IDS = 7, /* with the key and two counts: one cache line */
};

static const uint8_t metaspace[3] = {0xe2, 0x96, 0x81};

struct krafla_tokenizer {
    struct kr_mlt mlt;
    struct kr_merges merges;
    struct kr_added_set raw, normal; /* added tokens matched before and after normalization */
    int32_t byte_id[256];            /* -1: none */
    uint16_t page[PAGES];  /* of 256 code points: index into chars + 1, 0: no token there */
    int32_t (*chars)[256]; /* token of one character, -1: none */
    const uint8_t *space;  /* how KR_BPE_SPM spells a space */
    size_t space_bytes;
    bool can_cut;    /* the space is a token: only `glued` stops a cut before it */
    bool glued[256]; /* a merge joins this last byte with a following space */
};

/* A word and its ids; bytes = 0: free. */
struct cached {
    uint64_t key[CACHE_KEY_BYTES / 8]; /* zero-padded */
    uint16_t bytes, n;
    int32_t ids[CACHE_IDS];
};

struct encoder {
    const krafla_tokenizer *t;
    bool special, continues;
    int32_t *ids;
    size_t cap, n;
    struct kr_bpe bpe;
    struct cached *cache; /* [CACHE_SLOTS] or NULL */
    uint8_t *text;        /* a normalized stretch */
    size_t text_cap;
    krafla_error *err;
};

/* ---- open ---- */

static uint32_t single_char(const struct kr_mlt *m, int32_t id)
{
    size_t bytes;
    const uint8_t *s = kr_mlt_token(m, id, &bytes);
    uint32_t code;
    if (bytes == 0 || kr_utf8_next((const char *)s, bytes, &code) != bytes)
        return UINT32_MAX;
    const unsigned flags = m->flags[id];
    return (flags & KR_TOKEN_MODEL) && !(flags & (KR_TOKEN_BYTE | KR_TOKEN_SPECIAL)) ? code
                                                                                     : UINT32_MAX;
}

/* The table of the tokens that are one character: two steps per look-up. */
static bool index_chars(krafla_tokenizer *t)
{
    const struct kr_mlt *m = &t->mlt;
    size_t pages = 0;
    for (int32_t id = 0; id < m->size; id++) {
        const uint32_t code = single_char(m, id);
        if (code != UINT32_MAX && !t->page[code >> 8])
            t->page[code >> 8] = (uint16_t)++pages;
    }
    t->chars = malloc((pages + 1) * sizeof *t->chars);
    if (!t->chars)
        return false;
    memset(t->chars, 0xff, (pages + 1) * sizeof *t->chars);
    for (int32_t id = 0; id < m->size; id++) {
        const uint32_t code = single_char(m, id);
        if (code != UINT32_MAX && t->chars[t->page[code >> 8] - 1][code & 0xff] < 0)
            t->chars[t->page[code >> 8] - 1][code & 0xff] = id;
    }
    return true;
}

static int32_t char_id(const krafla_tokenizer *t, uint32_t code)
{
    const uint16_t page = t->page[code >> 8];
    return page ? t->chars[page - 1][code & 0xff] : -1;
}

static bool starts_with_space(const krafla_tokenizer *t, const uint8_t *s, size_t n)
{
    return n >= t->space_bytes && memcmp(s, t->space, t->space_bytes) == 0;
}

/* KR_BPE_SPM sees a text as one piece.  Where no merge joins what comes before a space to the
 * space, the result is the same if the text is cut there: find out after which bytes one does. */
static void learn_cuts(krafla_tokenizer *t)
{
    t->can_cut = char_id(t, t->mlt.metaspace ? 0x2581 : ' ') >= 0;
    for (size_t i = 0; i < t->mlt.n_merges; i++) {
        size_t left, right;
        const uint8_t *r = kr_mlt_token(&t->mlt, (int32_t)t->mlt.merges[3 * i + 1], &right);
        if (!starts_with_space(t, r, right))
            continue;
        const uint8_t *l = kr_mlt_token(&t->mlt, (int32_t)t->mlt.merges[3 * i], &left);
        if (left < t->space_bytes ||
            !starts_with_space(t, l + left - t->space_bytes, t->space_bytes))
            t->glued[l[left - 1]] = true;
    }
}

/* Some tokenizers have the tokens that open and end a turn as ordinary added ones; a message that
 * spells one must not become it, so those of the file's own chat template are special. */
bool kr_tokenizer_is_special(const krafla_tokenizer *t, int32_t id)
{
    const uint8_t flags = t->mlt.flags[id];
    size_t bytes;
    const uint8_t *text = kr_mlt_token(&t->mlt, id, &bytes);
    return (flags & KR_TOKEN_ADDED) &&
           ((flags & KR_TOKEN_SPECIAL) || kr_chat_spells(t->mlt.chat, text, bytes));
}

static bool index_added(krafla_tokenizer *t)
{
    const struct kr_mlt *m = &t->mlt;
    size_t n = 0;
    for (int32_t id = 0; id < m->size; id++)
        n += (m->flags[id] & KR_TOKEN_ADDED) != 0;
    t->raw.tokens = malloc((n + 1) * sizeof *t->raw.tokens);
    t->normal.tokens = malloc((n + 1) * sizeof *t->normal.tokens);
    if (!t->raw.tokens || !t->normal.tokens)
        return false;
    for (int32_t id = 0; id < m->size; id++) {
        struct kr_added token = {.id = id, .flags = m->flags[id]};
        if (!(token.flags & KR_TOKEN_ADDED))
            continue;
        token.text = kr_mlt_token(m, id, &token.bytes);
        if (kr_tokenizer_is_special(t, id))
            token.flags |= KR_TOKEN_SPECIAL;
        struct kr_added_set *set = token.flags & KR_TOKEN_NORMALIZED ? &t->normal : &t->raw;
        set->tokens[set->n++] = token;
    }
    kr_added_sort(&t->raw);
    kr_added_sort(&t->normal);
    return true;
}

static krafla_status index_tokens(krafla_tokenizer *t, const char *path, krafla_error *err)
{
    const struct kr_mlt *m = &t->mlt;
    memset(t->byte_id, 0xff, sizeof t->byte_id);
    for (int32_t id = 0; id < m->size; id++) {
        if (m->flags[id] & KR_TOKEN_BYTE)
            t->byte_id[m->text[m->offsets[id]]] = id;
    }
    t->space = m->metaspace ? metaspace : (const uint8_t *)" ";
    t->space_bytes = m->metaspace ? sizeof metaspace : 1;
    if (!index_added(t) || (m->kind == KR_BPE_SPM && !index_chars(t)))
        return kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for %d tokens", path, (int)m->size);
    if (m->kind == KR_BPE_SPM)
        learn_cuts(t);
    return kr_merges_create(&t->merges, m, path, err);
}

krafla_status krafla_tokenizer_open(krafla_tokenizer **out, const char *path, krafla_error *err)
{
    if (!out || !path)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "krafla_tokenizer_open: out or path is NULL");
    *out = NULL;
    krafla_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory opening %s", path);
    bool llama2c = false;
    krafla_status st = kr_llama2c_probe(&llama2c, path, err);
    if (st == KRAFLA_OK)
        st = llama2c ? kr_llama2c_open(&t->mlt, path, err) : kr_mlt_open(&t->mlt, path, err);
    if (st == KRAFLA_OK)
        st = index_tokens(t, path, err);
    if (st != KRAFLA_OK) {
        krafla_tokenizer_close(t);
        return st;
    }
    *out = t;
    return KRAFLA_OK;
}

void krafla_tokenizer_close(krafla_tokenizer *t)
{
    if (!t)
        return;
    kr_merges_free(&t->merges);
    free(t->raw.tokens);
    free(t->normal.tokens);
    free(t->chars);
    kr_mlt_close(&t->mlt);
    free(t);
}

/* ---- small questions ---- */

int32_t krafla_tokenizer_vocab(const krafla_tokenizer *t)
{
    return t->mlt.size;
}

int32_t krafla_tokenizer_bos(const krafla_tokenizer *t)
{
    return t->mlt.bos;
}

int32_t krafla_tokenizer_eos(const krafla_tokenizer *t)
{
    return t->mlt.eos;
}

const char *krafla_tokenizer_chat(const krafla_tokenizer *t)
{
    return t->mlt.chat;
}

int32_t krafla_tokenizer_find(const krafla_tokenizer *t, const char *text)
{
    const size_t n = text ? strlen(text) : 0;
    int32_t found = -1;
    for (int32_t id = 0; n && id < t->mlt.size; id++) {
        size_t bytes;
        const uint8_t *s = kr_mlt_token(&t->mlt, id, &bytes);
        /* a normalized token is stored with the prefix that the text before it gets */
        if ((t->mlt.flags[id] & KR_TOKEN_NORMALIZED) && t->mlt.prefix == KR_PREFIX_ALWAYS &&
            starts_with_space(t, s, bytes)) {
            s += t->space_bytes;
            bytes -= t->space_bytes;
        }
        if (bytes != n || memcmp(s, text, n) != 0)
            continue;
        if (t->mlt.flags[id] & KR_TOKEN_ADDED)
            return id;
        const bool stand_in = t->mlt.kind == KR_BPE_SPM && (t->mlt.flags[id] & KR_TOKEN_BYTE);
        if (found < 0 && !stand_in)
            found = id;
    }
    return found;
}

/* ---- encode ---- */

static void emit(struct encoder *e, int32_t id)
{
    if (e->n < e->cap)
        e->ids[e->n] = id;
    e->n++;
}

static uint64_t word_hash(const uint64_t key[CACHE_KEY_BYTES / 8], size_t bytes)
{
    uint64_t h = bytes;
    for (size_t i = 0; i < CACHE_KEY_BYTES / 8; i++)
        h = (h ^ key[i]) * 0x9e3779b97f4a7c15u, h ^= h >> 32;
    return h;
}

/* The symbols a piece starts from. */
static size_t first_symbols(const krafla_tokenizer *t, const uint8_t *s, size_t n, int32_t *ids)
{
    size_t out = 0;
    for (size_t i = 0, length; i < n; i += length) {
        uint32_t code;
        length = t->mlt.kind == KR_BPE_SPM ? kr_utf8_next((const char *)s + i, n - i, &code) : 0;
        const int32_t id = length ? char_id(t, code) : -1;
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

static krafla_status merge_piece(struct encoder *e, const uint8_t *s, size_t n, size_t *n_ids)
{
    const krafla_status st = kr_bpe_reserve(&e->bpe, n, e->err);
    if (st == KRAFLA_OK)
        *n_ids = kr_bpe_merge(&e->bpe, &e->t->merges, first_symbols(e->t, s, n, e->bpe.ids));
    return st;
}

static krafla_status encode_piece(struct encoder *e, const uint8_t *s, size_t n)
{
    uint64_t key[CACHE_KEY_BYTES / 8] = {0};
    struct cached *slot = NULL;
    if (e->cache && n <= CACHE_KEY_BYTES) {
        memcpy(key, s, n);
        slot = &e->cache[word_hash(key, n) % CACHE_SLOTS];
        if (slot->bytes == n && memcmp(slot->key, key, sizeof key) == 0) {
            for (size_t i = 0; i < slot->n; i++)
                emit(e, slot->ids[i]);
            return KRAFLA_OK;
        }
    }
    size_t n_ids = 0;
    const krafla_status st = merge_piece(e, s, n, &n_ids);
    if (st != KRAFLA_OK)
        return st;
    for (size_t i = 0; i < n_ids; i++)
        emit(e, e->bpe.ids[i]);
    if (slot && n_ids <= CACHE_IDS) {
        memcpy(slot->key, key, sizeof key);
        memcpy(slot->ids, e->bpe.ids, n_ids * sizeof *slot->ids);
        slot->bytes = (uint16_t)n;
        slot->n = (uint16_t)n_ids;
    }
    return KRAFLA_OK;
}

/* Up to the next space that no merge can join to what comes before it. */
static size_t next_cut(const krafla_tokenizer *t, const uint8_t *s, size_t n)
{
    if (!t->can_cut)
        return n;
    bool after_space = starts_with_space(t, s, n);
    size_t at = after_space ? t->space_bytes : 1;
    while (at < n) {
        const uint8_t *hit = memchr(s + at, t->space[0], n - at);
        if (!hit)
            return n;
        if ((size_t)(hit - s) > at)
            after_space = false;
        at = (size_t)(hit - s);
        if (!starts_with_space(t, hit, n - at)) {
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
        st = encode_piece(e, s, piece);
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
    const bool has_space = src[0] == ' ' || starts_with_space(t, src, n);
    size_t out = 0;
    if (prefix == KR_PREFIX_ALWAYS || (prefix == KR_PREFIX_UNLESS_SPACE && !has_space) ||
        (prefix == KR_PREFIX_FIRST && first && !has_space)) {
        memcpy(dst, t->space, t->space_bytes);
        out = t->space_bytes;
    }
    if (!t->mlt.metaspace) {
        memcpy(dst + out, src, n);
        return out + n;
    }
    for (size_t i = 0; i < n; i++) {
        if (src[i] == ' ') {
            memcpy(dst + out, metaspace, sizeof metaspace);
            out += sizeof metaspace;
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
    if (bytes >= CACHE_TEXT) /* without memory for it, only slower */
        e.cache = calloc(CACHE_SLOTS, sizeof *e.cache);
    if ((flags & KRAFLA_ENCODE_BOS) && t->mlt.add_bos)
        emit(&e, t->mlt.bos);
    const krafla_status st = bytes ? encode_text(&e, (const uint8_t *)text, bytes) : KRAFLA_OK;
    kr_bpe_free(&e.bpe);
    free(e.cache);
    free(e.text);
    if (st == KRAFLA_OK)
        *n_ids = e.n;
    return st;
}

bool kr_tokenizer_has(const krafla_tokenizer *t, int32_t id)
{
    size_t bytes = 0;
    if (id >= 0 && id < t->mlt.size)
        kr_mlt_token(&t->mlt, id, &bytes);
    return bytes > 0;
}

/* ---- decode ---- */

struct bytes_out {
    char *text;
    size_t cap, n;
};

static void put(struct bytes_out *o, uint8_t byte)
{
    if (o->n < o->cap)
        o->text[o->n] = (char)byte;
    o->n++;
}

/* at_start: the token opens the text, where drop_space applies. */
static void decode_token(const krafla_tokenizer *t, int32_t id, bool at_start, struct bytes_out *o)
{
    size_t n;
    const uint8_t *s = kr_mlt_token(&t->mlt, id, &n);
    bool drop = at_start && t->mlt.drop_space;
    for (size_t i = 0; i < n; drop = false) {
        const bool space =
            t->mlt.metaspace && n - i >= sizeof metaspace && starts_with_space(t, s + i, n - i);
        const uint8_t byte = space ? ' ' : s[i];
        i += space ? sizeof metaspace : 1;
        if (!(drop && byte == ' '))
            put(o, byte);
    }
}

krafla_status krafla_tokenizer_decode(const krafla_tokenizer *t, int32_t previous,
                                      const int32_t *ids, size_t n, char *text, size_t cap,
                                      size_t *n_bytes, krafla_error *err)
{
    if (!t || !n_bytes || (!ids && n) || (!text && cap))
        return kr_fail(err, KRAFLA_E_ARGUMENT, "krafla_tokenizer_decode: bad argument");
    *n_bytes = 0;
    struct bytes_out o = {text, cap, 0};
    for (size_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= t->mlt.size)
            return kr_fail(err, KRAFLA_E_ARGUMENT, "token id %d is not below %d", (int)ids[i],
                           (int)t->mlt.size);
        decode_token(t, ids[i], previous < 0 || previous == t->mlt.bos, &o);
        previous = ids[i];
    }
    *n_bytes = o.n;
    return KRAFLA_OK;
}
