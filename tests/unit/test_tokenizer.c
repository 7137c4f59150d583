/* test_tokenizer.c - the pre-tokenizers and BPE piece by piece, the contract of the public calls.
 *
 * Equality with other implementations is the Python tests' business.
 * SPDX-License-Identifier: MIT */
#include "bpe.h"
#include "pretok.h"
#include "unicode.h"
#include "unit.h"

#include <stdint.h>

static void put_record(FILE *f, float score, const char *text, size_t n)
{
    const int32_t length = (int32_t)n;
    fwrite(&score, sizeof score, 1, f);
    fwrite(&length, sizeof length, 1, f);
    fwrite(text, 1, n, f);
}

/* A llama2.c file: 259 fixed tokens, then 259 " ", 260 "a", 261 "b", 262 "ab", 263 " ab". */
static void write_tokenizer(const char *path)
{
    static const char *const pieces[] = {" ", "a", "b", "ab", " ab"};
    const int32_t longest = 6;
    FILE *f = fopen(path, "wb");
    if (!f)
        exit(1);
    fwrite(&longest, sizeof longest, 1, f);
    for (int i = 0; i < 3; i++)
        put_record(f, 0, "<x>", 3);
    for (int i = 0; i < 256; i++)
        put_record(f, 0, "<0xXX>", 6);
    for (int i = 0; i < 5; i++)
        put_record(f, (float)-i, pieces[i], strlen(pieces[i]));
    fclose(f);
}

/* The pieces of text, each followed by '|'. */
static const char *pieces_of(enum kr_pretok pretok, const char *text)
{
    static char out[256];
    size_t n = strlen(text), used = 0;
    for (size_t at = 0; at < n;) {
        const size_t piece = kr_pretok_next(pretok, (const uint8_t *)text + at, n - at);
        EXPECT(piece >= 1 && piece <= n - at);
        memcpy(out + used, text + at, piece);
        used += piece;
        out[used++] = '|';
        at += piece;
    }
    out[used] = 0;
    return out;
}

static void pretokenizers_split_as_their_expression(void)
{
    const enum kr_pretok g = KR_PRETOK_GPT2, d = KR_PRETOK_GPT2_DIGITS;
    EXPECT_STR("Hello|,| world|", pieces_of(g, "Hello, world"));
    EXPECT_STR("I|'ll| we|'ve| '|sx|", pieces_of(g, "I'll we've 'sx"));
    EXPECT_STR("a| | b|", pieces_of(g, "a  b"));
    EXPECT_STR("a|\n\n|\n|b|  |", pieces_of(g, "a\n\n\nb  "));
    EXPECT_STR("x| 42|y|", pieces_of(g, "x 42y"));
    EXPECT_STR("x| |4|2|y|", pieces_of(d, "x 42y"));
    EXPECT_STR("x|  |4| y|", pieces_of(d, "x  4 y"));
    EXPECT_STR("\xff\xc3|a|", pieces_of(g, "\xff\xc3"
                                           "a"));
    EXPECT_STR("\xc3\xa9t\xc3\xa9|!|", pieces_of(g, "\xc3\xa9t\xc3\xa9!"));
}

static void newer_pretokenizers_split_as_their_expressions(void)
{
    const enum kr_pretok l = KR_PRETOK_LLAMA3, q = KR_PRETOK_QWEN2, m = KR_PRETOK_QWEN3_5;
    EXPECT_STR("Hello|,| world|", pieces_of(l, "Hello, world"));
    EXPECT_STR("I|'LL| we|'vE|'\n|", pieces_of(l, "I'LL we'vE'\n"));
    EXPECT_STR("it|'\u017f|x|", pieces_of(l, "it'\u017fx")); /* the long s */
    EXPECT_STR("123|45|", pieces_of(l, "12345"));
    EXPECT_STR("1|2|", pieces_of(q, "12"));
    EXPECT_STR("x| |1|", pieces_of(q, "x 1"));
    EXPECT_STR("a|.b|\tc|  | d|", pieces_of(l, "a.b\tc   d"));
    EXPECT_STR("a| !!\r\n\n| b|", pieces_of(l, "a !!\r\n\n b"));
    EXPECT_STR("a| \n \n|  | b|", pieces_of(l, "a \n \n   b"));
    EXPECT_STR("a|\n|b|  |", pieces_of(l, "a\nb  "));
    EXPECT_STR("e|\u0301x|", pieces_of(q, "e\u0301x"));
    EXPECT_STR("e\u0301x|", pieces_of(m, "e\u0301x"));
    EXPECT_STR("!\u0301|", pieces_of(q, "!\u0301"));
    EXPECT_STR("!\u0301|", pieces_of(m, "!\u0301"));
    EXPECT_STR("!!|\u0301|", pieces_of(m, "!!\u0301"));
    EXPECT_STR("\xff\u00e9|", pieces_of(l, "\xff\u00e9"));
}

static void characters_have_their_class(void)
{
    EXPECT(kr_unicode_class('a') == KR_LETTER && kr_unicode_class('7') == KR_NUMBER);
    EXPECT(kr_unicode_class(0x3000) == KR_SPACE && kr_unicode_class(0x200b) == KR_OTHER);
    EXPECT(kr_unicode_class(0x10ffff) == KR_OTHER && kr_unicode_class(0x2160) == KR_NUMBER);
    EXPECT(kr_unicode_bits(0x301) & KR_UNICODE_MARK && !(kr_unicode_bits('a') & KR_UNICODE_MARK));
    for (uint32_t code = 0; code < 128; code++)
        EXPECT(kr_unicode_ascii[code] == kr_unicode_bits(code));
    EXPECT(kr_unicode_word('_') && kr_unicode_word(0x301) && !kr_unicode_word('-'));
}

static void merges_go_by_rank_then_from_the_left(void)
{
    /* 0 a, 1 b, 2 aa, 3 ab; "ab" ranks before "aa" */
    const uint32_t triples[] = {0, 1, 3, 0, 0, 2};
    const struct kr_mlt t = {.merges = triples, .n_merges = 2};
    struct kr_merges m;
    struct kr_bpe b = {0};
    EXPECT(kr_merges_create(&m, &t, "test", NULL) == KRAFLA_OK);
    EXPECT(kr_bpe_reserve(&b, 5, NULL) == KRAFLA_OK);
    memcpy(b.ids, ((int32_t[]){0, 0, 0, 0, 1}), 5 * sizeof *b.ids); /* aaaab: aa a ab */
    EXPECT(kr_bpe_merge(&b, &m, 5) == 3);
    EXPECT(b.ids[0] == 2 && b.ids[1] == 0 && b.ids[2] == 3);
    kr_bpe_free(&b);
    kr_merges_free(&m);
}

/* Few symbols and many are merged by different code.  A symbol that nothing joins keeps a word apart
 * from what makes it long. */
static void few_symbols_merge_as_many_do(void)
{
    /* 0 a, 1 b, 2 ab, 3 ba, 4 aa, 5 aba, 6 abab; 7 joins nothing */
    static const uint32_t triples[] = {0, 1, 2, 1, 0, 3, 2, 0, 5, 0, 0, 4, 2, 2, 6, 0, 3, 5};
    enum { MOST = 32, LONG = 40 };
    const struct kr_mlt t = {.merges = triples, .n_merges = 6};
    struct kr_merges m;
    struct kr_bpe few = {0}, many = {0};
    EXPECT(kr_merges_create(&m, &t, "test", NULL) == KRAFLA_OK);
    EXPECT(kr_bpe_reserve(&few, MOST, NULL) == KRAFLA_OK);
    EXPECT(kr_bpe_reserve(&many, MOST + LONG, NULL) == KRAFLA_OK);
    uint32_t state = 1;
    for (size_t n = 1; n <= MOST; n++) {
        for (int round = 0; round < 20; round++) {
            for (size_t i = 0; i < n; i++) {
                state = state * 1664525 + 1013904223;
                few.ids[i] = many.ids[i] = (int32_t)(state >> 31);
            }
            for (size_t i = n; i < n + LONG; i++)
                many.ids[i] = 7;
            const size_t left = kr_bpe_merge(&few, &m, n);
            EXPECT(kr_bpe_merge(&many, &m, n + LONG) == left + LONG);
            EXPECT(memcmp(few.ids, many.ids, left * sizeof *few.ids) == 0);
        }
    }
    kr_bpe_free(&few);
    kr_bpe_free(&many);
    kr_merges_free(&m);
}

/* A hostile file can make a run of taken slots as long as it likes. */
static void a_look_up_takes_a_bounded_number_of_steps(void)
{
    enum { BITS = 13, SLOTS = 1 << BITS };
    static struct kr_merge slots[SLOTS];
    for (uint32_t i = 0; i < SLOTS; i++)
        slots[i] = (struct kr_merge){.left = 1000 + i};
    const struct kr_merges m = {.slots = slots, .shift = 64 - BITS, .mask = SLOTS - 1};
    struct kr_bpe b = {0};
    EXPECT(kr_bpe_reserve(&b, 2, NULL) == KRAFLA_OK);
    b.ids[0] = b.ids[1] = 7;
    EXPECT(kr_bpe_merge(&b, &m, 2) == 2);
    kr_bpe_free(&b);
}

static void encoding_measures_and_never_writes_beyond_cap(const krafla_tokenizer *t)
{
    int32_t ids[8] = {-7, -7, -7, -7, -7, -7, -7, -7};
    size_t n = 99;
    EXPECT(krafla_tokenizer_encode(t, "abab", 4, KRAFLA_ENCODE_BOS, NULL, 0, &n, NULL) ==
           KRAFLA_OK);
    EXPECT(n == 3);
    EXPECT(krafla_tokenizer_encode(t, "abab", 4, KRAFLA_ENCODE_BOS, ids, 2, &n, NULL) == KRAFLA_OK);
    EXPECT(n == 3 && ids[0] == 1 && ids[1] == 263 && ids[2] == -7);
    EXPECT(krafla_tokenizer_encode(t, NULL, 0, KRAFLA_ENCODE_BOS, ids, 8, &n, NULL) == KRAFLA_OK);
    EXPECT(n == 1 && ids[0] == 1);
}

static void decoding_drops_one_space_at_the_start(const krafla_tokenizer *t)
{
    const int32_t ids[] = {263, 263};
    char text[8] = "????";
    size_t n;
    EXPECT(krafla_tokenizer_decode(t, -1, ids, 2, text, sizeof text, &n, NULL) == KRAFLA_OK);
    EXPECT(n == 5 && memcmp(text, "ab ab", 5) == 0);
    EXPECT(krafla_tokenizer_decode(t, 1, ids, 1, text, sizeof text, &n, NULL) == KRAFLA_OK);
    EXPECT(n == 2);
    EXPECT(krafla_tokenizer_decode(t, 263, ids, 1, text, 1, &n, NULL) == KRAFLA_OK);
    EXPECT(n == 3 && text[0] == ' ' && text[1] == 'b');
}

/* Bytes of no valid UTF-8, BOS in the middle, spaces everywhere: any two parts give the whole. */
static void decoding_in_parts_gives_the_same_bytes(const krafla_tokenizer *t)
{
    enum { N = 40, CAP = 256 };
    int32_t ids[N];
    uint32_t state = 3;
    for (size_t i = 0; i < N; i++) {
        static const int32_t some[] = {1, 2, 259, 263, 262, 3 + 0xe4, 3 + 0xb8, 3 + 0xff};
        state = state * 1664525 + 1013904223;
        ids[i] = some[state >> 29];
    }
    char whole[CAP], parts[CAP];
    size_t n, first, second;
    EXPECT(krafla_tokenizer_decode(t, -1, ids, N, whole, CAP, &n, NULL) == KRAFLA_OK && n < CAP);
    for (size_t cut = 1; cut < N; cut++) {
        EXPECT(krafla_tokenizer_decode(t, -1, ids, cut, parts, CAP, &first, NULL) == KRAFLA_OK);
        EXPECT(krafla_tokenizer_decode(t, ids[cut - 1], ids + cut, N - cut, parts + first,
                                       CAP - first, &second, NULL) == KRAFLA_OK);
        EXPECT(first + second == n && memcmp(whole, parts, n) == 0);
    }
}

static void bad_arguments_are_refused(const krafla_tokenizer *t)
{
    krafla_error err;
    size_t n;
    const int32_t high = 264, low = -1;
    EXPECT(krafla_tokenizer_decode(t, -1, &high, 1, NULL, 0, &n, &err) == KRAFLA_E_ARGUMENT);
    EXPECT_STR("token id 264 is not below 264", err.message);
    EXPECT(krafla_tokenizer_decode(t, -1, &low, 1, NULL, 0, &n, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(krafla_tokenizer_encode(t, "a", 1, 1u << 31, NULL, 0, &n, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(krafla_tokenizer_encode(t, NULL, 1, 0, NULL, 0, &n, &err) == KRAFLA_E_ARGUMENT);
    EXPECT(krafla_tokenizer_encode(t, "a", SIZE_MAX, 0, NULL, 0, &n, &err) == KRAFLA_E_ARGUMENT);
}

static void a_tokenizer_answers_small_questions(const krafla_tokenizer *t)
{
    EXPECT(krafla_tokenizer_vocab(t) == 264);
    EXPECT(krafla_tokenizer_bos(t) == 1 && krafla_tokenizer_eos(t) == 2);
    EXPECT(krafla_tokenizer_find(t, " ab") == 263);
    EXPECT(krafla_tokenizer_find(t, "Z") == -1 && krafla_tokenizer_find(t, "") == -1);
    EXPECT_STR("", krafla_tokenizer_chat(t));
}

int main(int argc, char **argv)
{
    (void)argc;
    pretokenizers_split_as_their_expression();
    newer_pretokenizers_split_as_their_expressions();
    characters_have_their_class();
    merges_go_by_rank_then_from_the_left();
    few_symbols_merge_as_many_do();
    a_look_up_takes_a_bounded_number_of_steps();

    char path[4096];
    snprintf(path, sizeof path, "%s.tmp", argv[0]); /* beside the program: one per build */
    write_tokenizer(path);
    krafla_tokenizer *t;
    EXPECT(krafla_tokenizer_open(&t, path, NULL) == KRAFLA_OK);
    remove(path);
    if (t) {
        encoding_measures_and_never_writes_beyond_cap(t);
        decoding_drops_one_space_at_the_start(t);
        decoding_in_parts_gives_the_same_bytes(t);
        bad_arguments_are_refused(t);
        a_tokenizer_answers_small_questions(t);
        krafla_tokenizer_close(t);
    }
    EXPECT(krafla_tokenizer_open(&t, path, NULL) == KRAFLA_E_IO && t == NULL);
    krafla_tokenizer_close(NULL);
    return unit_done("test_tokenizer");
}
