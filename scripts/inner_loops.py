# SPDX-License-Identifier: MIT
"""Count the instructions per multiply-accumulate in the inner loops of the ARM builds.

    .venv/bin/python scripts/inner_loops.py neon_dotprod neon_i8mm

No clock can be trusted under an emulator, so the matrix product of each instruction set is
compiled, disassembled, and its innermost loops with multiplications are counted: for one column
and for many, for both weight types.  A multiply-accumulate is one weight times one activation; at
SVE's shortest vectors, 128 bits.  Floors are what the design of each loop promises; the exit code
is 1 when a loop has less.  Loops are those of the release, in assembly if a row has such;
--intrinsics shows the others, --compiler clang-14 what another compiler makes of either.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import sys
from typing import TYPE_CHECKING

import isas
from krafla_release import build
from krafla_release.project import ROOT, ReleaseError, exit_code, output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

# Multiply-accumulates of one instruction: mnemonic and first operand -> how many.
MACS = (
    (re.compile(r"smmla v"), 32),
    (re.compile(r"sdot [vz]"), 16),
    (re.compile(r"sml[as]l2? v\d+\.8h|smull2? v\d+\.8h"), 8),
    (re.compile(r"vml[as]l\.s8|vmull\.s8"), 8),
    (re.compile(r"sml[as]l2? v\d+\.4s|smull2? v\d+\.4s"), 4),
    (re.compile(r"vml[as]l\.s16|vmull\.s16"), 4),
)
# What ends a block: the dot joins its chain of floats.
FLOAT_CHAIN = re.compile(r"fml[as] [vz]|fmad z|vml[as]\.f32|vadd\.f32")
CONDITION = "eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
BRANCH = re.compile(rf"(?:b|b\.?(?:{CONDITION})|cbn?z|tbn?z)(?:\.[nw])? (?:.*, )?([0-9a-f]+) <")
FUNCTION = re.compile(r"[0-9a-f]+ <(\w+)>:")
INSTANCE = re.compile(r"p16_(q[48])_(f16|f32)")
ONE_COLUMN = {"column", "p16_column"}  # the walks of one column; all else is for many


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of the disassembly; text is mnemonic and operands with one blank between."""

    address: int
    text: str

    @property
    def macs(self) -> int:
        """Return how many multiply-accumulates it does."""
        return next((macs for pattern, macs in MACS if pattern.match(self.text)), 0)

    @property
    def target(self) -> int | None:
        """Return where it branches to, if it is a direct branch."""
        found = BRANCH.match(self.text)
        return int(found[1], 16) if found else None


@dataclasses.dataclass(frozen=True)
class Loop:
    """An innermost loop with multiplications; whole_block: it holds the float chain too."""

    wtype: str
    stype: str
    columns: str
    instructions: int
    macs: int
    whole_block: bool

    @property
    def per_instruction(self) -> float:
        """Return multiply-accumulates per instruction, to the two digits of a floor."""
        return round(self.macs / self.instructions, 2)


@dataclasses.dataclass(frozen=True)
class Floor:
    """What a loop's design promises; inner_k: without the steps once per block around it."""

    isa: str
    wtype: str
    columns: str
    macs_per_instruction: float
    inner_k: bool = False


FLOORS = (
    Floor("neon", "q4", "one", 2.88),
    Floor("neon", "q8", "one", 2.84),
    Floor("neon", "q4", "many", 5.33, inner_k=True),
    Floor("neon_dotprod", "q4", "one", 5.45),
    Floor("neon_dotprod", "q4", "many", 8.98),
    Floor("neon_dotprod", "q8", "many", 8.98),
    Floor("neon_i8mm", "q4", "one", 4.83),
    Floor("neon_i8mm", "q4", "many", 12.2),
    Floor("neon_i8mm", "q8", "many", 12.2),
    Floor("sve", "q4", "one", 3.46),
)


def rows() -> list[isas.Isa]:
    """Return the ARM rows that have kernels with vector instructions."""
    return [isa for isa in isas.load(built=True) if isa.arch != "x86_64" and isa.name != "scalar"]


def floor(isa: isas.Isa, loop: Loop) -> Floor | None:
    """Return the promise for a loop; they are AArch64's, with the scales that models have."""
    if isa.arch != "aarch64" or loop.stype != "f16":
        return None
    key = (isa.name, loop.wtype, loop.columns)
    return next((f for f in FLOORS if (f.isa, f.wtype, f.columns) == key), None)


def met(promise: Floor, loop: Loop) -> bool:
    """Return whether a loop holds what is promised, over all that the promise covers."""
    covered = promise.inner_k or loop.whole_block
    return covered and loop.per_instruction >= promise.macs_per_instruction


def functions(disassembly: str) -> dict[str, list[Instruction]]:
    """Return the instructions of each function of an objdump -d."""
    found: dict[str, list[Instruction]] = {}
    body: list[Instruction] = []
    for line in disassembly.splitlines():
        if header := FUNCTION.fullmatch(line.strip()):
            body = found.setdefault(header[1], [])
        elif parts := re.match(r"\s*([0-9a-f]+):\s+(\S.*)", line):
            body.append(Instruction(int(parts[1], 16), " ".join(parts[2].split())))
    return found


def innermost(body: list[Instruction]) -> list[list[Instruction]]:
    """Return the loops with multiplications that have no such loop inside."""
    index = {instruction.address: i for i, instruction in enumerate(body)}
    ends: dict[int, int] = {}  # a loop's first instruction -> its last
    for i, instruction in enumerate(body):
        start = index.get(instruction.target, i + 1) if instruction.target is not None else i + 1
        if start <= i:
            ends[start] = i
    spans = [
        (start, end)
        for start, end in ends.items()
        if any(instruction.macs for instruction in body[start : end + 1])
    ]
    return [
        body[start : end + 1]
        for start, end in spans
        if not any(
            start <= other and other_end <= end and (start, end) != (other, other_end)
            for other, other_end in spans
        )
    ]


def callers(tool: str, program: Path, addresses: Sequence[int]) -> list[set[str]]:
    """Return the functions that each address belongs to: the one it is in, and those inlined."""
    words = [f"{tool}addr2line", "-a", "-i", "-f", "-e", str(program)]
    said = output(*words, *map(hex, addresses))
    _, *answers = re.split(r"^0x[0-9a-f]+\n", said, flags=re.MULTILINE)
    return [set(answer.splitlines()[::2]) for answer in answers]


def compile_matmul(isa: isas.Isa, compiler: str | None, *, intrinsics: bool) -> Path:
    """Compile a row's matrix product as make does, with line numbers, and return the object."""
    asm = build.has_asm(isa) and not intrinsics
    words = [isa.name, isa.arch, *(["asm"] * asm), *([compiler] if compiler else [])]
    directory = f"build/inner_loops/{'-'.join(words)}"
    program = f"{directory}/obj/runtime/kernels/{isa.name}/matmul.o"
    # Version 4, because binutils do not read clang's version 5 out of an object.
    variables = {"B": directory, "ASM": str(int(asm)), "EXTRA_CFLAGS": "-gdwarf-4"}
    if compiler:
        variables["TOOL"] = f"{compiler} --target={isa.cross.rstrip('-')}"
    build.make(isa, program, release=False, variables=variables)
    return ROOT / program


def loops(isa: isas.Isa, compiler: str | None = None, *, intrinsics: bool = False) -> list[Loop]:
    """Return the main loop of each pair of types, for one column and for many.

    A main loop is the one with the most multiplications; others are for what it leaves over.
    """
    program = compile_matmul(isa, compiler, intrinsics=intrinsics)
    tool = build.cross(isa)
    listing = output(f"{tool}objdump", "-d", "--no-show-raw-insn", str(program))
    found = [
        (instance, loop)
        for name, body in functions(listing).items()
        if (instance := INSTANCE.fullmatch(name))
        for loop in innermost(body)
    ]
    starts = [next(i.address for i in loop if i.macs) for _, loop in found]
    main_loops: dict[tuple[str, str, str], Loop] = {}
    for (instance, loop), chain in zip(found, callers(tool, program, starts), strict=True):
        key = (instance[1], instance[2], "one" if ONE_COLUMN & chain else "many")
        macs = sum(instruction.macs for instruction in loop)
        whole = any(FLOAT_CHAIN.match(instruction.text) for instruction in loop)
        if key not in main_loops or macs > main_loops[key].macs:
            main_loops[key] = Loop(*key, len(loop), macs, whole)
    return [main_loops[key] for key in sorted(main_loops)]


def table(isa: isas.Isa, found: list[Loop]) -> list[str]:
    """Return a line for each loop: counts, quotient, floor, and whether it is held."""
    lines = []
    for loop in found:
        promise = floor(isa, loop)
        words = [f"{isa.name:13} {isa.arch:8} {loop.wtype} {loop.stype} {loop.columns:4}"]
        words += [f"{loop.instructions:5} instructions {loop.macs:5} MAC"]
        words += [f"{loop.per_instruction:6.2f}", "whole block" if loop.whole_block else "inner k"]
        if promise:
            held = "" if met(promise, loop) else ", NOT HELD"
            words.append(f"(promised {promise.macs_per_instruction}{held})")
        lines.append("  ".join(words))
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Print the loops of the named instruction sets, of all by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("isa", nargs="*", help="a name of isas.txt; all ARM ones if none is given")
    parser.add_argument("--compiler", help="a clang to use instead of gcc")
    parser.add_argument("--intrinsics", action="store_true", help="without loops in assembly")
    args = parser.parse_args(argv)

    def count() -> None:
        known = {isa.name for isa in rows()}
        if unknown := sorted(set(args.isa) - known):
            raise ReleaseError(f"{unknown[0]}: not one of {' '.join(sorted(known))}")
        chosen = [isa for isa in rows() if isa.name in (args.isa or known)]
        found = {i: loops(i, args.compiler, intrinsics=args.intrinsics) for i in chosen}
        print("\n".join(line for isa in chosen for line in table(isa, found[isa])))
        short = [(p, loop) for isa in chosen for loop in found[isa] if (p := floor(isa, loop))]
        if not all(met(promise, loop) for promise, loop in short):
            raise ReleaseError("a loop has fewer multiply-accumulates than promised")

    return exit_code(count)


if __name__ == "__main__":
    sys.exit(main())
