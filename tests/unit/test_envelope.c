/* test_envelope.c - the frame of the files, from memory and from a mapped file.
 *
 * What is refused is tested with the corpus of tests/py/hostile.py; here are
 * the messages that matter, the map and the checksum.
 * SPDX-License-Identifier: MIT */
#include "envelope.h"
#include "file.h"
#include "ml.h"
#include "unit.h"

#define MLT "\x89MLT\r\n\x1a\n"
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" /* of "abc" */
#define HEADER(sha, version)                                                                       \
    "{\"data_bytes\":3,\"data_sha256\":\"" sha "\",\"file_bytes\":@,\"format\":\"mlt\","           \
    "\"min_version\":\"" version "\"}"

static const char *path;

static const char *message_of(const char *magic, uint32_t version, const char *header)
{
    static krafla_error err;
    struct bytes file = make_file(magic, version, header, "abc", 3);
    struct kr_envelope e;
    err.message[0] = '\0';
    if (kr_envelope_parse(&e, file.p, file.n, "x", "mlt", &err) == KRAFLA_OK)
        kr_envelope_close(&e);
    free(file.p);
    return err.message;
}

static void test_a_file_is_mapped_and_verified(void)
{
    struct bytes file = make_file(MLT, 1, HEADER(ABC, "0.1.0"), "abc", 3);
    write_file(path, file.p, file.n);
    krafla_error err;
    struct kr_envelope e;
    EXPECT(kr_envelope_open(&e, path, "mlt", &err) == KRAFLA_OK);
    EXPECT(e.data_bytes == 3 && memcmp(e.data, "abc", 3) == 0);
    EXPECT((e.data - e.map.base) % 64 == 0);
    EXPECT_STR(ABC, e.data_sha256);
    EXPECT(kr_envelope_verify(&e, path, NULL, &err) == KRAFLA_OK);
    kr_envelope_close(&e);
    kr_envelope_close(&e);

    file.p[file.n - 1] ^= 1;
    write_file(path, file.p, file.n);
    EXPECT(kr_envelope_open(&e, path, "mlt", &err) == KRAFLA_OK);
    EXPECT(kr_envelope_verify(&e, path, NULL, &err) == KRAFLA_E_FORMAT);
    EXPECT(strstr(err.message, "damaged: the data's SHA-256 is ") != NULL);
    kr_envelope_close(&e);
    free(file.p);
}

static void test_every_shorter_file_is_refused(void)
{
    struct bytes file = make_file(MLT, 1, HEADER(ABC, "0.1.0"), "abc", 3);
    for (size_t n = 0; n < file.n; n++) {
        uint8_t *copy = malloc(n ? n : 1); /* exact: a sanitizer sees a read past the end */
        memcpy(copy, file.p, n);
        struct kr_envelope e;
        EXPECT(kr_envelope_parse(&e, copy, n, "x", "mlt", NULL) == KRAFLA_E_FORMAT);
        free(copy);
    }
    free(file.p);
}

static void test_another_kind_is_named(void)
{
    EXPECT_STR(
        "x: is a Krafla model (.mlb), not what is expected here; check the order of the file "
        "names",
        message_of("\x89MLB\r\n\x1a\n", 1, HEADER(ABC, "0.1.0")));
}

static void test_a_later_version_is_named(void)
{
    EXPECT_STR("", message_of(MLT, 1, HEADER(ABC, ML_VERSION)));
    EXPECT_STR("x: needs Krafla 99.0.1 or later, this is " ML_VERSION "; get a newer release",
               message_of(MLT, 1, HEADER(ABC, "99.0.1")));
    EXPECT_STR("x: needs Krafla 99.0.1 or later, this is " ML_VERSION "; get a newer release",
               message_of(MLT, 2, HEADER(ABC, "99.0.1")));
    EXPECT_STR("x: file version 2, this Krafla reads 1; get a newer release",
               message_of(MLT, 2, "{\"new\":1}"));
    EXPECT_STR("x: file version 2, this Krafla reads 1; get a newer release",
               message_of(MLT, 2, "no JSON at all"));
    EXPECT_STR("x: min_version: expected \"X.Y.Z\", found \"1.2\"; download or convert it again",
               message_of(MLT, 1, HEADER(ABC, "1.2")));
}

static void test_a_bad_digest_and_missing_keys_are_refused(void)
{
    EXPECT_STR("x: data_sha256: expected 64 hex digits, found \"12\"; download or convert it again",
               message_of(MLT, 1, HEADER("12", "0.1.0")));
    EXPECT_STR("x: \"min_version\" is missing; download or convert it again",
               message_of(MLT, 1, "{\"file_bytes\":@}"));
    EXPECT_STR("x: header is not a JSON object; download or convert it again",
               message_of(MLT, 1, "[@]"));
}

static void test_what_cannot_be_mapped_is_an_io_error(void)
{
    krafla_error err;
    struct kr_envelope e;
    EXPECT(kr_envelope_open(&e, "none/x.mlt", "mlt", &err) == KRAFLA_E_IO);
    EXPECT_STR("none/x.mlt: cannot open: No such file or directory", err.message);
    EXPECT(kr_envelope_open(&e, ".", "mlt", &err) == KRAFLA_E_IO);
    EXPECT_STR(".: is a directory, expected a file; name the file in it", err.message);
    write_file(path, "", 0);
    EXPECT(kr_envelope_open(&e, path, "mlt", &err) == KRAFLA_E_FORMAT);
    kr_envelope_close(&e);
}

int main(void)
{
    path = temporary_path("test_envelope");
    test_a_file_is_mapped_and_verified();
    test_every_shorter_file_is_refused();
    test_another_kind_is_named();
    test_a_later_version_is_named();
    test_a_bad_digest_and_missing_keys_are_refused();
    test_what_cannot_be_mapped_is_an_io_error();
    unlink(path);
    return unit_done("test_envelope");
}
