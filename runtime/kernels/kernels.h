/* kernels.h - everything an instruction set has to provide, and nothing else.
 *
 * The build links exactly one directory runtime/kernels/<isa>; a missing
 * kernel is a link error.  Kernels never fail, never allocate and keep no
 * state.  k, dim, ffn sizes are multiples of 32.  cols is 1..KERN_MAX_COLS.
 *
 * Arithmetic contract (docs/determinism.md): inside one class every build
 * gives the same bits, whatever cols, row and block ranges a caller chooses.
 * SPDX-License-Identifier: MIT */
#ifndef KERNELS_H
#define KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum {
    KERN_BLOCK = 32,     /* weights and activations share a scale per 32 along k */
    KERN_MAX_COLS = 128, /* columns (tokens) of one prefill step */
    KERN_SEGMENT = 512,  /* attention is summed by segments of 512 absolute positions */
    KERN_LANES = 16,     /* virtual lanes of every float reduction */
};

/* ---- weights ---------------------------------------------------------- */

enum kern_wtype { KERN_Q8 = 0, KERN_Q4 = 1 };
enum kern_stype { KERN_F16 = 0, KERN_F32 = 1 }; /* type of a block's scale */

/* How one weight matrix lies in memory.  A panel holds `rows` rows and all k,
 * as super-blocks of `blocks` k-blocks.  A super-block is
 *
 *     scales of block 0, all rows | scales of block 1 ... | data of block 0 | data of block 1 ...
 *
 * The data of one block, for z = 0, 1, ...: for r in rows: for j in kbytes:
 *   q8  byte(row r, k = z*kbytes + j) ^ xor8                                  z < 32/kbytes
 *   q4  low nibble  (q[r][     z*kbytes + j] + 8) ^ xor4
 *       high nibble (q[r][16 + z*kbytes + j] + 8) ^ xor4                      z < 16/kbytes
 *
 * An odd number of blocks is padded with a zero block (scale 0), rows to a
 * multiple of `rows` with zero rows.  The file's own row-major layout is the
 * same description with rows = blocks = 1. */
struct pack_layout {
    const char *name; /* "q4p16x4": wtype, 'p', rows, 'x', kbytes, 's' if stored signed */
    uint16_t rows;
    uint16_t kbytes;
    uint16_t blocks;
    uint8_t xor8, xor4;
};

/* Where block `block` of row `row` begins, in bytes: its scale, and its first `kbytes` of data
 * (z = 0).  The next z lies rows * kbytes further.  s_bytes is 2 or 4; d_bytes, per row and block,
 * 32 (q8) or 16 (q4). */
static inline size_t pack_superblock_offset(const struct pack_layout *l, size_t s_bytes,
                                            size_t d_bytes, size_t k, size_t row, size_t block)
{
    const size_t supers = (k / KERN_BLOCK + l->blocks - 1) / l->blocks;
    return (row / l->rows * supers + block / l->blocks) * l->blocks * l->rows * (s_bytes + d_bytes);
}

static inline size_t pack_scale_offset(const struct pack_layout *l, size_t s_bytes, size_t d_bytes,
                                       size_t k, size_t row, size_t block)
{
    return pack_superblock_offset(l, s_bytes, d_bytes, k, row, block) +
           (block % l->blocks * l->rows + row % l->rows) * s_bytes;
}

static inline size_t pack_data_offset(const struct pack_layout *l, size_t s_bytes, size_t d_bytes,
                                      size_t k, size_t row, size_t block)
{
    return pack_superblock_offset(l, s_bytes, d_bytes, k, row, block) +
           l->blocks * l->rows * s_bytes + block % l->blocks * l->rows * d_bytes +
           row % l->rows * l->kbytes;
}

/* One matrix [rows][k].  packed: data is in this build's kern_layout[wtype],
 * 64-byte aligned; else it is in the file's layout (kern_layout_file[wtype]),
 * with no alignment at all. */
struct kern_matrix {
    const void *data;
    uint32_t rows, k;
    uint8_t wtype, stype, packed;
};

extern const struct pack_layout kern_layout[2];      /* by wtype; kernels/<isa> */
extern const struct pack_layout kern_layout_file[2]; /* by wtype; core/pack.c */

/* ---- activations ------------------------------------------------------ */

/* Quantized activations of `cols` columns: int8 with one f32 scale per block,
 * d = amax / 127, q = round-to-even(x * (127 / amax)), never -128; a block
 * with amax < 1e-30 is all zero with d = 0.  The bytes are in the ISA's own
 * order; the caller gives 64-byte aligned memory of kern_acts_bytes(). */
size_t kern_acts_bytes(size_t k, size_t cols);

/* Quantize blocks [block0, block1) of columns [col0, col1) into acts, which
 * holds `cols` columns of k.  x[c - col0][i - 32*block0], row stride x_stride
 * floats. */
void kern_quantize(void *acts, size_t k, size_t cols, size_t col0, size_t col1, size_t block0,
                   size_t block1, const float *x, size_t x_stride);

/* dst[c][r - row0] = sum over blocks b, in order, of
 *         acc = fma(dw[r][b] * da[c][b], (float)dot(w[r][b], x[c][b]), acc), acc starts at 0
 * for r in [row0, row1), c in [0, cols).  The unfused class rounds the product
 * before it adds.  dst has row stride dst_stride floats; nothing else is
 * written.  row0 is a multiple of 16; row1 is one, or w->rows. */
void kern_matmul(float *dst, size_t dst_stride, const struct kern_matrix *w, const void *acts,
                 size_t cols, size_t row0, size_t row1);

/* out[i] = scale * ((float)q[row][i] * d[row][i/32]), both products rounded. */
void kern_embed(float *out, const struct kern_matrix *w, size_t row, float scale);

/* Run, `rounds` times, the instructions of the many-column inner loop of this wtype with every
 * operand in registers and no dependence that a core could not hide; returns the multiply-accumulates
 * made.  What ml_bench calls the peak.  *name says which instructions: "vpmaddubsw + vpaddw". */
uint64_t kern_peak(enum kern_wtype w, size_t rounds, const char **name);

/* ---- elementwise, over one token's vector ------------------------------ */

/* y[i] = (x[i] * (1 / sqrt(mean(x^2) + eps))) * gain[i].  y may be x. */
void kern_rmsnorm(float *y, const float *x, const float *gain, size_t n, float eps);

/* y += x. */
void kern_add(float *y, const float *x, size_t n);

/* y = gate / (1 + exp(-gate)) * up; y = GELU(gate) * up, its tanh approximation.  y may be gate. */
void kern_silu_mul(float *y, const float *gate, const float *up, size_t n);
void kern_gelu_mul(float *y, const float *gate, const float *up, size_t n);

/* Angles of one position: pair i turns by pos * freq[i], computed in double.
 * cs[2i] = cs[2i+1] = scale * cos, sn[2i] = -scale * sin, sn[2i+1] = scale * sin; n = pairs. */
void kern_rope_angles(float *cs, float *sn, const float *freq, size_t n, uint32_t pos, float scale);

/* Rotate the interleaved pairs of heads x head_dim in place; the first
 * `rotary` floats of each head turn, the rest stay. */
void kern_rope(float *x, size_t heads, size_t head_dim, size_t rotary, const float *cs,
               const float *sn);

/* y = x / (1 + exp(-gate)).  y may be x. */
void kern_sigmoid_mul(float *y, const float *x, const float *gate, size_t n);

/* x = cap * tanh(x / cap); what is not finite becomes NaN. */
void kern_softcap(float *x, size_t n, float cap);

/* ---- the gated delta rule (Yang et al., arXiv 2412.06464) ---------------------------------- */

/* Sums are chains: acc = fma(x, y, acc) in order, acc starts at 0 (unfused: product, then sum). */

/* One token of a causal convolution of each channel by itself, and SiLU: with
 * acc = sum over j, in order, of x[j][i] * w[j*n + i],  y[i] = acc / (1 + exp(-acc)).
 * x[0] is the oldest of the `taps` inputs, x[taps - 1] the token's own.  y is none of them. */
void kern_conv_silu(float *y, const float *const *x, const float *w, size_t taps, size_t n);

/* y[i] = (x[i] * (1 / sqrt(sum(x^2) + eps))) * scale, the sum as in kern_rmsnorm.  y may be x. */
void kern_l2norm(float *y, const float *x, size_t n, float eps, float scale);

/* decay[i] = exp(-rate[i] * softplus(a[i] + bias[i])), beta[i] = 1 / (1 + exp(-b[i])), in double,
 * rounded once, to 0 below 2^-126; softplus(x) = log(1 + e^x).  rate >= 0. */
void kern_delta_gates(float *decay, float *beta, const float *a, const float *b, const float *rate,
                      const float *bias, size_t n);

/* One value head over `tokens` tokens, at least one, in order.  Its state is [k_dim][v_dim16],
 * v_dim16 = v_dim rounded up to 16, zeros behind v_dim; 64-byte aligned.  For each token, for each
 * column j:
 *     m = decay * (sum over i, in order, of state[i][j] * k[i])
 *     u = beta * (v[j] - m)
 *     state[i][j] = fma(k[i], u, decay * state[i][j])        for each i
 *     out[j] = sum over i, in order, of state[i][j] * q[i]
 * every other product rounded.  out overlaps none of the inputs. */
struct kern_delta {
    const float *q, *k, *v;         /* [tokens][k_dim] twice, [tokens][v_dim] */
    const float *decay, *beta;      /* [tokens] */
    size_t qkv_stride, gate_stride; /* floats from token to token */
    size_t k_dim, v_dim, tokens;
};
void kern_delta(float *out, size_t out_stride, float *state, const struct kern_delta *in);

/* ---- attention ---------------------------------------------------------- */

enum kern_kvtype { KERN_KV_F32 = 0, KERN_KV_F16 = 1, KERN_KV_Q8 = 2 };

/* Bytes of an element of K and V. */
static inline size_t kern_kv_element(enum kern_kvtype type)
{
    return type == KERN_KV_F32 ? sizeof(float) : type == KERN_KV_F16 ? sizeof(uint16_t) : 1;
}

enum {
    /* Over an int8 cache, elements of queries and weights of positions are integers of at most this,
     * 127 * 256: two bytes.  Sums of KERN_SEGMENT or KERN_Q8_MAX_DIM products with int8 fit int32. */
    KERN_Q8_STEPS = 32512,
    KERN_Q8_MAX_DIM = 512, /* head_dim of an int8 cache */
};

/* The cache of one layer and one KV head.  Positions come in blocks of 16; dim16 is head_dim
 * rounded up to a multiple of 16.  f32 and f16:
 *     k  [pos/16][head_dim][16]      transposed: a lane is a position
 *     v  [pos][dim16]                padded with zeros
 * int8, quantized like activations with the scales ks[pos] and vs[pos], in quads:
 *     k  [pos/16][dim16/4][16][4]    plus 128, as unsigned bytes
 *     v  [pos/4][dim16][4]
 * k, ks and vs are readable to a multiple of 16 positions, v of int8 to a multiple of 4.
 * Memory is zero before its first store, and 64-byte aligned. */
struct kern_kv {
    void *k, *v;
    float *ks, *vs;
    uint32_t head_dim;
    uint8_t type;
};

void kern_kv_store(const struct kern_kv *kv, size_t pos, const float *k, const float *v);

/* Positions [pos0, pos1) that a token sees: at least one, all in one segment. */
struct kern_span {
    uint32_t pos0, pos1;
};

/* The queries of one KV head: `heads` of them for each of `tokens` tokens, all of whose spans are
 * in the same segment. */
struct kern_queries {
    const float *q;  /* [tokens][heads][head_dim] */
    size_t q_stride; /* floats from token to token */
    size_t tokens, heads;
    const struct kern_span *spans; /* [tokens] */
    float scale, cap;
};

/* Their partial results. */
struct kern_parts {
    float *o;     /* [tokens][heads][head_dim] */
    float *m, *l; /* [tokens][heads] */
    size_t o_stride, ml_stride;
};

/* Partial attention of each query over its token's span: m = max score, l = sum exp(score - m),
 * o = sum exp(score - m) * v, score = scale * dot(q, k[pos]) (soft-capped if cap > 0).  The result
 * of a query depends on nothing but the query, its span and what the cache holds there.
 *
 * f32 and f16: dots run over d in order, o over positions in order, l over 16 lanes (pos mod 16) in
 * the fixed tree.
 *
 * int8: q becomes integers qi = round-to-even(q * (32512 / amax)) with the unit amax / 32512; a
 * score is (float)(sum qi * k) * ((unit * scale) * ks[pos]), every product rounded.  Weights
 * w = exp(score - m) * vs[pos], rounded, become integers likewise, with their maximum over the span
 * as amax; o is (float)(sum wi * v) * unit.  Both sums are exact, so any order will do.  amax < 1e-30
 * counts as 0: all integers and the unit are 0.  l is the sum of exp(score - m), as above.
 *
 * o, m and l do not overlap q; scratch: kern_attend_bytes(), 64-byte aligned. */
size_t kern_attend_bytes(enum kern_kvtype type, size_t head_dim);
void kern_attend(const struct kern_parts *out, const struct kern_queries *in,
                 const struct kern_kv *kv, void *scratch);

/* out[head_dim] = (sum exp(m[s] - M) * o[s]) / (sum exp(m[s] - M) * l[s]), M = max m, both
 * chains in order of the segments s.  Strides are in floats; out may be o[0]. */
void kern_attend_merge(float *out, const float *o, size_t o_stride, const float *m, const float *l,
                       size_t ml_stride, size_t segments, size_t head_dim);

/* ---- floating-point state ---------------------------------------------- */

/* Round to nearest, flush denormals to zero; returns what kern_fp_end() needs
 * to give the thread its old state back.  Every thread that calls a float
 * kernel is between the two. */
uint32_t kern_fp_begin(void);
void kern_fp_end(uint32_t saved);

#endif
