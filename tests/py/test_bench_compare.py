# SPDX-License-Identifier: MIT
"""bench_compare: ratios of two ml_bench results, and which of them mean something.

.venv/bin/python -m pytest tests/py/test_bench_compare.py
"""

from __future__ import annotations

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
    for text in ("{}", "[", "[]"):
        other.write_text(text)
        assert bench_compare.main([str(other), str(other)]) == 2
        assert str(other) in capsys.readouterr().err
