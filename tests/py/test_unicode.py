# SPDX-License-Identifier: MIT
"""Every code point is split and normalized as the `tokenizers` library does.

    make ISA=scalar lib && .venv/bin/python -m pytest tests/py/test_unicode.py

The tokenizer here merges any two bytes, so that the ids show where every piece begins; of a real
one most pieces of rare characters come apart into bytes, wherever they were split.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer as Library
from tokenizers import normalizers

import convert_tokenizer
from krafla import Tokenizer
from mlb import tokenizer_json
from mlb.tokenizer import ALPHABET

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loaded_library")

# All characters, what may become some, and some of the planes for private use.
CODES = (
    *range(0xD800),
    *range(0xE000, 0x33500),
    *range(0xE0000, 0xE0200),
    *range(0x10FF00, 0x110000),
)
CHUNK = 500
PRETOKS = ("gpt2", "gpt2_digits", "llama3", "qwen2", "qwen3_5")
# Each begins and ends so that it neither hides nor changes how its neighbours are split.
PLACES = ("\n!{}a\n!", "\n1{} ?\n1", "\na {}'s\n", "\n'{}x{}\n", "\nr\u0301 {}\n")


@dataclasses.dataclass(frozen=True)
class Pair:
    """The same tokenizer in the library and in the runtime."""

    library: Library = dataclasses.field(repr=False)
    runtime: Tokenizer

    def check(self, text: str) -> None:
        """Compare the ids of a text."""
        assert self.library.encode(text).ids == self.runtime.encode(text), ascii(text)


def write(path: Path, pretok: str) -> None:
    """Write the tokenizer.json whose merges join any two bytes."""
    pairs = list(itertools.product(ALPHABET, ALPHABET))
    random.Random(1).shuffle(pairs)
    spellings = [*ALPHABET, *("".join(pair) for pair in pairs)]
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        "vocab": {spelling: i for i, spelling in enumerate(spellings)},
        "merges": pairs,
    }
    parts = tokenizer_json.byte_parts(pretok)
    root = {"version": "1.0", "added_tokens": [], "post_processor": None, **parts, "model": model}
    path.write_text(json.dumps(root), encoding="utf-8")


@pytest.fixture(scope="module", params=PRETOKS)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Return a tokenizer of each way to split, as both see it."""
    folder = tmp_path_factory.mktemp("unicode")
    write(folder / "tokenizer.json", request.param)
    assert convert_tokenizer.main([str(folder / "tokenizer.json"), str(folder / "t.mlt")]) == 0
    with Tokenizer.open(folder / "t.mlt") as runtime:
        yield Pair(Library.from_file(str(folder / "tokenizer.json")), runtime)


def chunks() -> Iterator[Sequence[int]]:
    """Yield all of CODES."""
    for at in range(0, len(CODES), CHUNK):
        yield CODES[at : at + CHUNK]


def test_every_code_point_is_split_as_by_the_library(pair: Pair) -> None:
    for n, codes in enumerate(chunks()):
        place = PLACES[n % len(PLACES)]
        pair.check("".join(place.replace("{}", chr(c)) for c in codes))


def test_random_neighbours_are_split_as_by_the_library(pair: Pair) -> None:
    rng = random.Random(7)
    some = [*" \n\r\t'aAsStTrReEvVmMlLdD019!?.,-_(\u0301\u0300\u00e9\u4e2d\u3000\u2028\x85\xa0"]
    some += [*"\u017f\u212a\u00bd\u0663\u200d\u200b\U0001f600\u0e33\u0f71\U00011de3\U00016ff4"]
    for _ in range(4000):
        pair.check("".join(rng.choices(some, k=rng.randint(1, 14))))
        mixed = (
            chr(rng.choice(CODES)) if rng.random() < 0.5 else rng.choice(some) for _ in range(9)
        )
        pair.check("".join(mixed))


@pytest.fixture(scope="module")
def normalizing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tokenizer]:
    """Return a tokenizer with NFC and every byte: decoding gives what it made of a text."""
    folder = tmp_path_factory.mktemp("nfc")
    write(folder / "tokenizer.json", "qwen2")
    root = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    root["normalizer"] = {"type": "NFC"}
    (folder / "tokenizer.json").write_text(json.dumps(root), encoding="utf-8")
    assert convert_tokenizer.main([str(folder / "tokenizer.json"), str(folder / "t.mlt")]) == 0
    with Tokenizer.open(folder / "t.mlt") as runtime:
        yield runtime


NFC = normalizers.NFC()
NFD = normalizers.NFD()
STARTS = ("", "a", "a\u0301", "\u1100", "\uac00", "\u09c7", "a\u0315")
ENDS = ("", "\u0301", "\u0327\u0301\u0345", "\u0316\u0334", "\u1161\u11a8", "\u11a8", "\u0300")


def check_nfc(tokenizer: Tokenizer, text: str) -> None:
    """Compare what the runtime encodes with the library's NFC."""
    assert NFC.normalize_str(text) == tokenizer.decode(tokenizer.encode(text)), ascii(text)


@pytest.mark.parametrize(("start", "end"), zip(STARTS, ENDS, strict=True), ids=ascii)
def test_every_code_point_is_normalized_as_by_the_library(
    normalizing: Tokenizer, start: str, end: str
) -> None:
    for codes in chunks():
        check_nfc(normalizing, "\n".join(f"{start}{chr(c)}{end}" for c in codes))


def test_decomposed_characters_are_composed_as_by_the_library(normalizing: Tokenizer) -> None:
    for codes in chunks():
        parts = [NFD.normalize_str(chr(c)) for c in codes]
        check_nfc(normalizing, "\n".join(f"{part} {part[::-1]}" for part in parts))


def test_random_marks_and_jamo_are_normalized_as_by_the_library(normalizing: Tokenizer) -> None:
    rng = random.Random(5)
    parts = [NFD.normalize_str(chr(c)) for c in CODES]
    longer = [part for part in parts if len(part) > 1]
    pools: Sequence[Sequence[str]] = (
        [part[0] for part in longer],
        [part[-1] for part in longer],
        [chr(c) for c, part in zip(CODES, parts, strict=True) if part != chr(c)],
        [chr(c) for c in (*range(0x1100, 0x1113), *range(0x1160, 0x1177), *range(0x11A6, 0x11C4))],
        [chr(c) for c in range(0xAC00, 0xD7A4, 7)],
        [chr(c) for c in (*range(0x300, 0x370), *range(0x591, 0x5BE), *range(0x1DC0, 0x1E00))],
        "abc \n",
    )
    for _ in range(4000):
        chosen = rng.sample(pools, rng.randint(1, 4))
        length = rng.choice((2, 3, 5, 8, 20, 100))
        check_nfc(normalizing, "".join(rng.choice(rng.choice(chosen)) for _ in range(length)))
