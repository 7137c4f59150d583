# SPDX-License-Identifier: MIT
"""The runtime encodes and decodes as the `tokenizers` library does, for every kind of tokenizer.

    make ISA=scalar lib && .venv/bin/python -m pytest tests/py/test_tokenizer_equality.py

The small tokenizers are those of tests/data/tokenizers; the real ones those of models/tokenizers,
where scripts/fetch_tokenizers.py puts them.  KRAFLA_TEXTS is the number of texts for each: 500, or
10000 in the session `tokenizers` of nox, where every code point is in one of them.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import time
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tokenizers import Tokenizer as Library

import convert_tokenizer
import fetch_tokenizers
from krafla import Tokenizer
from tokenizer_texts import TEXTS, many_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("loaded_library")

ROOT = Path(__file__).resolve().parent.parent.parent
SMALL = sorted((ROOT / "tests" / "data" / "tokenizers").glob("*.json"))
REAL = [fetch_tokenizers.TOKENIZERS / name / "tokenizer.json" for name in fetch_tokenizers.names()]
FEW = 500
COUNT = int(os.environ.get("KRAFLA_TEXTS", FEW))
SMALL_ONES = [pytest.param(path, id=path.stem) for path in SMALL]
REAL_ONES = [
    pytest.param(path, id=f"real-{path.parent.name}", marks=pytest.mark.real) for path in REAL
]
LARGE = 1_000_000


@dataclasses.dataclass(frozen=True)
class Pair:
    """One tokenizer in the library and in the runtime, and texts for both."""

    library: Library = dataclasses.field(repr=False)
    runtime: Tokenizer
    spec: dict[str, Any] = dataclasses.field(repr=False)
    texts: list[str] = dataclasses.field(repr=False)
    # The library's ids of each text: with BOS and special tokens; and as of a message, without.
    ids: list[list[int]] = dataclasses.field(repr=False)
    message_ids: list[list[int]] = dataclasses.field(repr=False)

    @property
    def spells_spaces(self) -> bool:
        """Tell whether ▁ is a space to this tokenizer."""
        return bool(self.spec["model"]["byte_fallback"])

    @property
    def nfc(self) -> bool:
        """Tell whether text is normalized."""
        return bool(self.spec["normalizer"] == {"type": "NFC"})


@pytest.fixture(scope="module", params=[*SMALL_ONES, *REAL_ONES])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    """Return a tokenizer as both see it."""
    source: Path = request.param
    if not source.is_file():
        pytest.skip("not run: a real tokenizer is not there: python3 scripts/fetch_tokenizers.py")
    output = tmp_path_factory.mktemp("mlt") / "t.mlt"
    assert convert_tokenizer.main([str(source), str(output)]) == 0
    with Tokenizer.open(output) as runtime:
        spec = json.loads(source.read_text(encoding="utf-8"))
        texts = many_texts(COUNT, [t["content"] for t in spec["added_tokens"]])
        library = Library.from_file(str(source))
        ids = [e.ids for e in library.encode_batch_fast(texts)]
        library.encode_special_tokens = True
        message = [e.ids for e in library.encode_batch_fast(texts, add_special_tokens=False)]
        yield Pair(library, runtime, spec, texts, ids, message)


def full_bytes(pair: Pair) -> bool:
    """Tell whether every byte has a token, so that nothing is lost."""
    return pair.runtime.decode_bytes(pair.runtime.encode(bytes(range(256)))).endswith(
        bytes(range(256))
    )


def test_text_becomes_the_ids_of_the_library(pair: Pair) -> None:
    for text, ids in zip(pair.texts, pair.ids, strict=True):
        assert ids == pair.runtime.encode(text, special=True), repr(text)


def test_special_tokens_in_a_message_stay_text(pair: Pair) -> None:
    special = {t["id"] for t in pair.spec["added_tokens"] if t["special"]}
    for text, ids in zip(pair.texts, pair.message_ids, strict=True):
        assert ids == pair.runtime.encode(text, bos=False), repr(text)
        assert not special.intersection(ids)


def test_ids_become_the_text_of_the_library(pair: Pair) -> None:
    # after a BOS inside a text the runtime drops a space, so that it can stream from there
    all_ids = [[i for i in ids if i != pair.runtime.bos] for ids in pair.ids]
    texts = pair.library.decode_batch(all_ids, skip_special_tokens=False)
    for text, ids in zip(texts, all_ids, strict=True):
        if "\ufffd" not in text:
            assert text == pair.runtime.decode(ids), repr(text)


def test_a_text_comes_back_where_the_library_gives_it_back(pair: Pair) -> None:
    same = 0
    decoded = pair.library.decode_batch(pair.message_ids, skip_special_tokens=False)
    for text, back in zip(pair.texts, decoded, strict=True):
        if back in (text, unicodedata.normalize("NFC", text)):
            ids = pair.runtime.encode(text, bos=False)
            assert back.encode() == pair.runtime.decode_bytes(ids), repr(text)
            same += 1
    assert same > len(pair.texts) // 2 or not full_bytes(pair)


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
            ids = pair.runtime.encode(data, bos=False)
            if pair.nfc:  # some of them are characters by chance
                text = unicodedata.normalize("NFC", data.decode("utf-8", "surrogateescape"))
                data = text.encode("utf-8", "surrogateescape")
            assert data == pair.runtime.decode_bytes(ids)


@pytest.mark.parametrize(
    "pair", SMALL_ONES if COUNT == FEW else [*SMALL_ONES, *REAL_ONES], indirect=True, scope="module"
)
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
