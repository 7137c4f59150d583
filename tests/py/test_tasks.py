# SPDX-License-Identifier: MIT
"""invoke and nox read like tables of contents, and invoke's own --dry publishes nothing.

.venv/bin/python -m pytest tests/py/test_tasks.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import isas
from krafla_release.project import ROOT

BIN = Path(sys.executable).parent
LISTED = re.compile(r"^[-*] (\S+)(?: \[(.*?)\])? -> (.*)$", re.MULTILINE)


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / program), *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def is_sentence(text: str) -> bool:
    return text[0].isupper() and text.endswith(".") and len(text.split()) >= 4


def without(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run invoke where a Python module is not installed."""
    code = (
        f"import sys; sys.modules[{module!r}] = None; "
        f"from invoke.main import program; program.run(['invoke', *{words!r}])"
    )
    return subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("task", ["release", "zenodo-doi"])
def test_a_missing_python_package_is_named_with_its_remedy(task: str) -> None:
    done = without("requests", task, "--version", "0.0.1", "--dry-run")
    assert done.returncode == 3
    assert done.stderr == "error: requests is missing: scripts/bootstrap.sh --for-release\n"


def test_a_release_starts_where_the_site_cannot_be_built() -> None:
    done = without("mkdocs", "release", "--version", "0.0.1", "--dry-run")
    assert "0.0.1 is below" in done.stderr  # and so it came to look at the version


def test_invoke_lists_the_tasks_with_a_sentence_each() -> None:
    lines = run("invoke", "--list").stdout.split("Available tasks:")[1].strip().splitlines()
    tasks = dict(line.strip().split(None, 1) for line in lines)
    wanted = {"doctor", "build", "package", "smoke", "release", "zenodo-doi", "sync-docs"}
    assert set(tasks) == wanted
    assert all(map(is_sentence, tasks.values())), tasks


@pytest.mark.parametrize(
    ("task", "options"),
    [
        ("release", {"--version", "--dry-run", "--resume"}),
        ("zenodo-doi", {"--version"}),
        ("package", {"--archive", "--all"}),
        ("smoke", {"--archive", "--all"}),
        ("sync-docs", {"--check"}),
        ("build", {"--arch"}),
    ],
)
def test_a_task_explains_its_options_and_has_no_letters(task: str, options: set[str]) -> None:
    said = run("invoke", task, "--help").stdout
    found = re.findall(r"^ +(-.+?)(?:=STRING)?  +(\S.*)$", said, re.MULTILINE)
    assert options <= {option for option, _ in found}
    assert all("," not in option for option, _ in found), "letters are given out by chance"


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["no-such-task"], 1),
        (["release"], 2),
        (["release", "--no-such-option"], 1),
        (["release", "--version"], 1),
        (["release", "--version", "--dry-run"], 1),
        (["release", "--version", "1.2"], 2),
        (["release", "--version", "v1.2.3"], 2),
        (["release", "--version", "1.2.3", "0.1.0"], 1),
        (["zenodo-doi", "--version", "latest"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_command_line_is_refused_before_anything_happens(
    words: list[str], code: int
) -> None:
    done = run("invoke", *words)
    assert done.returncode == code, done.stderr
    assert done.stderr
    assert "Traceback" not in done.stderr


TRIED = """
import sys

from krafla_release import release

release.main = lambda argv: print("released with", *argv) or 75
sys.argv[0] = "invoke"
from invoke.main import program
program.run()
"""


@pytest.mark.parametrize(
    ("words", "got"),
    [
        ([], "--version 1.2.3"),
        (["--dry-run"], "--version 1.2.3 --dry-run"),
        (["--dry"], "--version 1.2.3 --dry-run"),
        (["--resume"], "--version 1.2.3 --resume"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invokes_own_dry_is_a_dry_run_and_exit_codes_are_kept(words: list[str], got: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", TRIED, "release", "--version", "1.2.3", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": "scripts"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.returncode) == (f"released with {got}\n", 75), done.stderr


def sessions() -> dict[str, tuple[list[str], str]]:
    """Return the sessions of nox in their order, with tags and sentence."""
    found = LISTED.findall(run("nox", "-l").stdout)
    return {name: (tags.split(","), text) for name, tags, text in found}


def test_nox_lists_the_sessions_with_a_sentence_each_in_the_order_of_a_release() -> None:
    found = sessions()
    assert all(is_sentence(text) for _, text in found.values())
    parts = ["test-avx2", "tests", "lint", "types", "docs", "audit", "package", "smoke", "repro"]
    assert [name for name in found if name in parts] == parts
    assert [tags for name, (tags, _) in found.items() if name == "repro"] == [["hand"]]


def test_nox_finds_the_rows_of_an_architecture_by_its_tag() -> None:
    tagged = {name for name, (tags, _) in sessions().items() if "aarch64" in tags}
    assert tagged == {name for name, isa in isas.sessions().items() if isa.arch == "aarch64"}


def test_bare_nox_is_quick() -> None:
    starred = re.findall(r"^\* (\S+)", run("nox", "-l").stdout, re.MULTILINE)
    assert starred == ["lint", "types"]
