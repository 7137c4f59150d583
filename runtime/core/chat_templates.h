/* chat_templates.h - the chat templates, as data.
 *
 * A template is a row; the text it makes is byte for byte what the model's own
 * template makes.  chat.c turns messages into ids by it; the tokenizer asks
 * which added tokens the template of its model spells.  The converters have
 * the same rows in tools/mlb/chat_templates.py; a test compares them.
 * SPDX-License-Identifier: MIT */
#ifndef KR_CHAT_TEMPLATES_H
#define KR_CHAT_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KR_CHAT_SPECIALS = 3, KR_CHAT_MARKS = 2 };

/* What is stripped of white space at both ends, as Python's str.strip() does it. */
enum kr_chat_trim {
    TRIM_NOTHING,
    TRIM_MESSAGES, /* what user and assistant say */
    TRIM_TURNS,    /* the same, but a user's turn together with the system text inside */
    TRIM_ALL,      /* what user and assistant say, and the system text */
};

/* What becomes of <think>...</think> in a reply of the history. */
enum kr_chat_thoughts {
    THOUGHTS_STAY,
    THOUGHTS_QWEN3,   /* dropped before the last question, written anew after it */
    THOUGHTS_QWEN3_5, /* the same, and a reply after it has them even if they are empty */
};

struct kr_chat_template {
    const char *name;
    /* The tokens its texts spell: those that no message may spell, and those that one may, as in
     * the model's own. */
    const char *specials[KR_CHAT_SPECIALS];
    const char *marks[KR_CHAT_MARKS];
    const char *begin;          /* before the first turn; NULL: BOS if the tokenizer adds one */
    const char *system_default; /* NULL: no system text unless the caller gives one */
    const char *system_open, *system_close;
    const char *user_open, *user_close;
    const char *reply_open, *reply_close; /* around a reply of the history, before `end` */
    const char *end;                      /* the special token that ends a reply */
    const char *after_end;                /* between it and the next turn */
    const char *prompt;                   /* after the last turn: leads up to the reply to come */
    enum kr_chat_trim trim;
    enum kr_chat_thoughts thoughts;
    bool system_inside; /* the system text stands in the first user turn, after user_open */
    bool system_first;  /* it may only be the first message */
    bool alternates;    /* user and assistant take turns, the user begins */
};

/* The template at index, or of this name; NULL if there is none. */
const struct kr_chat_template *kr_chat_template_at(size_t index);
const struct kr_chat_template *kr_chat_template_named(const char *name);

/* Whether the template of this name spells this as one of its special tokens. */
bool kr_chat_spells(const char *name, const uint8_t *text, size_t bytes);

#endif
