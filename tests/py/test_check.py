# SPDX-License-Identifier: MIT
"""`make check` leaves nothing out in silence and counts every step's tests.

.venv/bin/python -m pytest tests/py/test_check.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import isas
from krafla_release import check


def test_check_has_a_step_for_every_row() -> None:
    assert set(isas.sessions()) <= set(check.steps())
    assert len(isas.sessions()) == len(isas.load(built=True))


def test_check_runs_all_steps_but_those_by_hand() -> None:
    assert set(check.steps()) - set(check.chosen([])) == set(check.by_hand())
    assert check.by_hand() == ["test-neon-armv7", "test-scalar-armv7"]


def test_what_is_by_hand_is_what_noxfile_says() -> None:
    words = [sys.executable, "-m", "nox", "--list", "--json", "-t", "hand"]
    listed = subprocess.run(words, cwd=isas.ROOT, capture_output=True, text=True, check=True)
    tagged = {session["session"] for session in json.loads(listed.stdout)}
    assert {name.split()[0] for name in check.BY_HAND} == tagged | {"cmake", "docs"}
    assert not tagged & set(check.steps())


def test_check_of_every_row_takes_those_by_hand_too() -> None:
    assert list(check.chosen([check.EVERY_ROW])) == list(isas.sessions())


def test_summary_lists_what_was_not_run_and_what_is_by_hand() -> None:
    result = check.Result("test-avx2", 3, 0, ("half of it: no CPU",), 1.0)
    lines = check.summary([result]).splitlines()
    assert "  not run, test-avx2: half of it: no CPU" in lines
    assert sum("by hand: .venv/bin/nox -s test-neon-armv7" in line for line in lines) == 1
    assert any("nox -s cmake -- --all" in line for line in lines)
    assert lines[-1] == "3 passed, 0 failed"


def test_a_row_that_was_run_is_not_listed_as_by_hand() -> None:
    result = check.Result("test-neon-armv7", 3, 0, (), 1.0)
    assert "nox -s test-neon-armv7" not in check.summary([result])


@pytest.mark.parametrize(
    ("log", "code", "want"),
    [
        ("checkkern avx2: 610 passed, 0 failed\n", 0, (610, 0)),
        ("test_json: 90 passed, 0 failed\ntest_map: 3 passed, 1 failed\n", 1, (1, 1)),
        ("  avx2 on qemu64   0.1 s  refuses, no avx2: ok\n27 passed, 1 failed\n", 1, (27, 1)),
        ("5 passed, 2 skipped in 3.00s\n", 0, (5, 0)),
        ("", 0, (1, 0)),
        ("dies\n", 1, (0, 1)),
    ],
    ids=["kernels", "units", "emulated", "pytest", "no tests", "dies"],
)
def test_check_counts_what_a_step_says(log: str, code: int, want: tuple[int, int]) -> None:
    assert check.count(log, code) == want


def test_a_step_hands_on_what_it_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "LOGS", tmp_path)
    result = check.run_step("x", ["sh", "-c", "echo 'not run: half: no CPU'; exit 1"])
    assert (result.failed, result.not_run) == (1, ("half: no CPU",))
