/* test_normalize.c - NFC: what composes, what is left alone, and texts that are all marks.
 *
 * Equality with another implementation on every code point is a Python test's
 * business (test_tokenizer_equality.py).
 * SPDX-License-Identifier: MIT */
#include "normalize.h"
#include "unit.h"

#include <stdint.h>
#include <time.h>

static struct kr_nfc scratch;

/* NFC of a string; static. */
static const char *nfc(const char *text)
{
    static char out[64];
    const uint8_t *s = (const uint8_t *)text;
    size_t n = strlen(text);
    if (!kr_nfc(&scratch, &s, &n) || n >= sizeof out)
        return "failed";
    memcpy(out, s, n);
    out[n] = 0;
    return out;
}

static void marks_are_sorted_and_composed(void)
{
    EXPECT_STR("\u00e9", nfc("e\u0301"));
    EXPECT_STR("x\u00e9y", nfc("xe\u0301y"));
    EXPECT_STR("\u1ed7", nfc("o\u0302\u0303"));
    EXPECT_STR("\u1e0d\u0307", nfc("d\u0307\u0323"));  /* the dot below goes first and joins */
    EXPECT_STR("a\u0345\u0345", nfc("a\u0345\u0345")); /* equal classes stay in their order */
    EXPECT_STR("\u0229\u0308\u0301", nfc("e\u0308\u0327\u0301"));
}

static void what_decomposes_for_good_changes(void)
{
    EXPECT_STR("\u00c5", nfc("\u212b"));       /* the Angstrom sign */
    EXPECT_STR("\u0915\u093c", nfc("\u0958")); /* excluded from composition */
    EXPECT_STR("\u0308\u0301", nfc("\u0344")); /* a mark that is two */
    EXPECT_STR("\U0001d158\U0001d165\U0001d16e", nfc("\U0001d15f\U0001d16e"));
}

static void hangul_is_arithmetic(void)
{
    EXPECT_STR("\uac00", nfc("\u1100\u1161"));
    EXPECT_STR("\uac01", nfc("\u1100\u1161\u11a8"));
    EXPECT_STR("\uac01", nfc("\uac00\u11a8"));
    EXPECT_STR("\ud7a3", nfc("\u1112\u1175\u11c2"));
    EXPECT_STR("\uac01\u11a8", nfc("\uac01\u11a8")); /* has its last jamo already */
    EXPECT_STR("\uac00\u11a7", nfc("\uac00\u11a7")); /* one before the first of them */
}

static void characters_of_later_versions_stay(void)
{
    EXPECT_STR("\U00011935\U00011930", nfc("\U00011935\U00011930")); /* Unicode 13 composes them */
    EXPECT_STR("a\u08d3\u0301", nfc("a\u08d3\u0301"));               /* a mark since Unicode 11 */
}

static void bytes_that_are_no_utf8_stay(void)
{
    EXPECT_STR("\xff\xcc\x81", nfc("\xff\xcc\x81")); /* nothing for the mark to join */
    EXPECT_STR("\xc3\xa9\x80\xcc\xc3\xa9", nfc("e\xcc\x81\x80\xcc"
                                               "e\xcc\x81"));
    EXPECT_STR("\xed\xa0\x80", nfc("\xed\xa0\x80"));
    EXPECT_STR("\xcc", nfc("\xcc"));
}

static void normalized_text_is_not_copied(void)
{
    static const char text[] = "na\u00efve \uac01 \u4e2d\u6587 \u0e01\u0e38\u0e48 \u05d0\u05b7";
    const uint8_t *s = (const uint8_t *)text;
    size_t n = sizeof text - 1;
    EXPECT(kr_nfc(&scratch, &s, &n));
    EXPECT(s == (const uint8_t *)text && n == sizeof text - 1);
}

/* Alternately two marks whose order is wrong, a megabyte of them.  CPU time 0.03 s where this was
 * written; sorted by insertion it would take an hour. */
static void a_megabyte_of_marks_takes_linear_time(void)
{
    enum { MARKS = 250000, MARK_BYTES = 4 };
    uint8_t *text = malloc(MARKS * MARK_BYTES);
    if (!text)
        exit(1);
    for (size_t i = 0; i < MARKS; i++)
        memcpy(text + MARK_BYTES * i, "\u0301\u0316", MARK_BYTES);
    const uint8_t *s = text;
    size_t n = MARKS * MARK_BYTES;
    const clock_t start = clock();
    EXPECT(kr_nfc(&scratch, &s, &n));
    EXPECT((double)(clock() - start) / CLOCKS_PER_SEC < 20);
    EXPECT(n == MARKS * MARK_BYTES && s != text);
    size_t wrong = 0;
    for (size_t i = 0; i < 2 * MARKS; i++)
        wrong += memcmp(s + 2 * i, i < MARKS ? "\u0316" : "\u0301", 2) != 0;
    EXPECT(wrong == 0);
    free(text);
}

int main(void)
{
    marks_are_sorted_and_composed();
    what_decomposes_for_good_changes();
    hangul_is_arithmetic();
    characters_of_later_versions_stay();
    bytes_that_are_no_utf8_stay();
    normalized_text_is_not_copied();
    a_megabyte_of_marks_takes_linear_time();
    kr_nfc_free(&scratch);
    return unit_done("test_normalize");
}
