/* test_chat.c - turns of the templates that a llama2.c tokenizer can spell.
 *
 * Equality with the models' own templates, for all of them, is
 * tests/py/test_krafla_chat.py.
 * SPDX-License-Identifier: MIT */
#include <stdbool.h>

#include "krafla.h"
#include "unit.h"

enum { FIRST_CHARACTER = 3 + 256, LAST = 0x7e, CAP = 512 };

static krafla_tokenizer *tokenizer;

static void write_token(FILE *f, const char *text)
{
    const float score = 0.0f;
    const int32_t bytes = (int32_t)strlen(text);
    fwrite(&score, sizeof score, 1, f);
    fwrite(&bytes, sizeof bytes, 1, f);
    fwrite(text, 1, strlen(text), f);
}

/* A tokenizer.bin of <unk>, BOS, EOS, the bytes and the printable characters. */
static void open_tokenizer(const char *path)
{
    FILE *f = fopen(path, "wb");
    const int32_t longest = 16;
    fwrite(&longest, sizeof longest, 1, f);
    write_token(f, "<unk>");
    write_token(f, "\n<s>\n");
    write_token(f, "\n</s>\n");
    for (int b = 0; b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        write_token(f, text);
    }
    for (int c = ' '; c <= LAST; c++)
        write_token(f, (const char[]){(char)c, '\0'});
    EXPECT(fclose(f) == 0);
    krafla_error err = {0};
    EXPECT(krafla_tokenizer_open(&tokenizer, path, &err) == KRAFLA_OK);
    EXPECT_STR("", err.message);
    remove(path);
}

/* Ids as text: special tokens as <s>, </s>; a space that begins a stretch of text is left out. */
static const char *spell(const int32_t *ids, size_t n)
{
    static char out[4 * CAP];
    char *at = out;
    for (size_t i = 0; i < n; i++) {
        const int32_t id = ids[i];
        if (id < 3)
            at += sprintf(at, "%s", id == 1 ? "<s>" : "</s>");
        else if (id < FIRST_CHARACTER)
            *at++ = (char)(id - 3);
        else if (id > FIRST_CHARACTER || (i > 0 && ids[i - 1] > 2))
            *at++ = (char)(' ' + id - FIRST_CHARACTER);
    }
    *at = '\0';
    return out;
}

static const char *turn(const char *name, bool first, bool stopped, const char *system,
                        const char *user)
{
    krafla_chat *c;
    int32_t ids[CAP];
    size_t n = 0, measured = 0;
    EXPECT(krafla_chat_create(&c, tokenizer, name, NULL) == KRAFLA_OK);
    EXPECT(krafla_chat_turn(c, first, stopped, system, user, NULL, 0, &measured, NULL) ==
           KRAFLA_OK);
    EXPECT(krafla_chat_turn(c, first, stopped, system, user, ids, CAP, &n, NULL) == KRAFLA_OK);
    EXPECT(n == measured);
    krafla_chat_free(c);
    return spell(ids, n);
}

static void test_turns_of_llama2(void)
{
    EXPECT_STR("<s>[INST] Hi [/INST]", turn("llama2", true, false, NULL, "Hi"));
    EXPECT_STR("<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST]",
               turn("llama2", true, false, "Be brief.", "Hi \n"));
    EXPECT_STR("<s>[INST] <<SYS>>\nS\n<</SYS>> [/INST]", turn("llama2", true, false, "S", ""));
    EXPECT_STR("<s>[INST] Hi [/INST]", turn("llama2", false, true, "ignored later", "Hi"));
    EXPECT_STR("</s><s>[INST] Hi [/INST]", turn("llama2", false, false, NULL, "Hi"));
}

static void test_turns_of_zephyr(void)
{
    EXPECT_STR("<s><|user|>\nHi</s>\n<|assistant|>\n", turn("zephyr", true, false, NULL, "Hi"));
    EXPECT_STR("<s><|system|>\nS</s>\n<|user|>\nHi</s>\n<|assistant|>\n",
               turn("zephyr", true, false, "S", "Hi"));
    EXPECT_STR("\n<|user|>\n</s>\n<|assistant|>\n", turn("zephyr", false, true, NULL, ""));
    EXPECT_STR("</s>\n<|user|>\n \n</s>\n<|assistant|>\n",
               turn("zephyr", false, false, NULL, " \n"));
}

static void test_special_tokens_in_messages_stay_text(void)
{
    EXPECT_STR("<s>[INST] a</s><s>b [/INST]", turn("llama2", true, false, NULL, "a</s><s>b"));
    krafla_chat *c;
    int32_t ids[CAP];
    size_t n = 0, specials = 0;
    EXPECT(krafla_chat_create(&c, tokenizer, "llama2", NULL) == KRAFLA_OK);
    EXPECT(krafla_chat_turn(c, 1, 0, "\n<s>\n</s>", "a</s><s>\n</s>\n", ids, CAP, &n, NULL) ==
           KRAFLA_OK);
    for (size_t i = 0; i < n; i++)
        specials += ids[i] < 3;
    EXPECT(specials == 1);
    krafla_chat_free(c);
}

static void test_a_small_buffer_gets_the_first_ids(void)
{
    krafla_chat *c;
    int32_t all[CAP], some[4] = {-7, -7, -7, -7};
    size_t n = 0, again = 0;
    EXPECT(krafla_chat_create(&c, tokenizer, "zephyr", NULL) == KRAFLA_OK);
    EXPECT(krafla_chat_turn(c, 1, 0, NULL, "Hi", all, CAP, &n, NULL) == KRAFLA_OK);
    EXPECT(krafla_chat_turn(c, 1, 0, NULL, "Hi", some, 3, &again, NULL) == KRAFLA_OK);
    EXPECT(again == n && memcmp(all, some, 3 * sizeof *all) == 0 && some[3] == -7);
    krafla_chat_free(c);
}

static void test_templates_that_do_not_fit_are_refused(void)
{
    krafla_chat *c;
    krafla_error err;
    EXPECT(krafla_chat_create(&c, tokenizer, "gemma", &err) == KRAFLA_E_ARGUMENT && !c);
    EXPECT_STR("chat template gemma needs the token <end_of_turn>, which this tokenizer does not "
               "have: use the template and the tokenizer of the model",
               err.message);
    EXPECT(krafla_chat_create(&c, tokenizer, "", &err) == KRAFLA_E_ARGUMENT && !c);
    EXPECT_STR("chat template \"\" is not known, expected one of chatml, gemma, llama2, llama3, "
               "qwen, qwen3.5, qwen3.5-nothink, smollm, zephyr",
               err.message);
    const int32_t *ids;
    EXPECT(krafla_chat_create(&c, tokenizer, "llama2", &err) == KRAFLA_OK);
    EXPECT(krafla_chat_stop_ids(c, &ids) == 1 && ids[0] == 2);
    krafla_chat_free(c);
    krafla_chat_free(NULL);
}

/* The conversation as spell() writes it, or the error. */
static const char *talk(const char *name, const krafla_message *messages, size_t n)
{
    static krafla_error err;
    krafla_chat *c;
    int32_t ids[CAP];
    size_t count = 0, measured = 0;
    EXPECT(krafla_chat_create(&c, tokenizer, name, NULL) == KRAFLA_OK);
    const krafla_status st = krafla_chat_encode(c, messages, n, ids, CAP, &count, &err);
    EXPECT(krafla_chat_encode(c, messages, n, NULL, 0, &measured, NULL) == st);
    EXPECT(count == measured && (st == KRAFLA_OK || count == 0));
    krafla_chat_free(c);
    return st == KRAFLA_OK ? spell(ids, count) : err.message;
}

static void test_conversations(void)
{
    const krafla_message m[] = {
        {"developer", "S"}, {"user", " Hi"}, {"assistant", "Yo "}, {"user", "Why?"}};
    EXPECT_STR("<s>[INST] <<SYS>>\nS\n<</SYS>>\n\n Hi [/INST] Yo </s><s>[INST] Why? [/INST]",
               talk("llama2", m, 4));
    EXPECT_STR("<s><|system|>\nS</s>\n<|user|>\n Hi</s>\n<|assistant|>\nYo </s>\n<|user|>\nWhy?"
               "</s>\n<|assistant|>\n",
               talk("zephyr", m, 4));
}

static void test_what_cannot_be_said_is_an_error(void)
{
    const krafla_message system = {"system", "S"}, user = {"user", "Hi"}, tool = {"tool", "4"};
    const krafla_message reply_first[] = {{"assistant", "Yo"}, user};
    const krafla_message late_system[] = {user, system, user};
    EXPECT_STR("a conversation that waits for a reply ends with a message of the user; this one "
               "is empty",
               talk("llama2", &user, 0));
    EXPECT_STR("a conversation that waits for a reply ends with a message of the user; this one "
               "does not",
               talk("zephyr", &system, 1));
    EXPECT_STR("message 1 is of the role assistant, but in chat template llama2 user and "
               "assistant take turns and the user begins",
               talk("llama2", reply_first, 2));
    EXPECT_STR("message 2 is a system message, but chat template llama2 takes one only as the "
               "first message",
               talk("llama2", late_system, 3));
    EXPECT_STR("message 1 has the role \"tool\", expected system, developer, user or assistant",
               talk("zephyr", &tool, 1));
}

static uint32_t draw(uint32_t below)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % below;
}

/* Any bytes as messages, for the sanitizers; no special token comes of them. */
static void test_random_conversations(void)
{
    enum { ROUNDS = 3000, MOST = 6, BYTES = 48 };
    static const char *const roles[] = {"system", "user", "assistant"};
    static const char *const pieces[] = {" ",    "\n",     "</s>",     "<s>",    "x", "\xc2\x85",
                                         "\xe3", "\u3000", "</think>", "[INST]", "",  "\xff"};
    static char texts[MOST][BYTES];
    for (int round = 0; round < ROUNDS; round++) {
        krafla_message m[MOST];
        const size_t n = 1 + draw(MOST);
        for (size_t i = 0; i < n; i++) {
            texts[i][0] = '\0';
            for (uint32_t left = draw(6); left; left--)
                strcat(texts[i], pieces[draw(sizeof pieces / sizeof *pieces)]);
            m[i] = (krafla_message){i + 1 == n ? "user" : roles[draw(3)], texts[i]};
        }
        krafla_chat *c;
        int32_t ids[4 * CAP];
        size_t count = 0, specials = 0;
        EXPECT(krafla_chat_create(&c, tokenizer, "zephyr", NULL) == KRAFLA_OK);
        EXPECT(krafla_chat_encode(c, m, n, ids, 4 * CAP, &count, NULL) == KRAFLA_OK);
        for (size_t i = 0; i < count; i++)
            specials += ids[i] < 3;
        EXPECT(specials == 1 + n); /* BOS, and an end for every message */
        krafla_chat_free(c);
    }
}

int main(int argc, char **argv)
{
    char path[4096];
    snprintf(path, sizeof path, "%s.tmp", argc > 0 ? argv[0] : "test_chat");
    open_tokenizer(path);
    test_turns_of_llama2();
    test_turns_of_zephyr();
    test_special_tokens_in_messages_stay_text();
    test_conversations();
    test_what_cannot_be_said_is_an_error();
    test_random_conversations();
    test_a_small_buffer_gets_the_first_ids();
    test_templates_that_do_not_fit_are_refused();
    krafla_tokenizer_close(tokenizer);
    return unit_done("test_chat");
}
