# SPDX-License-Identifier: MIT
"""The shape of a model as checked data: the `arch` object of an .mlb file, and its tensors.

Reading and writing of the whole file is format.py's.

    PYTHONPATH=tools python3 -c "from mlb.shape import FAMILIES; print(*FAMILIES)"
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from mlb import envelope
from mlb.envelope import AGAIN, FormatError, integer, only, shown
from mlb.quant import BLOCK, DTYPES, row_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_WIDTH = 1 << 16
MAX_VOCAB = 1 << 24
MAX_TAPS = 8
LEAST, MOST = 1e-22, 1e37  # of a positive number in `arch`: what the header's decimals can express

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "qwen3_5", "smollm3", "gemma2", "gemma3")
ACTIVATIONS = ("silu", "gelu_tanh")
POSITIVE = ("norm_eps", "attn_scale", "embed_scale", "rope_scale")
CAPS = ("attn_cap", "logit_cap")
FLAGS = ("local_rope", "tied", "qk_norm", "post_norms", "qkv_bias", "attn_gate")
LINEAR_SIZES = ("linear_k_heads", "linear_v_heads", "linear_k_dim", "linear_v_dim", "conv_taps")
LAYER_LISTS = ("local_layers", "no_rope_layers", "linear_layers")
ALWAYS_Q8 = ("wb", "wa")  # of a linear layer: few weights, and a decay is made of them

Row = tuple[str, str, tuple[int, ...], bool]  # of a layer: name, kind, shape, is it there?


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
    rotary_dim: int
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
    qkv_bias: bool = False
    attn_gate: bool = False
    rope_scale: float = 1.0
    no_rope_layers: tuple[int, ...] = ()
    linear_layers: tuple[int, ...] = ()
    linear_k_heads: int = 0
    linear_v_heads: int = 0
    linear_k_dim: int = 0
    linear_v_dim: int = 0
    conv_taps: int = 0

    @property
    def q_dim(self) -> int:
        """Rows of wq."""
        return self.n_heads * self.head_dim

    @property
    def kv_dim(self) -> int:
        """Rows of wk and of wv."""
        return self.n_kv_heads * self.head_dim

    @property
    def linear_k(self) -> int:
        """Queries of a linear layer, and its keys."""
        return self.linear_k_heads * self.linear_k_dim

    @property
    def linear_v(self) -> int:
        """Values of a linear layer."""
        return self.linear_v_heads * self.linear_v_dim

    @property
    def channels(self) -> int:
        """What a linear layer's convolution runs over: queries, keys and values."""
        return 2 * self.linear_k + self.linear_v


class Expected(NamedTuple):
    """A tensor that the architecture needs; kind is "matrix" or "f32"."""

    name: str
    kind: str
    shape: tuple[int, ...]


def expected_tensors(arch: Arch) -> list[Expected]:
    """Return every tensor of a model of this architecture, in file order."""
    pairs, linear = (arch.rotary_dim // 2,), frozenset(arch.linear_layers)
    found = [
        Expected("embed", "matrix", (arch.vocab, arch.dim)),
        Expected("rope_freq", "f32", pairs),
    ]
    if arch.local_rope:
        found.append(Expected("rope_freq_local", "f32", pairs))
    for layer in range(arch.n_layers):
        mixer = _linear_rows(arch) if layer in linear else _attention_rows(arch)
        rows: list[Row] = [
            ("attn_norm", "f32", (arch.dim,), True),
            *mixer,
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


def _attention_rows(arch: Arch) -> list[Row]:
    return [
        ("wq", "matrix", (arch.q_dim, arch.dim), True),
        ("wk", "matrix", (arch.kv_dim, arch.dim), True),
        ("wv", "matrix", (arch.kv_dim, arch.dim), True),
        ("bq", "f32", (arch.q_dim,), arch.qkv_bias),
        ("bk", "f32", (arch.kv_dim,), arch.qkv_bias),
        ("bv", "f32", (arch.kv_dim,), arch.qkv_bias),
        ("wg", "matrix", (arch.q_dim, arch.dim), arch.attn_gate),
        ("q_norm", "f32", (arch.head_dim,), arch.qk_norm),
        ("k_norm", "f32", (arch.head_dim,), arch.qk_norm),
        ("wo", "matrix", (arch.dim, arch.q_dim), True),
    ]


def _linear_rows(arch: Arch) -> list[Row]:
    v_heads = arch.linear_v_heads
    return [
        ("wqkv", "matrix", (arch.channels, arch.dim), True),
        ("wz", "matrix", (arch.linear_v, arch.dim), True),
        ("wb", "matrix", (v_heads, arch.dim), True),
        ("wa", "matrix", (v_heads, arch.dim), True),
        ("conv", "f32", (arch.conv_taps * arch.channels,), True),
        ("dt_bias", "f32", (v_heads,), True),
        ("decay_rate", "f32", (v_heads,), True),
        ("delta_norm", "f32", (arch.linear_v_dim,), True),
        ("wo", "matrix", (arch.dim, arch.linear_v), True),
    ]


def always_q8(name: str) -> bool:
    """Return whether a matrix has a Q8 type whatever the others have."""
    return name.rpartition(".")[2] in ALWAYS_Q8


def types_of(want: Expected) -> tuple[str, ...]:
    """Return the types that a tensor may have."""
    if want.kind == "f32":
        return ("f32",)
    return tuple(t for t in DTYPES if t.startswith("q8") or not always_q8(want.name))


def tensor_bytes(type_: str, shape: Sequence[int]) -> int:
    """Return the bytes of a tensor of this type and shape."""
    if type_ == "f32":
        return 4 * shape[0]
    return shape[0] * row_bytes(type_, shape[1])


def parse_arch(where: object, raw: object) -> Arch:
    """Check the `arch` object: every key there, every value in its range."""
    fields = [field.name for field in dataclasses.fields(Arch)]
    found = only(where, "arch", raw, fields)
    for key in fields:
        if key not in found:
            raise FormatError(f'{where}: "{key}" is missing; {AGAIN}')
    _check_fields(where, found)
    layers = {
        key: id_list(where, key, found[key], MAX_WIDTH, found["n_layers"]) for key in LAYER_LISTS
    }
    numbers = {key: float(found[key]) for key in (*POSITIVE, *CAPS)}
    arch = Arch(**{**found, **numbers, **layers})
    _check_attention(where, arch)
    _check_layers(where, arch)
    _check_linear(where, arch)
    return arch


def check_arch(where: object, arch: Arch) -> Arch:
    """Return the architecture as a reader of the file would get it."""
    return parse_arch(
        where, envelope.parse_json(envelope.dump(dataclasses.asdict(arch)), str(where))
    )


def _check_fields(where: object, found: Mapping[str, Any]) -> None:
    """Check each key by itself."""
    for key in ("dim", "hidden_dim", "n_layers", "n_heads", "n_kv_heads", "head_dim"):
        integer(where, key, found[key], 1, MAX_WIDTH)
    for key in ("vocab", "max_seq"):
        integer(where, key, found[key], 1, MAX_VOCAB)
    for key in POSITIVE:
        number(where, key, found[key], LEAST, MOST)
    for key in CAPS:
        number(where, key, found[key], 0.0, MOST)
    for key, words in (("family", FAMILIES), ("activation", ACTIVATIONS)):
        if found[key] not in words:
            raise FormatError(
                f"{where}: {key}: expected one of {words}, found {shown(found[key])}; {AGAIN}"
            )
    for key in FLAGS:
        if not isinstance(found[key], bool):
            raise FormatError(
                f"{where}: {key}: expected true or false, found {shown(found[key])}; {AGAIN}"
            )
    integer(where, "window", found["window"], 0, MAX_VOCAB)
    integer(where, "rotary_dim", found["rotary_dim"], 2, MAX_WIDTH)
    least = 1 if found["linear_layers"] else 0
    for key in LINEAR_SIZES:
        integer(where, key, found[key], least, MAX_WIDTH * least)


def _width(where: object, what: str, value: int, step: int = BLOCK) -> None:
    if value % step or value > MAX_WIDTH:
        raise FormatError(
            f"{where}: {what} is {value}, expected a multiple of {step} up to {MAX_WIDTH}; {AGAIN}"
        )


def _check_attention(where: object, arch: Arch) -> None:
    """Check what the sizes of attention must agree on."""
    _width(where, "dim", arch.dim)
    _width(where, "hidden_dim", arch.hidden_dim)
    _width(where, "n_heads * head_dim", arch.q_dim)
    if arch.head_dim % 2:
        raise FormatError(f"{where}: head_dim is {arch.head_dim}, expected an even number; {AGAIN}")
    if arch.n_heads % arch.n_kv_heads:
        raise FormatError(
            f"{where}: n_heads {arch.n_heads} is not a multiple of "
            f"n_kv_heads {arch.n_kv_heads}; {AGAIN}"
        )
    if arch.rotary_dim % 2 or arch.rotary_dim > arch.head_dim:
        raise FormatError(
            f"{where}: rotary_dim is {arch.rotary_dim}, expected an even number up to "
            f"head_dim {arch.head_dim}; {AGAIN}"
        )


def _check_layers(where: object, arch: Arch) -> None:
    """Check which layers are special."""
    for key in LAYER_LISTS:
        layers: tuple[int, ...] = getattr(arch, key)
        if list(layers) != sorted(set(layers)):
            raise FormatError(f"{where}: {key} are not in ascending order; {AGAIN}")
        both = set(layers) & set(arch.linear_layers)
        if both and key != "linear_layers":
            raise FormatError(
                f"{where}: layer {min(both)} is in {key} and in linear_layers; {AGAIN}"
            )
    if bool(arch.local_layers) != (arch.window > 0):
        raise FormatError(
            f"{where}: window is {arch.window} with {len(arch.local_layers)} local layers; {AGAIN}"
        )
    if arch.local_rope and not arch.local_layers:
        raise FormatError(f"{where}: local_rope without local layers; {AGAIN}")


def _check_linear(where: object, arch: Arch) -> None:
    """Check what the sizes of linear layers must agree on."""
    if not arch.linear_layers:
        return
    integer(where, "conv_taps", arch.conv_taps, 2, MAX_TAPS)
    if arch.linear_v_heads % arch.linear_k_heads:
        raise FormatError(
            f"{where}: linear_v_heads {arch.linear_v_heads} is not a multiple of "
            f"linear_k_heads {arch.linear_k_heads}; {AGAIN}"
        )
    _width(where, "linear_v_heads * linear_v_dim", arch.linear_v)
    _width(where, "linear_k_heads * linear_k_dim", arch.linear_k, 1)
    _width(where, "linear queries, keys and values", arch.channels, 1)


def number(where: object, what: str, value: object, low: float, high: float) -> float:
    """Check a number of the header."""
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


def id_list(where: object, what: str, value: object, most: int, below: int) -> tuple[int, ...]:
    """Check an array of at most `most` integers from 0 to below - 1."""
    if not isinstance(value, list) or len(value) > most:
        raise FormatError(
            f"{where}: {what}: expected an array of at most {most}, found {shown(value)}; {AGAIN}"
        )
    return tuple(integer(where, what, item, 0, below - 1) for item in value)
