# SPDX-License-Identifier: MIT
"""The checkpoint readers: equality with the safetensors package, and refusals by name.

.venv/bin/python -m pytest tests/py/test_checkpoint.py
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlb.checkpoint import (
    INDEX,
    CheckpointError,
    open_llama2c,
    open_safetensors,
    read_header,
)

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"


def tensor(dtype: str, shape: list[int], begin: int, end: int) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def write(path: Path, header: object, data: bytes = b"") -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def simple(path: Path, *names: str) -> Path:
    header = {name: tensor("F32", [2], 8 * i, 8 * i + 8) for i, name in enumerate(names)}
    return write(path, header, np.arange(2 * len(names), dtype="<f4").tobytes())


def index(directory: Path, weight_map: object) -> None:
    (directory / INDEX).write_text(json.dumps({"weight_map": weight_map}))


@pytest.mark.parametrize("name", ["llama", "llama_gqa", "gemma3"])
def test_every_tensor_equals_what_the_safetensors_package_reads(name: str) -> None:
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    want = library.load_file(GOLDEN / name / "model.safetensors")
    ours = open_safetensors(GOLDEN / name)
    assert set(want) == set(ours.shapes)
    for key, value in want.items():
        assert np.array_equal(value.to(torch.float32).numpy(), ours.read(key))


def test_a_range_of_rows_is_that_part_of_the_tensor() -> None:
    ours = open_safetensors(GOLDEN / "gemma3")
    name = "model.embed_tokens.weight"
    assert np.array_equal(ours.read(name)[7:19], ours.read(name, 7, 19))


def test_shards_are_joined_and_strangers_named(tmp_path: Path) -> None:
    simple(tmp_path / "a.safetensors", "x")
    simple(tmp_path / "b.safetensors", "y", "z")
    simple(tmp_path / "consolidated.safetensors", "x")
    index(tmp_path, {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors"})
    ours = open_safetensors(tmp_path)
    assert set(ours.shapes) == {"x", "y", "z"}
    assert ours.read("z").tolist() == [2, 3]
    assert ours.ignored == ("consolidated.safetensors",)


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"x": "a.safetensors", "y": "c.safetensors"}, "1 of 2 files are missing, first c"),
        ({"x": "a.safetensors", "y": "a.safetensors"}, "'y' is not in it"),
        ({"y": "a.safetensors"}, "tensor 'x': model.safetensors.index.json does not list it"),
        ({"x": "../a.safetensors"}, "is not a file of this directory"),
        ({"x": "/a.safetensors"}, "is not a file of this directory"),
        ({"x": 3}, "is not a file of this directory"),
        ([], "expected an object weight_map"),
        ({}, "expected an object weight_map"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path: Path, weight_map: object, message: str) -> None:
    simple(tmp_path / "a.safetensors", "x")
    index(tmp_path, weight_map)
    with pytest.raises(CheckpointError, match=message):
        open_safetensors(tmp_path)


def test_a_tensor_in_another_shard_than_the_index_says_is_refused(tmp_path: Path) -> None:
    simple(tmp_path / "a.safetensors", "x")
    simple(tmp_path / "b.safetensors", "y")
    index(tmp_path, {"x": "b.safetensors", "y": "a.safetensors"})
    with pytest.raises(CheckpointError, match=r"tensor 'x': .* puts it in b.safetensors"):
        open_safetensors(tmp_path)


def test_several_files_need_an_index(tmp_path: Path) -> None:
    simple(tmp_path / "a.safetensors", "x")
    simple(tmp_path / "b.safetensors", "y")
    with pytest.raises(CheckpointError, match="2 safetensors files but no"):
        open_safetensors(tmp_path)


def test_a_directory_without_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"no \*.safetensors file"):
        open_safetensors(tmp_path)
    with pytest.raises(CheckpointError, match="not a directory"):
        open_safetensors(tmp_path / "absent")


TWO = {"x": tensor("F32", [2], 0, 8), "y": tensor("F32", [2], 8, 16)}


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"[]", "does not start with"),
        (b'{"x": ', "not valid JSON"),
        (b'{"x": NaN}', "NaN is not a JSON number"),
        (b'{"x": 1, "x": 2}', "'x' appears twice"),
        (b'{"x":' * 5000 + b"1" + b"}" * 5000, "not valid JSON"),
        (b'{"\xff": 1}', "not valid JSON"),
        ({"__metadata__": {"a": {}}}, "__metadata__"),
        ({**TWO, "y": {**TWO["y"], "extra": 1}}, "expected exactly dtype"),
        ({**TWO, "y": 3}, "expected exactly dtype"),
        ({**TWO, "y": tensor("F8_E4M3", [8], 8, 16)}, "type 'F8_E4M3' is not supported"),
        ({**TWO, "y": tensor("I64", [1], 8, 16)}, "type 'I64' is not supported"),
        ({**TWO, "y": tensor("F32", [-2], 8, 16)}, "is not a list of sizes"),
        ({**TWO, "y": {**TWO["y"], "shape": [2.0]}}, "is not a list of sizes"),
        ({**TWO, "y": {**TWO["y"], "shape": [True, 2]}}, "is not a list of sizes"),
        ({**TWO, "y": tensor("F32", [2**63], 8, 16)}, "is not a list of sizes"),
        ({**TWO, "y": tensor("F32", [2**62, 4], 8, 16)}, "needs .* bytes"),
        ({**TWO, "y": tensor("F32", [3], 8, 16)}, "needs 12 bytes, data_offsets give 8"),
        ({**TWO, "y": tensor("F32", [2], 16, 8)}, "data_offsets give -8"),
        ({**TWO, "y": tensor("F32", [2], 12, 20)}, "ends at byte .* of a file"),
        ({**TWO, "y": tensor("F32", [2], 4, 12)}, "'y' overlaps the one before"),
        ({"y": tensor("F32", [2], 8, 16)}, "'y' leaves a hole"),
        ({"x": TWO["x"]}, "8 bytes after the last tensor"),
        ({**TWO, "y": {**TWO["y"], "data_offsets": [8]}}, "is not a pair of positions"),
        ({**TWO, "y": {**TWO["y"], "data_offsets": [8.0, 16]}}, "is not a pair of positions"),
    ],
)
def test_a_damaged_header_is_refused(tmp_path: Path, header: object, message: str) -> None:
    path = write(tmp_path / "model.safetensors", header, bytes(16))
    with pytest.raises(CheckpointError, match=message) as caught:
        read_header(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a safetensors file"),
        (b"x", "not a safetensors file"),
        (struct.pack("<Q", (16 << 20) + 1) + b"{}", "expected a header of 2 to 16777216 bytes"),
        (struct.pack("<Q", 1 << 63) + b"{}", "expected a header of"),
        (struct.pack("<Q", 1000) + b"{}", "truncated"),
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"\n <html>", "a web page"),
        (b"GGUF\3\0\0\0", "a GGUF file"),
        (b"PK\3\4" + bytes(8), "PyTorch"),
        (b"\x80\x02" + bytes(8), "PyTorch"),
        (b"\x1f\x8b" + bytes(8), "gzip"),
    ],
)
def test_another_kind_of_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        read_header(path)


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = simple(tmp_path / "whole.safetensors", "x", "y").read_bytes()
    cut = tmp_path / "cut.safetensors"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_header(cut)


# ---- llama2.c ----------------------------------------------------------------------------------


def llama2c(vocab: int = 64, seq: int = 16) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
    dim, hidden, layers, heads, kv = 32, 64, 2, 4, 2
    head = dim // heads
    rng = np.random.default_rng(3)
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("embed", (abs(vocab), dim)),
        ("attn_norm", (layers, dim)),
        ("wq", (layers, dim, dim)),
        ("wk", (layers, kv * head, dim)),
        ("wv", (layers, kv * head, dim)),
        ("wo", (layers, dim, dim)),
        ("ffn_norm", (layers, dim)),
        ("gate", (layers, hidden, dim)),
        ("down", (layers, dim, hidden)),
        ("up", (layers, hidden, dim)),
        ("out_norm", (dim,)),
        ("freq", (2, seq, head // 2)),
    ]
    if vocab < 0:
        shapes.append(("classifier", (abs(vocab), dim)))
    values = {name: rng.standard_normal(shape).astype("<f4") for name, shape in shapes}
    header = struct.pack("<7i", dim, hidden, layers, heads, kv, vocab, seq)
    return header + b"".join(value.tobytes() for value in values.values()), values


@pytest.mark.parametrize("vocab", [64, -64])
def test_llama2c_tensors_are_found_where_its_writer_puts_them(tmp_path: Path, vocab: int) -> None:
    content, values = llama2c(vocab)
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    ours = open_llama2c(path)
    assert ours.sizes.tied == (vocab > 0)
    for name, value in values.items():
        if name in ("embed", "out_norm", "classifier"):
            assert np.array_equal(ours.read(name), value)
        elif name != "freq":
            assert np.array_equal(ours.read(f"layers.1.{name}"), value[1])


@pytest.mark.parametrize("change", [-1, 1, 4])
def test_a_llama2c_file_of_the_wrong_length_is_refused(tmp_path: Path, change: int) -> None:
    content, _ = llama2c()
    path = tmp_path / "model.bin"
    path.write_bytes(content[:change] if change < 0 else content + bytes(change))
    with pytest.raises(CheckpointError, match="promises"):
        open_llama2c(path)


@pytest.mark.parametrize(
    ("field", "value"),
    [(i, v) for i in range(7) for v in (0, -(2**31), 2**31 - 1) if (i, v) != (5, 64)],
)
def test_a_hostile_llama2c_header_is_refused(tmp_path: Path, field: int, value: int) -> None:
    content, _ = llama2c()
    header = list(struct.unpack("<7i", content[:28]))
    header[field] = value
    path = tmp_path / "model.bin"
    path.write_bytes(struct.pack("<7i", *header) + content[28:])
    with pytest.raises(CheckpointError):
        open_llama2c(path)


def test_a_newer_llama2c_export_is_named(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(struct.pack("<I", 0x616B3432) + bytes(252))
    with pytest.raises(CheckpointError, match="--version 0"):
        open_llama2c(path)
