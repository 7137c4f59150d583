# SPDX-License-Identifier: MIT
"""Fixtures shared by tests/e2e and tests/py: one build, run as its target runs it.

    KRAFLA_BUILD=build/avx2 .venv/bin/python -m pytest tests/e2e

KRAFLA_BUILD is the build directory and KRAFLA_EMULATOR the command prefix; `make ISA=... e2e` sets
both.  Without KRAFLA_BUILD the fastest build that exists and runs here is taken.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from pathlib import Path
from typing import NoReturn, Protocol

import pytest

import isas

ROOT = Path(__file__).resolve().parent.parent


class Krafla(Protocol):
    """Run one program of the build and return what it printed and its exit code."""

    def __call__(
        self,
        program: str,
        *args: str | Path,
        input: bytes = b"",  # noqa: A002  (named as in subprocess.run)
        timeout: float = 300,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run it; standard input is empty unless given."""
        ...


class NotRun(Protocol):
    """Skip the test; the reason is listed at the end of the session."""

    def __call__(self, reason: str) -> NoReturn:
        """Leave the test out."""
        ...


def pytest_configure() -> None:
    """Let the programs under test see Ctrl-C; a shell's background jobs inherit it as ignored."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def runs_here(build: Path) -> bool:
    """Return whether this build exists and its CPU check passes."""
    program = build / "ml_run"
    if not program.is_file():
        return False
    return subprocess.run([program, "--probe"], capture_output=True, check=False).returncode == 0


def fastest_build() -> Path | None:
    """Return the fastest build of this machine's architecture that runs here."""
    names = [isa.name for isa in isas.load(os.uname().machine)]
    builds = [ROOT / "build" / f"{name}{suffix}" for name in names for suffix in ("-pt", "")]
    return next(filter(runs_here, builds), None)


@pytest.fixture(scope="session")
def not_run() -> NotRun:
    """Return the one way to leave out a test: `not_run("this CPU lacks avx-vnni")`."""

    def skip(reason: str) -> NoReturn:
        pytest.skip(f"not run: {reason}")

    return skip


@pytest.fixture(scope="session")
def build_dir() -> Path:
    """Return the build under test."""
    chosen = os.environ.get("KRAFLA_BUILD")
    build = ROOT / chosen if chosen else fastest_build()
    if build is None or not build.is_dir():
        pytest.fail(f"no build to test ({chosen or 'build/*'}): run make ISA=<isa> first")
    return build


@pytest.fixture(scope="session")
def emulator() -> list[str]:
    """Return the words that stand before a program of the build; empty when it runs as it is."""
    return shlex.split(os.environ.get("KRAFLA_EMULATOR", ""))


@pytest.fixture(scope="session")
def krafla(build_dir: Path, emulator: list[str]) -> Krafla:
    """Return a function that runs a program: `krafla("ml_run", model, "-n", "8")`."""

    def run(
        program: str,
        *args: str | Path,
        input: bytes = b"",  # noqa: A002  (as above)
        timeout: float = 300,
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [*emulator, build_dir / program, *args],
            input=input,
            capture_output=True,
            timeout=timeout,
            env=os.environ | (env or {}),
            cwd=cwd,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """Return the directory of real models in Hugging Face form; it may be absent."""
    return ROOT / "models"


@pytest.fixture
def smollm(models_dir: Path, not_run: NotRun) -> Path:
    """Return SmolLM2 135M Instruct as a Hugging Face directory, or leave the test out."""
    return real_model(models_dir / "smollm2-135m-instruct", not_run)


@pytest.fixture
def gemma(models_dir: Path, not_run: NotRun) -> Path:
    """Return Gemma 3 270M as a Hugging Face directory, or leave the test out."""
    return real_model(models_dir / "gemma-3-270m", not_run)


def real_model(directory: Path, not_run: NotRun) -> Path:
    """Return the directory if its weights are there."""
    if not (directory / "model.safetensors").is_file():
        not_run(f"{directory.name} is not there: python3 scripts/fetch_models.py")
    return directory
