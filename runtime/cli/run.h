/* run.h - the parts of ml_run: its options, its timeline of tokens, its three ways to run.
 *
 * ml_run.c reads the command line and opens everything, run_sampling.c the
 * sampler; run_timeline.c evaluates tokens and prints replies; run_chat.c,
 * run_logits.c and run_show.c are --chat, --dump-logits and --show-prompt.
 * Functions that return int return an exit code of args.h and have printed the
 * error.
 * SPDX-License-Identifier: MIT */
#ifndef RUN_H
#define RUN_H

#include "args.h"
#include "console.h"

enum { RUN_MAX_STOPS = 32 };

enum { RUN_SAMPLING_GREEDY = 0, RUN_SAMPLING_MODEL = 1 };

/* Below 0, where that is no value, an option was not given. */
struct run_sampling {
    int32_t source; /* RUN_SAMPLING_GREEDY or _MODEL */
    float temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    int32_t top_k, repeat_last_n;
    const char *logit_bias;
    uint64_t seed;
};

struct run_options {
    const char *model, *tokenizer, *text, *tokens, *dump_logits, *chat, *system;
    struct run_sampling sampling;
    int32_t n, ctx, threads, batch, kv, eos;
    bool pack_cache, no_pack, profile, show_prompt, probe;
    bool n_given, eos_given; /* the option was there */
};

/* Everything open, and the tokens so far. */
struct run {
    const struct args_program *program; /* for args_usage_error */
    const struct run_options *o;
    krafla_model *model;
    krafla_tokenizer *tokenizer; /* NULL: ids in, ids out */
    krafla_session *session;
    krafla_sampler *sampler;
    int32_t vocab, ctx;

    int32_t *ids; /* [ctx + 1]: the last token of a full context is chosen but not evaluated */
    size_t n_ids;
    int32_t stops[RUN_MAX_STOPS];
    size_t n_stops;
    struct console_text out;
    bool interrupted; /* Ctrl-C has ended a reply or a prompt */

    size_t prefill_tokens, decode_tokens;
    double prefill_seconds, decode_seconds;
};

enum run_end {
    RUN_STOPPED,     /* a stop token, left in *stop_id and not appended */
    RUN_LIMIT,       /* max_tokens */
    RUN_FULL,        /* no position left */
    RUN_INTERRUPTED, /* Ctrl-C */
    RUN_FAILED,      /* the error is printed, *exit_code set */
};

/* Choices of --sampling, in the order of RUN_SAMPLING_GREEDY, _MODEL. */
extern const char *const run_sampling_sources[];
/* Make r->sampler of the options, with model and tokenizer open. */
int run_open_sampler(struct run *r);

/* Print what stdout failed with; the exit code. */
int run_output_failed(void);

/* Append ids, which fit into ctx, and evaluate all that is not evaluated yet.  RUN_LIMIT: done,
 * a reply may follow. */
enum run_end run_prompt(struct run *r, const int32_t *ids, size_t n, int *exit_code);
/* Choose, print and append up to max_tokens tokens while at most `positions` are evaluated. */
enum run_end run_reply(struct run *r, size_t max_tokens, size_t positions, int32_t *stop_id,
                       int *exit_code);
/* Print tokens the way a reply prints them: text after `previous`, or ids. */
bool run_print(struct run *r, int32_t previous, const int32_t *ids, size_t n);
/* --show-prompt: the ids on stderr and, with a tokenizer, a line of their text. */
void run_show_prompt(const struct run *r, const int32_t *ids, size_t n);
/* The closing lines on stderr. */
void run_statistics(const struct run *r);

int run_chat(struct run *r);
int run_dump_logits(struct run *r, const int32_t *ids, size_t n);

#endif
