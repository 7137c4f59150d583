# SPDX-License-Identifier: MIT
"""Build the programs of the release: every shipped row of isas.txt that has kernels, with threads.

PYTHONPATH=scripts python3 -m krafla_release.build --arch x86_64
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
from typing import TYPE_CHECKING

import isas
from krafla_release.archives import programs
from krafla_release.project import ROOT, ReleaseError, exit_code, run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


MINGW = "x86_64-w64-mingw32-"  # the prefix of the tools that make Windows programs


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


def mingw_compiler() -> str | None:
    """Return the compiler's name after MINGW; Debian's may say that it has POSIX threads."""
    return next((name for name in ("gcc-posix", "gcc") if shutil.which(MINGW + name)), None)


def build_dir(isa: isas.Isa, *, release: bool = True, system: str = "") -> Path:
    """Return where the Makefile puts a row's build: as released, or plain (see make)."""
    words = [isa.name, *([system] if system else [isa.arch] if cross(isa) else [])]
    words += ["pt", *(["asm"] * has_asm(isa))] if release else []
    return ROOT / "build" / "-".join(words)


def program_file(isa: isas.Isa, program: str, system: str = "linux") -> Path:
    """Return where the Makefile puts a released program."""
    if system == "windows":
        return build_dir(isa, system=system) / f"{program}.exe"
    return build_dir(isa) / program


def make(
    isa: isas.Isa, *goals: str, release: bool = True, variables: Mapping[str, str] | None = None
) -> None:
    """Run make for one row as it is released, or plainly: one thread and no assembly."""
    words = [f"ISA={isa.name}"]
    words += ["THREADS=pthread", f"ASM={int(has_asm(isa))}"] if release else []
    words += [f"CROSS={cross(isa)}"] if cross(isa) else []
    words += [f"{name}={value}" for name, value in (variables or {}).items()]
    jobs = f"-j{len(os.sched_getaffinity(0))}"  # not the CPUs that a container may not use
    run("make", "-s", "--no-print-directory", jobs, *words, *goals, env={"LC_ALL": "C"})


def build_arch(arch: str, system: str = "linux") -> list[isas.Isa]:
    """Build the programs of every shipped row of an architecture and return the rows."""
    rows = isas.load(arch, built=True, ship=True)
    if not rows:
        raise ReleaseError(f"runtime/kernels/isas.txt: no row for {arch} has kernels")
    variables = {}
    if system == "windows":
        compiler = mingw_compiler()
        if compiler is None:
            raise ReleaseError(f"{MINGW}gcc is not installed: invoke doctor names the package")
        variables = {"CROSS": MINGW, "CC": compiler}
    for isa in rows:
        goals = [program_file(isa, program, system).relative_to(ROOT) for program in programs()]
        make(isa, *map(str, goals), variables=variables)
    return rows


def main(argv: Sequence[str] | None = None) -> int:
    """Build one architecture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", default=host_arch(), choices=isas.CROSS)
    systems = ("linux", "windows")
    parser.add_argument("--system", default=systems[0], choices=systems)
    args = parser.parse_args(argv)
    if args.system == "windows" and args.arch != "x86_64":
        parser.error("Windows programs are made for x86_64")
    return exit_code(lambda: build_arch(args.arch, args.system))


if __name__ == "__main__":
    sys.exit(main())
