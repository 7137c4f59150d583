# SPDX-License-Identifier: MIT
"""What every model family's table is made of: a strict config reader, tensor sources, the plan.

A family reads every key of config.json that it understands; a key nobody asked for stops the
conversion, because it may change what the model computes.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlb.checkpoint import Checkpoint, CheckpointError
from mlb.shape import MAX_WIDTH, MOST, Arch, expected_tensors

if TYPE_CHECKING:
    from collections.abc import Mapping

F32 = npt.NDArray[np.float32]

# Keys that say nothing about what the model computes from a prompt.
HARMLESS = frozenset(
    [
        "_attn_implementation_autoset",
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "auto_map",
        "bos_token_id",
        "cache_implementation",
        "chunk_size_feed_forward",
        "dtype",
        "eos_token_id",
        "id2label",
        "initializer_range",
        "is_decoder",
        "is_llama_config",
        "label2id",
        "model_type",
        "output_attentions",
        "output_hidden_states",
        "pad_token_id",
        "problem_type",
        "return_dict",
        "torch_dtype",
        "transformers.js_config",
        "transformers_version",
        "unsloth_fixed",
        "unsloth_version",
        "use_cache",
    ]
)
_REQUIRED = object()


def _more(names: list[str]) -> str:
    return f" and {len(names) - 1} more" if names[1:] else ""


class Config:
    """config.json, read key by key; finish() refuses the keys nobody read."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self.values = values
        self.where = where
        self._seen: set[str] = set()

    def fail(self, key: str, expected: str) -> CheckpointError:
        """The error for a key whose value is not what was expected."""
        found = f"found {self.values[key]!r}" if key in self.values else "it is missing"
        return CheckpointError(f"{self.where}: {key}: expected {expected}, {found}")

    def get(self, key: str, default: Any = _REQUIRED) -> Any:
        """The value, whatever its type; null counts as missing."""
        self._seen.add(key)
        value = self.values.get(key)
        if value is None:
            if default is _REQUIRED:
                raise self.fail(key, "a value")
            return default
        return value

    def integer(self, key: str, default: Any = _REQUIRED, most: int = MAX_WIDTH) -> int:
        """A positive integer."""
        value = self.get(key, default)
        if type(value) is not int or not 1 <= value <= most:
            raise self.fail(key, f"a positive integer up to {most}")
        return value

    def number(self, key: str, default: Any = _REQUIRED) -> float:
        """A number above zero that float32 can hold."""
        value = self.get(key, default)
        if type(value) not in (int, float) or not 0 < value <= MOST:
            raise self.fail(key, f"a number above 0, at most {MOST:g}")
        return float(value)

    def flag(self, key: str, *, default: bool) -> bool:
        """Either true or false."""
        value = self.get(key, default)
        if type(value) is not bool:
            raise self.fail(key, "true or false")
        return value

    def must_be(self, key: str, *allowed: Any) -> None:
        """Refuse values that need what the runtime does not have; missing or null is fine."""
        value = self.get(key, None)
        if value is not None and value not in allowed:
            raise CheckpointError(f"{self.where}: {key} = {value!r} is not supported")

    def must_be_off(self, key: str) -> None:
        """Refuse a switch that is on."""
        self.must_be(key, False)  # noqa: FBT003  (the value in the file, not a mode of ours)

    def finish(self) -> None:
        """Refuse keys that nobody read."""
        unknown = sorted(set(self.values) - self._seen - HARMLESS)
        if unknown:
            raise CheckpointError(
                f"{self.where}: unknown key {unknown[0]!r} = {self.values[unknown[0]]!r}"
                f"{_more(unknown)}: it may change what the model computes, so it is not supported"
            )


@dataclasses.dataclass(frozen=True)
class Source:
    """Where one tensor of ours comes from, and what is done to it on the way."""

    name: str  # the tensor in the checkpoint
    head_dim: int = 0  # > 0: the rows of each head go from rotate-half to interleaved pairs
    add_one: bool = False  # a norm that multiplies by 1 + w


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a checkpoint becomes a model file."""

    arch: Arch
    sources: Mapping[str, Source]  # by our tensor name
    constants: Mapping[str, F32]  # tensors that are computed: the RoPE frequencies
    ignored: frozenset[str]  # checkpoint tensors that are known and not needed


def interleave(head_dim: int) -> npt.NDArray[np.intp]:
    """Row order in a head that puts pair i at 2i, 2i+1; rotate-half has it at i, i + head_dim/2."""
    return np.arange(head_dim).reshape(2, head_dim // 2).T.reshape(-1)


def rope_frequencies(base: float, head_dim: int) -> F32:
    """Return 1 / base^(2i/d) in the float32 steps of transformers, the power from float64."""
    exponent = np.arange(0, head_dim, 2, dtype=np.float32) / np.float32(head_dim)
    power = np.array([math.pow(base, float(e)) for e in exponent], dtype=np.float64)
    return np.float32(1) / power.astype(np.float32)


def rope_base(config: Config, key: str, default: float, layer_type: str | None = None) -> float:
    """The RoPE base, from `key` or from rope_parameters (transformers 5); scaling is refused."""
    base = config.number(key, default)
    for name in ("rope_scaling", "rope_parameters"):
        rope = config.get(name, None)
        if isinstance(rope, dict) and layer_type is not None and layer_type in rope:
            rope = rope[layer_type]
        if rope is None:
            continue
        if not isinstance(rope, dict):
            raise config.fail(name, "an object")
        inner = Config(rope, f"{config.where}: {name}")
        kind = inner.get("rope_type", inner.get("type", "default"))
        if kind != "default":
            raise CheckpointError(
                f"{config.where}: {name}: RoPE scaling of type {kind!r} is not supported"
            )
        inner.must_be("partial_rotary_factor", 1.0)
        base = inner.number("rope_theta", base)
        inner.finish()
    if base < 1:
        raise CheckpointError(f"{config.where}: RoPE base: expected at least 1, found {base:g}")
    return base


def check_tensors(plan: Plan, shapes: Mapping[str, tuple[int, ...]], where: str) -> None:
    """Every tensor the plan needs is there, with the right shape, and nothing else is."""
    used: set[str] = set()
    for name, _, shape in expected_tensors(plan.arch):
        if name in plan.constants:
            continue
        source = plan.sources[name].name
        used.add(source)
        if source not in shapes:
            hint = ", and tie_word_embeddings is not true" if name == "classifier" else ""
            raise CheckpointError(f"{where}: tensor {source!r} is missing{hint}: download it again")
        if shapes[source] != tuple(shape):
            raise CheckpointError(
                f"{where}: tensor {source!r}: expected shape {list(shape)} by config.json, "
                f"found {list(shapes[source])}"
            )
    unknown = sorted(set(shapes) - used - plan.ignored)
    if unknown:
        raise CheckpointError(
            f"{where}: unknown tensor {unknown[0]!r}{_more(unknown)}: this model is not supported"
        )


def load(source: Source, checkpoint: Checkpoint, row0: int = 0, row1: int | None = None) -> F32:
    """Rows [row0, row1) of one of our tensors, as float32 and in our order."""
    if not source.head_dim:
        values = checkpoint.read(source.name, row0, row1)
    else:  # whole heads are read, turned, and cut
        head = source.head_dim
        last = checkpoint.shapes[source.name][0] if row1 is None else row1
        start = row0 // head * head
        whole = checkpoint.read(source.name, start, -(-last // head) * head)
        turned = whole.reshape(-1, head, *whole.shape[1:])[:, interleave(head)]  # [heads, head, k]
        values = turned.reshape(whole.shape)[row0 - start : last - start]
    if not np.isfinite(values).all():
        bad = np.count_nonzero(~np.isfinite(values))
        raise CheckpointError(
            f"tensor {source.name!r}: {bad} of {values.size} weights from row {row0} on are NaN or "
            "infinite: the checkpoint is damaged"
        )
    return values + np.float32(1) if source.add_one else values
