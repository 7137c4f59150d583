/* test_json.c - the JSON reader: what RFC 8259 accepts and refuses, limits, exact numbers.
 * SPDX-License-Identifier: MIT */
#include "json.h"
#include "unit.h"

static krafla_status parse(struct kr_json *j, const char *text, krafla_error *err)
{
    return kr_json_parse(j, text, strlen(text), "test", err);
}

static bool accepts_bytes(const char *text, size_t n)
{
    /* An exact copy, so that a sanitizer sees a read past the end. */
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    struct kr_json j;
    const bool ok = kr_json_parse(&j, copy, n, "test", NULL) == KRAFLA_OK;
    kr_json_free(&j);
    free(copy);
    return ok;
}

static bool accepts(const char *text)
{
    return accepts_bytes(text, strlen(text));
}

static void test_accepts_what_rfc_8259_allows(void)
{
    static const char *const texts[] = {"{}",
                                        "[]",
                                        "0",
                                        "-0",
                                        "null",
                                        "true",
                                        "false",
                                        "\"\"",
                                        " [ ] ",
                                        "[1,2]",
                                        "{\"a\":1}",
                                        "1.5",
                                        "-1e5",
                                        "1E+2",
                                        "1e-2",
                                        "0.0",
                                        "\t\n\r 1 \n",
                                        "[[],{}]",
                                        "{\"\":0}",
                                        "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\"",
                                        "\"\\ud83d\\ude00\"",
                                        "\"\xf0\x9f\x98\x80\"",
                                        "\"\x7f\"",
                                        "{\"a\":{\"a\":1},\"b\":[{\"a\":2}]}",
                                        "\"\\u0000\"",
                                        "123456789012345678901234567890"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        if (!accepts(texts[i]))
            fprintf(stderr, "refused: %s\n", texts[i]);
        EXPECT(accepts(texts[i]));
    }
}

static const char *const no_json[] = {"",
                                      " ",
                                      "{",
                                      "[",
                                      "\"",
                                      "}",
                                      "]",
                                      "[1",
                                      "[1,",
                                      "[1,]",
                                      "[,1]",
                                      "[1 2]",
                                      "{\"a\"}",
                                      "{\"a\":}",
                                      "{\"a\":1,}",
                                      "{a:1}",
                                      "{1:1}",
                                      "{\"a\" 1}",
                                      "'a'",
                                      "01",
                                      "-",
                                      "+1",
                                      ".5",
                                      "1.",
                                      "1.e1",
                                      "1e",
                                      "1e+",
                                      "--1",
                                      "0x1",
                                      "NaN",
                                      "Infinity",
                                      "-Infinity",
                                      "nul",
                                      "nulll",
                                      "True",
                                      "1 2",
                                      "[]]",
                                      "{}x",
                                      "\"\\x\"",
                                      "\"\\u12\"",
                                      "\"\\u12g4\"",
                                      "\"a\nb\"",
                                      "\"\\",
                                      "\"\\ud800\"",
                                      "\"\\udc00\"",
                                      "\"\\ud800\\u0041\"",
                                      "\"\\ud800\\n\"",
                                      "\"\x80\"",
                                      "\"\xc0\x80\"",
                                      "\"\xe0\x80\x80\"",
                                      "\"\xed\xa0\x80\"",
                                      "\"\xf4\x90\x80\x80\"",
                                      "\"\xf0\x9f\x98\"",
                                      "\xef\xbb\xbf{}",
                                      "// a\n1",
                                      "[1]/**/",
                                      "\"\x01\"",
                                      "\"a",
                                      "tru",
                                      "1\f"};

static void test_refuses_what_rfc_8259_does_not_allow(void)
{
    for (size_t i = 0; i < sizeof no_json / sizeof *no_json; i++) {
        if (accepts(no_json[i]))
            fprintf(stderr, "accepted: %s\n", no_json[i]);
        EXPECT(!accepts(no_json[i]));
    }
    EXPECT(!accepts_bytes("1\0", 2));
    EXPECT(!accepts_bytes("\"\0\"", 3));
    EXPECT(!accepts_bytes("[1\0]", 4));
}

static void test_refuses_duplicate_keys_however_they_are_spelled(void)
{
    EXPECT(!accepts("{\"a\":1,\"a\":2}"));
    EXPECT(!accepts("{\"a\":1,\"b\":3,\"\\u0061\":2}"));
    EXPECT(!accepts("[{\"x\":{\"k\":0,\"k\":0}}]"));
    EXPECT(!accepts("{\"\xc3\xa9\":1,\"\\u00e9\":2}"));
    EXPECT(accepts("{\"a\":1,\"A\":2,\"aa\":3,\"\":4}"));
}

static void test_depth_64_is_read_and_65_is_not(void)
{
    char text[131];
    for (size_t depth = 64; depth <= 65; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        EXPECT(accepts_bytes(text, 2 * depth) == (depth == 64));
    }
    static char deep[200000];
    memset(deep, '[', sizeof deep);
    EXPECT(!accepts_bytes(deep, sizeof deep));
}

static void test_a_million_values_are_read_and_one_more_is_not(void)
{
    const size_t n = 2 * 1000000;
    char *text = malloc(n + 2);
    for (size_t i = 0; i < n; i += 2)
        memcpy(text + i, "0,", 2);
    text[0] = '[';
    text[1] = '0'; /* [0,0,0,...] : the array and then the zeros */
    for (size_t i = 2; i < n; i += 2)
        memcpy(text + i, ",0", 2);
    text[n - 2] = ']'; /* 1 array + 999 999 zeros */
    EXPECT(accepts_bytes(text, n - 1));
    text[n - 2] = ',';
    text[n - 1] = '0';
    text[n] = ']';
    EXPECT(!accepts_bytes(text, n + 1));
    free(text);
}

static void test_finds_values_by_key(void)
{
    struct kr_json j;
    krafla_error err;
    EXPECT(parse(&j, "{\"a\":[1,{\"b\":2}],\"b\":\"x\",\"\\u0063\":true,\"d\":null}", &err) == 0);
    EXPECT(kr_json_find(&j, 0, "a") == 2);
    EXPECT(kr_json_find(&j, 0, "x") == -1);
    EXPECT(kr_json_find(&j, 2, "a") == -1);
    char s[4];
    EXPECT(kr_json_string(&j, 0, "b", s, sizeof s, &err) == KRAFLA_OK);
    EXPECT_STR("x", s);
    bool c = false;
    EXPECT(kr_json_bool(&j, 0, "c", &c, &err) == KRAFLA_OK && c);
    size_t a;
    EXPECT(kr_json_member(&j, 0, "a", KR_JSON_ARRAY, &a, &err) == KRAFLA_OK);
    EXPECT(j.values[a].count == 2);
    EXPECT(kr_json_member(&j, 0, "a", KR_JSON_OBJECT, &a, &err) == KRAFLA_E_FORMAT);
    EXPECT_STR("test: a: expected an object, found [1,{\"b\":2}]", err.message);
    EXPECT(kr_json_bool(&j, 0, "z", &c, &err) == KRAFLA_E_FORMAT);
    EXPECT_STR("test: \"z\" is missing", err.message);
    kr_json_free(&j);
}

static bool int_is(const char *number, int64_t min, int64_t max, int64_t *out)
{
    char text[128];
    snprintf(text, sizeof text, "{\"k\":%s}", number);
    struct kr_json j;
    const bool ok =
        parse(&j, text, NULL) == KRAFLA_OK && kr_json_int(&j, 0, "k", min, max, out, NULL) == 0;
    kr_json_free(&j);
    return ok;
}

static void test_integers_are_exact_and_bounded(void)
{
    int64_t v = 0;
    EXPECT(int_is("9223372036854775807", INT64_MIN, INT64_MAX, &v) && v == INT64_MAX);
    EXPECT(int_is("-9223372036854775807", INT64_MIN, INT64_MAX, &v) && v == -INT64_MAX);
    EXPECT(!int_is("9223372036854775808", INT64_MIN, INT64_MAX, &v));
    EXPECT(!int_is("18446744073709551616", INT64_MIN, INT64_MAX, &v));
    EXPECT(!int_is("99999999999999999999999999", INT64_MIN, INT64_MAX, &v));
    EXPECT(int_is("-0", 0, 0, &v) && v == 0);
    EXPECT(int_is("7", 7, 7, &v) && !int_is("8", 7, 7, &v) && !int_is("6", 7, 7, &v));
    EXPECT(!int_is("1.0", 0, 9, &v) && !int_is("1e0", 0, 9, &v) && !int_is("\"1\"", 0, 9, &v));
    v = 5;
    EXPECT(!int_is("10", 0, 9, &v) && v == 5);
    EXPECT(!int_is("true", 0, 9, &v) && !int_is("null", 0, 9, &v) && !int_is("[1]", 0, 9, &v));
}

static bool double_is(const char *number, double *out)
{
    char text[128];
    snprintf(text, sizeof text, "{\"k\":%s}", number);
    struct kr_json j;
    const bool ok = parse(&j, text, NULL) == KRAFLA_OK &&
                    kr_json_double(&j, 0, "k", -1e300, 1e300, out, NULL) == KRAFLA_OK;
    kr_json_free(&j);
    return ok;
}

static void test_doubles_equal_strtod_on_many_values(void)
{
    uint64_t x = 88172645463325252u;
    size_t wrong = 0;
    for (int i = 0; i < 200000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        char number[64];
        const int digits = 1 + (int)(x % 15), power = (int)(x / 64 % 22) - 11;
        uint64_t limit = 10;
        for (int d = 1; d < digits; d++)
            limit *= 10;
        const uint64_t mantissa = (x >> 12) % limit;
        snprintf(number, sizeof number, "%s%llu.%02ue%d", x & 32 ? "-" : "",
                 (unsigned long long)(mantissa / 100), (unsigned)(mantissa % 100), power);
        double got = 0;
        const double want = strtod(number, NULL);
        wrong += !double_is(number, &got) || memcmp(&got, &want, sizeof got) != 0;
    }
    EXPECT(wrong == 0);
}

static void test_doubles_beyond_what_is_exact_are_refused(void)
{
    double v;
    EXPECT(double_is("123456789012345", &v) && v == 123456789012345.0);
    EXPECT(!double_is("1234567890123456", &v));
    EXPECT(double_is("1234567890123450", &v) && v == 1234567890123450.0);
    EXPECT(double_is("0.000000000123456789012345e4", &v) && v == 1.23456789012345e-6);
    EXPECT(double_is("1e22", &v) && v == 1e22 && !double_is("1e23", &v));
    EXPECT(double_is("1e-22", &v) && v == 1e-22 && !double_is("1e-23", &v));
    EXPECT(double_is("10e21", &v) && v == 1e22);
    EXPECT(!double_is("1e999999999999999999999", &v) && !double_is("1e-99999999999999", &v));
    EXPECT(double_is("0e99999", &v) && v == 0.0);
    EXPECT(double_is("0.1", &v) && v == 0.1 && double_is("1e-05", &v) && v == 1e-5);
    v = 5;
    EXPECT(!double_is("1e301", &v) && !double_is("-2e22e", &v) && v == 5);
    EXPECT(!double_is("\"1\"", &v) && !double_is("null", &v));
}

static void test_strings_are_unescaped_and_must_fit(void)
{
    struct kr_json j;
    krafla_error err;
    EXPECT(parse(&j, "{\"k\":\"a\\u00e9\\ud83d\\ude00\\n\",\"z\":\"\\u0000\"}", &err) == KRAFLA_OK);
    char s[9];
    EXPECT(kr_json_string(&j, 0, "k", s, 9, &err) == KRAFLA_OK);
    EXPECT_STR("a\xc3\xa9\xf0\x9f\x98\x80\n", s);
    EXPECT(kr_json_string(&j, 0, "k", s, 8, &err) == KRAFLA_E_FORMAT);
    EXPECT(kr_json_string(&j, 0, "z", s, 9, &err) == KRAFLA_E_FORMAT);
    kr_json_free(&j);
}

static void test_errors_say_where_and_stay_one_line(void)
{
    struct kr_json j;
    krafla_error err;
    EXPECT(parse(&j, "{\"a\":\n\x1b[31m}", &err) == KRAFLA_E_FORMAT);
    EXPECT_STR("test: JSON byte 6: expected a JSON value, found '?[31m}'", err.message);
    EXPECT(parse(&j, "[1", &err) == KRAFLA_E_FORMAT);
    EXPECT_STR("test: JSON ends at byte 2, expected ',' or ']'", err.message);
    int64_t v;
    EXPECT(parse(&j, "{\"dim\":0}", &err) == KRAFLA_OK);
    EXPECT(kr_json_int(&j, 0, "dim", 1, 9, &v, &err) == KRAFLA_E_FORMAT);
    EXPECT_STR("test: dim: expected an integer from 1 to 9, found 0", err.message);
    kr_json_free(&j);
}

int main(void)
{
    test_accepts_what_rfc_8259_allows();
    test_refuses_what_rfc_8259_does_not_allow();
    test_refuses_duplicate_keys_however_they_are_spelled();
    test_depth_64_is_read_and_65_is_not();
    test_a_million_values_are_read_and_one_more_is_not();
    test_finds_values_by_key();
    test_integers_are_exact_and_bounded();
    test_doubles_equal_strtod_on_many_values();
    test_doubles_beyond_what_is_exact_are_refused();
    test_strings_are_unescaped_and_must_fit();
    test_errors_say_where_and_stay_one_line();
    return unit_done("test_json");
}
