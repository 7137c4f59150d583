# SPDX-License-Identifier: MIT
"""Build the programs of the release: every shipped row of isas.txt that has kernels, with threads.

PYTHONPATH=scripts python3 -m krafla_release.build --arch x86_64
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
from typing import TYPE_CHECKING

import isas
from krafla_release.archives import programs
from krafla_release.project import ROOT, ReleaseError, exit_code, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def host_arch() -> str:
    """Return this machine's architecture in the spelling of isas.txt."""
    machine = platform.machine()
    known = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "armv7", "armv8l": "armv7"}
    return known.get(machine, machine)


def cross(isa: isas.Isa) -> str:
    """Return the compiler prefix that this machine needs for a row; empty for its own."""
    return "" if isa.arch == host_arch() else isa.cross


def has_asm(isa: isas.Isa) -> bool:
    """Return whether a row has inner loops in assembly, which it has only where they are faster."""
    return (ROOT / "runtime" / "kernels" / isa.name / "asm").is_dir()


def build_dir(isa: isas.Isa, *, release: bool = True, system: str = "") -> Path:
    """Return where the Makefile puts a row's build: as released, or plain (see make)."""
    words = [isa.name, *([system] if system else [isa.arch] if cross(isa) else [])]
    words += ["pt", *(["asm"] * has_asm(isa))] if release else []
    return ROOT / "build" / "-".join(words)


def make(
    isa: isas.Isa, *goals: str, release: bool = True, variables: Mapping[str, str] | None = None
) -> None:
    """Run make for one row as it is released, or plainly: one thread and no assembly."""
    words = [f"ISA={isa.name}"]
    words += ["THREADS=pthread", f"ASM={int(has_asm(isa))}"] if release else []
    words += [f"CROSS={cross(isa)}"] if cross(isa) else []
    words += [f"{name}={value}" for name, value in (variables or {}).items()]
    jobs = f"-j{os.cpu_count() or 1}"
    run("make", "-s", "--no-print-directory", jobs, *words, *goals, env={"LC_ALL": "C"})


def build_arch(arch: str) -> list[isas.Isa]:
    """Build the programs of every shipped row of an architecture and return the rows."""
    rows = isas.load(arch, built=True, ship=True)
    if not rows:
        raise ReleaseError(f"runtime/kernels/isas.txt: no row for {arch} has kernels")
    for isa in rows:
        directory = build_dir(isa).relative_to(ROOT)
        make(isa, *(str(directory / program) for program in programs()))
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Build one architecture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default=host_arch(), choices=isas.CROSS)
    args = parser.parse_args(argv)
    return exit_code(lambda: build_arch(args.arch))


if __name__ == "__main__":
    sys.exit(main())
