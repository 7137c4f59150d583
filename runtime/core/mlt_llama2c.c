/* mlt_llama2c.c - llama2.c's tokenizer.bin: i32 longest token, then f32 score, i32 length and
 * the bytes of each token up to the end of the file.
 *
 * The file has scores where an .mlt has merges.  llama2.c joins any two
 * neighbours whose spellings together are a token, highest score first; so
 * every split of every token into two tokens is a merge, ranked by the score
 * of what it gives.  Ids 0 to 2 are <unk>, BOS and EOS, the next 256 the bytes.
 * SPDX-License-Identifier: MIT */
#include "mlt.h"
#include "spellings.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BYTE = 3,
    FIRST_PIECE = FIRST_BYTE + 256,
    MAX_TOKEN = 128, /* bytes; llama2.c's own files stay below 30 */
    MAX_FILE = 16 << 20,
    RECORD = 8, /* score and length */
};

/* What the one allocation of a tokenizer.bin holds; sizes from the first pass over the file. */
struct layout {
    size_t tokens, text;
};

static uint32_t u32_at(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static bool plausible(const struct kr_map *m)
{
    if (m->size < 4 + RECORD)
        return false;
    const uint32_t longest = u32_at(m->base), length = u32_at(m->base + 8);
    return longest >= 1 && longest <= MAX_TOKEN && length <= longest;
}

krafla_status kr_llama2c_probe(bool *yes, const char *path, krafla_error *err)
{
    struct kr_map m;
    const krafla_status st = kr_map_file(&m, path, err);
    if (st != KRAFLA_OK)
        return st;
    *yes = plausible(&m);
    kr_map_close(&m);
    return KRAFLA_OK;
}

/* First pass: count, and check every length. */
static krafla_status measure(const struct kr_map *m, const char *path, struct layout *l,
                             krafla_error *err)
{
    if (m->size > MAX_FILE)
        return kr_fail(err, KRAFLA_E_FORMAT, "%s: %zu bytes; a tokenizer.bin has at most %d", path,
                       m->size, MAX_FILE);
    const uint32_t longest = plausible(m) ? u32_at(m->base) : 0;
    for (size_t at = 4; at < m->size; l->tokens++) {
        if (m->size - at < RECORD || u32_at(m->base + at + 4) > longest ||
            u32_at(m->base + at + 4) > m->size - at - RECORD)
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: token %zu at byte %zu is longer than the longest (%u) or cut off; "
                           "download it again",
                           path, l->tokens, at, (unsigned)longest);
        l->text += u32_at(m->base + at + 4);
        at += RECORD + u32_at(m->base + at + 4);
    }
    if (l->tokens < FIRST_PIECE)
        return kr_fail(err, KRAFLA_E_FORMAT,
                       "%s: %zu tokens; a llama2.c tokenizer.bin has %d before its first piece",
                       path, l->tokens, FIRST_PIECE);
    return KRAFLA_OK;
}

/* ---- from scores to ranks ---- */

struct scored {
    float score;
    uint32_t id;
};

static int by_score(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    if (x->score != y->score)
        return x->score > y->score ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* ranks[id]: 0 for the highest score; equal scores share a rank, then the leftmost pair wins. */
static void rank_scores(struct scored *scored, size_t n, uint32_t *ranks)
{
    qsort(scored, n, sizeof *scored, by_score);
    uint32_t rank = 0;
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && scored[i].score != scored[i - 1].score)
            rank++;
        ranks[scored[i].id] = rank;
    }
}

/* ---- from ranks to merges ---- */

struct merge_list {
    uint32_t *triples, *ranks;
    size_t n, cap;
};

static bool append(struct merge_list *l, uint32_t left, uint32_t right, uint32_t result,
                   uint32_t rank)
{
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 4096;
        uint32_t *triples = realloc(l->triples, cap * 3 * sizeof *triples);
        if (triples)
            l->triples = triples;
        uint32_t *ranks = triples ? realloc(l->ranks, cap * sizeof *ranks) : NULL;
        if (!ranks)
            return false;
        l->ranks = ranks;
        l->cap = cap;
    }
    uint32_t *m = l->triples + 3 * l->n;
    m[0] = left, m[1] = right, m[2] = result;
    l->ranks[l->n++] = rank;
    return true;
}

/* All splits of token id into two known spellings. */
static bool append_splits(struct merge_list *l, const struct kr_spellings *v, int32_t id,
                          uint32_t rank)
{
    size_t bytes;
    const uint8_t *s = kr_mlt_token(v->t, id, &bytes);
    if (kr_spellings_find(v, s, bytes) != id)
        return true; /* its spelling belongs to an earlier token */
    for (size_t cut = 1; cut < bytes; cut++) {
        const int32_t left = kr_spellings_find(v, s, cut);
        const int32_t right = left < 0 ? -1 : kr_spellings_find(v, s + cut, bytes - cut);
        if (right >= 0 && !append(l, (uint32_t)left, (uint32_t)right, (uint32_t)id, rank))
            return false;
    }
    return true;
}

/* The pieces, each spelling once. */
static krafla_status spell(struct kr_spellings *v, const struct kr_mlt *t, const char *path,
                           krafla_error *err)
{
    if (!kr_spellings_create(v, t))
        return kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for %d tokens", path, (int)t->size);
    for (int32_t id = FIRST_PIECE; id < t->size; id++) {
        if (!kr_spellings_add(v, id))
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: the spellings collide too often; download it again", path);
    }
    return KRAFLA_OK;
}

static krafla_status make_merges(struct kr_mlt *t, const struct scored *scores,
                                 const uint32_t *ranks, const char *path, krafla_error *err)
{
    struct kr_spellings v;
    struct merge_list list = {0};
    krafla_status st = spell(&v, t, path, err);
    for (size_t i = 0; st == KRAFLA_OK && i < (size_t)t->size; i++) {
        const int32_t id = (int32_t)scores[i].id;
        /* llama2.c starts its search for the best pair at -1e10 */
        if (id < FIRST_PIECE || scores[i].score <= -1e10f)
            continue;
        if (!append_splits(&list, &v, id, ranks[id]))
            st = kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for %zu merges", path, list.n);
        else if (list.n > KR_MLT_MAX_MERGES)
            st = kr_fail(err, KRAFLA_E_FORMAT,
                         "%s: more than %d merges; a vocabulary of this shape cannot be used", path,
                         KR_MLT_MAX_MERGES);
    }
    kr_spellings_free(&v);
    t->merges = t->owned_merges = list.triples;
    t->ranks = t->owned_ranks = list.ranks;
    t->n_merges = list.n;
    return st;
}

/* Second pass: fill offsets, flags, text and scores, which point into t->owned. */
static krafla_status read_tokens(struct kr_mlt *t, const struct kr_map *m, const char *path,
                                 struct scored *scores, krafla_error *err)
{
    uint32_t *offsets = t->owned;
    uint8_t *flags = (uint8_t *)(offsets + t->size + 1), *text = flags + t->size;
    t->offsets = offsets, t->flags = flags, t->text = text;
    uint32_t end = 0;
    size_t at = 4;
    for (int32_t id = 0; id < t->size; id++) {
        const uint32_t bits = u32_at(m->base + at);
        uint32_t length = u32_at(m->base + at + 4);
        scores[id].id = (uint32_t)id;
        memcpy(&scores[id].score, &bits, sizeof bits);
        if (!(scores[id].score >= -FLT_MAX && scores[id].score <= FLT_MAX))
            return kr_fail(err, KRAFLA_E_FORMAT,
                           "%s: the score of token %d is not a number; "
                           "download it again",
                           path, (int)id);
        const bool byte = id >= FIRST_BYTE && id < FIRST_PIECE;
        /* text never becomes one of the first three: llama2.c has no special tokens in text */
        flags[id] = length && id >= FIRST_BYTE ? KR_TOKEN_MODEL : 0;
        offsets[id] = end;
        memcpy(text + end, m->base + at + RECORD, length);
        at += RECORD + length;
        if (byte) { /* spelled <0xHH> in the file */
            text[end] = (uint8_t)(id - FIRST_BYTE);
            flags[id] = KR_TOKEN_MODEL | KR_TOKEN_BYTE;
            length = 1;
        }
        end += length;
    }
    offsets[t->size] = end;
    return KRAFLA_OK;
}

static krafla_status load(struct kr_mlt *t, const struct kr_map *m, const char *path,
                          krafla_error *err)
{
    struct layout l = {0};
    const krafla_status st = measure(m, path, &l, err);
    if (st != KRAFLA_OK)
        return st;
    /* Bounded by MAX_FILE: no sum can wrap.  256 spare bytes for byte tokens that are empty. */
    t->owned = malloc((l.tokens + 1) * sizeof(uint32_t) + l.tokens + l.text + 256);
    struct scored *scores = malloc(l.tokens * sizeof *scores);
    uint32_t *ranks = malloc(l.tokens * sizeof *ranks);
    t->size = (int32_t)l.tokens;
    krafla_status done;
    if (!t->owned || !scores || !ranks) {
        done = kr_fail(err, KRAFLA_E_MEMORY, "%s: out of memory for %zu tokens", path, l.tokens);
    } else {
        done = read_tokens(t, m, path, scores, err);
        if (done == KRAFLA_OK) {
            rank_scores(scores, l.tokens, ranks);
            done = make_merges(t, scores, ranks, path, err);
        }
    }
    free(scores);
    free(ranks);
    return done;
}

krafla_status kr_llama2c_open(struct kr_mlt *t, const char *path, krafla_error *err)
{
    *t = (struct kr_mlt){
        .kind = KR_BPE_SPM,
        .pretok = KR_PRETOK_NONE,
        .prefix = KR_PREFIX_ALWAYS,
        .drop_space = true,
        .add_bos = true,
        .bos = 1,
        .eos = 2,
    };
    struct kr_map m;
    krafla_status st = kr_map_file(&m, path, err);
    if (st != KRAFLA_OK)
        return st;
    st = load(t, &m, path, err);
    kr_map_close(&m);
    if (st != KRAFLA_OK)
        kr_mlt_close(t);
    return st;
}
