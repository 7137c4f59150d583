/* run_chat.c - --chat: one turn per line of stdin, or the single turn of -i.
 *
 * The conversation stays on one timeline: a turn adds its own tokens and
 * evaluates only those.  Ctrl-C ends a reply, not the conversation.
 * SPDX-License-Identifier: MIT */
#include "run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A conversation under way. */
struct talk {
    struct run *r;
    krafla_chat *chat;
    const int32_t *ends; /* the template's own stop tokens */
    size_t n_ends;
    bool first, stopped; /* as krafla_chat_turn() wants them */
};

/* A line of f without its end; NULL at the end of the input or if *exit_code is set. */
static char *read_line(FILE *f, size_t *bytes, int *exit_code)
{
    char *line = NULL;
    size_t n = 0, cap = 0;
    errno = 0;
    for (int c; (c = getc(f)) != EOF || n > 0;) {
        if (n + 1 >= cap) {
            cap = cap ? cap * 2 : 256;
            char *more = cap > n + 1 ? realloc(line, cap) : NULL;
            if (!more) {
                console_error("out of memory for a line of more than %zu bytes", n);
                *exit_code = ARGS_RUNTIME;
                break;
            }
            line = more;
        }
        if (c == EOF || c == '\n') {
            if (n > 0 && line[n - 1] == '\r')
                n--;
            line[n] = '\0';
            *bytes = n;
            return line;
        }
        line[n++] = (char)c;
    }
    if (*exit_code == ARGS_OK && ferror(f)) {
        console_error("cannot read stdin: %s", strerror(errno));
        *exit_code = ARGS_RUNTIME;
    }
    free(line);
    return NULL;
}

/* The ids of one turn in memory of their own, NULL on failure. */
static int32_t *turn_ids(struct talk *t, const char *user, size_t *n, int *exit_code)
{
    krafla_error err;
    const char *system = t->r->o->system;
    if (krafla_chat_turn(t->chat, t->first, t->stopped, system, user, NULL, 0, n, &err) !=
        KRAFLA_OK) {
        *exit_code = args_failed(&err);
        return NULL;
    }
    int32_t *ids = calloc(*n + 1, sizeof *ids);
    if (!ids) {
        console_error("out of memory for a turn of %zu tokens", *n);
        *exit_code = ARGS_RUNTIME;
        return NULL;
    }
    if (krafla_chat_turn(t->chat, t->first, t->stopped, system, user, ids, *n, n, &err) !=
        KRAFLA_OK) {
        *exit_code = args_failed(&err);
        free(ids);
        return NULL;
    }
    return ids;
}

static bool is_end(const struct talk *t, int32_t id)
{
    for (size_t i = 0; i < t->n_ends; i++)
        if (t->ends[i] == id)
            return true;
    return false;
}

/* Print the reply to the turn ids; true if the conversation can go on. */
static bool reply(struct talk *t, const int32_t *ids, size_t n, int *exit_code)
{
    struct run *r = t->r;
    const size_t max = r->o->n_given ? (size_t)r->o->n : SIZE_MAX;
    int32_t stop = -1;
    console_catch_interrupt();
    enum run_end end = run_prompt(r, ids, n, exit_code);
    if (end == RUN_LIMIT)
        end = run_reply(r, max, (size_t)r->ctx, &stop, exit_code);
    console_release_interrupt();
    if (end == RUN_FAILED)
        return false;

    t->first = false;
    t->stopped = end == RUN_STOPPED && is_end(t, stop);
    if (t->stopped)
        r->ids[r->n_ids++] = stop; /* evaluated with the next turn */
    if (!console_end(&r->out) || !console_write(&r->out, "\n", 1)) {
        *exit_code = run_output_failed();
        return false;
    }
    if (end == RUN_FULL)
        fprintf(stderr,
                "the context of %d positions is full: the conversation ends here; --ctx "
                "makes it longer\n",
                (int)r->ctx);
    return end != RUN_FULL;
}

/* One turn; true if the conversation can go on. */
static bool turn(struct talk *t, const char *user, int *exit_code)
{
    struct run *r = t->r;
    size_t n = 0;
    int32_t *ids = turn_ids(t, user, &n, exit_code);
    if (!ids)
        return false;
    bool more = false;
    if (r->n_ids + n > (size_t)r->ctx && t->first) {
        console_error("the message needs %zu positions, the context has %d: make it longer with "
                      "--ctx, or the message shorter",
                      n, (int)r->ctx);
        *exit_code = ARGS_RUNTIME;
    } else if (r->n_ids + n > (size_t)r->ctx) {
        fprintf(stderr,
                "the context of %d positions is full: this turn needs %zu more, %zu are "
                "left; the conversation ends here; --ctx makes it longer\n",
                (int)r->ctx, n, r->n_ids < (size_t)r->ctx ? (size_t)r->ctx - r->n_ids : 0);
    } else {
        if (r->o->show_prompt)
            run_show_prompt(r, ids, n);
        more = reply(t, ids, n, exit_code);
    }
    free(ids);
    return more;
}

static void converse(struct talk *t, int *exit_code)
{
    const bool terminal = console_is_terminal(stdin);
    for (bool more = true; more;) {
        if (terminal)
            fputs("> ", stderr);
        size_t bytes = 0;
        char *line = read_line(stdin, &bytes, exit_code);
        if (!line) {
            if (terminal)
                fputc('\n', stderr);
            return;
        }
        if (strlen(line) != bytes)
            fputs("a message with a zero byte is skipped\n", stderr);
        else if (bytes > 0)
            more = turn(t, line, exit_code);
        free(line);
    }
}

/* The template's name: as given, or for "auto" as recorded in the tokenizer or the model. */
static const char *template_name(const struct run *r)
{
    if (strcmp(r->o->chat, "auto") != 0)
        return r->o->chat;
    const char *name = krafla_tokenizer_chat(r->tokenizer);
    return *name ? name : krafla_model_chat(r->model);
}

int run_chat(struct run *r)
{
    struct talk t = {.r = r, .first = true};
    const char *name = template_name(r);
    if (!*name) {
        fputs("error: neither the tokenizer nor the model names a chat template: they have none, "
              "or one that is not among these; pass the nearest with --chat:",
              stderr);
        for (size_t i = 0; krafla_chat_name(i); i++)
            fprintf(stderr, "%s %s", i ? "," : "", krafla_chat_name(i));
        fputc('\n', stderr);
        return ARGS_USAGE;
    }
    krafla_error err;
    if (krafla_chat_create(&t.chat, r->tokenizer, name, &err) != KRAFLA_OK)
        return args_failed(&err);
    t.n_ends = krafla_chat_stop_ids(t.chat, &t.ends);
    for (size_t i = 0; i < t.n_ends && r->n_stops < RUN_MAX_STOPS; i++)
        r->stops[r->n_stops++] = t.ends[i];

    int exit_code = ARGS_OK;
    if (r->o->text)
        turn(&t, r->o->text, &exit_code);
    else
        converse(&t, &exit_code);
    krafla_chat_free(t.chat);
    if (exit_code == ARGS_OK)
        run_statistics(r);
    return exit_code;
}
