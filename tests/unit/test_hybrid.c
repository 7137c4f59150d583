/* test_hybrid.c - models with linear layers: a timeline that changes gives the bits of a fresh one,
 * and evaluates no more than from the last snapshot on.
 *
 * Every option of the architecture that attention may have is on in one of them.
 * SPDX-License-Identifier: MIT */
#include "unit.h"

#include <stdint.h>

#include "krafla.h"
#include "tiny_model.h"

enum {
    MIB_NEEDED = 1, /* for all snapshots of these models */
    LIFE = 300,
};

/* A linear layer first and last. */
static const struct tiny_arch linear_last = {.layers = 3,
                                             .linear = "0,2",
                                             .local = "",
                                             .no_rope = "",
                                             .rotary = 24,
                                             .rope_scale = "1",
                                             .logit_cap = "0",
                                             .attn_cap = "0",
                                             .attn_gate = 1};

static const struct tiny_arch *const archs[] = {&tiny_hybrid, &linear_last, &tiny_linear_only};

static struct tiny_file file;
static char path[512];
static krafla_model *model;
static int32_t tokens[TINY_MAX_SEQ], other[TINY_MAX_SEQ];

static krafla_session *create(int32_t threads, int32_t batch, int32_t snapshot_mib)
{
    krafla_session_options o;
    krafla_session_defaults(&o);
    o.n_threads = threads;
    o.n_batch = batch;
    o.snapshot_mib = snapshot_mib;
    krafla_session *s = NULL;
    krafla_error err = {0};
    EXPECT(krafla_session_create(&s, model, &o, &err) == KRAFLA_OK);
    EXPECT_STR("", err.message);
    return s;
}

/* s holds ids[0..n) and has the logits of a session that never held anything else. */
static void expect_as_cold(const krafla_session *s, const int32_t *ids, size_t n)
{
    krafla_session *cold = create(1, 128, 0);
    EXPECT(krafla_session_sync(cold, ids, n, NULL) == KRAFLA_OK);
    EXPECT(krafla_session_length(s) == n);
    EXPECT(tiny_same(krafla_session_logits(cold), krafla_session_logits(s)));
    krafla_session_free(cold);
}

static void hold(krafla_session *s, const int32_t *ids, size_t n)
{
    krafla_error err = {0};
    EXPECT(krafla_session_sync(s, ids, n, &err) == KRAFLA_OK);
    EXPECT_STR("", err.message);
}

/* tokens with another one at `at`, in other. */
static const int32_t *changed(size_t at)
{
    memcpy(other, tokens, sizeof other);
    other[at] = (tokens[at] + 1) % TINY_VOCAB;
    return other;
}

static void any_split_into_steps_gives_the_same_bits(void)
{
    static const int32_t batches[] = {1, 2, 5, 63, 127};
    static const int32_t threads[] = {7, 1, 2, 3};
    krafla_session *cold = create(1, 128, 0);
    hold(cold, tokens, 150);
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        krafla_session *s = create(threads[i % 4], batches[i], i % 2 ? MIB_NEEDED : 0);
        hold(s, tokens, 150);
        EXPECT(tiny_same(krafla_session_logits(cold), krafla_session_logits(s)));
        EXPECT(krafla_session_evaluated(s) == 150);
        krafla_session_free(s);
    }
    krafla_session_free(cold);
    krafla_session *s = create(2, 128, MIB_NEEDED);
    size_t n = 0;
    for (size_t step = 1; n + step <= 200; n += step, step = step % 40 + 3)
        hold(s, tokens, n + step);
    expect_as_cold(s, tokens, n);
    krafla_session_free(s);
}

static void logits_change_with_each_of_the_last_tokens(void)
{
    krafla_session *s = create(1, 128, 0), *t = create(1, 128, 0);
    hold(s, tokens, 20);
    for (size_t back = 1; back <= 6; back++) {
        hold(t, changed(20 - back), 20);
        EXPECT(!tiny_same(krafla_session_logits(s), krafla_session_logits(t)));
    }
    krafla_session_free(t);
    krafla_session_free(s);
}

static void an_edit_in_the_middle_starts_at_the_nearest_snapshot(void)
{
    krafla_session *s = create(3, 128, MIB_NEEDED);
    hold(s, tokens, 800);
    EXPECT(krafla_session_evaluated(s) == 800);
    hold(s, changed(400), 800);
    EXPECT(krafla_session_evaluated(s) == 800 - 384); /* one every 128 positions */
    expect_as_cold(s, other, 800);
    hold(s, tokens, 450); /* and back */
    EXPECT(krafla_session_evaluated(s) == 450 - 384);
    expect_as_cold(s, tokens, 450);
    hold(s, changed(3), 10);
    EXPECT(krafla_session_evaluated(s) == 10);
    expect_as_cold(s, other, 10);
    krafla_session_free(s);

    s = create(3, 128, 0); /* without snapshots: from the start */
    hold(s, tokens, 60);
    hold(s, changed(40), 60);
    EXPECT(krafla_session_evaluated(s) == 60);
    expect_as_cold(s, other, 60);
    krafla_session_free(s);
}

/* A prompt, a reply token by token, the next prompt. */
static void turns_can_be_taken_back(void)
{
    krafla_session *s = create(2, 128, MIB_NEEDED);
    hold(s, tokens, 50);
    for (size_t n = 51; n <= 70; n++) {
        hold(s, tokens, n);
        EXPECT(krafla_session_evaluated(s) == 1);
    }
    hold(s, tokens, 90);
    EXPECT(krafla_session_evaluated(s) == 20);
    hold(s, tokens, 90); /* the same again */
    EXPECT(krafla_session_evaluated(s) == 0);

    hold(s, changed(75), 90); /* another second prompt */
    EXPECT(krafla_session_evaluated(s) == 20);
    expect_as_cold(s, other, 90);
    hold(s, other, 70); /* the end of the reply: its logits are there */
    EXPECT(krafla_session_evaluated(s) == 0);
    expect_as_cold(s, other, 70);
    hold(s, other, 50); /* regenerate the first reply */
    EXPECT(krafla_session_evaluated(s) == 0);
    expect_as_cold(s, other, 50);
    hold(s, changed(51), 52);
    EXPECT(krafla_session_evaluated(s) == 2);
    expect_as_cold(s, other, 52);
    krafla_session_free(s);
}

/* A snapshot of tokens that are no longer held must not be taken for one of those that are. */
static void snapshots_of_other_tokens_are_forgotten(void)
{
    krafla_session *s = create(2, 128, MIB_NEEDED);
    hold(s, tokens, 50);
    hold(s, changed(30), 100);
    hold(s, other, 60);
    expect_as_cold(s, other, 60);
    krafla_session_free(s);
}

static void logits_of_a_loaded_snapshot_can_be_asked_by_position(void)
{
    krafla_session_options o;
    krafla_session_defaults(&o);
    o.all_logits = 1;
    krafla_session *s = NULL;
    EXPECT(krafla_session_create(&s, model, &o, NULL) == KRAFLA_OK);
    hold(s, tokens, 40);
    hold(s, tokens, 60);
    hold(s, tokens, 40);
    const float *logits;
    EXPECT(krafla_session_evaluated(s) == 0);
    EXPECT(krafla_session_logits_at(s, 39, &logits, NULL) == KRAFLA_OK);
    EXPECT(tiny_same(logits, krafla_session_logits(s)));
    EXPECT(krafla_session_logits_at(s, 38, &logits, NULL) == KRAFLA_E_ARGUMENT);
    krafla_session_free(s);
}

/* Edits, cuts and continuations at random. */
static void a_random_life_is_as_good_as_a_fresh_start(void)
{
    static const int32_t mib[] = {MIB_NEEDED, 0};
    for (size_t k = 0; k < 2; k++) {
        krafla_session *s = create(2, 100, mib[k]);
        int32_t ids[LIFE];
        memcpy(ids, tokens, sizeof ids);
        size_t n = 1;
        for (int i = 0; i < 16; i++) {
            const uint32_t r = tiny_random(&file);
            if (r % 4 == 0)
                ids[r / 4 % n] = (int32_t)(r / 64 % TINY_VOCAB);
            n = r % 3 == 0 ? r / 16 % LIFE + 1 : n + (r / 16 % 4 == 0 ? 30 : 1);
            n = n > LIFE ? LIFE : n;
            hold(s, ids, n);
            expect_as_cold(s, ids, n);
        }
        krafla_session_free(s);
    }
}

/* Token 5's embedding holds a NaN: the state it went into must be gone. */
static void a_failed_step_leaves_no_trace(const struct tiny_arch *arch)
{
    tiny_build_as(&file, 1, arch);
    tiny_data(&file, "embed")[5 * (TINY_DIM / 32) * 34 + 1] = 0x7e;
    EXPECT(tiny_write(&file, path));
    EXPECT(krafla_model_open(&model, path, NULL, NULL) == KRAFLA_OK);
    int32_t ids[300];
    for (size_t i = 0; i < 300; i++)
        ids[i] = (int32_t)(6 + i % 60);
    for (size_t at = 139; at <= 200; at += 61) { /* last of a step, and in the middle of one */
        krafla_session *s = create(2, 70, MIB_NEEDED);
        krafla_error err = {0};
        hold(s, ids, 100);
        ids[at] = 5;
        EXPECT(krafla_session_sync(s, ids, 300, &err) == KRAFLA_E_NUMERIC);

        char words[80];
        EXPECT(strstr(err.message, "the embedding computed") == err.message);
        snprintf(words, sizeof words, "position %zu (id 5)", at);
        EXPECT(strstr(err.message, words) != NULL);
        EXPECT(krafla_session_length(s) <= at);
        EXPECT(krafla_session_logits(s) == NULL);
        ids[at] = 7;
        hold(s, ids, 300);
        EXPECT(krafla_session_evaluated(s) < 300);
        expect_as_cold(s, ids, 300);
        krafla_session_free(s);
        ids[at] = (int32_t)(6 + at % 60);
    }
    krafla_model_close(model);
}

/* The last value channel of layer 0 is infinite for token 5 and 0 for others: of their normed vectors
 * it sees only the first element, which only token 5 has. */
static void build_overflow(const struct tiny_arch *arch)
{
    const size_t channels = 2 * TINY_K_HEADS * TINY_K_DIM + TINY_V_HEADS * TINY_V_DIM;
    const size_t blocks = TINY_DIM / 32;
    const float huge = 3e38f;
    tiny_build_as(&file, 1, arch);
    uint8_t *embed = tiny_data(&file, "embed"), *conv = tiny_data(&file, "layers.0.conv");
    uint8_t *row = tiny_data(&file, "layers.0.wqkv") + (channels - 1) * blocks * 18;
    for (size_t id = 0; id < TINY_VOCAB; id++)
        embed[id * blocks * 34 + 2] = id == 5 ? 127 : 0;
    for (size_t i = 0; i < blocks; i++)
        memset(row + i * 18 + 2, 0x88, 16);
    row[1] = 0x4c; /* a scale of 16 */
    row[2] = 0x8f; /* 7, and 0 for the 17th element */
    for (size_t tap = 0; tap < TINY_TAPS; tap++)
        memcpy(conv + ((tap + 1) * channels - 1) * sizeof huge, &huge, sizeof huge);
    EXPECT(tiny_write(&file, path));
}

static void a_state_that_overflows_is_named_and_cleared(const struct tiny_arch *arch)
{
    build_overflow(arch);
    EXPECT(krafla_model_open(&model, path, NULL, NULL) == KRAFLA_OK);
    krafla_session *s = create(2, 70, 0);
    int32_t ids[200];
    for (size_t i = 0; i < 200; i++)
        ids[i] = (int32_t)(6 + i % 60);
    hold(s, ids, 100);
    for (size_t at = 120; at <= 169; at += 49) { /* in the middle of a step, and the last of one */
        krafla_error err = {0};
        ids[at] = 5;
        EXPECT(krafla_session_sync(s, ids, 200, &err) == KRAFLA_E_NUMERIC);
        EXPECT(strstr(err.message, "layer 0 computed infinity or NaN") == err.message);
        EXPECT(krafla_session_length(s) <= at);
        ids[at] = 7;
        hold(s, ids, 200);
        expect_as_cold(s, ids, 200);
        hold(s, ids, 100);
    }
    krafla_session_free(s);
    krafla_model_close(model);
}

/* Elements 0 and 32 of the first row of a gate's matrix are so large that the row is infinite of the
 * one sign and then of the other for some tokens; its block computes nothing but 0 besides. */
static void a_gate_that_overflows_is_named(const struct tiny_arch *arch, const char *layer,
                                           const char *norm, const char *gate, size_t block_bytes)
{
    static const char *const inputs[] = {"wq", "wk", "wv", "wqkv", "wb", "wa", "up"};
    const float gain = 1e35f;
    char name[32];
    tiny_build_as(&file, 1, arch);
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) {
        snprintf(name, sizeof name, "%s.%s", layer, inputs[i]);
        tiny_zero(&file, name);
    }
    snprintf(name, sizeof name, "%s.%s", layer, norm);
    for (size_t i = 0; i < TINY_DIM; i++)
        memcpy(tiny_data(&file, name) + i * sizeof gain, &gain, sizeof gain);
    snprintf(name, sizeof name, "%s.%s", layer, gate);
    for (size_t i = 0; i < 2; i++) {
        uint8_t *block = tiny_data(&file, name) + i * block_bytes;
        block[0] = 0xff; /* 65504, the largest scale */
        block[1] = 0x7b;
        memset(block + 2, block_bytes == 18 ? 0x88 : 0, block_bytes - 2);
        block[2] = block_bytes == 18 ? 0x8f : 127;
    }
    EXPECT(tiny_write(&file, path));
    EXPECT(krafla_model_open(&model, path, NULL, NULL) == KRAFLA_OK);
    krafla_session *s = create(1, 128, 0);
    krafla_error err = {0};
    EXPECT(krafla_session_sync(s, tokens, 60, &err) == KRAFLA_E_NUMERIC);
    snprintf(name, sizeof name, "layer %s computed", layer + strlen("layers."));
    EXPECT(strstr(err.message, name) == err.message);
    krafla_session_free(s);
    krafla_model_close(model);
}

int main(void)
{
    tiny_path(path, sizeof path, "hybrid.mlb");
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        tiny_build_as(&file, 1 + (uint32_t)i, archs[i]);
        EXPECT(tiny_write(&file, path));
        krafla_error err = {0};
        EXPECT(krafla_model_open(&model, path, NULL, &err) == KRAFLA_OK);
        EXPECT_STR("", err.message);
        if (!model)
            return unit_done("test_hybrid");
        for (size_t t = 0; t < TINY_MAX_SEQ; t++)
            tokens[t] = (int32_t)(tiny_random(&file) % TINY_VOCAB);
        any_split_into_steps_gives_the_same_bits();
        logits_change_with_each_of_the_last_tokens();
        an_edit_in_the_middle_starts_at_the_nearest_snapshot();
        turns_can_be_taken_back();
        snapshots_of_other_tokens_are_forgotten();
        logits_of_a_loaded_snapshot_can_be_asked_by_position();
        a_random_life_is_as_good_as_a_fresh_start();
        krafla_model_close(model);
        a_failed_step_leaves_no_trace(archs[i]);
        a_state_that_overflows_is_named_and_cleared(archs[i]);
    }
    a_gate_that_overflows_is_named(&tiny_linear_only, "layers.0", "attn_norm", "wz", 18);
    a_gate_that_overflows_is_named(&linear_last, "layers.1", "attn_norm", "wg", 34);
    a_gate_that_overflows_is_named(&linear_last, "layers.1", "ffn_norm", "gate", 18);
    remove(path);
    return unit_done("test_hybrid");
}
