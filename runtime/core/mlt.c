/* mlt.c - reading and checking .mlt files (docs/format-mlt.md).
 *
 * Nothing is copied: a struct kr_mlt points into the map.  Everything that the
 * encoder relies on is checked here, once.
 * SPDX-License-Identifier: MIT */
#include "mlt.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN "download or convert it again"

struct choice {
    const char *name;
    int value;
};

static const struct choice kinds[] = {
    {"bpe_byte", KR_BPE_BYTE},
    {"bpe_spm", KR_BPE_SPM},
    {NULL, 0},
};
static const struct choice pretoks[] = {
    {"none", KR_PRETOK_NONE},
    {"gpt2", KR_PRETOK_GPT2},
    {"gpt2_digits", KR_PRETOK_GPT2_DIGITS},
    {"llama3", KR_PRETOK_LLAMA3},
    {"qwen2", KR_PRETOK_QWEN2},
    {"qwen3_5", KR_PRETOK_QWEN3_5},
    {NULL, 0},
};
static const struct choice prefixes[] = {
    {"none", KR_PREFIX_NONE},
    {"always", KR_PREFIX_ALWAYS},
    {"unless_space", KR_PREFIX_UNLESS_SPACE},
    {"first_unless_space", KR_PREFIX_FIRST},
    {NULL, 0},
};

static krafla_status choose(const struct kr_json *j, const char *key, const struct choice *choices,
                            int *value, krafla_error *err)
{
    char name[32];
    const krafla_status st = kr_json_string(j, 0, key, name, sizeof name, err);
    if (st != KRAFLA_OK)
        return st;
    for (const struct choice *c = choices; c->name; c++) {
        if (strcmp(c->name, name) == 0) {
            *value = c->value;
            return KRAFLA_OK;
        }
    }
    return kr_fail(err, KRAFLA_E_FORMAT,
                   "%s: %s is \"%s\", which this version does not know; get a newer Krafla",
                   j->where, key, name);
}

static bool known_key(const struct kr_json *j, const struct kr_json_value *key)
{
    static const char *const known[] = {"add_bos",     "bos_id",        "chat",   "data_bytes",
                                        "data_sha256", "drop_space",    "eos_id", "file_bytes",
                                        "format",      "ignore_merges", "kind",   "merges",
                                        "min_version", "nfc",           "prefix", "pretok",
                                        "provenance",  "text_bytes",    "vocab"};
    const char *text = j->text + key->start;
    if (key->length >= 2 && memcmp(text, "x_", 2) == 0)
        return true;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strlen(known[i]) == key->length && memcmp(known[i], text, key->length) == 0)
            return true;
    }
    return false;
}

static krafla_status check_keys(const struct kr_json *j, krafla_error *err)
{
    size_t at = 1;
    for (uint32_t i = 0; i < j->values[0].count; i++) {
        const struct kr_json_value *key = &j->values[at];
        if (!known_key(j, key))
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: header key \"%.*s\" is not known; a newer Krafla wrote this file",
                           j->where, (int)(key->length < 64 ? key->length : 64),
                           j->text + key->start);
        at = j->values[key->next].next;
    }
    return KRAFLA_OK;
}

/* An id below size, or null: -1. */
static krafla_status optional_id(const struct kr_json *j, const char *key, int32_t size,
                                 int32_t *id, krafla_error *err)
{
    *id = -1;
    const int64_t v = kr_json_find(j, 0, key);
    if (v >= 0 && j->values[v].type == KR_JSON_NULL)
        return KRAFLA_OK;
    int64_t value;
    const krafla_status st = kr_json_int(j, 0, key, 0, size - 1, &value, err);
    if (st == KRAFLA_OK)
        *id = (int32_t)value;
    return st;
}

static krafla_status read_header(struct kr_mlt *t, size_t *text_bytes, krafla_error *err)
{
    const struct kr_json *j = &t->file.json;
    int kind, pretok, prefix;
    int64_t size, merges, text;
    krafla_status st;
    if ((st = check_keys(j, err)) || (st = choose(j, "kind", kinds, &kind, err)) ||
        (st = choose(j, "pretok", pretoks, &pretok, err)) ||
        (st = choose(j, "prefix", prefixes, &prefix, err)) ||
        (st = kr_json_bool(j, 0, "nfc", &t->nfc, err)) ||
        (st = kr_json_bool(j, 0, "ignore_merges", &t->ignore_merges, err)) ||
        (st = kr_json_bool(j, 0, "drop_space", &t->drop_space, err)) ||
        (st = kr_json_bool(j, 0, "add_bos", &t->add_bos, err)) ||
        (st = kr_json_int(j, 0, "vocab", 1, KR_MLT_MAX_TOKENS, &size, err)) ||
        (st = kr_json_int(j, 0, "merges", 0, KR_MLT_MAX_MERGES, &merges, err)) ||
        (st = kr_json_int(j, 0, "text_bytes", 1, KR_MLT_MAX_TEXT, &text, err)) ||
        (st = optional_id(j, "bos_id", (int32_t)size, &t->bos, err)) ||
        (st = optional_id(j, "eos_id", (int32_t)size, &t->eos, err)))
        return st;
    size_t provenance;
    if ((st = kr_json_member(j, 0, "provenance", KR_JSON_OBJECT, &provenance, err)))
        return st;
    const int64_t chat = kr_json_find(j, 0, "chat");
    if ((chat < 0 || j->values[chat].type != KR_JSON_NULL) &&
        (st = kr_json_string(j, 0, "chat", t->chat, sizeof t->chat, err)))
        return st;
    if ((kind == KR_BPE_BYTE) == (pretok == KR_PRETOK_NONE))
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: kind and pretok do not go together", j->where);
    if (kind == KR_BPE_BYTE && (prefix != KR_PREFIX_NONE || t->drop_space))
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: bpe_byte has no prefix and no drop_space",
                       j->where);
    if (kind == KR_BPE_SPM && (t->nfc || t->ignore_merges))
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: bpe_spm has no nfc and no ignore_merges",
                       j->where);
    if (t->add_bos && t->bos < 0)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: add_bos is true but bos_id is null", j->where);
    t->kind = (enum kr_tokenizer_kind)kind;
    t->pretok = (enum kr_pretok)pretok;
    t->prefix = (enum kr_prefix)prefix;
    t->metaspace = kind == KR_BPE_SPM;
    t->size = (int32_t)size;
    t->n_merges = (size_t)merges;
    *text_bytes = (size_t)text;
    return KRAFLA_OK;
}

/* The sections have no table: their sizes follow from the header, each starts at a multiple of
 * 64.  The bounds of read_header keep the sums below 2^30, so they cannot wrap. */
static krafla_status place_sections(struct kr_mlt *t, size_t text_bytes, krafla_error *err)
{
    const size_t n = (size_t)t->size;
    const size_t sizes[4] = {(n + 1) * sizeof(uint32_t), t->n_merges * 3 * sizeof(uint32_t), n,
                             text_bytes};
    size_t starts[4], end = 0;
    bool gap = false;
    for (int i = 0; i < 4; i++) {
        starts[i] = kr_round_up(end, 64);
        for (; end < starts[i]; end++)
            gap = gap || (end < t->file.data_bytes && t->file.data[end] != 0);
        end = starts[i] + sizes[i];
    }
    if (gap)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: the bytes between two sections are not zero",
                       t->file.json.where);
    if (end != t->file.data_bytes)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: %zu data bytes, but vocab, merges and text_bytes make %zu",
                       t->file.json.where, t->file.data_bytes, end);
    t->offsets = (const uint32_t *)(const void *)(t->file.data + starts[0]);
    t->merges = (const uint32_t *)(const void *)(t->file.data + starts[1]);
    t->flags = t->file.data + starts[2];
    t->text = t->file.data + starts[3];
    return KRAFLA_OK;
}

static const char *flags_fault(unsigned flags, size_t bytes)
{
    const unsigned only_added =
        KR_TOKEN_SPECIAL | KR_TOKEN_LSTRIP | KR_TOKEN_RSTRIP | KR_TOKEN_WORD | KR_TOKEN_NORMALIZED;
    if (bytes == 0)
        return flags ? "is empty but has flags" : NULL;
    if (!(flags & (KR_TOKEN_ADDED | KR_TOKEN_MODEL)))
        return "is neither added nor of the model";
    if (!(flags & KR_TOKEN_ADDED) && (flags & only_added))
        return "has flags of an added token but is none";
    if ((flags & KR_TOKEN_BYTE) &&
        (bytes != 1 || !(flags & KR_TOKEN_MODEL) || (flags & KR_TOKEN_SPECIAL)))
        return "is a byte token but not one plain byte";
    return NULL;
}

static krafla_status check_tokens(const struct kr_mlt *t, size_t text_bytes, krafla_error *err)
{
    const char *where = t->file.json.where;
    bool have[256] = {false};
    size_t n_bytes = 0;
    if (t->offsets[0] != 0 || t->offsets[t->size] != text_bytes)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: the token offsets do not span the text", where);
    for (int32_t id = 0; id < t->size; id++) {
        const uint32_t start = t->offsets[id], end = t->offsets[id + 1];
        if (end < start || end > text_bytes || end - start > KR_MLT_MAX_TOKEN_BYTES)
            return kr_fail(err, KRAFLA_E_FORMAT, "%s: token %d has offsets %u to %u", where,
                           (int)id, (unsigned)start, (unsigned)end);
        const char *fault = flags_fault(t->flags[id], end - start);
        if (!fault && (t->flags[id] & KR_TOKEN_BYTE)) {
            fault = have[t->text[start]] ? "is a second token for its byte" : NULL;
            have[t->text[start]] = true;
            n_bytes++;
        }
        if (fault)
            return kr_fail(err, KRAFLA_E_FORMAT, "%s: token %d %s", where, (int)id, fault);
    }
    if (t->kind == KR_BPE_SPM && n_bytes != 256)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: %zu byte tokens, bpe_spm needs 256", where,
                       n_bytes);
    return KRAFLA_OK;
}

static bool merge_holds(const struct kr_mlt *t, const uint32_t *m)
{
    const uint32_t size = (uint32_t)t->size;
    if (m[0] >= size || m[1] >= size || m[2] >= size)
        return false;
    if (!(t->flags[m[0]] & t->flags[m[1]] & t->flags[m[2]] & KR_TOKEN_MODEL) ||
        (t->flags[m[2]] & (KR_TOKEN_SPECIAL | KR_TOKEN_BYTE)))
        return false;
    size_t left, right, whole;
    const uint8_t *l = kr_mlt_token(t, (int32_t)m[0], &left);
    const uint8_t *r = kr_mlt_token(t, (int32_t)m[1], &right);
    const uint8_t *w = kr_mlt_token(t, (int32_t)m[2], &whole);
    return whole == left + right && memcmp(w, l, left) == 0 && memcmp(w + left, r, right) == 0;
}

static krafla_status check_merges(const struct kr_mlt *t, krafla_error *err)
{
    for (size_t i = 0; i < t->n_merges; i++) {
        const uint32_t *m = t->merges + 3 * i;
        if (!merge_holds(t, m))
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: merge %zu of tokens %u and %u does not give token %u",
                           t->file.json.where, i, (unsigned)m[0], (unsigned)m[1], (unsigned)m[2]);
    }
    return KRAFLA_OK;
}

krafla_status kr_mlt_open(struct kr_mlt *t, const char *path, krafla_error *err)
{
    memset(t, 0, sizeof *t);
    size_t text_bytes = 0;
    krafla_status st = kr_envelope_open(&t->file, path, "mlt", err);
    if (st == KRAFLA_OK)
        st = read_header(t, &text_bytes, err);
    if (st == KRAFLA_OK)
        st = place_sections(t, text_bytes, err);
    if (st == KRAFLA_OK)
        st = check_tokens(t, text_bytes, err);
    if (st == KRAFLA_OK)
        st = check_merges(t, err);
    if (st != KRAFLA_OK)
        kr_mlt_close(t);
    else
        kr_json_free(&t->file.json); /* it borrows path */
    return kr_fail_hint(err, st, AGAIN);
}

void kr_mlt_close(struct kr_mlt *t)
{
    free(t->owned);
    free(t->owned_merges);
    free(t->owned_ranks);
    kr_envelope_close(&t->file);
    memset(t, 0, sizeof *t);
}
