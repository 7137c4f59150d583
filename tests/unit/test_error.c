/* test_error.c - messages stay one line of valid UTF-8 that fits; sizes do not wrap.
 * SPDX-License-Identifier: MIT */
#include "error.h"
#include "unit.h"

static void test_a_message_is_formatted_and_the_status_returned(void)
{
    krafla_error err;
    EXPECT(kr_fail(&err, KRAFLA_E_IO, "%s: %d", "x", 7) == KRAFLA_E_IO);
    EXPECT(err.status == KRAFLA_E_IO);
    EXPECT_STR("x: 7", err.message);
    EXPECT(kr_fail(NULL, KRAFLA_E_CPU, "%s", "x") == KRAFLA_E_CPU);
}

static void test_control_characters_and_bad_utf8_become_question_marks(void)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"a\nb\r\tc", "a?b??c"},
        {"\x1b[31m", "?[31m"},
        {"\x7f", "?"},
        {"\xc2\x9b"
         "31m",
         "?31m"},                               /* C1: an 8-bit escape */
        {"a\xe2\x80\xa8z\xe2\x80\xa9", "a?z?"}, /* line and paragraph separator */
        {"\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80", "\xc3\xa9t\xc3\xa9 \xf0\x9f\x98\x80"},
        {"\xe2\x80\xae"
         "gpj.exe\xef\xbb\xbf",
         "?gpj.exe?"}, /* right-to-left override, BOM */
        {"\xff\xc3", "??"},
        {"\xc0\xaf", "??"},           /* overlong */
        {"\xed\xa0\x80", "???"},      /* surrogate */
        {"\xf4\x90\x80\x80", "????"}, /* beyond U+10FFFF */
        {"\xe2\x82", "??"},           /* cut short */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        krafla_error err;
        kr_fail(&err, KRAFLA_E_IO, "%s", cases[i].in);
        EXPECT_STR(cases[i].out, err.message);
    }
}

static void test_a_long_path_does_not_push_out_the_facts(void)
{
    char path[4000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    krafla_error err;
    kr_fail(&err, KRAFLA_E_IO, "/start/%s/model.mlb: truncated: 5 of 9 bytes; download it again",
            path);
    EXPECT(strlen(err.message) == sizeof err.message - 1);
    EXPECT(strncmp(err.message, "/start/ppp", 10) == 0);
    EXPECT(strstr(err.message, "p...p") != NULL);
    EXPECT(strstr(err.message, "p/model.mlb: truncated: 5 of 9 bytes; download it again") != NULL);
    kr_fail(&err, KRAFLA_E_MEMORY, "out of memory opening /start/%s", path);
    EXPECT(strncmp(err.message, "out of memory opening /start/", 29) == 0);
}

static void test_a_cut_does_not_split_a_character(void)
{
    char text[2000];
    for (size_t shift = 0; shift < 4; shift++) {
        size_t n = 0;
        for (; n < shift; n++)
            text[n] = 'x';
        for (; n + 4 < sizeof text; n += 4)
            memcpy(text + n, "\xf0\x9f\x98\x80", 4);
        text[n] = '\0';
        krafla_error err, again;
        kr_fail(&err, KRAFLA_E_IO, "%s", text);
        kr_fail(&again, KRAFLA_E_IO, "%s", err.message); /* replaces what is not valid */
        EXPECT_STR(again.message, err.message);
        EXPECT(strchr(err.message, '?') == NULL);
    }
}

static void test_a_hint_is_added_once_and_only_to_a_format_error(void)
{
    krafla_error err;
    kr_fail(&err, KRAFLA_E_FORMAT, "x: bad");
    EXPECT(kr_fail_hint(&err, KRAFLA_E_FORMAT, "try again") == KRAFLA_E_FORMAT);
    EXPECT_STR("x: bad; try again", err.message);
    kr_fail_hint(&err, KRAFLA_E_FORMAT, "or not");
    EXPECT_STR("x: bad; try again", err.message);
    kr_fail(&err, KRAFLA_E_MEMORY, "out of memory");
    EXPECT(kr_fail_hint(&err, KRAFLA_E_MEMORY, "download it") == KRAFLA_E_MEMORY);
    EXPECT_STR("out of memory", err.message);
    EXPECT(kr_fail_hint(&err, KRAFLA_OK, "download it") == KRAFLA_OK);
    EXPECT(kr_fail_hint(NULL, KRAFLA_E_FORMAT, "download it") == KRAFLA_E_FORMAT);
}

static void test_sizes_do_not_wrap(void)
{
    size_t out = 0;
    EXPECT(kr_size_mul(&out, 6, 7) && out == 42);
    EXPECT(kr_size_mul(&out, 0, SIZE_MAX) && out == 0);
    EXPECT(kr_size_mul(&out, SIZE_MAX, 0) && out == 0);
    EXPECT(kr_size_mul(&out, SIZE_MAX, 1) && out == SIZE_MAX);
    EXPECT(!kr_size_mul(&out, SIZE_MAX / 2 + 1, 2));
    EXPECT(!kr_size_mul(&out, SIZE_MAX, SIZE_MAX));
    EXPECT(kr_size_add(&out, SIZE_MAX, 0) && out == SIZE_MAX);
    EXPECT(!kr_size_add(&out, SIZE_MAX, 1));
}

int main(void)
{
    test_a_message_is_formatted_and_the_status_returned();
    test_control_characters_and_bad_utf8_become_question_marks();
    test_a_long_path_does_not_push_out_the_facts();
    test_a_cut_does_not_split_a_character();
    test_a_hint_is_added_once_and_only_to_a_format_error();
    test_sizes_do_not_wrap();
    return unit_done("test_error");
}
