# SPDX-License-Identifier: MIT
"""Sessions of a model with linear layers (Qwen3.5) through the krafla package.

.venv/bin/python -m pytest tests/py/test_krafla_hybrid.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

import krafla
from made import random_model

if TYPE_CHECKING:
    from pathlib import Path

VOCAB = 512
HISTORY = [(7 * i * i + 3) % VOCAB for i in range(300)]
MIDDLE = 200

pytestmark = pytest.mark.usefixtures("use_library")


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random model with linear layers."""
    path = tmp_path_factory.mktemp("hybrid") / "hybrid.mlb"
    return random_model(path, VOCAB, "--arch", "qwen3_5", "--layers", "4", "--max-seq", "512")


@pytest.mark.parametrize(("snapshot_mib", "most"), [(256, 172), (0, 300)])
def test_an_edited_history_starts_from_the_nearest_snapshot(
    model_path: Path, snapshot_mib: int, most: int
) -> None:
    edited = [*HISTORY[:MIDDLE], 1 + HISTORY[MIDDLE] % 500, *HISTORY[MIDDLE + 1 :]]
    with (
        krafla.Model.open(model_path) as model,
        model.session(snapshot_mib=snapshot_mib) as session,
        model.session() as cold,
    ):
        session.sync(HISTORY)
        assert session.evaluated == 300
        session.sync(edited)
        assert session.evaluated == most
        cold.sync(edited)
        assert np.array_equal(session.logits(), cold.logits())


def test_the_same_tokens_again_evaluate_nothing(model_path: Path) -> None:
    with krafla.Model.open(model_path) as model, model.session() as session:
        session.sync(HISTORY[:100])
        prompt = session.logits().copy()
        for n in range(101, 110):
            session.sync(HISTORY[:n])
            assert session.evaluated == 1
        session.sync(HISTORY[:100])
        assert session.evaluated == 0
        assert np.array_equal(session.logits(), prompt)


def test_memory_for_snapshots_below_zero_is_refused(model_path: Path) -> None:
    with (
        krafla.Model.open(model_path) as model,
        pytest.raises(krafla.KraflaArgumentError, match="snapshot memory in MiB is -1"),
    ):
        model.session(snapshot_mib=-1)
