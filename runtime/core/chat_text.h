/* chat_text.h - what chat templates do to the text of a message.
 *
 * A kr_text is a piece of text that somebody else owns; every function returns
 * a part of what it is given.
 * SPDX-License-Identifier: MIT */
#ifndef KR_CHAT_TEXT_H
#define KR_CHAT_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct kr_text {
    const char *at;
    size_t bytes;
};

struct kr_text kr_text_of(const char *string);

/* Without the white space at both ends, as Python's str.strip() and Jinja's trim do it. */
struct kr_text kr_text_strip(struct kr_text t);

bool kr_text_begins(struct kr_text t, const char *with);
bool kr_text_ends(struct kr_text t, const char *with);

/* A reply and the reasoning that precedes it, as the templates of Qwen3 and Qwen3.5 tell them
 * apart; without a </think> all of it is the answer. */
void kr_text_split_thoughts(struct kr_text reply, struct kr_text *thoughts, struct kr_text *answer);

#endif
