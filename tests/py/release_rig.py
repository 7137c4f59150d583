# SPDX-License-Identifier: MIT
"""A checkout ready for a release, GitHub and Zenodo on 127.0.0.1, and processes that can be killed.

Used by test_release.py and its sisters.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from loopback import Request
from loopback_github import OWNER_NAME, GitHub
from loopback_zenodo import Zenodo

ROOT = Path(__file__).resolve().parents[2]
VERSION = "0.9.0"
TAG = f"v{VERSION}"
# What the release line reads of a checkout.
CODE = ("scripts", "packaging", "tools/mlb", "runtime/core/ml.h", "runtime/kernels/isas.txt")
TEXT = ("docs", "CHANGELOG.md", "CITATION.cff", "LICENSE", "README.md", "pyproject.toml")
TOKEN = "ghp_secret"  # noqa: S105  (of a server on 127.0.0.1)
GIT = ("git", "-c", "user.name=t", "-c", "user.email=t@invalid", "-c", "commit.gpgsign=false")


def git(checkout: Path, *words: str) -> str:
    """Run git in a checkout and return what it prints."""
    done = subprocess.run([*GIT, *words], cwd=checkout, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def commit_all(checkout: Path, message: str) -> str:
    """Commit everything and return the commit."""
    git(checkout, "add", "--all")
    git(checkout, "commit", "--quiet", "--allow-empty", "--message", message)
    return git(checkout, "rev-parse", "HEAD")


def make_checkout(place: Path) -> Path:
    """Copy what the release line needs into a repository of its own, with one commit on main."""
    checkout = place / "checkout"
    listed = subprocess.run(
        [
            "git",
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
            *CODE,
            *TEXT,
            ".gitignore",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, checkout / name)
    (checkout / "build").mkdir()
    git(checkout, "init", "--quiet", "--initial-branch=main")
    commit_all(checkout, "the sources")
    return checkout


def python(
    checkout: Path, *words: str, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a module of the checkout."""
    there = os.environ | {"PYTHONPATH": str(checkout / "scripts")} | (env or {})
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=checkout,
        env=there,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def bump(checkout: Path) -> str:
    """Make the sources those of VERSION and return the commit."""
    done = python(checkout, "krafla_release.bump", "--version", VERSION, "--write")
    assert done.returncode == 0, done.stderr
    return commit_all(checkout, f"Krafla {VERSION}")


@dataclasses.dataclass
class Driver:
    """The process that starts releases, and the checkout of which."""

    checkout: Path
    commit: str
    process: subprocess.Popen[str]

    def say(self) -> str:
        """Return the next line that it prints."""
        assert self.process.stdout
        line = self.process.stdout.readline()
        assert line, "the driver has died"
        return line.strip()


@contextmanager
def driver(place: Path) -> Iterator[Driver]:
    """Start a driver for a checkout that is ready to be released."""
    checkout = make_checkout(place)
    commit = bump(checkout)
    env = os.environ | {"PYTHONPATH": str(checkout / "scripts"), "GITHUB_REPOSITORY": OWNER_NAME}
    words = [sys.executable, str(Path(__file__).with_name("release_driver.py"))]
    with subprocess.Popen(
        words, cwd=checkout, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        made = Driver(checkout, commit, process)
        assert made.say() == "ready"
        try:
            yield made
        finally:
            assert process.stdin
            process.stdin.close()


@dataclasses.dataclass(frozen=True)
class Done:
    """How a release ended."""

    code: int  # -9 if it was killed
    output: str


class Rig:
    """Both services and one directory for files; releases run against them one after the other."""

    def __init__(self, driver: Driver, place: Path) -> None:
        self.driver, self.place = driver, place
        self.dist = place / "dist"
        self.github = GitHub(driver.commit)
        self.zenodo = Zenodo()
        self.github.tokens = {TOKEN: float("inf")}
        self.github.watch = self.watch_github
        self.zenodo.watch = lambda request, when: self.watch("zenodo", request, when)
        self.seen: list[tuple[str, str, str]] = []  # service, method and path of each request
        self.kill_at: tuple[int, str] | None = None  # the number of a request, and when
        self.signal = signal.SIGKILL
        self.child = 0

    @contextmanager
    def running(self) -> Iterator[Rig]:
        """Start the services for a block."""
        with ExitStack() as stack:
            stack.enter_context(self.github.running())
            stack.enter_context(self.zenodo.running())
            yield self

    def watch_github(self, request: Request, when: str) -> bool:
        """Let Zenodo see what is published."""
        if when == "done" and TAG in self.github.tags and not self.zenodo.records:
            self.zenodo.archive(
                VERSION, related=f"https://github.com/{OWNER_NAME}/tree/{TAG}", lag=1
            )
        return self.watch("github", request, when)

    def watch(self, service: str, request: Request, when: str) -> bool:
        """Count requests, and kill who sends the one that was chosen."""
        if when == "asked":
            self.seen.append((service, request.method, request.path))
        if self.kill_at == (len(self.seen) - 1, when):
            os.kill(self.child, self.signal)
            return True
        return False

    def release(self, *options: str, env: dict[str, str] | None = None, **order: Any) -> Done:
        """Run `invoke release` and return how it ended."""
        output = self.place / "output"
        order |= {
            "argv": ["--version", VERSION, "--dist", str(self.dist / TAG), *options],
            "output": str(output),
            "env": {
                "GITHUB_API_URL": self.github.api,
                "ZENODO_API_URL": self.zenodo.api,
                "GITHUB_TOKEN": TOKEN,
                "TEST_COMPILER": "1.0",
                "TEST_MISSING": "",
                "TEST_DURING": "",
                **(env or {}),
            },
        }
        self.seen.clear()
        process = self.driver.process
        assert process.stdin
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        self.child = int(self.driver.say())
        code = int(self.driver.say())
        self.kill_at = None
        return Done(code, output.read_text())

    def state(self) -> list[Any]:
        """Return what a visitor can tell of GitHub."""
        return self.github.state()

    def ran(self) -> list[str]:
        """Return the steps on this machine that were really done, in order."""
        path = self.dist / "ran"
        return path.read_text().split() if path.exists() else []


@contextmanager
def rig(driver: Driver, place: Path) -> Iterator[Rig]:
    """Return a rig whose services run."""
    place.mkdir(parents=True, exist_ok=True)
    with Rig(driver, place).running() as made:
        yield made


def problems(made: Rig, want: Sequence[Any]) -> list[str]:
    """Return in what a rig differs from an undisturbed release."""
    found = []
    if made.state() != list(want):
        found.append(f"state {made.state()}")
    twice = [upload for upload in made.github.uploads if made.github.uploads.count(upload) > 1]
    if twice:
        found.append(f"stored twice: {twice}")
    refused = [line.path for line in made.github.log if (line.method, line.status) == ("POST", 422)]
    if refused:
        found.append(f"sent although it was there: {refused}")
    if len(made.github.releases) != 1:
        found.append(f"{len(made.github.releases)} releases")
    return found
