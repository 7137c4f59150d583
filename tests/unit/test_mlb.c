/* test_mlb.c - the model file as C structures.
 *
 * With file names as arguments: open each and print "NAME: ok" or the error's
 * message, one line per file.  tests/e2e/test_hostile_c.py compares these with
 * the Python reader's verdicts.
 * SPDX-License-Identifier: MIT */
#include "mlb.h"
#include "file.h"
#include "unit.h"

#define MLB "\x89MLB\r\n\x1a\n"
#define ZEROS16 "0000000000000000"

/* Layer 0 attention, layer 1 linear, dim 32, 2 heads of 16, 1 KV head, hidden 32, vocab 4; linear: 1 key
 * head of 6 for 2 value heads of 16, so 44 channels.  Offsets by hand. */
static const char arch[] =
    "\"arch\":{\"activation\":\"gelu_tanh\",\"attn_cap\":50,\"attn_gate\":true,"
    "\"attn_scale\":0.25,\"conv_taps\":3,\"dim\":32,\"embed_scale\":2.5,\"family\":\"gemma3\","
    "\"head_dim\":16,\"hidden_dim\":32,\"linear_k_dim\":6,\"linear_k_heads\":1,"
    "\"linear_layers\":[1],\"linear_v_dim\":16,\"linear_v_heads\":2,\"local_layers\":[0],"
    "\"local_rope\":true,\"logit_cap\":30.5,\"max_seq\":99,\"n_heads\":2,\"n_kv_heads\":1,"
    "\"n_layers\":2,\"no_rope_layers\":[0],\"norm_eps\":1e-06,\"post_norms\":true,"
    "\"qk_norm\":true,\"qkv_bias\":true,\"rope_scale\":1.25,\"rotary_dim\":8,\"tied\":true,"
    "\"vocab\":4,\"window\":7}";

static const struct row {
    const char *name, *type;
    int rows, k, bytes;
} rows[] = {
    {"embed", "q8_0", 4, 32, 4 * 34},
    {"rope_freq", "f32", 0, 4, 16},
    {"rope_freq_local", "f32", 0, 4, 16},
    {"layers.0.attn_norm", "f32", 0, 32, 128},
    {"layers.0.wq", "q4_0", 32, 32, 32 * 18},
    {"layers.0.wk", "q8_0f", 16, 32, 16 * 36},
    {"layers.0.wv", "q4_0f", 16, 32, 16 * 20},
    {"layers.0.bq", "f32", 0, 32, 128},
    {"layers.0.bk", "f32", 0, 16, 64},
    {"layers.0.bv", "f32", 0, 16, 64},
    {"layers.0.wg", "q8_0", 32, 32, 32 * 34},
    {"layers.0.q_norm", "f32", 0, 16, 64},
    {"layers.0.k_norm", "f32", 0, 16, 64},
    {"layers.0.wo", "q8_0", 32, 32, 32 * 34},
    {"layers.0.attn_post_norm", "f32", 0, 32, 128},
    {"layers.0.ffn_norm", "f32", 0, 32, 128},
    {"layers.0.gate", "q4_0", 32, 32, 32 * 18},
    {"layers.0.up", "q4_0", 32, 32, 32 * 18},
    {"layers.0.down", "q8_0", 32, 32, 32 * 34},
    {"layers.0.ffn_post_norm", "f32", 0, 32, 128},
    {"layers.1.attn_norm", "f32", 0, 32, 128},
    {"layers.1.wqkv", "q4_0", 44, 32, 44 * 18},
    {"layers.1.wz", "q8_0", 32, 32, 32 * 34},
    {"layers.1.wb", "q8_0", 2, 32, 2 * 34},
    {"layers.1.wa", "q8_0f", 2, 32, 2 * 36},
    {"layers.1.conv", "f32", 0, 3 * 44, 528},
    {"layers.1.dt_bias", "f32", 0, 2, 8},
    {"layers.1.decay_rate", "f32", 0, 2, 8},
    {"layers.1.delta_norm", "f32", 0, 16, 64},
    {"layers.1.wo", "q8_0", 32, 32, 32 * 34},
    {"layers.1.attn_post_norm", "f32", 0, 32, 128},
    {"layers.1.ffn_norm", "f32", 0, 32, 128},
    {"layers.1.gate", "q8_0", 32, 32, 32 * 34},
    {"layers.1.up", "q8_0", 32, 32, 32 * 34},
    {"layers.1.down", "q8_0", 32, 32, 32 * 34},
    {"layers.1.ffn_post_norm", "f32", 0, 32, 128},
    {"out_norm", "f32", 0, 32, 128},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The file; the first byte of tensor i is 100 + i.  offsets[i] is where it starts in the data. */
static struct bytes tiny_model(size_t offsets[ROWS])
{
    static uint8_t data[32768];
    static char table[8192], header[12288];
    size_t end = 0, used = 0;
    memset(data, 0, sizeof data);
    for (size_t i = 0; i < ROWS; i++) {
        char shape[32];
        if (rows[i].rows)
            snprintf(shape, sizeof shape, "%d,%d", rows[i].rows, rows[i].k);
        else
            snprintf(shape, sizeof shape, "%d", rows[i].k);
        offsets[i] = (end + 63) / 64 * 64;
        end = offsets[i] + (size_t)rows[i].bytes;
        data[offsets[i]] = (uint8_t)(100 + i);
        used += (size_t)snprintf(
            table + used, sizeof table - used,
            "%s{\"bytes\":%d,\"name\":\"%s\",\"offset\":%zu,\"shape\":[%s],\"type\":\"%s\"}",
            i ? "," : "", rows[i].bytes, rows[i].name, offsets[i], shape, rows[i].type);
    }
    snprintf(
        header, sizeof header,
        "{%s,\"chat\":null,\"data_bytes\":%zu,\"data_sha256\":\"" ZEROS16 ZEROS16 ZEROS16 ZEROS16
        "\",\"file_bytes\":@,\"format\":\"mlb\",\"min_version\":\"0.1.0\","
        "\"name\":\"tiny\",\"provenance\":{},\"sampling\":{\"min_p\":0.05,\"repeat_penalty\":1.1,"
        "\"temperature\":0,\"top_k\":20},"
        "\"stop_ids\":[3,1],"
        "\"tensors\":[%s]}",
        arch, end, table);
    return make_file(MLB, 1, header, data, end);
}

static void expect_matrix(const struct kern_matrix *m, size_t i, enum kern_wtype w,
                          enum kern_stype s)
{
    EXPECT(*(const uint8_t *)m->data == 100 + i);
    EXPECT((int)m->rows == rows[i].rows && (int)m->k == rows[i].k);
    EXPECT(m->wtype == w && m->stype == s && m->packed == 0);
}

/* Two layers, each matrix and vector at its row of the table. */
static void expect_layers(const struct kr_mlb *m, const size_t offsets[ROWS])
{
    const struct kr_layer *l = &m->layers[0], *n = &m->layers[1];
    EXPECT(l->local && !l->rope && !l->linear && l->index == 0);
    EXPECT(!n->local && n->rope && n->linear && n->index == 0);
    expect_matrix(&m->embed, 0, KERN_Q8, KERN_F16);
    EXPECT(m->classifier.data == m->embed.data);
    expect_matrix(&l->wq, 4, KERN_Q4, KERN_F16);
    expect_matrix(&l->wk, 5, KERN_Q8, KERN_F32);
    expect_matrix(&l->wv, 6, KERN_Q4, KERN_F32);
    expect_matrix(&l->wg, 10, KERN_Q8, KERN_F16);
    expect_matrix(&l->wo, 13, KERN_Q8, KERN_F16);
    expect_matrix(&l->gate, 16, KERN_Q4, KERN_F16);
    expect_matrix(&l->up, 17, KERN_Q4, KERN_F16);
    expect_matrix(&l->down, 18, KERN_Q8, KERN_F16);
    expect_matrix(&n->wqkv, 21, KERN_Q4, KERN_F16);
    expect_matrix(&n->wz, 22, KERN_Q8, KERN_F16);
    expect_matrix(&n->wb, 23, KERN_Q8, KERN_F16);
    expect_matrix(&n->wa, 24, KERN_Q8, KERN_F32);
    expect_matrix(&n->wo, 29, KERN_Q8, KERN_F16);
    EXPECT(n->wq.data == NULL && l->wqkv.data == NULL && n->q_norm == NULL && l->conv == NULL);
    const struct {
        const float *vector;
        size_t row;
    } vectors[] = {{m->rope_freq, 1},
                   {m->rope_freq_local, 2},
                   {l->attn_norm, 3},
                   {l->bq, 7},
                   {l->bk, 8},
                   {l->bv, 9},
                   {l->q_norm, 11},
                   {l->k_norm, 12},
                   {l->attn_post_norm, 14},
                   {l->ffn_norm, 15},
                   {l->ffn_post_norm, 19},
                   {n->conv, 25},
                   {n->dt_bias, 26},
                   {n->decay_rate, 27},
                   {n->delta_norm, 28},
                   {n->attn_post_norm, 30},
                   {m->out_norm, 36}};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        EXPECT((const uint8_t *)vectors[i].vector == m->file.data + offsets[vectors[i].row]);
}

static void test_every_value_arrives_where_it_belongs(void)
{
    size_t offsets[ROWS];
    struct bytes file = tiny_model(offsets);
    krafla_error err = {0};
    struct kr_mlb m = {0};
    EXPECT(kr_envelope_parse(&m.file, file.p, file.n, "tiny", "mlb", &err) == KRAFLA_OK);
    EXPECT(kr_mlb_parse(&m, &err) == KRAFLA_OK);
    EXPECT_STR("", err.message);
    EXPECT_STR("tiny", m.name);
    EXPECT_STR("", m.chat);
    EXPECT_STR(ZEROS16 ZEROS16 ZEROS16 ZEROS16, m.file.data_sha256);
    EXPECT(m.vocab == 4 && m.dim == 32 && m.hidden_dim == 32 && m.n_layers == 2);
    EXPECT(m.n_heads == 2 && m.n_kv_heads == 1 && m.head_dim == 16 && m.max_seq == 99);
    EXPECT(m.n_attention == 1 && m.n_linear == 1 && m.rotary_dim == 8 && m.rope_scale == 1.25f);
    EXPECT(m.window == 7 && m.activation == KR_GELU_TANH && m.tied && m.attn_gate && m.qkv_bias);
    EXPECT(m.norm_eps == 1e-6f && m.embed_scale == 2.5f && m.attn_scale == 0.25f);
    EXPECT(m.attn_cap == 50.0f && m.logit_cap == 30.5f);
    EXPECT(m.linear.k_heads == 1 && m.linear.v_heads == 2 && m.linear.k_dim == 6);
    EXPECT(m.linear.v_dim == 16 && m.linear.taps == 3 && m.linear.channels == 44);
    EXPECT(m.sampling.temperature == 0.0f && m.sampling.top_p == 0.0f);
    EXPECT(m.sampling.min_p == 0.05f && m.sampling.repeat_penalty == 1.1f);
    EXPECT(m.sampling.top_k == 20);
    EXPECT(m.n_stop_ids == 2 && m.stop_ids[0] == 3 && m.stop_ids[1] == 1);

    expect_layers(&m, offsets);
    kr_mlb_close(&m);
    EXPECT(m.layers == NULL);
    kr_mlb_close(&m);
    free(file.p);
}

static void test_no_single_byte_of_the_header_can_crash_it(void)
{
    size_t offsets[ROWS];
    struct bytes file = tiny_model(offsets);
    const size_t header_end = 16 + (file.p[12] | (size_t)file.p[13] << 8);
    static const char others[] = "0-9\"{}[],:e\\n\xff";
    size_t refused = 0, tried = 0;
    for (size_t at = 0; at < header_end; at++) {
        const uint8_t was = file.p[at];
        for (const char *c = others; *c; c++) {
            struct kr_mlb m = {0};
            file.p[at] = (uint8_t)*c;
            krafla_status st = kr_envelope_parse(&m.file, file.p, file.n, "tiny", "mlb", NULL);
            if (st == KRAFLA_OK)
                st = kr_mlb_parse(&m, NULL);
            if (st == KRAFLA_OK)
                kr_mlb_close(&m);
            tried++;
            refused += st != KRAFLA_OK;
        }
        file.p[at] = was;
    }
    EXPECT(tried > 10000 && refused > tried * 8 / 10);
    free(file.p);
}

static int print_verdicts(int n, char **paths)
{
    for (int i = 0; i < n; i++) {
        struct kr_mlb m;
        krafla_error err;
        if (kr_mlb_open(&m, paths[i], &err) != KRAFLA_OK) {
            printf("%s\n", err.message);
            continue;
        }
        printf("%s: ok\n", paths[i]);
        kr_mlb_close(&m);
    }
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        return print_verdicts(argc - 1, argv + 1);
    test_every_value_arrives_where_it_belongs();
    test_no_single_byte_of_the_header_can_crash_it();
    return unit_done("test_mlb");
}
