# SPDX-License-Identifier: MIT
"""The runtime encodes and decodes as the `tokenizers` library does, for every kind of tokenizer.

    make ISA=scalar lib && .venv/bin/python -m pytest tests/py/test_tokenizer_equality.py

The small tokenizers are those of tests/data/tokenizers; the real ones are compared where
models/<name>/tokenizer.json exists.
"""

from __future__ import annotations

import dataclasses
import json
import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tokenizers import Tokenizer as Library

import convert_tokenizer
from krafla import Tokenizer
from tokenizer_texts import TEXTS, random_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = sorted((ROOT / "tests" / "data" / "tokenizers").glob("*.json"))
REAL = [
    ROOT / "models" / name / "tokenizer.json"
    for name in ("smollm2-135m-instruct", "gemma-3-270m", "llama2")
]
LARGE = 1_000_000


@dataclasses.dataclass(frozen=True)
class Pair:
    """One tokenizer in the library and in the runtime."""

    library: Library = dataclasses.field(repr=False)
    runtime: Tokenizer
    spec: dict[str, Any] = dataclasses.field(repr=False)

    @property
    def spells_spaces(self) -> bool:
        """Tell whether ▁ is a space to this tokenizer."""
        return bool(self.spec["model"]["byte_fallback"])

    def texts(self) -> Iterator[str]:
        """Yield some 600 texts."""
        yield from TEXTS
        yield from random_texts(600, [t["content"] for t in self.spec["added_tokens"]])


@pytest.fixture(
    scope="module",
    params=[*SMALL, *REAL],
    ids=[*(p.stem for p in SMALL), *(p.parent.name for p in REAL)],
)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Return a tokenizer as both see it."""
    source: Path = request.param
    if not source.is_file():
        pytest.skip(f"not run: {source.relative_to(ROOT)} is not there")
    output = tmp_path_factory.mktemp("mlt") / "t.mlt"
    assert convert_tokenizer.main([str(source), str(output)]) == 0
    with Tokenizer.open(output) as runtime:
        spec = json.loads(source.read_text(encoding="utf-8"))
        yield Pair(Library.from_file(str(source)), runtime, spec)


def full_bytes(pair: Pair) -> bool:
    """Tell whether every byte has a token, so that nothing is lost."""
    return pair.runtime.decode_bytes(pair.runtime.encode(bytes(range(256)))).endswith(
        bytes(range(256))
    )


def test_text_becomes_the_ids_of_the_library(pair: Pair) -> None:
    pair.library.encode_special_tokens = False
    for text in pair.texts():
        assert pair.library.encode(text).ids == pair.runtime.encode(text, special=True), repr(text)


def test_special_tokens_in_a_message_stay_text(pair: Pair) -> None:
    special = {t["id"] for t in pair.spec["added_tokens"] if t["special"]}
    pair.library.encode_special_tokens = True
    for text in pair.texts():
        expected = pair.library.encode(text, add_special_tokens=False).ids
        assert expected == pair.runtime.encode(text, bos=False), repr(text)
        assert not special.intersection(expected)


def test_ids_become_the_text_of_the_library(pair: Pair) -> None:
    pair.library.encode_special_tokens = False
    for text in pair.texts():
        # after a BOS inside a text the runtime drops a space, so that it can stream from there
        ids = [
            i
            for i in pair.library.encode(text, add_special_tokens=False).ids
            if i != pair.runtime.bos
        ]
        expected = pair.library.decode(ids, skip_special_tokens=False)
        if "\ufffd" not in expected:
            assert expected == pair.runtime.decode(ids), repr(text)


def test_decoding_token_by_token_gives_the_same_bytes(pair: Pair) -> None:
    for text in TEXTS:
        ids = pair.runtime.encode(text, special=True)
        parts = [
            pair.runtime.decode_bytes([i], previous=ids[at - 1] if at else None)
            for at, i in enumerate(ids)
        ]
        assert pair.runtime.decode_bytes(ids) == b"".join(parts)


def test_any_bytes_come_back_exactly(pair: Pair) -> None:
    rng = random.Random(3)
    if not full_bytes(pair):
        pytest.skip("not run: this vocabulary lacks byte tokens; the library too drops those bytes")
    for n in (1, 2, 3, 7, 50, 500):
        for _ in range(50):
            data = b"x" + rng.randbytes(n)  # x: Metaspace puts no space before a space
            assert data == pair.runtime.decode_bytes(pair.runtime.encode(data, bos=False))


@pytest.mark.parametrize("text", ["a", " ", "\n", "'", "▁", "ab'", "中"], ids=ascii)
def test_a_megabyte_without_a_break_is_no_problem(pair: Pair, text: str) -> None:
    data = (text * (LARGE // len(text.encode()))).encode()
    start = time.process_time()
    ids = pair.runtime.encode(data)
    # Encoding runs twice, the first time only to count.  Together 0.9 s at most where this was
    # written; anything quadratic takes hours.
    assert time.process_time() - start < 20
    spaced = data.replace("▁".encode(), b" ") if pair.spells_spaces else data
    if full_bytes(pair):
        assert pair.runtime.decode_bytes(ids).endswith(spaced[-1000:])
