# SPDX-License-Identifier: MIT
"""Real models: transformers, the numpy reference and the runtime against each other.

KRAFLA_BUILD=build/avx2 .venv/bin/python -m pytest -q tests/py/test_real_models.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import convert
import make_golden
import perplexity
from mlb import arch, reference
from mlb.arch.common import Config
from mlb.checkpoint import open_safetensors, read_json
from mlb.format import read_model

F32 = reference.F32
F64 = reference.F64
Krafla = Callable[..., Any]
Show = Callable[[str], None]

pytestmark = pytest.mark.real

TEXT = Path(__file__).resolve().parent.parent / "data" / "text" / "moby-dick.txt"
TOKENS = 512
FEW = 12  # for the exact reference, which is slow


@dataclasses.dataclass(frozen=True)
class Real:
    """A model, the text in its tokens, and how far Q8 may be from float32."""

    directory: Path
    tokens: list[int]
    max_kl: float  # mean over the positions, in nats
    min_agreement: float  # share of positions with the same most likely token


def real(directory: Path, max_kl: float, min_agreement: float) -> Real:
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    ids = tokenizer.encode(TEXT.read_text(encoding="utf-8")).ids
    assert len(ids) >= TOKENS
    return Real(directory, ids[:TOKENS], max_kl, min_agreement)


@pytest.fixture(params=["smollm", "gemma"])
def model(request: pytest.FixtureRequest) -> Real:
    directory = request.getfixturevalue(request.param)
    # Measured: KL 0.0059 and 94.0% for SmolLM2, 0.0030 and 96.9% for Gemma 3.
    bounds = {"smollm": (0.012, 0.91), "gemma": (0.006, 0.94)}
    return real(directory, *bounds[request.param])


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Return a function that prints a measured figure, also in a quiet run."""

    def printed(line: str) -> None:
        with capsys.disabled():
            print(f"\n{line}", end="")

    return printed


@pytest.fixture(scope="session")
def q8(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Path]:
    """Return a function that converts a checkpoint to Q8 once."""
    scratch = tmp_path_factory.mktemp("real")

    def converted(directory: Path) -> Path:
        out = scratch / f"{directory.name}.mlb"
        if not out.exists():
            assert convert.main(["hf", str(directory), str(out), "--wtype", "q8"]) == 0
        return out

    return converted


def transformers_logits(directory: Path, tokens: list[int]) -> F32:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    loaded = transformers.AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager"
    )
    with torch.no_grad():
        logits: F32 = loaded.eval()(torch.tensor([tokens])).logits[0].numpy()
    return logits


def runtime_logits(krafla: Krafla, path: Path, tokens: list[int], dump: Path) -> F32:
    listed = ",".join(map(str, tokens))
    done = krafla("ml_run", path, "--tokens", listed, "--dump-logits", dump, timeout=1200)
    assert done.returncode == 0, done.stderr
    return np.fromfile(dump, dtype="<f4").reshape(len(tokens), -1)


def log_softmax(logits: F32) -> F64:
    x = logits.astype(np.float64)
    x -= x.max()
    x -= np.log(np.exp(x).sum())
    return x


def test_q8_logits_of_the_runtime_are_close_to_transformers(
    model: Real, q8: Callable[[Path], Path], krafla: Krafla, show: Show, tmp_path: Path
) -> None:
    want = transformers_logits(model.directory, model.tokens)
    got = runtime_logits(krafla, q8(model.directory), model.tokens, tmp_path / "l.f32")
    kl = np.empty(TOKENS)
    for i in range(TOKENS):
        p, q = log_softmax(want[i]), log_softmax(got[i])
        kl[i] = float(np.sum(np.exp(p) * (p - q)))
    agreement = float(np.mean(want.argmax(axis=1) == got.argmax(axis=1)))
    ppl = [
        float(np.exp(-perplexity.log_probabilities(x[:-1], model.tokens[1:]).mean()))
        for x in (want, got)
    ]
    show(
        f"{model.directory.name}: {TOKENS} tokens, KL {kl.mean():.5f} (largest {kl.max():.4f}), "
        f"same argmax {agreement:.2%}, perplexity {ppl[0]:.3f} F32, {ppl[1]:.3f} Q8"
    )
    assert kl.mean() < model.max_kl
    assert agreement > model.min_agreement


def test_the_float_reference_equals_transformers_on_the_checkpoint(model: Real, show: Show) -> None:
    config = Config(read_json(model.directory / "config.json"), "config.json")
    plan = arch.plan(config)
    weights = reference.CheckpointWeights(plan, open_safetensors(model.directory))
    got = reference.forward(plan.arch, weights, model.tokens, reference.Float())
    want = transformers_logits(model.directory, model.tokens)
    difference = float(np.abs(got - want).max() / np.abs(want).max())
    show(f"{model.directory.name}: reference and transformers differ by {difference:.2e}")
    assert difference < 1e-4


def test_the_runtime_equals_the_exact_reference(  # noqa: PLR0917 -- fixtures
    model: Real,
    q8: Callable[[Path], Path],
    krafla: Krafla,
    build_dir: Path,
    show: Show,
    tmp_path: Path,
) -> None:
    path, tokens = q8(model.directory), model.tokens[:FEW]
    got = runtime_logits(krafla, path, tokens, tmp_path / "l.f32")
    file = read_model(path)
    arithmetic = reference.CLASSES[make_golden.arithmetic_class(build_dir)]
    weights = reference.FileWeights(file, blocks=True)
    want = reference.forward(file.arch, weights, tokens, arithmetic)
    difference = float(np.abs(got - want).max() / np.abs(want).max())
    show(f"{model.directory.name}: runtime and reference differ by {difference:.2e}")
    assert difference <= 1e-5
