# SPDX-License-Identifier: MIT
"""ml_bench: what it prints of a model and of the kernels, to a terminal and as JSON.

make ISA=avx2 e2e
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from typing import TYPE_CHECKING

import pytest

from made import random_model

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import Krafla

FEW = ("-n", "2", "-r", "1", "-t", "1")


def hostile_model(path: Path) -> Path:
    """Write a model whose name begins with an escape character."""
    data = random_model(path, 512).read_bytes()
    plain, hostile = b'"name":"random-', b'"name":"\\u001b-'
    assert data.count(plain) == 1
    assert len(plain) == len(hostile)  # the frame stays right
    path.write_bytes(data.replace(plain, hostile))
    return path


def test_a_terminal_gets_no_control_characters_of_a_name(
    build_dir: Path, emulator: list[str], tmp_path: Path
) -> None:
    model = hostile_model(tmp_path / "m.mlb")
    ours, theirs = pty.openpty()
    try:
        command: list[str | Path] = [*emulator, build_dir / "ml_bench", model, *FEW]
        done = subprocess.run(command, stdout=theirs, stderr=subprocess.PIPE, check=False)
        assert done.returncode == 0, done.stderr
        shown = os.read(ours, 4096).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "\x1b" not in shown
    assert shown.startswith("\u241b-")


def test_json_holds_the_name_as_it_is(krafla: Krafla, tmp_path: Path) -> None:
    done = krafla("ml_bench", hostile_model(tmp_path / "m.mlb"), *FEW, "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["model"].startswith("\x1b-")


def test_json_has_every_thread_count_at_every_depth(krafla: Krafla, tmp_path: Path) -> None:
    model = random_model(tmp_path / "m.mlb", 512)
    words = ("-n", "2", "--prefill", "3", "-r", "2", "--depth", "0,5", "--json")
    done = krafla("ml_bench", model, *words, "-t", "1,1")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["kind"] == "model"
    assert report["date"].endswith("Z")
    assert report["cpu"]
    assert [(cell["threads"], cell["depth"]) for cell in report["results"]] == [(1, 0), (1, 5)] * 2
    for cell in report["results"]:
        assert (cell["prefill"]["tokens"], cell["decode"]["tokens"]) == (3, 2)
        for test in (cell["prefill"], cell["decode"]):
            places = [test[name] for name in ("min", "low", "median", "high", "max")]
            assert places[0] > 0
            assert places == sorted(places)


def test_decode_reads_the_weights_and_the_cache_once_per_token(
    krafla: Krafla, tmp_path: Path
) -> None:
    model = random_model(tmp_path / "m.mlb", 512)
    done = krafla("ml_bench", model, "-n", "1", "-r", "1", "-t", "1", "--depth", "32", "--json")
    report = json.loads(done.stdout)
    decode = report["results"][0]["decode"]
    per_token = decode["gb_per_s"] * 1e9 / decode["median"]
    cache = 33 * report["kv_bytes_per_position"]
    assert cache > 0
    assert per_token == pytest.approx(report["weight_bytes"] + cache, rel=1e-4)


def test_percentages_compare_with_the_limits_of_the_same_run(
    krafla: Krafla, tmp_path: Path
) -> None:
    done = krafla("ml_bench", random_model(tmp_path / "m.mlb", 512), *FEW, "--json")
    cell = json.loads(done.stdout)["results"][0]
    for test, rate, limit, percent in (
        ("prefill", "gmac_per_s", "peak_gmac_per_s", "percent_of_peak"),
        ("decode", "gb_per_s", "read_gb_per_s", "percent_of_read"),
    ):
        got = cell[test]
        assert got[limit] > 0
        assert got[percent] == pytest.approx(100 * got[rate] / got[limit], rel=0.01)


def test_kernels_need_no_model(krafla: Krafla) -> None:
    words = ("--kernels", "--only", "*576x1536 cols=8 hot", "-r", "1", "--json")
    done = krafla("ml_bench", *words)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [row["case"] for row in report["results"]] == [
        f"matmul {wtype} 576x1536 cols=8 hot" for wtype in ("q8", "q4")
    ]
    for row, wtype in zip(report["results"], ("q8", "q4"), strict=True):
        peak = report["peak"][wtype]
        assert peak["instructions"]
        assert row["limit"] == "peak"
        percent = 100 * row["gmac_per_s"] / peak["gmac_per_s"]
        assert row["percent_of_limit"] == pytest.approx(percent, rel=0.01)


def test_attention_and_vectors_are_among_the_kernels(krafla: Krafla) -> None:
    counts = {"attend * n=128 hot": 15, "silu_mul*": 1, "quantize*": 2, "delta* hot": 2}
    for pattern, count in counts.items():
        done = krafla("ml_bench", "--kernels", "--only", pattern, "-r", "1", "--json")
        assert done.returncode == 0, done.stderr
        rows = json.loads(done.stdout)["results"]
        assert len(rows) == count
        assert all(row["ns"]["min"] > 0 and "limit" not in row for row in rows)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "name a model, or --kernels"),
        (("--kernels", "m.mlb"), "--kernels takes no model"),
        (("m.mlb", "--only", "quantize*"), "--only chooses among --kernels"),
        (("--kernels", "--only", "matmul q5*"), "no kernel is named 'matmul q5*'"),
        (("m.mlb", "--depth", "0,,1"), "--depth takes up to 16 numbers"),
        (("m.mlb", "-t", "1,65"), "-t takes up to 16 numbers from 1 to 64"),
        (("m.mlb", "-t", ""), "-t takes up to 16 numbers from 1 to 64"),
        (("--kernels", "-t", "2"), "--kernels measures on one thread"),
        (("m.mlb", "--depth", "1000000"), "positions of this model"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_wrong_command_line_is_refused_in_one_sentence(
    krafla: Krafla, tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    random_model(tmp_path / "m.mlb", 512)
    done = krafla("ml_bench", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr.decode()
    assert done.stdout == b""


def test_ctrl_c_prints_nothing_half(build_dir: Path, emulator: list[str], tmp_path: Path) -> None:
    model = random_model(tmp_path / "m.mlb", 512)
    ours, theirs = pty.openpty()
    words = ("-n", "99", "-r", "1000", "-t", "1")
    command: list[str | Path] = [*emulator, build_dir / "ml_bench", model, *words]
    command = ["env", "--default-signal=INT", *command]  # a shell's & makes it ignored
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while b"repetition" not in shown:
            shown += os.read(ours, 4096)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    try:
        while chunk := os.read(ours, 4096):  # a terminal gives it in pieces
            shown += chunk
    except OSError:  # Linux: the other side is closed
        pass
    os.close(ours)
    assert process.returncode == -signal.SIGINT
    assert out == b""
    assert shown.endswith(b"\r\x1b[K")  # nor is a line of progress left
