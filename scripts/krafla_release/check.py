# SPDX-License-Identifier: MIT
"""Run everything that CI runs, step by step, and sum up what passed, failed and was not run.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.check lint types

`make check` runs this after scripts/bootstrap.sh.  The last line is "N passed, M failed", which
counts the tests of all steps; a step without tests counts as one.  Logs stay in build/check/.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import isas
from krafla_release.project import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence

LOGS = ROOT / "build" / "check"
LANES = 2
SHOWING = threading.Lock()
NOX = [sys.executable, "-m", "nox", "--no-error-on-missing-interpreters", "-s"]

# Emulated end to end, a row of ARMv7 takes longer than all native ones together; its kernels are
# checked in the step "emulated".  CMake's other builds are the same code by the same flags.
BY_HAND_ARCHS = ("armv7",)
# What takes minutes, or needs the network or root; a test compares it with the tag of noxfile.py.
BY_HAND = {
    "cmake -- --all": "CMake builds of every row by GCC and Clang",
    "container": "the container image of each platform",
    "docs": "the commands of the docs that take minutes",
    "golden": "the golden models made again",
    "real": "the real models against transformers",
    "repro": "every file of a release built again elsewhere",
    "tokenizers": "every real tokenizer on 10,000 texts",
    "wheel-arm": "the Python wheels for ARM, by an emulated Python",
    "workflows": "the steps of the release workflows in fresh clones",
}
EVERY_ROW = "test-all"


@dataclasses.dataclass(frozen=True)
class Result:
    """What came of one step."""

    step: str
    passed: int
    failed: int
    not_run: tuple[str, ...]
    seconds: float


def by_hand() -> list[str]:
    """Return the test sessions that only a maintainer starts."""
    rows = isas.sessions().items()
    return [name for name, isa in rows if isa.arch in BY_HAND_ARCHS]


def steps() -> dict[str, list[str]]:
    """Return the steps and their commands, in order; those by hand are among them."""
    fetch = [sys.executable, "scripts/fetch_models.py", "--optional"]
    names = ["lint", "types", *isas.sessions()]
    names += ["tests", "emulated", "windows", "cmake", "asan", "fuzz"]
    plan = {"models": fetch} | {name: [*NOX, name] for name in names}
    plan |= {name: [*NOX, name, "--", "--all"] for name in ("package", "smoke")}
    plan |= {name: [*NOX, name] for name in ("wheel", "deb", "installer", "audit")}
    # After all builds are there: some commands of the docs need one.
    return plan | {"docs": [*NOX, "docs", "--", "--quick"]}


def chosen(wanted: list[str]) -> dict[str, list[str]]:
    """Return the steps of a command line: the named ones, every row's, or all but by hand."""
    known = steps()
    if wanted == [EVERY_ROW]:
        wanted = list(isas.sessions())
    names = wanted or [name for name in known if name not in by_hand()]
    return {name: known[name] for name in names}


PYTEST = re.compile(r"^(?:=+ )?((?:\d+ \w+, )*\d+ (?:passed|failed|errors?)\b.*)$", re.MULTILINE)
KERNELS = re.compile(r"^checkkern \w+: (\d+ passed, \d+ failed)$", re.MULTILINE)
# A unit-test program counts as one test: what it sums up is its single comparisons.
UNIT = re.compile(r"^test_\w+: \d+ passed, (\d+) failed$", re.MULTILINE)


def count(log: str, code: int) -> tuple[int, int]:
    """Return how many tests passed and failed, from the summaries in a step's output."""
    summaries = " ".join(PYTEST.findall(log) + KERNELS.findall(log))
    units = [int(number) for number in UNIT.findall(log)]
    passed = units.count(0) + sum(map(int, re.findall(r"(\d+) passed", summaries)))
    failed = len(units) - units.count(0)
    failed += sum(map(int, re.findall(r"(\d+) (?:failed|errors?)\b", summaries)))
    if code and not failed:
        failed = 1
    if not code and not passed:
        passed = 1
    return passed, failed


def run_step(step: str, command: list[str]) -> Result:
    """Run one step into its log and show the log when it is done."""
    print(f"=== {step} begins", flush=True)
    start = time.monotonic()
    path = LOGS / f"{step}.log"
    with path.open("w") as log:
        done = subprocess.run(
            command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
        )
    seconds = time.monotonic() - start
    output = path.read_text(errors="replace")
    passed, failed = count(output, done.returncode)
    missing = tuple(dict.fromkeys(re.findall(r"not run: (.*)", output)))
    with SHOWING:
        print(f"{output}=== {step} ended after {seconds:.1f} s", flush=True)
    return Result(step, passed, failed, missing, seconds)


def run_steps(plan: dict[str, list[str]]) -> list[Result]:
    """Run steps in order; those that test a build run side by side, each in its own directory."""
    results: list[Result] = []
    with ThreadPoolExecutor(LANES) as pool:
        for beside, group in itertools.groupby(plan.items(), lambda step: is_build(step[0])):
            run_all = pool.map if beside else map
            results += run_all(lambda step: run_step(*step), list(group))
    return results


def is_build(step: str) -> bool:
    """Return whether a step tests one build and nothing else."""
    return step.startswith("test-")


def summary(results: list[Result]) -> str:
    """Return the report."""
    lines = ["", "=== summary ==="]
    for result in results:
        word = "FAILED" if result.failed else "ok"
        counts = f"{result.passed} passed, {result.failed} failed"
        lines.append(f"  {result.step:24} {word:7} {counts:30} {result.seconds:6.1f} s")
    for result in results:
        lines += [f"  not run, {result.step}: {reason}" for reason in result.not_run]
    ran = {result.step for result in results}
    for name in by_hand():
        if name not in ran:
            lines.append(f"  not run, {name}: takes minutes; by hand: .venv/bin/nox -s {name}")
    lines += [
        f"  not run, {what}; by hand: .venv/bin/nox -s {name}" for name, what in BY_HAND.items()
    ]
    passed, failed = (sum(getattr(r, name) for r in results) for name in ("passed", "failed"))
    return "\n".join([*lines, "", f"{passed} passed, {failed} failed"])


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named steps, or all of them."""
    wanted = list(sys.argv[1:] if argv is None else argv)
    known = steps()
    unknown = [name for name in wanted if name not in known and wanted != [EVERY_ROW]]
    if unknown:
        print(f"error: unknown step {unknown[0]}; known: {', '.join(known)}", file=sys.stderr)
        return 2
    LOGS.mkdir(parents=True, exist_ok=True)
    os.environ["PATH"] = f"{ROOT / '.venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    results = run_steps(chosen(wanted))
    print(summary(results))
    return int(any(result.failed for result in results))


if __name__ == "__main__":
    sys.exit(main())
