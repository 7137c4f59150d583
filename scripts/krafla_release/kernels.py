# SPDX-License-Identifier: MIT
"""Run checkkern and read what it says; excuse what an emulator is known to do wrong.

PYTHONPATH=scripts python3 -m krafla_release.testing test-avx2
"""

from __future__ import annotations

import dataclasses
import re
import subprocess
from typing import TYPE_CHECKING

from krafla_release.project import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SECONDS = 900  # after which it hangs
SUMMARY = re.compile(r"hash (\w+)\ncheckkern \w+: (\d+) passed, (\d+) failed\n")
FAILURE = re.compile(r"^FAIL (.*) \(input", re.MULTILINE)
# QEMU's x86 takes the smallest halves for zero when an instruction widens them (seen in 7.2).
FLUSHES_HALVES = "qemu-x86_64"
HALVES = "f16"
WHY_EXCUSED = "QEMU takes the smallest of them for zero"


@dataclasses.dataclass(frozen=True)
class Checked:
    """What checkkern found; `wrong` is empty if all is well, `excused` counts failed cases."""

    passed: int
    hash: str
    wrong: str
    excused: int = 0


def check(command: Sequence[str | Path]) -> Checked:
    """Run checkkern by a command that may begin with an emulator."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Checked(0, "", f"hangs: stopped after {SECONDS} s")
    return judge(str(command[0]), done.returncode, done.stdout, done.stderr)


def judge(program: str, code: int, said: str, errors: str) -> Checked:
    """Return what a run of checkkern by an emulator or by itself means."""
    found = SUMMARY.search(said)
    if not found or code not in (0, 1):
        return Checked(0, "", f"ended with code {code}: {(errors or said).strip()[-300:]}")
    passed, failed = int(found[2]), int(found[3])
    cases = FAILURE.findall(errors)
    excused = program.endswith(FLUSHES_HALVES) and all(HALVES in case for case in cases)
    if failed and excused and len(cases) == failed:
        return Checked(passed, "", "", failed)
    wrong = ", ".join(cases) or ("" if code == 0 else f"ended with code {code}")
    return Checked(passed, found[1], wrong)
