# SPDX-License-Identifier: MIT
"""Hostile .mlb files whose parts agree, but on sizes that no model may have.

PYTHONPATH=tools:tests/py python3 -c "import hostile_sizes as h; print(h.GIB)"
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from hostile_base import LLAMA, QWEN, Case, Parts, frame
from mlb import envelope
from mlb.shape import Arch, expected_tensors, tensor_bytes

GIB = 1 << 30


def cases(file: bytes, parts: Parts) -> Iterator[Case]:
    """Return all of them."""
    yield from sparse_cases(file, parts)
    yield from consistent_cases(parts)
    yield from linear_cases(parts)


def sparse_cases(file: bytes, parts: Parts) -> Iterator[Case]:
    """Files of 5 GiB and more that take no space on the disk and may take none in memory."""
    yield Case("sparse-zeros", b"", size=5 * GIB)
    yield Case("sparse-trailing", file, size=5 * GIB)
    yield Case("sparse-magic", envelope.MAGIC["mlb"], size=5 * GIB)
    yield Case("sparse-html", b"<html>", size=5 * GIB)
    # A consistent model of 5.7 GB: nothing is wrong with it.
    start, size = sparse_model(dataclasses.replace(LLAMA, vocab=1 << 24, dim=320), parts)
    yield Case("sparse-model", start, refused=False, size=size)
    # n_heads * head_dim = 2^32: as 32-bit numbers, the rows of wq would be 0.
    huge = dataclasses.replace(LLAMA, n_heads=65536, head_dim=65536, n_layers=1)
    start, size = sparse_model(huge, parts)
    yield Case("sparse-wrapping", start, size=size)


def sparse_model(arch: Arch, parts: Parts, up: str = "q8_0", four: str = "no") -> tuple[bytes, int]:
    """Return the header of a model whose weights are all zero, and the size of its file.

    Matrices are Q8 but for `.up`, which is `up`, and those whose name ends in `four`, which are Q4.
    """
    header = {**parts.header, "arch": dataclasses.asdict(arch), "tensors": []}
    end = 0
    for want in expected_tensors(arch):
        kind = "f32" if want.kind == "f32" else "q8_0"
        kind = up if want.name.endswith(".up") else kind
        kind = "q4_0" if want.name.endswith(four) else kind
        offset, size = -(-end // 64) * 64, tensor_bytes(kind, want.shape)
        header["tensors"].append(
            {"name": want.name, "type": kind, "shape": want.shape, "offset": offset, "bytes": size}
        )
        end = offset + size
    header["data_bytes"] = end
    header["file_bytes"] = 0
    for _ in range(4):
        start = frame(json.dumps(header, sort_keys=True, separators=(",", ":")).encode(), b"")
        header["file_bytes"] = len(start) + end
    return start, len(start) + end


def consistent_cases(parts: Parts) -> Iterator[Case]:
    """Models whose tensors and sizes are right for an architecture that is not allowed."""
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "odd-head": {"head_dim": 7, "n_heads": 32},
        "dim-48": {"dim": 48},
        "hidden-33": {"hidden_dim": 33},
        "wide-q": {"n_heads": 4096, "head_dim": 32, "n_layers": 1},
        "kv-heads-3": {"n_kv_heads": 3},
        "kv-heads-8": {"n_kv_heads": 8},
        "rope-without-local": {"local_rope": True},
        "window-without-local": {"window": 5},
        "local-without-window": {"local_layers": (1,)},
        "local-beyond": {"window": 5, "local_layers": (2,)},
        "rotary-odd": {"rotary_dim": 7},
        "rotary-wide": {"rotary_dim": 10},
        "rotary-0": {"rotary_dim": 0},
        "no-rope-beyond": {"no_rope_layers": (2,)},
    }
    for name, change in changes.items():
        start, size = sparse_model(dataclasses.replace(LLAMA, **change), parts)
        yield Case(f"consistent-{name}", start, name != "plain", size)
    for up in ("q8_0", "q8_0f", "q4_0"):
        start, size = sparse_model(LLAMA, parts, up)
        yield Case(f"consistent-up-{up}", start, up != "q8_0", size)


def linear_cases(parts: Parts) -> Iterator[Case]:
    """The same with linear layers."""
    changes: dict[str, dict[str, Any]] = {
        "plain": {},
        "taps-2": {"conv_taps": 2},
        "taps-8": {"conv_taps": 8},
        "both-local": {"window": 5, "local_layers": (0,)},
        "both-no-rope": {"no_rope_layers": (0,)},
        "taps-1": {"conv_taps": 1},
        "taps-9": {"conv_taps": 9},
        "taps-0": {"conv_taps": 0},
        "v-heads-3": {"linear_v_heads": 3, "linear_v_dim": 32},
        "v-heads-1": {"linear_v_heads": 1, "linear_v_dim": 32},
        "v-16": {"linear_v_dim": 4},
        "wide-k": {"linear_k_heads": 1, "linear_k_dim": 65536},
        "wide-v": {"linear_v_heads": 65536, "linear_v_dim": 32},
        "wide-qkv": {"linear_k_heads": 4, "linear_k_dim": 16384},
        "wrapping": {"linear_k_heads": 65536, "linear_v_heads": 65536, "linear_v_dim": 65536},
    }
    for name, change in changes.items():
        start, size = sparse_model(dataclasses.replace(QWEN, **change), parts)
        refused = name not in ("plain", "taps-2", "taps-8")
        yield Case(f"consistent-linear-{name}", start, refused, size)
    for name in ("wb", "wa"):
        start, size = sparse_model(QWEN, parts, four=f".{name}")
        yield Case(f"consistent-linear-q4-{name}", start, size=size)
