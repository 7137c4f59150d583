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
from mlb.quant import BLOCK, DTYPES, row_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

MAX_WIDTH = 1 << 16
MAX_VOCAB = 1 << 24
MAX_STOP_IDS = 16
NAME_BYTES = 127
LEAST, MOST = 1e-22, 1e37  # of a positive number in `arch`: what the header's decimals can express

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
FAMILIES = ("llama", "gemma3")
ACTIVATIONS = ("silu", "gelu_tanh")


@dataclasses.dataclass(frozen=True)
class Arch:
    """The architecture: the `arch` object of the header, field for key."""

    family: str
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    vocab: int
    max_seq: int
    norm_eps: float
    attn_scale: float
    embed_scale: float = 1.0
    attn_cap: float = 0.0
    logit_cap: float = 0.0
    activation: str = "silu"
    window: int = 0
    local_layers: tuple[int, ...] = ()
    local_rope: bool = False  # rope_freq_local is there
    tied: bool = False
    qk_norm: bool = False
    post_norms: bool = False


class Expected(NamedTuple):
    """A tensor that the architecture needs; kind is "matrix" or "f32"."""

    name: str
    kind: str
    shape: tuple[int, ...]


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


def expected_tensors(arch: Arch) -> list[Expected]:
    """Return every tensor of a model of this architecture, in file order."""
    q_dim, kv_dim = arch.n_heads * arch.head_dim, arch.n_kv_heads * arch.head_dim
    found = [
        Expected("embed", "matrix", (arch.vocab, arch.dim)),
        Expected("rope_freq", "f32", (arch.head_dim // 2,)),
    ]
    if arch.local_rope:
        found.append(Expected("rope_freq_local", "f32", (arch.head_dim // 2,)))
    for layer in range(arch.n_layers):
        rows: list[tuple[str, str, tuple[int, ...], bool]] = [
            ("attn_norm", "f32", (arch.dim,), True),
            ("wq", "matrix", (q_dim, arch.dim), True),
            ("wk", "matrix", (kv_dim, arch.dim), True),
            ("wv", "matrix", (kv_dim, arch.dim), True),
            ("q_norm", "f32", (arch.head_dim,), arch.qk_norm),
            ("k_norm", "f32", (arch.head_dim,), arch.qk_norm),
            ("wo", "matrix", (arch.dim, q_dim), True),
            ("attn_post_norm", "f32", (arch.dim,), arch.post_norms),
            ("ffn_norm", "f32", (arch.dim,), True),
            ("gate", "matrix", (arch.hidden_dim, arch.dim), True),
            ("up", "matrix", (arch.hidden_dim, arch.dim), True),
            ("down", "matrix", (arch.dim, arch.hidden_dim), True),
            ("ffn_post_norm", "f32", (arch.dim,), arch.post_norms),
        ]
        found += [
            Expected(f"layers.{layer}.{name}", kind, shape)
            for name, kind, shape, there in rows
            if there
        ]
    found.append(Expected("out_norm", "f32", (arch.dim,)))
    if not arch.tied:
        found.append(Expected("classifier", "matrix", (arch.vocab, arch.dim)))
    return found


def tensor_bytes(type_: str, shape: Sequence[int]) -> int:
    """Return the bytes of a tensor of this type and shape."""
    if type_ == "f32":
        return 4 * shape[0]
    return shape[0] * row_bytes(type_, shape[1])


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
        stop_ids=_ids(path, "stop_ids", header["stop_ids"], MAX_STOP_IDS, arch.vocab),
        sampling=_sampling(path, header["sampling"]),
        provenance=_provenance(path, header["provenance"]),
        data_sha256=header["data_sha256"],
        tensors={tensor.name: tensor for tensor in _tensors(file, arch)},
    )


def parse_arch(where: object, raw: object) -> Arch:
    """Check the `arch` object: every key there, every value in its range."""
    fields = [field.name for field in dataclasses.fields(Arch)]
    found = only(where, "arch", raw, fields)
    for key in fields:
        if key not in found:
            raise FormatError(f'{where}: "{key}" is missing; {AGAIN}')
    _check_fields(where, found)
    local = _ids(where, "local_layers", found["local_layers"], MAX_WIDTH, found["n_layers"])
    numbers = {
        key: float(found[key])
        for key in ("norm_eps", "attn_scale", "embed_scale", "attn_cap", "logit_cap")
    }
    arch = Arch(**{**found, **numbers, "local_layers": local})
    _check_shapes(where, arch)
    return arch


def _check_fields(where: object, found: Mapping[str, Any]) -> None:
    """Check each key by itself."""
    for key in ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "head_dim"):
        integer(where, key, found[key], 1, MAX_WIDTH)
    for key in ("vocab", "max_seq"):
        integer(where, key, found[key], 1, MAX_VOCAB)
    for key in ("norm_eps", "attn_scale", "embed_scale"):
        _number(where, key, found[key], LEAST, MOST)
    for key in ("attn_cap", "logit_cap"):
        _number(where, key, found[key], 0.0, MOST)
    for key, words in (("family", FAMILIES), ("activation", ACTIVATIONS)):
        if found[key] not in words:
            raise FormatError(
                f"{where}: {key}: expected one of {words}, found {shown(found[key])}; {AGAIN}"
            )
    for key in ("local_rope", "tied", "qk_norm", "post_norms"):
        if not isinstance(found[key], bool):
            raise FormatError(
                f"{where}: {key}: expected true or false, found {shown(found[key])}; {AGAIN}"
            )
    integer(where, "window", found["window"], 0, MAX_VOCAB)


def _check_shapes(where: object, arch: Arch) -> None:
    """Check what two or more keys must agree on."""
    q_dim = arch.n_heads * arch.head_dim
    for what, value in (
        ("dim", arch.dim),
        ("hidden_dim", arch.hidden_dim),
        ("n_heads * head_dim", q_dim),
    ):
        if value % BLOCK or value > MAX_WIDTH:
            raise FormatError(
                f"{where}: {what} is {value}, expected a multiple of {BLOCK} "
                f"up to {MAX_WIDTH}; {AGAIN}"
            )
    if arch.head_dim % 2:
        raise FormatError(f"{where}: head_dim is {arch.head_dim}, expected an even number; {AGAIN}")
    if arch.n_heads % arch.n_kv_heads:
        raise FormatError(
            f"{where}: n_heads {arch.n_heads} is not a multiple of "
            f"n_kv_heads {arch.n_kv_heads}; {AGAIN}"
        )
    if list(arch.local_layers) != sorted(set(arch.local_layers)):
        raise FormatError(f"{where}: local_layers are not in ascending order; {AGAIN}")
    if bool(arch.local_layers) != (arch.window > 0):
        raise FormatError(
            f"{where}: window is {arch.window} with {len(arch.local_layers)} local layers; {AGAIN}"
        )
    if arch.local_rope and not arch.local_layers:
        raise FormatError(f"{where}: local_rope without local layers; {AGAIN}")


def _number(where: object, what: str, value: object, low: float, high: float) -> float:
    if (
        isinstance(value, int)
        and not isinstance(value, bool)
        and envelope.exact_decimal(str(value))
    ):
        value = float(value)
    if not isinstance(value, float) or not low <= value <= high:
        raise FormatError(
            f"{where}: {what}: expected a number from {low:g} to {high:g} of at most 15 digits, "
            f"found {shown(value)}; {AGAIN}"
        )
    return value


def _string(where: object, what: str, value: object) -> str:
    if not isinstance(value, str):
        raise FormatError(f"{where}: {what}: expected a string, found {shown(value)}; {AGAIN}")
    if len(value.encode("utf-8")) > NAME_BYTES or "\0" in value:
        raise FormatError(
            f"{where}: {what}: expected at most {NAME_BYTES} bytes without NUL; {AGAIN}"
        )
    return value


def _ids(where: object, what: str, value: object, most: int, below: int) -> tuple[int, ...]:
    if not isinstance(value, list) or len(value) > most:
        raise FormatError(
            f"{where}: {what}: expected an array of at most {most}, found {shown(value)}; {AGAIN}"
        )
    return tuple(integer(where, what, item, 0, below - 1) for item in value)


def _sampling(where: object, value: object) -> dict[str, float]:
    found = only(where, "sampling", value, ("temperature", "top_k", "top_p"))
    if "top_k" in found:
        integer(where, "top_k", found["top_k"], 0, MAX_VOCAB)
    for key, high in (("temperature", 100.0), ("top_p", 1.0)):
        if key in found:
            _number(where, key, found[key], 0.0, high)
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
    if type_ not in (("f32",) if want.kind == "f32" else tuple(DTYPES)) or not isinstance(
        type_, str
    ):
        raise FormatError(
            f"{path}: {want.name}: expected a type of {want.kind}, found {shown(type_)}; {AGAIN}"
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
    parse_arch(path, envelope.parse_json(envelope.dump(header["arch"]), str(path)))
    _string(path, "name", name)
    _ids(path, "stop_ids", list(stop_ids), MAX_STOP_IDS, arch.vocab)
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
        if (want.kind == "f32") != (source.type == "f32"):
            raise FormatError(f"{path}: {want.name} is a {want.kind}, given type {source.type}")
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
