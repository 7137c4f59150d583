/* bench_model.c - prefill and decode of a model, beside what memory and the dot instruction allow.
 *
 * Ids are made up and nothing is sampled.  Prefill and decode alternate, and
 * the limits are measured between their pieces, so that a busy minute of the
 * machine hits all of them.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "console.h"
#include "kvcache.h"
#include "map.h"
#include "model.h"

enum {
    FILL_STEP = 512,  /* tokens of a long prompt between two looks at Ctrl-C */
    DECODE_SLICE = 8, /* tokens between two readings of memory: about 10 % of the time */
    WARM_UP_TOKENS = 2,
    SINGLE = 5, /* last matrices that are for the last token: wo, gate, up, down, classifier */
};

/* Memory of the probe: as much as the weights, but not a whole big model again. */
static const uint64_t MAX_PROBE = (uint64_t)1 << 30, MIN_PROBE = (uint64_t)1 << 16;
static const double READ_SECONDS = 5e-3;

struct run {
    const struct bench_plan *plan;
    const krafla_model *model;
    krafla_session *session;
    struct kr_pool *pool; /* of the limits; as many threads as the session's */
    uint8_t *probe;
    size_t probe_bytes;
    int32_t *tokens; /* [the deepest depth + the longer test] */
    size_t n_tokens;
    uint32_t turn; /* tests so far: none shares its first token with the one before */
    uint64_t weight_bytes, position_bytes; /* position: K and V of one layer */
    const char *peak_name;
};

/* What the repetitions of one cell gave. */
struct samples {
    double prefill[BENCH_MAX_REPS], macs[BENCH_MAX_REPS], peak[BENCH_MAX_REPS];
    double decode[BENCH_MAX_REPS], bytes[BENCH_MAX_REPS], read[BENCH_MAX_REPS];
    double of_peak[BENCH_MAX_REPS], of_read[BENCH_MAX_REPS];
};

/* ---- what a test costs -------------------------------------------------------------------- */

/* Multiplications of all matrix products of a prompt of n tokens by type.  The last layer computes
 * only its inputs for the tokens before the last one: nobody reads the rest (forward.c). */
static void prompt_macs(const krafla_model *m, size_t n, uint64_t macs[2])
{
    macs[KERN_Q8] = macs[KERN_Q4] = 0;
    const size_t first_single = m->matrices - SINGLE;
    for (size_t i = 0; i < m->matrices; i++) {
        const struct kern_matrix *w = m->matrix[i].w;
        macs[w->wtype] += (uint64_t)w->rows * w->k * (i < first_single ? n : 1);
    }
}

/* Bytes of K and V, and of the linear layers' states, that the token at position pos reads. */
static uint64_t cache_bytes(const struct run *r, size_t pos)
{
    const struct kr_mlb *m = &r->model->file;
    const struct kr_linear *n = &m->linear;
    const uint64_t state = (uint64_t)n->values * (uint64_t)n->k_dim * sizeof(float);
    uint64_t positions = 0;
    for (size_t i = 0; i < (size_t)m->n_layers; i++) {
        if (m->layers[i].linear)
            continue;
        const size_t window = m->layers[i].local ? (size_t)m->window : SIZE_MAX;
        positions += pos + 1 < window ? pos + 1 : window;
    }
    return positions * r->position_bytes + (uint64_t)m->n_linear * state;
}

/* ---- one test -------------------------------------------------------------------------------- */

/* Make the session hold tokens[0..n); false if that failed, with *code set.  Ctrl-C ends here. */
static bool sync_to(struct run *r, size_t n, int *code)
{
    krafla_error err;
    bench_heed_interrupt();
    if (krafla_session_sync(r->session, r->tokens, n, &err) == KRAFLA_OK)
        return true;
    *code = args_failed(&err);
    return false;
}

/* From position `depth` on, a timeline that differs from that of the test before. */
static void change_tokens(struct run *r, size_t depth)
{
    r->tokens[depth] = (int32_t)(r->turn++ % (uint32_t)r->model->file.vocab);
}

/* The peak of a mix of both types: all multiplications in the time that both would take. */
static double peak_of(struct run *r, const uint64_t macs[2])
{
    double seconds = 0.0;
    for (size_t w = 0; w < 2; w++)
        if (macs[w] > 0)
            seconds += (double)macs[w] / bench_peak_rate(r->pool, w, &r->peak_name);
    return (double)(macs[0] + macs[1]) / seconds;
}

static bool prefill(struct run *r, size_t depth, size_t n, struct samples *s, size_t rep, int *code)
{
    uint64_t macs[2];
    prompt_macs(r->model, n, macs);
    change_tokens(r, depth);
    const double before = peak_of(r, macs);
    const double start = console_seconds();
    if (!sync_to(r, depth + n, code))
        return false;
    const double seconds = console_seconds() - start, after = peak_of(r, macs);
    s->prefill[rep] = (double)n / seconds;
    s->macs[rep] = (double)(macs[0] + macs[1]) / seconds;
    s->peak[rep] = before > after ? before : after;
    s->of_peak[rep] = 100.0 * s->macs[rep] / s->peak[rep];
    return true;
}

/* Bytes per second of plain reading: the mean of the passes that fit READ_SECONDS, at least one. */
static double read_rate(const struct run *r)
{
    double seconds = 0.0, bytes = 0.0;
    while (seconds < READ_SECONDS) {
        seconds += (double)r->probe_bytes / bench_read_rate(r->pool, r->probe, r->probe_bytes);
        bytes += (double)r->probe_bytes;
    }
    return bytes / seconds;
}

static bool decode(struct run *r, size_t depth, size_t n, struct samples *s, size_t rep, int *code)
{
    double seconds = 0.0, bytes = 0.0;
    double read = read_rate(r);
    size_t reads = 1;
    change_tokens(r, depth);
    for (size_t i = 0; i < n; i += DECODE_SLICE) {
        const size_t end = n - i < DECODE_SLICE ? n : i + DECODE_SLICE;
        const double start = console_seconds();
        for (size_t j = i; j < end; j++) {
            if (!sync_to(r, depth + j + 1, code))
                return false;
            bytes += (double)(r->weight_bytes + cache_bytes(r, depth + j));
        }
        seconds += console_seconds() - start;
        read += read_rate(r);
        reads++;
    }
    s->decode[rep] = (double)n / seconds;
    s->bytes[rep] = bytes / seconds;
    s->read[rep] = read / (double)reads;
    s->of_read[rep] = 100.0 * s->bytes[rep] / s->read[rep];
    return true;
}

/* ---- one cell: all repetitions at one depth ------------------------------------------------------ */

static bool fill(struct run *r, size_t depth, int *code)
{
    for (size_t n = 0; n < depth;) {
        n = depth - n < FILL_STEP ? depth : n + FILL_STEP;
        console_progress("%d threads: filling the cache, %zu of %zu tokens ...",
                         (int)krafla_session_threads(r->session), n, depth);
        if (!sync_to(r, n, code))
            return false;
    }
    return true;
}

static bool measure_cell(struct run *r, struct bench_cell *cell, size_t depth, struct samples *s,
                         int *code)
{
    const struct bench_plan *p = r->plan;
    const size_t warm_up = p->decode < WARM_UP_TOKENS ? p->decode : WARM_UP_TOKENS;
    bool ok = fill(r, depth, code) && prefill(r, depth, p->prompt, s, 0, code) &&
              decode(r, depth, warm_up, s, 0, code);
    for (size_t i = 0; i < p->reps && ok; i++) {
        console_progress("%d threads, depth %zu: repetition %zu of %zu ...",
                         (int)krafla_session_threads(r->session), depth, i + 1, p->reps);
        ok = prefill(r, depth, p->prompt, s, i, code) && decode(r, depth, p->decode, s, i, code);
    }
    if (!ok)
        return false;
    *cell = (struct bench_cell){.threads = krafla_session_threads(r->session),
                                .depth = (int32_t)depth,
                                .prefill = bench_stat(s->prefill, p->reps),
                                .decode = bench_stat(s->decode, p->reps),
                                .prefill_macs = bench_stat(s->macs, p->reps).median,
                                .peak_macs = bench_stat(s->peak, p->reps).median,
                                .prefill_percent = bench_stat(s->of_peak, p->reps).median,
                                .decode_bytes = bench_stat(s->bytes, p->reps).median,
                                .read_bytes = bench_stat(s->read, p->reps).median,
                                .decode_percent = bench_stat(s->of_read, p->reps).median};
    return true;
}

/* ---- all of it -------------------------------------------------------------------------------- */

static int out_of_memory(const char *of)
{
    console_progress("%s", "");
    console_error("out of memory for %s", of);
    return ARGS_RUNTIME;
}

/* A session and a pool of `threads`, and every depth with them. */
static int measure_threads(struct run *r, int32_t threads, struct bench_cell *cells,
                           struct samples *s)
{
    krafla_error err;
    krafla_session_options so;
    krafla_session_defaults(&so);
    so.n_ctx = (int32_t)r->n_tokens;
    so.n_threads = threads;
    so.n_batch = r->plan->batch;
    so.kv_type = r->plan->kv;
    if (krafla_session_create(&r->session, r->model, &so, &err) != KRAFLA_OK ||
        kr_pool_create(&r->pool, (size_t)krafla_session_threads(r->session), &err) != KRAFLA_OK)
        return args_failed(&err);
    console_progress("%s", "");
    args_print_threads(threads, krafla_session_threads(r->session));
    int code = ARGS_OK;
    for (size_t i = 0; i < r->plan->n_depths; i++)
        if (!measure_cell(r, &cells[i], (size_t)r->plan->depths[i], s, &code))
            break;
    return code;
}

static void drop_session(struct run *r)
{
    kr_pool_free(r->pool);
    krafla_session_free(r->session);
    r->pool = NULL;
    r->session = NULL;
}

/* Tokens, the probe's memory, bytes of a cached position. */
static int set_up(struct run *r)
{
    const struct bench_plan *p = r->plan;
    const struct kr_mlb *m = &r->model->file;
    size_t deepest = 0;
    for (size_t i = 0; i < p->n_depths; i++)
        deepest = (size_t)p->depths[i] > deepest ? (size_t)p->depths[i] : deepest;
    const size_t longer = p->prompt > p->decode ? p->prompt : p->decode;
    r->n_tokens = deepest + longer;
    if (r->n_tokens > (size_t)m->max_seq)
        return args_usage_error(p->program,
                                "%zu tokens at a depth of %zu are more than the %d positions of "
                                "this model: use a smaller -n, --prefill or --depth",
                                longer, deepest, (int)m->max_seq);

    struct kr_kvcache plan;
    kr_kvcache_plan(&plan, (enum kern_kvtype)p->kv, KERN_SEGMENT, 1, (size_t)m->n_kv_heads,
                    (size_t)m->head_dim);
    r->position_bytes = plan.bytes / KERN_SEGMENT;
    r->weight_bytes = kr_model_weight_bytes(r->model);
    uint64_t bytes = r->weight_bytes < MAX_PROBE ? r->weight_bytes : MAX_PROBE;
    r->probe_bytes = (size_t)(bytes > MIN_PROBE ? bytes : MIN_PROBE);
    r->probe = kr_big_alloc(r->probe_bytes);
    r->tokens = calloc(r->n_tokens, sizeof *r->tokens);
    if (!r->probe || !r->tokens)
        return out_of_memory("the reading of memory");
    memset(r->probe, 1, r->probe_bytes); /* real pages, not the one of zeros */

    uint32_t state = 12345;
    for (size_t i = 0; i < r->n_tokens; i++) {
        state = state * 1664525u + 1013904223u;
        r->tokens[i] = (int32_t)((state >> 8) % (uint32_t)m->vocab);
    }
    return ARGS_OK;
}

static int measure_all(struct bench_model_result *out, struct run *r)
{
    const struct bench_plan *p = r->plan;
    int code = set_up(r);
    if (code != ARGS_OK)
        return code;
    struct samples *s = calloc(1, sizeof *s);
    out->cells = calloc(p->n_threads * p->n_depths, sizeof *out->cells);
    if (!s || !out->cells)
        code = out_of_memory("the results");
    for (size_t i = 0; i < p->n_threads && code == ARGS_OK; i++) {
        code = measure_threads(r, p->threads[i], out->cells + out->n_cells, s);
        out->n_cells += p->n_depths;
        drop_session(r);
    }
    console_progress("%s", "");
    out->peak_name = r->peak_name;
    out->position_bytes = r->position_bytes * (uint64_t)r->model->file.n_attention;
    free(s);
    return code;
}

static void show_loading(void *arg, uint64_t done, uint64_t total)
{
    (void)arg;
    bench_heed_interrupt();
    console_progress("loading: %d %%", (int)(100.0 * (double)done / (double)total));
}

int bench_model(struct bench_model_result *out, const struct bench_plan *plan)
{
    krafla_error err;
    krafla_model *model;
    krafla_model_options mo;
    *out = (struct bench_model_result){.info.struct_size = sizeof out->info};
    krafla_model_defaults(&mo);
    mo.pack = plan->pack;
    for (size_t i = 0; i < plan->n_threads; i++)
        mo.n_threads = plan->threads[i] > mo.n_threads ? plan->threads[i] : mo.n_threads;
    mo.progress = show_loading;
    const double start = console_seconds();
    if (krafla_model_open(&model, plan->path, &mo, &err) != KRAFLA_OK)
        return args_failed(&err);
    out->load_seconds = console_seconds() - start;
    krafla_model_describe(model, &out->info);
    strncat(out->name, krafla_model_name(model), sizeof out->name - 1);

    struct run r = {.plan = plan, .model = model};
    const int code = measure_all(out, &r);
    free(r.tokens);
    kr_big_free(r.probe, r.probe_bytes);
    krafla_model_close(model);
    return code;
}
