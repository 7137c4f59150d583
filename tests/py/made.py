# SPDX-License-Identifier: MIT
"""Small models and tokenizers that a test makes for itself.

    from made import chat_tokenizer, random_model

Weights are random with a fixed seed; tokenizers are those of tests/data with the special tokens
that a chat template needs.  Shared by tests/py and tests/e2e.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import convert_tokenizer
import gen_random
import gen_tokenizer
from mlb import envelope

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKENIZERS = Path(__file__).resolve().parent.parent / "data" / "tokenizers"
SHAPE = ("--wtype", "q8", "--dim", "64", "--layers", "2", "--heads", "2", "--max-seq", "256")

# For each template: a tokenizer of its kind in tests/data, and the special tokens to add to it.
_CHATML = ("<|im_start|>", "<|im_end|>")
_THINK = ("<think>", "</think>")  # not special, as in the tokenizers of Qwen
_LLAMA3 = ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
CHATS: dict[str, tuple[str, tuple[str, ...]]] = {
    "chatml": ("gpt2", _CHATML),
    "gemma": ("gemma", ("<bos>", "<start_of_turn>", "<end_of_turn>")),
    "llama2": ("llama", ()),
    "llama3": ("gpt2", _LLAMA3),
    "qwen": ("gpt2", _CHATML),
    "qwen3.5": ("gpt2", _CHATML + _THINK),
    "qwen3.5-nothink": ("gpt2", _CHATML + _THINK),
    "smollm": ("digits", _CHATML),
    "zephyr": ("llama", ()),
}


def random_model(path: Path, vocab: int, *more: str) -> Path:
    """Write a model of random weights; it answers nonsense, always the same."""
    assert gen_random.main(["--out", str(path), "--vocab", str(vocab), *SHAPE, *more]) == 0
    return path


def with_header(path: Path, source: Path, **changed: object) -> Path:
    """Write a model again with other values in its header."""
    file = envelope.read(source, "mlb")
    envelope.write(path, "mlb", file.header | changed, [file.data], file.data.size)
    return path


def plain_tokenizer(path: Path, vocab: int) -> Path:
    """Write a llama2.c tokenizer.bin."""
    assert gen_tokenizer.main(["--vocab", str(vocab), "--out", str(path)]) == 0
    return path


def tokenizer_json(path: Path, base: str, specials: Sequence[str], *, special: bool = True) -> Path:
    """Write a tokenizer.json of tests/data with more special tokens."""
    spec = json.loads((TOKENIZERS / f"{base}.json").read_text(encoding="utf-8"))
    added_ids = [token["id"] for token in spec["added_tokens"]]
    next_id = 1 + max([*spec["model"]["vocab"].values(), *added_ids])
    for i, text in enumerate(specials):
        spec["added_tokens"].append(
            {
                "id": next_id + i,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": special and text not in _THINK,
            }
        )
    path.write_text(json.dumps(spec), encoding="utf-8")
    return path


def chat_tokenizer(path: Path, name: str, base: str | None = None, *, special: bool = True) -> Path:
    """Write an .mlt with what the chat template needs; its tokenizer.json stays beside it."""
    usual, specials = CHATS[name]
    source = tokenizer_json(path.with_suffix(".json"), base or usual, specials, special=special)
    assert convert_tokenizer.main([str(source), str(path), "--chat", name]) == 0
    return path
