# SPDX-License-Identifier: MIT
"""Write compile_commands.json from the Makefile's own command lines, for clangd and other editors.

    python3 scripts/compdb.py avx2 sse2

Without names every instruction set of this machine that has kernels is taken; a shared file then
has one entry per build.
"""

from __future__ import annotations

import argparse
import json
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import isas

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "compile_commands.json"


class CompdbError(Exception):
    """make could not say what it would run; the message holds its own words."""


def plan(isa: str) -> str:
    """Return what make would run to build everything of one instruction set anew."""
    words = ["make", "--no-print-directory", "-B", "-n", f"ISA={isa}", "THREADS=pthread", "all"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompdbError(f"{shlex.join(words)}: {done.stderr.strip()}")
    return done.stdout


def entries(text: str) -> list[dict[str, object]]:
    """Return one entry per compilation in make's output; other lines are ignored."""
    found: list[dict[str, object]] = []
    for line in text.replace("\\\n", " ").splitlines():
        for command in line.split(";"):
            if " -c " not in command or ".c " not in command:
                continue
            words = shlex.split(command)
            source = words[words.index("-c") + 1]
            found.append({"directory": str(ROOT), "file": source, "arguments": words})
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file for the named instruction sets."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("isa", nargs="*", help="default: all of this machine's")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    args = parser.parse_args(argv)

    names = args.isa or [isa.name for isa in isas.load(platform.machine(), built=True)]
    try:
        database = [entry for name in names for entry in entries(plan(name))]
    except CompdbError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    args.output.write_text(json.dumps(database, indent=1) + "\n")
    print(f"{args.output}: {len(database)} commands for {' '.join(names)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
