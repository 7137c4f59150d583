# SPDX-License-Identifier: MIT
"""Threads as a user gets them: how many and why, and what too many of them cost.

KRAFLA_BUILD=build/avx2-pt .venv/bin/python -m pytest tests/e2e/test_threads.py
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gen_random
from made import random_model

if TYPE_CHECKING:
    from tests.conftest import Krafla, NotRun

ALWAYS = 0.5  # of the speed with the right number of threads; a pool that only spins gets 0.3
MANY = 8
ROUNDS = 3
PERIOD_US = 100_000

Decode = Callable[..., str]


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random model that is loaded at once."""
    return random_model(tmp_path_factory.mktemp("small") / "rand.mlb", 512)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model whose matrices are worth several threads."""
    path = tmp_path_factory.mktemp("large") / "model.mlb"
    shape = ("--dim", "1024", "--layers", "4", "--vocab", "4096")
    assert gen_random.main(["--out", str(path), "--wtype", "q8", "--max-seq", "512", *shape]) == 0
    return path


def suitable(krafla: Krafla, model: Path) -> tuple[int, str]:
    """Return the default number of threads and its reason, as ml_run prints them."""
    first = krafla("ml_run", model, "--tokens", "1", "-n", "1").stderr.decode().splitlines()[0]
    found = re.fullmatch(r"threads: (\d+) \((.+)\)", first)
    assert found, first
    return int(found[1]), found[2]


def test_more_threads_than_suit_the_machine_are_warned_of(krafla: Krafla, small: Path) -> None:
    n, reason = suitable(krafla, small)
    done = krafla("ml_run", small, "--tokens", "1", "-n", "1", "-t", str(n + 1))
    assert done.returncode == 0
    warning = done.stderr.decode().splitlines()[0]
    assert warning.startswith(f"warning: -t {n + 1} is above {n} ({reason}): ")
    assert f"use -t {n} or leave -t out" in warning


def test_threads_that_suit_the_machine_are_not_warned_of(krafla: Krafla, small: Path) -> None:
    n, _ = suitable(krafla, small)
    done = krafla("ml_run", small, "--tokens", "1", "-n", "1", "-t", str(n))
    assert b"warning" not in done.stderr


@pytest.fixture
def decode(build_dir: Path, emulator: list[str], not_run: NotRun) -> Decode:
    """Return a function that decodes in a prepared process and returns what ml_run had to say."""
    if emulator:
        not_run("an emulator has threads and a speed of its own")
    if "-pt" not in build_dir.name:
        not_run("this build has a single thread")

    def run(model: Path, prepare: Callable[[], None], *options: str) -> str:
        done = subprocess.run(
            [build_dir / "ml_run", model, "--tokens", "1", *options],
            capture_output=True,
            check=True,
            preexec_fn=prepare,
        )
        return done.stderr.decode()

    return run


def speed(decode: Decode, model: Path, threads: int, prepare: Callable[[], None]) -> float:
    """Return the tokens per second of the best of a few runs."""
    best = 0.0
    for _ in range(ROUNDS):
        rate = re.search(
            r"tok/s: ([0-9.]+)", decode(model, prepare, "-n", "64", "-t", f"{threads}")
        )
        assert rate
        best = max(best, float(rate[1]))
    return best


def test_eight_threads_on_one_cpu_cost_less_than_half_the_speed(
    large: Path, decode: Decode
) -> None:
    cpu = {min(os.sched_getaffinity(0))}

    def pin() -> None:
        os.sched_setaffinity(0, cpu)

    assert speed(decode, large, MANY, pin) >= ALWAYS * speed(decode, large, 1, pin)


def make_group() -> Path | None:
    """Make a control group of either version below the top one; None if that is not allowed."""
    name = f"krafla-test-{os.getpid()}"
    for top, limit in (("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")):
        group = Path(top) / name
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / limit).exists():
            return group
        group.rmdir()
    return None


@pytest.fixture
def group(not_run: NotRun) -> Iterator[Path]:
    """Return a control group that may use one CPU's time."""
    made = make_group()
    if made is None:
        not_run("this user may not make a control group with a CPU quota")
    if (made / "cpu.max").exists():
        (made / "cpu.max").write_text(f"{PERIOD_US} {PERIOD_US}")
    else:
        (made / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (made / "cpu.cfs_quota_us").write_text(str(PERIOD_US))
    yield made
    made.rmdir()


def test_a_quota_decides_how_many_threads_there_are(
    krafla: Krafla, small: Path, decode: Decode, group: Path, not_run: NotRun
) -> None:
    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    reason = "the CPU quota of this container"
    if suitable(krafla, small)[0] == 1:
        not_run("one thread is the default here anyway")
    assert decode(small, enter, "-n", "1").startswith(f"threads: 1 ({reason})\n")


def test_eight_threads_beyond_a_quota_cost_less_than_half_the_speed(
    large: Path, decode: Decode, group: Path
) -> None:
    """They are stopped in the middle of their work when the time of a period is used up."""

    def enter() -> None:
        (group / "cgroup.procs").write_text(str(os.getpid()))

    assert speed(decode, large, MANY, enter) >= ALWAYS * speed(decode, large, 1, enter)
