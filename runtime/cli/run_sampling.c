/* run_sampling.c - from the options of ml_run to its sampler.
 *
 * Owns where each number comes from: an option, the model's recommendation or
 * the library's default.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>
#include <string.h>

const char *const run_sampling_sources[] = {"greedy", "model", NULL};

static void take_float(float *value, float given)
{
    if (given >= 0.0f)
        *value = given;
}

static void take_int(int32_t *value, int32_t given)
{
    if (given >= 0)
        *value = given;
}

/* Options count more than what the model recommends, and that more than the defaults. */
static void choose_numbers(const struct run *r, krafla_sampler_options *so)
{
    const struct run_sampling *given = &r->o->sampling;
    krafla_sampler_defaults(so);
    if (given->source == RUN_SAMPLING_MODEL)
        krafla_model_sampling(r->model, so);
    take_float(&so->temperature, given->temperature);
    take_float(&so->top_p, given->top_p);
    take_float(&so->min_p, given->min_p);
    take_int(&so->top_k, given->top_k);
    take_float(&so->repeat_penalty, given->repeat_penalty);
    take_int(&so->repeat_last_n, given->repeat_last_n);
    so->presence_penalty = given->presence_penalty;
    so->frequency_penalty = given->frequency_penalty;
    so->seed = given->seed;
    if (given->source == RUN_SAMPLING_MODEL)
        fprintf(stderr,
                "sampling: temperature %g%s, top-k %d, top-p %g, min-p %g, repeat penalty %g\n",
                (double)so->temperature,
                so->temperature > 0.0f ? "" : " (always the most likely token)", (int)so->top_k,
                (double)so->top_p, (double)so->min_p, (double)so->repeat_penalty);
}

/* "128009=-100,13=2.5" in memory of its own. */
static int parse_bias(const struct run *r, const char *list, int32_t vocab,
                      krafla_logit_bias **bias, size_t *n)
{
    size_t commas = 0;
    for (const char *c = list; *c; c++)
        commas += *c == ',';
    *bias = calloc(commas + 1, sizeof **bias);
    if (!*bias) {
        console_error("out of memory for %zu biases", commas + 1);
        return ARGS_RUNTIME;
    }
    for (*n = 0; *n <= commas; ++*n) {
        krafla_logit_bias *b = *bias + *n;
        const size_t bytes = strcspn(list, ","), id = strcspn(list, "=");
        if (id >= bytes || !args_int(list, id, 0, vocab - 1, &b->id) ||
            !args_float(list + id + 1, bytes - id - 1, -100, 100, &b->bias))
            return args_usage_error(r->program,
                                    "--logit-bias: item %zu is \"%.*s\", expected ID=BIAS with an "
                                    "id from 0 to %d and a bias from -100 to 100",
                                    *n + 1, bytes < 32 ? (int)bytes : 32, list, (int)vocab - 1);
        list += bytes + 1;
    }
    return ARGS_OK;
}

int run_open_sampler(struct run *r)
{
    krafla_sampler_options so;
    choose_numbers(r, &so);
    int32_t vocab = r->vocab;
    so.tokenizer = r->tokenizer;
    if (r->tokenizer && krafla_tokenizer_vocab(r->tokenizer) < vocab)
        vocab = krafla_tokenizer_vocab(r->tokenizer);

    krafla_logit_bias *bias = NULL;
    const char *list = r->o->sampling.logit_bias;
    int code = list ? parse_bias(r, list, vocab, &bias, &so.n_logit_bias) : ARGS_OK;
    so.logit_bias = bias;
    krafla_error err;
    if (code == ARGS_OK && krafla_sampler_create(&r->sampler, vocab, &so, &err) != KRAFLA_OK)
        code = args_failed(&err);
    free(bias);
    return code;
}
