/* error.c - one-line error messages and checked size arithmetic.
 *
 * Whatever a message is made of (paths, names out of hostile files), what
 * arrives is one line of valid UTF-8 that no terminal takes for a command.
 * SPDX-License-Identifier: MIT */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

enum {
    FULL_CAP = 8192, /* a path and the facts before they are shortened */
    HEAD_BYTES = 120 /* kept of a too long message's beginning; the rest is its end */
};

/* True for what could start a new line, move the cursor or reorder or hide text. */
static bool is_control(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

static bool is_continuation(char c)
{
    return ((uint8_t)c & 0xc0) == 0x80;
}

/* Replace control characters and invalid bytes by '?'; returns the new length. */
static size_t sanitize(char *s, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const size_t len = kr_utf8_next(s + i, n - i, &code);
        if (len == 0 || is_control(code)) {
            s[out++] = '?';
            i += len ? len : 1;
            continue;
        }
        memmove(s + out, s + i, len);
        out += len;
        i += len;
    }
    s[out] = '\0';
    return out;
}

/* Copy text[0..n) to the message.  One that is too long loses its middle: the facts stand at
 * one end or the other, what is long is the path between. */
static void set_message(krafla_error *err, const char *text, size_t n)
{
    const size_t room = sizeof err->message - 1;
    if (n <= room) {
        memcpy(err->message, text, n);
        err->message[n] = '\0';
        return;
    }
    size_t head = HEAD_BYTES;
    while (head > 0 && is_continuation(text[head]))
        head--;
    size_t tail = n - (room - head - 3);
    while (tail < n && is_continuation(text[tail]))
        tail++;
    memcpy(err->message, text, head);
    memcpy(err->message + head, "...", 3);
    memcpy(err->message + head + 3, text + tail, n - tail);
    err->message[head + 3 + n - tail] = '\0';
}

krafla_status kr_fail(krafla_error *err, krafla_status status, const char *fmt, ...)
{
    if (!err)
        return status;
    char text[FULL_CAP];
    va_list ap;
    va_start(ap, fmt);
    const int printed = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    size_t n = printed < 0 ? 0 : (size_t)printed;
    if (n > sizeof text - 1)
        n = sizeof text - 1;
    err->status = status;
    set_message(err, text, sanitize(text, n));
    return status;
}

krafla_status kr_fail_hint(krafla_error *err, krafla_status status, const char *remedy)
{
    if (!err || status != KRAFLA_E_FORMAT || strchr(err->message, ';'))
        return status;
    char text[sizeof err->message];
    memcpy(text, err->message, sizeof text);
    return kr_fail(err, status, "%s; %s", text, remedy);
}

bool kr_size_mul(size_t *out, size_t a, size_t b)
{
    if (b != 0 && a > SIZE_MAX / b)
        return false;
    *out = a * b;
    return true;
}

bool kr_size_add(size_t *out, size_t a, size_t b)
{
    if (a > SIZE_MAX - b)
        return false;
    *out = a + b;
    return true;
}
