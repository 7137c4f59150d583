/* ml_run.c - run a model from the command line: complete a text, chat, or dump logits.
 *
 * This file owns the options, what fits together and what is opened; run_*.c
 * do the rest.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_ID = (1 << 24) - 1,
    PROBE_FIRST = 10, /* no code of args_exit, of a shell or of a crash */
    PROBE_LAST = 99,
};

static const char examples[] =
    "Examples:\n"
    "  ml_run model.mlb -z tokenizer.mlt --chat auto               chat, one turn per line\n"
    "  ml_run model.mlb -z tokenizer.mlt --chat auto -i \"Hello!\"   one question, one answer\n"
    "  ml_run model.mlb -z tokenizer.mlt -i \"The old lighthouse\" -n 200 -T 0.7\n"
    "  ml_run model.mlb --tokens 1,338,257 -n 20                   ids go in and come out\n"
    "  ml_run model.mlb --tokens 1,338,257 --dump-logits logits.f32\n";

static struct run_options given = {
    .n = 64,
    .batch = 128,
    .sampling =
        {
            .temperature = -1.0f,
            .top_p = -1.0f,
            .min_p = -1.0f,
            .repeat_penalty = -1.0f,
            .top_k = -1,
            .repeat_last_n = -1,
            .seed = 1,
        },
};

static const struct args_option options[] = {
    {"-z", "FILE", ARGS_TEXT, &given.tokenizer, 0, 0, NULL,
     "Tokenizer: an .mlt file or a llama2.c tokenizer.bin. Needed for -i and for text output.",
     NULL},
    {"-i", "TEXT", ARGS_TEXT, &given.text, 0, 0, NULL,
     "Prompt text, encoded with BOS; special tokens written in it count as such.", NULL},
    {"--tokens", "LIST", ARGS_TEXT, &given.tokens, 0, 0, NULL,
     "Prompt as comma-separated token ids.", NULL},
    {"-n", "N", ARGS_INT, &given.n, 1, MAX_ID, NULL,
     "Positions to evaluate, the prompt's too; default 64, at most --ctx. With --chat: the most "
     "tokens of one reply; default: what the context holds.",
     &given.n_given},
    {"--ctx", "N", ARGS_INT, &given.ctx, 1, MAX_ID + 1, NULL,
     "Context: the positions the KV cache holds; default: the model's longest, at most 4096.",
     NULL},
    {"-T", "F", ARGS_FLOAT, &given.sampling.temperature, 0, 100, NULL,
     "Temperature; 0 (default) always takes the most likely token.", NULL},
    {"-p", "F", ARGS_FLOAT, &given.sampling.top_p, 0, 1, NULL,
     "Top-p: sample from the most likely tokens that together hold this share; default 0.9, "
     "0 or 1: from all.",
     NULL},
    {"--top-k", "N", ARGS_INT, &given.sampling.top_k, 0, MAX_ID, NULL,
     "Sample from the N most likely tokens, before top-p; 0 (default): from all.", NULL},
    {"--min-p", "F", ARGS_FLOAT, &given.sampling.min_p, 0, 1, NULL,
     "Leave out tokens less likely than this share of the most likely one, after top-p; 0 "
     "(default): none, 0.05 to 0.1 is usual.",
     NULL},
    {"--repeat-penalty", "F", ARGS_FLOAT, &given.sampling.repeat_penalty, 0.01, 100, NULL,
     "Divide the positive and multiply the negative logits of recent tokens by F; 1 (default): "
     "off, 1.1 to 1.3 is usual.",
     NULL},
    {"--presence-penalty", "F", ARGS_FLOAT, &given.sampling.presence_penalty, -2, 2, NULL,
     "Subtract F from the logits of recent tokens; 0 (default): off.", NULL},
    {"--frequency-penalty", "F", ARGS_FLOAT, &given.sampling.frequency_penalty, -2, 2, NULL,
     "Subtract F from the logits of recent tokens for each time they occur; 0 (default): off.",
     NULL},
    {"--repeat-last-n", "N", ARGS_INT, &given.sampling.repeat_last_n, 0, MAX_ID, NULL,
     "How many recent tokens the three penalties look at, prompt included; default 64.", NULL},
    {"--logit-bias", "LIST", ARGS_TEXT, &given.sampling.logit_bias, 0, 0, NULL,
     "Add to logits before all else: ID=BIAS with commas between, biases from -100 (as good as "
     "never) to 100 (always).",
     NULL},
    {"--sampling", "FROM", ARGS_CHOICE, &given.sampling.source, 0, 0, run_sampling_sources,
     "Where the sampling numbers come from that no option gives: greedy (default: those named "
     "here) or model (what the model's makers recommend; a line says what that is).",
     NULL},
    {"-s", "N", ARGS_SEED, &given.sampling.seed, 0, 0, NULL, "Seed of the sampler; default 1.",
     NULL},
    {"-t", "N", ARGS_INT, &given.threads, 1, 64, NULL,
     "Threads; default: what suits this machine. The output does not depend on it.", NULL},
    {"--dump-logits", "FILE", ARGS_TEXT, &given.dump_logits, 0, 0, NULL,
     "Write the logits of every --tokens position to FILE as float32 [tokens][vocab], then "
     "exit.",
     NULL},
    {"--batch", "N", ARGS_INT, &given.batch, 1, 128, NULL,
     "Prompt tokens per step; default 128. The output does not depend on it.", NULL},
    {"--kv", "TYPE", ARGS_CHOICE, &given.kv, 0, 0, args_kv_types,
     "KV cache type: f32 (default), f16 (half the memory) or q8 (a quarter, less exact).", NULL},
    {"--pack-cache", NULL, ARGS_FLAG, &given.pack_cache, 0, 0, NULL,
     "Keep the packed weights in a file beside the model and map them on later runs: starts "
     "faster, takes the model's size on disk again.",
     NULL},
    {"--no-pack", NULL, ARGS_FLAG, &given.no_pack, 0, 0, NULL,
     "Use the weights as they lie in the file: less memory, but slower.", NULL},
    {"--profile", NULL, ARGS_FLAG, &given.profile, 0, 0, NULL,
     "Print the share of time of each stage of the forward pass.", NULL},
    {"--chat", "TEMPLATE", ARGS_TEXT, &given.chat, 0, 0, NULL,
     "Chat with the model, in the format it was trained on: auto (what the tokenizer or the model "
     "records), chatml, gemma, llama2, llama3, qwen, qwen3.5, qwen3.5-nothink, smollm or zephyr. "
     "Turns are the lines of stdin, or -i gives a single one; Ctrl-D ends. Needs -z.",
     NULL},
    {"--system", "TEXT", ARGS_TEXT, &given.system, 0, 0, NULL,
     "System prompt for --chat; default: the template's own, if it has one.", NULL},
    {"--eos", "ID", ARGS_INT, &given.eos, 0, MAX_ID, NULL,
     "Stop when this token is generated, beside those of the tokenizer and the model.",
     &given.eos_given},
    {"--show-prompt", NULL, ARGS_FLAG, &given.show_prompt, 0, 0, NULL,
     "Print the prompt, or each turn with --chat, to stderr: the ids, and the text with special "
     "tokens as {id text}.",
     NULL},
    {"--probe", NULL, ARGS_FLAG, &given.probe, 0, 0, NULL,
     "Only exit: 0 if this CPU can run this build, else 3, printing nothing. The needs of other "
     "builds may follow, each as one word: then 10 if this CPU has all of the first, 11 of the "
     "second, and so on; 3 if of none.",
     NULL},
};

static const struct args_program program = {
    .name = "ml_run",
    .operands = "MODEL.mlb",
    .about = "run a language model on this CPU: complete a text, chat, or dump logits.",
    .examples = examples,
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .max_operands = 1,
};

static bool known_chat(const char *name)
{
    for (size_t i = 0; krafla_chat_name(i); i++)
        if (strcmp(krafla_chat_name(i), name) == 0)
            return true;
    return strcmp(name, "auto") == 0;
}

/* What can be said before anything is opened. */
static int check_options(const struct run_options *o)
{
    if (!o->model)
        return args_usage_error(&program, "no model: usage is %s %s [options]", program.name,
                                program.operands);
    if (o->pack_cache && o->no_pack)
        return args_usage_error(&program,
                                "--pack-cache and --no-pack exclude each other: drop one");
    if (o->text && o->tokens)
        return args_usage_error(&program, "-i and --tokens both give a prompt: drop one");
    if (o->text && !o->tokenizer)
        return args_usage_error(&program, "-i needs a tokenizer: add -z FILE");
    if (o->chat && !o->tokenizer)
        return args_usage_error(&program, "--chat needs a tokenizer: add -z FILE");
    if (o->chat && o->tokens)
        return args_usage_error(&program, "--chat takes its turns from stdin or -i: drop --tokens");
    if (o->chat && o->dump_logits)
        return args_usage_error(&program, "--dump-logits works on --tokens: drop --chat");
    if (o->chat && !known_chat(o->chat))
        return args_usage_error(&program, "there is no chat template \"%.64s\", see --chat",
                                o->chat);
    if (o->system && !o->chat)
        return args_usage_error(&program, "--system needs --chat TEMPLATE");
    if (o->dump_logits && !o->tokens)
        return args_usage_error(&program, "--dump-logits needs the positions as --tokens LIST");
    if (!o->chat && !o->text && !o->tokens)
        return args_usage_error(&program,
                                "nothing to do: add --chat TEMPLATE, -i TEXT or --tokens LIST");
    return ARGS_OK;
}

/* "1,338,257" in memory of its own. */
static int parse_tokens(const char *list, int32_t vocab, int32_t **ids, size_t *n)
{
    size_t commas = 0;
    for (const char *c = list; *c; c++)
        commas += *c == ',';
    *ids = calloc(commas + 1, sizeof **ids);
    if (!*ids) {
        console_error("out of memory for %zu token ids", commas + 1);
        return ARGS_RUNTIME;
    }
    for (*n = 0; *n <= commas; ++*n) {
        const size_t bytes = strcspn(list, ",");
        if (!args_int(list, bytes, 0, vocab - 1, *ids + *n))
            return args_usage_error(&program,
                                    "--tokens: item %zu is \"%.*s\", expected an id from 0 to %d, "
                                    "as the model has %d tokens",
                                    *n + 1, bytes < 32 ? (int)bytes : 32, list, (int)vocab - 1,
                                    (int)vocab);
        list += bytes + 1;
    }
    return ARGS_OK;
}

/* -i with BOS, in memory of its own. */
static int encode_text(const struct run *r, int32_t **ids, size_t *n)
{
    const uint32_t flags = KRAFLA_ENCODE_BOS | KRAFLA_ENCODE_SPECIAL;
    const char *text = r->o->text;
    krafla_error err;
    if (krafla_tokenizer_encode(r->tokenizer, text, strlen(text), flags, NULL, 0, n, &err) !=
        KRAFLA_OK)
        return args_failed(&err);
    if (*n == 0)
        return args_usage_error(&program,
                                "the prompt is empty, and this tokenizer adds no BOS token to "
                                "start from: give a text with -i");
    *ids = calloc(*n, sizeof **ids);
    if (!*ids) {
        console_error("out of memory for %zu token ids", *n);
        return ARGS_RUNTIME;
    }
    if (krafla_tokenizer_encode(r->tokenizer, text, strlen(text), flags, *ids, *n, n, &err) !=
        KRAFLA_OK)
        return args_failed(&err);
    return ARGS_OK;
}

/* ---- opening ---- */

/* What show_loading needs to know. */
struct loading {
    const char *path;
    double start;
    uint64_t percent; /* shown */
};

/* Progress of krafla_model_open: a start that takes a moment needs no numbers. */
static void show_loading(void *arg, uint64_t done, uint64_t total)
{
    const double patience = 0.5;
    struct loading *l = arg;
    const uint64_t percent = done * 100 / total;
    if (percent == l->percent || console_seconds() - l->start < patience)
        return;
    l->percent = percent;
    console_progress("loading %s: %d %%", l->path, (int)percent);
}

/* Two files that are not of one model write nonsense without any other sign. */
static void compare_vocabularies(const struct run *r)
{
    enum { BEYOND = 64 }; /* tokens for images and the like that a text model has no rows for */
    const int32_t tokens = r->tokenizer ? krafla_tokenizer_vocab(r->tokenizer) : 0;
    if (tokens > r->vocab + BEYOND)
        fprintf(stderr,
                "warning: %s has %d tokens, but %s only %d rows for them: take the tokenizer that "
                "was converted with the model\n",
                r->o->tokenizer, (int)tokens, r->o->model, (int)r->vocab);
}

static int open_model(struct run *r)
{
    const struct run_options *o = r->o;
    krafla_error err;
    if (o->tokenizer && krafla_tokenizer_open(&r->tokenizer, o->tokenizer, &err) != KRAFLA_OK)
        return args_failed(&err);

    krafla_model_options mo;
    krafla_model_defaults(&mo);
    mo.pack = o->no_pack      ? KRAFLA_PACK_NONE
              : o->pack_cache ? KRAFLA_PACK_CACHE
                              : KRAFLA_PACK_MEMORY;
    mo.n_threads = o->threads;
    struct loading loading = {.path = o->model, .start = console_seconds()};
    mo.progress = show_loading;
    mo.progress_arg = &loading;
    console_progress("loading %s", o->model);
    if (krafla_model_open(&r->model, o->model, &mo, &err) != KRAFLA_OK)
        return args_failed(&err);
    console_progress("%s", "");

    krafla_model_info info = {.struct_size = sizeof info};
    krafla_model_describe(r->model, &info);
    r->vocab = info.vocab;
    compare_vocabularies(r);
    if (o->ctx > info.max_seq)
        return args_usage_error(&program, "--ctx is %d, but the model has at most %d positions",
                                (int)o->ctx, (int)info.max_seq);
    if (o->eos_given && o->eos >= info.vocab)
        return args_usage_error(&program, "--eos is %d, but the model has the ids 0 to %d",
                                (int)o->eos, (int)info.vocab - 1);
    return ARGS_OK;
}

static int open_session(struct run *r)
{
    const struct run_options *o = r->o;
    krafla_error err;
    krafla_session_options so;
    krafla_session_defaults(&so);
    so.n_ctx = o->ctx;
    so.n_threads = o->threads;
    so.n_batch = o->batch;
    so.kv_type = o->kv;
    so.all_logits = o->dump_logits != NULL;
    so.profile = o->profile;
    if (krafla_session_create(&r->session, r->model, &so, &err) != KRAFLA_OK)
        return args_failed(&err);
    r->ctx = krafla_session_context(r->session);
    r->ids = calloc((size_t)r->ctx + 1, sizeof *r->ids);
    if (!r->ids) {
        console_error("out of memory for %d token ids", (int)r->ctx);
        return ARGS_RUNTIME;
    }
    args_print_threads(o->threads, krafla_session_threads(r->session));
    return ARGS_OK;
}

static void add_stop(struct run *r, int32_t id)
{
    if (id >= 0 && r->n_stops < RUN_MAX_STOPS)
        r->stops[r->n_stops++] = id;
}

/* Without a tokenizer only --eos stops: ids in, ids out, every position. */
static void choose_stops(struct run *r)
{
    if (r->o->eos_given)
        add_stop(r, r->o->eos);
    if (!r->tokenizer)
        return;
    add_stop(r, krafla_tokenizer_bos(r->tokenizer));
    add_stop(r, krafla_tokenizer_eos(r->tokenizer));
    const int32_t *ids;
    const size_t n = krafla_model_stop_ids(r->model, &ids);
    for (size_t i = 0; i < n; i++)
        add_stop(r, ids[i]);
}

/* ---- running ---- */

/* The prompt's text as the user wrote it, or its ids, then the reply. */
static int complete(struct run *r, const int32_t *ids, size_t n)
{
    const size_t positions = (size_t)(r->o->n < r->ctx ? r->o->n : r->ctx);
    if (n > positions)
        return args_usage_error(&program,
                                "the prompt has %zu tokens, but -n %d and a context of %d run only "
                                "%zu positions: raise %s",
                                n, (int)r->o->n, (int)r->ctx, positions,
                                n > (size_t)r->ctx ? "--ctx" : "-n");
    const bool printed = r->o->text ? console_write(&r->out, r->o->text, strlen(r->o->text))
                                    : run_print(r, -1, ids, n);
    if (!printed)
        return run_output_failed();

    int code = ARGS_OK;
    int32_t stop;
    console_catch_interrupt();
    enum run_end end = run_prompt(r, ids, n, &code);
    if (end == RUN_LIMIT)
        end = run_reply(r, positions - n + 1, positions, &stop, &code);
    console_release_interrupt();
    if (end == RUN_FAILED)
        return code;
    if (!console_end(&r->out) || !console_write(&r->out, "\n", 1))
        return run_output_failed();
    run_statistics(r);
    return code;
}

static int run_prompted(struct run *r)
{
    int32_t *ids = NULL;
    size_t n = 0;
    int code =
        r->o->tokens ? parse_tokens(r->o->tokens, r->vocab, &ids, &n) : encode_text(r, &ids, &n);
    if (code == ARGS_OK && r->o->show_prompt)
        run_show_prompt(r, ids, n);
    if (code == ARGS_OK && r->o->dump_logits && n > (size_t)r->ctx)
        code = args_usage_error(&program, "--tokens has %zu ids, the context %d: raise --ctx", n,
                                (int)r->ctx);
    else if (code == ARGS_OK && r->o->dump_logits)
        code = run_dump_logits(r, ids, n);
    else if (code == ARGS_OK)
        code = complete(r, ids, n);
    free(ids);
    return code;
}

static int run(struct run *r)
{
    int code = open_model(r);
    if (code == ARGS_OK)
        code = open_session(r);
    if (code == ARGS_OK)
        code = run_open_sampler(r);
    if (code != ARGS_OK)
        return code;
    choose_stops(r);
    return r->o->chat ? run_chat(r) : run_prompted(r);
}

/* A launcher's one question: which of these lists of features is the first that this CPU has? */
static int probe(char **lists)
{
    for (int code = PROBE_FIRST; *lists && code <= PROBE_LAST; code++, lists++)
        if (krafla_cpu_has(*lists))
            return code;
    return ARGS_CPU;
}

int main(int argc, char **argv)
{
    krafla_error err;
    if (krafla_cpu_check(&err) != KRAFLA_OK) {
        if (argc < 2 || strcmp(argv[1], "--probe") != 0)
            console_error("%s", err.message);
        return ARGS_CPU;
    }
    if (argc > 2 && strcmp(argv[1], "--probe") == 0)
        return probe(argv + 2);
    console_init(&argc, &argv);

    int code;
    if (!args_parse(&program, argc, argv, &given.model, &code) || given.probe)
        return code;
    code = check_options(&given);
    if (code != ARGS_OK)
        return code;

    struct run r = {.program = &program, .o = &given, .out = console_text()};
    code = run(&r);
    krafla_sampler_free(r.sampler);
    krafla_session_free(r.session);
    krafla_model_close(r.model);
    krafla_tokenizer_close(r.tokenizer);
    free(r.ids);
    if (r.interrupted && (!given.chat || given.text))
        console_die_interrupted();
    return code;
}
