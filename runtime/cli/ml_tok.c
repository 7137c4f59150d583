/* ml_tok.c - text to token ids and back, through stdin and stdout.
 *
 * Both directions take any bytes and add none: the text that --decode prints
 * is exactly what the ids stand for.
 * SPDX-License-Identifier: MIT */
#include "args.h"
#include "console.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct buffer {
    char *bytes;
    size_t n;
};

static bool decoding;

static const struct args_option options[] = {
    {"--decode", NULL, ARGS_FLAG, &decoding, 0, 0, NULL,
     "Read ids, separated by white space or commas, and print their text.", NULL},
};

static const struct args_program program = {
    .name = "ml_tok",
    .operands = "TOKENIZER",
    .about = "print the token ids of the text on stdin. TOKENIZER is an .mlt file or a llama2.c "
             "tokenizer.bin. BOS comes first if the tokenizer adds one; special tokens written in "
             "the text count as such.",
    .examples = "Examples:\n"
                "  printf \"Hello, world\" | ml_tok tokenizer.mlt\n"
                "  echo \"9906 11 1917\" | ml_tok tokenizer.mlt --decode\n",
    .options = options,
    .n_options = sizeof options / sizeof *options,
    .min_operands = 1,
    .max_operands = 1,
};

static bool read_all(struct buffer *in)
{
    size_t cap = 0;
    for (size_t got = 1; got; in->n += got) {
        if (in->n == cap) {
            cap = cap ? 2 * cap : 1 << 16;
            char *grown = realloc(in->bytes, cap);
            if (!grown) {
                console_error("out of memory reading %zu bytes from stdin", in->n);
                return false;
            }
            in->bytes = grown;
        }
        got = fread(in->bytes + in->n, 1, cap - in->n, stdin);
    }
    if (ferror(stdin))
        console_error("cannot read stdin");
    return !ferror(stdin);
}

static int written(bool ok)
{
    if (ok && fflush(stdout) == 0)
        return ARGS_OK;
    console_error("cannot write to stdout");
    return ARGS_RUNTIME;
}

static int out_of_memory(size_t n)
{
    console_error("out of memory for %zu tokens", n);
    return ARGS_RUNTIME;
}

/* The ids of the text; *n of them in *ids, which the caller frees whatever happens. */
static int find_ids(const krafla_tokenizer *t, const struct buffer *in, int32_t **ids, size_t *n)
{
    /* Seldom more ids than bytes: BOS, and what a prefix or a normalized character adds. */
    size_t room = in->n + 16;
    krafla_error err;
    const uint32_t flags = KRAFLA_ENCODE_BOS | KRAFLA_ENCODE_SPECIAL;
    for (;;) {
        free(*ids);
        *ids = malloc(room * sizeof **ids);
        if (!*ids)
            return out_of_memory(room);
        if (krafla_tokenizer_encode(t, in->bytes, in->n, flags, *ids, room, n, &err) != KRAFLA_OK)
            return args_failed(&err);
        if (*n <= room)
            return ARGS_OK;
        room = *n;
    }
}

static int encode(const krafla_tokenizer *t, const struct buffer *in)
{
    int32_t *ids = NULL;
    size_t n;
    int code = find_ids(t, in, &ids, &n);
    if (code == ARGS_OK) {
        bool ok = true;
        for (size_t i = 0; i < n; i++)
            ok = printf(i ? " %" PRId32 : "%" PRId32, ids[i]) > 0 && ok;
        code = written(putchar('\n') != EOF && ok);
    }
    free(ids);
    return code;
}

/* The ids in the text; *n of them in *ids, which the caller frees whatever happens. */
static bool parse_ids(const struct buffer *in, int32_t vocab, int32_t **ids, size_t *n)
{
    static const char between[] = " \t\r\n\f\v,";
    *n = 0;
    *ids = malloc((in->n / 2 + 1) * sizeof **ids);
    if (!*ids)
        return out_of_memory(in->n / 2), false;
    for (size_t at = 0; at < in->n;) {
        size_t end = at;
        while (end < in->n && (!in->bytes[end] || !strchr(between, in->bytes[end])))
            end++;
        if (end > at && !args_int(in->bytes + at, end - at, 0, vocab - 1, &(*ids)[(*n)++])) {
            console_error("\"%.*s\" is no token id: expected 0 to %" PRId32,
                          (int)(end - at < 40 ? end - at : 40), in->bytes + at, vocab - 1);
            return false;
        }
        at = end + (end == at);
    }
    return true;
}

static int decode(const krafla_tokenizer *t, const struct buffer *in)
{
    krafla_error err;
    int32_t *ids;
    size_t n, bytes;
    char *text = NULL;
    int code;
    if (!parse_ids(in, krafla_tokenizer_vocab(t), &ids, &n))
        code = ARGS_RUNTIME; /* said why */
    else if (krafla_tokenizer_decode(t, -1, ids, n, NULL, 0, &bytes, &err) != KRAFLA_OK)
        code = args_failed(&err);
    else if (!(text = malloc(bytes + 1)))
        code = out_of_memory(n);
    else if (krafla_tokenizer_decode(t, -1, ids, n, text, bytes, &bytes, &err) != KRAFLA_OK)
        code = args_failed(&err);
    else
        code = written(fwrite(text, 1, bytes, stdout) == bytes);
    free(text);
    free(ids);
    return code;
}

int main(int argc, char **argv)
{
    krafla_error err;
    if (krafla_cpu_check(&err) != KRAFLA_OK)
        return args_failed(&err);
    console_init(&argc, &argv);

    int code;
    const char *path;
    if (!args_parse(&program, argc, argv, &path, &code))
        return code;

    krafla_tokenizer *t;
    if (krafla_tokenizer_open(&t, path, &err) != KRAFLA_OK)
        return args_failed(&err);
    struct buffer in = {0};
    code = !read_all(&in) ? ARGS_RUNTIME : decoding ? decode(t, &in) : encode(t, &in);
    free(in.bytes);
    krafla_tokenizer_close(t);
    return code;
}
