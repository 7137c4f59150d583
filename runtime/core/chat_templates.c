/* chat_templates.c - the table of chat templates.
 * SPDX-License-Identifier: MIT */
#include "chat_templates.h"

#include <string.h>

static const struct kr_chat_template templates[] = {
    {
        .name = "chatml",
        .specials = {"<|im_start|>", "<|im_end|>"},
        .system_open = "<|im_start|>system\n",
        .system_close = "<|im_end|>\n",
        .user_open = "<|im_start|>user\n",
        .user_close = "<|im_end|>\n<|im_start|>assistant\n",
        .end = "<|im_end|>",
        .after_end = "\n",
    },
    {
        .name = "gemma",
        .specials = {"<start_of_turn>", "<end_of_turn>"},
        .begin = "<bos>",
        .system_open = "",
        .system_close = "\n\n",
        .user_open = "<start_of_turn>user\n",
        .user_close = "<end_of_turn>\n<start_of_turn>model\n",
        .end = "<end_of_turn>",
        .after_end = "\n",
        .trim = TRIM_USER,
        .system_inside = true,
    },
    {
        .name = "llama2",
        .specials = {"<s>", "</s>"},
        .begin = "",
        .system_open = "<<SYS>>\n",
        .system_close = "\n<</SYS>>\n\n",
        .user_open = "<s>[INST] ",
        .user_close = " [/INST]",
        .end = "</s>",
        .after_end = "",
        .trim = TRIM_SYSTEM_AND_USER,
        .system_inside = true,
    },
    {
        .name = "smollm",
        .specials = {"<|im_start|>", "<|im_end|>"},
        .system_default = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
        .system_open = "<|im_start|>system\n",
        .system_close = "<|im_end|>\n",
        .user_open = "<|im_start|>user\n",
        .user_close = "<|im_end|>\n<|im_start|>assistant\n",
        .end = "<|im_end|>",
        .after_end = "\n",
    },
    {
        .name = "zephyr",
        .specials = {"</s>"}, /* <|user|> and the like are plain text to these tokenizers */
        .system_open = "<|system|>\n",
        .system_close = "</s>\n",
        .user_open = "<|user|>\n",
        .user_close = "</s>\n<|assistant|>\n",
        .end = "</s>",
        .after_end = "\n",
    },
};

enum { N_TEMPLATES = sizeof templates / sizeof *templates };

const struct kr_chat_template *kr_chat_template_at(size_t index)
{
    return index < N_TEMPLATES ? &templates[index] : NULL;
}

const struct kr_chat_template *kr_chat_template_named(const char *name)
{
    for (size_t i = 0; i < N_TEMPLATES; i++)
        if (strcmp(templates[i].name, name) == 0)
            return &templates[i];
    return NULL;
}

static bool spells(const char *token, const uint8_t *text, size_t bytes)
{
    return token && strlen(token) == bytes && memcmp(token, text, bytes) == 0;
}

bool kr_chat_spells(const char *name, const uint8_t *text, size_t bytes)
{
    const struct kr_chat_template *t = kr_chat_template_named(name);
    if (!t)
        return false;
    for (size_t i = 0; i < KR_CHAT_SPECIALS; i++)
        if (spells(t->specials[i], text, bytes))
            return true;
    return spells(t->begin, text, bytes) || spells(t->end, text, bytes);
}
