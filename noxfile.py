# SPDX-License-Identifier: MIT
"""What can be checked, from a single build to the whole release; each is a front end of scripts/.

    .venv/bin/nox -l                          the table of contents
    .venv/bin/nox -s lint types test-avx2
    .venv/bin/nox -t aarch64                  every session of one architecture

The sessions use the environment that runs nox: nothing is installed by them.  Bare `nox` runs those
that take seconds.  Tags: test, release, hand (minutes or more, never run by `make check`).
"""

from __future__ import annotations

import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

import isas

nox.options.default_venv_backend = "none"
nox.options.sessions = ["lint", "types"]
ENV = {"PYTHONPATH": "scripts"}
PYTHON = sys.executable  # the one that runs nox has what the sessions need


def module(session: nox.Session, name: str, *words: str) -> None:
    """Run a module of scripts/krafla_release with the words after `--`."""
    session.run(PYTHON, "-m", f"krafla_release.{name}", *words, *session.posargs, env=ENV)


def pytest(session: nox.Session, *words: str, env: dict[str, str] | None = None) -> None:
    """Run pytest with the words after `--`."""
    session.run(PYTHON, "-m", "pytest", "-q", *words, *session.posargs, env=env)


# ---- tests: one session per row of isas.txt, then what all rows share -------------------------


def add_test_session(name: str, isa: isas.Isa) -> None:
    """Add the session of one row of isas.txt."""

    def test(session: nox.Session) -> None:
        module(session, "testing", name)

    others = {None: "not at all", "vnnirun": "by tests/emulate"}
    how = f"else {others.get(isa.cpu, f'as on {isa.cpu}')}"
    test.__doc__ = f"Test {isa.name} of {isa.arch} on this CPU if it can, {how}."
    nox.session(name=name, tags=["test", isa.arch])(test)


for isa_session in isas.sessions().items():
    add_test_session(*isa_session)


@nox.session(tags=["test"])
def tests(session: nox.Session) -> None:
    """Test the Python tools, the formats and the release system, on two cores."""
    # The tests of a file share the models that it converts and the build that it makes.
    pytest(session, "-n", "2", "--dist", "loadfile", "-m", "not long", "tests/py")


@nox.session(tags=["test"])
def emulated(session: nox.Session) -> None:
    """Check kernels and guard of every build on emulated CPUs, from Opteron to SVE."""
    module(session, "emulated")


@nox.session(tags=["test"])
def windows(session: nox.Session) -> None:
    """Build the Windows programs and compare them with their Linux twins by Wine."""
    module(session, "windows")


@nox.session(tags=["test"])
def cmake(session: nox.Session) -> None:
    """Build with CMake by GCC and Clang, and run the tests; `-- --all` takes every row."""
    module(session, "cmake")


@nox.session(tags=["test"])
def asan(session: nox.Session) -> None:
    """Run the tests of the fastest build under the sanitizers."""
    module(session, "testing", "asan")


@nox.session(tags=["test"])
def fuzz(session: nox.Session) -> None:
    """Look for new hostile files, a while per target."""
    module(session, "testing", "fuzz")


# ---- form ---------------------------------------------------------------------------------------


@nox.session
def lint(session: nox.Session) -> None:
    """Check the form of every source, script, workflow and data file; `-- c python` takes some."""
    module(session, "lint")


@nox.session
def types(session: nox.Session) -> None:
    """Check every Python file with mypy --strict."""
    session.run(PYTHON, "-m", "mypy", "--no-error-summary", *session.posargs)


# ---- what is released, in the order of a release ----------------------------------------------


@nox.session(tags=["release"])
def docs(session: nox.Session) -> None:
    """Check that no page is stale, build the site, run every command of the docs; `-- --quick`."""
    session.run("make", "-s", "ISA=scalar", "THREADS=pthread", external=True)  # says its options
    session.run(PYTHON, "scripts/sync_docs.py", "--check")
    session.run(PYTHON, "-m", "krafla_release.site", env=ENV)
    module(session, "docs_commands")


@nox.session(tags=["release"])
def audit(session: nox.Session) -> None:
    """Look for instructions, segments and paths that no program may have, in what is built."""
    module(session, "audit")


@nox.session(tags=["release"])
def package(session: nox.Session) -> None:
    """Make this machine's archive; `-- --all` makes all four."""
    module(session, "package")


@nox.session(tags=["release"])
def smoke(session: nox.Session) -> None:
    """Unpack this machine's archive and run everything in it; `-- --all` takes all four."""
    module(session, "smoke")


@nox.session(tags=["release"])
def wheel(session: nox.Session) -> None:
    """Make this machine's Python wheel, install it and run every library in it."""
    module(session, "wheel")
    module(session, "wheel", "--smoke")


@nox.session(tags=["release"])
def deb(session: nox.Session) -> None:
    """Make this machine's Debian package from the archive's programs, install it and run them."""
    module(session, "deb")
    module(session, "deb", "--smoke")


@nox.session(tags=["release"])
def installer(session: nox.Session) -> None:
    """Make install.sh and let it install this machine's archive, which must be in dist/."""
    module(session, "installer")
    module(session, "installer", "--smoke")


# ---- by hand: minutes or more -----------------------------------------------------------------


@nox.session(tags=["hand"])
def real(session: nox.Session) -> None:
    """Compare the real models with transformers: text, perplexity, GGUF, templates."""
    pytest(session, "-m", "real", "tests/py")


@nox.session(tags=["hand"])
def tokenizers(session: nox.Session) -> None:
    """Compare every tokenizer on 10,000 texts; first: python scripts/fetch_tokenizers.py."""
    pytest(session, "tests/py/test_tokenizer_equality.py", env={"KRAFLA_TEXTS": "10000"})


@nox.session(tags=["hand"])
def golden(session: nox.Session) -> None:
    """Make the golden models again, with their logits and hashes; needs the extra `models`."""
    builds = ("scalar", "scalar_fused")
    for build in builds:
        session.run("make", "-s", f"ISA={build}", external=True)
    session.run(PYTHON, "scripts/make_golden.py", "--all")
    session.run(PYTHON, "scripts/make_golden.py", "--hashes", *(f"build/{b}" for b in builds))
    session.run("git", "status", "--short", "tests/data/golden", external=True)
    tests = ("tests/py/test_reference.py", "tests/py/test_families.py")
    for build in builds:
        pytest(session, *tests, env={"KRAFLA_BUILD": f"build/{build}"})


@nox.session(name="wheel-arm", tags=["hand"])
def wheel_arm(session: nox.Session) -> None:
    """Make the Python wheels for ARM and run them by an emulated Python, which is fetched."""
    session.run(PYTHON, "-m", "krafla_release.sysroot", "aarch64", "armv7", env=ENV)
    for step in ([], ["--smoke"]):
        module(session, "wheel", *step, "linux-aarch64", "linux-armv7hf")


@nox.session(tags=["hand"])
def container(session: nox.Session) -> None:
    """Build the container file for each platform and run what is in it; needs root and buildah."""
    module(session, "container")


@nox.session(tags=["hand"])
def repro(session: nox.Session) -> None:
    """Build every file of a release again in a clone elsewhere; every byte must be the same."""
    module(session, "repro")


@nox.session(tags=["hand"])
def workflows(session: nox.Session) -> None:
    """Run the steps of the release workflows in fresh clones, against services on this machine."""
    pytest(session, "-m", "long", "-s", "tests/py/test_workflows_run.py")
