# SPDX-License-Identifier: MIT
"""Train the small tokenizers of this directory, one for each kind the runtime knows.

    .venv/bin/python tests/data/tokenizers/make_tokenizers.py

They are trained on generated text, so that nothing but this file is their source; needs the
`tokenizers` package.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    processors,
    trainers,
)
from tokenizers import pre_tokenizers as pre

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).resolve().parent
# As in the models' own files.
LLAMA3_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN3_5_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPACE = "\u2581"
UNK = "<unk>"
BYTES = [f"<0x{b:02X}>" for b in range(256)]
SYLLABLES = ["ka", "ra", "lo", "the", "ing", "an", "er", "ti", "on", "es", "st", "мо", "ри", "ö"]


def sentences() -> Iterator[str]:
    """Text with words, numbers, contractions, code and other scripts; the same every time."""
    rng = random.Random(20)
    words = ["".join(rng.choices(SYLLABLES, k=rng.randint(1, 4))) for _ in range(400)]
    ends = [
        "'s",
        "'ll",
        ".",
        ",",
        "!",
        "\n",
        "\n\n",
        "  ",
        " 42",
        " 1999",
        " = x\n\t",
        "你好",
        "🦙",
    ]
    for _ in range(3000):
        line = " ".join(rng.choices(words, k=rng.randint(1, 9)))
        yield rng.choice(["", " ", "I'm "]) + line + rng.choice(ends)


def added(*, normalized: bool) -> list[AddedToken]:
    """One added token for each flag and some that are the beginning of others."""
    return [
        AddedToken("<|end|>", special=True, normalized=False),
        AddedToken("<|endless|>", special=True, normalized=False),
        AddedToken("[MASK]", special=True, lstrip=True, rstrip=True, normalized=False),
        AddedToken("<left>", lstrip=True, normalized=False),
        AddedToken("<right>", rstrip=True, normalized=False),
        AddedToken("kara", single_word=True, normalized=False),
        AddedToken("<tool>", normalized=False),
        AddedToken("<tool><tool>", normalized=False),
        AddedToken("\n\n\n", rstrip=True, normalized=False),
        AddedToken("a b", normalized=normalized),
        AddedToken("<normal>", rstrip=True, normalized=normalized),
    ]


def byte_level(*, digits: bool, full: bool) -> Tokenizer:
    """GPT-2's kind; with digits, SmolLM2's; full: every byte has a token."""
    t = Tokenizer(models.BPE())
    level = pre.ByteLevel(add_prefix_space=False)
    t.pre_tokenizer = pre.Sequence([pre.Digits(individual_digits=True), level]) if digits else level
    t.decoder = decoders.ByteLevel()
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    alphabet = pre.ByteLevel.alphabet() if full else []
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    t.train_from_iterator(sentences(), trainer)
    t.add_tokens(added(normalized=True))
    return t


def split_by(regex: str, *, nfc: bool, whole: bool) -> Tokenizer:
    """Llama 3's kind, or Qwen's with NFC; whole: some tokens are only found whole."""
    t = Tokenizer(models.BPE())
    if nfc:
        t.normalizer = normalizers.NFC()
    level = pre.ByteLevel(add_prefix_space=False, use_regex=False)
    t.pre_tokenizer = pre.Sequence([pre.Split(Regex(regex), "isolated"), level])
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=pre.ByteLevel.alphabet(), show_progress=False
    )
    t.train_from_iterator(sentences(), trainer)
    spec = json.loads(t.to_str())
    if whole:
        spec["model"]["ignore_merges"] = True
        vocab = spec["model"]["vocab"]
        for token in ("Ġunmerged", "QQ", "123", "ĊĊĊ"):
            vocab.setdefault(token, len(vocab))
    t = Tokenizer.from_str(json.dumps(spec))
    t.decoder = decoders.ByteLevel()
    byte_level = processors.ByteLevel(trim_offsets=False)
    begin = processors.TemplateProcessing(
        single="<s> $A",
        pair="<s> $A <s>:1 $B:1",
        special_tokens=[("<s>", len(spec["model"]["vocab"]))],
    )
    t.post_processor = byte_level if nfc else processors.Sequence([byte_level, begin])
    t.add_special_tokens([AddedToken("<s>", normalized=False)])
    t.add_tokens([*added(normalized=True), *accented()])
    return t


def accented() -> list[AddedToken]:
    """Added tokens that NFC spells otherwise."""
    return [
        AddedToken("<e\u0301>", normalized=False),
        AddedToken("<a\u0302\u0323>", normalized=True),
        AddedToken("\u0327", normalized=True),
    ]


def sentencepiece(prefix: str, *, tab: bool = False) -> Tokenizer:
    """Llama's kind ("prepend"), Gemma's ("none") or with the Metaspace pre-tokenizer.

    tab: like Gemma 2's, with a tab in the place of its byte token and no pre-tokenizer.
    """
    trained = Tokenizer(models.BPE(unk_token=UNK, fuse_unk=True, byte_fallback=True))
    trained.pre_tokenizer = pre.Metaspace(SPACE, "never" if prefix == "none" else "always")
    trainer = trainers.BpeTrainer(
        vocab_size=900,
        special_tokens=[UNK, "<s>", "</s>", *BYTES],
        limit_alphabet=70,
        show_progress=False,
    )
    trained.train_from_iterator(sentences(), trainer)
    # the trainer makes added tokens of the byte tokens; a tokenizer of its model alone has none
    model = json.loads(trained.to_str())["model"]
    # like Gemma's: runs of spaces, and a token with a space inside
    merges = [(SPACE, SPACE), (SPACE * 2, SPACE * 2), *map(tuple, model["merges"])]
    merges.append(("!", SPACE + "the"))
    vocab = model["vocab"]
    if tab:
        vocab["\t\t"] = vocab["\t"]
        vocab["\t"] = vocab.pop("<0x09>")
        merges.append(("\t", "\t"))
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    t = Tokenizer(models.BPE(vocab, merges, unk_token=UNK, fuse_unk=True, byte_fallback=True))
    t.add_special_tokens([AddedToken(s, normalized=False) for s in (UNK, "<s>", "</s>")])
    replace = normalizers.Replace(" ", SPACE)
    back = [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()]
    if prefix == "none":
        t.normalizer = replace
        if not tab:
            t.pre_tokenizer = pre.Split(" ", "merged_with_previous")
        t.decoder = decoders.Sequence(back)
    else:
        t.decoder = decoders.Sequence([*back, decoders.Strip(" ", 1, 0)])
        if prefix == "prepend":
            t.normalizer = normalizers.Sequence([normalizers.Prepend(SPACE), replace])
        else:
            t.pre_tokenizer = pre.Metaspace(SPACE, prefix, split=False)
    t.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)]
    )
    t.add_tokens(added(normalized=True))
    return t


def main() -> int:
    """Write one file for each kind."""
    kinds = {
        "gpt2": byte_level(digits=False, full=True),
        "digits": byte_level(digits=True, full=False),
        "llama": sentencepiece("prepend"),
        "gemma": sentencepiece("none"),
        "metaspace_always": sentencepiece("always"),
        "metaspace_first": sentencepiece("first"),
        "gemma2": sentencepiece("none", tab=True),
        "llama3": split_by(LLAMA3_REGEX, nfc=False, whole=True),
        "qwen2": split_by(QWEN2_REGEX, nfc=True, whole=False),
        "qwen3_5": split_by(QWEN3_5_REGEX, nfc=True, whole=True),
    }
    for name, tokenizer in kinds.items():
        tokenizer.save(str(HERE / f"{name}.json"), pretty=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
