# SPDX-License-Identifier: MIT
"""The .mlb model file as checked Python data, and its writer (docs/format-mlb.md).

read_model refuses what runtime/core/mlb.c refuses; tests feed both one corpus of hostile files.

    PYTHONPATH=tools python3 -m mlb.format model.mlb       # prints one line per tensor
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlb import envelope
from mlb.envelope import AGAIN, ALIGN, Buffer, FormatError, integer, only, shown
from mlb.quant import BLOCK, DTYPES
from mlb.shape import (
    MAX_VOCAB,
    Arch,
    Expected,
    check_arch,
    expected_tensors,
    id_list,
    number,
    parse_arch,
    tensor_bytes,
    types_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MAX_STOP_IDS = 16
NAME_BYTES = 127
SAMPLING = {  # key -> least, most
    "temperature": (0.0, 100.0),
    "top_p": (0.0, 1.0),
    "min_p": (0.0, 1.0),
    "repeat_penalty": (0.01, 100.0),
}

KEYS = (
    *envelope.COMMON_KEYS,
    "arch",
    "chat",
    "name",
    "provenance",
    "sampling",
    "stop_ids",
    "tensors",
    "x_*",
)
ENTRY_KEYS = ("bytes", "name", "offset", "shape", "type")


class TensorSource(NamedTuple):
    """A tensor to be written: produce() gives its bytes, whole or in pieces, at its turn."""

    name: str
    type: str
    shape: tuple[int, ...]
    produce: Callable[[], Buffer | Iterable[Buffer]]


@dataclasses.dataclass(frozen=True)
class Tensor:
    """One tensor of a file, mapped read-only.

    values are f32 [n], or blocks [rows, k/32] of quant.DTYPES[type].
    """

    name: str
    type: str
    shape: tuple[int, ...]
    values: npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Model:
    """A checked .mlb file."""

    path: Path
    arch: Arch
    name: str
    chat: str | None
    stop_ids: tuple[int, ...]
    sampling: dict[str, float]
    provenance: dict[str, Any]
    data_sha256: str
    tensors: dict[str, Tensor]


# ---- reading -------------------------------------------------------------------------------------


def read_model(path: Path) -> Model:
    """Open and check a model file; the weights stay mapped."""
    file = envelope.read(path, "mlb")
    header = only(path, "header", file.header, KEYS)
    for key in KEYS[:-1]:
        if key not in header:
            raise FormatError(f'{path}: "{key}" is missing; {AGAIN}')
    arch = parse_arch(path, header["arch"])
    chat = header["chat"]
    return Model(
        path=path,
        arch=arch,
        name=_string(path, "name", header["name"]),
        chat=None if chat is None else _string(path, "chat", chat),
        stop_ids=id_list(path, "stop_ids", header["stop_ids"], MAX_STOP_IDS, arch.vocab),
        sampling=_sampling(path, header["sampling"]),
        provenance=_provenance(path, header["provenance"]),
        data_sha256=header["data_sha256"],
        tensors={tensor.name: tensor for tensor in _tensors(file, arch)},
    )


def _string(where: object, what: str, value: object) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{where}: {what}: expected a string, found {shown(value)}; {AGAIN}")
    if len(value.encode("utf-8")) > NAME_BYTES or "\0" in value:
        raise FormatError(
            f"{where}: {what}: expected at most {NAME_BYTES} bytes without NUL; {AGAIN}"
        )
    return value


def _sampling(where: object, value: object) -> dict[str, float]:
    found = only(where, "sampling", value, (*SAMPLING, "top_k"))
    if "top_k" in found:
        integer(where, "top_k", found["top_k"], 0, MAX_VOCAB)
    for key, (low, high) in SAMPLING.items():
        if key in found:
            number(where, key, found[key], low, high)
    return dict(found)


def _provenance(where: object, value: object) -> dict[str, Any]:
    found = only(where, "provenance", value, ("*",))
    for key, item in found.items():
        if isinstance(item, bool | list | dict):
            raise FormatError(
                f"{where}: provenance {shown(key)}: expected a string, number or null, "
                f"found {shown(item)}; {AGAIN}"
            )
    return found


def _tensors(file: envelope.Envelope, arch: Arch) -> Iterator[Tensor]:
    """Check the tensor table against the architecture and the data, tensor by tensor."""
    path, table = file.path, file.header["tensors"]
    wanted = expected_tensors(arch)
    if not isinstance(table, list) or len(table) != len(wanted):
        found = f"{len(table)}" if isinstance(table, list) else shown(table)
        raise FormatError(
            f"{path}: tensors: expected an array of {len(wanted)}, found {found}; {AGAIN}"
        )
    end, gate_type = 0, ""
    for entry, want in zip(table, wanted, strict=True):
        type_ = _check_entry(path, entry, want)
        offset, size = -(-end // ALIGN) * ALIGN, tensor_bytes(type_, want.shape)
        integer(path, f"{want.name}: offset", entry["offset"], offset, offset)
        integer(path, f"{want.name}: bytes", entry["bytes"], size, size)
        if len(file.data) < offset or len(file.data) - offset < size:
            raise FormatError(f"{path}: {want.name}: ends after the data; {AGAIN}")
        if file.data[end:offset].any():
            raise FormatError(f"{path}: bytes before {want.name} are not zero; {AGAIN}")
        gate_type = type_ if want.name.endswith(".gate") else gate_type
        if want.name.endswith(".up") and type_ != gate_type:
            raise FormatError(
                f"{path}: {want.name}: type {type_}, expected {gate_type} as gate; {AGAIN}"
            )
        end = offset + size
        raw = file.data[offset:end]
        if type_ == "f32":
            yield Tensor(want.name, type_, want.shape, raw.view("<f4"))
        else:  # [rows, k/32]
            blocks = raw.view(DTYPES[type_]).reshape(want.shape[0], want.shape[1] // BLOCK)
            yield Tensor(want.name, type_, want.shape, blocks)
    if end != len(file.data):
        raise FormatError(
            f"{path}: the tensors end at {end} of {len(file.data)} bytes of data; {AGAIN}"
        )


def _check_entry(path: Path, raw: object, want: Expected) -> str:
    """Check name, type and shape of one row of the table; return the type."""
    entry = only(path, want.name, raw, ENTRY_KEYS)
    for key in ENTRY_KEYS:
        if key not in entry:
            raise FormatError(f'{path}: {want.name}: "{key}" is missing; {AGAIN}')
    if entry["name"] != want.name:
        raise FormatError(
            f'{path}: expected tensor "{want.name}", found {shown(entry["name"])}; {AGAIN}'
        )
    type_ = entry["type"]
    allowed = types_of(want)
    if not isinstance(type_, str) or type_ not in allowed:
        raise FormatError(
            f"{path}: {want.name}: expected type {' or '.join(allowed)}, found {shown(type_)}; "
            f"{AGAIN}"
        )
    shape = entry["shape"]
    if (
        not isinstance(shape, list)
        or [type(n) for n in shape] != [int] * len(shape)
        or tuple(shape) != want.shape
    ):
        raise FormatError(
            f"{path}: {want.name}: expected shape {list(want.shape)}, found {shown(shape)}; {AGAIN}"
        )
    return type_


# ---- writing -------------------------------------------------------------------------------------


def write_model(
    path: Path,
    arch: Arch,
    *,
    name: str,
    chat: str | None,
    stop_ids: Sequence[int],
    sampling: Mapping[str, float],
    provenance: Mapping[str, Any],
    tensors: Iterable[
        TensorSource | tuple[str, str, tuple[int, ...], Callable[[], Buffer | Iterable[Buffer]]]
    ],
) -> str:
    """Write a model, one tensor at a time, and return the SHA-256 of its data.

    The tensors must be those of expected_tensors(arch), in that order.  The same input gives the
    same file.
    """
    sources = [TensorSource(*source) for source in tensors]
    table: list[dict[str, Any]] = []
    end = 0
    for source in sources:
        offset, size = -(-end // ALIGN) * ALIGN, tensor_bytes(source.type, source.shape)
        table.append(
            {
                "name": source.name,
                "type": source.type,
                "shape": source.shape,
                "offset": offset,
                "bytes": size,
            }
        )
        end = offset + size
    header = {
        "arch": dataclasses.asdict(arch),
        "chat": chat,
        "name": name,
        "provenance": provenance,
        "sampling": sampling,
        "stop_ids": stop_ids,
        "tensors": table,
    }
    _check_plan(path, arch, sources)
    check_arch(path, arch)
    _string(path, "name", name)
    id_list(path, "stop_ids", list(stop_ids), MAX_STOP_IDS, arch.vocab)
    _sampling(path, dict(sampling))
    _provenance(path, dict(provenance))
    return envelope.write(path, "mlb", header, _data(sources), end)


def _check_plan(path: Path, arch: Arch, sources: Sequence[TensorSource]) -> None:
    """Refuse to write what could not be read."""
    wanted = expected_tensors(arch)
    for want, source in zip(wanted, sources, strict=False):
        if (want.name, want.shape) != (source.name, tuple(source.shape)):
            raise FormatError(
                f"{path}: expected {want.name} {want.shape}, given {source.name} {source.shape}"
            )
        if source.type not in types_of(want):
            raise FormatError(f"{path}: {want.name}: type {source.type} cannot hold it")
    if len(wanted) != len(sources):
        raise FormatError(
            f"{path}: the architecture has {len(wanted)} tensors, {len(sources)} given"
        )


def _data(sources: Sequence[TensorSource]) -> Iterator[Buffer]:
    """The data section: each tensor's bytes, and the zeros up to the next."""
    end = 0
    for source in sources:
        yield b"\0" * (-end % ALIGN)
        made = source.produce()
        size = 0
        for piece in (
            [made] if isinstance(made, bytes | bytearray | memoryview | np.ndarray) else made
        ):
            size += envelope.octets(piece).nbytes
            yield piece
        if size != tensor_bytes(source.type, source.shape):
            raise FormatError(
                f"{source.name}: {size} bytes produced, {source.type} {source.shape} has "
                f"{tensor_bytes(source.type, source.shape)}"
            )
        end += -end % ALIGN + size


def main(argv: Sequence[str] | None = None) -> int:
    """Print the architecture and the tensors of a model."""
    args = list(sys.argv[1:] if argv is None else argv)
    if len(args) != 1:
        print("usage: python3 -m mlb.format MODEL.mlb", file=sys.stderr)
        return 2
    try:
        model = read_model(Path(args[0]))
    except FormatError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{model.name}: {model.arch}")
    for tensor in model.tensors.values():
        print(f"{tensor.name:32} {tensor.type:6} {list(tensor.shape)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
