# SPDX-License-Identifier: MIT
"""scripts/bench_tokenizer.py: what it says when it cannot measure.

.venv/bin/python -m pytest tests/py/test_bench_tokenizer.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent.parent.parent / "scripts" / "bench_tokenizer.py"


def run(directory: Path, library: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, directory],
        env={**os.environ, "KRAFLA_LIB": str(library)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_missing_library_is_one_line_that_names_it(tmp_path: Path) -> None:
    done = run(tmp_path, tmp_path / "absent.so")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: absent.so: ")
    assert "KRAFLA_LIB has to name a libkrafla for this machine" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_missing_tokenizer_is_named(tmp_path: Path, krafla_library: Path) -> None:
    done = run(tmp_path, krafla_library)
    expected = f"{tmp_path}/tokenizer.json is not there: scripts/fetch_tokenizers.py makes it"
    assert (done.returncode, done.stderr) == (1, f"error: {expected}\n")
