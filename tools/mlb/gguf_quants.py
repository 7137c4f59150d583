# SPDX-License-Identifier: MIT
"""The element types of GGUF files: their sizes, and what their bits stand for as float32.

Every known type has a size, so that a file can be checked whole; those that have a decoder can be
converted.  The arithmetic is that of ggml (single float32 operations in its order), so that the
values are equal to those of its own tools, bit for bit.

    PYTHONPATH=tools python3 -c "from mlb import gguf_quants as q; print(q.TYPES[12].name)"
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Callable

F32 = npt.NDArray[np.float32]
U8 = npt.NDArray[np.uint8]
Blocks = npt.NDArray[Any]

SUPER = 256  # elements of a K-quant's block

# The blocks as they are stored; the fields have ggml's names.
Q4_0 = np.dtype([("d", "<f2"), ("qs", "u1", 16)])
Q4_1 = np.dtype([("d", "<f2"), ("m", "<f2"), ("qs", "u1", 16)])
Q5_0 = np.dtype([("d", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)])
Q5_1 = np.dtype([("d", "<f2"), ("m", "<f2"), ("qh", "u1", 4), ("qs", "u1", 16)])
Q8_0 = np.dtype([("d", "<f2"), ("qs", "i1", 32)])
Q2_K = np.dtype([("scales", "u1", 16), ("qs", "u1", 64), ("d", "<f2"), ("dmin", "<f2")])
Q3_K = np.dtype([("hmask", "u1", 32), ("qs", "u1", 64), ("scales", "u1", 12), ("d", "<f2")])
Q4_K = np.dtype([("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qs", "u1", 128)])
Q5_K = np.dtype(
    [("d", "<f2"), ("dmin", "<f2"), ("scales", "u1", 12), ("qh", "u1", 32), ("qs", "u1", 128)]
)
Q6_K = np.dtype([("ql", "u1", 128), ("qh", "u1", 64), ("scales", "i1", 16), ("d", "<f2")])


def _float(values: npt.NDArray[Any]) -> F32:
    return values.astype(np.float32)


def _column(values: npt.NDArray[Any]) -> F32:
    """One number per block as float32 [blocks, 1], to be multiplied with a block's elements."""
    return values.astype(np.float32)[:, None]


def _planes(packed: U8, bits: int, run: int) -> U8:
    """Unpack numbers of `bits` bits: `run` bytes hold first their lowest numbers, then the next.

    packed [blocks, bytes] -> [blocks, bytes/run, 8/bits, run], flat after the first axis.
    """
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]  # [8/bits, 1]
    found = packed.reshape(len(packed), -1, 1, run) >> shifts & np.uint8((1 << bits) - 1)
    return found.reshape(len(packed), -1)


def _fifth_bits(qh: U8) -> U8:
    """Bits 0 to 31 of each block, as bit 4 of a number: [blocks, 4] -> [blocks, 32]."""
    return np.unpackbits(qh, axis=1, bitorder="little") << np.uint8(4)


def _scale(values: npt.NDArray[Any], factors: F32) -> F32:
    """Values [blocks, 256] times factors [blocks, parts], a factor for each equal part."""
    parts = values.reshape(*factors.shape, -1)
    return (factors[..., None] * _float(parts)).reshape(values.shape)


def _spread(factors: F32) -> F32:
    """Factors [blocks, parts] repeated to [blocks, 256]."""
    return np.repeat(factors, SUPER // factors.shape[1], axis=1)


def _from_f32(raw: Blocks) -> F32:
    return raw.astype(np.float32, copy=False)


def _from_bf16(raw: Blocks) -> F32:
    return (raw.astype(np.uint32) << np.uint32(16)).view(np.float32)  # the upper half of a float32


def _from_q4_0(b: Blocks) -> F32:
    return _column(b["d"]) * _float(_planes(b["qs"], 4, 16).astype(np.int8) - np.int8(8))


def _from_q4_1(b: Blocks) -> F32:
    return _column(b["d"]) * _float(_planes(b["qs"], 4, 16)) + _column(b["m"])


def _from_q5_0(b: Blocks) -> F32:
    q = (_planes(b["qs"], 4, 16) | _fifth_bits(b["qh"])).astype(np.int8) - np.int8(16)
    return _column(b["d"]) * _float(q)


def _from_q5_1(b: Blocks) -> F32:
    q = _planes(b["qs"], 4, 16) | _fifth_bits(b["qh"])
    return _column(b["d"]) * _float(q) + _column(b["m"])


def _from_q8_0(b: Blocks) -> F32:
    return _float(b["qs"]) * _column(b["d"])


def _from_q2_k(b: Blocks) -> F32:
    scale = _column(b["d"]) * _float(b["scales"] & 15)  # [blocks, 16]
    least = _column(b["dmin"]) * _float(b["scales"] >> 4)
    return _scale(_planes(b["qs"], 2, 32), scale) - _spread(least)


def _from_q3_k(b: Blocks) -> F32:
    low = _planes(b["scales"][:, :8], 4, 8)
    high = _planes(b["scales"][:, 8:], 2, 4)
    scale = _float((low | high << np.uint8(4)).astype(np.int8) - np.int8(32))  # [blocks, 16]
    absent = _planes(b["hmask"], 1, 32) ^ np.uint8(1)  # the bit says that 4 is not subtracted
    q = _planes(b["qs"], 2, 32).astype(np.int8) - (absent << np.uint8(2)).astype(np.int8)
    return _scale(q, _column(b["d"]) * scale)


def _scales_and_minima(b: Blocks) -> tuple[F32, F32]:
    """Of Q4_K and Q5_K, [blocks, 8] each: 6 bits, the upper two of the last four elsewhere."""
    first, second, mixed = b["scales"][:, :4], b["scales"][:, 4:8], b["scales"][:, 8:]
    scale = np.hstack([first & 0x3F, mixed & 0x0F | first >> 2 & 0x30])
    least = np.hstack([second & 0x3F, mixed >> 4 | second >> 2 & 0x30])
    return _column(b["d"]) * _float(scale), _column(b["dmin"]) * _float(least)


def _from_q4_k(b: Blocks) -> F32:
    scale, least = _scales_and_minima(b)
    return _scale(_planes(b["qs"], 4, 32), scale) - _spread(least)


def _from_q5_k(b: Blocks) -> F32:
    scale, least = _scales_and_minima(b)
    q = _planes(b["qs"], 4, 32) | _planes(b["qh"], 1, 32) << np.uint8(4)
    return _scale(q, scale) - _spread(least)


def _from_q6_k(b: Blocks) -> F32:
    q = _planes(b["ql"], 4, 64) | _planes(b["qh"], 2, 32) << np.uint8(4)
    return _scale(q.astype(np.int8) - np.int8(32), _column(b["d"]) * _float(b["scales"]))


@dataclasses.dataclass(frozen=True)
class GgufType:
    """An element type: elements and bytes of a block; its numpy type and decoder if it has them."""

    name: str
    elements: int
    block_bytes: int
    dtype: np.dtype[Any] | None = None
    decode: Callable[[Blocks], F32] | None = None

    def row_bytes(self, k: int) -> int:
        """Bytes of k elements, a multiple of a block's."""
        return k // self.elements * self.block_bytes

    def values(self, raw: bytes) -> F32:
        """The values [n] that whole blocks stand for."""
        assert self.dtype is not None
        assert self.decode is not None
        return self.decode(np.frombuffer(raw, self.dtype)).reshape(-1)


def _known(
    name: str, elements: int, dtype: str | np.dtype[Any], decode: Callable[[Blocks], F32]
) -> GgufType:
    made: np.dtype[Any] = np.dtype(dtype)
    return GgufType(name, elements, made.itemsize, made, decode)


TYPES: dict[int, GgufType] = {
    0: _known("F32", 1, "<f4", _from_f32),
    1: _known("F16", 1, "<f2", _from_f32),
    2: _known("Q4_0", 32, Q4_0, _from_q4_0),
    3: _known("Q4_1", 32, Q4_1, _from_q4_1),
    6: _known("Q5_0", 32, Q5_0, _from_q5_0),
    7: _known("Q5_1", 32, Q5_1, _from_q5_1),
    8: _known("Q8_0", 32, Q8_0, _from_q8_0),
    9: GgufType("Q8_1", 32, 36),
    10: _known("Q2_K", SUPER, Q2_K, _from_q2_k),
    11: _known("Q3_K", SUPER, Q3_K, _from_q3_k),
    12: _known("Q4_K", SUPER, Q4_K, _from_q4_k),
    13: _known("Q5_K", SUPER, Q5_K, _from_q5_k),
    14: _known("Q6_K", SUPER, Q6_K, _from_q6_k),
    15: GgufType("Q8_K", SUPER, 292),
    16: GgufType("IQ2_XXS", SUPER, 66),
    17: GgufType("IQ2_XS", SUPER, 74),
    18: GgufType("IQ3_XXS", SUPER, 98),
    19: GgufType("IQ1_S", SUPER, 50),
    20: GgufType("IQ4_NL", 32, 18),
    21: GgufType("IQ3_S", SUPER, 110),
    22: GgufType("IQ2_S", SUPER, 82),
    23: GgufType("IQ4_XS", SUPER, 136),
    24: GgufType("I8", 1, 1),
    25: GgufType("I16", 1, 2),
    26: GgufType("I32", 1, 4),
    27: GgufType("I64", 1, 8),
    28: GgufType("F64", 1, 8),
    29: GgufType("IQ1_M", SUPER, 56),
    30: _known("BF16", 1, "<u2", _from_bf16),
    31: GgufType("Q4_0_4_4", 32, 18),
    32: GgufType("Q4_0_4_8", 32, 18),
    33: GgufType("Q4_0_8_8", 32, 18),
    34: GgufType("TQ1_0", SUPER, 54),
    35: GgufType("TQ2_0", SUPER, 66),
    39: GgufType("MXFP4", 32, 17),
    40: GgufType("NVFP4", 64, 36),
}
SUPPORTED = tuple(kind.name for kind in TYPES.values() if kind.decode)
