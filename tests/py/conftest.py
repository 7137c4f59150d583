# SPDX-License-Identifier: MIT
"""The library under test: libkrafla of the build that the other tests use.

.venv/bin/python -m pytest tests/py/test_krafla_package.py
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="session")
def krafla_library(build_dir: Path) -> Path:
    """Bring libkrafla.so of this build up to date."""
    isa, *threads = build_dir.name.split("-")
    options = ["THREADS=pthread"] if "pt" in threads else []
    subprocess.run(
        ["make", f"ISA={isa}", *options, "lib"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
    )
    return build_dir / "libkrafla.so"


@pytest.fixture
def use_library(krafla_library: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the krafla package load that library."""
    monkeypatch.setenv("KRAFLA_LIB", str(krafla_library))
    return krafla_library
