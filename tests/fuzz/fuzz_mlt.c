/* fuzz_mlt.c - any bytes as a tokenizer file: an error, or a tokenizer that can be used.
 *
 * What it is used on is fixed, and the last bytes of the file itself; replay.c
 * or libFuzzer has main.
 * SPDX-License-Identifier: MIT */
#include "krafla.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TAIL = 256, MAX_IDS = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int holds)
{
    if (!holds)
        abort();
}

/* Encode, and decode what came out; every id must exist. */
static void use(const krafla_tokenizer *t, const char *text, size_t bytes)
{
    static int32_t ids[MAX_IDS];
    static char out[MAX_IDS];
    for (uint32_t flags = 0; flags < 8; flags++) {
        size_t n, written;
        check(krafla_tokenizer_encode(t, text, bytes, flags, ids, MAX_IDS, &n, NULL) == KRAFLA_OK);
        check(n <= MAX_IDS);
        for (size_t i = 0; i < n; i++)
            check(ids[i] >= 0 && ids[i] < krafla_tokenizer_vocab(t));
        check(krafla_tokenizer_decode(t, -1, ids, n, out, sizeof out, &written, NULL) == KRAFLA_OK);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char text[] = "Hello, world's 42  \n\n\xe2\x96\x81 \xe4\xb8\x96 \xff a b ab <s>"
                               "e\u0301\u0316\u1100\u1161\u11a8\u0958\xff\u0301 IT'S\r\n 12345";
    char path[64];
    const int fd = memfd_create("fuzz_mlt", 0);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);

    krafla_tokenizer *t;
    krafla_error err;
    if (krafla_tokenizer_open(&t, path, &err) == KRAFLA_OK) {
        use(t, text, sizeof text);
        use(t, (const char *)data + (size > TAIL ? size - TAIL : 0), size > TAIL ? TAIL : size);
        krafla_tokenizer_find(t, "<s>");
        krafla_tokenizer_close(t);
    } else {
        check(!t && err.status && err.message[0]);
    }
    close(fd);
    return 0;
}
