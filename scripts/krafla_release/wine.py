# SPDX-License-Identifier: MIT
"""Run Windows programs by Wine, in a prefix of their own, with a limit of time.

PYTHONPATH=scripts python3 -c 'from krafla_release import wine; print(wine.missing())'
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import tempfile
from typing import TYPE_CHECKING

from krafla_release import build
from krafla_release.project import ROOT, VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFIX = ROOT / "build" / "wine"
DRIVE_C = PREFIX / "drive_c"
ENVIRONMENT = {
    "WINEPREFIX": str(PREFIX),
    "WINEDEBUG": "-all",
    "WINEDLLOVERRIDES": "mscoree,mshtml=",  # else it asks to install them
    "DISPLAY": "",
    "LC_ALL": "C.UTF-8",  # else Wine has no characters for names that are not English
}
SECONDS = 120  # after which a program hangs
STARTS = 3
UNKNOWN = 9009 & 0xFF  # cmd's code for a program that it does not know, as Wine passes it on


def missing() -> str | None:
    """Return why Windows programs cannot be run here, if they cannot."""
    if build.host_arch() != "x86_64":
        return "this machine is no x86_64"
    return None if shutil.which("wine") else "wine not installed"


@contextlib.contextmanager
def prefix() -> Iterator[None]:
    """Make the prefix if need be, and keep it from other processes; leave nothing running in it."""
    PREFIX.parent.mkdir(exist_ok=True)
    with PREFIX.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            if not (PREFIX / "system.reg").is_file():
                run_quietly("wineboot", "--init")
            yield
        finally:
            run_quietly("wineserver", "--kill")


def run_quietly(*words: str) -> None:
    """Run a command of Wine's own."""
    try:
        subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | ENVIRONMENT,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise VerificationError(f"{words[0]}: not done after {SECONDS} s") from None


def call(
    *words: str | Path,
    env: dict[str, str] | None = None,
    text: bytes = b"",
    cwd: Path | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a Windows program, once more if Wine could not start it."""
    for _ in range(STARTS - 1):
        done = start(*words, env=env, text=text, cwd=cwd)
        if not is_not_started(done):
            return done
    return start(*words, env=env, text=text, cwd=cwd)


def is_not_started(done: subprocess.CompletedProcess[bytes]) -> bool:
    """Return whether cmd found no program, or one ended without a word, as none of ours does.

    Seen with Wine 8 on a busy machine, twice in 1200 calls, for programs that were there.
    """
    unknown = done.returncode == UNKNOWN and done.stderr.startswith(b"Can't recognize ")
    return not done.stdout and (unknown or (done.returncode == 1 and not done.stderr))


def start(
    *words: str | Path, env: dict[str, str] | None, text: bytes, cwd: Path | None
) -> subprocess.CompletedProcess[bytes]:
    """Start a Windows program and wait for its end.

    It writes to files: a pipe would be held open by what Wine starts beside it and leaves running.
    """
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            done = subprocess.run(
                ["wine", *words],
                input=text,
                stdout=out,
                stderr=err,
                env=os.environ | ENVIRONMENT | (env or {}),
                cwd=cwd,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise VerificationError(f"{words[0]} by wine: not done after {SECONDS} s") from None
        out.seek(0)
        err.seek(0)
        return subprocess.CompletedProcess(done.args, done.returncode, out.read(), err.read())


def windows_path(path: Path) -> str:
    """Return how Windows programs name a file."""
    if path.is_relative_to(DRIVE_C):
        path, drive = path.relative_to(DRIVE_C), "C:\\"
    else:
        path, drive = path.relative_to("/"), "Z:\\"
    return drive + str(path).replace("/", "\\")
