/* check_delta.c - the gated delta rule: convolution, gates, state.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "check.h"
#include "ref/ref.h"

enum { MAX_TAPS = 8 };

static void check_conv(struct check *c)
{
    static const size_t lengths[] = {1, 15, 16, 24, 100, 256}, taps[] = {2, 3, 4, MAX_TAPS};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (size_t t = 0; t < sizeof taps / sizeof *taps; t++) {
            const size_t n = lengths[i];
            if (!check_case(c, "conv_silu n=%zu taps=%zu", n, taps[t]))
                continue;
            const float *x[MAX_TAPS];
            float *w = check_floats(c, taps[t] * n), *sum = check_floats(c, n),
                  *ones = check_floats(c, n), *bits = check_floats(c, n), *got = check_floats(c, n);
            double *want = check_doubles(c, n), *mag = check_doubles(c, n);
            check_fill_small(c, w, taps[t] * n, 2.0f);
            for (size_t j = 0; j < taps[t]; j++) {
                float *input = check_floats(c, n);
                check_fill_f32(c, input, n);
                x[j] = input;
            }
            for (size_t j = 0; j < n; j++)
                ones[j] = 1.0f;

            ref_conv(want, mag, x, w, taps[t], n);
            ref_conv_bits(sum, x, w, taps[t], n, c->fused);
            /* half of: a chain of products, each step a product and a sum */
            check_f32(c, want, mag, sum, n, (double)taps[t] + 1.0);
            kern_silu_mul(bits, sum, ones, n);
            kern_conv_silu(got, x, w, taps[t], n);
            check_bits(c, "SiLU of the chain", bits, got, n * sizeof *got);
        }
}

static void check_gate_values(struct check *c, const float *a, const float *b, const float *rate,
                              const float *bias, size_t n)
{
    float *decay = check_floats(c, n), *beta = check_floats(c, n);
    double *want_decay = check_doubles(c, n), *want_beta = check_doubles(c, n);
    ref_delta_gates(want_decay, want_beta, a, b, rate, bias, n);
    kern_delta_gates(decay, beta, a, b, rate, bias, n);
    /* A rounding to float is all: their own size is the magnitude. */
    check_f32(c, want_decay, want_decay, decay, n, 1.0 + 1e-5);
    check_f32(c, want_beta, want_beta, beta, n, 1.0 + 1e-5);
    for (size_t i = 0; i < n; i++)
        if (!(decay[i] >= 0.0f && decay[i] <= 1.0f && beta[i] >= 0.0f && beta[i] <= 1.0f))
            check_fail(c, "decay %g, beta %g of a=%g b=%g rate=%g bias=%g", (double)decay[i],
                       (double)beta[i], (double)a[i], (double)b[i], (double)rate[i],
                       (double)bias[i]);
}

/* Inputs of every size, alone and against each other. */
static void check_gates(struct check *c)
{
    static const float tops[] = {0.0f,  1e-20f, 1e-3f, 1.0f, 10.0f,
                                 40.0f, 100.0f, 1e3f,  1e4f, 1e30f};
    enum { TOPS = sizeof tops / sizeof *tops };
    for (size_t t = 0; t < TOPS; t++)
        for (size_t r = 0; r < TOPS; r++) {
            const size_t n = 33;
            if (!check_case(c, "delta_gates top=%g rate=%g", (double)tops[t], (double)tops[r]))
                continue;
            float *a = check_floats(c, n), *b = check_floats(c, n), *rate = check_floats(c, n),
                  *bias = check_floats(c, n);
            check_fill_small(c, a, n, tops[t]);
            check_fill_small(c, b, n, tops[t]);
            check_fill_small(c, bias, n, check_below(c, 2) ? tops[t] : 1.0f);
            check_fill_small(c, rate, n, tops[r]);
            for (size_t i = 0; i < n; i++)
                rate[i] = fabsf(rate[i]);
            check_gate_values(c, a, b, rate, bias, n);
        }
}

/* decay in steps of 2^-27 of itself around 2^-126 = e^-87.33654475: what is below is 0, also if
 * rounding would bring it back.  And what is no number stays none. */
static void check_gate_ends(struct check *c)
{
    enum { N = 64 };
    if (!check_case(c, "delta_gates where floats end"))
        return;
    float *a = check_floats(c, N), *b = check_floats(c, N), *rate = check_floats(c, N),
          *bias = check_floats(c, N), *got = check_floats(c, N), *want = check_floats(c, N),
          *beta = check_floats(c, N);
    double *exact = check_doubles(c, N), *exact_beta = check_doubles(c, N);
    for (size_t i = 0; i < N; i++) {
        a[i] = 0x1.5d589ep+6f; /* 87.33654022, as is its softplus */
        bias[i] = 4.528385e-6f + ((float)i - N / 2) * 0x1p-27f;
        b[i] = -87.3365f - 1e-5f * (float)i;
        rate[i] = 1.0f;
    }
    check_gate_values(c, a, b, rate, bias, N);
    ref_delta_gates(exact, exact_beta, a, b, rate, bias, N);
    kern_delta_gates(got, beta, a, b, rate, bias, N);
    for (size_t i = 0; i < N; i++)
        want[i] = exact[i] < 0x1p-126 ? 0.0f : (float)exact[i];
    check_bits(c, "decay around 2^-126", want, got, N * sizeof *got);
    a[0] = b[0] = NAN;
    kern_delta_gates(got, beta, a, b, rate, bias, 1);
    if (!isnan(got[0]) || !isnan(beta[0]))
        check_fail(c, "decay and beta of NaN are %g and %g", (double)got[0], (double)beta[0]);
}

/* ---- state --------------------------------------------------------------------------------- */

/* One head, with room between the tokens of everything. */
struct head {
    struct kern_delta in;
    float *state;      /* before */
    size_t state_size; /* floats */
    size_t out_stride, out_size;
};

/* size, stride: of tokens; what lies between them stays NaN. */
static const float *fill_tokens(struct check *c, size_t tokens, size_t size, size_t stride,
                                float top)
{
    float *p = check_floats(c, (tokens - 1) * stride + size);
    for (size_t t = 0; t < tokens; t++)
        check_fill_small(c, p + t * stride, size, top);
    return p;
}

/* 0..1, every fourth at an end. */
static const float *fill_gates(struct check *c, size_t tokens, size_t stride)
{
    float *p = check_floats(c, (tokens - 1) * stride + 1);
    for (size_t t = 0; t < tokens; t++) {
        const size_t kind = check_below(c, 8);
        p[t * stride] = kind < 2 ? (float)kind : fabsf(check_uniform(c));
    }
    return p;
}

/* |k| <= 1 as after kern_l2norm: else the state would grow from token to token. */
static struct head make_head(struct check *c, size_t k_dim, size_t v_dim, size_t tokens)
{
    static const float sizes[][2] = {/* state, values */
                                     {0.0f, 1.0f},
                                     {1.0f, 1.0f},
                                     {0x1p60f, 1.0f},
                                     {1.0f, 0x1p60f},
                                     {0x1p-40f, 0x1p-30f}};
    const float *size = sizes[check_below(c, sizeof sizes / sizeof *sizes)];
    const size_t stride = ref_delta_stride(v_dim);
    const float unit = 1.0f / sqrtf((float)k_dim);
    struct head h = {.state_size = k_dim * stride, .out_stride = v_dim + 5};
    h.in = (struct kern_delta){.qkv_stride = (k_dim > v_dim ? k_dim : v_dim) + 3,
                               .gate_stride = 3,
                               .k_dim = k_dim,
                               .v_dim = v_dim,
                               .tokens = tokens};
    h.out_size = (tokens - 1) * h.out_stride + v_dim;
    h.in.q = fill_tokens(c, tokens, k_dim, h.in.qkv_stride, unit);
    h.in.k = fill_tokens(c, tokens, k_dim, h.in.qkv_stride, unit);
    h.in.v = fill_tokens(c, tokens, v_dim, h.in.qkv_stride, size[1]);
    h.in.decay = fill_gates(c, tokens, h.in.gate_stride);
    h.in.beta = fill_gates(c, tokens, h.in.gate_stride);
    h.state = check_buf(c, h.state_size * sizeof *h.state, 64);
    memset(h.state, 0, h.state_size * sizeof *h.state);
    for (size_t i = 0; i < k_dim; i++)
        check_fill_small(c, h.state + i * stride, v_dim, size[0]);
    return h;
}

static float *copy_state(struct check *c, const struct head *h)
{
    float *state = check_buf(c, h->state_size * sizeof *state, 64);
    return memcpy(state, h->state, h->state_size * sizeof *state);
}

/* `tokens` of them, from token t0. */
static struct kern_delta some_tokens(const struct kern_delta *in, size_t t0, size_t tokens)
{
    struct kern_delta part = *in;
    part.q += t0 * in->qkv_stride;
    part.k += t0 * in->qkv_stride;
    part.v += t0 * in->qkv_stride;
    part.decay += t0 * in->gate_stride;
    part.beta += t0 * in->gate_stride;
    part.tokens = tokens;
    return part;
}

static struct ref_delta doubles_of(struct check *c, const struct head *h)
{
    const struct ref_delta r = {check_doubles(c, h->in.v_dim), check_doubles(c, h->state_size)};
    for (size_t i = 0; i < h->state_size; i++)
        r.state[i] = 0.0; /* behind v_dim the reference leaves it alone */
    return r;
}

/* Each token by itself, beside the exact rule from the same state and beside the class's bits. */
static void check_each_token(struct check *c, const struct head *h, float *out, float *state)
{
    const struct ref_delta want = doubles_of(c, h), mag = doubles_of(c, h);
    float *bits = check_floats(c, h->in.v_dim), *bits_state = copy_state(c, h);
    for (size_t t = 0; t < h->in.tokens; t++) {
        const struct kern_delta one = some_tokens(&h->in, t, 1);
        float *got = out + t * h->out_stride;
        ref_delta(&want, &mag, state, &one);
        kern_delta(got, h->out_stride, state, &one);
        ref_delta_bits(bits, bits_state, &one, c->fused);
        check_f32(c, want.out, mag.out, got, h->in.v_dim, 1.0);
        check_f32(c, want.state, mag.state, state, h->state_size, 1.0);
        check_bits(c, "out of a token", bits, got, h->in.v_dim * sizeof *bits);
        check_bits(c, "state after a token", bits_state, state, h->state_size * sizeof *state);
    }
}

static void check_rule(struct check *c, size_t k_dim, size_t v_dim, size_t tokens)
{
    if (!check_case(c, "delta k=%zu v=%zu tokens=%zu", k_dim, v_dim, tokens))
        return;
    const struct head h = make_head(c, k_dim, v_dim, tokens);
    const size_t out_bytes = h.out_size * sizeof(float), bytes = h.state_size * sizeof(float);
    float *want = check_floats(c, h.out_size), *state = copy_state(c, &h);
    check_each_token(c, &h, want, state); /* what lies between the tokens of out stays as it is */

    float *got = check_floats(c, h.out_size), *other = copy_state(c, &h);
    kern_delta(got, h.out_stride, other, &h.in);
    check_bits(c, "out of all tokens at once", want, got, out_bytes);
    check_bits(c, "state after all tokens at once", state, other, bytes);

    if (tokens == 1)
        return;
    const size_t split = 1 + check_below(c, tokens - 1);
    const struct kern_delta first = some_tokens(&h.in, 0, split),
                            last = some_tokens(&h.in, split, tokens - split);
    float *parts = check_floats(c, h.out_size);
    memcpy(other, h.state, bytes);
    kern_delta(parts, h.out_stride, other, &first);
    kern_delta(parts + split * h.out_stride, h.out_stride, other, &last);
    check_bits(c, "out of two calls", want, parts, out_bytes);
    check_bits(c, "state after two calls", state, other, bytes);
}

void check_delta(struct check *c)
{
    static const size_t v_dims[] = {1, 8, 16, 24, 32, 48, 100, 128, 200, 256};
    static const size_t k_dims[] = {1, 2, 3, 64, 128, 256}, tokens[] = {2, 3, 5, 33, KERN_MAX_COLS};
    enum { FEW = 1 << 20 }; /* updates of a case: emulators run this, too */
    check_conv(c);
    check_gates(c);
    check_gate_ends(c);
    for (size_t v = 0; v < sizeof v_dims / sizeof *v_dims; v++)
        for (size_t k = 0; k < sizeof k_dims / sizeof *k_dims; k++) {
            check_rule(c, k_dims[k], v_dims[v], 1);
            const size_t n = tokens[(v + k) % (sizeof tokens / sizeof *tokens)];
            check_rule(c, k_dims[k], v_dims[v], n * k_dims[k] * v_dims[v] > FEW ? 5 : n);
        }
}
