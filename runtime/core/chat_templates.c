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
        .user_close = "<|im_end|>\n",
        .reply_open = "<|im_start|>assistant\n",
        .reply_close = "",
        .end = "<|im_end|>",
        .after_end = "\n",
        .prompt = "<|im_start|>assistant\n",
        .thoughts = THOUGHTS_QWEN3,
    },
    {
        .name = "gemma",
        .specials = {"<start_of_turn>", "<end_of_turn>"},
        .begin = "<bos>",
        .system_open = "",
        .system_close = "\n\n",
        .user_open = "<start_of_turn>user\n",
        .user_close = "<end_of_turn>\n",
        .reply_open = "<start_of_turn>model\n",
        .reply_close = "",
        .end = "<end_of_turn>",
        .after_end = "\n",
        .prompt = "<start_of_turn>model\n",
        .trim = TRIM_MESSAGES,
        .system_inside = true,
        .system_first = true,
        .alternates = true,
    },
    {
        .name = "llama2",
        .specials = {"<s>", "</s>"},
        .begin = "",
        .system_open = "<<SYS>>\n",
        .system_close = "\n<</SYS>>\n\n",
        .user_open = "<s>[INST] ",
        .user_close = " [/INST]",
        .reply_open = " ",
        .reply_close = " ",
        .end = "</s>",
        .after_end = "",
        .prompt = "",
        .trim = TRIM_TURNS,
        .system_inside = true,
        .system_first = true,
        .alternates = true,
    },
    {
        .name = "llama3",
        .specials = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
        .begin = "<|begin_of_text|>",
        .system_open = "<|start_header_id|>system<|end_header_id|>\n\n",
        .system_close = "<|eot_id|>",
        .user_open = "<|start_header_id|>user<|end_header_id|>\n\n",
        .user_close = "<|eot_id|>",
        .reply_open = "<|start_header_id|>assistant<|end_header_id|>\n\n",
        .reply_close = "",
        .end = "<|eot_id|>",
        .after_end = "",
        .prompt = "<|start_header_id|>assistant<|end_header_id|>\n\n",
        .trim = TRIM_ALL,
    },
    {
        .name = "qwen",
        .specials = {"<|im_start|>", "<|im_end|>"},
        .system_default = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
        .system_open = "<|im_start|>system\n",
        .system_close = "<|im_end|>\n",
        .user_open = "<|im_start|>user\n",
        .user_close = "<|im_end|>\n",
        .reply_open = "<|im_start|>assistant\n",
        .reply_close = "",
        .end = "<|im_end|>",
        .after_end = "\n",
        .prompt = "<|im_start|>assistant\n",
    },
    {
        .name = "qwen3.5",
        .specials = {"<|im_start|>", "<|im_end|>"},
        .marks = {"<think>", "</think>"},
        .system_open = "<|im_start|>system\n",
        .system_close = "<|im_end|>\n",
        .user_open = "<|im_start|>user\n",
        .user_close = "<|im_end|>\n",
        .reply_open = "<|im_start|>assistant\n",
        .reply_close = "",
        .end = "<|im_end|>",
        .after_end = "\n",
        .prompt = "<|im_start|>assistant\n<think>\n",
        .trim = TRIM_ALL,
        .thoughts = THOUGHTS_QWEN3_5,
        .system_first = true,
    },
    {
        .name = "qwen3.5-nothink",
        .specials = {"<|im_start|>", "<|im_end|>"},
        .marks = {"<think>", "</think>"},
        .system_open = "<|im_start|>system\n",
        .system_close = "<|im_end|>\n",
        .user_open = "<|im_start|>user\n",
        .user_close = "<|im_end|>\n",
        .reply_open = "<|im_start|>assistant\n",
        .reply_close = "",
        .end = "<|im_end|>",
        .after_end = "\n",
        .prompt = "<|im_start|>assistant\n<think>\n\n</think>\n\n",
        .trim = TRIM_ALL,
        .thoughts = THOUGHTS_QWEN3_5,
        .system_first = true,
    },
    {
        .name = "smollm",
        .specials = {"<|im_start|>", "<|im_end|>"},
        .system_default = "You are a helpful AI assistant named SmolLM, trained by Hugging Face",
        .system_open = "<|im_start|>system\n",
        .system_close = "<|im_end|>\n",
        .user_open = "<|im_start|>user\n",
        .user_close = "<|im_end|>\n",
        .reply_open = "<|im_start|>assistant\n",
        .reply_close = "",
        .end = "<|im_end|>",
        .after_end = "\n",
        .prompt = "<|im_start|>assistant\n",
    },
    {
        .name = "zephyr",
        .specials = {"</s>"}, /* <|user|> and the like are plain text to these tokenizers */
        .system_open = "<|system|>\n",
        .system_close = "</s>\n",
        .user_open = "<|user|>\n",
        .user_close = "</s>\n",
        .reply_open = "<|assistant|>\n",
        .reply_close = "",
        .end = "</s>",
        .after_end = "\n",
        .prompt = "<|assistant|>\n",
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
