/* console.c - whole characters out, one-line messages, Ctrl-C.
 *
 * Portable C11; what needs the system is in console_posix.c and console_win32.c.
 * SPDX-License-Identifier: MIT */
#include "console.h"

#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

enum { MESSAGE_CAP = 8192 }; /* a path and the facts */

static volatile sig_atomic_t interrupted;

void console_init(int *argc, char ***argv)
{
    console_prepare(argc, argv);
}

/* ---- text ---- */

struct console_text console_text(void)
{
    return (struct console_text){.stream = stdout, .terminal = console_is_terminal(stdout)};
}

static void put(struct console_text *t, const char *bytes, size_t n)
{
    if (!t->failed && fwrite(bytes, 1, n, t->stream) != n)
        t->failed = true;
}

static void put_replacement(struct console_text *t)
{
    put(t, "\xef\xbf\xbd", 3); /* U+FFFD */
}

/* Bytes that the character starting with `lead` has; 0 if none starts so. */
static size_t character_bytes(uint8_t lead)
{
    if (lead < 0x80)
        return 1;
    if (lead < 0xc2 || lead > 0xf4)
        return 0;
    return lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
}

/* Whether `byte` can stand at index i >= 1 of the character: Unicode's table 3-7, which leaves
 * out long forms, surrogates and what is above U+10FFFF. */
static bool continues(const uint8_t *character, size_t i, uint8_t byte)
{
    uint8_t low = 0x80, high = 0xbf;
    if (i == 1) {
        switch (character[0]) {
        case 0xe0:
            low = 0xa0;
            break;
        case 0xed:
            high = 0x9f;
            break;
        case 0xf0:
            low = 0x90;
            break;
        case 0xf4:
            high = 0x8f;
            break;
        }
    }
    return byte >= low && byte <= high;
}

/* A terminal obeys C0 and C1 controls: show them, as pictures where Unicode has some. */
static void put_character(struct console_text *t, const uint8_t *c, size_t n)
{
    const bool layout = (c[0] == '\n' || c[0] == '\t') && !t->one_line;
    const bool c0 = n == 1 && (c[0] < 0x20 || c[0] == 0x7f) && !layout;
    const bool c1 = n == 2 && c[0] == 0xc2 && c[1] < 0xa0;
    if (t->terminal && c0) {
        const uint8_t picture = c[0] == 0x7f ? 0xa1 : 0x80 + c[0]; /* U+2421, U+2400 + c */
        put(t, (const char[]){'\xe2', '\x90', (char)picture}, 3);
    } else if (t->terminal && c1) {
        put_replacement(t);
    } else {
        put(t, (const char *)c, n);
    }
}

static void take_byte(struct console_text *t, uint8_t byte)
{
    uint8_t *held = (uint8_t *)t->held;
    if (t->n_held > 0 && !continues(held, t->n_held, byte)) {
        put_replacement(t); /* the unfinished character never comes */
        t->n_held = 0;
    }
    if (t->n_held == 0 && character_bytes(byte) == 0) {
        put_replacement(t);
        return;
    }
    held[t->n_held++] = byte;
    if (t->n_held == character_bytes(held[0])) {
        put_character(t, held, t->n_held);
        t->n_held = 0;
    }
}

bool console_write(struct console_text *t, const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        take_byte(t, (uint8_t)text[i]);
    if (!t->failed && fflush(t->stream) != 0)
        t->failed = true;
    return !t->failed;
}

bool console_end(struct console_text *t)
{
    if (t->n_held > 0)
        put_replacement(t);
    t->n_held = 0;
    return console_write(t, "", 0);
}

/* ---- messages ---- */

static void put_message(const char *fmt, va_list ap)
{
    char message[MESSAGE_CAP];
    const int n = vsnprintf(message, sizeof message, fmt, ap);
    struct console_text t = {.stream = stderr, .terminal = true, .one_line = true};
    console_write(&t, message, n < 0 ? 0 : strlen(message));
    console_end(&t);
}

void console_error(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("error: ", stderr);
    put_message(fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
}

void console_progress(const char *fmt, ...)
{
    if (!console_is_terminal(stderr))
        return;
    va_list ap;
    va_start(ap, fmt);
    fputs("\r\x1b[K", stderr); /* to the line's start, and clear it */
    put_message(fmt, ap);
    va_end(ap);
}

/* ---- Ctrl-C ---- */

static void (*handler_before)(int); /* of SIGINT, while ours stands */

static void remember_interrupt(int number)
{
    interrupted = 1;
    signal(number, handler_before); /* the next one ends the program */
}

void console_catch_interrupt(void)
{
    interrupted = 0;
    handler_before = signal(SIGINT, remember_interrupt);
    if (handler_before == SIG_IGN)
        signal(SIGINT, SIG_IGN); /* started in the background: stay deaf */
}

void console_release_interrupt(void)
{
    signal(SIGINT, handler_before);
}

bool console_interrupted(void)
{
    return interrupted != 0;
}
