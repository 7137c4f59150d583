# SPDX-License-Identifier: MIT
"""The smoke test of an archive needs nothing but the archive.

.venv/bin/python -m pytest tests/py/test_smoke.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

import isas
from krafla_release import archives, build, smoke


def release_of(home: Path, fitting: set[str]) -> smoke.Release:
    """Unpack nothing: the builds are scripts that answer the launcher's question."""
    archive = next(archive for archive in archives.load() if archive.arch == "x86_64")
    (home / "bin").mkdir()
    for isa in isas.load("x86_64", built=True, ship=True):
        program = home / "bin" / f"ml_run-{isa.name}"
        program.write_text(f"#!/bin/sh\nexit {0 if isa.name in fitting else 3}\n")
        program.chmod(0o755)
    return smoke.Release(archive, home, home / "m.mlb", home / "t.bin")


def test_levels_are_those_that_the_builds_of_the_archive_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def generate(_: smoke.Release, runner: list[str]) -> tuple[str, str]:
        asked.append(runner[-1])
        return runner[-1], "1 2 3"

    monkeypatch.setattr(build, "build_dir", pytest.fail)
    monkeypatch.setattr(smoke, "vnnirun", lambda level: ["vnnirun", "--fast", level])
    monkeypatch.setattr(smoke.Release, "generate", generate)
    smoke.smoke_levels(release_of(tmp_path, {"avx2", "sse2"}))
    assert asked == ["avxvnni", "avx2", "sse2"]
