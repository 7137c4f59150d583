# SPDX-License-Identifier: MIT
"""Test the builds: one instruction set natively or emulated, the sanitizers, the fuzz targets.

    PYTHONPATH=scripts python3 -m krafla_release.testing test-avx2

A build that neither this CPU nor an emulator can run is announced as "not run", never skipped in
silence.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import isas
from krafla_release import build, kernels
from krafla_release.project import ROOT, ReleaseError, VerificationError, exit_code, run

if TYPE_CHECKING:
    from collections.abc import Sequence

SANITIZERS = "-fsanitize=address,undefined -fno-sanitize-recover=all"
FUZZ_SECONDS = 10
VNNIRUN = "vnnirun"  # in the column cpu of isas.txt
FEW_KERNELS = "matmul * k=64 *"


def not_run(what: str, reason: str) -> None:
    """Announce a test that could not be run; `make check` lists these lines at its end."""
    print(f"not run: {what}: {reason}", flush=True)


def expect(what: str, want: object, got: object) -> None:
    """Show what came of a test, and fail unless it is as it must be."""
    if want != got:
        raise VerificationError(f"{what}: {got}, want {want}")
    print(f"  {what}: {got}\n", end="", flush=True)  # in one piece beside another lane's


def missing_tool(isa: isas.Isa) -> str | None:
    """Return what stands in the way of building and running a row here, if anything does."""
    cross = build.cross(isa)
    tools = [f"{cross}gcc", isas.EMULATORS[isa.arch]] if cross else ["gcc"]
    lacking = [tool for tool in tools if not shutil.which(tool)]
    return f"{', '.join(lacking)} not installed" if lacking else None


def runs_here(isa: isas.Isa) -> str | None:
    """Return why this CPU cannot run a built row, if it cannot: the words of its guard."""
    if build.cross(isa):
        return f"this machine is no {isa.arch}"
    program = build.build_dir(isa) / "ml_run"
    if subprocess.run([program, "--probe"], capture_output=True, check=False).returncode == 0:
        return None
    refusal = subprocess.run([program], capture_output=True, text=True, check=False)
    return refusal.stderr.strip() or f"ml_run ended with code {refusal.returncode}"


def vnnirun(level: str) -> list[str]:
    """Return the command that runs a program at a level of x86 (tests/emulate), as fast as can be.

    It is built if need be.  Without --fast every dot product of AVX-VNNI traps.
    """
    run("make", "-s", "--no-print-directory", "emulate")
    runner = str(ROOT / "build" / "emulate" / "vnnirun")
    quick = subprocess.run([runner, "--fast", "true"], capture_output=True, check=False)
    return [runner, *(["--fast"] if quick.returncode == 0 else []), f"--cpu={level}"]


def emulator(isa: isas.Isa, cpu: str) -> list[str]:
    """Return the command that stands before a program of a row, to run it as on that CPU."""
    if cpu == VNNIRUN:
        return vnnirun(isa.name)
    return [isas.EMULATORS[isa.arch], "-cpu", cpu]


def runners(isa: isas.Isa) -> list[list[str]]:
    """Return the commands that run a row here: natively if it can, else on its emulated CPUs."""
    reason = runs_here(isa)
    if reason is None:
        return [[]]
    if isa.cpu is None or (isa.cpu != VNNIRUN and not shutil.which(isas.EMULATORS[isa.arch])):
        raise ReleaseError(reason)
    return [emulator(isa, cpu) for cpu in isa.cpus]


def check_isa(name: str) -> None:
    """Build a row as it is released and plainly, and run its C tests and end-to-end tests."""
    isa = isas.sessions()[name]
    reason = missing_tool(isa)
    if reason:
        not_run(name, reason)
        return
    build.make(isa, "all")
    try:
        first, *others = runners(isa)
    except ReleaseError as error:
        not_run(name, str(error))
        return
    if first and isa.cpu == VNNIRUN and "--fast" not in first:
        check_slowly(isa, first)
        return
    variables = {"emulator": shlex.join(first)} if first else {}
    for runner in (first, *others):
        check_kernels(isa, [*runner, str(build.build_dir(isa) / "checkkern")])
    build.make(isa, "units", "e2e", variables=variables)
    checkkern = build.build_dir(isa, release=False) / "checkkern"
    # Emulated units take minutes, and what differs from the release is the same C in every row.
    goals = [*([] if first else ["units"]), str(checkkern.relative_to(ROOT))]
    build.make(isa, *goals, release=False, variables=variables)
    check_kernels(isa, [*first, str(checkkern)])


def check_kernels(isa: isas.Isa, command: list[str]) -> None:
    """Run checkkern by this command; announce what the emulator gets wrong itself."""
    print("+", shlex.join(command), flush=True)
    found = kernels.check(command)
    print(f"checkkern {isa.name}: {found.passed} passed, {len(found.wrong) and 1} failed")
    if found.wrong:
        raise ReleaseError(f"{shlex.join(command)}: {found.wrong}")
    if found.excused:
        not_run(f"{found.excused} cases of {isa.name} with halves", kernels.WHY_EXCUSED)


def check_slowly(isa: isas.Isa, runner: list[str]) -> None:
    """Check some kernels where every dot product traps, tens of thousands a second."""
    run(*runner, build.build_dir(isa) / "checkkern", "--only", FEW_KERNELS)
    not_run(
        f"all of test-{isa.name} but checkkern --only '{FEW_KERNELS}'",
        "this CPU has neither AVX-VNNI nor AVX512-VNNI to stand in for it",
    )


def fastest() -> isas.Isa:
    """Return the fastest row that this machine runs without an emulator; build what must be."""
    for isa in isas.load(build.host_arch(), built=True):
        build.make(isa, "all")
        if runs_here(isa) is None:
            return isa
    raise ReleaseError(f"no build in runtime/kernels/isas.txt runs on this {build.host_arch()} CPU")


def check_sanitized() -> None:
    """Run the tests of the fastest build under the address, undefined and thread sanitizers."""
    isa = fastest()
    asan = {"B": f"build/{isa.name}-asan", "DEBUG": "1", "EXTRA_CFLAGS": SANITIZERS}
    build.make(isa, "test", variables=asan)
    build.make(isa, "e2e", variables=asan)
    tsan = {"B": f"build/{isa.name}-tsan", "DEBUG": "1", "EXTRA_CFLAGS": "-fsanitize=thread"}
    build.make(isa, "test", variables=tsan)


def check_fuzz(seconds: int = FUZZ_SECONDS) -> None:
    """Let libFuzzer look for new inputs, a while per target, starting from the kept corpus."""
    compiler = next(filter(shutil.which, ("clang-14", "clang")), None)
    if compiler is None:
        not_run("fuzz", "clang not installed")
        return
    out = ROOT / "build" / "fuzz"
    flags = f"-fsanitize=fuzzer {SANITIZERS}"
    libfuzzer = {"CC": compiler, "B": "build/fuzz", "EXTRA_CFLAGS": flags, "FUZZ_MAIN": ""}
    # The targets read files and call no kernel: take the row that compiles fastest.
    scalar = next(isa for isa in isas.load(build.host_arch(), built=True) if isa.name == "scalar")
    build.make(scalar, "fuzz", variables=libfuzzer | {"DEBUG": "1"})
    for source in sorted((ROOT / "tests/fuzz").glob("fuzz_*.c")):
        found = out / f"{source.stem}.found"
        found.mkdir(exist_ok=True)
        corpus = source.parent / "corpus" / source.stem
        limits = [f"-max_total_time={seconds}", "-timeout=10", "-verbosity=0"]
        limits += [f"-artifact_prefix={out}/{source.stem}-"]
        run(out / source.stem, *limits, found, *([corpus] if corpus.is_dir() else []))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one session by name."""
    others = {"asan": check_sanitized, "fuzz": check_fuzz}
    names = [*isas.sessions(), *others]
    args = list(sys.argv[1:] if argv is None else argv)
    if len(args) != 1 or args[0] not in names:
        print(f"usage: testing NAME, one of: {' '.join(names)}", file=sys.stderr)
        return 2
    return exit_code(others.get(args[0], lambda: check_isa(args[0])))


if __name__ == "__main__":
    sys.exit(main())
