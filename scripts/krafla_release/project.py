# SPDX-License-Identifier: MIT
"""Facts about the checkout, and the one way to run a command.

PYTHONPATH=scripts python3 -c 'from krafla_release import project; print(project.version())'
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
VERSION_HEADER = ROOT / "runtime" / "core" / "ml.h"


class ReleaseError(Exception):
    """A step of building, packaging or proving failed; the message says where and what to do."""


def version() -> str:
    """Return ML_VERSION, the only place where the version stands."""
    found = re.search(
        r'^#define ML_VERSION "(\d+\.\d+\.\d+)"$', VERSION_HEADER.read_text(), re.MULTILINE
    )
    if not found:
        raise ReleaseError(
            f'{VERSION_HEADER.relative_to(ROOT)}: no line #define ML_VERSION "X.Y.Z"'
        )
    return found[1]


def source_date_epoch() -> int:
    """Return the time that stands for this source: SOURCE_DATE_EPOCH, or the commit's time."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    if given is not None:
        return int(given)
    return int(output("git", "log", "-1", "--format=%ct"))


def run(*words: str | Path, env: dict[str, str] | None = None) -> None:
    """Show a command, run it in the checkout and fail if it fails."""
    print("+", shlex.join(map(str, words)), flush=True)
    code = subprocess.run(words, cwd=ROOT, env=os.environ | (env or {}), check=False).returncode
    if code:
        raise ReleaseError(
            f"{Path(words[0]).name} ended with code {code}: {shlex.join(map(str, words))}"
        )


def output(*words: str | Path) -> str:
    """Return what a command prints, without the last newline."""
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{shlex.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout.strip()


def python() -> Path:
    """Return the interpreter of the checkout's environment, which is the one that runs this."""
    return Path(sys.executable)
