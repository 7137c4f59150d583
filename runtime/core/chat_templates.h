/* chat_templates.h - the chat templates, as data.
 *
 * A template is a row; the text it makes is byte for byte what the model's own
 * template makes.  chat.c turns messages into ids by it; the tokenizer asks
 * which added tokens the template of its model spells.
 * SPDX-License-Identifier: MIT */
#ifndef KR_CHAT_TEMPLATES_H
#define KR_CHAT_TEMPLATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KR_CHAT_SPECIALS = 2 };

/* What the template strips of white space at both ends. */
enum kr_trim { TRIM_NOTHING, TRIM_USER, TRIM_SYSTEM_AND_USER };

struct kr_chat_template {
    const char *name;
    const char *specials[KR_CHAT_SPECIALS]; /* the special tokens its texts spell */
    const char *begin;          /* before the first turn; NULL: BOS if the tokenizer adds one */
    const char *system_default; /* NULL: no system text unless the caller gives one */
    const char *system_open, *system_close;
    const char *user_open, *user_close; /* user_close leads up to the reply */
    const char *end;                    /* the special token that ends a reply */
    const char *after_end;              /* between it and the next turn */
    enum kr_trim trim;
    bool system_inside; /* the system text stands in the first user turn, after user_open */
};

/* The template at index, or of this name; NULL if there is none. */
const struct kr_chat_template *kr_chat_template_at(size_t index);
const struct kr_chat_template *kr_chat_template_named(const char *name);

/* Whether the template of this name spells this as one of its special tokens. */
bool kr_chat_spells(const char *name, const uint8_t *text, size_t bytes);

#endif
