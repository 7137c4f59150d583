# SPDX-License-Identifier: MIT
"""The runtime's arithmetic in numpy, step by step (docs/determinism.md, runtime/kernels/kernels.h).

PYTHONPATH=tools python3 -m mlb.reference model.mlb 1,338,257 --exact unfused
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mlb import quant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

F32 = npt.NDArray[np.float32]
Operand = F32 | np.float32

LANES = 16
SEGMENT = 512


def visible(tokens: int, window: int) -> npt.NDArray[np.bool_]:
    """[query, position]: may the query see the position?"""
    behind = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    return (behind >= 0) & ((behind < window) if window else True)


def delta_gates(a: F32, b: F32, rate: F32, bias: F32) -> tuple[F32, F32]:
    """Decay and strength of the update [tokens, heads], in float64 and rounded once."""
    x, y = a.astype(np.float64) + bias.astype(np.float64), b.astype(np.float64)
    with np.errstate(over="ignore"):
        decay = np.exp(-rate.astype(np.float64) * np.logaddexp(0.0, x))
        beta = 1.0 / (1.0 + np.exp(-y))
    return decay.astype(np.float32), beta.astype(np.float32)


def fma(a: F32, b: Operand, c: F32) -> F32:
    """Return c + a*b, rounded once.

    In float64 the product is exact, and the sum is near enough unless it was rounded to a value
    half-way between two float32: there its error decides the side.
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    half_way = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
    if half_way.any():
        product, addend = (np.broadcast_to(z, total.shape)[half_way] for z in (product, addend))
        value = total[half_way]
        part = value - product
        error = (product - (value - part)) + (addend - part)  # Knuth's two-sum
        toward = np.where(error > 0, np.inf, -np.inf)
        total[half_way] = np.where(error == 0, value, np.nextafter(value, toward))
    return total.astype(np.float32)


def multiply_add(a: F32, b: Operand, c: F32) -> F32:
    """Return c + a*b, rounded twice."""
    return c + a * b


def lane_sum(x: F32) -> F32:
    """The sum of 16 lanes (the last axis): halves are added, 8, 4, 2, 1."""
    for half in (8, 4, 2, 1):
        x = x[..., :half] + x[..., half:]
    return x[..., 0]


@dataclasses.dataclass(frozen=True)
class Exact:
    """What the kernels compute, step by step; `madd` is fma or multiply_add."""

    madd: Callable[[F32, Operand, F32], F32]

    def embed(self, rows: quant.Blocks, scale: float) -> F32:
        """The rows, scaled."""
        return np.float32(scale) * quant.dequantize(rows)

    def product(self, x: F32, rows: quant.Blocks) -> F32:
        """Quantize x, then one chain over the blocks for each output."""
        d, q = self.quantize(x)  # [tokens, blocks], [tokens, blocks, 32]
        scales = rows["d"].astype(np.float32)  # [rows, blocks]
        # |dot| < 2^24: any order of summation in float32 is exact, so BLAS may compute it.
        weights = quant.integers(rows).astype(np.float32).transpose(1, 0, 2)  # [blocks, rows, 32]
        dots = q.transpose(1, 0, 2) @ weights.transpose(0, 2, 1)  # [blocks, tokens, rows]
        out = np.zeros((x.shape[0], rows.shape[0]), dtype=np.float32)
        for b in range(rows.shape[1]):
            out = self.madd(d[:, b, None] * scales[None, :, b], dots[b], out)
        return out

    def quantize(self, x: F32) -> tuple[F32, F32]:
        """Activations as scale and integers per block of 32."""
        blocks = x.reshape(x.shape[0], -1, quant.BLOCK)
        amax = np.abs(blocks).max(axis=-1)
        zero = amax < np.float32(1e-30)
        inverse = np.float32(127) / np.where(zero, np.float32(1), amax)
        d = np.where(zero, np.float32(0), amax / np.float32(127))
        q = np.rint(blocks * inverse[..., None])
        return d, np.where(zero[..., None], np.float32(0), q)

    def norm(self, x: F32, gain: F32, eps: float) -> F32:
        """RMSNorm over the last axis, the sum of squares in 16 lanes."""
        mean = self._squares(x) / np.float32(x.shape[-1])
        scale = np.float32(1) / np.sqrt(mean + np.float32(eps))
        normal: F32 = x * scale[..., None] * gain
        return normal

    def unit(self, x: F32, eps: float, scale: float) -> F32:
        """Vectors of length `scale`."""
        inverse = np.float32(1) / np.sqrt(self._squares(x) + np.float32(eps))
        of_length: F32 = x * inverse[..., None] * np.float32(scale)
        return of_length

    def _squares(self, x: F32) -> F32:
        """The sum of squares over the last axis, in 16 lanes."""
        n = x.shape[-1]
        padded = np.zeros((*x.shape[:-1], -(-n // LANES) * LANES), dtype=np.float32)
        padded[..., :n] = x
        total = np.zeros((*x.shape[:-1], LANES), dtype=np.float32)
        for i in range(0, padded.shape[-1], LANES):
            part = padded[..., i : i + LANES]
            total = self.madd(part, part, total)
        return lane_sum(total)

    def exp(self, x: F32) -> F32:
        """Return e^x for x clamped to -87..88 (runtime/kernels/tmpl/exp.h)."""
        c = np.float32
        x = np.clip(x, c(-87), c(88))
        n = np.rint(x * c(1.44269504))
        r = self.madd(-n, c(0.693359375), x)
        r = self.madd(-n, c(-2.12194440e-4), r)
        p = np.full_like(r, 1.9875691500e-4)
        for term in (
            1.3981999507e-3,
            8.3334519073e-3,
            4.1665795894e-2,
            1.6666665459e-1,
            5.0000001201e-1,
        ):
            p = self.madd(p, r, np.full_like(r, term))
        p = self.madd(r * r, p, r + c(1))
        power: F32 = np.ldexp(p, n.astype(np.int32))
        return power

    def glu(self, gate: F32, up: F32, activation: str) -> F32:
        """The activation of the gate, times up."""
        argument = gate
        if activation != "silu":
            square = gate * gate
            argument = self.madd(square * np.float32(0.044715), gate, gate) * np.float32(1.59576912)
        return self.gated(gate, argument) * up

    def gated(self, x: F32, gate: F32) -> F32:
        """Times the logistic function of the gate."""
        return x / (np.float32(1) + self.exp(-gate))

    def cap(self, x: F32, cap: float) -> F32:
        """The soft cap, as cap - 2 cap / (1 + e^(2x/cap))."""
        c = np.float32(cap)
        capped: F32 = c - np.float32(2) * c / (np.float32(1) + self.exp(x * (np.float32(2) / c)))
        return capped

    def rope(self, x: F32, cosine: F32, sine: F32) -> F32:
        """Turn the interleaved pairs of each head: the product with the sine is rounded first."""
        end, out = 2 * cosine.shape[-1], x.copy()
        a, b = x[..., 0:end:2], x[..., 1:end:2]
        cosine = np.broadcast_to(cosine, a.shape)
        out[..., 0:end:2] = self.madd(a, cosine, b * -sine)
        out[..., 1:end:2] = self.madd(b, cosine, a * sine)
        return out

    def attend(self, q: F32, k: F32, v: F32, scale: float, cap: float, *, window: int) -> F32:
        """Attention by segments of 512 positions, which are merged in order."""
        tokens, heads, head_dim = q.shape
        groups = q.reshape(tokens, k.shape[1], -1, head_dim)
        seen = visible(tokens, window)
        out = np.empty_like(groups)
        for kv in range(k.shape[1]):
            parts = [
                self._segment(
                    groups[:, kv],
                    k[at : at + SEGMENT, kv],
                    v[at : at + SEGMENT, kv],
                    (scale, cap),
                    seen[:, None, at : at + SEGMENT],
                )
                for at in range(0, tokens, SEGMENT)
            ]
            out[:, kv] = self._merge(parts)
        return out.reshape(tokens, heads, head_dim)

    def _segment(
        self, q: F32, k: F32, v: F32, how: tuple[float, float], seen: npt.NDArray[np.bool_]
    ) -> tuple[F32, F32, F32]:
        """Weighted values o [tokens, group, head_dim], maximum m and sum l [tokens, group].

        how: scale and soft cap of the scores; `seen` is [tokens, 1, positions].
        """
        score = np.zeros((*q.shape[:2], len(k)), dtype=np.float32)
        for d in range(q.shape[2]):
            score = self.madd(q[:, :, d, None], k[None, None, :, d], score)
        scale, cap = how
        score *= np.float32(scale)
        score = self.cap(score, cap) if cap else score
        m = np.where(seen, score, np.float32(-np.inf)).max(axis=-1)
        top = np.where(np.isfinite(m), m, np.float32(0))
        weight = np.where(seen, self.exp(score - top[..., None]), np.float32(0))
        lanes = np.zeros((*q.shape[:2], LANES), dtype=np.float32)
        for i in range(0, len(k), LANES):
            part = weight[..., i : i + LANES]
            lanes[..., : part.shape[-1]] += part
        o = np.zeros_like(q)
        for i in range(len(k)):
            o = self.madd(weight[..., i, None], v[i], o)
        return o, m, lane_sum(lanes)

    def _merge(self, parts: Sequence[tuple[F32, F32, F32]]) -> F32:
        """One vector of the segments' (o, m, l); a segment that a token does not see adds 0."""
        top = np.maximum.reduce([m for _, m, _ in parts])
        total, out = np.zeros_like(top), np.zeros_like(parts[0][0])
        for o, m, length in parts:
            weight = self.exp(m - top)
            total = self.madd(weight, length, total)
            out = self.madd(weight[..., None], o, out)
        merged: F32 = out / total[..., None]
        return merged

    def convolve(self, x: F32, taps: F32) -> F32:
        """Each channel over the last tokens, then SiLU: one chain, the oldest token first."""
        padded = np.concatenate([np.zeros_like(x[:1])] * (len(taps) - 1) + [x])
        total = np.zeros_like(x)
        for j, tap in enumerate(taps):
            total = self.madd(padded[j : j + len(x)], tap, total)
        return self.gated(total, total)

    def delta(self, q: F32, k: F32, v: F32, decay: F32, beta: F32) -> F32:
        """The gated delta rule; sums over the rows of a state are chains in their order."""
        out = np.empty_like(v)
        state = np.zeros((*k.shape[1:], v.shape[-1]), dtype=np.float32)  # [heads, k_dim, v_dim]
        for t in range(len(q)):
            kept = decay[t, :, None]
            update = beta[t, :, None] * (v[t] - kept * self._recall(state, k[t]))
            state = self.madd(k[t][:, :, None], update[:, None, :], kept[..., None] * state)
            out[t] = self._recall(state, q[t])
        return out

    def _recall(self, state: F32, x: F32) -> F32:
        """The sum of the state's rows, each times its element of x [heads, k_dim]."""
        total = np.zeros_like(state[:, 0])
        for i in range(state.shape[1]):
            total = self.madd(state[:, i], x[:, i, None], total)
        return total


FUSED, UNFUSED = Exact(fma), Exact(multiply_add)
CLASSES = {"fused": FUSED, "unfused": UNFUSED}
