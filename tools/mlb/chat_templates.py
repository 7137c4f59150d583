# SPDX-License-Identifier: MIT
"""The runtime's chat templates, for the converters: the rows of runtime/core/chat_templates.c.

A test compares the two field by field.  render() writes what the runtime encodes.

    PYTHONPATH=tools python3 -c 'from mlb import chat_templates as c; \
        print(c.render(c.named("zephyr"), [{"role": "user", "content": "Hi"}]))'
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Trim(enum.Enum):
    """What is stripped of white space at both ends."""

    NOTHING = enum.auto()
    MESSAGES = enum.auto()  # what user and assistant say
    TURNS = enum.auto()  # the same, but a user's turn together with the system text inside
    ALL = enum.auto()  # what user and assistant say, and the system text


class Thoughts(enum.Enum):
    """What becomes of <think>...</think> in a reply of the history."""

    STAY = enum.auto()
    QWEN3 = enum.auto()  # dropped before the last question, written anew after it
    QWEN3_5 = enum.auto()  # the same, and a reply after it has them even if they are empty


@dataclasses.dataclass(frozen=True)
class ChatTemplate:
    """One row; runtime/core/chat_templates.h says what the fields mean."""

    name: str
    specials: tuple[str, ...]
    system_open: str
    system_close: str
    user_open: str
    user_close: str
    reply_open: str
    reply_close: str
    end: str
    after_end: str
    prompt: str
    marks: tuple[str, ...] = ()
    begin: str | None = None
    system_default: str | None = None
    trim: Trim = Trim.NOTHING
    thoughts: Thoughts = Thoughts.STAY
    system_inside: bool = False
    system_first: bool = False
    alternates: bool = False


CHATML = ChatTemplate(
    name="chatml",
    specials=("<|im_start|>", "<|im_end|>"),
    system_open="<|im_start|>system\n",
    system_close="<|im_end|>\n",
    user_open="<|im_start|>user\n",
    user_close="<|im_end|>\n",
    reply_open="<|im_start|>assistant\n",
    reply_close="",
    end="<|im_end|>",
    after_end="\n",
    prompt="<|im_start|>assistant\n",
    thoughts=Thoughts.QWEN3,
)
QWEN3_5 = dataclasses.replace(
    CHATML,
    name="qwen3.5",
    marks=("<think>", "</think>"),
    prompt="<|im_start|>assistant\n<think>\n",
    trim=Trim.ALL,
    thoughts=Thoughts.QWEN3_5,
    system_first=True,
)
TEMPLATES = (
    CHATML,
    ChatTemplate(
        name="gemma",
        specials=("<start_of_turn>", "<end_of_turn>"),
        begin="<bos>",
        system_open="",
        system_close="\n\n",
        user_open="<start_of_turn>user\n",
        user_close="<end_of_turn>\n",
        reply_open="<start_of_turn>model\n",
        reply_close="",
        end="<end_of_turn>",
        after_end="\n",
        prompt="<start_of_turn>model\n",
        trim=Trim.MESSAGES,
        system_inside=True,
        system_first=True,
        alternates=True,
    ),
    ChatTemplate(
        name="llama2",
        specials=("<s>", "</s>"),
        begin="",
        system_open="<<SYS>>\n",
        system_close="\n<</SYS>>\n\n",
        user_open="<s>[INST] ",
        user_close=" [/INST]",
        reply_open=" ",
        reply_close=" ",
        end="</s>",
        after_end="",
        prompt="",
        trim=Trim.TURNS,
        system_inside=True,
        system_first=True,
        alternates=True,
    ),
    ChatTemplate(
        name="llama3",
        specials=("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
        begin="<|begin_of_text|>",
        system_open="<|start_header_id|>system<|end_header_id|>\n\n",
        system_close="<|eot_id|>",
        user_open="<|start_header_id|>user<|end_header_id|>\n\n",
        user_close="<|eot_id|>",
        reply_open="<|start_header_id|>assistant<|end_header_id|>\n\n",
        reply_close="",
        end="<|eot_id|>",
        after_end="",
        prompt="<|start_header_id|>assistant<|end_header_id|>\n\n",
        trim=Trim.ALL,
    ),
    dataclasses.replace(
        CHATML,
        name="qwen",
        system_default="You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
        thoughts=Thoughts.STAY,
    ),
    QWEN3_5,
    dataclasses.replace(
        QWEN3_5,
        name="qwen3.5-nothink",
        prompt="<|im_start|>assistant\n<think>\n\n</think>\n\n",
    ),
    dataclasses.replace(
        CHATML,
        name="smollm",
        system_default="You are a helpful AI assistant named SmolLM, trained by Hugging Face",
        thoughts=Thoughts.STAY,
    ),
    ChatTemplate(
        name="zephyr",
        specials=("</s>",),
        system_open="<|system|>\n",
        system_close="</s>\n",
        user_open="<|user|>\n",
        user_close="</s>\n",
        reply_open="<|assistant|>\n",
        reply_close="",
        end="</s>",
        after_end="\n",
        prompt="<|assistant|>\n",
    ),
)
NAMES = tuple(t.name for t in TEMPLATES)


def named(name: str) -> ChatTemplate:
    """The row of this name."""
    return TEMPLATES[NAMES.index(name)]


def render(t: ChatTemplate, messages: Sequence[Mapping[str, str]]) -> str | None:
    """The text of a conversation up to where the reply starts; None: the template cannot say it.

    Roles are "system", "user" and "assistant"; the last message is the user's.
    """
    if not _can_say(t, messages):
        return None
    start = 1 if messages[0]["role"] == "system" else 0
    system = messages[0]["content"] if start else t.system_default
    question = _last_question(t, messages)
    out = t.begin or ""
    if system is not None and not t.system_inside:
        out += _system(t, system)
    for i, message in enumerate(messages[start:], start):
        text = message["content"]
        if message["role"] == "system":
            out += _system(t, text)
        elif message["role"] == "user":
            inside = _system(t, system) if system is not None and i == start else ""
            out += _user(t, inside if t.system_inside else "", text)
        else:
            out += t.reply_open + _reply(t, text, after_question=i > question)
            out += t.reply_close + t.end + t.after_end
    return out + t.prompt


def _can_say(t: ChatTemplate, messages: Sequence[Mapping[str, str]]) -> bool:
    roles = [message["role"] for message in messages]
    if not roles or roles[-1] != "user":
        return False
    if t.system_first and "system" in roles[1:]:
        return False
    if t.thoughts is Thoughts.QWEN3_5 and not _is_question(
        t, messages[_last_question(t, messages)]
    ):
        return False
    turns = [role for role in roles if role != "system"]
    return not t.alternates or all(
        role == ("user", "assistant")[i % 2] for i, role in enumerate(turns)
    )


def _is_question(t: ChatTemplate, message: Mapping[str, str]) -> bool:
    """Whether Qwen's templates take a message for a question, not for the result of a tool."""
    text = message["content"]
    if t.thoughts is Thoughts.QWEN3_5:
        text = text.strip()
    result = text.startswith("<tool_response>") and text.endswith("</tool_response>")
    return message["role"] == "user" and not result


def _last_question(t: ChatTemplate, messages: Sequence[Mapping[str, str]]) -> int:
    questions = (i for i in reversed(range(len(messages))) if _is_question(t, messages[i]))
    return next(questions, len(messages) - 1)


def _system(t: ChatTemplate, text: str) -> str:
    return t.system_open + (text.strip() if t.trim is Trim.ALL else text) + t.system_close


def _user(t: ChatTemplate, inside: str, text: str) -> str:
    if t.trim is Trim.TURNS:
        content = (inside + text).strip()
    else:
        content = inside + (text if t.trim is Trim.NOTHING else text.strip())
    return t.user_open + content + t.user_close


def _reply(t: ChatTemplate, text: str, *, after_question: bool) -> str:
    """The text of a reply in the history."""
    if t.trim is not Trim.NOTHING:
        text = text.strip()
    if t.thoughts is Thoughts.STAY:
        return text
    answer, thoughts = text, ""
    if "</think>" in text:
        answer = text.split("</think>")[-1].lstrip("\n")
        thoughts = text.split("</think>")[0].rstrip("\n").split("<think>")[-1].lstrip("\n")
    always = t.thoughts is Thoughts.QWEN3_5
    if always:
        thoughts = thoughts.strip()
    if after_question and (always or thoughts):
        return f"<think>\n{thoughts}\n</think>\n\n{answer}"
    return answer
