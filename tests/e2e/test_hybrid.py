# SPDX-License-Identifier: MIT
"""Models with linear layers (Qwen3.5): what their state costs, and how little is evaluated twice.

KRAFLA_BUILD=build/avx2-pt .venv/bin/python -m pytest tests/e2e/test_hybrid.py
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import hostile_base
import hostile_sizes

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Krafla

# One key head of 16384 for 8192 value heads of 1, which takes the room of 16: 8 GiB in each layer.
LAYERS, STATE_MIB = 16, 16 << 13
WIDE = dataclasses.replace(
    hostile_base.LLAMA,
    n_layers=LAYERS,
    linear_layers=tuple(range(LAYERS)),
    linear_k_heads=1,
    linear_v_heads=8192,
    linear_k_dim=16384,
    linear_v_dim=1,
    conv_taps=4,
)


def test_a_state_that_does_not_fit_is_named(krafla: Krafla, tmp_path: Path) -> None:
    parts = hostile_base.take_apart(hostile_base.small_model(hostile_base.LLAMA))
    start, size = hostile_sizes.sparse_model(WIDE, parts)
    path = hostile_base.Case("wide.mlb", start, size=size).write(tmp_path)
    done = krafla("ml_run", path, "--no-pack", "--tokens", "1", "-n", "1")
    assert (done.returncode, done.stdout) == (1, b"")
    message = done.stderr.decode()
    found = re.search(r"linear layers' state and buffers (\d+) MiB", message)
    assert "out of memory" in message
    assert found is None or int(found[1]) >= STATE_MIB  # on 32 bits: no address space
    assert found or "address space" in message
