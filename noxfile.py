# SPDX-License-Identifier: MIT
"""The test sessions; each is a front end of scripts/ and uses the environment that runs nox.

.venv/bin/nox -s lint types test-avx2
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

import isas

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types", "tests"]
C_FILES = ("runtime/**/*.[ch]", "tests/**/*.[ch]")
ENV = {"PYTHONPATH": "scripts"}
PYTHON = sys.executable  # the one that runs nox has what the sessions need


def add_test_session(name: str) -> None:
    """Add the session of one row of isas.txt."""

    @nox.session(name=name)
    def test(session: nox.Session) -> None:
        """Build and test one instruction set, emulated if this CPU lacks it."""
        session.run(PYTHON, "-m", "krafla_release.testing", name, env=ENV)


for isa_session in isas.sessions():
    add_test_session(isa_session)


@nox.session
def tests(session: nox.Session) -> None:
    """Test the Python tools, the release system and the formats."""
    session.run(PYTHON, "-m", "pytest", "-q", "-m", "not long", "tests/py", *session.posargs)


@nox.session
def real(session: nox.Session) -> None:
    """Compare the real models with transformers: text, perplexity, GGUF, templates; minutes."""
    session.run(PYTHON, "-m", "pytest", "-q", "-m", "real", "tests/py", *session.posargs)


@nox.session
def tokenizers(session: nox.Session) -> None:
    """Compare every tokenizer on 10,000 texts; first: python scripts/fetch_tokenizers.py."""
    env = {"KRAFLA_TEXTS": "10000"}
    path = "tests/py/test_tokenizer_equality.py"
    session.run(PYTHON, "-m", "pytest", "-q", path, *session.posargs, env=env)


@nox.session
def golden(session: nox.Session) -> None:
    """Make the golden models again, with their logits and hashes; git shows what changed.

    Needs the extra `models`.
    """
    builds = ("scalar", "scalar_fused")
    for build in builds:
        session.run("make", "-s", f"ISA={build}", external=True)
    session.run(PYTHON, "scripts/make_golden.py", "--all")
    session.run(PYTHON, "scripts/make_golden.py", "--hashes", *(f"build/{b}" for b in builds))
    session.run("git", "status", "--short", "tests/data/golden", external=True)
    tests = ("tests/py/test_reference.py", "tests/py/test_families.py")
    for build in builds:
        env = {"KRAFLA_BUILD": f"build/{build}"}
        session.run(PYTHON, "-m", "pytest", "-q", *tests, *session.posargs, env=env)


@nox.session
def lint(session: nox.Session) -> None:
    """Check the form of every source file."""
    sources = sorted(str(path) for pattern in C_FILES for path in Path().glob(pattern))
    session.run("clang-format-14", "--dry-run", "--Werror", *sources)
    session.run(PYTHON, "-m", "ruff", "check", ".")
    session.run(PYTHON, "-m", "ruff", "format", "--check", ".")
    session.run(PYTHON, "-m", "codespell_lib")
    session.run("shellcheck", ".ci/run", *map(str, sorted(Path("scripts").glob("*.sh"))))
    session.run(PYTHON, "scripts/lint_layout.py")


@nox.session
def types(session: nox.Session) -> None:
    """Check every Python file with mypy --strict."""
    session.run(PYTHON, "-m", "mypy", "--no-error-summary")


@nox.session
def emulated(session: nox.Session) -> None:
    """Check kernels and guard of every build on emulated CPUs."""
    session.run(PYTHON, "-m", "krafla_release.emulated", *session.posargs, env=ENV)


@nox.session
def windows(session: nox.Session) -> None:
    """Build the Windows programs and run them by Wine."""
    session.run(PYTHON, "-m", "krafla_release.windows", env=ENV)


@nox.session
def audit(session: nox.Session) -> None:
    """Look for instructions and segments that no program may have, in what is built."""
    session.run(PYTHON, "-m", "krafla_release.audit", *session.posargs, env=ENV)


@nox.session
def package(session: nox.Session) -> None:
    """Make the archive of this machine."""
    session.run(PYTHON, "-m", "krafla_release.package", *session.posargs, env=ENV)


@nox.session
def smoke(session: nox.Session) -> None:
    """Unpack the archive of this machine and run everything in it."""
    session.run(PYTHON, "-m", "krafla_release.smoke", *session.posargs, env=ENV)


@nox.session
def cmake(session: nox.Session) -> None:
    """Build with CMake by GCC and Clang, and run the tests; `-- --all` takes every row."""
    session.run(PYTHON, "-m", "krafla_release.cmake", *session.posargs, env=ENV)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Look for new hostile files, a while per target."""
    session.run(PYTHON, "-m", "krafla_release.testing", "fuzz", env=ENV)


@nox.session
def asan(session: nox.Session) -> None:
    """Run the tests of the fastest build under the sanitizers."""
    session.run(PYTHON, "-m", "krafla_release.testing", "asan", env=ENV)
