/* ml_bench.c - how fast a model runs here: prompt tokens and decoded tokens per second.
 *
 * Measures the library alone: ids are made up and nothing is sampled.  Prefill
 * and decode alternate, so that a busy minute of the machine hits both.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "console.h"

enum { MAX_TOKENS = 1 << 20, MAX_REPS = 1000 };

static struct {
    int32_t n, prefill, threads, batch, kv, reps;
    bool prefill_given, no_pack, pack_cache, json;
} given = {.n = 128, .batch = 128, .reps = 5};

static const struct args_option options[] = {
    {"-n", "N", ARGS_INT, &given.n, 1, MAX_TOKENS, NULL,
     "Tokens: N of prompt, then N decoded; default 128.", NULL},
    {"--prefill", "N", ARGS_INT, &given.prefill, 1, MAX_TOKENS, NULL,
     "Tokens of prompt, if not as many as -n.", &given.prefill_given},
    {"-t", "N", ARGS_INT, &given.threads, 1, 64, NULL, "Threads; default: what suits this machine.",
     NULL},
    {"-r", "N", ARGS_INT, &given.reps, 1, MAX_REPS, NULL,
     "Repetitions; the median counts; default 5.", NULL},
    {"--batch", "N", ARGS_INT, &given.batch, 1, 128, NULL, "Prompt tokens per step; default 128.",
     NULL},
    {"--kv", "TYPE", ARGS_CHOICE, &given.kv, 0, 0, args_kv_types,
     "KV cache type: f32 (default), f16 or q8.", NULL},
    {"--pack-cache", NULL, ARGS_FLAG, &given.pack_cache, 0, 0, NULL,
     "Use, or write, the packed weights beside the model.", NULL},
    {"--no-pack", NULL, ARGS_FLAG, &given.no_pack, 0, 0, NULL,
     "Use the weights as they lie in the file.", NULL},
    {"--json", NULL, ARGS_FLAG, &given.json, 0, 0, NULL, "Print one JSON object instead.", NULL},
};

static const struct args_program program = {
    .name = "ml_bench",
    .operands = "MODEL.mlb",
    .about = "measure how fast a model runs on this CPU. Prefill is the speed at which a prompt is "
             "read, decode the speed at which an answer is written; decode is limited by how fast "
             "memory delivers the weights, which the GB/s tell.",
    .examples = "Examples:\n"
                "  ml_bench model.mlb                    128 tokens of prompt, 128 decoded\n"
                "  ml_bench model.mlb -t 4 -r 11         four threads, median of 11\n"
                "  ml_bench model.mlb -n 64 --prefill 1024 --kv f16\n"
                "  ml_bench model.mlb --json > result.json\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .min_operands = 1,
    .max_operands = 1,
};

struct bench {
    krafla_model *model;
    krafla_session *session;
    krafla_model_info info;
    size_t prompt, decode;              /* tokens per repetition */
    int32_t *tokens;                    /* [prompt + decode] */
    double *prefill_rate, *decode_rate; /* [reps] tok/s */
    double load_seconds;
};

static int open_all(struct bench *b, const char *path)
{
    krafla_error err;
    krafla_model_options mo;
    krafla_model_defaults(&mo);
    mo.pack = given.no_pack      ? KRAFLA_PACK_NONE
              : given.pack_cache ? KRAFLA_PACK_CACHE
                                 : KRAFLA_PACK_MEMORY;
    mo.n_threads = given.threads;
    const double start = console_seconds();
    if (krafla_model_open(&b->model, path, &mo, &err) != KRAFLA_OK)
        return args_failed(&err);
    b->load_seconds = console_seconds() - start;
    b->info.struct_size = sizeof b->info;
    krafla_model_describe(b->model, &b->info);

    b->decode = (size_t)given.n;
    b->prompt = (size_t)(given.prefill_given ? given.prefill : given.n);
    if (b->prompt + b->decode > (size_t)b->info.max_seq)
        return args_usage_error(&program,
                                "%zu prompt and %zu decoded tokens are more than the %d positions "
                                "of this model: use a smaller -n or --prefill",
                                b->prompt, b->decode, (int)b->info.max_seq);
    krafla_session_options so;
    krafla_session_defaults(&so);
    so.n_ctx = (int32_t)(b->prompt + b->decode);
    so.n_threads = given.threads;
    so.n_batch = given.batch;
    so.kv_type = given.kv;
    if (krafla_session_create(&b->session, b->model, &so, &err) != KRAFLA_OK)
        return args_failed(&err);

    b->tokens = calloc(b->prompt + b->decode, sizeof *b->tokens);
    b->prefill_rate = calloc((size_t)given.reps, sizeof *b->prefill_rate);
    b->decode_rate = calloc((size_t)given.reps, sizeof *b->decode_rate);
    if (!b->tokens || !b->prefill_rate || !b->decode_rate) {
        console_error("out of memory for %zu tokens", b->prompt + b->decode);
        return ARGS_RUNTIME;
    }
    return ARGS_OK;
}

/* A timeline that shares no first token with the one before, so that nothing is reused. */
static void make_tokens(struct bench *b, int rep)
{
    const uint32_t vocab = (uint32_t)b->info.vocab;
    uint32_t state = 12345;
    for (size_t i = 0; i < b->prompt + b->decode; i++) {
        state = state * 1664525u + 1013904223u;
        b->tokens[i] = (int32_t)((state >> 8) % vocab);
    }
    b->tokens[0] = (int32_t)((uint32_t)rep % vocab);
}

/* Prompt, then token by token; rates in tok/s, stored unless rep is the warm-up, -1. */
static int run_once(struct bench *b, int rep)
{
    krafla_error err;
    make_tokens(b, rep + 1);
    const double start = console_seconds();
    if (krafla_session_sync(b->session, b->tokens, b->prompt, &err) != KRAFLA_OK)
        return args_failed(&err);
    const double middle = console_seconds();
    const size_t decode = rep < 0 ? 1 : b->decode;
    for (size_t i = 1; i <= decode; i++)
        if (krafla_session_sync(b->session, b->tokens, b->prompt + i, &err) != KRAFLA_OK)
            return args_failed(&err);
    const double end = console_seconds();
    if (rep >= 0) {
        b->prefill_rate[rep] = (double)b->prompt / (middle - start);
        b->decode_rate[rep] = (double)b->decode / (end - middle);
    }
    return ARGS_OK;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(const double *sorted, size_t n)
{
    return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static void print_text(const struct bench *b, const char *reason)
{
    const size_t n = (size_t)given.reps;
    const double *p = b->prefill_rate, *d = b->decode_rate;
    struct console_text name = console_text(); /* it is the file's: no controls to the terminal */
    console_write(&name, krafla_model_name(b->model), strlen(krafla_model_name(b->model)));
    printf(": %.1f MiB, packed: %d, loaded in %.2f s\n", (double)b->info.file_bytes / (1 << 20),
           (int)b->info.packed, b->load_seconds);
    printf("isa: %s, threads: %d%s%s, kv: %s, median of %zu\n\n", krafla_isa(),
           (int)krafla_session_threads(b->session), reason ? ", as limited by " : "",
           reason ? reason : "", args_kv_types[given.kv], n);
    printf("%-8s %7s %10s %10s %10s %8s\n", "", "tokens", "tok/s", "min", "max", "GB/s");
    printf("%-8s %7zu %10.2f %10.2f %10.2f\n", "prefill", b->prompt, median(p, n), p[0], p[n - 1]);
    printf("%-8s %7zu %10.2f %10.2f %10.2f %8.2f\n", "decode", b->decode, median(d, n), d[0],
           d[n - 1], median(d, n) * (double)b->info.weight_bytes * 1e-9);
}

static void print_json_string(const char *text)
{
    putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else if (*c < 0x20)
            printf("\\u%04x", *c);
        else
            putchar(*c);
    }
    putchar('"');
}

static void print_json(const struct bench *b)
{
    const size_t n = (size_t)given.reps;
    const double *p = b->prefill_rate, *d = b->decode_rate;
    fputs("{\"model\": ", stdout);
    print_json_string(krafla_model_name(b->model));
    printf(", \"file_bytes\": %llu, \"weight_bytes\": %llu, \"version\": \"%s\", \"isa\": \"%s\", "
           "\"threads\": %d, \"packed\": %d, \"kv\": \"%s\", \"batch\": %d, \"reps\": %zu, "
           "\"load_seconds\": %.3f",
           (unsigned long long)b->info.file_bytes, (unsigned long long)b->info.weight_bytes,
           krafla_version(), krafla_isa(), (int)krafla_session_threads(b->session),
           (int)b->info.packed, args_kv_types[given.kv], (int)given.batch, n, b->load_seconds);
    printf(", \"prefill\": {\"tokens\": %zu, \"median\": %.3f, \"min\": %.3f, \"max\": %.3f}",
           b->prompt, median(p, n), p[0], p[n - 1]);
    printf(", \"decode\": {\"tokens\": %zu, \"median\": %.3f, \"min\": %.3f, \"max\": %.3f, "
           "\"gb_per_s\": %.3f}}\n",
           b->decode, median(d, n), d[0], d[n - 1],
           median(d, n) * (double)b->info.weight_bytes * 1e-9);
}

static int bench(struct bench *b, const char *path)
{
    int code = open_all(b, path);
    for (int rep = -1; rep < given.reps && code == ARGS_OK; rep++) {
        console_progress("%d of %d ...", rep + 1, (int)given.reps);
        code = run_once(b, rep);
    }
    console_progress("%s", "");
    if (code != ARGS_OK)
        return code;

    qsort(b->prefill_rate, (size_t)given.reps, sizeof *b->prefill_rate, compare);
    qsort(b->decode_rate, (size_t)given.reps, sizeof *b->decode_rate, compare);
    const char *reason = NULL;
    if (given.threads == 0)
        krafla_default_threads(&reason);
    if (given.json)
        print_json(b);
    else
        print_text(b, reason);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        console_error("cannot write to stdout");
        return ARGS_RUNTIME;
    }
    return ARGS_OK;
}

int main(int argc, char **argv)
{
    const char *path;
    krafla_error err;
    int code;
    if (krafla_cpu_check(&err) != KRAFLA_OK)
        return args_failed(&err);
    console_init();
    if (!args_parse(&program, argc, argv, &path, &code))
        return code;
    if (given.no_pack && given.pack_cache)
        return args_usage_error(&program,
                                "--pack-cache and --no-pack exclude each other: drop one");

    struct bench b = {0};
    code = bench(&b, path);
    free(b.decode_rate);
    free(b.prefill_rate);
    free(b.tokens);
    krafla_session_free(b.session);
    krafla_model_close(b.model);
    return code;
}
