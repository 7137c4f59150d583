# SPDX-License-Identifier: MIT
"""The workflows of a release, step by step in fresh clones, against GitHub and Zenodo on 127.0.0.1.

    .venv/bin/nox -s workflows

Every `run:` line is executed as it stands in its workflow, as root, in the order of the jobs; what
actions do in between (checkout, artifacts, attestation) is done here in the plainest way.  Takes
as long as a release from nothing.  `make check` and the rows on ARM64 are left to themselves.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from krafla_release import assets, changelog, checksums, versions
from krafla_release.project import ROOT
from krafla_release.versions import Version
from loopback_github import OWNER_NAME, GitHub
from loopback_zenodo import Zenodo
from test_workflows import JOBS

pytestmark = pytest.mark.long
AUTHOR = ("-c", "user.name=tests", "-c", "user.email=tests@invalid")


def git(place: Path, *words: str) -> str:
    """Run git and return what it prints."""
    command = ["git", "-C", str(place), *AUTHOR, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def expected(version: Version) -> list[str]:
    """Return the names of the files of a release of a version."""
    return [name.replace(str(versions.current()), str(version)) for name in assets.expected()]


def next_version() -> Version:
    """Return the version that a bump of this commit can make."""
    version = versions.current()
    if changelog.find(version):
        return dataclasses.replace(version, patch=version.patch + 1)
    return version


@dataclasses.dataclass
class Host:
    """Where jobs run: the repository on GitHub, the services, and what jobs hand over."""

    place: Path
    version: Version
    github: GitHub
    zenodo: Zenodo

    @property
    def origin(self) -> Path:
        """The repository that is cloned."""
        return self.place / "origin.git"

    def values(self) -> dict[str, str]:
        """Return what the expressions of the workflows stand for."""
        tag = self.version.tag
        return {
            "github.token": "token",
            "inputs.version && format('v{0}', inputs.version) || github.ref_name": tag,
            "github.event.release.tag_name || inputs.version": tag,
            "github.event.pull_request.base.sha": git(self.origin, "rev-parse", "main~1"),
        }

    def evaluated(self, table: dict[str, str] | None) -> dict[str, str]:
        """Return variables with their expressions replaced."""
        known = self.values()
        found = {}
        for name, text in (table or {}).items():
            expression = re.fullmatch(r"\$\{\{ (.*) \}\}", text)
            found[name] = known[expression[1]] if expression else text
        return found

    def run(self, name: str, workflow_env: dict[str, str] | None = None) -> dict[str, str]:
        """Run a job in a fresh clone and return its outputs."""
        clone = self.place / name.replace("/", "-")
        git(self.place, "clone", "--quiet", str(self.origin), str(clone))
        outputs = clone.with_suffix(".outputs")
        outputs.touch()
        base = os.environ | {
            "GIT_CONFIG_GLOBAL": str(self.place / "gitconfig"),
            "GITHUB_API_URL": self.github.api,
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_REPOSITORY": OWNER_NAME,
            "GITHUB_WORKSPACE": str(clone),
            "ZENODO_API_URL": self.zenodo.api,
        }
        for step in JOBS[name]["steps"]:
            if "run" in step:
                env = base | self.evaluated(workflow_env) | self.evaluated(step.get("env"))
                self.execute(name, step["run"], clone, env)
            else:
                self.act(step, clone)
        return dict(line.split("=", 1) for line in outputs.read_text().splitlines())

    @staticmethod
    def execute(name: str, command: str, clone: Path, env: dict[str, str]) -> None:
        """Run a step's line as the runner does."""
        print(f"[{name}] {command}", flush=True)
        begun = time.monotonic()
        subprocess.run(["sh", "-e", "-c", command], cwd=clone, env=env, check=True)
        print(f"[{name}] took {time.monotonic() - begun:.0f} s", flush=True)

    def act(self, step: dict[str, Any], clone: Path) -> None:
        """Do what an action does, as far as the next steps depend on it."""
        action = step["uses"].split("@")[0]
        kept = self.place / "artifacts"
        if action == "actions/upload-artifact":
            shutil.copytree(clone / step["with"]["path"], kept / step["with"]["name"])
        elif action == "actions/download-artifact":
            shutil.copytree(kept / step["with"]["name"], clone / step["with"]["path"])
        elif action == "actions/upload-pages-artifact":
            assert (clone / step["with"]["path"] / "index.html").is_file()
        elif action == "actions/attest":
            path = next(iter(step["with"].values())).replace("${{ env.TAG }}", self.version.tag)
            assert list(checksums.verify((clone / path).parent)) == expected(self.version)[:-1]
        else:
            assert action == "actions/checkout"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """Merge a bump into main of a clone, and start the services."""
    place = tmp_path_factory.mktemp("host")
    author, origin, version = place / "author", place / "origin.git", next_version()
    git(place, "clone", "--quiet", "--bare", str(ROOT), str(origin))
    git(place, "clone", "--quiet", str(origin), str(author))
    git(author, "checkout", "--quiet", "-B", "main")
    words = [sys.executable, "-m", "krafla_release.bump", "--version", str(version), "--write"]
    (author / "build").mkdir()
    env = os.environ | {"PYTHONPATH": str(author / "scripts")}
    subprocess.run(words, cwd=author, env=env, check=True)
    git(author, "commit", "--quiet", "--all", "--message", f"Krafla {version}")
    git(author, "push", "--quiet", "origin", "main")
    git(origin, "symbolic-ref", "HEAD", "refs/heads/main")
    with ExitStack() as services:
        found = Host(place, version, GitHub(git(author, "rev-parse", "HEAD")), Zenodo())
        services.enter_context(found.github.running())
        services.enter_context(found.zenodo.running())
        yield found


def test_a_raised_version_is_released_by_the_workflows_lines(host: Host) -> None:
    tag = "${{ inputs.version && format('v{0}', inputs.version) || github.ref_name }}"
    # The change is looked at, and a release is due.
    host.run("ci/version")
    assert "test-sve" in host.run("ci/arm-rows")["sessions"]
    assert host.run("auto-release/decide") == {"version": str(host.version)}

    # The build may read only, and changes nothing.
    host.run("release/build", {"TAG": tag})
    assert {line.method for line in host.github.log} == {"GET"}

    # Another machine publishes what the first one built.
    host.zenodo.archive(str(host.version))
    host.run("release/publish", {"TAG": tag})
    release = host.github.releases[0]
    assert (release.draft, release.tag) == (False, host.version.tag)
    assert [asset.name for asset in release.assets] == expected(host.version)
    assert host.zenodo.records[0].doi in release.body

    # Now nothing is due any more, and the DOI is not added twice.
    git(host.origin, "tag", host.version.tag, "main")
    shutil.rmtree(host.place / "auto-release-decide")
    assert host.run("auto-release/decide") == {"version": ""}
    changes = [line for line in host.github.log if line.method != "GET"]
    host.run("zenodo-doi/doi")
    assert [line for line in host.github.log if line.method != "GET"] == changes


def test_a_doi_that_is_still_to_come_fails_no_workflow(host: Host) -> None:
    host.zenodo.records.clear()
    host.github.releases[0].body = "notes"
    shutil.rmtree(host.place / "zenodo-doi-doi", ignore_errors=True)
    host.run("zenodo-doi/doi")
    assert host.github.releases[0].body == "notes"
