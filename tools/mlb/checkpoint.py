# SPDX-License-Identifier: MIT
"""Read safetensors and llama2.c checkpoints, one tensor or range of rows at a time, as float32.

Both are hostile until checked: every offset is compared with the file before anything is read, and
what is not understood is refused by name.  Nothing is memory-mapped, so that a reader's memory is
the rows it asked for.

    PYTHONPATH=tools python3 -m mlb.checkpoint models/smollm2-135m-instruct
"""

from __future__ import annotations

import dataclasses
import json
import math
import stat
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlb.envelope import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlb.quant import Blocks

F32 = npt.NDArray[np.float32]

HEADER_CAP = 16 << 20  # of the library 100 MB, which as nested lists would take 2.5 GB
CONFIG_CAP = 16 << 20
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
LLAMA2C_HEADER = struct.Struct("<7i")
LLAMA2C_NEWER = struct.pack("<I", 0x616B3432)  # begins the exports of version 1 and later
ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}


class CheckpointError(Exception):
    """One line: which file, what was expected, what was found, what to do."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


@dataclasses.dataclass(frozen=True)
class Entry:
    """Where one tensor lies: `offset` counts from the start of the file."""

    path: Path
    dtype: str
    shape: tuple[int, ...]
    offset: int

    def read(self, row0: int, row1: int | None) -> F32:
        """Rows [row0, row1) as float32."""
        rows = self.shape[0] if self.shape else 1
        last = rows if row1 is None else row1
        if not 0 <= row0 <= last <= rows:
            raise ValueError(f"rows {row0}..{last} of a tensor with {rows}")
        width = math.prod(self.shape[1:])
        item = ITEM_BYTES[self.dtype]
        size = (last - row0) * width * item
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset + row0 * width * item)
                raw = file.read(size)
        except OSError as error:
            raise CheckpointError(f"{self.path}: {error.strerror}") from None
        if len(raw) != size:
            raise CheckpointError(f"{self.path}: became shorter while it was read")
        return _to_f32(raw, self.dtype).reshape(
            (last - row0, *self.shape[1:]) if self.shape else ()
        )


def _to_f32(raw: bytes, dtype: str) -> F32:
    if dtype == "F32":
        return np.frombuffer(raw, dtype="<f4").astype(np.float32, copy=False)
    if dtype == "F16":
        return np.frombuffer(raw, dtype="<f2").astype(np.float32)
    bits = np.frombuffer(raw, dtype="<u2").astype(np.uint32)  # BF16: the upper half of a float32
    bits <<= np.uint32(16)
    return bits.view(np.float32)


def strict_json(text: bytes, where: Path) -> dict[str, Any]:
    """Parse one JSON object; duplicate keys, NaN and Infinity are errors."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for key, value in items:
            if key in out:
                raise CheckpointError(
                    f"{where}: the key {key!r} appears twice: the file is damaged"
                )
            out[key] = value
        return out

    def constant(name: str) -> Any:
        raise CheckpointError(f"{where}: {name} is not a JSON number: the file is damaged")

    try:
        value = json.loads(text.decode("utf-8"), object_pairs_hook=pairs, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where}: not valid JSON ({error}): download it again") from None
    if not isinstance(value, dict):
        raise CheckpointError(f"{where}: expected a JSON object, found {type(value).__name__}")
    return value


def file_size(path: Path) -> int:
    """Return the size of a regular file; a pipe would be waited for, a device has no end."""
    info = path.stat()
    if not stat.S_ISREG(info.st_mode):
        raise CheckpointError(f"{path}: is not a regular file: copy the file itself there")
    return info.st_size


def read_text(path: Path, cap: int = CONFIG_CAP) -> bytes:
    """Read a file of at most `cap` bytes."""
    try:
        file_size(path)
        with path.open("rb") as file:
            text = file.read(cap + 1)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    if len(text) > cap:
        raise CheckpointError(f"{path}: larger than {cap} bytes: this is another file")
    return text


def read_json(path: Path, cap: int = CONFIG_CAP) -> dict[str, Any]:
    """Read a JSON file of at most `cap` bytes (config.json and the like) strictly."""
    return strict_json(read_text(path, cap), path)


def _foreign(head: bytes) -> str | None:
    """What a file that is not safetensors looks like, and the remedy."""
    text = head.lstrip().lower()
    if head.startswith(b"version https://git-lfs"):
        return "a Git LFS pointer, not the file itself: run 'git lfs pull'"
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "a web page, not a download: fetch the file itself"
    if head.startswith(b"GGUF"):
        return "a GGUF file: convert the original safetensors checkpoint instead"
    if head.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x04")):
        return "a PyTorch (pickle) file, which is never loaded: save it as safetensors"
    if head.startswith(b"\x1f\x8b"):
        return "compressed with gzip: unpack it first"
    if head.startswith(b"\x89MLB"):
        return "an .mlb file, which is converted already"
    return None


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def read_header(path: Path) -> dict[str, Entry]:
    """Validate the frame of one safetensors file and return its tensors."""
    try:
        size = file_size(path)
        with path.open("rb") as file:
            head = file.read(512)
            file.seek(8)
            length = struct.unpack("<Q", head[:8])[0] if len(head) >= 8 else 0
            foreign = _foreign(head)
            if foreign:
                raise CheckpointError(f"{path}: is {foreign}")
            if length < 2 or length > HEADER_CAP:
                raise CheckpointError(
                    f"{path}: not a safetensors file: expected a header of 2 to {HEADER_CAP} "
                    f"bytes, found {length} in a file of {size}"
                )
            if 8 + length > size:
                raise CheckpointError(
                    f"{path}: truncated: the header alone has {length} bytes, the file {size}: "
                    "download it again"
                )
            text = file.read(length)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    if not text.startswith(b"{"):
        raise CheckpointError(
            f"{path}: not a safetensors file: its header does not start with '{{'"
        )
    header = strict_json(text, path)
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError(f"{path}: __metadata__ must map strings to strings")
    return _entries(path, header, 8 + length, size)


def _entries(path: Path, header: dict[str, Any], start: int, size: int) -> dict[str, Entry]:
    """Check every tensor, and that together they fill the file without holes and overlaps."""
    spans: list[tuple[int, int, str]] = []
    entries: dict[str, Entry] = {}
    for name, item in header.items():
        dtype, shape, begin, end = _checked_item(f"{path}: tensor {name!r}", item)
        if start + end > size:
            raise CheckpointError(
                f"{path}: tensor {name!r}: ends at byte {start + end} of a file of {size}: "
                "download it again"
            )
        spans.append((begin, end, name))
        entries[name] = Entry(path, dtype, shape, start + begin)
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            kind = "overlaps the one before" if begin < at else "leaves a hole"
            raise CheckpointError(f"{path}: tensor {name!r} {kind}: {begin}, expected {at}")
        at = end
    if start + at != size:
        raise CheckpointError(
            f"{path}: {size - start - at} bytes after the last tensor: the file is damaged"
        )
    return entries


def _checked_item(where: str, item: object) -> tuple[str, tuple[int, ...], int, int]:
    """Return type, shape, begin and end of one tensor of a header."""
    if not isinstance(item, dict) or set(item) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{where}: expected exactly dtype, shape and data_offsets")
    dtype, shape, offsets = item["dtype"], item["shape"], item["data_offsets"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise CheckpointError(
            f"{where}: type {dtype!r} is not supported: save the checkpoint as F32, F16 or BF16"
        )
    if not isinstance(shape, list) or len(shape) > 8 or not all(_is_count(n) for n in shape):
        raise CheckpointError(f"{where}: shape {shape!r} is not a list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise CheckpointError(f"{where}: data_offsets {offsets!r} is not a pair of positions")
    begin, end = offsets
    want = math.prod(shape) * ITEM_BYTES[dtype]
    if end - begin != want:
        raise CheckpointError(
            f"{where}: {dtype} {shape} needs {want} bytes, data_offsets give {end - begin}"
        )
    return dtype, tuple(shape), begin, end


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """What the converter needs of a checkpoint, whatever its kind."""

    entries: Mapping[str, Entry]

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every tensor, by name."""
        return {name: entry.shape for name, entry in self.entries.items()}

    def read(self, name: str, row0: int = 0, row1: int | None = None) -> F32:
        """Rows [row0, row1) of a tensor as float32."""
        return self.entries[name].read(row0, row1)

    def keeps(self, name: str, kind: str) -> bool:  # noqa: ARG002  (no safetensors file does)
        """Whether a matrix is stored in the blocks of `kind`, so that nothing is quantized."""
        return False

    def blocks(self, name: str, kind: str, row0: int, row1: int) -> Blocks:
        """Rows [row0, row1) of a matrix that is kept, as its blocks [rows, k/32]."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Safetensors(Checkpoint):
    """A directory with one safetensors file, or with shards and their index."""

    ignored: tuple[str, ...]  # safetensors files beside it that are not part of the model


def open_safetensors(directory: Path) -> Safetensors:
    """Open the checkpoint in `directory`, headers only."""
    if not directory.is_dir():
        raise CheckpointError(f"{directory}: not a directory: pass the one that holds config.json")
    files = sorted(p.name for p in directory.glob("*.safetensors"))
    index = directory / INDEX
    if index.exists():
        return _open_sharded(directory, index, files)
    if SINGLE in files:
        used = SINGLE
    elif len(files) == 1:
        used = files[0]
    elif files:
        raise CheckpointError(
            f"{directory}: {len(files)} safetensors files but no {INDEX}: download it too"
        )
    else:
        raise CheckpointError(
            f"{directory}: no *.safetensors file: download the checkpoint's weights"
        )
    return Safetensors(read_header(directory / used), tuple(f for f in files if f != used))


def _open_sharded(directory: Path, index: Path, files: Sequence[str]) -> Safetensors:
    where = read_json(index).get("weight_map")
    if not isinstance(where, dict) or not where:
        raise CheckpointError(f"{index}: expected an object weight_map from tensors to files")
    for name, shard in where.items():
        if not isinstance(shard, str) or Path(shard).name != shard or "\\" in shard or not shard:
            raise CheckpointError(
                f"{index}: tensor {name!r}: {shard!r} is not a file of this directory"
            )
    shards = sorted(set(where.values()))
    there = {path.name for path in directory.iterdir()}
    missing = [shard for shard in shards if shard not in there]
    if missing:
        raise CheckpointError(
            f"{directory}: {len(missing)} of {len(shards)} files are missing, first {missing[0]}: "
            "download them"
        )
    entries: dict[str, Entry] = {}
    for shard in shards:
        for name, entry in read_header(directory / shard).items():
            if where.get(name) != shard:
                told = f"puts it in {where[name]}" if name in where else "does not list it"
                raise CheckpointError(f"{directory / shard}: tensor {name!r}: {INDEX} {told}")
            entries[name] = entry
    absent = [name for name in where if name not in entries]
    if absent:
        raise CheckpointError(
            f"{directory / where[absent[0]]}: tensor {absent[0]!r} is not in it, though {INDEX} "
            f"says so ({len(absent)} such): download it again"
        )
    return Safetensors(entries, tuple(f for f in files if f not in shards))


@dataclasses.dataclass(frozen=True)
class Llama2cSizes:
    """The seven numbers a llama2.c file begins with."""

    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    vocab: int  # negative in the file if there is a classifier besides the embedding
    seq_len: int
    tied: bool

    def order(self) -> list[tuple[str, tuple[int, ...]]]:
        """Tensors in file order; the unnamed one (tables of cos and sin) is skipped."""
        dim, hidden, head = self.dim, self.hidden_dim, self.dim // self.n_heads
        kv = head * self.n_kv_heads

        def each(name: str, *shape: int) -> list[tuple[str, tuple[int, ...]]]:
            return [(f"layers.{i}.{name}", shape) for i in range(self.n_layers)]

        return [
            ("embed", (self.vocab, dim)),
            *each("attn_norm", dim),
            *each("wq", dim, dim),
            *each("wk", kv, dim),
            *each("wv", kv, dim),
            *each("wo", dim, dim),
            *each("ffn_norm", dim),
            *each("gate", hidden, dim),
            *each("down", dim, hidden),
            *each("up", hidden, dim),
            ("out_norm", (dim,)),
            ("", (2, self.seq_len, head // 2)),
            *([] if self.tied else [("classifier", (self.vocab, dim))]),
        ]


@dataclasses.dataclass(frozen=True)
class Llama2c(Checkpoint):
    """A llama2.c checkpoint (legacy export): F32 tensors in a fixed order, under our names."""

    sizes: Llama2cSizes


def open_llama2c(path: Path) -> Llama2c:
    """Open a llama2.c .bin file; its size must match its header to the byte."""
    try:
        size = file_size(path)
        with path.open("rb") as file:
            head = file.read(512)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    foreign = _foreign(head)
    if foreign:
        raise CheckpointError(f"{path}: is {foreign}")
    sizes = _llama2c_sizes(path, head)
    entries: dict[str, Entry] = {}
    at = LLAMA2C_HEADER.size
    for name, shape in sizes.order():
        if name:
            entries[name] = Entry(path, "F32", shape, at)
        at += 4 * math.prod(shape)
    if at != size:
        raise CheckpointError(
            f"{path}: its header promises {at} bytes, the file has {size}: download it again"
        )
    return Llama2c(entries, sizes)


def _llama2c_sizes(path: Path, head: bytes) -> Llama2cSizes:
    if head.startswith(LLAMA2C_NEWER):
        raise CheckpointError(f"{path}: a newer llama2.c export: export again with --version 0")
    if len(head) < LLAMA2C_HEADER.size:
        raise CheckpointError(f"{path}: {len(head)} bytes are too few for a llama2.c checkpoint")
    dim, hidden, layers, heads, kv_heads, vocab, seq_len = LLAMA2C_HEADER.unpack_from(head)
    sizes = Llama2cSizes(dim, hidden, layers, heads, kv_heads, abs(vocab), seq_len, tied=vocab > 0)
    for name, value in dataclasses.asdict(sizes).items():
        most = 1 << (24 if name in {"vocab", "seq_len"} else 16)
        if name != "tied" and not 1 <= value <= most:
            raise CheckpointError(
                f"{path}: not a llama2.c checkpoint: {name} is {value}, expected 1 to {most}"
            )
    if dim % heads or heads % kv_heads or dim // heads % 2:
        raise CheckpointError(
            f"{path}: dim {dim} does not divide into {heads} heads ({kv_heads} for K and V)"
        )
    return sizes


def main(argv: Sequence[str] | None = None) -> int:
    """List the tensors of a checkpoint."""
    args = sys.argv[1:] if argv is None else list(argv)
    if len(args) != 1:
        print("usage: python3 -m mlb.checkpoint DIRECTORY or FILE.bin", file=sys.stderr)
        return 2
    path = Path(args[0])
    try:
        checkpoint: Checkpoint = open_safetensors(path) if path.is_dir() else open_llama2c(path)
    except CheckpointError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, shape in checkpoint.shapes.items():
        print(name, list(shape))
    return 0


if __name__ == "__main__":
    sys.exit(main())
