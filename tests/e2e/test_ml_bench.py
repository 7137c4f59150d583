# SPDX-License-Identifier: MIT
"""ml_bench: what it prints of a model to a terminal and as JSON.

make ISA=avx2 e2e
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
from typing import TYPE_CHECKING

from made import random_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Krafla

FEW = ("-n", "2", "-r", "1", "-t", "1")


def hostile_model(path: Path) -> Path:
    """Write a model whose name begins with an escape character."""
    data = random_model(path, 512).read_bytes()
    plain, hostile = b'"name":"random-', b'"name":"\\u001b-'
    assert data.count(plain) == 1
    assert len(plain) == len(hostile)  # the frame stays right
    path.write_bytes(data.replace(plain, hostile))
    return path


def test_a_terminal_gets_no_control_characters_of_a_name(
    build_dir: Path, emulator: list[str], tmp_path: Path
) -> None:
    model = hostile_model(tmp_path / "m.mlb")
    ours, theirs = pty.openpty()
    try:
        command: list[str | Path] = [*emulator, build_dir / "ml_bench", model, *FEW]
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 0, done.stderr
        shown = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "\x1b" not in shown
    assert shown.startswith("\u241b-")


def test_json_holds_the_name_as_it_is(krafla: Krafla, tmp_path: Path) -> None:
    done = krafla("ml_bench", hostile_model(tmp_path / "m.mlb"), *FEW, "--json")
    assert done.returncode == 0
    report = json.loads(done.stdout)
    assert report["model"].startswith("\x1b-")
    assert (report["prefill"]["tokens"], report["decode"]["tokens"]) == (2, 2)
