/* chat.c - from messages to token ids, by named templates.
 *
 * Template text is split at the special tokens it spells; message text is
 * never searched for any.  All plain text between two special tokens is encoded
 * in one piece, as the tokenizer would see it.
 * Knows nothing of sessions, of replies or of when to stop.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat_templates.h"
#include "error.h"
#include "tokenizer_added.h"

struct krafla_chat {
    const krafla_tokenizer *tokenizer;
    const struct kr_chat_template *template;
    int32_t begin_id, end_id;
    int32_t special_ids[KR_CHAT_SPECIALS];
};

/* One turn being written: ids so far, and the plain text since the last special token. */
struct writer {
    const krafla_chat *chat;
    char *text; /* room for all the text of the turn */
    size_t bytes;
    bool continues; /* a token of the template or an earlier turn comes before it */
    int32_t *ids;
    size_t cap, n;
    krafla_error *err;
    krafla_status status; /* the first failure; later writes do nothing */
};

const char *krafla_chat_name(size_t index)
{
    const struct kr_chat_template *t = kr_chat_template_at(index);
    return t ? t->name : NULL;
}

static krafla_status unknown_template(const char *name, krafla_error *err)
{
    char names[128] = "";
    for (size_t i = 0; kr_chat_template_at(i); i++) {
        strcat(names, i ? ", " : "");
        strcat(names, kr_chat_template_at(i)->name);
    }
    return kr_fail(err, KRAFLA_E_ARGUMENT, "chat template \"%s\" is not known, expected one of %s",
                   name, names);
}

static krafla_status find_token(const krafla_chat *c, const char *text, int32_t *id,
                                krafla_error *err)
{
    char with_lines[32]; /* llama2.c spells <s> as "\n<s>\n" */
    snprintf(with_lines, sizeof with_lines, "\n%s\n", text);
    *id = krafla_tokenizer_find(c->tokenizer, text);
    if (*id < 0)
        *id = krafla_tokenizer_find(c->tokenizer, with_lines);
    if (*id < 0)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "chat template %s needs the token %s, which this tokenizer does not have: "
                       "use the template and the tokenizer of the model",
                       c->template->name, text);
    const bool ends =
        *id == krafla_tokenizer_bos(c->tokenizer) || *id == krafla_tokenizer_eos(c->tokenizer);
    if (!ends && !kr_tokenizer_is_special(c->tokenizer, *id))
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "chat template %s needs %s as a special token, but in this tokenizer a "
                       "message can spell it: convert the tokenizer again with --chat %s",
                       c->template->name, text, c->template->name);
    return KRAFLA_OK;
}

krafla_status krafla_chat_create(krafla_chat **out, const krafla_tokenizer *t, const char *name,
                                 krafla_error *err)
{
    *out = NULL;
    const struct kr_chat_template *found = kr_chat_template_named(name);
    if (!found)
        return unknown_template(name, err);

    krafla_chat *c = calloc(1, sizeof *c);
    if (!c)
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory for a chat");
    c->tokenizer = t;
    c->template = found;
    c->begin_id = -1;
    krafla_status st = find_token(c, found->end, &c->end_id, err);
    if (st == KRAFLA_OK && found->begin && *found->begin)
        st = find_token(c, found->begin, &c->begin_id, err);
    for (size_t i = 0; st == KRAFLA_OK && i < KR_CHAT_SPECIALS && found->specials[i]; i++)
        st = find_token(c, found->specials[i], &c->special_ids[i], err);
    if (st != KRAFLA_OK) {
        krafla_chat_free(c);
        return st;
    }
    *out = c;
    return KRAFLA_OK;
}

void krafla_chat_free(krafla_chat *c)
{
    free(c);
}

size_t krafla_chat_stop_ids(const krafla_chat *c, const int32_t **ids)
{
    *ids = &c->end_id;
    return 1;
}

/* ---- writing a turn ---- */

static void write_text(struct writer *w, const char *text, size_t bytes)
{
    memcpy(w->text + w->bytes, text, bytes);
    w->bytes += bytes;
}

static void encode(struct writer *w, const char *text, size_t bytes, uint32_t flags)
{
    if (w->status != KRAFLA_OK)
        return;
    const size_t room = w->n < w->cap ? w->cap - w->n : 0;
    size_t n = 0;
    w->status = krafla_tokenizer_encode(w->chat->tokenizer, text, bytes, flags,
                                        room ? w->ids + w->n : NULL, room, &n, w->err);
    w->n += n;
}

/* Encode the plain text that has gathered. */
static void flush_text(struct writer *w)
{
    if (w->bytes > 0)
        encode(w, w->text, w->bytes, w->continues ? KRAFLA_ENCODE_CONTINUE : 0);
    w->bytes = 0;
}

static void write_id(struct writer *w, int32_t id)
{
    flush_text(w);
    if (w->n < w->cap)
        w->ids[w->n] = id;
    w->n++;
    w->continues = true;
}

/* The first special token of the template in text; *index is which. */
static const char *next_special(const struct kr_chat_template *t, const char *text, size_t *index)
{
    const char *first = NULL;
    for (size_t i = 0; i < KR_CHAT_SPECIALS && t->specials[i]; i++) {
        const char *at = strstr(text, t->specials[i]);
        if (at && (!first || at < first)) {
            first = at;
            *index = i;
        }
    }
    return first;
}

/* Text of the template itself. */
static void write_literal(struct writer *w, const char *text)
{
    const struct kr_chat_template *t = w->chat->template;
    size_t which = 0;
    for (const char *at; (at = next_special(t, text, &which));
         text = at + strlen(t->specials[which])) {
        write_text(w, text, (size_t)(at - text));
        write_id(w, w->chat->special_ids[which]);
    }
    write_text(w, text, strlen(text));
}

/* The white space that Python's str.strip() takes off. */
static const char *const spaces[] = {
    " ",      "\t",     "\n",       "\v",     "\f",     "\r",     "\x1c",   "\x1d",
    "\x1e",   "\x1f",   "\xc2\x85", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
    "\u2003", "\u2004", "\u2005",   "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
    "\u2028", "\u2029", "\u202f",   "\u205f", "\u3000",
};

/* Bytes of the white space character at the start (or end) of text[0..bytes), 0: there is none. */
static size_t space_at(const char *text, size_t bytes, bool at_end)
{
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++) {
        const size_t n = strlen(spaces[i]);
        if (n <= bytes && memcmp(at_end ? text + bytes - n : text, spaces[i], n) == 0)
            return n;
    }
    return 0;
}

/* Strip the gathered text from `start` on. */
static void trim_text(struct writer *w, size_t start)
{
    for (size_t n; (n = space_at(w->text + start, w->bytes - start, true));)
        w->bytes -= n;
    size_t skip = 0;
    for (size_t n; (n = space_at(w->text + start + skip, w->bytes - start - skip, false));)
        skip += n;
    memmove(w->text + start, w->text + start + skip, w->bytes - start - skip);
    w->bytes -= skip;
}

static void write_system(struct writer *w, const char *system)
{
    write_literal(w, w->chat->template->system_open);
    write_text(w, system, strlen(system));
    write_literal(w, w->chat->template->system_close);
}

/* Where the timeline begins, or where the last reply ends. */
static void write_start(struct writer *w, bool first, bool stopped)
{
    const struct kr_chat_template *t = w->chat->template;
    if (!first) {
        if (!stopped)
            write_id(w, w->chat->end_id);
        write_literal(w, t->after_end);
    } else if (!t->begin) {
        encode(w, "", 0, KRAFLA_ENCODE_BOS);
    } else if (w->chat->begin_id >= 0) {
        write_id(w, w->chat->begin_id);
    }
}

static void write_turn(struct writer *w, const char *system, const char *user)
{
    const struct kr_chat_template *t = w->chat->template;
    if (system && !t->system_inside)
        write_system(w, system);
    write_literal(w, t->user_open);
    size_t start = w->bytes;
    if (system && t->system_inside)
        write_system(w, system);
    if (t->trim == TRIM_USER)
        start = w->bytes;
    write_text(w, user, strlen(user));
    if (t->trim != TRIM_NOTHING)
        trim_text(w, start);
    write_literal(w, t->user_close);
    flush_text(w);
}

krafla_status krafla_chat_turn(const krafla_chat *c, int32_t first, int32_t stopped,
                               const char *system, const char *user, int32_t *ids, size_t cap,
                               size_t *n_ids, krafla_error *err)
{
    *n_ids = 0;
    const struct kr_chat_template *t = c->template;
    if (!system)
        system = t->system_default;
    if (!first)
        system = NULL;

    size_t room = strlen(t->after_end) + strlen(t->user_open) + strlen(t->user_close) +
                  strlen(t->system_open) + strlen(t->system_close) + 1;
    if (!kr_size_add(&room, room, strlen(user)) ||
        !kr_size_add(&room, room, system ? strlen(system) : 0))
        return kr_fail(err, KRAFLA_E_MEMORY, "the message is too long for this machine's memory");
    char *text = malloc(room);
    if (!text)
        return kr_fail(err, KRAFLA_E_MEMORY, "out of memory for a message of %zu bytes", room);

    struct writer w = {
        .chat = c, .text = text, .continues = !first, .ids = ids, .cap = cap, .err = err};
    write_start(&w, first != 0, stopped != 0);
    write_turn(&w, system, user);
    free(text);
    if (w.status == KRAFLA_OK)
        *n_ids = w.n;
    return w.status;
}
