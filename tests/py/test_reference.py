# SPDX-License-Identifier: MIT
"""On golden models: the numpy reference against transformers, the runtime against the reference.

KRAFLA_BUILD=build/avx2 .venv/bin/python -m pytest tests/py/test_reference.py
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert
import gen_random
import make_golden
from golden_models import GOLDENS
from mlb import arch, reference, reference_exact
from mlb.arch.common import check_tensors
from mlb.arch.config import Config
from mlb.checkpoint import open_safetensors, read_json
from mlb.format import Model, read_model

F32 = reference.F32
Krafla = Callable[..., Any]
Converted = Callable[[str, str], Path]

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
NAMES = tuple(golden.name for golden in GOLDENS)
LLAMA3_KEYS = (
    "factor",
    "high_freq_factor",
    "low_freq_factor",
    "original_max_position_embeddings",
)
BOUND = 1e-4  # of the largest logit: float32 in another order; Qwen3.5's delta rule comes to 1.1e-5


def tokens_of(name: str) -> list[int]:
    return [int(token) for token in json.loads((GOLDEN / name / "tokens.json").read_text())]


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Converted:
    """Return a function that converts a golden checkpoint once."""
    directory = tmp_path_factory.mktemp("golden")

    def model(name: str, wtype: str) -> Path:
        out = directory / f"{name}-{wtype}.mlb"
        if not out.exists():
            source = str(GOLDEN / name)
            assert convert.main(["hf", source, str(out), "--wtype", wtype]) == 0
        return out

    return model


def exact(model: Model, tokens: Sequence[int], build: Path) -> F32:
    """Return the logits the reference computes as this build should."""
    arithmetic = reference.CLASSES[make_golden.arithmetic_class(build)]
    weights = reference.FileWeights(model, blocks=True)
    return reference.forward(model.arch, weights, tokens, arithmetic)


def dumped(krafla: Krafla, out: Path, model: Path, tokens: Sequence[int], *options: str) -> F32:
    """Return the logits that ml_run writes."""
    listed = ",".join(map(str, tokens))
    done = krafla("ml_run", model, "--tokens", listed, "--dump-logits", out, *options)
    assert done.returncode == 0, done.stderr
    return np.fromfile(out, dtype="<f4").reshape(len(tokens), -1)


def difference(got: F32, want: F32) -> float:
    """Return the largest difference relative to the largest logit."""
    return float(np.abs(got - want).max() / np.abs(want).max())


def merged(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Return a configuration with other keys; None takes a key out."""
    out = {key: value for key, value in values.items() if key not in changes}
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(values.get(key), dict):
            out[key] = merged(values[key], value)
        elif value is not None:
            out[key] = value
    return out


def float_logits(name: str, changes: dict[str, Any], *, rotate_half: bool = False) -> F32:
    """Return the reference's logits of a golden checkpoint, whose configuration may be changed."""
    directory = GOLDEN / name
    checkpoint = open_safetensors(directory)
    config = Config(merged(read_json(directory / "config.json"), changes), name)
    plan = check_tensors(arch.plan(config), checkpoint.shapes, name)
    weights = reference.CheckpointWeights(plan, checkpoint, original=rotate_half)
    arithmetic = reference.Float(rotate_half=rotate_half)
    return reference.forward(plan.arch, weights, tokens_of(name), arithmetic)


# ---- the reference -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["interleaved", "rotate_half"])
@pytest.mark.parametrize("name", NAMES)
def test_the_float_reference_equals_transformers(name: str, order: str) -> None:
    original = order == "rotate_half"
    logits = float_logits(name, {}, rotate_half=original)
    want = np.load(GOLDEN / name / "logits.npy")
    assert len(want) == make_golden.TOKENS
    assert difference(logits, want) < BOUND


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_logits_are_what_transformers_computes_today(name: str) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    logits = make_golden.transformers_logits(GOLDEN / name, tokens_of(name))
    assert difference(logits, np.load(GOLDEN / name / "logits.npy")) < 1e-5


def text(**changes: Any) -> dict[str, Any]:
    """Return changes of an image-text model's language model."""
    return {"text_config": changes}


def rope(**changes: Any) -> dict[str, Any]:
    """Return changes of the RoPE parameters."""
    return {"rope_parameters": changes}


MATTERS = {  # what the golden models are there for; without it they would compute something else
    "llama3": ("llama_llama3", rope(rope_type="default", **dict.fromkeys(LLAMA3_KEYS))),
    "linear": ("mistral_full", rope(factor=1.0)),
    "yarn": ("qwen2_yarn", rope(factor=1.0)),
    "yarn-attention-factor": ("qwen3_yarn", rope(attention_factor=1.0)),
    "yarn-truncate": ("qwen3_yarn", rope(truncate=True)),
    "yarn-betas": ("qwen3_yarn", rope(beta_fast=None, beta_slow=None)),
    "yarn-scale": ("smollm3_local", rope(attention_factor=1.0)),
    "mistral-window": ("mistral", {"sliding_window": 10}),
    "qwen2-window": ("qwen2", {"sliding_window": 12}),
    "qwen2-max-window-layers": ("qwen2", {"layer_types": None, "max_window_layers": 2}),
    "qwen3-layer-types": ("qwen3", {"layer_types": ["full_attention", "sliding_attention"]}),
    "smollm3-no-rope": ("smollm3", {"no_rope_layers": [1, 1, 1, 1, 1]}),
    "smollm3-window": ("smollm3_local", {"sliding_window": 14}),
    "qwen3_5-rotary": ("qwen3_5", text(rope_parameters={"partial_rotary_factor": 0.5})),
    "qwen3_5-base": ("qwen3_5_text", rope(rope_theta=20000.0)),
    "gemma2-scores": ("gemma2", {"attn_logit_softcapping": None}),
    "gemma2-logits": ("gemma2", {"final_logit_softcapping": 4.0}),
    "gemma2-window": ("gemma2", {"sliding_window": 8}),
    "gemma2-scale": ("gemma2", {"query_pre_attn_scalar": 24}),
    "gemma3-window": ("gemma3", {"sliding_window": 64}),
    "gemma3-base": ("gemma3", rope(sliding_attention={"rope_theta": 1e6})),
    "gemma3-linear": ("gemma3_linear", rope(full_attention={"factor": 1.0})),
    "gemma3-cap": ("gemma3_linear", {"final_logit_softcapping": None}),
    "gemma3-image-window": ("gemma3_image", text(sliding_window=9)),
}


@pytest.mark.parametrize(("name", "changes"), MATTERS.values(), ids=MATTERS)
def test_every_feature_matters_in_its_golden_model(name: str, changes: dict[str, Any]) -> None:
    """Otherwise the tests above would prove little about it."""
    want = np.load(GOLDEN / name / "logits.npy")
    assert difference(float_logits(name, changes), want) > 10 * BOUND


@pytest.mark.parametrize("wtype", ["q8", "q4"])
@pytest.mark.parametrize("name", NAMES)
def test_the_exact_reference_is_near_the_float_reference(
    golden: Converted, name: str, wtype: str
) -> None:
    model, tokens = read_model(golden(name, wtype)), tokens_of(name)
    plain = reference.FileWeights(model)
    want = reference.forward(model.arch, plain, tokens, reference.Float())
    for arithmetic in reference.CLASSES.values():
        weights = reference.FileWeights(model, blocks=True)
        logits = reference.forward(model.arch, weights, tokens, arithmetic)
        # int8 activations on layers 32 to 64 wide; after the delta rule a norm brings outputs to
        # unit size that are next to nothing where a query is orthogonal to what the state holds
        noise = float(np.sqrt(np.mean((logits - want) ** 2)) / want.std())
        assert noise < (0.25 if model.arch.linear_layers else 0.06)


def test_fma_is_the_float32_nearest_to_the_exact_value() -> None:
    rng = np.random.default_rng(4)
    a, b, c = rng.standard_normal((3, 2000)).astype(np.float32)
    got = reference_exact.fma(a, b, c)
    assert (got != reference_exact.multiply_add(a, b, c)).any()
    below, above = np.nextafter(got, np.float32(-9)), np.nextafter(got, np.float32(9))
    for i in range(len(a)):
        exactly = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
        error = abs(Fraction(float(got[i])) - exactly)
        assert error <= abs(Fraction(float(below[i])) - exactly)
        assert error <= abs(Fraction(float(above[i])) - exactly)


def test_fma_decides_a_tie_by_what_float64_lost() -> None:
    # c + 2^-24 is half-way between two floats, of which c is the odd one; a*b is 2^-70 less.
    c = np.array([1 + 2**-23], dtype=np.float32)
    a = np.array([1 + 2**-23], dtype=np.float32)
    b = np.array([2**-24 * (1 - 2**-23)], dtype=np.float32)
    assert (a.astype(np.float64) * b + c).astype(np.float32)[0] == np.float32(1 + 2**-22)
    assert reference_exact.fma(a, b, c)[0] == c[0]
    # A true tie goes to the even one.
    assert reference_exact.fma(a, b * 0 + np.float32(2**-24), c * 0 + 1)[0] == np.float32(
        1 + 2**-23
    )
    half = np.array([2**-24], dtype=np.float32)
    assert reference_exact.fma(half, half * 0 + 1, c * 0 + 1)[0] == 1


@pytest.mark.parametrize(
    "arithmetic", reference_exact.CLASSES.values(), ids=reference_exact.CLASSES
)
def test_exp_has_the_relative_error_that_the_docs_name(arithmetic: reference_exact.Exact) -> None:
    x = np.linspace(-87, 88, 200001, dtype=np.float32)
    want = np.exp(x.astype(np.float64))
    assert np.abs(arithmetic.exp(x) / want - 1).max() < 1.3e-7


# ---- the runtime -------------------------------------------------------------------------------


@pytest.mark.parametrize("wtype", ["q8", "q4"])
@pytest.mark.parametrize("name", NAMES)
class TestGolden:
    """One golden model in one weight format."""

    @pytest.fixture
    def logits(
        self, golden: Converted, krafla: Krafla, tmp_path: Path, name: str, wtype: str
    ) -> F32:
        """Return what the runtime computes."""
        return dumped(krafla, tmp_path / "l.f32", golden(name, wtype), tokens_of(name))

    def test_the_runtime_equals_the_exact_reference(
        self, golden: Converted, build_dir: Path, logits: F32, name: str, wtype: str
    ) -> None:
        """Every logit, to a few units in its last place."""
        want = exact(read_model(golden(name, wtype)), tokens_of(name), build_dir)
        assert difference(logits, want) <= 1e-5

    def test_the_runtime_gives_the_bits_of_its_class(
        self, build_dir: Path, logits: F32, name: str, wtype: str
    ) -> None:
        """Every bit."""
        hashes = json.loads((GOLDEN / name / "hashes.json").read_text())
        want = hashes[wtype][make_golden.arithmetic_class(build_dir)]
        assert hashlib.sha256(logits.tobytes()).hexdigest() == want


def test_the_runtime_equals_the_reference_beyond_one_segment_of_attention(
    golden: Converted, krafla: Krafla, build_dir: Path, tmp_path: Path
) -> None:
    path = golden("gemma3", "q8")
    tokens = np.random.default_rng(9).integers(0, 320, 540).tolist()
    want = exact(read_model(path), tokens, build_dir)
    got = dumped(krafla, tmp_path / "l.f32", path, tokens)
    assert difference(got, want) <= 1e-5


@pytest.mark.parametrize(
    "options",
    [
        "--wtype q4 --dim 96 --hidden 224 --heads 3 --vocab 77",
        "--wtype q8 --scales f32 --arch gemma3 --heads 4 --kv-heads 2 --head-dim 8 --untied",
        "--wtype q4 --scales f32 --dim 32 --heads 16 --kv-heads 1 --head-dim 2 --vocab 17",
        "--wtype q8 --dim 160 --heads 1 --head-dim 288 --layers 2 --hidden 96 --vocab 33",
        "--wtype q4 --arch qwen3_5 --dim 96 --heads 3 --kv-heads 1 --layers 5 --vocab 33",
        "--wtype q8 --arch qwen3_5 --dim 64 --heads 4 --kv-heads 2 --head-dim 72 --vocab 33",
        "--wtype q4 --arch gemma2 --dim 64 --heads 4 --head-dim 8 --vocab 33 --untied",
    ],
    ids=["odd", "gemma", "narrow", "wide-head", "delta", "wide-delta", "capped"],
)
def test_the_runtime_equals_the_reference_on_random_shapes(
    krafla: Krafla, build_dir: Path, tmp_path: Path, options: str
) -> None:
    path = tmp_path / "random.mlb"
    assert gen_random.main(["--out", str(path), *options.split()]) == 0
    tokens = [(7 * i) % 17 for i in range(35)]
    want = exact(read_model(path), tokens, build_dir)
    got = dumped(krafla, tmp_path / "l.f32", path, tokens)
    assert difference(got, want) <= 1e-5
