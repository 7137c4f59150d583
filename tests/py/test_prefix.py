# SPDX-License-Identifier: MIT
"""One answer, whatever a session held before: each golden model after other timelines.

.venv/bin/python -m pytest tests/py/test_prefix.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import convert
import krafla

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
NAMES = sorted(path.parent.name for path in GOLDEN.glob("*/config.json"))
KVS = ("f32", "f16", "q8")

pytestmark = pytest.mark.usefixtures("use_library")


def answer(session: krafla.Session, tokens: list[int]) -> npt.NDArray[np.float32]:
    session.sync(tokens)
    return session.logits().copy()


@pytest.mark.parametrize("wtype", ["q8", "q4"])
@pytest.mark.parametrize("name", NAMES)
def test_what_a_session_held_before_changes_no_bit(tmp_path: Path, name: str, wtype: str) -> None:
    """Edited at the end, longer, edited in the middle, all others, few, and one by one."""
    path = tmp_path / "model.mlb"
    assert convert.main(["hf", str(GOLDEN / name), str(path), "--wtype", wtype]) == 0
    tokens = json.loads((GOLDEN / name / "tokens.json").read_text())
    other = [(token + 1) % 151 for token in tokens]
    histories = (
        [tokens[:50], tokens[:50] + other[50:]],
        [tokens + other],
        [tokens[:20] + other[20:30] + tokens[30:]],
        [other],
        [other, tokens[:1]],
        [tokens[:n] for n in range(40, 64)],
    )
    with krafla.Model.open(path) as model:
        for kv in KVS:
            with model.session(ctx=128, threads=1, kv=kv) as cold:
                want = answer(cold, tokens)
            assert np.isfinite(want).all()
            with model.session(ctx=128, threads=2, kv=kv, batch=7) as session:
                for history in histories:
                    for held in history:
                        session.sync(held)
                    assert np.array_equal(answer(session, tokens), want), (kv, history)
