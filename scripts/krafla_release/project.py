# SPDX-License-Identifier: MIT
"""Facts about the checkout, and the one way to run a command.

PYTHONPATH=scripts python3 -c 'from krafla_release import project; print(project.version())'
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "packaging" / "project.toml"
VERSION_HEADER = ROOT / "runtime" / "core" / "ml.h"
INTERRUPTED = 130  # the exit code that shells give to Ctrl-C
LAST_ZIP_TIME = 4_354_819_199  # the end of 2107: a .zip has no later time
LAST_WORDS = 15  # lines of a failed command that an error shows


class ReleaseError(Exception):
    """A step of building, packaging or proving failed; the message says where and what to do."""

    code = 1  # of the process


class UsageError(ReleaseError):
    """The command line asks for what does not exist."""

    code = 2


class PreflightError(ReleaseError):
    """The sources or the machine are not ready for a release."""

    code = 3


class VerificationError(ReleaseError):
    """What was made, or what came back from a service, is not what it must be."""

    code = 4


class RemoteError(ReleaseError):
    """A service refused; trying again changes nothing."""

    code = 5


class TryLaterError(ReleaseError):
    """A service does not answer yet; the same command later goes on where this one stopped."""

    code = 75  # EX_TEMPFAIL of sysexits.h


def version() -> str:
    """Return ML_VERSION; tools/mlb has a copy, which a test compares."""
    found = re.search(
        r'^#define ML_VERSION "(\d+\.\d+\.\d+)"$', VERSION_HEADER.read_text(), re.MULTILINE
    )
    if not found:
        raise ReleaseError(
            f'{VERSION_HEADER.relative_to(ROOT)}: no line #define ML_VERSION "X.Y.Z"'
        )
    return found[1]


def read_toml(path: Path) -> dict[str, Any]:
    """Return what a TOML file says."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:  # a package: what runs by Python alone reads no such file
        import tomli as tomllib
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ReleaseError(f"{path}: {error}") from None


@functools.cache
def facts() -> dict[str, str]:
    """Return packaging/project.toml: the names under which the project is published."""
    return {name: str(value) for name, value in read_toml(FACTS).items()}


def source_date_epoch() -> int:
    """Return the time that stands for this source: SOURCE_DATE_EPOCH, or the commit's time."""
    given = os.environ.get("SOURCE_DATE_EPOCH") or output("git", "log", "-1", "--format=%ct")
    if not re.fullmatch(r"[0-9]{1,10}", given) or int(given) > LAST_ZIP_TIME:
        raise ReleaseError(f"SOURCE_DATE_EPOCH is {given!r}, expected seconds since 1970")
    return int(given)


def run(*words: str | Path, env: dict[str, str] | None = None) -> None:
    """Show a command, run it in the checkout and fail if it fails."""
    print("+", shlex.join(map(str, words)), flush=True)
    try:
        code = subprocess.run(words, cwd=ROOT, env=os.environ | (env or {}), check=False).returncode
    except OSError as error:
        raise not_started(words[0], error) from None
    if code:
        raise ReleaseError(
            f"{Path(words[0]).name} ended with code {code}: {shlex.join(map(str, words))}"
        )


def output(*words: str | Path, cwd: Path = ROOT) -> str:
    """Show a command on standard error and return what it prints, without the last newline."""
    print("+", shlex.join(map(str, words)), file=sys.stderr, flush=True)
    try:
        done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    except OSError as error:
        raise not_started(words[0], error) from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip()).splitlines()[-LAST_WORDS:]
        raise ReleaseError("\n".join([f"{words[0]} ended with code {done.returncode}:", *said]))
    return done.stdout.strip()


def not_started(program: str | Path, error: OSError) -> ReleaseError:
    """Return the error for a program that is missing or cannot be run."""
    if isinstance(error, FileNotFoundError):
        return ReleaseError(f"{program} is not installed: invoke doctor names the package")
    return ReleaseError(f"{program}: {error.strerror}")


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file that is either whole or not there, whatever interrupts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        with part.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def unpack(archive: Path, place: Path) -> None:
    """Unpack the files and directories of a tar archive; nothing gets out of `place`."""
    with tarfile.open(archive) as tar:
        members = [member for member in tar if member.isreg() or member.isdir()]
        for member in members:
            path = PurePosixPath(member.name)
            if path.is_absolute() or ".." in path.parts:
                raise ReleaseError(f"{archive}: {member.name} would be written outside of {place}")
        # Debian 12's Python 3.11.2 has no filters, newer ones warn when none is chosen.
        tar.extraction_filter = getattr(tarfile, "data_filter", None)
        tar.extractall(place, members)  # noqa: S202  (checked above)


def exit_code(action: Callable[[], object]) -> int:
    """Do a tool's work and return its exit code: the error's, and a line on standard error."""
    try:
        action()
    except ReleaseError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.code
    except OSError as error:
        place = f"{error.filename}: {error.strerror}" if error.filename else str(error)
        print(f"error: {place}", file=sys.stderr)
        return ReleaseError.code
    except subprocess.SubprocessError as error:
        print(f"error: {error}", file=sys.stderr)
        return ReleaseError.code
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0
