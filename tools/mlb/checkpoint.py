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
import re
import stat
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlb.envelope import one_line
from mlb.foreign import ENDINGS, HEAD_BYTES, foreign

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlb.quant import Blocks

F32 = npt.NDArray[np.float32]

HEADER_CAP = 16 << 20  # of the library 100 MB, which as nested lists would take 2.5 GB
CONFIG_CAP = 16 << 20
INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
NAMED = 8  # of many files or tensors, in one message
LLAMA2C_HEADER = struct.Struct("<7i")
LLAMA2C_NEWER = struct.pack("<I", 0x616B3432)  # begins the exports of version 1 and later
ITEM_BYTES = {"F32": 4, "F16": 2, "BF16": 2}
# Old checkpoints hold what is computed from the configuration: tables of angles, and 0, 1, 2, ...
BUFFER = re.compile(r"(.*\.)?(rotary_emb\.(inv_freq|cos_cached|sin_cached)|position_ids)")
BUFFER_BYTES = {**ITEM_BYTES, "F64": 8, "I64": 8, "I32": 4}


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
    if stat.S_ISDIR(info.st_mode):
        raise CheckpointError(f"{path}: is a directory: name the file in it")
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
        refuse_foreign(path, text[:HEAD_BYTES], path.stat().st_size)
        raise CheckpointError(f"{path}: larger than {cap} bytes: this is another file")
    return text


def read_json(path: Path, cap: int = CONFIG_CAP) -> dict[str, Any]:
    """Read a JSON file of at most `cap` bytes (config.json and the like) strictly."""
    return json_of_file(read_text(path, cap), path)


def json_of_file(text: bytes, path: Path) -> dict[str, Any]:
    """Return the object in a file's text; what is no object is named if its beginning tells."""
    if not text.lstrip().startswith(b"{"):
        refuse_foreign(path, text[:HEAD_BYTES], len(text))
    return strict_json(text, path)


def refuse_foreign(path: Path, head: bytes, size: int) -> None:
    """Refuse a file by what it is instead, if its beginning tells."""
    what = foreign(head, size)
    if what:
        raise CheckpointError(f"{path}: is {what}")


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 1 << 63


def read_header(path: Path) -> dict[str, Entry]:
    """Validate the frame of one safetensors file and return its tensors."""
    try:
        size = file_size(path)
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
            file.seek(8)
            length = struct.unpack("<Q", head[:8])[0] if len(head) >= 8 else 0
            if length > HEADER_CAP or head[8:9] != b"{":
                refuse_foreign(path, head, size)
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
        known = BUFFER_BYTES if BUFFER.fullmatch(name) else ITEM_BYTES
        dtype, shape, begin, end = _checked_item(f"{path}: tensor {name!r}", item, known)
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


def _checked_item(
    where: str, item: object, known: Mapping[str, int]
) -> tuple[str, tuple[int, ...], int, int]:
    """Return type, shape, begin and end of one tensor of a header."""
    if not isinstance(item, dict) or set(item) != {"dtype", "shape", "data_offsets"}:
        raise CheckpointError(f"{where}: expected exactly dtype, shape and data_offsets")
    dtype, shape, offsets = item["dtype"], item["shape"], item["data_offsets"]
    if not isinstance(dtype, str) or dtype not in known:
        raise CheckpointError(
            f"{where}: type {dtype!r} is not supported: save the checkpoint as F32, F16 or BF16"
        )
    if not isinstance(shape, list) or len(shape) > 8 or not all(_is_count(n) for n in shape):
        raise CheckpointError(f"{where}: shape {shape!r} is not a list of sizes")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_is_count, offsets)):
        raise CheckpointError(f"{where}: data_offsets {offsets!r} is not a pair of positions")
    begin, end = offsets
    want = math.prod(shape) * known[dtype]
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

    ignored: tuple[str, ...]  # files and tensors that are there and not part of the model
    warnings: tuple[str, ...] = ()


def some(names: Sequence[str]) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def check_directory(path: Path) -> None:
    """Refuse what is no directory; of a file, say what it is."""
    if path.is_file():
        try:
            with path.open("rb") as file:
                refuse_foreign(path, file.read(HEAD_BYTES), file_size(path))
        except OSError as error:
            raise CheckpointError(f"{path}: {error.strerror}") from None
    if not path.is_dir():
        raise CheckpointError(f"{path}: not a directory: pass the one that holds config.json")


def open_safetensors(directory: Path) -> Safetensors:
    """Open the checkpoint in `directory`, headers only."""
    check_directory(directory)
    there = sorted(p.name + "/" * p.is_dir() for p in directory.iterdir())
    if INDEX in there:
        entries, warnings = _open_sharded(directory, there)
        used = {entry.path.name for entry in entries.values()}
    else:
        single = _single_file(directory, there)
        entries, warnings, used = read_header(directory / single), [], {single}
    stray = [n for n in there if n not in used and (n.endswith(ENDINGS) or n == "original/")]
    buffers = {name: entry for name, entry in entries.items() if BUFFER.fullmatch(name)}
    return Safetensors(
        {name: entry for name, entry in entries.items() if name not in buffers},
        ignored=(*stray, *buffers),
        warnings=tuple(warnings),
    )


def _single_file(directory: Path, there: Sequence[str]) -> str:
    """The name of the one safetensors file of a checkpoint without an index."""
    files = [name for name in there if name.endswith(".safetensors")]
    if SINGLE in files:
        return SINGLE
    if len(files) == 1:
        return files[0]
    if files:
        raise CheckpointError(
            f"{directory}: {len(files)} safetensors files ({some(files)}) but no {INDEX}: "
            "download it too"
        )
    others = [name for name in there if name.endswith(ENDINGS)]
    if any(name.endswith(".gguf") for name in others):
        remedy = "convert the GGUF file with 'tools/convert.py gguf'"
    elif others:
        remedy = "save it as safetensors"
    else:
        remedy = "download the checkpoint's weights"
    found = f", only {some(others)}" if others else ""
    raise CheckpointError(f"{directory}: no *.safetensors file{found}: {remedy}")


def _open_sharded(directory: Path, there: Sequence[str]) -> tuple[dict[str, Entry], list[str]]:
    """The tensors of all shards, which must be exactly those of the index, and warnings."""
    index = directory / INDEX
    values = read_json(index)
    where = values.get("weight_map")
    if not isinstance(where, dict) or not where:
        raise CheckpointError(f"{index}: expected an object weight_map from tensors to files")
    for name, shard in where.items():
        if not isinstance(shard, str) or Path(shard).name != shard or "\\" in shard or not shard:
            raise CheckpointError(
                f"{index}: tensor {name!r}: {shard!r} is not a file of this directory"
            )
    shards = sorted(set(where.values()))
    missing = [shard for shard in shards if shard not in there]
    if missing:
        others = [n for n in there if n.endswith(".safetensors") and n not in shards]
        theirs = f", or delete {INDEX} if it is of another model ({some(others)} is there)"
        raise CheckpointError(
            f"{directory}: {len(missing)} of the {len(shards)} files of {INDEX} are missing: "
            f"{some(missing)}: download them{theirs if others else ''}"
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
    return entries, _size_warnings(index, values.get("metadata"), entries)


def _size_warnings(index: Path, metadata: object, entries: Mapping[str, Entry]) -> list[str]:
    """What to say of the size that an index gives; tensors that share memory may count once."""
    told = metadata.get("total_size") if isinstance(metadata, dict) else None
    size = sum(math.prod(e.shape) * BUFFER_BYTES[e.dtype] for e in entries.values())
    if told is None or told == size:
        return []
    return [
        f"{index}: total_size is {told}, but the tensors have {size} bytes: is it of another model?"
    ]


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
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    try:
        sizes = _llama2c_sizes(path, head)
    except CheckpointError:
        refuse_foreign(path, head, size)
        raise
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
