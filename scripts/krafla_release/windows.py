# SPDX-License-Identifier: MIT
"""Build the Windows programs with MinGW-w64 and, where Wine is installed, compare their logits.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.windows

They are the x86-64 rows that ship.  Wine passes CPUID through, so a build runs where its Linux
twin runs, and must give the same bits.  What else the programs do is shown on the packed archive
(krafla_release.smoke).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import build, testing, wine
from krafla_release.project import ROOT, VerificationError, exit_code, run

if TYPE_CHECKING:
    from collections.abc import Sequence

OBJDUMP = f"{build.MINGW}objdump"
TOKENS = "1,5,9,2,7,3,11,4"


def rows() -> list[isas.Isa]:
    """Return the rows of isas.txt that are built for Windows, fastest first."""
    return isas.load("x86_64", built=True, ship=True)


def build_dir(isa: isas.Isa) -> Path:
    """Return where the Makefile puts the Windows build of a row."""
    return build.build_dir(isa, system="windows")


def logits(program: Path, model: Path, *options: str) -> bytes:
    """Return what a program of either system writes to a new file."""
    out = model.with_suffix(".logits")
    out.unlink(missing_ok=True)
    words: list[str | Path] = [program, model, "--tokens", TOKENS, "--dump-logits", out, *options]
    if program.suffix == ".exe":
        done = wine.call(*words)
    else:
        done = subprocess.run(words, capture_output=True, timeout=wine.SECONDS, check=False)
    if done.returncode or not out.is_file():
        said = done.stderr.decode(errors="replace").strip()
        raise VerificationError(f"{program} ended with code {done.returncode}: {said}")
    return out.read_bytes()


def check_row(isa: isas.Isa, place: Path) -> None:
    """Compare the logits of a row's Windows build with those of its Linux build."""
    linux = build.build_dir(isa) / "ml_run"
    build.make(isa, str(linux.relative_to(ROOT)))
    lacks = testing.runs_here(isa)
    if lacks:
        testing.not_run(f"the Windows build of {isa.name}", lacks)
        return
    for model in sorted(place.glob("*.mlb")):
        want = logits(linux, model)
        for options in (("-t", "1"), ("-t", "2", "--batch", "3"), ("--pack-cache",), ()):
            if logits(build_dir(isa) / "ml_run.exe", model, *options) != want:
                shown = " ".join(options)
                raise VerificationError(f"{isa.name}, {model.name} {shown}: not Linux's logits")
    print(f"  {isa.name:14} ok", flush=True)


def run_all() -> None:
    """Run every row by Wine, with files whose names no old code page has."""
    with wine.prefix(), tempfile.TemporaryDirectory(prefix="krafla é漢 ") as temporary:
        place = Path(temporary)
        for wtype in ("q8", "q4"):
            model = place / f"model é漢 {wtype}.mlb"
            run(sys.executable, "tools/gen_random.py", "--wtype", wtype, "--out", model)
        for isa in rows():
            check_row(isa, place)


def check() -> None:
    """Build and run what can be."""
    name = build.mingw_compiler()
    if name is None or build.host_arch() != "x86_64":
        lacks = f"{build.MINGW}gcc-posix not installed"
        testing.not_run("the Windows builds", "this machine is no x86_64" if name else lacks)
        return
    build.build_arch("x86_64", "windows")
    if reason := wine.missing():
        testing.not_run("the Windows programs", reason)
    else:
        run_all()


def main(argv: Sequence[str] | None = None) -> int:
    """Check the Windows builds."""
    if sys.argv[1:] if argv is None else argv:
        print("usage: windows", file=sys.stderr)
        return 2
    return exit_code(check)


if __name__ == "__main__":
    sys.exit(main())
