# SPDX-License-Identifier: MIT
"""Recognise which of the runtime's chat templates a checkpoint was trained with.

A template is a program; only texts that no other family's template contains decide, and in doubt
there is no answer: the user then names the template with --chat.

    PYTHONPATH=tools python3 -c 'from mlb import chat; print(chat.detect("[INST] [/INST] <<SYS>>"))'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlb.checkpoint import read_json, read_text

if TYPE_CHECKING:
    from pathlib import Path

# Name, texts that must all be there, texts of which none may be there; the first match counts.
MARKERS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("smollm", ("<|im_start|>", "<|im_end|>", "named SmolLM, trained by Hugging Face"), ()),
    ("chatml", ("<|im_start|>", "<|im_end|>"), ("You are", "<think>", "tools")),
    ("gemma", ("<start_of_turn>", "<end_of_turn>"), ("<|",)),
    ("zephyr", ("<|user|>", "<|system|>", "<|assistant|>", "eos_token"), ("<|end|>",)),
    ("llama2", ("[INST]", "[/INST]", "<<SYS>>"), ("[AVAILABLE_TOOLS]",)),
)


def detect(template: str) -> str | None:
    """The name of the runtime's template that equals this Jinja template, if that is certain."""
    for name, needed, forbidden in MARKERS:
        if all(text in template for text in needed) and not any(t in template for t in forbidden):
            return name
    return None


def detect_beside(directory: Path) -> str | None:
    """The same for the template in a checkpoint's directory."""
    own_file = directory / "chat_template.jinja"
    if own_file.exists():
        return detect(read_text(own_file).decode(errors="replace"))
    config = directory / "tokenizer_config.json"
    template = read_json(config).get("chat_template") if config.exists() else None
    return detect(template) if isinstance(template, str) else None
