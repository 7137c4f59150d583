# SPDX-License-Identifier: MIT
"""The parts of a tokenizer.json for each kind of tokenizer that the runtime knows.

What is written here is what mlb/tokenizer_pipeline.py reads.

    PYTHONPATH=tools python3 -c 'from mlb import tokenizer_json as t; print(t.byte_parts("llama3"))'
"""

from __future__ import annotations

from typing import Any

from mlb.tokenizer_pipeline import SPACE, SPLIT_REGEX

Json = dict[str, Any]


def byte_level(*, use_regex: bool) -> Json:
    """The step that spells bytes, after splitting like GPT-2 or not; also the decoder."""
    flags = {"add_prefix_space": False, "trim_offsets": True, "use_regex": use_regex}
    return {"type": "ByteLevel", **flags}


def _pre_tokenizer(pretok: str) -> Json:
    """The steps that split text as the .mlt header's `pretok` says."""
    if pretok == "gpt2":
        return byte_level(use_regex=True)
    if pretok == "gpt2_digits":
        first: Json = {"type": "Digits", "individual_digits": True}
        return {"type": "Sequence", "pretokenizers": [first, byte_level(use_regex=True)]}
    (regex,) = (regex for regex, name in SPLIT_REGEX.items() if name == pretok)
    first = {"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}
    return {"type": "Sequence", "pretokenizers": [first, byte_level(use_regex=False)]}


def byte_parts(pretok: str, *, nfc: bool = False) -> Json:
    """Normalizer, pre-tokenizer and decoder of a byte-level BPE."""
    return {
        "normalizer": {"type": "NFC"} if nfc else None,
        "pre_tokenizer": _pre_tokenizer(pretok),
        "decoder": byte_level(use_regex=True),
    }


def spm_parts(*, prefix: bool) -> Json:
    """Normalizer, pre-tokenizer and decoder of a SentencePiece BPE; prefix: a space goes first."""
    space: Json = {"type": "Replace", "pattern": {"String": " "}, "content": SPACE}
    back: Json = {"type": "Replace", "pattern": {"String": SPACE}, "content": " "}
    first: list[Json] = [{"type": "Prepend", "prepend": SPACE}] if prefix else []
    strip: list[Json] = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if prefix else []
    return {
        "normalizer": {"type": "Sequence", "normalizers": [*first, space]},
        "pre_tokenizer": None,
        "decoder": {
            "type": "Sequence",
            "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"}, *strip],
        },
    }


def begin_with(token: str, i: int) -> Json:
    """The post-processor that puts one token before a text."""
    sequence = {"Sequence": {"id": "A", "type_id": 0}}
    return {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": token, "type_id": 0}}, sequence],
        "pair": [sequence, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {token: {"id": token, "ids": [i], "tokens": [token]}},
    }


def added_token(i: int, content: str, *, special: bool) -> Json:
    """An entry of added_tokens."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": i, "content": content, **flags, "special": special}
