/* run_show.c - --show-prompt: what the model is given, as ids and as text.
 *
 * The text is one line: characters that would end it or control a terminal
 * appear as pictures, special tokens as {id text}, so that they cannot be
 * taken for text that looks like them.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>

/* ids[0..n) as they continue `previous`. */
static void show_text(const struct run *r, struct console_text *out, int32_t previous,
                      const int32_t *ids, size_t n)
{
    size_t bytes = 0;
    krafla_tokenizer_decode(r->tokenizer, previous, ids, n, NULL, 0, &bytes, NULL);
    char *text = malloc(bytes + 1);
    if (text && krafla_tokenizer_decode(r->tokenizer, previous, ids, n, text, bytes, &bytes,
                                        NULL) == KRAFLA_OK)
        console_write(out, text, bytes);
    free(text);
}

static void show_special(const struct run *r, struct console_text *out, int32_t id)
{
    fprintf(stderr, "{%d ", (int)id);
    show_text(r, out, id, &id, 1);
    console_end(out);
    fputc('}', stderr);
}

/* Whether id is shown by its number: special, or only the model has it. */
static bool has_number(const struct run *r, int32_t id)
{
    return krafla_tokenizer_is_special(r->tokenizer, id) ||
           id >= krafla_tokenizer_vocab(r->tokenizer);
}

void run_show_prompt(const struct run *r, const int32_t *ids, size_t n)
{
    fprintf(stderr, "prompt: %zu tokens:", n);
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, " %d", (int)ids[i]);
    fputc('\n', stderr);
    if (!r->tokenizer)
        return;

    struct console_text out = {.stream = stderr, .terminal = true, .one_line = true};
    int32_t previous = r->n_ids > 0 ? r->ids[r->n_ids - 1] : -1;
    fputs("prompt text: ", stderr);
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && !has_number(r, ids[end]))
            end++;
        show_text(r, &out, previous, ids + i, end - i);
        console_end(&out);
        if (end < n)
            show_special(r, &out, ids[end++]);
        previous = ids[end - 1];
        i = end;
    }
    fputc('\n', stderr);
}
