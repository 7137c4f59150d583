# SPDX-License-Identifier: MIT
"""The program and the package are two doors to one library: same logits, same tokens.

.venv/bin/python -m pytest tests/py/test_krafla_programs.py
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import krafla
from made import random_model

VOCAB = 512
TOKENS = [1, 300, 7, 411, 20, 300, 99, 4]
WORDS = ",".join(map(str, TOKENS))


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random model."""
    return random_model(tmp_path_factory.mktemp("model") / "rand.mlb", VOCAB)


def ml_run(library: Path, model: Path, *args: str | Path) -> list[int]:
    """Run ml_run of the same build and return the ids it printed."""
    command = [library.parent / "ml_run", model, "--tokens", WORDS, *args]
    done = subprocess.run(command, capture_output=True, check=True)
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("kv", ["f32", "f16", "q8"])
def test_dumped_logits_are_the_librarys(
    kv: str, use_library: Path, model_path: Path, tmp_path: Path
) -> None:
    ml_run(use_library, model_path, "--dump-logits", tmp_path / "l.f32", "--kv", kv)
    dumped = np.fromfile(tmp_path / "l.f32", dtype=np.float32).reshape(len(TOKENS), VOCAB)
    with krafla.Model.open(model_path) as model, model.session(kv=kv) as session:
        for n in range(1, len(TOKENS) + 1):
            session.sync(TOKENS[:n])
            np.testing.assert_array_equal(session.logits(), dumped[n - 1])


@pytest.mark.parametrize(
    ("options", "sampling"),
    [
        ([], {}),
        (["-T", "3", "-s", "5"], {"temperature": 3.0, "seed": 5}),
        (["-T", "3", "-p", "1", "--top-k", "20"], {"temperature": 3.0, "top_p": 1.0, "top_k": 20}),
        (
            ["--repeat-penalty", "1.5", "--repeat-last-n", "4"],
            {"repeat_penalty": 1.5, "repeat_last_n": 4},
        ),
    ],
    ids=["greedy", "temperature", "top-k", "penalty"],
)
def test_the_same_sampling_gives_the_same_tokens(
    options: list[str], sampling: dict[str, float], use_library: Path, model_path: Path
) -> None:
    printed = ml_run(use_library, model_path, "-n", str(len(TOKENS) + 30), *options)
    with krafla.Model.open(model_path) as model, model.session() as session:
        sampler = krafla.Sampler(VOCAB, **sampling)  # type: ignore[arg-type]  # a table of options of several types
        assert printed == TOKENS + list(session.generate(TOKENS, sampler, max_tokens=31))
