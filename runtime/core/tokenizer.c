/* tokenizer.c - opening a tokenizer, small questions, and ids to text.
 *
 * Text to ids is tokenizer_encode.c's.
 * SPDX-License-Identifier: MIT */
#include "tokenizer.h"
#include "chat_templates.h"
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

static const uint8_t metaspace[3] = {0xe2, 0x96, 0x81};

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

/* KR_BPE_SPM sees a text as one piece.  Where no merge joins what comes before a space to the
 * space, the result is the same if the text is cut there: find out after which bytes one does. */
static void learn_cuts(krafla_tokenizer *t)
{
    t->can_cut = kr_tokenizer_char(t, t->mlt.metaspace ? 0x2581 : ' ') >= 0;
    for (size_t i = 0; i < t->mlt.n_merges; i++) {
        size_t left, right;
        const uint8_t *r = kr_mlt_token(&t->mlt, (int32_t)t->mlt.merges[3 * i + 1], &right);
        if (!kr_tokenizer_is_space(t, r, right))
            continue;
        const uint8_t *l = kr_mlt_token(&t->mlt, (int32_t)t->mlt.merges[3 * i], &left);
        if (left < t->space_bytes ||
            !kr_tokenizer_is_space(t, l + left - t->space_bytes, t->space_bytes))
            t->glued[l[left - 1]] = true;
    }
}

/* Some tokenizers have the tokens that open and end a turn as ordinary added ones; a message that
 * spells one must not become it, so those of the file's own chat template are special. */
static bool is_special(const krafla_tokenizer *t, int32_t id)
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
        if (is_special(t, id))
            token.flags |= KR_TOKEN_SPECIAL;
        struct kr_added_set *set = token.flags & KR_TOKEN_NORMALIZED ? &t->normal : &t->raw;
        set->tokens[set->n++] = token;
    }
    kr_added_sort(&t->raw);
    kr_added_sort(&t->normal);
    return true;
}

/* What a piece can be as a whole. */
static krafla_status index_whole(krafla_tokenizer *t, const char *path, krafla_error *err)
{
    const struct kr_mlt *m = &t->mlt;
    if (!kr_spellings_create(&t->whole, m))
        return kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for %d tokens", path, (int)m->size);
    for (int32_t id = 0; id < m->size; id++) {
        if ((m->flags[id] & KR_TOKEN_MODEL) && !is_special(t, id) &&
            !kr_spellings_add(&t->whole, id))
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: the spellings of the tokens collide too often; convert it again",
                           path);
    }
    return KRAFLA_OK;
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
    const krafla_status st = m->ignore_merges ? index_whole(t, path, err) : KRAFLA_OK;
    return st != KRAFLA_OK ? st : kr_merges_create(&t->merges, m, path, err);
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
    kr_spellings_free(&t->whole);
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

int32_t krafla_tokenizer_is_special(const krafla_tokenizer *t, int32_t id)
{
    if (id < 0 || id >= t->mlt.size)
        return 0;
    return t->mlt.flags[id] == 0 || is_special(t, id); /* 0: of a tokenizer.bin */
}

bool kr_tokenizer_has(const krafla_tokenizer *t, int32_t id)
{
    size_t bytes = 0;
    if (id >= 0 && id < t->mlt.size)
        kr_mlt_token(&t->mlt, id, &bytes);
    return bytes > 0;
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
            kr_tokenizer_is_space(t, s, bytes)) {
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
            t->mlt.metaspace && n - i >= sizeof metaspace && kr_tokenizer_is_space(t, s + i, n - i);
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
