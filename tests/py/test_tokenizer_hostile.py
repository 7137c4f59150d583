# SPDX-License-Identifier: MIT
"""A damaged or malicious tokenizer file is an error, or encodes badly; never more.

make ISA=scalar lib && .venv/bin/python -m pytest tests/py/test_tokenizer_hostile.py
"""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import convert_tokenizer
import gen_tokenizer
from krafla import KraflaError, Tokenizer
from mlb import envelope

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.usefixtures("loaded_library")

DATA = Path(__file__).resolve().parent.parent / "data" / "tokenizers"
TEXT = "Hello kara <|end|> [MASK]  42\n\n\n \u2581 \u4e16 a b <normal> \ud7ff" * 3
ADDED, SPECIAL, BYTE, MODEL = 1, 2, 64, 128
Sections = dict[str, np.ndarray[Any, Any]]


def valid(directory: Path, name: str) -> tuple[dict[str, Any], Sections]:
    """Return header and sections of a converted tokenizer."""
    path = directory / f"{name}.mlt"
    assert convert_tokenizer.main([str(DATA / f"{name}.json"), str(path)]) == 0
    file = envelope.read(path, "mlt")
    vocab, merges = file.header["vocab"], file.header["merges"]
    sizes = {"offsets": 4 * vocab + 4, "merges": 12 * merges, "flags": vocab}
    found: Sections = {}
    at = 0
    for part, size in sizes.items():
        found[part] = file.data[at : at + size].copy()
        at = -(-(at + size) // 64) * 64
    found["text"] = file.data[at:].copy()
    for part in ("offsets", "merges"):
        found[part] = found[part].view("<u4")
    return dict(file.header), found


def write(path: Path, header: dict[str, Any], parts: Sections) -> Path:
    data = b""
    for part in parts.values():
        data += b"\0" * (-len(data) % 64) + part.tobytes()
    envelope.write(path, "mlt", header, [data], len(data))
    return path


def refused(path: Path) -> str:
    """Open a file that must be refused; the message, which is one line with the file's name."""
    with pytest.raises(KraflaError) as caught:
        Tokenizer.open(path)
    message = str(caught.value)
    assert path.name in message
    assert "\n" not in message
    return message


def use(path: Path) -> None:
    """Open a file; if it is accepted, everything that can be done with it must end well."""
    try:
        tokenizer = Tokenizer.open(path)
    except KraflaError:
        return
    with tokenizer:
        for text in (TEXT.encode(), b" ", bytes(range(256)) * 20):
            ids = tokenizer.encode(text, special=True)
            assert all(0 <= i < len(tokenizer) for i in ids)
            tokenizer.decode_bytes(ids)
        tokenizer.decode_bytes(range(len(tokenizer)))
        tokenizer.find("<|end|>")


HEADER: dict[str, tuple[str, object]] = {
    "kind": ("llama", "wordpiece"),
    "pretok": ("gpt2", "none"),
    "prefix": ("gpt2", "always"),
    "drop_space": ("gpt2", True),
    "add_bos": ("gpt2", True),
    "bos_id": ("llama", 5000),
    "eos_id": ("llama", -1),
    "chat": ("llama", "x" * 500),
    "vocab": ("llama", 0),
    "merges": ("llama", 1 << 25),
    "text_bytes": ("llama", 1 << 27),
    "provenance": ("llama", None),
    "surprise": ("llama", 1),
}


@pytest.mark.parametrize("key", HEADER)
def test_a_header_that_does_not_fit_is_refused(key: str, tmp_path: Path) -> None:
    name, value = HEADER[key]
    header, parts = valid(tmp_path, name)
    assert key in refused(write(tmp_path / "bad.mlt", header | {key: value}, parts))


@pytest.mark.parametrize("key", sorted(HEADER.keys() - {"surprise"}))
def test_every_header_key_is_required(key: str, tmp_path: Path) -> None:
    header, parts = valid(tmp_path, "llama")
    header.pop(key)
    assert key in refused(write(tmp_path / "bad.mlt", header, parts))


@pytest.mark.parametrize("key", ["vocab", "merges", "text_bytes"])
@pytest.mark.parametrize("by", [-1, 1])
def test_counts_that_do_not_add_up_are_refused(key: str, by: int, tmp_path: Path) -> None:
    header, parts = valid(tmp_path, "gpt2")
    refused(write(tmp_path / "bad.mlt", header | {key: header[key] + by}, parts))


def merge_of(parts: Sections, at: int, column: int, value: int) -> None:
    parts["merges"][3 * at + column] = value


def swap_merge(parts: Sections) -> None:
    merges = parts["merges"].reshape(-1, 3)
    at = np.flatnonzero(merges[:, 0] != merges[:, 1])[0]
    merges[at, :2] = merges[at, 1::-1]


def same_merge(parts: Sections) -> None:
    parts["merges"][3:6] = parts["merges"][0:3]


def special_result(parts: Sections) -> None:
    parts["flags"][parts["merges"][2]] = ADDED | SPECIAL | MODEL


def no_longer_model(parts: Sections) -> None:
    parts["flags"][parts["merges"][0]] = ADDED


def second_byte(parts: Sections) -> None:
    at = np.flatnonzero(parts["flags"] & BYTE)[:2]
    parts["text"][parts["offsets"][at[1]]] = parts["text"][parts["offsets"][at[0]]]


def too_long(parts: Sections) -> None:
    parts["offsets"][300:] = parts["offsets"][-1]
    parts["offsets"][1:300] = 0


DAMAGE: dict[str, Callable[[Sections], object]] = {
    "offsets that go back": lambda p: p["offsets"].__setitem__(5, p["offsets"][4] - 1),
    "an offset beyond the text": lambda p: p["offsets"].__setitem__(5, 1 << 31),
    "a first offset that is not 0": lambda p: p["offsets"].__setitem__(0, 1),
    "a last offset before the end": lambda p: p["offsets"].__setitem__(-1, p["offsets"][-1] - 1),
    "a token of thousands of bytes": too_long,
    "a merge of no token": lambda p: merge_of(p, 7, 0, 0xFFFFFFFF),
    "a merge with an id that is too large": lambda p: merge_of(p, 7, 1, len(p["flags"])),
    "a merge into no token": lambda p: merge_of(p, 7, 2, 1 << 31),
    "a merge spelled otherwise": swap_merge,
    "a merge that is there twice": same_merge,
    "a merge into a special token": special_result,
    "a merge of a token that is only added": no_longer_model,
    "a byte token that is not of the model": lambda p: p["flags"].__setitem__(300, BYTE),
    "two tokens for one byte": second_byte,
    "a special token that is not added": lambda p: p["flags"].__setitem__(400, SPECIAL | MODEL),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_data_that_breaks_a_rule_is_refused(damage: str, tmp_path: Path) -> None:
    header, parts = valid(tmp_path, "llama")
    write(tmp_path / "good.mlt", header, parts)
    Tokenizer.open(tmp_path / "good.mlt").close()
    DAMAGE[damage](parts)
    refused(write(tmp_path / "bad.mlt", header, parts))


def test_bytes_between_the_sections_are_refused(tmp_path: Path) -> None:
    header, parts = valid(tmp_path, "llama")
    gap = -parts["merges"].nbytes % 64
    assert gap
    padded = np.concatenate((parts["merges"].view(np.uint8), np.full(gap, 7, np.uint8)))
    message = refused(write(tmp_path / "bad.mlt", header, parts | {"merges": padded}))
    assert "not zero" in message


@pytest.mark.parametrize("name", ["gpt2", "llama", "metaspace_first"])
def test_flipped_bytes_never_do_harm(name: str, tmp_path: Path) -> None:
    header, parts = valid(tmp_path, name)
    good = write(tmp_path / "t.mlt", header, parts).read_bytes()
    rng = random.Random(9)
    start = len(good) - sum(-(-p.nbytes // 64) * 64 for p in parts.values())
    for _ in range(400):
        bad = bytearray(good)
        for _ in range(rng.choice((1, 1, 2, 5))):
            where = rng.randrange(16, len(bad)) if rng.random() < 0.8 else rng.randrange(start)
            bad[where] = rng.choice((0, 1, 0x80, 0xFF, bad[where] ^ (1 << rng.randrange(8))))
        path = tmp_path / "bad.mlt"
        path.write_bytes(bad)
        use(path)


@pytest.mark.parametrize("kind", ["mlt", "bin"])
def test_every_truncation_is_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    if kind == "bin":
        assert gen_tokenizer.main(["--vocab", "300", "--out", str(path)]) == 0
    else:
        write(path, *valid(tmp_path, "gpt2"))
    good = path.read_bytes()
    for n in range(0, len(good), 7 if kind == "bin" else 61):
        path.write_bytes(good[:n])
        try:
            Tokenizer.open(path).close()
        except KraflaError:
            continue
        # a tokenizer.bin does not say how long it is: whole tokens less is another tokenizer
        assert kind == "bin"
        assert n > len(good) // 2


def record(score: float, text: bytes) -> bytes:
    return struct.pack("<fi", score, len(text)) + text


BASE = b"".join(record(0, b"%d" % i) for i in range(259))
BAD_BIN = {
    "a longest token of 0": struct.pack("<i", 0) + BASE,
    "a negative longest token": struct.pack("<i", -1) + BASE,
    "a huge longest token": struct.pack("<i", 1 << 30) + BASE,
    "a token longer than the longest": struct.pack("<i", 3) + BASE + record(0, b"four"),
    "a negative length": struct.pack("<i", 8) + BASE + struct.pack("<fi", 0, -1),
    "a length beyond the end": struct.pack("<i", 8) + BASE + struct.pack("<fi", 0, 8) + b"abc",
    "a score that is NaN": struct.pack("<i", 8) + BASE + record(float("nan"), b"ab"),
    "an infinite score": struct.pack("<i", 8) + BASE + record(float("inf"), b"ab"),
    "too few tokens": struct.pack("<i", 8) + BASE[: BASE.rindex(b"258") - 8],
}


@pytest.mark.parametrize("what", BAD_BIN)
def test_a_bad_tokenizer_bin_is_refused(what: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.bin"
    path.write_bytes(BAD_BIN[what])
    refused(path)


def test_flipped_bytes_of_a_tokenizer_bin_never_do_harm(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    assert gen_tokenizer.main(["--vocab", "600", "--out", str(path)]) == 0
    good = path.read_bytes()
    rng = random.Random(10)
    for _ in range(300):
        bad = bytearray(good)
        for _ in range(rng.choice((1, 2, 5))):
            bad[rng.randrange(len(bad))] = rng.choice((0, 1, 0x20, 0x80, 0xFF))
        path.write_bytes(bad)
        use(path)


WRONG = {
    "HTML": b"<!DOCTYPE html><html><body>404</body></html>" * 10,
    "LFS": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
    "GGUF": b"GGUF\x03\0\0\0" + b"\0" * 100,
    "JSON": b'{"version": "1.0", "model": {}}' * 10,
    "empty": b"",
}


@pytest.mark.parametrize("what", WRONG)
def test_a_file_that_is_something_else_is_named(what: str, tmp_path: Path) -> None:
    path = tmp_path / "t.mlt"
    path.write_bytes(WRONG[what])
    assert what in refused(path)
