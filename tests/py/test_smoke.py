# SPDX-License-Identifier: MIT
"""The smoke test of an archive needs nothing but the archive.

.venv/bin/python -m pytest tests/py/test_smoke.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

import isas
from krafla_release import archives, build, smoke
from krafla_release.project import ReleaseError


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


def test_another_build_than_wanted_is_an_error() -> None:
    with pytest.raises(ReleaseError, match="sse2 ran, want avx2"):
        smoke.expect("the launcher's choice", "avx2", "sse2")


def test_builds_of_a_class_have_to_print_the_same(tmp_path: Path) -> None:
    release = release_of(tmp_path, set())
    rows = {isa.name: isa for isa in release.rows}
    release.expect_answer(rows["avx2"], "1 2")
    release.expect_answer(rows["sse2"], "1 3")
    with pytest.raises(ReleaseError, match="its class printed '1 2' before"):
        release.expect_answer(rows["avxvnni"], "1 3")


def test_a_level_without_a_stand_in_is_listed_as_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(smoke, "vnnirun", lambda level: ["vnnirun", level])
    smoke.smoke_levels(release_of(tmp_path, set()))
    assert capsys.readouterr().out.startswith("not run: smoke of avxvnni: ")
