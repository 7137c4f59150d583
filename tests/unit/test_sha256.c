/* test_sha256.c - the vectors of FIPS 180-4 and every way to cut a message in two.
 * SPDX-License-Identifier: MIT */
#include "sha256.h"
#include "unit.h"

static void expect_hash(const char *want, const void *data, size_t n)
{
    struct kr_sha256 h;
    char hex[65];
    kr_sha256_begin(&h);
    kr_sha256_add(&h, data, n);
    kr_sha256_end(&h, hex);
    EXPECT_STR(want, hex);
}

static void test_published_vectors(void)
{
    expect_hash("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "", 0);
    expect_hash("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad", "abc", 3);
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    expect_hash("248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1", two, 56);
    char *million = malloc(1000000);
    memset(million, 'a', 1000000);
    expect_hash("cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0", million,
                1000000);
    free(million);
}

static void test_pieces_hash_like_the_whole(void)
{
    uint8_t data[200];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 37);
    size_t wrong = 0;
    for (size_t n = 0; n <= sizeof data; n++) {
        struct kr_sha256 h;
        char whole[65], parts[65];
        kr_sha256_begin(&h);
        kr_sha256_add(&h, data, n);
        kr_sha256_end(&h, whole);
        for (size_t cut = 0; cut <= n; cut++) {
            kr_sha256_begin(&h);
            kr_sha256_add(&h, data, cut);
            kr_sha256_add(&h, data + cut, n - cut);
            kr_sha256_end(&h, parts);
            wrong += strcmp(whole, parts) != 0;
        }
    }
    EXPECT(wrong == 0);
}

int main(void)
{
    test_published_vectors();
    test_pieces_hash_like_the_whole();
    return unit_done("test_sha256");
}
