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
from mlb import arch, reference, reference_exact
from mlb.arch.common import Config
from mlb.checkpoint import open_safetensors, read_json
from mlb.format import Model, read_model

F32 = reference.F32
Krafla = Callable[..., Any]
Converted = Callable[[str, str], Path]

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
NAMES = ("llama", "llama_gqa", "gemma3")


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


# ---- the reference -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["interleaved", "rotate_half"])
@pytest.mark.parametrize("name", NAMES)
def test_the_float_reference_equals_transformers(name: str, order: str) -> None:
    directory, original = GOLDEN / name, order == "rotate_half"
    plan = arch.plan(Config(read_json(directory / "config.json"), name))
    weights = reference.CheckpointWeights(plan, open_safetensors(directory), original=original)
    arithmetic = reference.Float(rotate_half=original)
    logits = reference.forward(plan.arch, weights, tokens_of(name), arithmetic)
    assert difference(logits, np.load(directory / "logits.npy")) < 1e-5


@pytest.mark.parametrize("name", NAMES)
def test_the_committed_logits_are_what_transformers_computes_today(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        GOLDEN / name, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        logits = model(torch.tensor([tokens_of(name)])).logits[0].numpy()
    assert difference(logits, np.load(GOLDEN / name / "logits.npy")) < 1e-5


def test_the_window_and_the_second_rope_base_matter_in_the_golden_model() -> None:
    """Without them the test above would prove little about Gemma."""
    directory = GOLDEN / "gemma3"
    want = np.load(directory / "logits.npy")
    for change in ({"sliding_window": 64}, {"rope_local_base_freq": 1e6, "rope_parameters": None}):
        config = read_json(directory / "config.json") | change
        plan = arch.plan(Config(config, "changed"))
        weights = reference.CheckpointWeights(plan, open_safetensors(directory))
        logits = reference.forward(plan.arch, weights, tokens_of("gemma3"), reference.Float())
        assert difference(logits, want) > 0.01


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
        assert difference(logits, want) < 0.1  # int8 activations on layers 32 to 64 wide


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
    assert reference_exact.fma(a, b * 0 + np.float32(2**-24), c * 0 + 1)[0] == np.float32(1 + 2**-23)
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
    ],
    ids=["odd", "gemma", "narrow", "wide-head"],
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
