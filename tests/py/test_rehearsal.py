# SPDX-License-Identifier: MIT
"""A version that the sources do not have: a dry run rehearses it, a release offers the bump.

.venv/bin/python -m pytest tests/py/test_rehearsal.py
"""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from release_rig import ROOT, VERSION, commit_all, git, make_checkout, python

# The rehearsed release itself needs all compilers: here only its command is looked at.
REHEARSE = """
import sys
from krafla_release import rehearsal, release
real = rehearsal.there
def there(*words, env=None):
    if "krafla_release.release" not in words:
        return real(*words, env=env)
    print("REHEARSED", *words[3:], flush=True)
    return 4
rehearsal.there = there
sys.exit(release.main(sys.argv[1:]))
"""


# Waits as a release does, and takes its time to tidy up.
SLOW_CHILD = """
import pathlib, sys, time
try:
    print("begun", flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    pathlib.Path("tidied").touch()
    sys.exit(130)
"""
PARENT = """
import pathlib, sys
from krafla_release import rehearsal
rehearsal.CLONE = pathlib.Path(sys.argv[1])
sys.exit(rehearsal.there(sys.executable, "-c", sys.argv[2]))
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkout whose changelog says Unreleased."""
    return make_checkout(tmp_path_factory.mktemp("sources"))


def rehearse(checkout: Path) -> str:
    words = [sys.executable, "-c", REHEARSE, "--version", VERSION, "--dry-run"]
    env = os.environ | {"PYTHONPATH": str(checkout / "scripts")}
    done = subprocess.run(words, cwd=checkout, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr  # that of the rehearsed release
    return done.stdout


def test_a_rehearsal_commits_the_bump_in_a_clone_and_releases_there(sources: Path) -> None:
    (sources / "README.md").write_text("not committed\n")
    shown = rehearse(sources)
    assert f"+## {VERSION} — " in shown
    assert f'+#define ML_VERSION "{VERSION}"' in shown
    assert "what is not committed is not part of it" in shown
    dist = sources / "dist" / f"v{VERSION}"
    assert f"REHEARSED --version {VERSION} --dry-run --dist {dist}" in shown
    assert shown.endswith("will be of the commit that brings the bump above to main\n")
    clone = sources / "build" / "rehearsal"
    assert git(clone, "status", "--porcelain") == ""
    assert git(clone, "branch", "--show-current") == "main"
    assert git(clone, "log", "--format=%s") == f"rehearsal of {VERSION}\nthe sources"
    assert git(clone, "show", "HEAD:README.md") != "not committed"
    assert VERSION not in (sources / "CHANGELOG.md").read_text()
    git(sources, "checkout", "README.md")


def test_the_same_sources_are_rehearsed_as_the_same_commit(sources: Path) -> None:
    clone = sources / "build" / "rehearsal"
    rehearse(sources)
    first = git(clone, "rev-parse", "HEAD")
    (clone / "build" / "kept").write_text("what was built")
    (clone / "left over").write_text("not tracked")
    rehearse(sources)
    assert git(clone, "rev-parse", "HEAD") == first
    assert (clone / "build" / "kept").exists()
    assert not (clone / "left over").exists()
    commit_all(sources, "another commit")
    rehearse(sources)
    assert git(clone, "log", "--format=%s").splitlines()[1] == "another commit"


def test_two_rehearsals_at_once_are_refused(sources: Path) -> None:
    rehearse(sources)
    clone = sources / "build" / "rehearsal"
    before = git(clone, "rev-parse", "HEAD")
    with (sources / "build" / "rehearsal.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        done = python(sources, "krafla_release.release", "--version", "0.9.1", "--dry-run")
    assert done.returncode == 3
    assert "another rehearsal works there" in done.stderr
    assert git(clone, "rev-parse", "HEAD") == before


def test_ctrl_c_lets_the_rehearsed_release_tidy_up(tmp_path: Path) -> None:
    words = [sys.executable, "-c", PARENT, str(tmp_path), SLOW_CHILD]
    env = os.environ | {"PYTHONPATH": str(ROOT / "scripts")}
    with subprocess.Popen(
        words, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout
        while process.stdout.readline() != "begun\n":
            pass
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(timeout=30) == 130
    assert (tmp_path / "tidied").exists()


def test_without_a_terminal_the_bump_is_shown_and_not_written(sources: Path) -> None:
    done = python(sources, "krafla_release.release", "--version", VERSION)
    assert done.returncode == 3
    assert f"+## {VERSION} — " in done.stdout
    assert f".venv/bin/python -m krafla_release.bump --version {VERSION} --write\n" in done.stderr
    assert git(sources, "status", "--porcelain") == ""


def answer(checkout: Path, text: str) -> tuple[int, str]:
    """Release at a terminal, where somebody types; return the exit code and what is shown."""
    ours, theirs = pty.openpty()
    words = [sys.executable, "-m", "krafla_release.release", "--version", VERSION]
    env = os.environ | {"PYTHONPATH": str(checkout / "scripts")}
    process = subprocess.Popen(
        words,
        cwd=checkout,
        env=env,
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    os.close(theirs)
    os.write(ours, f"{text}\n".encode())
    shown = process.communicate()[0]
    os.close(ours)
    return process.returncode, shown


@pytest.mark.parametrize("text", ["n", "", "maybe", "\x04"], ids=["n", "enter", "maybe", "ctrl-d"])
def test_at_a_terminal_anything_but_yes_writes_nothing(sources: Path, text: str) -> None:
    code, shown = answer(sources, text)
    assert code == 3
    assert "write it? [y/N]" in shown
    assert shown.endswith("error: nothing is written\n")
    assert git(sources, "status", "--porcelain") == ""


def test_at_a_terminal_yes_writes_the_bump_and_says_what_is_next(sources: Path) -> None:
    code, shown = answer(sources, "y")
    assert code == 0, shown
    assert f'next: git commit --all --message "Krafla {VERSION}", and merge it' in shown
    changed = set(git(sources, "diff", "--name-only").splitlines())
    assert changed == {
        "CHANGELOG.md",
        "CITATION.cff",
        "docs/changelog.md",
        "runtime/core/ml.h",
        "tools/mlb/__init__.py",
    }
    git(sources, "checkout", "--quiet", ".")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--version", "0.9"], 2, "'0.9' is no version"),
        (["--version", "v0.9.0"], 2, "'v0.9.0' is no version"),
        (["--version", "0.0.1"], 3, "0.0.1 is below"),
        ([], 2, "--version"),
        (["--version", VERSION, "--publish"], 2, "--publish"),
    ],
)
def test_wrong_words_end_in_one_line(sources: Path, words: list[str], code: int, said: str) -> None:
    done = python(sources, "krafla_release.release", *words)
    assert done.returncode == code
    assert said in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
