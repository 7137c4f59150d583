# SPDX-License-Identifier: MIT
"""Quantize rows of float32 weights to blocks of 32, and back: the types of docs/format-mlb.md.

Q8_0   The scale is max|x| / 127, rounded to its stored type first; then q = round(x / scale), so
       that the rounding of the scale costs nothing.  A block whose scale is below the stored
       type's range is zero.
Q4_0   Rule "fit": the block's largest value is mapped to either end of the range; each mapping
       gives integers q, and each q its least-squares scale sum(wxq) / sum(wqq) with weights
       w = sqrt(mean(xx) + xx), since errors of large weights cost more.  The mapping with the least
       error is kept and the integers are rounded once more against the scale as stored.
       Rule "round": llama.cpp's own (largest value to -8), for checkpoints trained for it.

Only single, correctly rounded operations in a fixed order are used, so that every machine writes
the same bytes.

    PYTHONPATH=tools python3 -c "import mlb.quant as q; print(q.row_bytes('q8_0', 4096))"
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
Blocks = npt.NDArray[np.void]

BLOCK = 32
F16_MAX = np.float32(65504.0)
SLICE = 1 << 18  # weights per step: the temporaries of one step stay in the cache

# Where the fit sends the value of largest magnitude, which keeps its sign or changes it.  Neither
# cuts it off: six mappings that do, and no weights, have 5% less squared error on normal weights,
# but a KL divergence from float32 that is 5% (SmolLM2 135M) and 20% (Gemma 3 270M) larger.
CANDIDATES = (-8.0, 7.0)

DTYPES: dict[str, np.dtype[np.void]] = {
    "q8_0": np.dtype([("d", "<f2"), ("q", "i1", (BLOCK,))]),
    "q8_0f": np.dtype([("d", "<f4"), ("q", "i1", (BLOCK,))]),
    "q4_0": np.dtype([("d", "<f2"), ("q", "u1", (BLOCK // 2,))]),
    "q4_0f": np.dtype([("d", "<f4"), ("q", "u1", (BLOCK // 2,))]),
}


class QuantError(Exception):
    """Weights that the chosen type cannot hold."""


def row_bytes(kind: str, k: int) -> int:
    """Bytes of one row of k weights."""
    return k // BLOCK * DTYPES[kind].itemsize


def quantize(x: F32, kind: str, rule: str = "fit") -> Blocks:
    """Quantize x [rows, k], k a multiple of 32, to blocks [rows, k/32] of DTYPES[kind]."""
    rows, k = x.shape
    if k % BLOCK:
        raise QuantError(f"rows of {k} weights: expected a multiple of {BLOCK}")
    flat = np.ascontiguousarray(x, dtype=np.float32).reshape(-1, BLOCK)  # [blocks, 32]
    out = np.empty(len(flat), dtype=DTYPES[kind])
    step = SLICE // BLOCK
    for at in range(0, len(flat), step):
        part = flat[at : at + step]
        if kind.startswith("q8"):
            _quantize_q8(part, out[at : at + step])
        elif rule == "round":
            _round_q4(part, out[at : at + step])
        else:
            _fit_q4(part, out[at : at + step])
    return out.reshape(rows, k // BLOCK)


def dequantize(blocks: Blocks) -> F32:
    """The weights [rows, k] that blocks [rows, k/32] stand for, as float32."""
    q = integers(blocks).astype(np.float32)  # [rows, blocks, 32]
    q *= blocks["d"].astype(np.float32)[..., None]
    return q.reshape(blocks.shape[0], blocks.shape[1] * BLOCK)


def integers(blocks: Blocks) -> npt.NDArray[np.int8]:
    """The integers q [rows, blocks, 32] of blocks [rows, blocks]."""
    q = blocks["q"]
    if q.shape[-1] == BLOCK:
        return q
    out = np.empty((*blocks.shape, BLOCK), dtype=np.int8)
    out[..., : BLOCK // 2] = q & 15
    out[..., BLOCK // 2 :] = q >> 4
    out -= np.int8(8)
    return out


def _store_scale(d: F32, out: Blocks) -> F32:
    """Store d in its type and return what was stored; subnormal float32 becomes 0."""
    if out.dtype["d"] == np.dtype("<f2"):
        if np.any(np.abs(d) > F16_MAX):
            raise QuantError("weights are too large for f16 scales: convert with --scales f32")
        stored = d.astype(np.float16)
    else:
        stored = np.where(np.abs(d) < np.finfo(np.float32).tiny, np.float32(0), d)
    out["d"] = stored
    return stored.astype(np.float32)


def _inverse_or_zero(d: F32, numerator: float = 1.0) -> F32:
    """Numerator / d where that is a finite float32, else 0."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = np.float32(numerator) / d
    return np.where(np.isfinite(inverse), inverse, np.float32(0))


def _quantize_q8(x: F32, out: Blocks) -> None:
    d = _store_scale(np.abs(x).max(axis=1) / np.float32(127), out)
    q = x / np.where(d == 0, np.float32(np.inf), d)[:, None]
    np.rint(q, out=q)
    np.minimum(q, 127, out=q)
    np.maximum(q, -127, out=q)
    out["q"] = q.astype(np.int8)


def _store_q4(q: npt.NDArray[np.uint8], out: Blocks) -> None:
    """Q [blocks, 32] holds 0..15."""
    half = BLOCK // 2
    out["q"] = q[:, :half] | q[:, half:] << np.uint8(4)


def _extreme(x: F32) -> F32:
    """The value of largest magnitude of each block [blocks], the first one if there are several."""
    return np.take_along_axis(x, np.abs(x).argmax(axis=1)[:, None], axis=1)[:, 0]


def _round_q4(x: F32, out: Blocks) -> None:
    d = _extreme(x) / np.float32(-8)
    inverse = _inverse_or_zero(d)
    _store_scale(d, out)
    q = x * inverse[:, None]
    q += np.float32(8.5)  # and truncated by the conversion, as llama.cpp does
    _store_q4(np.minimum(q, 15, out=q).astype(np.uint8), out)


def _fit_q4(x: F32, out: Blocks) -> None:
    extreme = _extreme(x)
    # [32, blocks]: sums over a block are additions of whole rows.  Relative to the extreme, so that
    # no square over- or underflows.
    xt = np.ascontiguousarray(x.T) * _inverse_or_zero(extreme)
    square = xt * xt
    weight = np.sqrt(np.add.reduce(square, axis=0) / np.float32(BLOCK) + square)
    weighted = weight * xt
    q, product = square, np.empty_like(xt)
    best = np.full(len(x), -1, dtype=np.float32)
    scale = np.zeros(len(x), dtype=np.float32)
    for candidate in CANDIDATES:
        _round_to(xt, np.float32(candidate), q)
        xq = np.add.reduce(np.multiply(weighted, q, out=product), axis=0)
        np.multiply(q, q, out=product)
        qq = np.add.reduce(np.multiply(weight, product, out=product), axis=0)
        fitted = xq * _inverse_or_zero(qq)
        gain = fitted * xq  # the weighted squared error is sum(wxx) - gain
        better = gain > best
        best[better] = gain[better]
        scale[better] = fitted[better]
    stored = _store_scale(scale * extreme, out)
    _round_to(np.ascontiguousarray(x.T), _inverse_or_zero(stored), q)
    q += np.float32(8)
    _store_q4(q.T.astype(np.uint8), out)


def _round_to(xt: F32, inverse: F32 | np.float32, q: F32) -> None:
    """Q = xt * inverse, rounded to the integers -8..7."""
    np.multiply(xt, inverse, out=q)
    np.rint(q, out=q)
    np.minimum(q, 7, out=q)
    np.maximum(q, -8, out=q)
