/* sha256.c - SHA-256 in portable C.
 *
 * For checking files on request, where the disk is the limit; not constant
 * time, not for secrets.
 * SPDX-License-Identifier: MIT */
#include "sha256.h"

#include <string.h>

enum { BLOCK = 64, LENGTH_AT = 56 };

/* Fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t load_be(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = load_be(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        const uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        const uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        const uint32_t s1 = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
        const uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + round_constants[i] + w[i];
        const uint32_t s0 = rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22);
        const uint32_t t2 = s0 + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void kr_sha256_begin(struct kr_sha256 *h)
{
    /* Fractional parts of the square roots of the first 8 primes. */
    *h = (struct kr_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                      0x9b05688c, 0x1f83d9ab, 0x5be0cd19}};
}

void kr_sha256_add(struct kr_sha256 *h, const void *data, size_t bytes)
{
    const uint8_t *p = data;
    const size_t pending = h->bytes % BLOCK;
    h->bytes += bytes;
    if (pending > 0) {
        const size_t take = bytes < BLOCK - pending ? bytes : BLOCK - pending;
        memcpy(h->block + pending, p, take);
        p += take;
        bytes -= take;
        if (pending + take < BLOCK)
            return;
        compress(h->state, h->block);
    }
    for (; bytes >= BLOCK; p += BLOCK, bytes -= BLOCK)
        compress(h->state, p);
    if (bytes > 0)
        memcpy(h->block, p, bytes);
}

void kr_sha256_end(struct kr_sha256 *h, char *hex)
{
    static const uint8_t padding[BLOCK] = {0x80};
    const uint64_t bits = h->bytes * 8;
    const size_t pending = h->bytes % BLOCK;
    kr_sha256_add(h, padding, (pending < LENGTH_AT ? LENGTH_AT : LENGTH_AT + BLOCK) - pending);
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    kr_sha256_add(h, length, sizeof length);
    for (int i = 0; i < 64; i++)
        hex[i] = "0123456789abcdef"[h->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}

void kr_sha256_of(const void *data, size_t bytes, struct kr_progress *progress, char *hex)
{
    const size_t most = 1u << 23; /* a moment */
    const uint8_t *at = data;
    struct kr_sha256 h;
    kr_sha256_begin(&h);
    for (size_t n; bytes > 0; at += n, bytes -= n) {
        n = bytes < most ? bytes : most;
        kr_sha256_add(&h, at, n);
        kr_progress_add(progress, n);
    }
    kr_sha256_end(&h, hex);
}
