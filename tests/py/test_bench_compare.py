# SPDX-License-Identifier: MIT
"""bench_compare: ratios of two ml_bench results, and which of them mean something.

.venv/bin/python -m pytest tests/py/test_bench_compare.py
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import bench_compare

DATA = Path(__file__).parent.parent / "data" / "bench"


def compare(old: str, new: str, *more: str) -> int:
    return bench_compare.main([str(DATA / f"{old}.json"), str(DATA / f"{new}.json"), *more])


def test_a_model_that_reads_prompts_slower_is_marked(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("model_old", "model_new") == 0
    lines = capsys.readouterr().out.splitlines()
    prefill = "| prefill 128, depth 0, threads 1 | 450.00 tok/s | 400.00 tok/s | 0.889 | slower |"
    decode = "| decode 128, depth 0, threads 1 | 110.00 tok/s | 111.00 tok/s | 1.009 |  |"
    assert prefill in lines
    assert decode in lines  # within the spread: no mark
    assert lines[0] == "isa: avx512vnni before, avx2 now"
    assert lines[-1] == "geometric mean of 2 ratios: 0.947"


def test_less_time_of_a_kernel_is_more_speed(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("kernels_old", "kernels_new") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "| rmsnorm n=896 hot | 110 ns | 88 ns | 1.250 | faster |" in lines
    matmul = "| matmul q4 4864x896 cols=1 cold | 80000 ns | 78000 ns | 1.026 |  |"
    assert matmul in lines
    assert lines[-1] == "only in the new file: silu_mul n=4864 hot"


@pytest.mark.parametrize(
    ("old", "new", "limit", "code"),
    [
        ("model_old", "model_new", "0.95", 1),
        ("model_old", "model_new", "0.85", 0),
        ("model_new", "model_old", "0.999", 0),  # 0.991 is within the spread
    ],
    ids=["slower", "slower, but allowed", "noise"],
)
def test_only_a_marked_ratio_below_the_limit_fails(
    old: str, new: str, limit: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare(old, new, "--fail-below", limit) == code
    said = "prefill 128, depth 0, threads 1: 0.889 is below 0.95" in capsys.readouterr().err
    assert said == bool(code)


def test_a_model_and_kernels_cannot_be_compared(capsys: pytest.CaptureFixture[str]) -> None:
    assert compare("model_old", "kernels_new") == 2
    assert "one file is of model, the other of kernels" in capsys.readouterr().err


def test_another_file_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    for text in ("", "{}", "[", "[]", "[" * 100_000, "9" * 10_000):
        other.write_text(text)
        assert bench_compare.main([str(other), str(other)]) == 2
        assert str(other) in capsys.readouterr().err


@pytest.mark.parametrize(
    "bad", ["NaN", "Infinity", "-1", "0", "1e308", "1" + "0" * 400, '"1"', "null", "true", "[]"]
)
@pytest.mark.parametrize("number", ["median", "low", "high"])
@pytest.mark.parametrize("name", ["model_old", "kernels_old"])
def test_what_is_no_speed_is_refused_by_name(
    name: str, number: str, bad: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (DATA / f"{name}.json").read_text()
    other = tmp_path / "other.json"
    other.write_text(re.sub(rf'"{number}": [0-9.]+', f'"{number}": {bad}', text))
    good = str(DATA / f"{name}.json")
    for pair in ([str(other), good], [good, str(other)]):
        assert bench_compare.main(pair) == 2
        assert capsys.readouterr().err.startswith(f"error: {other}: not written by")


def test_names_of_a_file_do_not_command_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other.json"
    text = (DATA / "model_old.json").read_text()
    other.write_text(text.replace("random-1", r"a\u001b[31m\n\ud800b"))
    assert bench_compare.main([str(other), str(DATA / "model_old.json")]) == 0
    assert "model: a?[31m??b before, random-1 now\n" in capsys.readouterr().out


@pytest.mark.parametrize("limit", ["nan", "-1", "inf", "x"])
def test_a_limit_that_no_ratio_can_miss_is_refused(limit: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        compare("model_old", "model_new", "--fail-below", limit)
