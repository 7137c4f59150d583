# SPDX-License-Identifier: MIT
"""gen_tokenizer.py: tokenizers of every kind and size that the runtime and the library can use.

make ISA=scalar lib && .venv/bin/python -m pytest tests/py/test_gen_tokenizer.py
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer as Library

import gen_tokenizer
from krafla import Tokenizer
from mlb import envelope
from tokenizer_texts import TEXTS, random_texts

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("loaded_library")

BYTES_AND_TURNS = 300  # room for both in every kind
ALL = (gen_tokenizer.LLAMA2C, *gen_tokenizer.KINDS)


def make(path: Path, kind: str, vocab: int) -> Path:
    assert gen_tokenizer.main(["--kind", kind, "--vocab", str(vocab), "--out", str(path)]) == 0
    return path


def letters(count: int) -> list[str]:
    rng = random.Random(count)
    return ["".join(rng.choices("abcdefgXYZ e  ", k=60)) for _ in range(count)]


@pytest.mark.parametrize("kind", gen_tokenizer.KINDS)
def test_the_json_is_the_same_tokenizer_as_the_mlt(kind: str, tmp_path: Path) -> None:
    library = Library.from_file(str(make(tmp_path / "t.json", kind, 3000)))
    found = gen_tokenizer.KINDS[kind]
    with Tokenizer.open(make(tmp_path / "t.mlt", kind, 3000)) as runtime:
        assert len(runtime) == library.get_vocab_size() == 3000
        assert runtime.eos == library.token_to_id(found.eos)
        assert (runtime.bos is None) == (found.bos is None)
        turns = [*found.special, *found.text]
        pieces = 0
        for text in (*TEXTS, *random_texts(200, turns), *letters(100)):
            ids = library.encode(text).ids
            assert ids == runtime.encode(text, special=True), repr(text)
            pieces += sum(len(runtime.decode_bytes([i])) > 2 for i in ids)
        assert pieces > 200  # the made-up tokens are of use


@pytest.mark.parametrize("vocab", [BYTES_AND_TURNS, 20_000])
@pytest.mark.parametrize("kind", ALL)
def test_every_size_has_that_many_tokens(kind: str, vocab: int, tmp_path: Path) -> None:
    with Tokenizer.open(make(tmp_path / "tokenizer", kind, vocab)) as runtime:
        assert len(runtime) == vocab
        data = bytes(range(256))
        assert runtime.decode_bytes(runtime.encode(data, bos=False)).endswith(data)


@pytest.mark.parametrize("kind", ALL)
def test_the_same_arguments_give_the_same_file(kind: str, tmp_path: Path) -> None:
    first = make(tmp_path / "a", kind, 700).read_bytes()
    assert first == make(tmp_path / "b", kind, 700).read_bytes()
    words = ["--kind", kind, "--vocab", "700", "--seed", "2", "--out", str(tmp_path / "c")]
    assert gen_tokenizer.main(words) == 0
    assert first != (tmp_path / "c").read_bytes()


@pytest.mark.parametrize("kind", ALL)
def test_a_size_without_room_for_the_bytes_is_refused(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    least = gen_tokenizer.smallest(kind)
    make(tmp_path / "least", kind, least)
    with pytest.raises(SystemExit) as caught:
        make(tmp_path / "less", kind, least - 1)
    assert caught.value.code == 2
    assert f"--vocab: expected {least} to" in capsys.readouterr().err
    assert not (tmp_path / "less").exists()


def test_each_kind_prepares_text_in_its_own_way(tmp_path: Path) -> None:
    found = set()
    for kind in gen_tokenizer.KINDS:
        header = envelope.read(make(tmp_path / kind, kind, BYTES_AND_TURNS), "mlt").header
        found.add((header["pretok"], header["prefix"], header["nfc"], header["add_bos"]))
    assert len(found) == len(gen_tokenizer.KINDS)
