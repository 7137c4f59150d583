/* mlt.h - a tokenizer's data, checked: from an .mlt file (mlt.c, docs/format-mlt.md) or a
 * llama2.c tokenizer.bin (mlt_llama2c.c).
 *
 * After a successful open every id is below `size`, every offset inside the
 * text, and every merge joins two tokens of the BPE vocabulary to one that is
 * spelled like both and is not special.  How text becomes ids is
 * tokenizer_encode.c's.
 * SPDX-License-Identifier: MIT */
#ifndef KR_MLT_H
#define KR_MLT_H

#include "envelope.h"

enum {
    KR_MLT_MAX_TOKENS = 1 << 24,
    KR_MLT_MAX_MERGES = 1 << 24,
    KR_MLT_MAX_TOKEN_BYTES = 1024,
    KR_MLT_MAX_TEXT = 64 << 20, /* bytes of all tokens */
    KR_MLT_CHAT_CAP = 128,
};

/* Bits of a token's flags, as in the file. */
enum {
    KR_TOKEN_ADDED = 1,       /* matched as a whole before BPE */
    KR_TOKEN_SPECIAL = 2,     /* added, and only matched where the caller asks for it */
    KR_TOKEN_LSTRIP = 4,      /* added: takes the white space before it */
    KR_TOKEN_RSTRIP = 8,      /* added: takes the white space after it */
    KR_TOKEN_WORD = 16,       /* added: only where no word character touches it */
    KR_TOKEN_NORMALIZED = 32, /* added: matched in the normalized text */
    KR_TOKEN_BYTE = 64,       /* stands for its one byte */
    KR_TOKEN_MODEL = 128,     /* belongs to the BPE vocabulary */
};

enum kr_tokenizer_kind {
    KR_BPE_BYTE, /* starts from bytes; text is split into pieces by `pretok` */
    KR_BPE_SPM,  /* starts from characters, bytes where there is no such token; space is a letter */
};

enum kr_pretok {
    KR_PRETOK_NONE,
    KR_PRETOK_GPT2,
    KR_PRETOK_GPT2_DIGITS,
    KR_PRETOK_LLAMA3,
    KR_PRETOK_QWEN2,
    KR_PRETOK_QWEN3_5,
};

/* When KR_BPE_SPM puts a space before a text that is not empty. */
enum kr_prefix {
    KR_PREFIX_NONE,
    KR_PREFIX_ALWAYS,       /* before each stretch of text between added tokens */
    KR_PREFIX_UNLESS_SPACE, /* the same, unless the stretch begins with a space */
    KR_PREFIX_FIRST,        /* only at the very start, unless there is a space */
};

struct kr_mlt {
    enum kr_tokenizer_kind kind;
    enum kr_pretok pretok;
    enum kr_prefix prefix;
    bool metaspace;     /* KR_BPE_SPM: the tokens spell a space as U+2581 */
    bool nfc;           /* text is normalized to NFC */
    bool ignore_merges; /* a piece that is a token is that token, whatever the merges say */
    bool drop_space;    /* decoding drops one space at the start */
    bool add_bos;
    int32_t size;     /* tokens */
    int32_t bos, eos; /* -1: none */
    char chat[KR_MLT_CHAT_CAP];
    const uint32_t *offsets; /* [size + 1] into text */
    const uint8_t *flags;    /* [size] */
    const uint8_t *text;
    const uint32_t *merges; /* [n_merges][3]: left, right, result */
    const uint32_t *ranks;  /* [n_merges], lower first; NULL: the index is the rank */
    size_t n_merges;
    struct kr_envelope file; /* what the pointers point into, unless owned */
    void *owned, *owned_merges, *owned_ranks;
};

krafla_status kr_mlt_open(struct kr_mlt *t, const char *path, krafla_error *err);
/* *yes: the file at path begins like a tokenizer.bin (no magic: the first record decides). */
krafla_status kr_llama2c_probe(bool *yes, const char *path, krafla_error *err);
krafla_status kr_llama2c_open(struct kr_mlt *t, const char *path, krafla_error *err);
void kr_mlt_close(struct kr_mlt *t);

static inline const uint8_t *kr_mlt_token(const struct kr_mlt *t, int32_t id, size_t *bytes)
{
    *bytes = t->offsets[id + 1] - t->offsets[id];
    return t->text + t->offsets[id];
}

#endif
