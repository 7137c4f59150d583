/* run_timeline.c - evaluate tokens, print replies, account for the time.
 *
 * Long prompts are handed over one batch at a time, so that Ctrl-C and the
 * progress line come between batches; the library promises that this changes
 * no bit of the result.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int run_output_failed(void)
{
    const int reason = errno;
    console_progress("%s", "");
    console_error("cannot write the output: %s", strerror(reason));
    return ARGS_RUNTIME;
}

/* A tokenizer may have more tokens than the model has rows. */
static bool ids_fit_model(const struct run *r, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= 0 && ids[i] < r->vocab)
            continue;
        console_error("token %d of the prompt is outside the model's vocabulary of %d tokens (the "
                      "tokenizer has %d): model and tokenizer do not belong together",
                      (int)ids[i], (int)r->vocab,
                      r->tokenizer ? (int)krafla_tokenizer_vocab(r->tokenizer) : 0);
        return false;
    }
    return true;
}

enum run_end run_prompt(struct run *r, const int32_t *ids, size_t n, int *exit_code)
{
    if (!ids_fit_model(r, ids, n)) {
        *exit_code = ARGS_RUNTIME;
        return RUN_FAILED;
    }
    memcpy(r->ids + r->n_ids, ids, n * sizeof *ids);
    r->n_ids += n;
    const size_t before = krafla_session_length(r->session);
    const size_t todo = r->n_ids - before;
    const double start = console_seconds();
    krafla_error err;
    for (size_t at = before; at < r->n_ids;) {
        if (console_interrupted()) {
            r->interrupted = true;
            console_progress("%s", "");
            return RUN_INTERRUPTED;
        }
        const size_t left = r->n_ids - at;
        const size_t step = left < (size_t)r->o->batch ? left : (size_t)r->o->batch;
        if (todo > step)
            console_progress("reading the prompt: %zu of %zu tokens", at - before, todo);
        if (krafla_session_sync(r->session, r->ids, at + step, &err) != KRAFLA_OK) {
            *exit_code = args_failed(&err);
            return RUN_FAILED;
        }
        at += step;
    }
    console_progress("%s", "");
    const double seconds = console_seconds() - start;
    if (todo > 1) {
        r->prefill_tokens += todo;
        r->prefill_seconds += seconds;
    } else {
        r->decode_tokens += todo;
        r->decode_seconds += seconds;
    }
    return RUN_LIMIT;
}

static bool is_stop(const struct run *r, int32_t id)
{
    for (size_t i = 0; i < r->n_stops; i++)
        if (r->stops[i] == id)
            return true;
    return false;
}

static bool print_ids(struct run *r, int32_t previous, const int32_t *ids, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        char text[16];
        const int bytes =
            snprintf(text, sizeof text, "%s%d", i == 0 && previous < 0 ? "" : " ", (int)ids[i]);
        if (!console_write(&r->out, text, (size_t)bytes))
            return false;
    }
    return true;
}

bool run_print(struct run *r, int32_t previous, const int32_t *ids, size_t n)
{
    if (!r->tokenizer)
        return print_ids(r, previous, ids, n);
    char small[256], *text = small;
    size_t bytes = 0;
    krafla_status st =
        krafla_tokenizer_decode(r->tokenizer, previous, ids, n, small, sizeof small, &bytes, NULL);
    if (st == KRAFLA_OK && bytes > sizeof small) {
        text = malloc(bytes);
        if (!text) {
            errno = ENOMEM;
            return false;
        }
        krafla_tokenizer_decode(r->tokenizer, previous, ids, n, text, bytes, &bytes, NULL);
    }
    const bool ok = console_write(&r->out, text, bytes);
    if (text != small)
        free(text);
    return ok;
}

/* Evaluate the last id. */
static bool evaluate_one(struct run *r, int *exit_code)
{
    krafla_error err;
    const double start = console_seconds();
    if (krafla_session_sync(r->session, r->ids, r->n_ids, &err) != KRAFLA_OK) {
        *exit_code = args_failed(&err);
        return false;
    }
    r->decode_seconds += console_seconds() - start;
    r->decode_tokens++;
    return true;
}

enum run_end run_reply(struct run *r, size_t max_tokens, size_t positions, int32_t *stop_id,
                       int *exit_code)
{
    krafla_error err;
    for (size_t made = 0; made < max_tokens;) {
        int32_t id;
        if (krafla_sampler_next(r->sampler, krafla_session_logits(r->session), r->ids, r->n_ids,
                                &id, &err) != KRAFLA_OK) {
            *exit_code = args_failed(&err);
            return RUN_FAILED;
        }
        if (is_stop(r, id)) {
            *stop_id = id;
            return RUN_STOPPED;
        }
        if (!run_print(r, r->ids[r->n_ids - 1], &id, 1)) {
            *exit_code = run_output_failed();
            return RUN_FAILED;
        }
        r->ids[r->n_ids++] = id;
        if (++made == max_tokens)
            break;
        if (r->n_ids > positions)
            return RUN_FULL;
        if (!evaluate_one(r, exit_code))
            return RUN_FAILED;
        if (console_interrupted()) {
            r->interrupted = true;
            return RUN_INTERRUPTED;
        }
    }
    return RUN_LIMIT;
}

static double rate(size_t tokens, double seconds)
{
    return seconds > 0.0 ? (double)tokens / seconds : 0.0;
}

void run_statistics(const struct run *r)
{
    krafla_model_info info = {.struct_size = sizeof info};
    krafla_model_describe(r->model, &info);
    if (r->prefill_tokens > 0)
        fprintf(stderr, "prefill: %zu tokens in %.0f ms (%.1f tok/s)\n", r->prefill_tokens,
                r->prefill_seconds * 1e3, rate(r->prefill_tokens, r->prefill_seconds));
    if (r->o->profile) {
        krafla_profile p;
        krafla_session_profile(r->session, &p);
        const double all = p.qkv + p.attention + p.wo + p.ffn + p.classifier + p.other;
        const double percent = all > 0.0 ? 100.0 / all : 0.0;
        fprintf(stderr,
                "profile: qkv %.1f%%, attention %.1f%%, wo %.1f%%, ffn %.1f%%, classifier %.1f%%, "
                "other %.1f%% of %.0f ms\n",
                p.qkv * percent, p.attention * percent, p.wo * percent, p.ffn * percent,
                p.classifier * percent, p.other * percent, all * 1e3);
    }
    fprintf(stderr, "positions: %zu, tok/s: %.1f, threads: %d, isa: %s, packed: %d, kv: %s\n",
            krafla_session_length(r->session), rate(r->decode_tokens, r->decode_seconds),
            (int)krafla_session_threads(r->session), krafla_isa(), (int)info.packed,
            args_kv_types[r->o->kv]);
}
