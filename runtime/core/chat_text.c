/* chat_text.c - what chat templates do to the text of a message.
 * SPDX-License-Identifier: MIT */
#include "chat_text.h"

#include <string.h>

/* The white space that Python's str.strip() takes off. */
static const char *const spaces[] = {
    " ",      "\t",     "\n",       "\v",     "\f",     "\r",     "\x1c",   "\x1d",
    "\x1e",   "\x1f",   "\xc2\x85", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
    "\u2003", "\u2004", "\u2005",   "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
    "\u2028", "\u2029", "\u202f",   "\u205f", "\u3000",
};

struct kr_text kr_text_of(const char *string)
{
    return (struct kr_text){string, strlen(string)};
}

bool kr_text_begins(struct kr_text t, const char *with)
{
    const size_t n = strlen(with);
    return n <= t.bytes && memcmp(t.at, with, n) == 0;
}

bool kr_text_ends(struct kr_text t, const char *with)
{
    const size_t n = strlen(with);
    return n <= t.bytes && memcmp(t.at + t.bytes - n, with, n) == 0;
}

static struct kr_text drop_front(struct kr_text t, size_t bytes)
{
    return (struct kr_text){t.at + bytes, t.bytes - bytes};
}

static struct kr_text drop_back(struct kr_text t, size_t bytes)
{
    return (struct kr_text){t.at, t.bytes - bytes};
}

/* Bytes of the white space character at the start (or end) of t, 0: there is none. */
static size_t space_at(struct kr_text t, bool at_end)
{
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (at_end ? kr_text_ends(t, spaces[i]) : kr_text_begins(t, spaces[i]))
            return strlen(spaces[i]);
    return 0;
}

struct kr_text kr_text_strip(struct kr_text t)
{
    for (size_t n; (n = space_at(t, true));)
        t = drop_back(t, n);
    for (size_t n; (n = space_at(t, false));)
        t = drop_front(t, n);
    return t;
}

static struct kr_text strip_lines_front(struct kr_text t)
{
    while (kr_text_begins(t, "\n"))
        t = drop_front(t, 1);
    return t;
}

static struct kr_text strip_lines_back(struct kr_text t)
{
    while (kr_text_ends(t, "\n"))
        t = drop_back(t, 1);
    return t;
}

/* The first or last place of `word` in t; false: it is not there. */
static bool find(struct kr_text t, const char *word, bool last, size_t *place)
{
    bool found = false;
    for (size_t i = 0; i < t.bytes; i++) {
        if (!kr_text_begins(drop_front(t, i), word))
            continue;
        *place = i;
        found = true;
        if (!last)
            break;
    }
    return found;
}

void kr_text_split_thoughts(struct kr_text reply, struct kr_text *thoughts, struct kr_text *answer)
{
    static const char open[] = "<think>", close[] = "</think>";
    *thoughts = (struct kr_text){reply.at, 0};
    *answer = reply;
    size_t first, last, start;
    if (!find(reply, close, false, &first) || !find(reply, close, true, &last))
        return;
    *answer = strip_lines_front(drop_front(reply, last + strlen(close)));
    *thoughts = strip_lines_back((struct kr_text){reply.at, first});
    if (find(*thoughts, open, true, &start))
        *thoughts = drop_front(*thoughts, start + strlen(open));
    *thoughts = strip_lines_front(*thoughts);
}
