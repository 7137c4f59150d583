# SPDX-License-Identifier: MIT
"""The forward pass in numpy, to be read and to be compared with.

forward() is the model; it is written once and computes with one of two arithmetics:

    Float   float32 and nothing else, as transformers computes, on original or dequantized weights
    Exact   the runtime's own: quantized activations, one float32 chain over the blocks of a row,
            sums over 16 lanes, its exp; equal to a build of the same class (docs/determinism.md)

    PYTHONPATH=tools python3 -m mlb.reference model.mlb 1,338,257 --exact fused
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from mlb import quant
from mlb.arch.common import Plan, load
from mlb.envelope import FormatError
from mlb.format import Model, read_model

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlb.checkpoint import Checkpoint
    from mlb.shape import Arch

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
Operand = F32 | np.float32

LANES = 16
SEGMENT = 512
SLICE = 1 << 21  # weights of a matrix that are handled at once


class Weights(Protocol):
    """Where forward() gets its tensors from."""

    def vector(self, name: str) -> F32:
        """A norm, or the RoPE frequencies."""

    def rows(self, name: str, row0: int, row1: int) -> Any:
        """Rows of a matrix: float32 [rows, k] for Float, blocks [rows, k/32] for Exact."""


class Arithmetic(Protocol):
    """The operations a model is made of; x is [tokens, n], heads are [tokens, heads, head_dim]."""

    def embed(self, rows: Any, scale: float) -> F32:
        """The rows, scaled."""

    def product(self, x: F32, rows: Any) -> F32:
        """The product with the transposed rows, [tokens, rows]."""

    def norm(self, x: F32, gain: F32, eps: float) -> F32:
        """RMSNorm over the last axis."""

    def glu(self, gate: F32, up: F32, activation: str) -> F32:
        """The activation of the gate, times up."""

    def rope(self, x: F32, cosine: F32, sine: F32) -> F32:
        """Turn the pairs of each head; cosine and sine are [tokens, 1, head_dim/2]."""

    def attend(self, q: F32, k: F32, v: F32, scale: float, window: int) -> F32:
        """Causal attention; window > 0: a token sees that many positions, itself included."""


def forward(
    arch: Arch,
    weights: Weights,
    tokens: Sequence[int],
    arithmetic: Arithmetic,
    *,
    layers: Sequence[int] | None = None,
    vocab: int | None = None,
) -> F32:
    """Logits [tokens, vocab] after each token.  `layers` and `vocab` limit the work, for checks."""
    a, w = arithmetic, weights
    if arch.attn_cap or arch.logit_cap:
        raise NotImplementedError("soft caps")
    widths = {"q": arch.n_heads * arch.head_dim, "kv": arch.n_kv_heads * arch.head_dim}

    def linear(x: F32, name: str, rows: int) -> F32:  # [tokens, k] -> [tokens, rows]
        step = max(1, SLICE // x.shape[1])
        parts = [a.product(x, w.rows(name, r, min(rows, r + step))) for r in range(0, rows, step)]
        return np.concatenate(parts, axis=1)

    def heads(x: F32) -> F32:  # [tokens, heads * head_dim] -> [tokens, heads, head_dim]
        return x.reshape(len(tokens), -1, arch.head_dim)

    wide = _angles(w.vector("rope_freq"), len(tokens))
    near = _angles(w.vector("rope_freq_local"), len(tokens)) if arch.local_rope else wide

    x = np.concatenate([a.embed(w.rows("embed", t, t + 1), arch.embed_scale) for t in tokens])
    for n in range(arch.n_layers) if layers is None else layers:
        layer = f"layers.{n}."
        local = n in arch.local_layers
        turn = near if local else wide

        h = a.norm(x, w.vector(layer + "attn_norm"), arch.norm_eps)
        q = heads(linear(h, layer + "wq", widths["q"]))
        k = heads(linear(h, layer + "wk", widths["kv"]))
        v = heads(linear(h, layer + "wv", widths["kv"]))
        if arch.qk_norm:
            q = a.norm(q, w.vector(layer + "q_norm"), arch.norm_eps)
            k = a.norm(k, w.vector(layer + "k_norm"), arch.norm_eps)
        q, k = a.rope(q, *turn), a.rope(k, *turn)
        h = a.attend(q, k, v, arch.attn_scale, arch.window if local else 0)
        h = linear(h.reshape(len(tokens), -1), layer + "wo", arch.dim)
        if arch.post_norms:
            h = a.norm(h, w.vector(layer + "attn_post_norm"), arch.norm_eps)
        x = x + h

        h = a.norm(x, w.vector(layer + "ffn_norm"), arch.norm_eps)
        gate = linear(h, layer + "gate", arch.hidden_dim)
        up = linear(h, layer + "up", arch.hidden_dim)
        h = linear(a.glu(gate, up, arch.activation), layer + "down", arch.dim)
        if arch.post_norms:
            h = a.norm(h, w.vector(layer + "ffn_post_norm"), arch.norm_eps)
        x = x + h

    x = a.norm(x, w.vector("out_norm"), arch.norm_eps)
    return linear(x, "embed" if arch.tied else "classifier", vocab or arch.vocab)


def _angles(frequencies: F32, tokens: int) -> tuple[F32, F32]:
    """Cosine and sine [tokens, 1, head_dim/2] of position * frequency, computed in float64."""
    angle = np.arange(tokens, dtype=np.float64)[:, None] * frequencies.astype(np.float64)
    return (
        np.cos(angle).astype(np.float32)[:, None, :],
        np.sin(angle).astype(np.float32)[:, None, :],
    )


def _visible(tokens: int, window: int) -> npt.NDArray[np.bool_]:
    """[query, position]: may the query see the position?"""
    behind = np.arange(tokens)[:, None] - np.arange(tokens)[None, :]
    return (behind >= 0) & ((behind < window) if window else True)


@dataclasses.dataclass(frozen=True)
class Float:
    """Plain float32.

    rotate_half: heads have pair i at i and i + head_dim/2, as transformers does, not at 2i, 2i + 1.
    """

    rotate_half: bool = False

    def embed(self, rows: F32, scale: float) -> F32:
        """The rows, scaled."""
        return rows * np.float32(scale)

    def product(self, x: F32, rows: F32) -> F32:
        """The product with the transposed rows."""
        return x @ rows.T

    def norm(self, x: F32, gain: F32, eps: float) -> F32:
        """RMSNorm over the last axis."""
        mean = np.add.reduce(x * x, axis=-1, keepdims=True) / np.float32(x.shape[-1])
        root: F32 = np.sqrt(mean + np.float32(eps))
        return x / root * gain

    def glu(self, gate: F32, up: F32, activation: str) -> F32:
        """The activation of the gate, times up."""
        if activation == "silu":
            argument = gate
        else:  # gelu(x) = x / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.044715 x^3)
            argument = np.float32(1.5957691216) * (gate + np.float32(0.044715) * gate * gate * gate)
        with np.errstate(over="ignore"):
            exponential: F32 = np.exp(-argument)
        return gate / (np.float32(1) + exponential) * up

    def rope(self, x: F32, cosine: F32, sine: F32) -> F32:
        """Turn the pairs of each head."""
        half = x.shape[-1] // 2
        out = np.empty_like(x)
        if self.rotate_half:
            a, b, first, second = x[..., :half], x[..., half:], out[..., :half], out[..., half:]
        else:
            a, b, first, second = x[..., 0::2], x[..., 1::2], out[..., 0::2], out[..., 1::2]
        first[...] = a * cosine - b * sine
        second[...] = b * cosine + a * sine
        return out

    def attend(self, q: F32, k: F32, v: F32, scale: float, window: int) -> F32:
        """Softmax of the scores of all positions a token sees, times their values."""
        group = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        score = np.einsum("thd,shd->hts", q, k, optimize=True) * np.float32(scale)
        score = np.where(_visible(len(q), window), score, np.float32(-np.inf))
        weight = np.exp(score - score.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        out: F32 = np.einsum("hts,shd->thd", weight, v, optimize=True)
        return out


# ---- the runtime's arithmetic ------------------------------------------------------------------


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
        n = x.shape[-1]
        padded = np.zeros((*x.shape[:-1], -(-n // LANES) * LANES), dtype=np.float32)
        padded[..., :n] = x
        total = np.zeros((*x.shape[:-1], LANES), dtype=np.float32)
        for i in range(0, padded.shape[-1], LANES):
            part = padded[..., i : i + LANES]
            total = self.madd(part, part, total)
        mean = lane_sum(total) / np.float32(n)
        scale = np.float32(1) / np.sqrt(mean + np.float32(eps))
        normal: F32 = x * scale[..., None] * gain
        return normal

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
        return gate / (np.float32(1) + self.exp(-argument)) * up

    def rope(self, x: F32, cosine: F32, sine: F32) -> F32:
        """Turn the interleaved pairs of each head: the product with the sine is rounded first."""
        out = np.empty_like(x)
        a, b = x[..., 0::2], x[..., 1::2]
        cosine = np.broadcast_to(cosine, a.shape)
        out[..., 0::2] = self.madd(a, cosine, b * -sine)
        out[..., 1::2] = self.madd(b, cosine, a * sine)
        return out

    def attend(self, q: F32, k: F32, v: F32, scale: float, window: int) -> F32:
        """Attention by segments of 512 positions, which are merged in order."""
        tokens, heads, head_dim = q.shape
        groups = q.reshape(tokens, k.shape[1], -1, head_dim)
        visible = _visible(tokens, window)
        out = np.empty_like(groups)
        for kv in range(k.shape[1]):
            parts = [
                self._segment(
                    groups[:, kv],
                    k[at : at + SEGMENT, kv],
                    v[at : at + SEGMENT, kv],
                    scale,
                    visible[:, None, at : at + SEGMENT],
                )
                for at in range(0, tokens, SEGMENT)
            ]
            out[:, kv] = self._merge(parts)
        return out.reshape(tokens, heads, head_dim)

    def _segment(
        self, q: F32, k: F32, v: F32, scale: float, seen: npt.NDArray[np.bool_]
    ) -> tuple[F32, F32, F32]:
        """Weighted values o [tokens, group, head_dim], maximum m and sum l [tokens, group].

        `seen` is [tokens, 1, positions].
        """
        score = np.zeros((*q.shape[:2], len(k)), dtype=np.float32)
        for d in range(q.shape[2]):
            score = self.madd(q[:, :, d, None], k[None, None, :, d], score)
        score *= np.float32(scale)
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


FUSED, UNFUSED = Exact(fma), Exact(multiply_add)
CLASSES = {"fused": FUSED, "unfused": UNFUSED}


# ---- where the weights come from ---------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class FileWeights:
    """The tensors of a model file: dequantized for Float, as blocks for Exact."""

    model: Model
    blocks: bool = False

    def vector(self, name: str) -> F32:
        """A norm, or the RoPE frequencies."""
        return np.array(self.model.tensors[name].values, dtype=np.float32)

    def rows(self, name: str, row0: int, row1: int) -> Any:
        """Rows of a matrix."""
        rows = self.model.tensors[name].values[row0:row1]
        return rows if self.blocks else quant.dequantize(rows)


@dataclasses.dataclass(frozen=True)
class CheckpointWeights:
    """The tensors of a checkpoint for Float, rounded to `types` if given.

    original: heads keep the checkpoint's order, so that Float(rotate_half=True) has to turn them.
    """

    plan: Plan
    checkpoint: Checkpoint
    types: Mapping[str, str] | None = None  # of each matrix, by our name
    rule: str = "fit"
    original: bool = False

    def _load(self, name: str, row0: int = 0, row1: int | None = None) -> F32:
        source = self.plan.sources[name]
        if self.original:
            source = dataclasses.replace(source, head_dim=0)
        return load(source, self.checkpoint, row0, row1)

    def vector(self, name: str) -> F32:
        """A norm, or the RoPE frequencies."""
        if name in self.plan.constants:
            return self.plan.constants[name]
        return self._load(name)

    def rows(self, name: str, row0: int, row1: int) -> F32:
        """Rows of a matrix."""
        rows = self._load(name, row0, row1)
        if self.types is None:
            return rows
        return quant.dequantize(quant.quantize(rows, self.types[name], self.rule))


def main(argv: Sequence[str] | None = None) -> int:
    """Print the most likely tokens after each token of a text given as ids."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="an .mlb file")
    parser.add_argument("tokens", help="token ids, comma-separated")
    parser.add_argument("--exact", choices=CLASSES, help="compute as a build of this class does")
    args = parser.parse_args(argv)
    try:
        model = read_model(args.model)
        tokens = [int(word) for word in args.tokens.split(",")]
        if not all(0 <= token < model.arch.vocab for token in tokens):
            raise ValueError(f"a token id is not below {model.arch.vocab}")
    except (FormatError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    arithmetic = CLASSES[args.exact] if args.exact else Float()
    weights = FileWeights(model, blocks=args.exact is not None)
    for token, logits in zip(tokens, forward(model.arch, weights, tokens, arithmetic), strict=True):
        best = np.argsort(-logits, kind="stable")[:5]
        print(token, "->", " ".join(f"{i}:{logits[i]:.4f}" for i in best))
    return 0


if __name__ == "__main__":
    sys.exit(main())
