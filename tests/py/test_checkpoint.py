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
    read_json,
    read_text,
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


def index(directory: Path, weight_map: object, **more: object) -> None:
    (directory / INDEX).write_text(json.dumps({"weight_map": weight_map, **more}))


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


def test_shards_that_the_safetensors_library_wrote_are_read_alike(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    library = pytest.importorskip("safetensors.torch")
    rng = np.random.default_rng(5)
    shapes = {"a": (3, 5), "b.weight": (64,), "c": (1, 2, 3), "d": (), "e": (0, 4)}
    kinds = (torch.float32, torch.float16, torch.bfloat16)
    tensors = {
        name: torch.tensor(rng.standard_normal(shape)).to(kinds[i % 3])
        for i, (name, shape) in enumerate(shapes.items())
    }
    where = {name: f"s{i % 2}.safetensors" for i, name in enumerate(tensors)}
    for shard in sorted(set(where.values())):
        part = {name: tensor for name, tensor in tensors.items() if where[name] == shard}
        library.save_file(part, tmp_path / shard, metadata={"format": "pt"})
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    index(tmp_path, where, metadata={"total_size": size})
    ours = open_safetensors(tmp_path)
    assert ours.warnings == ours.ignored == ()
    assert set(ours.shapes) == set(tensors)
    for name, tensor in tensors.items():
        assert np.array_equal(tensor.float().numpy(), ours.read(name))


def test_shards_are_joined_and_strangers_named(tmp_path: Path) -> None:
    simple(tmp_path / "a.safetensors", "x")
    simple(tmp_path / "b.safetensors", "y", "z")
    simple(tmp_path / "consolidated.safetensors", "x")
    for name in ("pytorch_model.bin", "consolidated.00.pth", "README.md", "tokenizer.json"):
        (tmp_path / name).touch()
    for name in ("original", "figures"):
        (tmp_path / name).mkdir()
    index(tmp_path, {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors"})
    ours = open_safetensors(tmp_path)
    assert set(ours.shapes) == {"x", "y", "z"}
    assert ours.read("z").tolist() == [2, 3]
    assert ours.ignored == (
        "consolidated.00.pth",
        "consolidated.safetensors",
        "original/",
        "pytorch_model.bin",
    )


def test_missing_shards_are_listed_with_what_else_could_be_wrong(tmp_path: Path) -> None:
    simple(tmp_path / "model-00001-of-00002.safetensors", "x")
    names = [f"model-{i:05}-of-00011.safetensors" for i in range(1, 12)]
    index(tmp_path, dict(zip("abcdefghijk", names, strict=True)))
    with pytest.raises(CheckpointError) as caught:
        open_safetensors(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: 11 of the 11 files of {INDEX} are missing: {', '.join(names[:8])} and 3 "
        f"more: download them, or delete {INDEX} if it is of another model "
        "(model-00001-of-00002.safetensors is there)"
    )


@pytest.mark.parametrize("size", [8, "16", 16.5, True])
def test_another_size_than_the_index_gives_is_a_warning(tmp_path: Path, size: object) -> None:
    simple(tmp_path / "a.safetensors", "x", "y")
    index(tmp_path, dict.fromkeys("xy", "a.safetensors"), metadata={"total_size": size})
    (warning,) = open_safetensors(tmp_path).warnings
    assert warning.endswith(
        f"total_size is {size}, but the tensors have 16 bytes: is it of another model?"
    )


@pytest.mark.parametrize("metadata", [None, {}, [], {"total_size": 8}, {"total_size": 8.0}])
def test_the_right_size_or_none_is_no_warning(tmp_path: Path, metadata: object) -> None:
    simple(tmp_path / "a.safetensors", "x")
    index(tmp_path, {"x": "a.safetensors"}, metadata=metadata)
    assert open_safetensors(tmp_path).warnings == ()


def test_computed_tables_of_old_checkpoints_are_ignored_by_name(tmp_path: Path) -> None:
    header = {
        "w": tensor("F32", [2], 0, 8),
        "model.layers.0.self_attn.rotary_emb.inv_freq": tensor("F32", [2], 8, 16),
        "model.embeddings.position_ids": tensor("I64", [1, 2], 16, 32),
        "rotary_emb.inv_freq": tensor("F64", [1], 32, 40),
    }
    write(tmp_path / "model.safetensors", header, bytes(40))
    ours = open_safetensors(tmp_path)
    assert list(ours.shapes) == ["w"]
    assert set(ours.ignored) == set(header) - {"w"}
    header["w"]["dtype"] = "I64"
    write(tmp_path / "model.safetensors", header, bytes(40))
    with pytest.raises(CheckpointError, match="tensor 'w': type 'I64' is not supported"):
        open_safetensors(tmp_path)


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    simple(tmp_path / "a.safetensors", "x", "y")
    simple(tmp_path / "b.safetensors", "y", "z")
    index(tmp_path, {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"})
    with pytest.raises(CheckpointError, match=r"b\.safetensors: tensor 'y': .* in a\.safetensors"):
        open_safetensors(tmp_path)


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        (
            {"x": "a.safetensors", "y": "c.safetensors"},
            "1 of the 2 files of .* are missing: c.safetensors: download them$",
        ),
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
    with pytest.raises(
        CheckpointError, match=r"2 safetensors files \(a.safetensors, b.safetensors\) but no"
    ):
        open_safetensors(tmp_path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("README.md", r"no \*.safetensors file: download the checkpoint's weights"),
        ("a.gguf", r"only a.gguf: convert the GGUF file with 'tools/convert.py gguf'"),
        ("pytorch_model.bin", "only pytorch_model.bin: save it as safetensors"),
    ],
)
def test_a_directory_without_weights_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(CheckpointError, match=message):
        open_safetensors(tmp_path)


def test_a_file_in_the_place_of_a_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="not a directory"):
        open_safetensors(tmp_path / "absent")
    (tmp_path / "m.gguf").write_bytes(b"GGUF\3\0\0\0")
    with pytest.raises(CheckpointError, match=r"m.gguf: is a GGUF file: convert it with 'tools/c"):
        open_safetensors(tmp_path / "m.gguf")
    simple(tmp_path / "model.safetensors", "x")
    with pytest.raises(CheckpointError, match="not a directory: pass the one that holds config"):
        open_safetensors(tmp_path / "model.safetensors")


def test_a_directory_or_a_large_other_file_in_the_place_of_a_text_is_named(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is a directory: name the file in it"):
        read_text(tmp_path)
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF\3\0\0\0" + bytes(100))
    with pytest.raises(CheckpointError, match="is a GGUF file: convert it with"):
        read_text(path, cap=64)
    path.write_bytes(b"what it is, nobody knows" + bytes(100))
    with pytest.raises(CheckpointError, match="larger than 64 bytes: this is another file"):
        read_text(path, cap=64)


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
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 4976698672\n",
            "Git LFS pointer of 73 bytes for a file of 4976698672, not the file itself",
        ),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"\n <html>", "a web page"),
        (b"GGUF\3\0\0\0", "a GGUF file"),
        (b"PK\3\4" + bytes(8), "PyTorch"),
        (b"\x80\x02" + bytes(8), "PyTorch"),
        (b"\x80\x05" + bytes(8), "PyTorch"),
        (b"\x1f\x8b" + bytes(8), "gzip"),
        (b"\x28\xb5\x2f\xfd" + bytes(8), "zstd"),
        (b"BZh9" + bytes(8), "bzip2"),
        (b"weights/" + bytes(249) + b"ustar\0" + bytes(300), "a tar archive"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x89MLB\r\n\x1a\n", "converted already"),
        (bytes(4096), "zero bytes, an unfinished download"),
        (b"Entry not found", "a text that begins with 'Entry not found', perhaps an error"),
        (b'{"error":"Access to this model is restricted"}', "a text that begins with"),
    ],
)
def test_another_kind_of_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        read_header(path)


@pytest.mark.parametrize("length", [0x280, 0x480, 0x8B1F])
def test_a_length_that_looks_like_another_kind_is_a_length(tmp_path: Path, length: int) -> None:
    """The first bytes of these files are those of a pickle, and of gzip."""
    text = json.dumps({"x": tensor("F32", [2], 0, 8)}).encode().ljust(length)
    path = write(tmp_path / "model.safetensors", text, bytes(8))
    assert list(read_header(path)) == ["x"]


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = simple(tmp_path / "whole.safetensors", "x", "y").read_bytes()
    cut = tmp_path / "cut.safetensors"
    for length in range(len(whole)):
        cut.write_bytes(whole[:length])
        with pytest.raises(CheckpointError):
            read_header(cut)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\nsize 12\n", "Git LFS pointer"),
        (b"<!doctype html>", "a web page"),
        (b"", "not valid JSON"),
        (b"[]", "expected a JSON object, found list"),
    ],
)
def test_a_configuration_that_is_something_else_is_named(
    tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=message):
        read_json(path)


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
