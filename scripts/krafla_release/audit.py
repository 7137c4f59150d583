# SPDX-License-Identifier: MIT
"""Look into the built programs: what they are linked to, and which instructions are where.

    PYTHONPATH=scripts python3 -m krafla_release.audit avx2-pt-asm

A program is static, has no memory that is both writable and executable, and does not tell in which
folder it was built.  Objects of runtime/kernels/<isa> use what their row of isas.txt asks for, all
others the least CPU of the architecture: the guard must run everywhere.  What is not built is
listed as not run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import build, instructions, testing, windows
from krafla_release.archives import programs
from krafla_release.project import ROOT, ReleaseError, exit_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DLLS = {"KERNEL32.dll", "msvcrt.dll", "SHELL32.dll", "WS2_32.dll"}
# What a program lets Windows do: use addresses that nobody can guess, run no code on the stack.
PROTECTIONS = {"DYNAMIC_BASE", "HIGH_ENTROPY_VA", "NX_COMPAT"}
WANTED_STACK = "RW"
EXECUTABLE_WRITABLE = "RWE"


def listing(*words: str | Path) -> str:
    """Return what a tool of binutils prints."""
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{words[0]} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def segments_of(headers: str) -> list[tuple[str, str]]:
    """Return the kinds and flags of an ELF file's segments, from what readelf says of them."""
    rows = [line.split() for line in headers.splitlines() if re.match(r"  [A-Z_]+ +0x", line)]
    # type, offset, two addresses, two sizes, flags of up to three words, alignment
    return [(row[0], "".join(row[6:-1])) for row in rows]


def memory_faults(headers: str) -> Iterator[str]:
    """Yield what is wrong with the memory that an ELF program or library asks for."""
    segments = segments_of(headers)
    if ("GNU_STACK", WANTED_STACK) not in segments:
        yield "may have an executable stack"
    if ("LOAD", EXECUTABLE_WRITABLE) in segments:
        yield "has memory that is writable and executable"


def segment_faults(headers: str) -> Iterator[str]:
    """Yield what is wrong with an ELF program, from what readelf says of its segments."""
    kinds = {kind for kind, _ in segments_of(headers)}
    if "LOAD" not in kinds:
        yield "has no segments: is it a program?"
    for kind in ("INTERP", "DYNAMIC"):
        if kind in kinds:
            yield f"is not static: it has a segment {kind}"
    yield from memory_faults(headers)


def import_faults(headers: str) -> Iterator[str]:
    """Yield what is wrong with a Windows program, from what objdump says of its imports."""
    found = set(re.findall(r"^\s*DLL Name: (\S+)$", headers, re.MULTILINE))
    if not found:
        yield "imports nothing: is it a program?"
    for name in sorted(found - DLLS):
        yield f"needs {name}, which not every Windows has"


def protection_faults(headers: str) -> Iterator[str]:
    """Yield which protections a Windows program does without, from what objdump says of it."""
    words = set(re.findall(r"^\t+([A-Z_]+)$", headers, re.MULTILINE))
    for name in sorted(PROTECTIONS - words):
        yield f"is without {name}"
    flags = re.findall(r"^ +\d+ (\S+) .*\n +(\w.*)$", headers, re.MULTILINE)
    for section in (name for name, words in flags if "CODE" in words and "READONLY" not in words):
        yield f"has a section {section} that is writable and executable"


def path_faults(data: bytes) -> Iterator[str]:
    """Yield whether a program or library tells where it was built."""
    if str(ROOT).encode() in data:
        yield f"holds the name of the folder that it was built in, {ROOT}"


def program_faults(program: Path) -> Iterator[str]:
    """Yield what is wrong with a program of any system."""
    yield from path_faults(program.read_bytes())
    if program.suffix == ".exe":
        headers = listing(windows.OBJDUMP, "-p", "-h", program)
        yield from import_faults(headers)
        yield from protection_faults(headers)
    else:
        yield from segment_faults(listing("readelf", "-lW", program))


def object_faults(isa: isas.Isa, directory: Path, objects: str = "obj") -> Iterator[str]:
    """Yield the instructions of a build that its CPUs need not have; libraries are of "pic"."""
    folder = directory / objects
    kernels = folder / "runtime" / "kernels" / isa.name
    found = sorted(folder.glob("runtime/**/*.o"))
    objdump = f"{build.cross(isa)}objdump" if "windows" not in directory.name else windows.OBJDUMP
    text = listing(objdump, "-d", "--insn-width=15", *found)
    for section in re.split(r"^(?=\S.*:     file format )", text, flags=re.MULTILINE)[1:]:
        path = Path(section.split(":     file format", 1)[0])
        needs = isa.needs if path.is_relative_to(kernels) else ()
        for function, feature, line in instructions.beyond(isa.arch, needs, section):
            yield f"{path.relative_to(folder)}, {function}: {feature}: {line}"


def audit(isa: isas.Isa, directory: Path) -> list[str]:
    """Return what is wrong with one build."""
    suffix = ".exe" if "windows" in directory.name else ""
    faults = []
    for name in programs():
        program = directory / f"{name}{suffix}"
        if not program.is_file():
            faults.append(f"{program.name} is not built")
            continue
        faults += [f"{name}{suffix} {fault}" for fault in program_faults(program)]
    return faults + list(object_faults(isa, directory))


def places() -> dict[str, tuple[isas.Isa, Path]]:
    """Return the release builds by the names of their directories, be they built or not."""
    found = [(isa, build.build_dir(isa)) for isa in isas.load(built=True)]
    found += [(isa, windows.build_dir(isa)) for isa in windows.rows()]
    return {place.name: (isa, place) for isa, place in found}


def is_built(place: Path) -> bool:
    """Return whether a build is there."""
    return any((place / f"{programs()[0]}{suffix}").is_file() for suffix in ("", ".exe"))


def main(argv: Sequence[str] | None = None) -> int:
    """Audit the named builds, by default all that are there."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="*", help="a directory in build/ (default: all there are)")
    args = parser.parse_args(argv)

    def work() -> None:
        known = places()
        there = [name for name, (_, place) in known.items() if is_built(place)]
        unknown = [name for name in args.build if name not in there]
        if unknown or not there:
            raise ReleaseError(f"{' '.join(unknown) or 'nothing'} is built; there are: {there}")
        wrong = 0
        for name in args.build or there:
            faults = audit(*known[name])
            wrong += bool(faults)
            print(f"  {name:28} {'FAILED' if faults else 'ok'}", flush=True)
            print(*(f"    {fault}\n" for fault in faults), sep="", end="")
        for name in known:
            if not args.build and name not in there:
                testing.not_run(f"audit of {name}", "not built")
        if wrong:
            raise ReleaseError(f"{wrong} builds hold what they must not")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
