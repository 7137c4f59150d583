# SPDX-License-Identifier: MIT
"""All builds of an arithmetic class compute the same bits: they print the same hash.

.venv/bin/python -m pytest tests/py/test_kernel_classes.py
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

import isas

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import NotRun

LAST_LINES = re.compile(r"^class (\w+), seed \d+, hash ([0-9a-f]{16})$", re.MULTILINE)


def checkkern(isa: isas.Isa) -> Path | None:
    """Return the checkkern of this row, brought up to date, if it was ever built."""
    native = isa.arch == os.uname().machine
    name = f"build/{isa.name}{'' if native else '-' + isa.arch}/checkkern"
    if not (isas.ROOT / name).is_file():
        return None
    options = [f"ISA={isa.name}", f"CROSS={'' if native else isa.cross}"]
    subprocess.run(["make", *options, name], cwd=isas.ROOT, check=True, stdout=subprocess.DEVNULL)
    return isas.ROOT / name


def run(isa: isas.Isa, program: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run it as it is, or through the emulator of its architecture."""
    native = isa.arch == os.uname().machine
    command = [str(program), *args] if native else [isas.EMULATORS[isa.arch], str(program), *args]
    env = dict(os.environ) if native or not isa.cpu else {**os.environ, "QEMU_CPU": isa.cpu}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def results(not_run: NotRun, *args: str) -> dict[str, tuple[str, str]]:
    """Return class and hash of every build whose CPU, or emulator, is here."""
    found: dict[str, tuple[str, str]] = {}
    for isa in isas.load(built=True):
        program = checkkern(isa)
        native = isa.arch == os.uname().machine
        if program is None or (not native and not shutil.which(isas.EMULATORS[isa.arch])):
            continue
        done = run(isa, program, *args)
        if "signal 4:" in done.stderr:  # this CPU lacks it
            continue
        match = LAST_LINES.search(done.stdout)
        assert match, f"{isa.name}: {done.stdout[-300:]}{done.stderr[-300:]}"
        assert done.returncode == 0, f"{isa.name}: {done.stderr[-2000:]}"
        found[f"{isa.name} {isa.arch}"] = (match[1], match[2])
    if len(found) < 2:
        not_run("fewer than two builds have a checkkern: make ISA=<isa> for some")
    return found


@pytest.mark.parametrize("seed", ["1", "20"])
def test_builds_of_a_class_print_the_same_hash(not_run: NotRun, seed: str) -> None:
    by_class: dict[str, dict[str, list[str]]] = {}
    for name, (kind, digest) in results(not_run, "--seed", seed).items():
        by_class.setdefault(kind, {}).setdefault(digest, []).append(name)
    for kind, digests in by_class.items():
        assert len(digests) == 1, f"{kind}: {digests}"


def test_each_build_has_the_class_that_the_table_says(not_run: NotRun) -> None:
    want = {f"{isa.name} {isa.arch}": "fused" if isa.fused else "unfused" for isa in isas.load()}
    got = {name: kind for name, (kind, _) in results(not_run, "--only", "class").items()}
    assert got == {name: want[name] for name in got}
