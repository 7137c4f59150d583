# SPDX-License-Identifier: MIT
"""Peak memory of a run: the model once, not twice, and a KV cache that grows with the timeline.

KRAFLA_BUILD=build/avx2-pt .venv/bin/python -m pytest tests/e2e/test_memory.py
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import gen_random

if TYPE_CHECKING:
    from tests.conftest import Krafla, NotRun

MIB = 1 << 20
SLACK = 32 * MIB  # buffers, the program, and the rounding to huge pages
DIM, LAYERS, VOCAB, MAX_SEQ = 1024, 8, 4096, 8192
EMBED_BYTES = VOCAB * DIM * 34 // 32
SEGMENT_BYTES = 512 * LAYERS * DIM * 8  # what the KV cache grows by: 512 positions of f32

# Runs a command and prints the largest resident set of it, in KiB, as its last line.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""

Peak = Callable[..., int]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a model of about 110 MiB."""
    path = tmp_path_factory.mktemp("memory") / "model.mlb"
    shape = ("--dim", str(DIM), "--layers", str(LAYERS), "--vocab", str(VOCAB))
    made = ("--out", str(path), "--wtype", "q8", "--max-seq", str(MAX_SEQ), *shape)
    assert gen_random.main(list(made)) == 0
    assert path.stat().st_size > 100 * MIB
    return path


@pytest.fixture
def peak(build_dir: Path, emulator: list[str], not_run: NotRun) -> Peak:
    """Return a function that runs ml_run for n positions and returns its peak in bytes."""
    if emulator:
        not_run("the emulator's memory would be counted")

    def run(model: Path, n: int, *options: str) -> int:
        command = [str(build_dir / "ml_run"), str(model), "--tokens", "1,2,3", "-n", str(n)]
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, *command, *options],
            capture_output=True,
            check=True,
            env=os.environ,
        )
        return int(done.stdout.split()[-1]) * 1024

    return run


@pytest.mark.parametrize("threads", ["1", "2"])
def test_packing_does_not_hold_the_model_twice(model: Path, peak: Peak, threads: str) -> None:
    got = peak(model, 4, "-t", threads)
    assert got <= model.stat().st_size + SEGMENT_BYTES + SLACK
    assert got >= model.stat().st_size - EMBED_BYTES  # the measure itself works


def test_weights_in_the_file_are_not_copied(model: Path, peak: Peak) -> None:
    assert peak(model, 4, "--no-pack") <= model.stat().st_size + SEGMENT_BYTES + SLACK


def test_a_pack_cache_is_mapped_and_not_copied(model: Path, peak: Peak) -> None:
    peak(model, 4, "--pack-cache")
    assert peak(model, 4, "--pack-cache") <= model.stat().st_size + SEGMENT_BYTES + SLACK


def cache_pages(pid: int) -> dict[str, int]:
    """Return the lines of /proc/PID/smaps about the map of the pack cache, in bytes."""
    sizes: dict[str, int] = {}
    ours = False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = ".pk" in line
        elif ours and line.endswith(" kB"):
            name, size, _ = line.split()
            sizes[name.rstrip(":")] = sizes.get(name.rstrip(":"), 0) + int(size) * 1024
    return sizes


def test_a_pack_cache_is_shared_by_processes(
    model: Path, build_dir: Path, emulator: list[str], not_run: NotRun
) -> None:
    if emulator:
        not_run("the emulator's maps would be counted")
    command = [str(build_dir / "ml_run"), str(model), "--pack-cache", "--tokens", "1", "-t", "1"]
    subprocess.run([*command, "-n", "1"], capture_output=True, check=True)
    weights = model.stat().st_size - EMBED_BYTES
    both = [
        subprocess.Popen(
            [*command, "-n", str(MAX_SEQ)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(2)
    ]
    try:
        for _ in range(600):
            pages = [cache_pages(process.pid) for process in both]
            if all(p.get("Rss", 0) >= weights for p in pages):
                break
            time.sleep(0.05)
        for p in map(cache_pages, [process.pid for process in both]):  # both have read all by now
            assert p["Rss"] >= weights
            assert p["Pss"] <= 0.6 * p["Rss"]  # half of each page is the other's
            assert p["Private_Clean"] + p["Private_Dirty"] <= MIB
    finally:
        for process in both:
            process.kill()
            process.wait()


def test_a_large_context_costs_nothing_before_it_is_used(model: Path, peak: Peak) -> None:
    """8192 positions are 512 MiB of KV cache, of which 4 use one segment."""
    got = peak(model, 4, "--ctx", str(MAX_SEQ))
    assert got <= model.stat().st_size + SEGMENT_BYTES + SLACK


def test_a_context_that_cannot_fit_names_the_flags(krafla: Krafla, tmp_path: Path) -> None:
    path = tmp_path / "wide.mlb"
    made = ("--out", str(path), "--wtype", "q8", "--max-seq", str(1 << 24), "--vocab", "512")
    assert gen_random.main([*made, "--dim", "1024", "--layers", "16", "--hidden", "32"]) == 0
    done = krafla("ml_run", path, "--tokens", "1", "--ctx", str(1 << 24))
    assert done.returncode == 1
    message = done.stderr.decode()
    assert "out of memory" in message
    assert "--ctx" in message
    assert "--kv q8" in message
