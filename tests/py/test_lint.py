# SPDX-License-Identifier: MIT
"""The lint finds what it is there for: each of its tools fails on a file that it must refuse.

.venv/bin/python -m pytest tests/py/test_lint.py
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from krafla_release import lint
from krafla_release.project import ROOT, ReleaseError


@dataclasses.dataclass(frozen=True)
class Fault:
    """One change of one file, and what the lint says of it."""

    check: str
    path: str
    before: str
    after: str
    said: str


CI, DEPENDABOT = ".github/workflows/ci.yml", ".github/dependabot.yml"
FAULTS = {
    "actionlint": Fault("workflows", CI, "needs: arm-rows", "needs: arm-row", "[job-needs]"),
    "shell in a workflow": Fault("workflows", CI, '--base "$BASE"', "--base $BASE", "SC2086"),
    "action by tag": Fault(
        "workflows",
        ".github/workflows/zenodo-doi.yml",
        "checkout@9c091bb21b7c1c1d1991bb908d89e4e9dddfe3e0 # v7.0.0",
        "checkout@v7",
        "unpinned-uses",
    ),
    "token left behind": Fault(
        "workflows", CI, "persist-credentials: false", "show-progress: false", "artipacked"
    ),
    "pasted into a script": Fault(
        "workflows",
        ".github/workflows/release.yml",
        '--version "${TAG#v}" --dry-run',
        '--version "${{ inputs.version }}" --dry-run',
        "template-injection",
    ),
    "permissions": Fault("workflows", CI, "permissions: {}", "", "excessive-permissions"),
    "no timeout": Fault("workflows", CI, "    timeout-minutes: 30\n", "", "timeout-minutes"),
    "dependabot": Fault("workflows", DEPENDABOT, "version: 2", "version: 3", "dependabot"),
    "citation": Fault("data", "CITATION.cff", "license: MIT", "license: mit", "CITATION.cff"),
    "catalog": Fault("data", "scripts/hf_models.json", '"chat"', '"chatt"', "hf_models.json"),
    "script": Fault("shell", "scripts/check.sh", '"$(dirname "$0")/.."', "$1", "SC2086"),
    "launcher": Fault("shell", "packaging/launcher.sh.in", "set -u\n", "set -u\ncd $1\n", "SC2086"),
    "install.sh": Fault(
        "shell", "packaging/install.sh.in", "set -u\n", "set -u\ncd $1\n", "SC2086"
    ),
    "layout": Fault("layout", "scripts/isas.py", "import json", "import json  # TO" + "DO", "isas"),
}


def run(clone: Path, check: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "krafla_release.lint", check],
        cwd=clone,
        env=os.environ | {"PYTHONPATH": str(clone / "scripts")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("lint") / "clone"
    subprocess.run(["git", "clone", "--quiet", ROOT, place], check=True)
    return place


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_lint_finds(clone: Path, fault: Fault) -> None:
    path = clone / fault.path
    text = path.read_text()
    assert fault.before in text
    path.write_text(text.replace(fault.before, fault.after, 1))
    done = run(clone, fault.check)
    path.write_text(text)
    assert done.returncode == 1, done.stdout
    assert fault.said in done.stdout
    assert done.stdout.splitlines()[-1] == f"error: lint failed: {fault.check}"


def test_lint_runs_every_check_whatever_the_others_find(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = []

    def fails(name: str) -> None:
        ran.append(name)
        raise ReleaseError(name)

    checks = {name: (lambda name=name: fails(name)) for name in ("one", "two")}
    monkeypatch.setattr(lint, "CHECKS", checks)
    assert lint.main([]) == 1
    assert ran == ["one", "two"]
    assert capsys.readouterr().err.splitlines()[-1] == "error: lint failed: one, two"
