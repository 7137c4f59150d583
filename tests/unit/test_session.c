/* test_session.c - timelines: prefixes, batches, errors, and logits that depend on the tokens only.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include <math.h>
#include <stdint.h>

#include "krafla.h"
#include "tiny_model.h"

enum { LENGTH = 1100 }; /* ends in the third segment, past the window of the local layer */

static struct tiny_file file;
static char path[512];
static krafla_model *model;
static int32_t tokens[TINY_MAX_SEQ];

static krafla_session *create(int32_t threads, int32_t batch, int32_t kv, int32_t all_logits)
{
    krafla_session_options o;
    krafla_session_defaults(&o);
    o.n_threads = threads;
    o.n_batch = batch;
    o.kv_type = kv;
    o.all_logits = all_logits;
    krafla_session *s = NULL;
    krafla_error err = {0};
    EXPECT(krafla_session_create(&s, model, &o, &err) == KRAFLA_OK);
    EXPECT_STR("", err.message);
    return s;
}

/* Against one thread and full batches. */
static void expect_one_answer(int32_t threads, int32_t batch, int32_t kv, size_t length)
{
    krafla_session *one = create(1, 128, kv, 0), *s = create(threads, batch, kv, 0);
    EXPECT(krafla_session_sync(one, tokens, length, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_sync(s, tokens, length, NULL) == KRAFLA_OK);
    EXPECT(tiny_same(krafla_session_logits(one), krafla_session_logits(s)));
    krafla_session_free(s);
    krafla_session_free(one);
}

static void logits_do_not_depend_on_threads_or_batches(void)
{
    expect_one_answer(3, 127, KRAFLA_KV_F32, LENGTH);
    expect_one_answer(7, 33, KRAFLA_KV_F32, 100);
    expect_one_answer(1, 5, KRAFLA_KV_F32, 100);
    expect_one_answer(2, 100, KRAFLA_KV_F16, 530);
    expect_one_answer(2, 100, KRAFLA_KV_Q8, 530);
}

static void token_by_token_equals_all_at_once(void)
{
    krafla_session *all = create(2, 128, KRAFLA_KV_F32, 1), *step = create(3, 1, KRAFLA_KV_F32, 1);
    const size_t first = 490, n = 530; /* into the second segment */
    size_t different = 0;
    for (size_t i = first; i <= n; i++) {
        const float *at, *alone;
        EXPECT(krafla_session_sync(step, tokens, i, NULL) == KRAFLA_OK);
        if (i == first || i == n) {
            EXPECT(krafla_session_sync(all, tokens, i, NULL) == KRAFLA_OK);
            EXPECT(krafla_session_logits_at(all, i - 1, &at, NULL) == KRAFLA_OK);
            EXPECT(krafla_session_logits_at(step, i - 1, &alone, NULL) == KRAFLA_OK);
            different += !tiny_same(at, krafla_session_logits(step)) || !tiny_same(alone, at);
        }
    }
    EXPECT(different == 0);
    krafla_session_free(all);
    krafla_session_free(step);
}

static void every_position_of_the_last_step_has_logits(void)
{
    krafla_session *s = create(2, 20, KRAFLA_KV_F32, 1), *alone = create(1, 128, KRAFLA_KV_F32, 0);
    const float *logits;
    EXPECT(krafla_session_sync(s, tokens, 33, NULL) == KRAFLA_OK); /* 20, then 13 */
    for (size_t pos = 20; pos < 33; pos++) {
        EXPECT(krafla_session_sync(alone, tokens, pos + 1, NULL) == KRAFLA_OK);
        EXPECT(krafla_session_logits_at(s, pos, &logits, NULL) == KRAFLA_OK);
        EXPECT(tiny_same(logits, krafla_session_logits(alone)));
    }
    EXPECT(krafla_session_logits_at(s, 19, &logits, NULL) == KRAFLA_E_ARGUMENT);
    EXPECT(logits == NULL);
    EXPECT(krafla_session_logits_at(s, 33, &logits, NULL) == KRAFLA_E_ARGUMENT);
    EXPECT(krafla_session_logits_at(alone, 32, &logits, NULL) == KRAFLA_E_ARGUMENT);
    krafla_session_free(s);
    krafla_session_free(alone);
}

static void the_common_prefix_is_kept_and_changes_nothing(void)
{
    krafla_session *s = create(2, 16, KRAFLA_KV_F16, 0);
    EXPECT(krafla_session_logits(s) == NULL);
    EXPECT(krafla_session_sync(s, tokens, 100, NULL) == KRAFLA_OK);
    int32_t other[100];
    memcpy(other, tokens, sizeof other);
    other[50] = (tokens[50] + 1) % TINY_VOCAB;
    static const size_t lengths[] = {100, 51, 50, 30, 31, 1, 100};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        EXPECT(krafla_session_sync(s, other, lengths[i], NULL) == KRAFLA_OK);
        EXPECT(krafla_session_length(s) == lengths[i]);
        krafla_session *fresh = create(1, 128, KRAFLA_KV_F16, 0);
        EXPECT(krafla_session_sync(fresh, other, lengths[i], NULL) == KRAFLA_OK);
        EXPECT(tiny_same(krafla_session_logits(s), krafla_session_logits(fresh)));
        krafla_session_free(fresh);
    }
    krafla_session_free(s);
}

static void the_same_tokens_again_cost_nothing(void)
{
    krafla_session_options o;
    krafla_session_defaults(&o);
    o.profile = 1;
    krafla_session *s;
    EXPECT(krafla_session_create(&s, model, &o, NULL) == KRAFLA_OK);
    krafla_profile before, after;
    EXPECT(krafla_session_sync(s, tokens, 40, NULL) == KRAFLA_OK);
    krafla_session_profile(s, &before);
    EXPECT(before.qkv > 0 && before.attention > 0 && before.wo > 0 && before.ffn > 0 &&
           before.classifier > 0 && before.other > 0);
    EXPECT(krafla_session_sync(s, tokens, 40, NULL) == KRAFLA_OK);
    krafla_session_profile(s, &after);
    EXPECT(before.ffn == after.ffn);
    EXPECT(krafla_session_sync(s, tokens, 39, NULL) == KRAFLA_OK);
    krafla_session_profile(s, &after);
    EXPECT(before.ffn < after.ffn);
    krafla_session_free(s);
}

static void wrong_calls_are_named(void)
{
    krafla_error err;
    krafla_session_options o;
    krafla_session *s = (krafla_session *)&err;
    krafla_session_defaults(&o);
    o.n_ctx = TINY_MAX_SEQ + 1;
    EXPECT(krafla_session_create(&s, model, &o, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(s == NULL);
    EXPECT(strstr(err.message, "--ctx") != NULL);
    krafla_session_defaults(&o);
    o.n_batch = 129;
    EXPECT(krafla_session_create(&s, model, &o, &err) == KRAFLA_E_ARGUMENT);
    krafla_session_defaults(&o);
    o.struct_size--;
    EXPECT(krafla_session_create(&s, model, &o, &err) == KRAFLA_E_ARGUMENT);

    krafla_session_defaults(&o);
    o.n_ctx = 10;
    EXPECT(krafla_session_create(&s, model, &o, &err) == KRAFLA_OK);
    EXPECT(krafla_session_context(s) == 10);
    EXPECT(krafla_session_sync(s, tokens, 0, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(krafla_session_sync(s, tokens, 11, &err) == KRAFLA_E_CONTEXT);
    EXPECT(strstr(err.message, "holds 10") != NULL);
    const int32_t bad[] = {1, TINY_VOCAB}, negative[] = {-1};
    EXPECT(krafla_session_sync(s, bad, 2, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(strstr(err.message, "token 1 is 77") != NULL);
    EXPECT(krafla_session_sync(s, negative, 1, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(krafla_session_length(s) == 0);
    EXPECT(krafla_session_sync(s, tokens, 10, &err) == KRAFLA_OK);
    EXPECT(krafla_session_length(s) == 10);
    krafla_session_free(s);
    krafla_session_free(NULL);
}

/* A norm of 1e38 in layer 1 makes the residual overflow; one of 3e38 at the end, the output. */
static void overflow_is_reported_and_leaves_the_prefix(const char *norm, float gain,
                                                       const char *where)
{
    static struct tiny_file broken;
    tiny_build(&broken, 1);
    uint8_t *gains = tiny_data(&broken, norm);
    for (size_t i = 0; i < TINY_DIM; i++)
        memcpy(gains + i * sizeof gain, &gain, sizeof gain);
    EXPECT(tiny_write(&broken, path));
    krafla_model *m;
    krafla_session *s;
    krafla_error err;
    EXPECT(krafla_model_open(&m, path, NULL, &err) == KRAFLA_OK);
    EXPECT(krafla_session_create(&s, m, NULL, &err) == KRAFLA_OK);
    EXPECT(krafla_session_sync(s, tokens, 20, &err) == KRAFLA_E_NUMERIC);
    EXPECT(strstr(err.message, where) == err.message);
    EXPECT(krafla_session_length(s) == 0);
    EXPECT(krafla_session_logits(s) == NULL);
    krafla_session_free(s);
    krafla_model_close(m);
}

/* Scores of one head that overflow: the NaN they become is found though it is not the whole vector. */
static void a_nan_out_of_attention_is_reported(void)
{
    static struct tiny_file broken;
    struct tiny_arch biased = tiny_plain;
    biased.qkv_bias = 1;
    tiny_build_as(&broken, 1, &biased);
    uint8_t *bias = tiny_data(&broken, "layers.0.bq");
    const float huge = 3e38f;
    for (size_t i = 0; i < TINY_HEAD_DIM; i++)
        memcpy(bias + i * sizeof huge, &huge, sizeof huge);
    EXPECT(tiny_write(&broken, path));
    krafla_model *m;
    krafla_session *s;
    krafla_error err = {0};
    EXPECT(krafla_model_open(&m, path, NULL, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_create(&s, m, NULL, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_sync(s, tokens, 20, &err) == KRAFLA_E_NUMERIC);
    EXPECT(strstr(err.message, "layer 0 computed infinity or NaN") == err.message);
    krafla_session_free(s);
    krafla_model_close(m);
}

/* A step that fails has overwritten the hidden states of the one before. */
static void no_logits_are_left_of_a_failed_sync(int32_t kv_type)
{
    static struct tiny_file broken;
    static const int32_t ids[] = {1, 2, 3, 4, 5};
    tiny_build(&broken, 1);
    uint8_t *row = tiny_data(&broken, "embed") + 5 * (TINY_DIM / 32) * 34;
    row[1] = 0x7e; /* the scale of token 5 is a NaN */
    EXPECT(tiny_write(&broken, path));
    krafla_model *m;
    krafla_session *s;
    krafla_session_options o;
    krafla_session_defaults(&o);
    o.n_batch = 4;
    o.all_logits = 1;
    o.kv_type = kv_type;
    const float *logits;
    EXPECT(krafla_model_open(&m, path, NULL, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_create(&s, m, &o, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_sync(s, ids, 5, NULL) == KRAFLA_E_NUMERIC);
    EXPECT(krafla_session_length(s) == 4);
    EXPECT(krafla_session_logits(s) == NULL);
    EXPECT(krafla_session_logits_at(s, 3, &logits, NULL) == KRAFLA_E_ARGUMENT && !logits);
    EXPECT(krafla_session_sync(s, ids, 4, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_logits_at(s, 3, &logits, NULL) == KRAFLA_OK && logits);
    krafla_session_free(s);
    krafla_model_close(m);
}

/* Opening the file that broken describes fails in every mode, with these words. */
static void expect_refused(struct tiny_file *broken, const char *what, const char *why)
{
    static const int32_t modes[] = {KRAFLA_PACK_MEMORY, KRAFLA_PACK_NONE, KRAFLA_PACK_CACHE};
    EXPECT(tiny_write(broken, path));
    for (size_t i = 0; i < 3; i++) {
        krafla_model_options o;
        krafla_model_defaults(&o);
        o.pack = modes[i];
        krafla_model *m = (krafla_model *)broken;
        krafla_error err;
        EXPECT(krafla_model_open(&m, path, &o, &err) == KRAFLA_E_FORMAT);
        EXPECT(m == NULL);
        EXPECT(strstr(err.message, what) != NULL);
        EXPECT(strstr(err.message, why) != NULL);
    }
}

static void what_cannot_be_computed_is_refused_by_name(void)
{
    static struct tiny_file broken;
    tiny_build(&broken, 1);
    tiny_data(&broken, "classifier")[1] = 0x7c; /* the first scale's exponent: all ones */
    expect_refused(&broken, "tensor classifier, rows 0 to 76", "infinite or NaN");
    tiny_build(&broken, 1);
    tiny_data(&broken, "layers.1.wv")[5] = 0x80; /* a weight of -128 */
    expect_refused(&broken, "tensor layers.1.wv, rows 0 to 47", "-128");

    tiny_build(&broken, 1);
    const float two = 2.0f;
    memcpy(tiny_data(&broken, "rope_freq") + sizeof two, &two, sizeof two);
    expect_refused(&broken, "tensor rope_freq: element 1 is 2", "expected 0 to 1");
    tiny_build_as(&broken, 1, &tiny_linear_only);
    const float negative = -0.5f;
    memcpy(tiny_data(&broken, "layers.0.decay_rate") + sizeof negative, &negative, sizeof negative);
    expect_refused(&broken, "tensor layers.0.decay_rate: element 1 is -0.5", "expected 0 to");
}

/* One element that is no number could be lost where its vector is quantized. */
static void vectors_that_are_not_finite_are_refused_by_name(void)
{
    static struct tiny_file broken;
    static const char *const vectors[] = {
        "layers.0.conv",           "layers.0.dt_bias",  "layers.0.decay_rate",
        "layers.0.delta_norm",     "layers.2.bq",       "layers.2.k_norm",
        "layers.3.attn_post_norm", "layers.3.ffn_norm", "out_norm",
    };
    static const float wrong[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        const float value = wrong[i % 3];
        char what[64];
        snprintf(what, sizeof what, "tensor %s: element 3 is ", vectors[i]);
        tiny_build_as(&broken, 1, &tiny_hybrid);
        memcpy(tiny_data(&broken, vectors[i]) + 3 * sizeof value, &value, sizeof value);
        expect_refused(&broken, what, "expected");
    }
}

static void wrong_model_options_are_named(void)
{
    krafla_model_options o;
    krafla_model *m;
    krafla_error err;
    krafla_model_defaults(&o);
    o.pack = 3;
    EXPECT(krafla_model_open(&m, path, &o, &err) == KRAFLA_E_ARGUMENT);
    krafla_model_defaults(&o);
    o.n_threads = 65;
    EXPECT(krafla_model_open(&m, path, &o, &err) == KRAFLA_E_ARGUMENT);
    o.struct_size = 0;
    EXPECT(krafla_model_open(&m, path, &o, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(strstr(err.message, "krafla_model_defaults") != NULL);
    EXPECT(m == NULL);
}

static void a_model_tells_what_it_is(void)
{
    krafla_model_info info = {.struct_size = sizeof info};
    krafla_model_describe(model, &info);
    EXPECT(info.vocab == TINY_VOCAB && info.dim == TINY_DIM && info.hidden_dim == TINY_HIDDEN);
    EXPECT(info.n_layers == TINY_LAYERS && info.n_heads == TINY_HEADS);
    EXPECT(info.n_kv_heads == TINY_KV_HEADS && info.head_dim == TINY_HEAD_DIM);
    EXPECT(info.max_seq == TINY_MAX_SEQ && info.packed == 16);
    EXPECT(info.file_bytes > info.weight_bytes / 2 && info.weight_bytes > 0);
    EXPECT_STR("tiny", krafla_model_name(model));
    EXPECT_STR("", krafla_model_chat(model));
    /* An older program's shorter struct is filled as far as it goes. */
    krafla_model_info old = {.struct_size = 8, .dim = -1};
    krafla_model_describe(model, &old);
    EXPECT(old.vocab == TINY_VOCAB && old.dim == -1);
}

int main(void)
{
    tiny_path(path, sizeof path, "session.mlb");
    tiny_build(&file, 1);
    EXPECT(tiny_write(&file, path));
    krafla_error err = {0};
    EXPECT(krafla_model_open(&model, path, NULL, &err) == KRAFLA_OK);
    EXPECT_STR("", err.message);
    if (!model)
        return unit_done("test_session");
    for (size_t i = 0; i < TINY_MAX_SEQ; i++)
        tokens[i] = (int32_t)(tiny_random(&file) % TINY_VOCAB);

    logits_do_not_depend_on_threads_or_batches();
    token_by_token_equals_all_at_once();
    every_position_of_the_last_step_has_logits();
    the_common_prefix_is_kept_and_changes_nothing();
    the_same_tokens_again_cost_nothing();
    wrong_calls_are_named();
    a_model_tells_what_it_is();
    krafla_model_close(model);
    overflow_is_reported_and_leaves_the_prefix("layers.1.ffn_norm", 1e38f, "layer 1 computed");
    overflow_is_reported_and_leaves_the_prefix("out_norm", 3e38f, "the output norm computed");
    a_nan_out_of_attention_is_reported();
    for (int32_t kv = KRAFLA_KV_F32; kv <= KRAFLA_KV_Q8; kv++)
        no_logits_are_left_of_a_failed_sync(kv);
    what_cannot_be_computed_is_refused_by_name();
    vectors_that_are_not_finite_are_refused_by_name();
    wrong_model_options_are_named();
    remove(path);
    return unit_done("test_session");
}
