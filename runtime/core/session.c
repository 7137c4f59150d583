/* session.c - one token timeline: what has been evaluated, its KV cache and logits.
 *
 * krafla_session_sync is the only way forward; chat, servers and speculation
 * are all that one call.  The computation is forward.c.  A hybrid model's state
 * stands at one position; to go back, it is loaded from a snapshot.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "forward.h"
#include "memory.h"
#include "snapshots.h"

enum {
    DEFAULT_CTX = 4096, /* a model's own 128K would reserve gigabytes unasked */
    DEFAULT_BATCH = KERN_MAX_COLS,
    DEFAULT_SNAPSHOT_MIB = 256,
    MAX_SNAPSHOT_MIB = 1 << 20,
    MIB_SHIFT = 20,
};

struct krafla_session {
    const krafla_model *model;
    struct kr_pool *pool;
    struct kr_arena arena;
    struct kr_kvcache kv;
    struct kr_forward forward;
    size_t ctx;

    int32_t *tokens;  /* [ctx] */
    size_t length;    /* tokens held */
    size_t evaluated; /* tokens of the last sync */

    struct kr_snapshots snapshots; /* no slots if the model has no linear layers */
    size_t state_pos;              /* the state is that after so many tokens */
    const float *hidden;           /* in forward.y: the token before state_pos, or NULL */

    float *logits;        /* [vocab] after the last token */
    size_t logits_length; /* the length they belong to; 0: none */

    bool all_logits;
    float *group_logits;          /* [KR_LOGITS_COLS][vocab] */
    size_t group_size;            /* positions computed at once */
    size_t step_pos, step_cols;   /* the last step, whose hidden states are in forward.y */
    size_t group_pos, group_cols; /* what is in group_logits */
};

void krafla_session_defaults(krafla_session_options *o)
{
    *o = (krafla_session_options){.struct_size = sizeof *o,
                                  .n_batch = DEFAULT_BATCH,
                                  .kv_type = KRAFLA_KV_F32,
                                  .snapshot_mib = DEFAULT_SNAPSHOT_MIB};
}

/* One integer option in its range. */
static krafla_status check_range(const char *name, int32_t value, int32_t min, int32_t max,
                                 krafla_error *err)
{
    if (value < min || value > max)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "%s is %d, expected %d to %d", name, value, min,
                       max);
    return KRAFLA_OK;
}

static krafla_status check_options(const krafla_session_options *o, const struct kr_mlb *m,
                                   krafla_error *err)
{
    if (o->struct_size != sizeof *o)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "krafla_session_options: struct_size is %u, expected %zu: call "
                       "krafla_session_defaults() first",
                       o->struct_size, sizeof *o);
    if (o->n_ctx < 0 || o->n_ctx > m->max_seq)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "context length is %d, expected 1 to this model's %d (--ctx)", o->n_ctx,
                       m->max_seq);
    krafla_status st = check_range("number of threads", o->n_threads, 0, KR_MAX_THREADS, err);
    if (st == KRAFLA_OK)
        st = check_range("prompt batch", o->n_batch, 1, KERN_MAX_COLS, err);
    if (st == KRAFLA_OK)
        st = check_range("KV cache type", o->kv_type, KRAFLA_KV_F32, KRAFLA_KV_Q8, err);
    if (st == KRAFLA_OK)
        st = check_range("snapshot memory in MiB", o->snapshot_mib, 0, MAX_SNAPSHOT_MIB, err);
    if (st == KRAFLA_OK && o->kv_type == KRAFLA_KV_Q8 && m->head_dim > KERN_Q8_MAX_DIM)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "a q8 KV cache holds heads of up to %d elements, this model's have %d: use "
                       "--kv f16",
                       KERN_Q8_MAX_DIM, m->head_dim);
    return st;
}

/* All buffers, in the order of the arena (twice: see arena.h). */
static void lay_out(krafla_session *s)
{
    const size_t vocab = (size_t)s->model->file.vocab;
    s->tokens = kr_arena_take(&s->arena, s->ctx, sizeof *s->tokens);
    s->logits = kr_arena_take(&s->arena, vocab, sizeof(float));
    if (s->all_logits)
        s->group_logits = kr_arena_take(&s->arena, vocab, s->group_size * sizeof(float));
    kr_forward_lay_out(&s->forward, &s->arena, s->ctx);
}

/* Snapshots are a convenience: they get no more than half of the memory that is left. */
static void allocate_snapshots(krafla_session *s, int32_t mib, uint64_t left)
{
    const struct kr_mlb *m = &s->model->file;
    const uint64_t wanted = (uint64_t)mib << MIB_SHIFT;
    if (m->n_linear > 0)
        kr_snapshots_alloc(&s->snapshots, s->forward.delta.state_floats, (size_t)m->dim,
                           wanted < left / 2 ? wanted : left / 2);
}

static krafla_status allocate(krafla_session *s, const krafla_session_options *o, krafla_error *err)
{
    const struct kr_mlb *m = &s->model->file;
    const enum kern_kvtype type = (enum kern_kvtype)o->kv_type;
    const bool fits = kr_kvcache_plan(&s->kv, type, s->ctx, (size_t)m->n_attention,
                                      (size_t)m->n_kv_heads, (size_t)m->head_dim);
    lay_out(s);
    const uint64_t cache = s->kv.bytes, buffers = s->arena.used, left = kr_memory_available("");
    if (fits && cache + buffers <= left && kr_arena_alloc(&s->arena) && kr_kvcache_alloc(&s->kv)) {
        lay_out(s);
        allocate_snapshots(s, o->snapshot_mib, left - cache - buffers);
        return KRAFLA_OK;
    }
    if (!fits || s->arena.overflow)
        return kr_fail(err, KRAFLA_E_MEMORY,
                       "out of memory: a context of %zu positions does not fit this system's "
                       "address space; use a smaller --ctx or --kv q8",
                       s->ctx);
    return kr_fail(err, KRAFLA_E_MEMORY,
                   "out of memory: the KV cache of %zu positions needs %llu MiB, %s %llu MiB, "
                   "and %llu MiB are available; use a smaller --ctx%s",
                   s->ctx, (unsigned long long)cache >> MIB_SHIFT,
                   m->n_linear > 0 ? "the linear layers' state and buffers" : "buffers",
                   (unsigned long long)buffers >> MIB_SHIFT, (unsigned long long)left >> MIB_SHIFT,
                   type == KERN_KV_Q8 ? "" : " or --kv q8");
}

static krafla_status set_up(krafla_session *s, const krafla_session_options *o, krafla_error *err)
{
    const struct kr_mlb *m = &s->model->file;
    const int32_t threads = o->n_threads ? o->n_threads : krafla_default_threads(NULL);
    const int32_t usual = m->max_seq < DEFAULT_CTX ? m->max_seq : DEFAULT_CTX;
    s->ctx = (size_t)(o->n_ctx ? o->n_ctx : usual);
    s->all_logits = o->all_logits != 0;
    s->group_size = (size_t)(o->n_batch < KR_LOGITS_COLS ? o->n_batch : KR_LOGITS_COLS);

    const krafla_status st = kr_pool_create(&s->pool, (size_t)threads, err);
    if (st != KRAFLA_OK)
        return st;
    s->forward = (struct kr_forward){.m = m,
                                     .pool = s->pool,
                                     .kv = &s->kv,
                                     .batch = (size_t)o->n_batch,
                                     .profile = o->profile != 0};
    return allocate(s, o, err);
}

krafla_status krafla_session_create(krafla_session **out, const krafla_model *m,
                                    const krafla_session_options *o, krafla_error *err)
{
    *out = NULL;
    krafla_session_options defaults;
    krafla_session_defaults(&defaults);
    if (!o)
        o = &defaults;
    krafla_status st = check_options(o, &m->file, err);
    if (st != KRAFLA_OK)
        return st;

    krafla_session *s = calloc(1, sizeof *s);
    if (!s)
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory for a session");
    s->model = m;
    st = set_up(s, o, err);
    if (st != KRAFLA_OK) {
        krafla_session_free(s);
        return st;
    }
    *out = s;
    return KRAFLA_OK;
}

void krafla_session_free(krafla_session *s)
{
    if (!s)
        return;
    kr_pool_free(s->pool);
    kr_snapshots_free(&s->snapshots);
    kr_kvcache_free(&s->kv);
    kr_arena_free(&s->arena);
    free(s);
}

static krafla_status check_tokens(const krafla_session *s, const int32_t *tokens, size_t n,
                                  krafla_error *err)
{
    if (n == 0)
        return kr_fail(err, KRAFLA_E_ARGUMENT, "no tokens: at least one is needed");
    if (n > s->ctx)
        return kr_fail(err, KRAFLA_E_CONTEXT,
                       "%zu tokens do not fit: the context holds %zu (--ctx)", n, s->ctx);
    const int32_t vocab = s->model->file.vocab;
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= vocab)
            return kr_fail(err, KRAFLA_E_ARGUMENT, "token %zu is %d, expected 0 to %d", i,
                           tokens[i], vocab - 1);
    return KRAFLA_OK;
}

static size_t common_prefix(const krafla_session *s, const int32_t *tokens, size_t n)
{
    size_t i = 0;
    while (i < n && i < s->length && s->tokens[i] == tokens[i])
        i++;
    return i;
}

/* The state before position 0. */
static void clear_state(krafla_session *s)
{
    const struct kr_delta *d = &s->forward.delta;
    if (d->state)
        memset(d->state, 0, d->state_floats * sizeof *d->state);
    s->state_pos = 0;
    s->hidden = NULL;
}

/* Where evaluation goes on: tokens[0..common) are those held.  n itself, if nothing is missing but
 * the logits. */
static size_t resume(krafla_session *s, size_t common, size_t n)
{
    const size_t before = common < n ? common : n - 1; /* the last token gives the logits */
    if (s->model->file.n_linear == 0)
        return before;
    kr_snapshots_cut(&s->snapshots, common);
    const struct kr_snapshot *k = kr_snapshots_find(&s->snapshots, common);
    if (s->state_pos <= before && (!k || k->pos <= s->state_pos)) {
        if (n - s->state_pos > 1 && s->hidden) /* a turn begins */
            kr_snapshots_add(&s->snapshots, s->state_pos, true, s->forward.delta.state, s->hidden);
        return s->state_pos;
    }
    clear_state(s);
    if (k) {
        kr_snapshots_load(&s->snapshots, k, s->forward.delta.state, s->forward.y);
        s->state_pos = k->pos;
        s->hidden = s->forward.y;
    }
    return s->state_pos;
}

/* A step failed: nothing of it may stay where a later one could meet it. */
static void drop_step(krafla_session *s, size_t cols)
{
    s->step_cols = 0; /* the hidden states of the step before are overwritten */
    clear_state(s);
    memset(s->forward.qkv, 0, (size_t)s->model->file.head_dim * sizeof(float));
    kr_kvcache_clear(&s->kv, s->length, s->length + cols, s->forward.qkv);
}

static void leave_logits(krafla_session *s, size_t row)
{
    kr_forward_logits(&s->forward, row, 1, s->logits);
    s->logits_length = s->length;
}

/* Append tokens[0..cols); the last step of a sync leaves logits. */
static krafla_status append(krafla_session *s, const int32_t *tokens, size_t cols, bool last,
                            krafla_error *err)
{
    const bool turn = last && s->evaluated + cols > 1; /* not the next token of a reply */
    const bool keep = turn || kr_snapshots_due(&s->snapshots, s->length + cols);
    const struct kr_step step = {
        .tokens = tokens,
        .cols = cols,
        .pos = s->length,
        .first_needed = s->all_logits  ? 0
                        : last || keep ? cols - 1
                                       : cols,
    };
    const krafla_status st = kr_forward_step(&s->forward, &step, err);
    if (st != KRAFLA_OK) {
        drop_step(s, cols);
        return st;
    }
    memcpy(s->tokens + s->length, tokens, cols * sizeof *tokens);
    s->step_pos = s->length;
    s->step_cols = cols;
    s->length += cols;
    s->evaluated += cols;
    s->state_pos = s->length;
    const size_t row = cols - 1 - step.first_needed;
    s->hidden = step.first_needed < cols ? s->forward.y + row * (size_t)s->model->file.dim : NULL;
    if (keep)
        kr_snapshots_add(&s->snapshots, s->length, turn, s->forward.delta.state, s->hidden);
    if (last)
        leave_logits(s, row);
    return KRAFLA_OK;
}

krafla_status krafla_session_sync(krafla_session *s, const int32_t *tokens, size_t n,
                                  krafla_error *err)
{
    krafla_status st = check_tokens(s, tokens, n, err);
    if (st != KRAFLA_OK)
        return st;
    s->evaluated = 0;
    const size_t common = common_prefix(s, tokens, n);
    if (common == n && s->length == n && s->logits_length == n)
        return KRAFLA_OK;

    s->length = resume(s, common, n);
    s->logits_length = 0;
    s->step_cols = s->group_cols = 0;
    const uint32_t fp = kern_fp_begin();
    kr_pool_wake(s->pool);
    if (s->length == n) {
        s->step_pos = n - 1;
        s->step_cols = 1;
        leave_logits(s, 0);
    }
    while (st == KRAFLA_OK && s->length < n) {
        const size_t left = n - s->length;
        const size_t cols = left < s->forward.batch ? left : s->forward.batch;
        st = append(s, tokens + s->length, cols, cols == left, err);
    }
    kern_fp_end(fp);
    return st;
}

krafla_status krafla_session_logits_at(krafla_session *s, size_t pos, const float **logits,
                                       krafla_error *err)
{
    *logits = NULL;
    if (!s->all_logits)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "the session keeps only the last logits: create it with all_logits = 1");
    if (pos < s->step_pos || pos - s->step_pos >= s->step_cols)
        return kr_fail(
            err, KRAFLA_E_ARGUMENT,
            "position %zu is not one of the %zu from %zu on that the last step evaluated", pos,
            s->step_cols, s->step_pos);
    if (pos < s->group_pos || pos - s->group_pos >= s->group_cols) {
        const size_t row = (pos - s->step_pos) / s->group_size * s->group_size;
        const size_t left = s->step_cols - row;
        s->group_pos = s->step_pos + row;
        s->group_cols = left < s->group_size ? left : s->group_size;
        const uint32_t fp = kern_fp_begin();
        kr_pool_wake(s->pool);
        kr_forward_logits(&s->forward, row, s->group_cols, s->group_logits);
        kern_fp_end(fp);
    }
    *logits = s->group_logits + (pos - s->group_pos) * (size_t)s->model->file.vocab;
    return KRAFLA_OK;
}

size_t krafla_session_length(const krafla_session *s)
{
    return s->length;
}

size_t krafla_session_evaluated(const krafla_session *s)
{
    return s->evaluated;
}

int32_t krafla_session_context(const krafla_session *s)
{
    return (int32_t)s->ctx;
}

int32_t krafla_session_threads(const krafla_session *s)
{
    return (int32_t)kr_pool_threads(s->pool);
}

const float *krafla_session_logits(const krafla_session *s)
{
    return s->logits_length ? s->logits : NULL;
}

void krafla_session_profile(const krafla_session *s, krafla_profile *p)
{
    const double *t = s->forward.seconds;
    *p = (krafla_profile){.qkv = t[KR_STAGE_QKV],
                          .attention = t[KR_STAGE_ATTENTION],
                          .wo = t[KR_STAGE_WO],
                          .ffn = t[KR_STAGE_FFN],
                          .classifier = t[KR_STAGE_CLASSIFIER],
                          .other = t[KR_STAGE_OTHER]};
}
