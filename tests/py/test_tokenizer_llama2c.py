# SPDX-License-Identifier: MIT
"""A llama2.c tokenizer.bin gives the ids that llama2.c's own loop gives.

make ISA=scalar lib && .venv/bin/python -m pytest tests/py/test_tokenizer_llama2c.py
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gen_tokenizer
from krafla import Tokenizer
from tokenizer_texts import TEXTS, random_texts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

pytestmark = pytest.mark.usefixtures("loaded_library")

Records = list[tuple[bytes, float]]


def records(raw: bytes) -> Records:
    found: Records = []
    at = 4
    while at < len(raw):
        score, length = struct.unpack_from("<fi", raw, at)
        found.append((raw[at + 8 : at + 8 + length], score))
        at += 8 + length
    return found


def write(path: Path, tokens: Sequence[tuple[bytes, float]]) -> Path:
    longest = struct.pack("<i", max(len(t) for t, _ in tokens))
    path.write_bytes(longest + b"".join(struct.pack("<fi", s, len(t)) + t for t, s in tokens))
    return path


def reference(tokens: Records, text: str) -> list[int]:
    """What llama2.c does: characters or bytes, then the best pair again and again."""
    lookup = {t: i for i, (t, _) in reversed(list(enumerate(tokens)))}
    ids = [1]
    if text:
        ids.append(lookup[b" "])
    for char in text:
        raw = char.encode()
        ids += [lookup[raw]] if raw in lookup else [b + 3 for b in raw]
    while True:
        best, best_score = None, -1e10
        for at in range(len(ids) - 1):
            merged = lookup.get(tokens[ids[at]][0] + tokens[ids[at + 1]][0])
            if merged is not None and tokens[merged][1] > best_score:
                best, best_score = (at, merged), tokens[merged][1]
        if best is None:
            return ids
        ids[best[0] : best[0] + 2] = [best[1]]


@pytest.fixture(params=["generated", "equal scores"])
def tokenizer(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[tuple[Records, Tokenizer]]:
    """Return the records of a file and the runtime's view of it."""
    path = tmp_path / "tok.bin"
    assert gen_tokenizer.main(["--vocab", "900", "--out", str(path)]) == 0
    tokens = records(path.read_bytes())
    if request.param == "equal scores":
        rng = random.Random(5)
        tokens = [(t, float(rng.randrange(-5, 5))) for t, _ in tokens]
        write(path, tokens)
    with Tokenizer.open(path) as runtime:
        yield tokens, runtime


def test_text_becomes_the_ids_of_llama2c(tokenizer: tuple[Records, Tokenizer]) -> None:
    tokens, runtime = tokenizer
    letters = random.Random(4)
    words = ["".join(letters.choices("abcdefgXYZ e  ", k=60)) for _ in range(200)]
    for text in (*TEXTS, *random_texts(100, ["<s>", "</s>"]), *words):
        if "\0" not in text:  # ends the text for llama2.c
            assert reference(tokens, text) == runtime.encode(text, special=True), repr(text)


def test_a_score_below_llama2cs_start_is_never_merged(tmp_path: Path) -> None:
    base = [(b"<unk>", 0.0), (b"<s>", 0.0), (b"</s>", 0.0), *((b"%d" % b, 0.0) for b in range(256))]
    tokens = [*base, (b" ", 0.0), (b"a", 0.0), (b"aa", -2e10), (b" a", -1.0)]
    with Tokenizer.open(write(tmp_path / "t.bin", tokens)) as runtime:
        assert runtime.encode("aaa") == [1, 262, 260, 260]


def test_bytes_come_back_exactly(tokenizer: tuple[Records, Tokenizer]) -> None:
    rng = random.Random(6)
    for n in (1, 2, 5, 100, 1000):
        data = rng.randbytes(n)
        ids = tokenizer[1].encode(data)
        assert ids[0] == 1
        assert data == tokenizer[1].decode_bytes(ids[1:])
        assert data == tokenizer[1].decode_bytes(ids[1:], previous=1)


def test_text_never_becomes_one_of_the_first_three_ids(tmp_path: Path) -> None:
    specials = [(b"<s", 0.0), (b">", 0.0), (b"<", 0.0), (b"s", 0.0), (b" ", 0.0)]
    base = [(b"<unk>", 0.0), (b"<s>", 9.0), (b"</s>", 0.0), *((b"%d" % b, 0.0) for b in range(256))]
    with Tokenizer.open(write(tmp_path / "t.bin", [*base, *specials])) as runtime:
        assert runtime.encode("<s>", special=True) == [1, 263, 259, 260]
        assert runtime.find("<s>") == 1
        assert (runtime.bos, runtime.eos) == (1, 2)
