# SPDX-License-Identifier: MIT
"""RoPE frequencies with their scaling, by transformers' formulas in its float32 steps.

Older files say rope_theta and rope_scaling, newer ones rope_parameters; the kind is under
rope_type or type; null is as good as absent.  What a key would change is never ignored.

    PYTHONPATH=tools python3 -c "from mlb.arch.rope import default; print(default(1e4, 8))"
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from mlb.checkpoint import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlb.arch.config import Config

F32 = npt.NDArray[np.float32]

MROPE = ("mrope_section", "mrope_interleaved")  # a text's three positions are one


class Rope(NamedTuple):
    """Radians per position of each pair; cosine and sine are multiplied by scale."""

    frequencies: F32
    scale: float = 1.0


def default(base: float, dim: int) -> F32:
    """Return 1 / base^(2i/dim)."""
    return np.float32(1) / _powers(base, dim)


def _powers(base: float, dim: int) -> F32:
    """Return base^(2i/dim) in float32, from float64."""
    exponent = np.arange(0, dim, 2, dtype=np.float32) / np.float32(dim)
    power = np.array([math.pow(base, float(e)) for e in exponent], dtype=np.float64)
    return power.astype(np.float32)


def read(
    config: Config,
    head_dim: int,
    max_seq: int,
    *,
    theta: float = 10000.0,
    partial: float = 1.0,
    mrope: bool = False,
) -> Rope:
    """Return what a flat rope_scaling or rope_parameters says.

    theta and partial are the family's own rope_theta and partial_rotary_factor; mrope: its sections
    of positions are known, and the same position in a text.
    """
    parameters = _parameters(config)
    theta = config.number("rope_theta", theta)
    factor = config.number("partial_rotary_factor", partial)
    inner = config.inside("rope_parameters", parameters)
    if mrope:
        for key in MROPE:
            inner.get(key, None)
    factor = inner.number("partial_rotary_factor", factor)
    if partial == 1.0 != factor:
        raise CheckpointError(
            f"{config.where}: partial_rotary_factor = {factor:g} is not supported in this family"
        )
    dim = int(head_dim * factor)
    if dim < 2 or dim % 2 or dim > head_dim:
        raise CheckpointError(
            f"{config.where}: partial_rotary_factor = {factor:g} of head_dim {head_dim}: expected "
            f"an even number from 2 to head_dim, found {dim}"
        )
    return scaled(inner, theta, dim, max_seq)


def _parameters(config: Config) -> Mapping[str, Any]:
    """Return rope_scaling or rope_parameters; where both are, they must agree."""
    older, newer = (config.get(key, None) for key in ("rope_scaling", "rope_parameters"))
    for key, value in (("rope_scaling", older), ("rope_parameters", newer)):
        if value is not None and not isinstance(value, dict):
            raise config.fail(key, "an object")
    if older and newer:
        for key in sorted(older.keys() & newer.keys()):
            if older[key] != newer[key]:
                raise CheckpointError(
                    f"{config.where}: rope_scaling and rope_parameters disagree: {key} is "
                    f"{older[key]!r} and {newer[key]!r}"
                )
        return {**newer, **older}
    return older or newer or {}


def scaled(inner: Config, theta: float, dim: int, max_seq: int) -> Rope:
    """Return the frequencies for one set of parameters; every key of it must be known."""
    kind = inner.get("rope_type", inner.get("type", "default"))
    inner.must_be("type", kind)
    if not isinstance(kind, str) or kind not in KINDS:
        raise CheckpointError(
            f"{inner.where}: RoPE scaling of type {kind!r} is not supported: expected "
            f"{', '.join(sorted(KINDS))}"
        )
    base = inner.number("rope_theta", theta)
    if base <= 1:
        raise CheckpointError(f"{inner.where}: RoPE base: expected more than 1, found {base:g}")
    with np.errstate(all="ignore"):
        found = KINDS[kind](inner, base, dim, max_seq)
    inner.finish()
    bad = not np.isfinite(found.frequencies).all() or (found.frequencies < 0).any()
    if bad or not math.isfinite(found.scale) or found.scale <= 0:
        raise CheckpointError(f"{inner.where}: gives frequencies that are no finite numbers")
    return found


def _default(inner: Config, base: float, dim: int, max_seq: int) -> Rope:
    del inner, max_seq
    return Rope(default(base, dim))


def _linear(inner: Config, base: float, dim: int, max_seq: int) -> Rope:
    """Positions divided by a factor."""
    del max_seq
    return Rope(default(base, dim) / np.float32(inner.number("factor")))


def _llama3(inner: Config, base: float, dim: int, max_seq: int) -> Rope:
    """Long waves divided by a factor, short ones kept, those between interpolated."""
    factor = inner.number("factor")
    low, high = inner.number("low_freq_factor"), inner.number("high_freq_factor")
    old = inner.integer("original_max_position_embeddings", max_seq, most=1 << 24)
    if high <= low:
        raise inner.fail("high_freq_factor", f"more than low_freq_factor {low:g}")
    c = np.float32
    plain = default(base, dim)
    wave = c(2 * math.pi) / plain
    long = wave > c(old / low)
    short = wave < c(old / high)
    divided = np.where(long, plain / c(factor), plain)
    smooth = (c(old) / wave - c(low)) / c(high - low)
    between = (c(1) - smooth) * divided / c(factor) + smooth * divided
    return Rope(np.where(long | short, divided, between))


def _yarn(inner: Config, base: float, dim: int, max_seq: int) -> Rope:
    """YaRN (Peng et al., arXiv 2309.00071): a ramp between divided and plain frequencies."""
    old = inner.integer("original_max_position_embeddings", max_seq, most=1 << 24)
    factor = inner.number("factor", max_seq / old)
    powers = _powers(base, dim)
    # transformers reads a 0 as absent.
    fast, slow = inner.amount("beta_fast", 32.0) or 32.0, inner.amount("beta_slow", 1.0) or 1.0

    def pair_of(turns: float) -> float:
        return dim * math.log(old / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = pair_of(fast), pair_of(slow)
    if inner.flag("truncate", default=True):
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, dim - 1)
    if first == last:
        last += 0.001
    c = np.float32
    steps = (np.arange(len(powers), dtype=np.float32) - c(first)) / c(last - first)
    kept = c(1) - np.clip(steps, c(0), c(1))
    divided = c(1) / (c(factor) * powers)
    frequencies = divided * (c(1) - kept) + (c(1) / powers) * kept
    return Rope(frequencies, _yarn_scale(inner, factor))


def _yarn_scale(inner: Config, factor: float) -> float:
    """Return the attention factor, given or by the factor."""
    m, m_all = inner.amount("mscale", 0.0), inner.amount("mscale_all_dim", 0.0)
    if inner.get("attention_factor", None) is not None:
        return float(np.float32(inner.number("attention_factor")))

    def mscale(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    return float(np.float32(mscale(m) / mscale(m_all) if m and m_all else mscale(1.0)))


KINDS = {"default": _default, "linear": _linear, "llama3": _llama3, "yarn": _yarn}
