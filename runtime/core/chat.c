/* chat.c - from messages to token ids, by named templates.
 *
 * Template text is split at the special tokens it spells; message text is
 * never searched for any.  All plain text between two special tokens is encoded
 * in one piece, as the tokenizer would see it.  A turn and a conversation are
 * written by the same functions.
 * Knows nothing of sessions or of when to stop.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chat_templates.h"
#include "chat_text.h"
#include "error.h"

/* A token, and how the template spells it. */
struct spelled {
    const char *text;
    int32_t id;
};

struct krafla_chat {
    const krafla_tokenizer *tokenizer;
    const struct kr_chat_template *template;
    int32_t begin_id, end_id;
    struct spelled tokens[KR_CHAT_SPECIALS + KR_CHAT_MARKS]; /* in the template's texts */
    size_t n_tokens;
};

/* Turns being written: ids so far, and the plain text since the last special token. */
struct writer {
    const krafla_chat *chat;
    char *text; /* [room], its own */
    size_t bytes, room;
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

/* protect: messages must not be able to spell it. */
static krafla_status find_token(const krafla_chat *c, const char *text, bool protect, int32_t *id,
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
    if (protect && !krafla_tokenizer_is_special(c->tokenizer, *id))
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "chat template %s needs %s as a special token, but in this tokenizer a "
                       "message can spell it: convert the tokenizer again with --chat %s",
                       c->template->name, text, c->template->name);
    return KRAFLA_OK;
}

static krafla_status add_token(krafla_chat *c, const char *text, bool protect, krafla_error *err)
{
    struct spelled *token = &c->tokens[c->n_tokens++];
    token->text = text;
    return find_token(c, text, protect, &token->id, err);
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
    krafla_status st = find_token(c, found->end, true, &c->end_id, err);
    if (st == KRAFLA_OK && found->begin && *found->begin)
        st = find_token(c, found->begin, true, &c->begin_id, err);
    for (size_t i = 0; st == KRAFLA_OK && i < KR_CHAT_SPECIALS && found->specials[i]; i++)
        st = add_token(c, found->specials[i], true, err);
    for (size_t i = 0; st == KRAFLA_OK && i < KR_CHAT_MARKS && found->marks[i]; i++)
        st = add_token(c, found->marks[i], false, err);
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

/* ---- the writer ---- */

static void fail(struct writer *w, krafla_status status)
{
    if (w->status == KRAFLA_OK)
        w->status = status;
}

static void write_text(struct writer *w, struct kr_text text)
{
    size_t needed;
    if (w->status != KRAFLA_OK || text.bytes == 0)
        return;
    if (!kr_size_add(&needed, w->bytes, text.bytes) || needed > SIZE_MAX / 2) {
        fail(w, kr_fail(w->err, KRAFLA_E_MEMORY, "the messages are too long for this machine"));
        return;
    }
    if (needed > w->room) {
        const size_t room = needed < 256 ? 512 : 2 * needed;
        char *more = realloc(w->text, room);
        if (!more) {
            fail(w, kr_fail(w->err, KRAFLA_E_MEMORY, "out of memory for a message of %zu bytes",
                            needed));
            return;
        }
        w->text = more;
        w->room = room;
    }
    memcpy(w->text + w->bytes, text.at, text.bytes);
    w->bytes = needed;
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

/* The first token of the template that text spells, and where; NULL: none. */
static const struct spelled *next_token(const krafla_chat *c, const char *text, const char **place)
{
    const struct spelled *first = NULL;
    for (size_t i = 0; i < c->n_tokens; i++) {
        const char *at = strstr(text, c->tokens[i].text);
        if (at && (!first || at < *place)) {
            first = &c->tokens[i];
            *place = at;
        }
    }
    return first;
}

/* Text of the template itself. */
static void write_literal(struct writer *w, const char *text)
{
    const char *at = text;
    for (const struct spelled *token; (token = next_token(w->chat, text, &at));) {
        write_text(w, (struct kr_text){text, (size_t)(at - text)});
        write_id(w, token->id);
        text = at + strlen(token->text);
    }
    write_text(w, kr_text_of(text));
}

/* Strip the gathered text from `start` on. */
static void strip_text(struct writer *w, size_t start)
{
    if (w->status != KRAFLA_OK || start == w->bytes)
        return;
    const struct kr_text t = kr_text_strip((struct kr_text){w->text + start, w->bytes - start});
    memmove(w->text + start, t.at, t.bytes);
    w->bytes = start + t.bytes;
}

/* ---- turns ---- */

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

static void write_system(struct writer *w, const char *system)
{
    const struct kr_chat_template *t = w->chat->template;
    write_literal(w, t->system_open);
    const size_t start = w->bytes;
    write_text(w, kr_text_of(system));
    if (t->trim == TRIM_ALL)
        strip_text(w, start);
    write_literal(w, t->system_close);
}

/* inside: the system text that stands in this turn, or NULL. */
static void write_user(struct writer *w, const char *inside, const char *user)
{
    const struct kr_chat_template *t = w->chat->template;
    write_literal(w, t->user_open);
    size_t start = w->bytes;
    if (inside)
        write_system(w, inside);
    if (t->trim != TRIM_TURNS)
        start = w->bytes;
    write_text(w, kr_text_of(user));
    if (t->trim != TRIM_NOTHING)
        strip_text(w, start);
    write_literal(w, t->user_close);
}

/* The text of a reply as Qwen3 and Qwen3.5 write it into the history. */
static void write_answer(struct writer *w, const char *reply, bool after_question)
{
    const bool qwen3_5 = w->chat->template->thoughts == THOUGHTS_QWEN3_5;
    const struct kr_text all = kr_text_of(reply);
    struct kr_text thoughts, answer;
    kr_text_split_thoughts(qwen3_5 ? kr_text_strip(all) : all, &thoughts, &answer);
    if (qwen3_5)
        thoughts = kr_text_strip(thoughts);
    if (after_question && (qwen3_5 || thoughts.bytes > 0)) {
        write_literal(w, "<think>\n");
        write_text(w, thoughts);
        write_literal(w, "\n</think>\n\n");
    }
    write_text(w, answer);
}

static void write_reply(struct writer *w, const char *reply, bool after_question)
{
    const struct kr_chat_template *t = w->chat->template;
    write_literal(w, t->reply_open);
    const size_t start = w->bytes;
    if (t->thoughts == THOUGHTS_STAY) {
        write_text(w, kr_text_of(reply));
        if (t->trim != TRIM_NOTHING)
            strip_text(w, start);
    } else {
        write_answer(w, reply, after_question);
    }
    write_literal(w, t->reply_close);
    write_id(w, w->chat->end_id);
    write_literal(w, t->after_end);
}

/* Lead up to the reply to come; the writer is done. */
static krafla_status finish(struct writer *w, size_t *n_ids)
{
    write_literal(w, w->chat->template->prompt);
    flush_text(w);
    free(w->text);
    if (w->status == KRAFLA_OK)
        *n_ids = w->n;
    return w->status;
}

krafla_status krafla_chat_turn(const krafla_chat *c, int32_t first, int32_t stopped,
                               const char *system, const char *user, int32_t *ids, size_t cap,
                               size_t *n_ids, krafla_error *err)
{
    *n_ids = 0;
    const struct kr_chat_template *t = c->template;
    struct writer w = {.chat = c, .continues = !first, .ids = ids, .cap = cap, .err = err};
    if (!system)
        system = t->system_default;
    if (!first)
        system = NULL;
    write_start(&w, first != 0, stopped != 0);
    if (system && !t->system_inside)
        write_system(&w, system);
    write_user(&w, t->system_inside ? system : NULL, user);
    return finish(&w, n_ids);
}

/* ---- conversations ---- */

enum role { ROLE_SYSTEM, ROLE_USER, ROLE_ASSISTANT, ROLE_UNKNOWN };

static enum role role_of(const krafla_message *m)
{
    static const struct {
        const char *name;
        enum role role;
    } roles[] = {
        {"system", ROLE_SYSTEM},
        {"developer", ROLE_SYSTEM},
        {"user", ROLE_USER},
        {"assistant", ROLE_ASSISTANT},
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(m->role, roles[i].name) == 0)
            return roles[i].role;
    return ROLE_UNKNOWN;
}

/* Whether Qwen's templates take a message of the user for a question, not the result of a tool. */
static bool is_question(const krafla_message *m, enum kr_chat_thoughts thoughts)
{
    struct kr_text t = kr_text_of(m->content);
    if (thoughts == THOUGHTS_QWEN3_5)
        t = kr_text_strip(t);
    return role_of(m) == ROLE_USER &&
           !(kr_text_begins(t, "<tool_response>") && kr_text_ends(t, "</tool_response>"));
}

/* The index of the last question; n - 1 if there is none. */
static size_t last_question(const krafla_chat *c, const krafla_message *messages, size_t n)
{
    for (size_t i = n; i-- > 0;)
        if (is_question(&messages[i], c->template->thoughts))
            return i;
    return n - 1;
}

/* What this template cannot say is an error, as it is in the model's own. */
static krafla_status check_order(const krafla_chat *c, const krafla_message *messages, size_t n,
                                 krafla_error *err)
{
    const struct kr_chat_template *t = c->template;
    enum role next = ROLE_USER;
    for (size_t i = 0; i < n; i++) {
        const enum role role = role_of(&messages[i]);
        if (role == ROLE_UNKNOWN)
            return kr_fail(err, KRAFLA_E_ARGUMENT,
                           "message %zu has the role \"%.64s\", expected system, developer, user "
                           "or assistant",
                           i + 1, messages[i].role);
        if (role == ROLE_SYSTEM && i > 0 && t->system_first)
            return kr_fail(err, KRAFLA_E_ARGUMENT,
                           "message %zu is a system message, but chat template %s takes one only "
                           "as the first message",
                           i + 1, t->name);
        if (role != ROLE_SYSTEM && t->alternates && role != next)
            return kr_fail(err, KRAFLA_E_ARGUMENT,
                           "message %zu is of the role %s, but in chat template %s user and "
                           "assistant take turns and the user begins",
                           i + 1, messages[i].role, t->name);
        if (role != ROLE_SYSTEM)
            next = role == ROLE_USER ? ROLE_ASSISTANT : ROLE_USER;
    }
    if (n == 0 || role_of(&messages[n - 1]) != ROLE_USER)
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "a conversation that waits for a reply ends with a message of the user; "
                       "this one %s",
                       n == 0 ? "is empty" : "does not");
    if (t->thoughts == THOUGHTS_QWEN3_5 &&
        !is_question(&messages[last_question(c, messages, n)], t->thoughts))
        return kr_fail(err, KRAFLA_E_ARGUMENT,
                       "chat template %s needs a question of the user, but all their messages are "
                       "a <tool_response>",
                       t->name);
    return KRAFLA_OK;
}

krafla_status krafla_chat_encode(const krafla_chat *c, const krafla_message *messages, size_t n,
                                 int32_t *ids, size_t cap, size_t *n_ids, krafla_error *err)
{
    *n_ids = 0;
    const struct kr_chat_template *t = c->template;
    const krafla_status st = check_order(c, messages, n, err);
    if (st != KRAFLA_OK)
        return st;

    struct writer w = {.chat = c, .ids = ids, .cap = cap, .err = err};
    const size_t start = role_of(&messages[0]) == ROLE_SYSTEM ? 1 : 0;
    const char *system = start ? messages[0].content : t->system_default;
    const size_t question = last_question(c, messages, n);
    write_start(&w, true, false);
    if (system && !t->system_inside)
        write_system(&w, system);
    for (size_t i = start; i < n; i++) {
        const char *text = messages[i].content;
        const enum role role = role_of(&messages[i]);
        if (role == ROLE_SYSTEM)
            write_system(&w, text);
        else if (role == ROLE_USER)
            write_user(&w, i == start && t->system_inside ? system : NULL, text);
        else
            write_reply(&w, text, i > question);
    }
    return finish(&w, n_ids);
}
