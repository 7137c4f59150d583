# SPDX-License-Identifier: MIT
"""Read GGUF files (versions 2 and 3, little-endian): their fields, and their tensors' bytes.

Hostile until checked: no length is believed before it was compared with the bytes left, no count
makes more objects than MAX_ITEMS, and the tensors must follow each other exactly as every writer
puts them.  Nothing is mapped; a reader's memory is the fields and the rows it asked for.

    PYTHONPATH=tools python3 -m mlb.gguf model.gguf       # prints the fields and the tensors
"""

from __future__ import annotations

import dataclasses
import math
import re
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from mlb.checkpoint import CheckpointError, file_size
from mlb.envelope import one_line, shown
from mlb.gguf_quants import SUPPORTED, TYPES, GgufType

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

F32 = npt.NDArray[np.float32]
Value = Any  # bool, int, float, str, a list of these, or a numpy array of numbers

MAGIC = b"GGUF"
VERSIONS = (2, 3)
OLDER_MAGICS = {b"lmgg": "GGML", b"fmgg": "GGMF", b"tjgg": "GGJT", b"algg": "GGLA"}
MAX_FIELDS = 1 << 16
MAX_TENSORS = 1 << 16
MAX_ITEMS = 1 << 23  # strings and nested arrays in one file; Gemma 3 has less than 2^20
MAX_KEY = (1 << 16) - 1
MAX_NAME = 64  # of a tensor, as ggml allows
MAX_RANK = 4
MAX_ELEMENTS = 1 << 44
MAX_NESTING = 4
MAX_ALIGNMENT = 1 << 16
DEFAULT_ALIGNMENT = 32
KEY = re.compile(r"[\x21-\x7e]+")

NUMBERS: dict[int, np.dtype[Any]] = {
    0: np.dtype("u1"),
    1: np.dtype("i1"),
    2: np.dtype("<u2"),
    3: np.dtype("<i2"),
    4: np.dtype("<u4"),
    5: np.dtype("<i4"),
    6: np.dtype("<f4"),
    10: np.dtype("<u8"),
    11: np.dtype("<i8"),
    12: np.dtype("<f8"),
}
BOOL, STRING, ARRAY = 7, 8, 9
AGAIN = "download it again"


@dataclasses.dataclass(frozen=True)
class GgufTensor:
    """Where one tensor lies; shape has the rows first, as numpy counts."""

    name: str
    type: GgufType
    shape: tuple[int, ...]
    offset: int  # from the start of the file

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.type.row_bytes(math.prod(self.shape))


@dataclasses.dataclass(frozen=True)
class Gguf:
    """A checked file."""

    path: Path
    version: int
    fields: Mapping[str, Value]
    tensors: Mapping[str, GgufTensor]

    def read(self, tensor: GgufTensor, row0: int = 0, row1: int | None = None) -> bytes:
        """Rows [row0, row1) of a tensor as they are stored."""
        rows = tensor.shape[0] if len(tensor.shape) > 1 else 1  # a vector is one row
        last = rows if row1 is None else row1
        if not 0 <= row0 <= last <= rows:
            raise ValueError(f"rows {row0}..{last} of a tensor with {rows}")
        row_bytes = tensor.size // rows
        try:
            with self.path.open("rb") as file:
                file.seek(tensor.offset + row0 * row_bytes)
                raw = file.read((last - row0) * row_bytes)
        except OSError as error:
            raise CheckpointError(f"{self.path}: {error.strerror}") from None
        if len(raw) != (last - row0) * row_bytes:
            raise CheckpointError(f"{self.path}: became shorter while it was read")
        return raw

    def check_type(self, tensor: GgufTensor) -> None:
        """Refuse a type without a decoder by name."""
        if tensor.type.decode is None:
            raise CheckpointError(
                f"{self.path}: tensor {tensor.name!r} is of type {tensor.type.name}: supported "
                f"are {', '.join(SUPPORTED)}: take a file quantized to one of these"
            )

    def values(self, tensor: GgufTensor, row0: int = 0, row1: int | None = None) -> F32:
        """Rows [row0, row1) as float32."""
        self.check_type(tensor)
        with np.errstate(over="ignore", invalid="ignore"):  # infinities are found by the caller
            flat = tensor.type.values(self.read(tensor, row0, row1))
        return flat.reshape(-1, *tensor.shape[1:])  # [rows, ...]


class Cursor:
    """The file from its start on, read only as far as it goes."""

    def __init__(self, path: Path, file: BinaryIO, size: int) -> None:
        self.path = path
        self.at = 0
        self.size = size
        self.items = 0
        self._file = file

    def fail(self, what: str) -> CheckpointError:
        """The error for something that cannot be at this place."""
        return CheckpointError(f"{self.path}: byte {self.at}: {what}: {AGAIN}")

    def take(self, count: int, what: str) -> bytes:
        """The next `count` bytes."""
        left = self.size - self.at
        if count > left:
            raise self.fail(f"{what}: {count} bytes expected, {left} are left")
        raw = self._file.read(count)
        if len(raw) != count:
            raise CheckpointError(f"{self.path}: became shorter while it was read")
        self.at += count
        return raw

    def number(self, form: str, what: str) -> int:
        """The next integer."""
        value: int = struct.unpack("<" + form, self.take(struct.calcsize("<" + form), what))[0]
        return value

    def count(self, most: int, least_bytes: int, what: str) -> int:
        """A number of things of at least `least_bytes` bytes each that the rest can hold."""
        value = self.number("Q", what)
        most = min(most, (self.size - self.at) // least_bytes)
        if value > most:
            raise self.fail(f"{what} is {value}, at most {most} can be there")
        return value

    def string(self, what: str, most: int = 1 << 30) -> str:
        """A string with its length before it."""
        raw = self.take(self.count(most, 1, f"length of {what}"), what)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self.fail(f"{what} is not UTF-8") from None


# ---- fields --------------------------------------------------------------------------------------


def _scalar(cursor: Cursor, kind: int, what: str) -> Value:
    if kind == STRING:
        return cursor.string(what)
    if kind == BOOL:
        value = cursor.number("B", what)
        if value > 1:
            raise cursor.fail(f"{what}: the truth value is {value}")
        return bool(value)
    dtype = NUMBERS[kind]
    number = np.frombuffer(cursor.take(dtype.itemsize, what), dtype)[0]
    if dtype == np.dtype("<f4"):
        return float(str(number))  # the shortest decimal: 1e-05, not 9.99999974e-06
    return number.item()


def _array(cursor: Cursor, what: str, depth: int) -> Value:
    kind = cursor.number("I", f"{what}: type of elements")
    if kind in NUMBERS:
        dtype = NUMBERS[kind]
        count = cursor.count(cursor.size, dtype.itemsize, f"{what}: number of elements")
        return np.frombuffer(cursor.take(count * dtype.itemsize, what), dtype)
    if kind not in (BOOL, STRING, ARRAY):
        raise cursor.fail(f"{what}: elements of unknown type {kind}")
    if kind == ARRAY and depth == MAX_NESTING:
        raise cursor.fail(f"{what}: arrays are nested more than {MAX_NESTING} deep")
    least = {BOOL: 1, STRING: 8, ARRAY: 12}[kind]
    left = MAX_ITEMS - cursor.items
    count = cursor.count(left, least, f"{what}: number of elements")
    cursor.items += count
    if kind == ARRAY:
        return [_array(cursor, what, depth + 1) for _ in range(count)]
    return [_scalar(cursor, kind, what) for _ in range(count)]


def _fields(cursor: Cursor, count: int) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for i in range(count):
        key = cursor.string(f"key {i}", MAX_KEY)
        if not KEY.fullmatch(key):
            raise cursor.fail(f"key {i} is {shown(key)}, expected printable ASCII")
        if key in found:
            raise cursor.fail(f"the key {key} appears twice")
        kind = cursor.number("I", f"{key}: type")
        if kind == ARRAY:
            found[key] = _array(cursor, key, 1)
        elif kind in (BOOL, STRING) or kind in NUMBERS:
            found[key] = _scalar(cursor, kind, key)
        else:
            raise cursor.fail(f"{key}: a value of unknown type {kind}")
    return found


# ---- tensors -------------------------------------------------------------------------------------


def _tensor(cursor: Cursor, i: int) -> GgufTensor:
    """One entry of the table; its offset still counts from the start of the data."""
    name = cursor.string(f"name of tensor {i}", MAX_NAME)
    if not KEY.fullmatch(name):
        raise cursor.fail(f"tensor {i} is called {shown(name)}, expected printable ASCII")
    rank = cursor.number("I", f"{name}: number of dimensions")
    if not 1 <= rank <= MAX_RANK:
        raise cursor.fail(f"{name}: {rank} dimensions, expected 1 to {MAX_RANK}")
    shape = tuple(cursor.number("Q", f"{name}: dimension {axis}") for axis in range(rank))
    if not all(shape) or math.prod(shape) > MAX_ELEMENTS:
        raise cursor.fail(f"{name}: the shape {list(shape)} is empty or too large")
    type_id = cursor.number("I", f"{name}: type")
    if type_id not in TYPES:
        raise CheckpointError(
            f"{cursor.path}: tensor {name!r} is of type {type_id}, which is not known: supported "
            f"are {', '.join(SUPPORTED)}"
        )
    kind = TYPES[type_id]
    if shape[0] % kind.elements:
        raise cursor.fail(f"{name}: rows of {shape[0]}, {kind.name} has blocks of {kind.elements}")
    return GgufTensor(name, kind, shape[::-1], cursor.number("Q", f"{name}: offset"))


def _tensors(cursor: Cursor, count: int, alignment: int) -> dict[str, GgufTensor]:
    """The table, checked against the file: each tensor begins where the one before ends."""
    table: dict[str, GgufTensor] = {}
    for i in range(count):
        tensor = _tensor(cursor, i)
        if tensor.name in table:
            raise cursor.fail(f"the tensor {tensor.name} appears twice")
        table[tensor.name] = tensor
    start = -(-cursor.at // alignment) * alignment
    found, end = {}, 0
    for name, tensor in table.items():
        expected = -(-end // alignment) * alignment
        if tensor.offset != expected:
            raise CheckpointError(
                f"{cursor.path}: tensor {name!r}: expected at {expected} of the data by the "
                f"tensors before it, found at {tensor.offset}: {AGAIN}"
            )
        end = expected + tensor.size
        if start + end > cursor.size:
            raise CheckpointError(
                f"{cursor.path}: tensor {name!r}: ends at byte {start + end} of a file of "
                f"{cursor.size}: {AGAIN}"
            )
        found[name] = dataclasses.replace(tensor, offset=start + expected)
    if found and cursor.size - start - end >= alignment:
        raise CheckpointError(
            f"{cursor.path}: {cursor.size - start - end} bytes after the last tensor: {AGAIN}"
        )
    return found


# ---- the file ------------------------------------------------------------------------------------


def _check_start(path: Path, head: bytes) -> None:
    """Refuse by name what is not a GGUF file of a version we read."""
    magic, version = head[:4], int.from_bytes(head[4:8], "little")
    newer = "convert it with a current llama.cpp, or take a newer file"
    if magic in OLDER_MAGICS:
        raise CheckpointError(
            f"{path}: is a {OLDER_MAGICS[magic]} file, which GGUF replaced in 2023: {newer}"
        )
    if magic != MAGIC or len(head) < 8:
        raise CheckpointError(f"{path}: not a GGUF file: it begins with {shown(head.hex())}")
    if version == 1:
        raise CheckpointError(f"{path}: is of GGUF version 1, expected 2 or 3: {newer}")
    if version and version & 0xFFFF == 0:
        raise CheckpointError(
            f"{path}: is a big-endian GGUF file, expected a little-endian one: {newer}"
        )
    if version not in VERSIONS:
        raise CheckpointError(f"{path}: is of GGUF version {version}, expected 2 or 3")


def _check_whole(path: Path, fields: Mapping[str, Value]) -> None:
    """Refuse one part of a model that was split."""
    parts = fields.get("split.count", 0)
    if type(parts) is int and parts > 1:
        raise CheckpointError(
            f"{path}: is one of {parts} parts of a model: join them first: "
            "llama-gguf-split --merge FIRST-PART.gguf WHOLE.gguf"
        )


def _alignment(path: Path, fields: Mapping[str, Value]) -> int:
    value = fields.get("general.alignment", DEFAULT_ALIGNMENT)
    if type(value) is not int or not 8 <= value <= MAX_ALIGNMENT or value & (value - 1):
        raise CheckpointError(
            f"{path}: general.alignment: expected a power of two from 8 to {MAX_ALIGNMENT}, "
            f"found {shown(value)}: {AGAIN}"
        )
    return value


def read_gguf(path: Path) -> Gguf:
    """Read and check everything but the weights themselves."""
    try:
        size = file_size(path)
        with path.open("rb") as file:
            _check_start(path, file.read(8))
            file.seek(0)
            cursor = Cursor(path, file, size)
            cursor.take(len(MAGIC), "magic")
            version = cursor.number("I", "version")
            tensors = cursor.count(MAX_TENSORS, 24, "number of tensors")
            fields = _fields(cursor, cursor.count(MAX_FIELDS, 12, "number of fields"))
            _check_whole(path, fields)
            table = _tensors(cursor, tensors, _alignment(path, fields))
    except OSError as error:
        raise CheckpointError(f"{path}: {error.strerror}") from None
    return Gguf(path, version, fields, table)


def main(argv: Sequence[str] | None = None) -> int:
    """Print what is in a file."""
    args = list(sys.argv[1:] if argv is None else argv)
    if len(args) != 1:
        print("usage: python3 -m mlb.gguf MODEL.gguf", file=sys.stderr)
        return 2
    try:
        gguf = read_gguf(Path(args[0]))
    except CheckpointError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for key, value in gguf.fields.items():
        many = isinstance(value, list | np.ndarray)
        print(one_line(f"{key} = {f'{len(value)} elements' if many else repr(value)[:200]}"))
    for tensor in gguf.tensors.values():
        print(f"{tensor.name:40} {tensor.type.name:7} {list(tensor.shape)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
