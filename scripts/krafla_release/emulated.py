# SPDX-License-Identifier: MIT
"""Run the builds on emulated CPUs: kernels where they fit, the guard's refusal where they do not.

    PYTHONPATH=scripts python3 -m krafla_release.emulated --guard x86_64

Without --guard the kernels are checked as well.  The builds are the ones of the release, the CPU
models are QEMU's, and two of them run at a time.
"""

from __future__ import annotations

import argparse
import dataclasses
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import isas
from krafla_release import build, kernels, testing
from krafla_release.archives import programs
from krafla_release.project import ROOT, ReleaseError, exit_code

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LANES = 2


@dataclasses.dataclass(frozen=True)
class Cpu:
    """A CPU model of the emulator and what it has, in the guard's spelling.

    `newer` is how later versions of QEMU spell the model.  `only` is the row whose kernels it is
    there for, with nothing for a launcher to choose; or LAUNCHER: for the launcher alone.
    """

    arch: str
    model: str
    features: frozenset[str]
    newer: str = ""
    only: str = ""


def cpu(arch: str, model: str, features: str, newer: str = "", only: str = "") -> Cpu:
    """Return a row of the table below."""
    return Cpu(arch, model, frozenset(features.split()), newer, only)


ALL_OF_ARM = "asimd dotprod i8mm sve"
LAUNCHER = "launcher"


CPUS = (
    cpu("x86_64", "qemu64", "sse2"),
    cpu("x86_64", "Opteron_G1", "sse2"),
    cpu("x86_64", "core2duo", "sse2 ssse3"),
    cpu("x86_64", "Penryn", "sse2 ssse3 sse4.1"),
    cpu("x86_64", "Nehalem", "sse2 ssse3 sse4.1"),
    cpu("x86_64", "SandyBridge", "sse2 ssse3 sse4.1"),
    cpu("x86_64", "Haswell", "sse2 ssse3 sse4.1 avx2 fma f16c"),
    cpu("x86_64", "max", "sse2 ssse3 sse4.1 avx2 fma f16c", only=LAUNCHER),
    cpu("aarch64", "cortex-a53", "asimd"),
    cpu("aarch64", "cortex-a76", "asimd dotprod"),
    cpu("aarch64", "neoverse-n1", "asimd dotprod"),
    cpu("aarch64", "a64fx", "asimd sve"),
    cpu("aarch64", "max", ALL_OF_ARM, only=LAUNCHER),
    cpu("aarch64", "max,sve=off", "asimd dotprod i8mm"),
    *(
        cpu("aarch64", f"max,{vectors}", ALL_OF_ARM, only="sve")
        for vectors in (
            "sve-max-vq=1",
            "sve-max-vq=2",
            "sve-max-vq=3",
            "sve-max-vq=4",
            "sve-max-vq=16,sve-default-vector-length=-1",
        )
    ),
    cpu("armv7", "cortex-a7", "neon"),
    cpu("armv7", "cortex-a9", "neon"),
    cpu("armv7", "cortex-a9,neon=off", "", newer="cortex-a9,neon=off,vfp-d32=off"),
)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What one build did on one CPU; `wrong` is empty if that is what it should do."""

    cpu: Cpu
    isa: isas.Isa
    did: str
    wrong: str
    seconds: float
    hash: str = ""

    @property
    def line(self) -> str:
        """The row of the report."""
        verdict = f"FAILED: {self.wrong}" if self.wrong else "ok"
        where = f"{self.isa.name:14} on {self.cpu.model}"
        return f"  {where:44} {self.seconds:6.1f} s  {self.did}: {verdict}"


def words(cpu: Cpu) -> list[str]:
    """Return the command that stands before a program to run it on a CPU."""
    return [isas.EMULATORS[cpu.arch], "-cpu", cpu.model]


def call(cpu: Cpu, *command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program of a build on a CPU."""
    return subprocess.run(
        [*words(cpu), *command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=kernels.SECONDS,
        check=False,
    )


def lacking(cpu: Cpu, isa: isas.Isa) -> str | None:
    """Return the feature that the guard must name, if the CPU cannot run the build."""
    return next((need for need in isa.needs if need not in cpu.features), None)


def fastest(cpu: Cpu, rows: Sequence[isas.Isa]) -> isas.Isa:
    """Return the first of the rows, fastest first, that the CPU can run: the launcher's choice."""
    return next(isa for isa in rows if lacking(cpu, isa) is None)


def launcher_cpus(arch: str) -> list[Cpu]:
    """Return the CPUs on which a launcher has something to choose."""
    return [known_here(row) for row in CPUS if row.arch == arch and row.only in ("", LAUNCHER)]


def own_words(stderr: str) -> str:
    """Return what a program said, without the emulator's warnings."""
    return "".join(re.findall(r"^(?!qemu-).*\n", stderr, re.MULTILINE))


def fitting(cpu: Cpu, isa: isas.Isa) -> Outcome:
    """Check the kernels of a build that the CPU can run."""
    start = time.monotonic()
    found = kernels.check([*words(cpu), str(build.build_dir(isa) / "checkkern")])
    if found.excused:
        what = f"{found.excused} cases of {isa.name} with halves on {cpu.model}"
        testing.not_run(what, kernels.WHY_EXCUSED)
    did = f"checkkern, {found.passed} passed"
    return Outcome(cpu, isa, did, found.wrong, time.monotonic() - start, found.hash)


def guard(cpu: Cpu, isa: isas.Isa) -> Outcome:
    """Start every program of a build, which must name what the CPU lacks and end with code 3.

    Only the launcher's question, ml_run --probe, gets no words for an answer.
    """
    start = time.monotonic()
    lacks = lacking(cpu, isa)
    wrong = []
    for program in programs():
        for args in ([], ["--probe"]):
            done = call(cpu, build.build_dir(isa) / program, *args)
            want = f"error: CPU lacks {lacks} required by ISA={isa.name}\n"
            want = "" if [program, *args] == ["ml_run", "--probe"] else want
            said = own_words(done.stderr)
            if (done.returncode, done.stdout, said) != (3, "", want):
                wrong.append(f"{' '.join([program, *args])}: code {done.returncode}, {said!r}")
    return Outcome(cpu, isa, f"refuses, no {lacks}", "; ".join(wrong), time.monotonic() - start)


def known_here(cpu: Cpu) -> Cpu:
    """Return the CPU in the spelling of the installed emulator."""
    if cpu.newer:
        refused = re.compile(r"^qemu-\w+: (can't apply|unable to find)", re.MULTILINE)
        if refused.search(call(cpu, "/").stderr):
            return dataclasses.replace(cpu, model=cpu.newer)
    return cpu


def compare_hashes(outcomes: list[Outcome]) -> list[Outcome]:
    """Mark the results that differ from the first right one of their arithmetic class."""
    first: dict[bool, str] = {}
    checked = []
    for outcome in outcomes:
        known = outcome.hash and not outcome.wrong
        want = first.setdefault(outcome.isa.fused, outcome.hash) if known else outcome.hash
        if want != outcome.hash:
            wrong = f"hash {outcome.hash}, its class has {want}"
            checked.append(dataclasses.replace(outcome, wrong=wrong))
        else:
            checked.append(outcome)
    return checked


def run_cell(cpu: Cpu, isa: isas.Isa) -> Outcome:
    """Run one build on one CPU and report it."""
    outcome = guard(cpu, isa) if lacking(cpu, isa) else fitting(cpu, isa)
    print(f"{outcome.line}\n", end="", flush=True)  # in one piece beside the other lane's
    return outcome


def run_on(arch: str, *, only_guard: bool) -> list[Outcome]:
    """Run every build of an architecture on every CPU of the table."""
    rows = isas.load(arch, built=True)
    missing = testing.missing_tool(rows[0])
    if missing is None and not shutil.which(isas.EMULATORS[arch]):
        missing = f"{isas.EMULATORS[arch]} not installed"
    if missing:
        testing.not_run(f"{arch} on emulated CPUs", missing)
        return []
    for isa in rows:
        made = [build.build_dir(isa).relative_to(ROOT) / name for name in programs()]
        checks = [] if only_guard else [made[0].with_name("checkkern")]
        build.make(isa, *map(str, made + checks))
    cpus = [known_here(row) for row in CPUS if row.arch == arch]
    cells = [(row, isa) for row in cpus for isa in rows if row.only in ("", isa.name)]
    # What no archive has runs on its own CPU, in its own session.
    cells = [(row, isa) for row, isa in cells if isa.ship or lacking(row, isa)]
    if only_guard:
        cells = [cell for cell in cells if lacking(*cell)]
    with ThreadPoolExecutor(LANES) as pool:
        return list(pool.map(lambda cell: run_cell(*cell), cells))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the builds of the named architectures, by default all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arch", nargs="*", help=f"of {', '.join(isas.CROSS)} (default: all)")
    parser.add_argument("--guard", action="store_true", help="only what a CPU is too old for")
    args = parser.parse_args(argv)

    def work() -> None:
        outcomes = [
            outcome
            for arch in args.arch or isas.CROSS
            for outcome in run_on(arch, only_guard=args.guard)
        ]
        failed = [outcome for outcome in compare_hashes(outcomes) if outcome.wrong]
        print("\n".join(["failed:", *(outcome.line for outcome in failed)]) if failed else "")
        print(f"{len(outcomes) - len(failed)} passed, {len(failed)} failed")
        if failed:
            raise ReleaseError(f"{len(failed)} builds did not do what they should")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
