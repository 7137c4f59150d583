# SPDX-License-Identifier: MIT
"""The forward pass in numpy, to be read and to be compared with.

forward() is the model; it is written once and computes with one of two arithmetics:

    Float   float32 and nothing else, as transformers computes, on original or dequantized weights
    Exact   the runtime's own: quantized activations, one float32 chain over the blocks of a row,
            sums over 16 lanes, its exp; equal to a build of the same class (reference_exact.py)

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

from mlb import quant, reference_exact
from mlb.arch.common import SLICE, Plan, Source, load, load_blocks
from mlb.envelope import FormatError
from mlb.format import Model, read_model
from mlb.reference_exact import delta_gates, visible

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlb.checkpoint import Checkpoint
    from mlb.shape import Arch

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

L2_EPS = 1e-6  # of a linear layer's queries and keys


class Weights(Protocol):
    """Where forward() gets its tensors from."""

    def vector(self, name: str) -> F32:
        """A norm, a bias, the RoPE frequencies."""

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

    def gated(self, x: F32, gate: F32) -> F32:
        """Times the logistic function of the gate."""

    def cap(self, x: F32, cap: float) -> F32:
        """The soft cap: cap * tanh(x / cap)."""

    def rope(self, x: F32, cosine: F32, sine: F32) -> F32:
        """Turn the first pairs of each head; cosine and sine are [tokens, 1, pairs]."""

    def attend(self, q: F32, k: F32, v: F32, scale: float, cap: float, *, window: int) -> F32:
        """Causal attention; window > 0: a token sees that many positions, itself included."""

    def convolve(self, x: F32, taps: F32) -> F32:
        """Each channel over the last tokens, by taps [taps, channels], then SiLU."""

    def unit(self, x: F32, eps: float, scale: float) -> F32:
        """Vectors of length `scale` over the last axis."""

    def delta(self, q: F32, k: F32, v: F32, decay: F32, beta: F32) -> F32:
        """The gated delta rule for each head; decay and beta are [tokens, heads]."""


# ---- the model -----------------------------------------------------------------------------------


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
    run = _Pass(arch, weights, arithmetic, len(tokens))
    x = np.concatenate([a.embed(w.rows("embed", t, t + 1), arch.embed_scale) for t in tokens])
    for n in range(arch.n_layers) if layers is None else layers:
        layer = f"layers.{n}."

        h = run.norm(x, layer + "attn_norm")
        h = run.linear_attention(h, n) if n in arch.linear_layers else run.attention(h, n)
        if arch.post_norms:
            h = run.norm(h, layer + "attn_post_norm")
        x = x + h

        h = run.norm(x, layer + "ffn_norm")
        gate = run.linear(h, layer + "gate", arch.hidden_dim)
        up = run.linear(h, layer + "up", arch.hidden_dim)
        h = run.linear(a.glu(gate, up, arch.activation), layer + "down", arch.dim)
        if arch.post_norms:
            h = run.norm(h, layer + "ffn_post_norm")
        x = x + h

    x = run.norm(x, "out_norm")
    logits = run.linear(x, "embed" if arch.tied else "classifier", vocab or arch.vocab)
    return a.cap(logits, arch.logit_cap) if arch.logit_cap else logits


@dataclasses.dataclass(frozen=True)
class _Pass:
    """One pass over some tokens."""

    arch: Arch
    w: Weights
    a: Arithmetic
    tokens: int

    def linear(self, x: F32, name: str, rows: int) -> F32:  # [tokens, k] -> [tokens, rows]
        """The product with a matrix, a slice of it at a time."""
        step = max(1, SLICE // x.shape[1])
        parts = [
            self.a.product(x, self.w.rows(name, r, min(rows, r + step)))
            for r in range(0, rows, step)
        ]
        return np.concatenate(parts, axis=1)

    def norm(self, x: F32, name: str) -> F32:
        """RMSNorm with the gain of that name."""
        return self.a.norm(x, self.w.vector(name), self.arch.norm_eps)

    def heads(self, x: F32, head_dim: int) -> F32:  # [tokens, n] -> [tokens, heads, head_dim]
        """The heads that lie side by side."""
        return x.reshape(self.tokens, -1, head_dim)

    def turn(self, local: bool) -> tuple[F32, F32]:  # noqa: FBT001  (which of the two, not a mode)
        """Cosine and sine [tokens, 1, pairs] of position * frequency, computed in float64."""
        own = local and self.arch.local_rope
        frequencies = self.w.vector("rope_freq_local" if own else "rope_freq")
        scale = 1.0 if own else float(np.float32(self.arch.rope_scale))
        angle = np.arange(self.tokens, dtype=np.float64)[:, None] * frequencies.astype(np.float64)
        return (
            (np.cos(angle) * scale).astype(np.float32)[:, None, :],
            (np.sin(angle) * scale).astype(np.float32)[:, None, :],
        )

    def attention(self, h: F32, n: int) -> F32:
        """Softmax attention over the positions before, with everything a family adds to it."""
        arch, a, layer = self.arch, self.a, f"layers.{n}."
        q = self.linear(h, layer + "wq", arch.q_dim)
        k = self.linear(h, layer + "wk", arch.kv_dim)
        v = self.linear(h, layer + "wv", arch.kv_dim)
        if arch.qkv_bias:
            q, k, v = (x + self.w.vector(f"{layer}b{c}") for x, c in ((q, "q"), (k, "k"), (v, "v")))
        q, k, v = (self.heads(x, arch.head_dim) for x in (q, k, v))
        if arch.qk_norm:
            q, k = self.norm(q, layer + "q_norm"), self.norm(k, layer + "k_norm")
        local = n in arch.local_layers
        if n not in arch.no_rope_layers:
            cosine, sine = self.turn(local)
            q, k = a.rope(q, cosine, sine), a.rope(k, cosine, sine)
        window = arch.window if local else 0
        out = a.attend(q, k, v, arch.attn_scale, arch.attn_cap, window=window)
        out = out.reshape(self.tokens, -1)
        if arch.attn_gate:
            out = a.gated(out, self.linear(h, layer + "wg", arch.q_dim))
        return self.linear(out, layer + "wo", arch.dim)

    def linear_attention(self, h: F32, n: int) -> F32:
        """The gated delta rule: a state per head in the place of the positions before."""
        arch, a, layer = self.arch, self.a, f"layers.{n}."
        taps = self.w.vector(layer + "conv").reshape(arch.conv_taps, arch.channels)
        mixed = a.convolve(self.linear(h, layer + "wqkv", arch.channels), taps)
        q, k, v = np.split(mixed, [arch.linear_k, 2 * arch.linear_k], axis=1)
        q, k = self.heads(q, arch.linear_k_dim), self.heads(k, arch.linear_k_dim)
        q, k = a.unit(q, L2_EPS, arch.linear_k_dim**-0.5), a.unit(k, L2_EPS, 1.0)
        group = arch.linear_v_heads // arch.linear_k_heads
        q, k = np.repeat(q, group, axis=1), np.repeat(k, group, axis=1)
        decay, beta = delta_gates(
            self.linear(h, layer + "wa", arch.linear_v_heads),
            self.linear(h, layer + "wb", arch.linear_v_heads),
            self.w.vector(layer + "decay_rate"),
            self.w.vector(layer + "dt_bias"),
        )
        out = a.delta(q, k, self.heads(v, arch.linear_v_dim), decay, beta)
        out = self.norm(out, layer + "delta_norm").reshape(self.tokens, -1)
        out = a.glu(self.linear(h, layer + "wz", arch.linear_v), out, "silu")
        return self.linear(out, layer + "wo", arch.dim)


@dataclasses.dataclass(frozen=True)
class Float:
    """Plain float32.

    rotate_half: pair i of n lies at i and i + n, as in transformers, not at 2i and 2i + 1.
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
        argument = gate
        if activation != "silu":  # gelu(x) = x / (1 + exp(-2u)), u = sqrt(2/pi) * (x + 0.0447 x^3)
            argument = np.float32(1.5957691216) * (gate + np.float32(0.044715) * gate * gate * gate)
        return self.gated(gate, argument) * up

    def gated(self, x: F32, gate: F32) -> F32:
        """Times the logistic function of the gate."""
        with np.errstate(over="ignore"):
            exponential: F32 = np.exp(-gate)
        return x / (np.float32(1) + exponential)

    def cap(self, x: F32, cap: float) -> F32:
        """The soft cap."""
        capped: F32 = np.tanh(x / np.float32(cap))
        return capped * np.float32(cap)

    def rope(self, x: F32, cosine: F32, sine: F32) -> F32:
        """Turn the first pairs of each head."""
        pairs, out = cosine.shape[-1], x.copy()
        even, odd = slice(0, 2 * pairs, 2), slice(1, 2 * pairs, 2)
        if self.rotate_half:
            even, odd = slice(0, pairs), slice(pairs, 2 * pairs)
        a, b = x[..., even], x[..., odd]
        out[..., even] = a * cosine - b * sine
        out[..., odd] = b * cosine + a * sine
        return out

    def attend(self, q: F32, k: F32, v: F32, scale: float, cap: float, *, window: int) -> F32:
        """Softmax of the scores of all positions a token sees, times their values."""
        group = q.shape[1] // k.shape[1]
        k, v = np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)
        score = np.einsum("thd,shd->hts", q, k, optimize=True) * np.float32(scale)
        score = self.cap(score, cap) if cap else score
        score = np.where(visible(len(q), window), score, np.float32(-np.inf))
        weight = np.exp(score - score.max(axis=-1, keepdims=True))
        weight /= weight.sum(axis=-1, keepdims=True)
        out: F32 = np.einsum("hts,shd->thd", weight, v, optimize=True)
        return out

    def convolve(self, x: F32, taps: F32) -> F32:
        """Each channel over the last tokens, then SiLU."""
        padded = np.concatenate([np.zeros_like(x[:1])] * (len(taps) - 1) + [x])
        total = np.zeros_like(x)
        for j, tap in enumerate(taps):
            total += padded[j : j + len(x)] * tap
        return self.gated(total, total)

    def unit(self, x: F32, eps: float, scale: float) -> F32:
        """Vectors of length `scale`."""
        square = np.add.reduce(x * x, axis=-1, keepdims=True)
        root: F32 = np.sqrt(square + np.float32(eps))
        return x / root * np.float32(scale)

    def delta(self, q: F32, k: F32, v: F32, decay: F32, beta: F32) -> F32:
        """The gated delta rule: forget, correct what the key recalls towards v, ask with q."""
        out = np.empty_like(v)
        state = np.zeros((*k.shape[1:], v.shape[-1]), dtype=np.float32)  # [heads, k_dim, v_dim]
        for t in range(len(q)):
            state *= decay[t, :, None, None]
            recalled = np.einsum("hkv,hk->hv", state, k[t])
            update = beta[t, :, None] * (v[t] - recalled)
            state += k[t][:, :, None] * update[:, None, :]
            out[t] = np.einsum("hkv,hk->hv", state, q[t])
        return out


CLASSES: Mapping[str, Arithmetic] = reference_exact.CLASSES


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

    def _source(self, name: str) -> Source:
        source = self.plan.sources[name]
        return dataclasses.replace(source, turned=0) if self.original else source

    def vector(self, name: str) -> F32:
        """A norm, or the RoPE frequencies."""
        if name in self.plan.constants:
            return self.plan.constants[name]
        return load(self._source(name), self.checkpoint)

    def rows(self, name: str, row0: int, row1: int) -> F32:
        """Rows of a matrix."""
        source = self._source(name)
        if self.types is None:
            return load(source, self.checkpoint, row0, row1)
        blocks = load_blocks(source, self.checkpoint, (row0, row1), self.types[name], self.rule)
        return quant.dequantize(blocks)


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
