# SPDX-License-Identifier: MIT
"""A release is due when the version has its dated section and no tag yet, and not otherwise.

.venv/bin/python -m pytest tests/py/test_due.py
"""

from __future__ import annotations

import datetime as dt
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from krafla_release import changelog, due, project, versions
from krafla_release.changelog import Section

Decide = Callable[[], tuple[int, str, str]]
VERSION = versions.current()
DATED = Section(VERSION, dt.date(2026, 1, 1), "### Added\n\n- Everything.", 3)


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a repository with a commit, which stands for the one on GitHub."""
    words = ["git", "-c", "user.name=x", "-c", "user.email=x@invalid", "-C", str(tmp_path)]
    subprocess.run([*words, "init", "--quiet"], check=True)
    subprocess.run([*words, "commit", "--quiet", "--allow-empty", "--message", "x"], check=True)
    monkeypatch.setattr(due, "REMOTE", str(tmp_path))
    monkeypatch.setattr(changelog, "find", lambda version: DATED if version == VERSION else None)
    return tmp_path


@pytest.fixture
def decide(capsys: pytest.CaptureFixture[str]) -> Decide:
    def run() -> tuple[int, str, str]:
        code = due.main([])
        said = capsys.readouterr()
        return code, said.out, said.err.splitlines()[-1]

    return run


@pytest.mark.usefixtures("remote")
def test_a_version_with_its_section_and_no_tag_is_due(decide: Decide) -> None:
    assert decide() == (0, f"version={VERSION}\n", "due: release it")


def test_a_version_with_a_tag_is_published(remote: Path, decide: Decide) -> None:
    subprocess.run(["git", "-C", str(remote), "tag", f"{VERSION.tag}0"], check=True)
    assert decide()[1] == f"version={VERSION}\n", "a longer tag is another one's"
    subprocess.run(["git", "-C", str(remote), "tag", VERSION.tag], check=True)
    code, said, why = decide()
    assert (code, said) == (0, "version=\n")
    assert f"refs/tags/{VERSION.tag} is there" in why


@pytest.mark.usefixtures("remote")
def test_a_version_without_its_section_is_not_due(
    decide: Decide, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changelog, "find", lambda _: None)
    code, said, why = decide()
    assert (code, said) == (0, "version=\n")
    assert "CHANGELOG.md has no section" in why


@pytest.mark.usefixtures("remote")
def test_a_repository_that_does_not_answer_is_an_error_and_no_decision(
    decide: Decide, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(due, "REMOTE", str(tmp_path / "nowhere"))
    code, said, _ = decide()
    assert (code, said) == (1, "")


def test_it_needs_no_packages() -> None:
    python = ["/usr/bin/python3", "-I", "-S", "-c"]
    script = "import sys; sys.path.insert(0, 'scripts'); from krafla_release import due"
    if not Path(python[0]).is_file() or subprocess.call([*python, "import tomllib"]):
        pytest.skip("not run: the system has no Python 3.11 or later")
    words = [*python, script]
    done = subprocess.run(words, cwd=project.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
