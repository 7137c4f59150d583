# SPDX-License-Identifier: MIT
"""The quantizer: its error bounds, its extremes, and equality with llama.cpp's rounding.

.venv/bin/python -m pytest tests/py/test_quant.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlb import quant

F32 = quant.F32


def normal(rows: int = 64, k: int = 256, seed: int = 5) -> F32:
    return np.random.default_rng(seed).standard_normal((rows, k), dtype=np.float32)


def squared_error(x: F32, kind: str, rule: str = "fit") -> float:
    return float(np.mean((quant.dequantize(quant.quantize(x, kind, rule)) - x) ** 2))


@pytest.mark.parametrize("kind", ["q8_0", "q8_0f"])
def test_q8_is_within_half_a_step_of_every_weight(kind: str) -> None:
    x = normal()
    blocks = quant.quantize(x, kind)
    error = np.abs(quant.dequantize(blocks) - x).reshape(64, 8, 32)
    step = blocks["d"].astype(np.float32)[..., None]
    # The largest weight may be cut to 127 steps: f16 rounds the step down by at most 2^-11.
    assert (error <= step * (0.5 + 127 * 2**-11)).all()
    inner = np.abs(x.reshape(64, 8, 32)) < 126 * step
    assert (error[inner] <= (np.broadcast_to(step, inner.shape)[inner] * 0.50001)).all()


@pytest.mark.parametrize("kind", ["q8_0", "q8_0f"])
def test_q8_never_stores_minus_128(kind: str) -> None:
    x = np.concatenate([-np.abs(normal()), np.full((1, 256), -3.7, dtype=np.float32)])
    assert quant.integers(quant.quantize(x, kind)).min() == -127


@pytest.mark.parametrize("kind", sorted(quant.DTYPES))
@pytest.mark.parametrize("rule", ["fit", "round"])
def test_zeros_and_the_smallest_weights_become_exact_zeros(kind: str, rule: str) -> None:
    x = np.zeros((2, 32), dtype=np.float32)
    x[1, 3] = 1e-42
    blocks = quant.quantize(x, kind, rule)
    assert not quant.dequantize(blocks).any()
    assert np.isfinite(blocks["d"]).all()


def test_subnormal_f16_scales_keep_their_precision() -> None:
    x = normal() * np.float32(2e-4)  # scales near 5e-6, far below the least normal f16
    error = squared_error(x, "q8_0") / float(np.mean(x**2))
    assert error < 2e-3


@pytest.mark.parametrize(("kind", "rule"), [("q8_0", "fit"), ("q4_0", "fit"), ("q4_0", "round")])
def test_weights_beyond_f16_scales_are_refused_with_the_remedy(kind: str, rule: str) -> None:
    x = np.full((1, 32), 1e7, dtype=np.float32)
    with pytest.raises(quant.QuantError, match="--scales f32"):
        quant.quantize(x, kind, rule)
    wide = quant.dequantize(quant.quantize(x, f"{kind}f", rule))
    assert np.allclose(wide, x, rtol=0.01)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 100.0])
@pytest.mark.parametrize("kind", ["normal", "laplace", "uniform"])
def test_the_fit_has_less_squared_error_than_rounding(scale: float, kind: str) -> None:
    rng = np.random.default_rng(7)
    draw = {
        "normal": rng.standard_normal((128, 512)),
        "laplace": rng.laplace(size=(128, 512)),
        "uniform": rng.uniform(-1, 1, (128, 512)),
    }[kind]
    x = (draw * scale).astype(np.float32)
    assert squared_error(x, "q4_0", "fit") < 0.97 * squared_error(x, "q4_0", "round")


@pytest.mark.parametrize("target", [-8, 7])
def test_the_fit_is_no_worse_than_a_plain_mapping_to_either_end(target: int) -> None:
    x = normal()
    blocks = x.reshape(-1, 32)
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    q = np.clip(np.rint(blocks * (target / extreme)), -8, 7)
    weight = np.sqrt((blocks**2).mean(1, keepdims=True) + blocks**2)
    plain = (weight * (blocks - q * extreme / target) ** 2).sum(1)
    fitted = quant.dequantize(quant.quantize(x, "q4_0f")).reshape(-1, 32)
    ours = (weight * (blocks - fitted) ** 2).sum(1)
    assert (ours <= plain * 1.0001).all()
    assert ours.mean() < 0.95 * plain.mean()


@pytest.mark.parametrize("scale", [1e-30, 1e-20, 1e18, 1e30])
def test_the_fit_does_not_depend_on_the_magnitude(scale: float) -> None:
    x = normal()
    got = quant.dequantize(quant.quantize(x * np.float32(scale), "q4_0f"))
    assert np.isfinite(got).all()
    error = float(np.mean((got / np.float32(scale) - x) ** 2))
    assert error == pytest.approx(squared_error(x, "q4_0f"), rel=0.01)


def test_the_round_rule_gives_the_bytes_of_llama_cpp() -> None:
    gguf = pytest.importorskip("gguf")
    x = np.concatenate([normal(1024, 256), np.zeros((1, 256), np.float32), normal() * 1e-6])
    want = gguf.quants.quantize(x, gguf.GGMLQuantizationType.Q4_0)
    got = quant.quantize(x, "q4_0", "round").view(np.uint8)
    assert np.array_equal(want.reshape(-1), got.reshape(-1))


def test_q4_keeps_the_order_of_the_weights() -> None:
    x = np.repeat(np.arange(-8, 8, dtype=np.float32), 2)[None, :]
    assert np.array_equal(quant.dequantize(quant.quantize(x, "q4_0", "round")), x)


@pytest.mark.parametrize(("kind", "rule"), [("q8_0", "fit"), ("q4_0", "fit"), ("q4_0", "round")])
def test_rows_are_quantized_alone(kind: str, rule: str) -> None:
    x = normal(700, 512)  # more than one internal slice
    whole = quant.quantize(x, kind, rule)
    parts = [quant.quantize(x[r : r + 70], kind, rule) for r in range(0, 700, 70)]
    assert whole.tobytes() == b"".join(part.tobytes() for part in parts)


def test_a_width_that_is_no_multiple_of_32_is_refused() -> None:
    with pytest.raises(quant.QuantError, match="multiple of 32"):
        quant.quantize(np.zeros((1, 33), np.float32), "q8_0")
