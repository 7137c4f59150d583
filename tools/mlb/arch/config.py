# SPDX-License-Identifier: MIT
"""A strict reader of config.json.

A family reads every key that it understands; a key nobody asked for stops the conversion, because
it may change what the model computes.

    PYTHONPATH=tools python3 -c "from mlb.arch.config import Config; Config({'a': 1}, 'x').finish()"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mlb.checkpoint import CheckpointError
from mlb.shape import LEAST, MAX_WIDTH, MOST

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        "model_name",
        "model_type",
        "output_attentions",
        "output_hidden_states",
        "pad_token_id",
        "pretraining_tp",
        "problem_type",
        "return_dict",
        "tokenizer_class",
        "torch_dtype",
        "transformers.js_config",
        "transformers_version",
        "unsloth_fixed",
        "unsloth_fixed_mtp",
        "unsloth_version",
        "use_cache",
    ]
)
REQUIRED = object()  # no default


def more(names: list[str]) -> str:
    """How many names there are beside the first."""
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

    def get(self, key: str, default: Any = REQUIRED) -> Any:
        """The value, whatever its type; null counts as missing."""
        self._seen.add(key)
        value = self.values.get(key)
        if value is None:
            if default is REQUIRED:
                raise self.fail(key, "a value")
            return default
        return value

    def nullable(self, key: str, default: Any) -> Any:
        """The value, whatever its type; null is a value of its own."""
        self._seen.add(key)
        return self.values.get(key, default)

    def inside(self, key: str, values: Mapping[str, Any]) -> Config:
        """The object that is the value of a key."""
        self._seen.add(key)
        return Config(values, f"{self.where}: {key}")

    def integer(self, key: str, default: Any = REQUIRED, most: int = MAX_WIDTH) -> int:
        """A positive integer."""
        value = self.get(key, default)
        if type(value) is not int or not 1 <= value <= most:
            raise self.fail(key, f"a positive integer up to {most}")
        return value

    def number(self, key: str, default: Any = REQUIRED) -> float:
        """A number above zero that a file's header can hold."""
        value = self.get(key, default)
        if type(value) not in (int, float) or not LEAST <= value <= MOST:
            raise self.fail(key, f"a number above 0 ({LEAST:g} to {MOST:g})")
        return float(value)

    def amount(self, key: str, default: float) -> float:
        """A number above zero, or zero."""
        return 0.0 if self.get(key, default) == 0 else self.number(key, default)

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
                f"{more(unknown)}: it may change what the model computes, so it is not supported"
            )
