# SPDX-License-Identifier: MIT
"""Build the Windows programs with MinGW-w64 and, where Wine is installed, run them.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.windows

They are the x86-64 rows that ship.  Wine passes CPUID through, so a build runs where its Linux
twin runs, and must print the same bits.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import build, testing
from krafla_release.archives import programs
from krafla_release.project import ROOT, ReleaseError, exit_code, run, version

if TYPE_CHECKING:
    from collections.abc import Sequence

OBJDUMP = f"{build.MINGW}objdump"
WINE = {
    "WINEPREFIX": str(ROOT / "build" / "wine"),
    "WINEDEBUG": "-all",
    "DISPLAY": "",
    "LC_ALL": "C.UTF-8",  # else Wine has no characters for the paths below
}
TOKENS = "1,5,9,2,7,3,11,4"
TEXT = "Grüße, 漢字 and a smile"
SECONDS = 300  # after which a program hangs


def rows() -> list[isas.Isa]:
    """Return the rows of isas.txt that are built for Windows, fastest first."""
    return isas.load("x86_64", built=True, ship=True)


def build_dir(isa: isas.Isa) -> Path:
    """Return where the Makefile puts the Windows build of a row."""
    return build.build_dir(isa, system="windows")


def call(*words: str | Path, code: int = 0, text: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run a command, a Windows program by Wine, and check its exit code."""
    command = [*(["wine"] if str(words[0]).endswith(".exe") else []), *map(str, words)]
    done = subprocess.run(
        command,
        input=text.encode(),
        capture_output=True,
        env=os.environ | WINE,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode != code:
        said = done.stderr.decode(errors="replace").strip()
        raise ReleaseError(f"{words[0]} ended with code {done.returncode}, want {code}: {said}")
    return done


def expect(what: str, want: object, got: object) -> None:
    """Fail unless a program did as its Linux twin."""
    if want != got:
        raise ReleaseError(f"{what}: got {got!r}, want {want!r}")


def logits(program: Path, model: Path, *options: str) -> bytes:
    """Return what a program writes to a new file."""
    out = model.with_suffix(".logits")
    out.unlink(missing_ok=True)
    call(program, model, "--tokens", TOKENS, "--dump-logits", out, *options)
    return out.read_bytes()


def check_row(isa: isas.Isa, place: Path) -> None:
    """Compare the Windows programs of a row with its Linux build."""
    here, linux = build_dir(isa), build.build_dir(isa)
    lacks = testing.runs_here(isa)
    if lacks:
        call(here / "ml_run.exe", "--probe", code=3)
        refusal = call(here / "ml_run.exe", code=3).stderr.decode()
        expect("refusal", lacks, refusal.strip())
        testing.not_run(f"the Windows build of {isa.name}", lacks)
        return
    said = call(here / "ml_run.exe", "--version").stdout
    expect("--version", f"ml_run {version()}, isa: {isa.name}\n".encode(), said)
    for model in sorted(place.glob("*.mlb")):
        want = logits(linux / "ml_run", model)
        for options in (("-t", "1"), ("-t", "2", "--batch", "3"), ("--pack-cache",), ()):
            got = logits(here / "ml_run.exe", model, *options)
            expect(f"logits of {isa.name}, {model.name} {' '.join(options)}", want, got)
    call(here / "ml_run.exe", place / "missing.mlb", "--tokens", "1", code=1)
    call(here / "ml_run.exe", "--no-such-option", code=2)
    tokenizer = place / "tokenizer.bin"
    want_ids = call(linux / "ml_tok", tokenizer, text=TEXT).stdout
    expect("ids", want_ids, call(here / "ml_tok.exe", tokenizer, text=TEXT).stdout)
    ids = want_ids.decode()
    back = call(linux / "ml_tok", tokenizer, "--decode", text=ids).stdout
    expect("text", back, call(here / "ml_tok.exe", tokenizer, "--decode", text=ids).stdout)
    call(here / "ml_bench.exe", next(place.glob("*.mlb")), "-n", "4")
    print(f"  {isa.name:14} ok", flush=True)


def run_all() -> None:
    """Run every row by Wine, with files whose names no old code page has."""
    if not shutil.which("wine"):
        testing.not_run("the Windows programs", "wine not installed")
        return
    with tempfile.TemporaryDirectory(prefix="krafla é漢 ") as temporary:
        place = Path(temporary)
        for wtype in ("q8", "q4"):
            model = place / f"model é漢 {wtype}.mlb"
            run(sys.executable, "tools/gen_random.py", "--wtype", wtype, "--out", model)
        run(sys.executable, "tools/gen_tokenizer.py", "--out", place / "tokenizer.bin")
        for isa in rows():
            linux = build.build_dir(isa).relative_to(ROOT)
            build.make(isa, *(str(linux / program) for program in programs()))
            check_row(isa, place)
    subprocess.run(["wineserver", "-k"], env=os.environ | WINE, check=False)


def check() -> None:
    """Build and run what can be."""
    name = build.mingw_compiler()
    if name is None or build.host_arch() != "x86_64":
        lacks = f"{build.MINGW}gcc-posix not installed"
        testing.not_run("the Windows builds", "this machine is no x86_64" if name else lacks)
        return
    build.build_arch("x86_64", "windows")
    run_all()


def main(argv: Sequence[str] | None = None) -> int:
    """Check the Windows builds."""
    if sys.argv[1:] if argv is None else argv:
        print("usage: windows", file=sys.stderr)
        return 2
    return exit_code(check)


if __name__ == "__main__":
    sys.exit(main())
