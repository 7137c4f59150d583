# SPDX-License-Identifier: MIT
"""Build with CMakeLists.txt by GCC and Clang, and run its tests.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.cmake --all

By default the first row that runs here is built, and scalar; with --all every row of this
machine's architecture, of which those that this CPU cannot run are only built.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import isas
from krafla_release import build, testing
from krafla_release.project import ROOT, exit_code, run

if TYPE_CHECKING:
    from collections.abc import Sequence

COMPILERS = ("gcc", "clang-14")
PLAIN = "scalar"  # the row for any CPU


def check(isa: isas.Isa, compiler: str) -> bool:
    """Build one row by one compiler, with threads, and run the tests if this CPU can."""
    directory = ROOT / "build" / f"cmake-{isa.name}-{compiler}"
    options = [f"-DML_ISA={isa.name}", f"-DCMAKE_C_COMPILER={compiler}", "-DML_THREADS=ON"]
    options += ["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_COMPILE_WARNING_AS_ERROR=ON"]
    run("cmake", "-S", ".", "-B", directory, *options)
    run("cmake", "--build", directory, "--parallel", str(os.cpu_count() or 1))
    probe = subprocess.run([directory / "ml_run", "--probe"], check=False)
    if probe.returncode:
        testing.not_run(f"ctest of {isa.name} by {compiler}", "this CPU lacks what it needs")
        return False
    run("ctest", "--test-dir", directory, "--output-on-failure")
    return True


def check_all(*, every: bool) -> None:
    """Check the chosen rows by every compiler that is there."""
    rows = isas.load(build.host_arch(), built=True)
    for compiler in COMPILERS:
        if not shutil.which(compiler):
            testing.not_run(f"CMake by {compiler}", f"{compiler} not installed")
            continue
        done = False
        for isa in rows:
            if every or not done or isa.name == PLAIN:
                done |= check(isa, compiler)


def main(argv: Sequence[str] | None = None) -> int:
    """Check the builds by CMake."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="every row of this architecture")
    args = parser.parse_args(argv)
    return exit_code(lambda: check_all(every=args.all))


if __name__ == "__main__":
    sys.exit(main())
