/* krafla.h - run Llama-family models on the CPU.
 *
 * A model is an immutable file, loaded once; any number of sessions may share
 * it.  A session is one token timeline with its own KV cache and logits.
 * Nothing here prints, exits, reads the environment or keeps global state.
 *
 * Threads: a model or tokenizer may be used by several threads at once; a
 *          session, a sampler or a chat by one at a time.
 * Memory:  *_open/_create hand ownership to the caller, *_close/_free take it
 *          back and accept NULL.  Pointers marked "borrowed" stay the
 *          library's and say until when they are valid.  Close a model after
 *          its sessions and a tokenizer after its chats.  Other pointers are
 *          NULL only where it is said here.  Text is UTF-8.
 * Failure: a call that returns krafla_status fills err (which may be NULL) with
 *          one line: what, where, expected, found, remedy.  Out-pointers are
 *          NULL then and counts 0.  Success leaves err as it was.
 *
 * SPDX-License-Identifier: MIT */
#ifndef KRAFLA_H
#define KRAFLA_H

#include <stddef.h>
#include <stdint.h>

/* --- cffi: begin --- */

typedef enum krafla_status {
    KRAFLA_OK = 0,
    KRAFLA_E_IO = 1,       /* a file could not be read, mapped or written */
    KRAFLA_E_FORMAT = 2,   /* the file is not what its name promises */
    KRAFLA_E_MEMORY = 3,   /* there is not enough memory, or not enough threads */
    KRAFLA_E_ARGUMENT = 4, /* the caller broke the contract */
    KRAFLA_E_CPU = 5,      /* this CPU lacks the build's instruction set */
    KRAFLA_E_CONTEXT = 6,  /* no room left in the context */
    KRAFLA_E_NUMERIC = 7   /* the model computed NaN or infinity */
} krafla_status;

typedef struct krafla_error {
    int32_t status;
    char message[508]; /* UTF-8, NUL-terminated, no newline */
} krafla_error;

typedef struct krafla_model krafla_model;
typedef struct krafla_session krafla_session;
typedef struct krafla_tokenizer krafla_tokenizer;
typedef struct krafla_sampler krafla_sampler;
typedef struct krafla_chat krafla_chat;

/* ---- the build ---- */

/* "1.2.3" and the name of the instruction set; constants. */
const char *krafla_version(void);
const char *krafla_isa(void);
/* KRAFLA_E_CPU and the missing feature's name if this CPU or its operating
 * system cannot run this build.  Call it first: it is baseline code. */
krafla_status krafla_cpu_check(krafla_error *err);
/* 1 if this CPU and its operating system have all of these features, spelled as in isas.txt
 * and separated by spaces, else 0: what another build needs. */
int32_t krafla_cpu_has(const char *features);
/* The thread count that suits this machine: the smallest of the CPUs this process may use,
 * the container's quota and the physical cores; 1 in a single-threaded build.  *reason, if
 * not NULL, is a borrowed constant sentence that says which of them decided. */
int32_t krafla_default_threads(const char **reason);

/* ---- models ---- */

enum { KRAFLA_PACK_MEMORY = 0, KRAFLA_PACK_NONE = 1, KRAFLA_PACK_CACHE = 2 };

typedef struct krafla_model_options {
    uint32_t struct_size; /* set by krafla_model_defaults() */
    int32_t pack;         /* KRAFLA_PACK_MEMORY, _NONE or _CACHE (MODEL.pk<G> beside the file) */
    int32_t n_threads;    /* for packing; 0: krafla_default_threads() */
    /* Told now and then, by the opening thread and before krafla_model_open returns, how many
     * bytes of all that have to be read and written are done; if it succeeds, the last time done
     * is total.  NULL: nobody is told. */
    void (*progress)(void *arg, uint64_t done, uint64_t total);
    void *progress_arg;
} krafla_model_options;

typedef struct krafla_model_info {
    uint32_t struct_size; /* set by the caller to sizeof */
    int32_t vocab, dim, hidden_dim, n_layers, n_heads, n_kv_heads, head_dim, max_seq;
    int32_t packed;        /* rows per panel the weights were repacked to, or 0 */
    uint64_t file_bytes;   /* size of the .mlb */
    uint64_t weight_bytes; /* weights read to decode one token */
} krafla_model_info;

void krafla_model_defaults(krafla_model_options *o);
/* Check all of the file at path and make it ready.  o may be NULL for the defaults. */
krafla_status krafla_model_open(krafla_model **out, const char *path, const krafla_model_options *o,
                                krafla_error *err);
void krafla_model_close(krafla_model *m);
/* Fills as much of *info as its struct_size says. */
void krafla_model_describe(const krafla_model *m, krafla_model_info *info);
/* The model's name and that of its chat template, "" if the file names none; borrowed until
 * close.  They are the file's words: not fit for a terminal as they are. */
const char *krafla_model_name(const krafla_model *m);
const char *krafla_model_chat(const krafla_model *m);
/* The ids that end a reply by the model's own configuration; borrowed until close. */
size_t krafla_model_stop_ids(const krafla_model *m, const int32_t **ids);

/* ---- sessions ---- */

enum { KRAFLA_KV_F32 = 0, KRAFLA_KV_F16 = 1, KRAFLA_KV_Q8 = 2 };

typedef struct krafla_session_options {
    uint32_t struct_size; /* set by krafla_session_defaults() */
    int32_t n_ctx;        /* positions the KV cache holds; 0: the model's max_seq, at most 4096 */
    int32_t n_threads;    /* 0: krafla_default_threads() */
    int32_t n_batch;      /* prompt tokens per step, 1..128 */
    int32_t kv_type;      /* KRAFLA_KV_F32, _F16 or _Q8 */
    int32_t all_logits;   /* 1: krafla_session_logits_at() may be asked */
    int32_t profile;      /* 1: krafla_session_profile() may be asked */
    /* A model with linear layers (Qwen3.5) has a state that cannot be rewound.  In so many MiB at
     * most, fewer if memory is short, copies of it are kept of the boundaries of turns and of
     * positions spread over the timeline; 0: none. */
    int32_t snapshot_mib;
} krafla_session_options;

/* Seconds of forward pass per stage since the session was created. */
typedef struct krafla_profile {
    double qkv, attention, wo, ffn, classifier, other;
} krafla_profile;

void krafla_session_defaults(krafla_session_options *o);
/* The model must outlive the session.  o may be NULL for the defaults.  All memory a session
 * needs is taken here. */
krafla_status krafla_session_create(krafla_session **out, const krafla_model *m,
                                    const krafla_session_options *o, krafla_error *err);
void krafla_session_free(krafla_session *s);

/* Make the session hold exactly tokens[0..n), n >= 1: the common prefix is kept (with linear layers
 * up to the last snapshot of it), the rest is evaluated.  KRAFLA_E_CONTEXT if n is above the
 * context, and tokens that do not exist, change nothing; after KRAFLA_E_NUMERIC the session holds
 * the part that was evaluated. */
krafla_status krafla_session_sync(krafla_session *s, const int32_t *tokens, size_t n,
                                  krafla_error *err);
/* Tokens held; tokens that the last sync evaluated; positions there are; threads used. */
size_t krafla_session_length(const krafla_session *s);
size_t krafla_session_evaluated(const krafla_session *s);
int32_t krafla_session_context(const krafla_session *s);
int32_t krafla_session_threads(const krafla_session *s);

/* Logits after the last token, [vocab]; NULL before the first sync and after one that failed on
 * the way.  Borrowed until the next sync or free. */
const float *krafla_session_logits(const krafla_session *s);
/* With all_logits: the logits after position pos, which is the last one or one of those (at most
 * n_batch) that the last step of the last sync has evaluated.  Borrowed until the next call on this
 * session. */
krafla_status krafla_session_logits_at(krafla_session *s, size_t pos, const float **logits,
                                       krafla_error *err);
/* With profile: the seconds so far; else zeros. */
void krafla_session_profile(const krafla_session *s, krafla_profile *p);

/* ---- tokenizers ---- */

enum {
    KRAFLA_ENCODE_BOS = 1,     /* begin with BOS if this tokenizer adds one */
    KRAFLA_ENCODE_SPECIAL = 2, /* text that spells a special token becomes that token */
    KRAFLA_ENCODE_CONTINUE = 4 /* the text follows a special token: no space for its first word
                                  where only the very first of a text gets one */
};

/* Reads .mlt and llama2.c tokenizer.bin. */
krafla_status krafla_tokenizer_open(krafla_tokenizer **out, const char *path, krafla_error *err);
void krafla_tokenizer_close(krafla_tokenizer *t);
/* Ids are below this; a model may have more rows than its tokenizer tokens, or fewer. */
int32_t krafla_tokenizer_vocab(const krafla_tokenizer *t);
int32_t krafla_tokenizer_bos(const krafla_tokenizer *t); /* -1: none */
int32_t krafla_tokenizer_eos(const krafla_tokenizer *t); /* -1: none */
/* Name of the chat template recorded at conversion, "" if none.  Borrowed until close. */
const char *krafla_tokenizer_chat(const krafla_tokenizer *t);
/* The token spelled exactly `text`, -1 if there is none. */
int32_t krafla_tokenizer_find(const krafla_tokenizer *t, const char *text);
/* 1 if text never becomes this token unless KRAFLA_ENCODE_SPECIAL asks for it, else 0, also for an
 * id that does not exist. */
int32_t krafla_tokenizer_is_special(const krafla_tokenizer *t, int32_t id);

/* Encode text[0..bytes), any bytes, at most 511 MiB.  Writes min(*n_ids, cap) ids and sets *n_ids
 * to the full count, so that a call with ids = NULL and cap = 0 measures.  Room for bytes + 16 ids is
 * seldom too little, and then one call is enough. */
krafla_status krafla_tokenizer_encode(const krafla_tokenizer *t, const char *text, size_t bytes,
                                      uint32_t flags, int32_t *ids, size_t cap, size_t *n_ids,
                                      krafla_error *err);
/* The bytes of ids[0..n) as a continuation of `previous` (-1: at the start of a text; there and
 * after BOS, SentencePiece drops one space).  Same measuring rule as encode. */
krafla_status krafla_tokenizer_decode(const krafla_tokenizer *t, int32_t previous,
                                      const int32_t *ids, size_t n, char *text, size_t cap,
                                      size_t *n_bytes, krafla_error *err);

/* ---- chat ---- */

/* The template names, index 0, 1, ...; NULL past the last one.  Constants. */
const char *krafla_chat_name(size_t index);
/* `name` is one of them.  The tokenizer is borrowed until free. */
krafla_status krafla_chat_create(krafla_chat **out, const krafla_tokenizer *t, const char *name,
                                 krafla_error *err);
void krafla_chat_free(krafla_chat *c);
/* The ids that continue the timeline with one user message, up to where the reply starts.
 * first: the timeline is empty (BOS, system and so on come first); else the ids that close
 * the last reply come first; stopped tells whether that reply ended with a stop token which
 * is already part of the timeline.  system may be NULL: the template's default.  Message
 * text never becomes a special token.  Same measuring rule as encode. */
krafla_status krafla_chat_turn(const krafla_chat *c, int32_t first, int32_t stopped,
                               const char *system, const char *user, int32_t *ids, size_t cap,
                               size_t *n_ids, krafla_error *err);

typedef struct krafla_message {
    const char *role; /* "system" or "developer", "user", "assistant" */
    const char *content;
} krafla_message;

/* The ids of a whole conversation that ends with a message of the user, up to where the reply
 * starts: the text that the model's own template makes of it.  As there, reasoning that ends
 * with </think> is left out of earlier replies where the template does so, and what the
 * template cannot say (two turns of the user in a row, a system message in the middle) is an
 * error.  Message text never becomes a special token.  Same measuring rule as encode. */
krafla_status krafla_chat_encode(const krafla_chat *c, const krafla_message *messages, size_t n,
                                 int32_t *ids, size_t cap, size_t *n_ids, krafla_error *err);
/* The ids with which the template itself ends a reply; borrowed until free. */
size_t krafla_chat_stop_ids(const krafla_chat *c, const int32_t **ids);

/* ---- sampling ---- */

typedef struct krafla_logit_bias {
    int32_t id;
    float bias; /* -100 to 100, or -infinity: this token is never chosen */
} krafla_logit_bias;

/* What is done to the logits, in this order:
 *   1. logit_bias is added; an id that is listed twice gets both;
 *   2. each token among the last repeat_last_n, prompt included: repeat_penalty divides a positive
 *      logit and multiplies another, once; then presence_penalty, and frequency_penalty for each
 *      time it occurs there, are taken off;
 *   3. with temperature 0 or top_k 1 the most likely token is chosen, the lowest id of equals;
 *   4. logits are divided by temperature;
 *   5. top_k keeps the most likely tokens, of equals the lower ids;
 *   6. top_p keeps the most likely of these, as few as hold this share of their probability;
 *   7. min_p drops those less likely than this share of the most likely one;
 *   8. one is drawn. */
typedef struct krafla_sampler_options {
    uint32_t struct_size;                /* set by krafla_sampler_defaults() */
    float temperature;                   /* 0 to 100; below 0.0001 counts as 0 */
    float top_p;                         /* in (0, 1); 0 or 1: off */
    float min_p;                         /* in (0, 1]; 0: off */
    int32_t top_k;                       /* 0: off */
    int32_t repeat_last_n;               /* tokens the penalties look back on */
    float repeat_penalty;                /* 0.01 to 100; 1: off */
    float presence_penalty;              /* -2 to 2; 0: off */
    float frequency_penalty;             /* -2 to 2; 0: off */
    const krafla_logit_bias *logit_bias; /* [n_logit_bias], borrowed until create returns */
    size_t n_logit_bias;                 /* 0: logit_bias may be NULL */
    const krafla_tokenizer *tokenizer;   /* only its tokens are chosen; borrowed until create
                                            returns; NULL: every id */
    uint64_t seed;                       /* xorshift64*; 0 is taken as 1 */
} krafla_sampler_options;

void krafla_sampler_defaults(krafla_sampler_options *o);
/* Set temperature, top_k, top_p, min_p and repeat_penalty (over the whole text) to what the model's
 * own configuration recommends, to off where it says nothing, and leave the rest. */
void krafla_model_sampling(const krafla_model *m, krafla_sampler_options *o);
/* Ids from 0 to vocab - 1 will be chosen, no others: with the model's vocab, give the tokenizer too,
 * because a model may have rows without a token.  o may be NULL for the defaults. */
krafla_status krafla_sampler_create(krafla_sampler **out, int32_t vocab,
                                    const krafla_sampler_options *o, krafla_error *err);
void krafla_sampler_free(krafla_sampler *s);
/* Choose the token that follows history[0..n), by logits[vocab]; history may be NULL if n is 0.  Its
 * ids are 0 or more; those from vocab on are passed over.  A logit of -infinity is never chosen;
 * KRAFLA_E_NUMERIC if one is NaN or +infinity, or all are -infinity.  *id is -1 on failure. */
krafla_status krafla_sampler_next(krafla_sampler *s, const float *logits, const int32_t *history,
                                  size_t n, int32_t *id, krafla_error *err);

/* --- cffi: end --- */

#endif
