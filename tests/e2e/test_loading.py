# SPDX-License-Identifier: MIT
"""A start that takes a while, on a terminal: how far it is, and Ctrl-C.

KRAFLA_BUILD=build/avx2-pt .venv/bin/python -m pytest tests/e2e/test_loading.py
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gen_random

PATIENCE = 0.5  # seconds before ml_run shows numbers


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Write a model whose pack cache takes a moment: it is hashed, packed, hashed and written."""
    path = tmp_path / "model.mlb"
    shape = ("--dim", "1024", "--layers", "2", "--vocab", "4096")
    assert gen_random.main(["--out", str(path), "--wtype", "q8", "--max-seq", "512", *shape]) == 0
    return path


class Start:
    """An ml_run with a terminal as its stderr, seen up to its first word."""

    def __init__(self, command: list[str]) -> None:
        """Start it and wait until it says that it loads."""
        self.ours, theirs = pty.openpty()
        alive = ["env", "--default-signal=INT", *command]  # a shell's & makes it ignored
        self.process = subprocess.Popen(alive, stdout=subprocess.DEVNULL, stderr=theirs)
        os.close(theirs)
        self.shown = ""
        while "loading" not in self.shown:
            self.shown += os.read(self.ours, 4096).decode()

    def finish(self) -> int:
        """Read the rest and return the exit code."""
        try:
            while chunk := os.read(self.ours, 4096):
                self.shown += chunk.decode()
        except OSError:  # Linux: the other side is closed
            pass
        os.close(self.ours)
        return self.process.wait()


@pytest.fixture
def start(model: Path, build_dir: Path, emulator: list[str]) -> Iterator[Start]:
    """Start a run that has to make the pack cache."""
    ml_run = [*emulator, str(build_dir / "ml_run")]
    started = Start([*ml_run, str(model), "--pack-cache", "--tokens", "1", "-n", "1"])
    yield started
    started.process.kill()
    started.process.wait()


def test_a_long_start_shows_its_per_cent_and_removes_them(start: Start) -> None:
    start.process.send_signal(signal.SIGSTOP)
    time.sleep(PATIENCE + 0.1)  # now it is a long one
    start.process.send_signal(signal.SIGCONT)
    assert start.finish() == 0
    percents = [int(n) for n in re.findall(r"loading .*?model\.mlb: (\d+) %", start.shown)]
    assert percents
    assert percents == sorted(set(percents))
    assert percents[-1] == 100
    assert re.search(r"100 %\r\x1b\[K[^%]*positions: ", start.shown)


def test_ctrl_c_ends_a_start_and_leaves_no_half_cache(start: Start, model: Path) -> None:
    start.process.send_signal(signal.SIGINT)
    assert start.finish() == -signal.SIGINT
    assert [path.name for path in model.parent.iterdir()] == ["model.mlb"]
