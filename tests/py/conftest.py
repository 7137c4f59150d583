# SPDX-License-Identifier: MIT
"""The library under test, libkrafla of the build that the other tests use; changed checkpoints.

.venv/bin/python -m pytest tests/py/test_krafla_package.py
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conversion import GOLDEN
from krafla import _select

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def krafla_library(build_dir: Path) -> Path:
    """Bring libkrafla.so of this build up to date; of several workers, one after the other."""
    isa, *threads = build_dir.name.split("-")
    options = ["THREADS=pthread"] if "pt" in threads else []
    words = ["make", f"ISA={isa}", *options, "lib"]
    with (ROOT / "Makefile").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return build_dir / "libkrafla.so"


@pytest.fixture(scope="session")
def loaded_library(krafla_library: Path) -> None:
    """Load that library into this process, where it stays."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("KRAFLA_LIB", str(krafla_library))
        _select.library()


@pytest.fixture
def use_library(krafla_library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the krafla package load that library."""
    monkeypatch.setenv("KRAFLA_LIB", str(krafla_library))
    return krafla_library


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies a golden checkpoint with other config.json keys."""

    def copy(name: str = "llama", **changes: Any) -> Path:
        directory = tmp_path / "checkpoint"
        shutil.copytree(GOLDEN / name, directory)
        config = json.loads((directory / "config.json").read_text()) | changes
        (directory / "config.json").write_text(json.dumps(config))
        return directory

    return copy
