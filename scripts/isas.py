# SPDX-License-Identifier: MIT
"""Read runtime/kernels/isas.txt, the one list of instruction sets.

    python3 scripts/isas.py --arch aarch64 --sessions --json

Makefile, CMakeLists.txt and this module read the same file; nothing else may list ISAs.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "runtime" / "kernels" / "isas.txt"

COLUMNS = 9
CLASSES = ("fused", "unfused")
SHIPS = ("yes", "test")
CROSS = {"aarch64": "aarch64-linux-gnu-", "armv7": "arm-linux-gnueabihf-", "x86_64": ""}
EMULATORS = {"aarch64": "qemu-aarch64", "armv7": "qemu-arm", "x86_64": "qemu-x86_64"}


@dataclasses.dataclass(frozen=True)
class Isa:
    """One row: a directory under runtime/kernels and what its build needs and promises."""

    name: str
    arch: str
    fused: bool
    cflags: tuple[str, ...]
    msvc: str | None
    needs: tuple[str, ...]
    layouts: tuple[str, ...]
    cpus: tuple[str, ...]
    ship: bool

    @property
    def cpu(self) -> str | None:
        """What runs all of its tests where the machine's own CPU cannot."""
        return self.cpus[0] if self.cpus else None

    @property
    def cross(self) -> str:
        """The compiler's prefix on an x86-64 maintainer's machine."""
        return CROSS[self.arch]

    @property
    def built(self) -> bool:
        """Whether the kernels of this row exist."""
        return (TABLE.parent / self.name / "isa.h").is_file()


class TableError(Exception):
    """isas.txt does not parse; the message names the line."""


def parse(text: str) -> list[Isa]:
    """Return the rows in file order, which is fastest first within an architecture."""
    isas: list[Isa] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        isa = parse_row([cell.strip() for cell in line.split("|")], number)
        if any((isa.name, isa.arch) == (other.name, other.arch) for other in isas):
            raise TableError(f"isas.txt:{number}: {isa.name} for {isa.arch} stands twice")
        isas.append(isa)
    return isas


def parse_row(cells: list[str], number: int) -> Isa:
    """Return one row; every cell with a closed set of values is checked against it."""
    if len(cells) != COLUMNS:
        raise TableError(f"isas.txt:{number}: want {COLUMNS} columns, got {len(cells)}")
    name, arch, rule, cflags, msvc, needs, layouts, cpus, ship = cells
    for value, known, what in (
        (arch, CROSS, "arch"),
        (rule, CLASSES, "class"),
        (ship, SHIPS, "ship"),
    ):
        if value not in known:
            raise TableError(
                f"isas.txt:{number}: {what} is '{value}', want one of {', '.join(known)}"
            )
    return Isa(
        name=name,
        arch=arch,
        fused=rule == "fused",
        cflags=tuple(cflags.split()),
        msvc=None if msvc == "-" else msvc,
        needs=tuple(needs.split()),
        layouts=tuple(layouts.split()),
        cpus=() if cpus == "-" else tuple(cpus.split()),
        ship=ship == "yes",
    )


def load(arch: str | None = None, *, built: bool = False, ship: bool = False) -> list[Isa]:
    """Return the repository's rows, narrowed by architecture, existing kernels, shipped."""
    return [
        isa
        for isa in parse(TABLE.read_text())
        if arch in (None, isa.arch) and (isa.built or not built) and (isa.ship or not ship)
    ]


def sessions() -> dict[str, Isa]:
    """Return test session names; the first row of a name has it plain, others add their arch."""
    named: dict[str, Isa] = {}
    for isa in load():
        name = f"test-{isa.name}"
        named[name if name not in named else f"{name}-{isa.arch}"] = isa
    return {name: isa for name, isa in named.items() if isa.built}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the chosen rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--arch", choices=CROSS, help="only the ISAs of this architecture")
    parser.add_argument("--built", action="store_true", help="only the ISAs that have kernels")
    parser.add_argument("--json", action="store_true", help="for a workflow matrix")
    fields = [field.name for field in dataclasses.fields(Isa)]
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--field", choices=fields, default="name", help="the column to print")
    shown.add_argument("--sessions", action="store_true", help="print the names of nox instead")
    args = parser.parse_args(argv)

    rows = load(args.arch, built=args.built)
    if args.sessions:
        values = [name for name, isa in sessions().items() if isa in rows]
    else:
        values = [getattr(isa, args.field) for isa in rows]
    if args.json:
        print(json.dumps(values))
    else:
        print("\n".join(" ".join(v) if isinstance(v, tuple) else str(v) for v in values))
    return 0


if __name__ == "__main__":
    sys.exit(main())
