# SPDX-License-Identifier: MIT
"""The GGUF reader: what it finds is what the gguf package finds, and hostile files get one line.

.venv/bin/python -m pytest tests/py/test_gguf_read.py
"""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import convert
from made_gguf import Type, write_gguf
from mlb import gguf as reader
from mlb.checkpoint import CheckpointError

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
UINT8, UINT32, FLOAT32, BOOL, STRING, ARRAY = 0, 4, 6, 7, 8, 9


def string(text: str | bytes) -> bytes:
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def field(key: str, kind: int, raw: bytes) -> bytes:
    return string(key) + struct.pack("<I", kind) + raw


def tensor(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    sizes = struct.pack(f"<{len(shape)}Q", *shape)
    return string(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)


def file(
    fields: list[bytes] | None = None,
    tensors: list[bytes] | None = None,
    data: bytes = b"",
    *,
    head: bytes = b"GGUF\x03\0\0\0",
    alignment: int = 32,
) -> bytes:
    """A whole file."""
    fields, tensors = fields or [], tensors or []
    start = head + struct.pack("<QQ", len(tensors), len(fields)) + b"".join(fields + tensors)
    return start + b"\0" * (-len(start) % alignment) + data


def read(tmp_path: Path, raw: bytes) -> reader.Gguf:
    path = tmp_path / "m.gguf"
    path.write_bytes(raw)
    return reader.read_gguf(path)


def refusal(tmp_path: Path, raw: bytes) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(tmp_path, raw)
    line = str(caught.value)
    assert "\n" not in line
    assert str(tmp_path / "m.gguf") in line
    return line


# ---- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0", "Q5_1"])
def test_fields_and_tensors_are_those_of_the_gguf_package(
    tmp_path: Path, version: int, kind: str
) -> None:
    more = {"a.list": [1, 2, 3], "a.names": ["x", "", "\u00e9"], "a.flags": [True, False]}
    path = write_gguf(GOLDEN / "llama", tmp_path / "m.gguf", Type[kind], more)
    raw = bytearray(path.read_bytes())
    raw[4] = version  # the two have one layout
    path.write_bytes(raw)
    theirs, ours = gguf.GGUFReader(path), reader.read_gguf(path)
    fields = {k: f.contents() for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert list(ours.fields) == list(fields)
    for key, want in fields.items():
        got = ours.fields[key]
        got = got.tolist() if isinstance(got, np.ndarray) else got
        if isinstance(want, float):
            got = float(np.float32(got))  # ours is the shortest decimal
        assert got == want
    assert ours.version == version
    assert list(ours.tensors) == [t.name for t in theirs.tensors]
    for found in theirs.tensors:
        mine = ours.tensors[found.name]
        assert mine.offset == found.data_offset
        want = gguf.quants.dequantize(found.data, found.tensor_type)
        assert np.array_equal(ours.values(mine), want.reshape(mine.shape))
        if len(mine.shape) > 1:
            assert np.array_equal(ours.values(mine, 3, 5), want.reshape(mine.shape)[3:5])


def test_float_fields_are_the_shortest_decimals(tmp_path: Path) -> None:
    raw = file([field("a", FLOAT32, struct.pack("<f", 1e-5))])
    assert read(tmp_path, raw).fields == {"a": 1e-05}


def test_nested_arrays_and_other_alignments_are_read(tmp_path: Path) -> None:
    inner = struct.pack("<IQ", UINT8, 2) + b"\x01\x02"
    nested = struct.pack("<IQ", ARRAY, 2) + inner + inner
    fields = [
        field("general.alignment", UINT32, struct.pack("<I", 64)),
        field("nested", ARRAY, nested),
    ]
    tensors = [tensor("a", (3,)), tensor("b", (2,), offset=64)]
    data = struct.pack("<3f", 1, 2, 3) + bytes(52) + struct.pack("<2f", 4, 5)
    found = read(tmp_path, file(fields, tensors, data, alignment=64))
    assert [item.tolist() for item in found.fields["nested"]] == [[1, 2], [1, 2]]
    assert found.values(found.tensors["b"]).tolist() == [4, 5]


# ---- hostile files -------------------------------------------------------------------------------

HUGE = struct.pack("<Q", 1 << 63)
DEEP = b"".join(struct.pack("<IQ", ARRAY, 1) for _ in range(1000))
TWO = [tensor("a", (8,)), tensor("b", (8,), offset=32)]
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "not a GGUF file"),
    "other magic": (b"PK\x03\x04" + bytes(60), "not a GGUF file"),
    "only a magic": (b"GGUF", "not a GGUF file"),
    "GGJT": (b"tjgg" + bytes(60), "is a GGJT file, which GGUF replaced"),
    "version 0": (file(head=b"GGUF\0\0\0\0"), "is of GGUF version 0, expected 2"),
    "version 1": (file(head=b"GGUF\x01\0\0\0"), "is of GGUF version 1, expected 2 or 3"),
    "version 4": (file(head=b"GGUF\x04\0\0\0"), "is of GGUF version 4, expected 2 or 3"),
    "big-endian": (file(head=b"GGUF\0\0\0\x03"), "is a big-endian GGUF file"),
    "no counts": (b"GGUF\x03\0\0\0", "number of tensors"),
    "many tensors": (b"GGUF\x03\0\0\0" + HUGE + bytes(8), "number of tensors is 9223372036854"),
    "many fields": (b"GGUF\x03\0\0\0" + bytes(8) + HUGE, "number of fields is 9223372036854"),
    "long key": (file([HUGE + b"a"]), "length of key 0 is"),
    "key of 64 kB": (file([string("a" * 65536)]), "length of key 0 is 65536"),
    "key with a line end": (file([field("a\nb", BOOL, b"\1")]), "expected printable ASCII"),
    "empty key": (file([field("", BOOL, b"\1")]), "expected printable ASCII"),
    "key twice": (file([field("a", BOOL, b"\1")] * 2), "the key a appears twice"),
    "key not UTF-8": (file([field("", BOOL, b"")[:0] + string(b"\xff\xfe")]), "is not UTF-8"),
    "value not UTF-8": (file([field("a", STRING, string(b"\xff"))]), "a is not UTF-8"),
    "long value": (file([field("a", STRING, HUGE)]), "length of a is"),
    "truth value 2": (file([field("a", BOOL, b"\2")]), "the truth value is 2"),
    "unknown type": (file([field("a", 13, b"")]), "a: a value of unknown type 13"),
    "cut number": (file([field("a", UINT32, b"\0")], alignment=1), "4 bytes expected, 1 are left"),
    "array of unknown": (
        file([field("a", ARRAY, struct.pack("<IQ", 77, 0))]),
        "elements of unknown type 77",
    ),
    "long array": (file([field("a", ARRAY, struct.pack("<I", UINT32) + HUGE)]), "elements is"),
    "many strings": (
        file([field("a", ARRAY, struct.pack("<IQ", STRING, 10) + bytes(72))], alignment=1),
        "number of elements is 10, at most 9",
    ),
    "deep array": (
        file([field("a", ARRAY, struct.pack("<IQ", ARRAY, 1) + DEEP)]),
        "arrays are nested more than 4 deep",
    ),
    "alignment 0": (
        file([field("general.alignment", UINT32, bytes(4))]),
        "general.alignment: expected a power of two",
    ),
    "alignment 48": (
        file([field("general.alignment", UINT32, struct.pack("<I", 48))]),
        "general.alignment: expected a power of two",
    ),
    "alignment a string": (
        file([field("general.alignment", STRING, string("32"))]),
        "general.alignment: expected a power of two",
    ),
    "split": (
        file([field("split.count", 2, struct.pack("<H", 2))]),
        "is one of 2 parts of a model: join them first",
    ),
    "tensor twice": (file([], [tensor("a", (8,))] * 2), "the tensor a appears twice"),
    "tensor without a name": (file([], [tensor("", (8,))]), "expected printable ASCII"),
    "tensor of 65 letters": (file([], [tensor("a" * 65, (8,))]), "length of name of tensor 0"),
    "rank 0": (file([], [tensor("a", ())]), "a: 0 dimensions, expected 1 to 4"),
    "rank 5": (file([], [tensor("a", (1,) * 5)]), "a: 5 dimensions, expected 1 to 4"),
    "rank 2^32 - 1": (
        file([], [string("a") + b"\xff" * 4 + bytes(64)]),
        "a: 4294967295 dimensions, expected 1 to 4",
    ),
    "size 0": (file([], [tensor("a", (8, 0))]), "is empty or too large"),
    "product of 2^64 + 32": (
        file([], [tensor("a", (1 << 32, 1 << 32))]),
        "is empty or too large",
    ),
    "type 4": (file([], [tensor("a", (8,), 4)]), "is of type 4, which is not known"),
    "half a block": (file([], [tensor("a", (48,), 8)]), "rows of 48, Q8_0 has blocks of 32"),
    "offset not aligned": (
        file([], [tensor("a", (8,), offset=4)], bytes(64)),
        "'a': expected at 0 of the data",
    ),
    "overlap": (
        file([], [tensor("a", (8,)), tensor("b", (8,))], bytes(64)),
        "'b': expected at 32 of the data by the tensors before it, found at 0",
    ),
    "hole": (
        file([], [tensor("a", (8,)), tensor("b", (8,), offset=64)], bytes(128)),
        "'b': expected at 32 of the data by the tensors before it, found at 64",
    ),
    "offset past the end": (
        file([], [tensor("a", (8,), offset=1 << 60)], bytes(64)),
        "'a': expected at 0",
    ),
    "data cut off": (file([], TWO, bytes(63)), "'b': ends at byte"),
    "bytes after it": (file([], TWO, bytes(96)), "32 bytes after the last tensor"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_gets_one_line(tmp_path: Path, name: str) -> None:
    raw, named = HOSTILE[name]
    assert named in refusal(tmp_path, raw)


def small() -> bytes:
    """A file with a field of every type, and two tensors."""
    fields = [
        field(f"n{kind}", kind, bytes(dtype.itemsize)) for kind, dtype in reader.NUMBERS.items()
    ]
    fields += [
        field("flag", BOOL, b"\1"),
        field("text", STRING, string("text")),
        field("numbers", ARRAY, struct.pack("<IQ3I", UINT32, 3, 1, 2, 3)),
        field("texts", ARRAY, struct.pack("<IQ", STRING, 2) + string("a") + string("bc")),
    ]
    return file(fields, TWO, struct.pack("<16f", *range(16)))


def test_a_file_cut_off_anywhere_gets_one_line(tmp_path: Path) -> None:
    whole = small()
    read(tmp_path, whole)
    for end in range(len(whole)):
        refusal(tmp_path, whole[:end])


@pytest.mark.parametrize("value", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_any_byte_changed_is_read_or_gets_one_line(tmp_path: Path, value: int) -> None:
    whole = small()
    for at in range(len(whole)):
        changed = bytearray(whole)
        changed[at] = value
        path = tmp_path / "m.gguf"
        path.write_bytes(changed)
        try:
            tensors = reader.read_gguf(path).tensors.values()
        except CheckpointError:  # is one line by construction
            continue
        assert all(t.offset + t.size <= len(whole) for t in tensors)


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_model_is_converted_or_gets_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    more: dict[str, Any] = {"tokenizer.ggml.eos_token_id": 2, "split.count": 1}
    path = write_gguf(GOLDEN / "qwen3_5", tmp_path / "m.gguf", Type.Q8_0, more)
    whole = path.read_bytes()
    end = whole.index(b"output_norm.weight") + 64
    random = np.random.default_rng(seed)
    for _ in range(12):
        changed = bytearray(whole)
        for at in random.integers(0, end, random.integers(1, 4)):
            changed[at] = random.integers(256)
        path.write_bytes(changed)
        capsys.readouterr()
        status = convert.main(["gguf", str(path), str(tmp_path / "m.mlb")])
        lines = capsys.readouterr().err.splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert (status, len(errors)) in {(0, 0), (1, 1)}
        assert all(re.match("error: |note: |warning: ", line) for line in lines)
        (tmp_path / "m.mlb").unlink(missing_ok=True)
        assert not list(tmp_path.glob("*m.mlb*"))


def test_what_is_not_a_file_gets_one_line(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.gguf", Path("/dev/zero")):
        with pytest.raises(CheckpointError, match=re.escape(str(path))):
            reader.read_gguf(path)
