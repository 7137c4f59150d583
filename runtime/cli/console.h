/* console.h - what a program may do with its terminal, pipes and Ctrl-C.
 *
 * Text goes to stdout as whole UTF-8 characters and is flushed at once; a
 * terminal gets no control characters from a model.  Messages go to stderr.
 * console_posix.c and console_win32.c have what C11 lacks.
 * SPDX-License-Identifier: MIT */
#ifndef CONSOLE_H
#define CONSOLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "compiler.h"

/* Text on its way to a stream.  Initialise with console_text(). */
struct console_text {
    FILE *stream;
    bool terminal; /* it is one: control characters other than \n and \t are made visible */
    bool one_line; /* those two as well */
    bool failed;   /* a write failed; later writes do nothing */
    char held[4];  /* an unfinished UTF-8 character */
    size_t n_held;
};

/* Once, first in main: a closed pipe becomes a write error, streams carry bytes unchanged, and the
 * words of the command line are UTF-8, which they are from the start on every system but Windows. */
void console_init(int *argc, char ***argv);

struct console_text console_text(void);
/* Write the whole characters of held + text[0..bytes), hold the rest, flush.  Bytes that are
 * no UTF-8 become U+FFFD.  False if the stream failed, now or before. */
bool console_write(struct console_text *t, const char *text, size_t bytes);
/* The end of a text: an unfinished character becomes U+FFFD.  False as above. */
bool console_end(struct console_text *t);

/* "error: ..." on stderr, as one line, whatever the words from outside hold. */
void console_error(const char *fmt, ...) KR_PRINTF(1, 2);
/* A line on stderr that the next one, or the end, replaces; nothing unless stderr is a
 * terminal.  An empty text only removes it. */
void console_progress(const char *fmt, ...) KR_PRINTF(1, 2);

/* Between these two, the first Ctrl-C is remembered and the second ends the program. */
void console_catch_interrupt(void);
void console_release_interrupt(void);
bool console_interrupted(void); /* since the last console_catch_interrupt() */

/* ---- console_posix.c, console_win32.c ---- */

bool console_is_terminal(FILE *f);
/* The system's part of console_init(). */
void console_prepare(int *argc, char ***argv);
/* End as a program ends that Ctrl-C has stopped, so that a calling script stops too. */
_Noreturn void console_die_interrupted(void);
/* Create a file that must not be there yet, to write bytes to.  NULL on failure, with errno set. */
FILE *console_create_file(const char *path);
void console_remove_file(const char *path);
/* Give the finished file `from` the name `to`, replacing what is there.  False on failure,
 * with errno set. */
bool console_replace_file(const char *from, const char *to);
/* Seconds on a clock that never goes back. */
double console_seconds(void);

#endif
