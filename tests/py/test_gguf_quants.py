# SPDX-License-Identifier: MIT
"""The values of GGUF's element types are those of the gguf package, bit for bit.

.venv/bin/python -m pytest tests/py/test_gguf_quants.py
"""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from mlb.gguf_quants import SUPPORTED, TYPES, GgufType

BLOCKS = 64
DECODED = [kind for kind in TYPES.values() if kind.decode]


def numbered(kind: GgufType) -> int:
    """The number of a type in the package."""
    return int(gguf.GGMLQuantizationType[kind.name])


@pytest.mark.parametrize("kind", DECODED, ids=lambda kind: kind.name)
def test_values_equal_those_of_the_gguf_package(kind: GgufType) -> None:
    # Any bits: also scales that are NaN, infinite, zero or subnormal.
    random = np.random.default_rng(7)
    raw = random.integers(0, 256, (16, BLOCKS * kind.block_bytes), dtype=np.uint8)
    with np.errstate(all="ignore"):
        want = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType[kind.name])
        got = kind.values(raw.tobytes())
    assert got.dtype == np.float32
    assert np.array_equal(want.reshape(-1).view(np.uint32), got.view(np.uint32))


REMOVED = (31, 32, 33)  # Q4_0 in the order of one CPU: llama.cpp no longer has them
PRESENT = [number for number in TYPES if number not in REMOVED]


@pytest.mark.parametrize("number", PRESENT, ids=lambda number: TYPES[number].name)
def test_numbers_and_sizes_equal_those_of_the_gguf_package(number: int) -> None:
    kind = TYPES[number]
    assert numbered(kind) == number
    if kind.name != "Q8_1":  # only in memory; the package has an older size
        sizes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)]
        assert (kind.elements, kind.block_bytes) == sizes


def test_what_is_refused_is_what_the_documentation_says() -> None:
    assert (
        *("F32", "F16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"),
        *("Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "BF16"),
    ) == SUPPORTED
