# SPDX-License-Identifier: MIT
"""Every step of a workflow is a command that exists here; each job may do what it needs, no more.

.venv/bin/python -m pytest tests/py/test_workflows.py
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import nox.registry
import pytest
import yaml

from krafla_release import changelog, project
from krafla_release.project import ROOT

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.stem: path for path in sorted(FOLDER.glob("*.yml"))}
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")
USES = re.compile(r"^\s*(?:- )?uses: (\S+)(.*)$", re.MULTILINE)
TO_OUTPUTS = '>>"$GITHUB_OUTPUT"'
PENDING_IS_FINE = "|| test $? -eq 75"
# What makes a fresh container a place where the other steps run.
PREPARATION = {
    "apt-get update -qq && apt-get install -y -qq --no-install-recommends ca-certificates git make",
    'git config --global --add safe.directory "$GITHUB_WORKSPACE"',
}
PERMISSIONS = {
    "auto-release/decide": {"contents": "read"},
    "auto-release/release": {
        "attestations": "write",
        "contents": "write",
        "id-token": "write",
        "pages": "write",
    },
    "ci/arm": {"contents": "read"},
    "ci/arm-rows": {"contents": "read"},
    "ci/check": {"contents": "read"},
    "ci/version": {"contents": "read"},
    "release/build": {"contents": "read"},
    "release/publish": {"attestations": "write", "contents": "write", "id-token": "write"},
    "release/site": {"id-token": "write", "pages": "write"},
    "zenodo-doi/doi": {"contents": "write"},
}


def load(name: str) -> dict[str, Any]:
    """Return a workflow; YAML 1.1 reads its key `on` as true."""
    loaded: dict[Any, Any] = yaml.safe_load(WORKFLOWS[name].read_text())
    return {("on" if key is True else str(key)): value for key, value in loaded.items()}


def jobs() -> dict[str, dict[str, Any]]:
    """Return all jobs by the names of their workflow and their own."""
    return {f"{name}/{key}": job for name in WORKFLOWS for key, job in load(name)["jobs"].items()}


JOBS = jobs()
STEPS = [(name, step) for name, job in JOBS.items() for step in job.get("steps", [])]
COMMANDS = sorted({step["run"] for _, step in STEPS if "run" in step})


def test_the_workflows_of_the_release_line_are_there() -> None:
    assert set(WORKFLOWS) == {"auto-release", "ci", "release", "zenodo-doi"}


def test_every_action_is_pinned_by_hash_beside_its_version() -> None:
    found = [use for path in WORKFLOWS.values() for use in USES.findall(path.read_text())]
    assert len(found) > 10
    for name, comment in found:
        if name.startswith("./"):
            assert (ROOT / name).is_file()
        else:
            assert PINNED.fullmatch(name), name
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), name


def test_an_action_has_the_same_hash_everywhere() -> None:
    text = "".join(path.read_text() for path in WORKFLOWS.values())
    actions = {name for name, _ in USES.findall(text) if "@" in name}
    assert len(actions) == len({name.split("@")[0] for name in actions})


def test_images_are_pinned_by_digest() -> None:
    images = {job["container"] for job in JOBS.values() if "container" in job}
    assert len(images) == 1
    assert re.fullmatch(r"debian:12@sha256:[0-9a-f]{64}", images.pop())


def test_each_job_has_its_permissions_and_nothing_has_them_by_default() -> None:
    assert [load(name)["permissions"] for name in WORKFLOWS] == [{}] * len(WORKFLOWS)
    assert {name: job["permissions"] for name, job in JOBS.items()} == PERMISSIONS


def test_only_the_job_in_the_environment_release_writes_a_release() -> None:
    writers = [name for name, job in JOBS.items() if job["permissions"].get("contents") == "write"]
    assert writers == ["auto-release/release", "release/publish", "zenodo-doi/doi"]
    assert JOBS["release/publish"]["environment"] == "release"


def test_nothing_runs_with_secrets_for_a_stranger() -> None:
    for name, path in WORKFLOWS.items():
        assert "pull_request_target" not in load(name)["on"]
        assert "secrets." not in path.read_text()
    tokens = [name for name, step in STEPS if "github.token" in str(step)]
    assert tokens == ["release/build", "release/publish", "zenodo-doi/doi"]
    assert [name for name in WORKFLOWS if "pull_request" in load(name)["on"]] == ["ci"]


def test_jobs_end_and_do_not_race() -> None:
    for name in WORKFLOWS:
        assert load(name)["concurrency"]["group"]
    for job in JOBS.values():
        assert "uses" in job or job["timeout-minutes"] <= 120
    assert not load("release")["concurrency"]["cancel-in-progress"]


def test_a_checkout_leaves_no_token_behind() -> None:
    checkouts = [step for _, step in STEPS if "actions/checkout@" in step.get("uses", "")]
    assert len(checkouts) == 8
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_a_release_is_looked_for_when_anything_that_decides_has_changed() -> None:
    """The first release has the version that was there before: its changelog alone changes."""
    decides = [project.VERSION_HEADER, changelog.PATH]
    want = [str(path.relative_to(ROOT)) for path in decides]
    assert load("auto-release")["on"]["push"] == {"branches": ["main"], "paths": want}


def test_what_only_asks_services_installs_no_compilers() -> None:
    light = {name for name, step in STEPS if step.get("run") == "scripts/bootstrap.sh --for-notes"}
    assert light == {"ci/version", "zenodo-doi/doi"}


def test_by_hand_a_release_is_only_planned() -> None:
    for start in ("workflow_dispatch", "workflow_call"):
        assert load("release")["on"][start]["inputs"]["dry-run"]["default"] is True
    assert JOBS["release/publish"]["if"] == "inputs.dry-run != true"
    assert JOBS["release/site"]["needs"] == "publish"
    assert JOBS["release/publish"]["needs"] == "build"


def test_a_script_is_one_line_that_nothing_is_pasted_into() -> None:
    for command in COMMANDS:
        assert "${{" not in command
        assert "\n" not in command


def make_targets() -> set[str]:
    rules = re.findall(r"^([\w .-]+):(?!=)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return {target for rule in rules for target in rule.split()}


def nox_sessions() -> set[str]:
    spec = importlib.util.spec_from_file_location("noxfile", ROOT / "noxfile.py")
    assert spec
    assert spec.loader
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
    return set(nox.registry.get())


def invoke_flags(task: str) -> set[str]:
    words = [str(Path(sys.executable).parent / "invoke"), task, "--help"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    return set(re.findall(r"^ +(--[\w-]+)", done.stdout, re.MULTILINE))


def script_flags(*words: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, *words, "--help"],
        cwd=ROOT,
        env={"PYTHONPATH": "scripts", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(re.findall(r"(?<![\w-])(--[\w-]+)", done.stdout))


def flags(words: list[str]) -> set[str]:
    return {word for word in words if word.startswith("--")}


def check_command(words: list[str]) -> None:
    """Fail unless a command line names something that is there, with options that it has."""
    program, *rest = words
    if program in ("python3", ".venv/bin/python"):
        count = 2 if rest[0] == "-m" else 1
        assert flags(rest) <= script_flags(*rest[:count])
    elif program == ".venv/bin/invoke":
        assert flags(rest[1:]) <= invoke_flags(rest[0])
    elif program == ".venv/bin/nox":
        assert rest[0] == "-s"
        assert rest[1:] == ["$SESSION"] or set(rest[1:]) <= nox_sessions()
    elif program == "make":
        assert set(rest) <= make_targets()
    else:
        assert program == "scripts/bootstrap.sh"
        usage = (ROOT / program).read_text().split("usage: ")[1].split('"')[0]
        assert flags(rest) <= set(re.findall(r"--[\w-]+", usage))


@pytest.mark.parametrize("command", sorted(set(COMMANDS) - PREPARATION))
def test_every_step_is_a_command_that_exists_here(command: str) -> None:
    command = command.removesuffix(TO_OUTPUTS).removesuffix(PENDING_IS_FINE).strip()
    listed = re.fullmatch(r'echo "(\w+)=\$\((.*)\)"', command)
    check_command(shlex.split(listed[2] if listed else command))


@pytest.mark.parametrize(
    "command",
    [
        "make no-such-target",
        ".venv/bin/nox -s no-such-session",
        ".venv/bin/invoke doctor --no-such-option",
        "python3 -m krafla_release.due --no-such-option",
        "scripts/bootstrap.sh --no-such-option",
        "curl https://example.org/install.sh",
    ],
)
def test_a_command_that_does_not_exist_here_is_found(command: str) -> None:
    with pytest.raises(AssertionError):
        check_command(shlex.split(command))


def test_the_sessions_of_the_matrix_are_sessions_of_nox() -> None:
    words = next(command for command in COMMANDS if "isas.py" in command)
    listed = subprocess.run(
        ["sh", "-c", words.replace(TO_OUTPUTS, "")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    sessions = yaml.safe_load(listed.stdout.partition("=")[2])
    assert len(sessions) == 5
    assert set(sessions) <= nox_sessions()


def test_what_is_handed_over_between_jobs_is_what_the_commands_write() -> None:
    steps = [step for _, step in STEPS if "/upload-" in step.get("uses", "")]
    assert {step["with"]["path"] for step in steps} == {"dist", "build/site"}
