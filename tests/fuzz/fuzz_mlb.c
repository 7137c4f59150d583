/* fuzz_mlb.c - any bytes as a model file: once whole, once with the frame set right around the
 * header.
 *
 * Every pointer of an accepted model is read to its end, so that a sanitizer
 * sees one that lies outside the data.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "mlb.h"
#include "pack.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

enum { FIXED_BYTES = 16, ALIGN = 64, DATA_CAP = 1 << 16 };

static volatile uint8_t sink;

static void read_all(const void *p, size_t bytes)
{
    if (p && bytes > 0)
        sink = (uint8_t)(((const uint8_t *)p)[0] ^ ((const uint8_t *)p)[bytes - 1]);
}

static void read_matrix(const struct kern_matrix *m)
{
    read_all(m->data,
             kr_pack_bytes(&kern_layout_file[m->wtype], m->wtype, m->stype, m->rows, m->k));
}

static void read_model(const struct kr_mlb *m)
{
    const size_t pairs = (size_t)m->rotary_dim / 2 * sizeof(float);
    read_matrix(&m->embed);
    read_matrix(&m->classifier);
    read_all(m->out_norm, (size_t)m->dim * sizeof(float));
    read_all(m->rope_freq, pairs);
    read_all(m->rope_freq_local, pairs);
    for (int32_t i = 0; i < m->n_layers; i++) {
        struct kr_tensor tensors[KR_LAYER_TENSORS];
        const size_t n = kr_mlb_layer_tensors(m, &m->layers[i], tensors);
        for (const struct kr_tensor *t = tensors; t < tensors + n; t++) {
            if (t->matrix)
                read_matrix(t->matrix);
            else
                read_all(*t->vector, (size_t)t->k * sizeof(float));
        }
    }
}

/* Finish kr_mlb_open for a model whose envelope is there. */
static void parse(struct kr_mlb *m)
{
    krafla_error err = {0};
    if (kr_mlb_parse(m, &err) == KRAFLA_OK) {
        read_model(m);
        kr_mlb_close(m);
    } else {
        check(err.message[0] && !strchr(err.message, '\n'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t header = size > FIXED_BYTES ? size - FIXED_BYTES : 0;
    void *copy_memory = NULL, *zeros_memory = NULL;
    if (posix_memalign(&copy_memory, ALIGN, size ? size : 1) != 0 ||
        posix_memalign(&zeros_memory, ALIGN, DATA_CAP) != 0)
        abort();
    uint8_t *copy = copy_memory, *zeros = zeros_memory;
    memcpy(copy, data, size);
    memset(zeros, 0, DATA_CAP);

    krafla_error err = {0};
    struct kr_mlb m = {0};
    if (kr_envelope_parse(&m.file, copy, size, "fuzz", "mlb", &err) == KRAFLA_OK)
        parse(&m);
    else
        check(err.message[0] && !strchr(err.message, '\n'));

    /* The fuzzer does not learn to keep three lengths consistent: leave the frame out. */
    const char *json = (const char *)copy + (header ? FIXED_BYTES : 0);
    const char *end = memchr(json, 0, header);
    const size_t text = end ? (size_t)(end - json) : header;
    m = (struct kr_mlb){0};
    if (kr_json_parse(&m.file.json, json, text, "fuzz", NULL) == KRAFLA_OK) {
        int64_t bytes = 0;
        kr_json_int(&m.file.json, 0, "data_bytes", 0, DATA_CAP, &bytes, NULL);
        m.file.data_bytes = (size_t)bytes;
        m.file.data = zeros + DATA_CAP - (bytes + ALIGN - 1) / ALIGN * ALIGN;
        parse(&m);
    }
    free(zeros);
    free(copy);
    return 0;
}
