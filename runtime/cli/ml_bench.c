/* ml_bench.c - the one measuring tool: what a model, or each kernel, makes of this machine.
 *
 * The command line; measuring is bench_model.c and bench_kernels.c, printing
 * bench_report.c.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "console.h"

enum { MAX_TOKENS = 1 << 20, KERNEL_REPS = 31, MODEL_REPS = 5 };

static struct {
    int32_t n, prefill, batch, kv, reps;
    const char *threads, *depths, *only;
    bool prefill_given, reps_given, kernels, no_pack, pack_cache, json;
} given = {.n = 128, .batch = 128, .depths = "0"};

static const struct args_option options[] = {
    {"-n", "N", ARGS_INT, &given.n, 1, MAX_TOKENS, NULL,
     "Tokens: N of prompt, then N decoded; default 128.", NULL},
    {"--prefill", "N", ARGS_INT, &given.prefill, 1, MAX_TOKENS, NULL,
     "Tokens of prompt, if not as many as -n.", &given.prefill_given},
    {"--depth", "N,N", ARGS_TEXT, &given.depths, 0, 0, NULL,
     "Tokens that are in the KV cache before each test, up to 16 numbers; default 0.", NULL},
    {"-t", "N,N", ARGS_TEXT, &given.threads, 0, 0, NULL,
     "Threads, up to 16 numbers; default: what suits this machine.", NULL},
    {"-r", "N", ARGS_INT, &given.reps, 1, BENCH_MAX_REPS, NULL,
     "Repetitions; the median counts; default 5, and 31 of --kernels.", &given.reps_given},
    {"--batch", "N", ARGS_INT, &given.batch, 1, 128, NULL, "Prompt tokens per step; default 128.",
     NULL},
    {"--kv", "TYPE", ARGS_CHOICE, &given.kv, 0, 0, args_kv_types,
     "KV cache type: f32 (default), f16 or q8.", NULL},
    {"--pack-cache", NULL, ARGS_FLAG, &given.pack_cache, 0, 0, NULL,
     "Use, or write, the packed weights beside the model.", NULL},
    {"--no-pack", NULL, ARGS_FLAG, &given.no_pack, 0, 0, NULL,
     "Use the weights as they lie in the file.", NULL},
    {"--kernels", NULL, ARGS_FLAG, &given.kernels, 0, 0, NULL,
     "Measure the kernels alone, on one thread: no model needed.", NULL},
    {"--only", "PATTERN", ARGS_TEXT, &given.only, 0, 0, NULL,
     "Only the kernels of this name, * stands for anything: 'matmul q4*'.", NULL},
    {"--json", NULL, ARGS_FLAG, &given.json, 0, 0, NULL, "Print one JSON object instead.", NULL},
};

static const struct args_program program = {
    .name = "ml_bench",
    .operands = "MODEL.mlb | --kernels",
    .about = "measure how fast a model runs on this CPU. Prefill is the speed at which a prompt is "
             "read; it is limited by the dot instruction, and compared with that instruction's "
             "peak. Decode is the speed at which an answer is written; it is limited by how fast "
             "memory delivers the weights, and compared with plain reading. Both limits are "
             "measured in the same run, between the tests; a few percent above 100 are noise.",
    .examples = "Examples:\n"
                "  ml_bench model.mlb                    128 tokens of prompt, 128 decoded\n"
                "  ml_bench model.mlb -t 1,4 -r 11       one thread and four, medians of 11\n"
                "  ml_bench model.mlb --depth 0,2048     from an empty and a long context\n"
                "  ml_bench model.mlb -n 64 --prefill 1024 --kv f16\n"
                "  ml_bench model.mlb --json > result.json\n"
                "  ml_bench --kernels --only 'matmul q4* cold'\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .min_operands = 0,
    .max_operands = 1,
};

/* "1,2,4" as numbers of [min, max]; false, with the message printed, if it is anything else. */
static bool parse_list(const char *option, const char *text, int32_t min, int32_t max,
                       int32_t list[BENCH_LIST], size_t *n)
{
    for (*n = 0; *n < BENCH_LIST; text++) {
        const size_t bytes = strcspn(text, ",");
        if (!args_int(text, bytes, min, max, &list[(*n)++]))
            break;
        text += bytes;
        if (*text == '\0')
            return true;
    }
    args_usage_error(&program, "%s takes up to %d numbers from %d to %d, like %s 1,2", option,
                     BENCH_LIST, (int)min, (int)max, option);
    return false;
}

/* Everything is printed by now, or nothing is. */
static int finish(int code)
{
    if (code == ARGS_OK && (fflush(stdout) != 0 || ferror(stdout))) {
        console_error("cannot write to stdout");
        return ARGS_RUNTIME;
    }
    return code;
}

static int measure_kernels(void)
{
    struct bench_kernel_result result;
    const size_t reps = given.reps_given ? (size_t)given.reps : KERNEL_REPS;
    int code = bench_kernels(&result, given.only, reps);
    if (code == ARGS_OK && result.n_rows == 0)
        code = args_usage_error(&program,
                                "--only: no kernel is named '%s'; without --only, all "
                                "are shown",
                                given.only);
    if (code == ARGS_OK)
        bench_print_kernels(&result, given.json);
    free(result.rows);
    return finish(code);
}

static int measure_model(const char *path)
{
    struct bench_model_result result;
    struct bench_plan plan = {.path = path,
                              .n_threads = 1,
                              .decode = (size_t)given.n,
                              .prompt = (size_t)(given.prefill_given ? given.prefill : given.n),
                              .reps = given.reps_given ? (size_t)given.reps : MODEL_REPS,
                              .batch = given.batch,
                              .kv = given.kv,
                              .pack = given.no_pack      ? KRAFLA_PACK_NONE
                                      : given.pack_cache ? KRAFLA_PACK_CACHE
                                                         : KRAFLA_PACK_MEMORY,
                              .program = &program};
    const bool threads_ok = !given.threads || parse_list("-t", given.threads, 1, KR_MAX_THREADS,
                                                         plan.threads, &plan.n_threads);
    if (!threads_ok ||
        !parse_list("--depth", given.depths, 0, MAX_TOKENS, plan.depths, &plan.n_depths))
        return ARGS_USAGE;
    const int code = bench_model(&result, &plan);
    if (code == ARGS_OK)
        bench_print_model(&result, &plan, given.json);
    free(result.cells);
    return finish(code);
}

int main(int argc, char **argv)
{
    const char *path;
    krafla_error err;
    int code;
    if (krafla_cpu_check(&err) != KRAFLA_OK)
        return args_failed(&err);
    console_init(&argc, &argv);
    if (!args_parse(&program, argc, argv, &path, &code))
        return code;
    if (given.no_pack && given.pack_cache)
        return args_usage_error(&program,
                                "--pack-cache and --no-pack exclude each other: drop one");
    if (given.kernels == (path != NULL))
        return args_usage_error(&program, "%s",
                                path ? "--kernels takes no model: drop one"
                                     : "name a model, or --kernels");
    if (given.only && !given.kernels)
        return args_usage_error(&program, "--only chooses among --kernels: add it");
    if (given.threads && given.kernels)
        return args_usage_error(&program, "--kernels measures on one thread: drop -t");
    console_catch_interrupt();
    return given.kernels ? measure_kernels() : measure_model(path);
}
