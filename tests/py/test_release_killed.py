# SPDX-License-Identifier: MIT
"""A release killed at every step, then resumed: the same state as if nothing had happened.

.venv/bin/python -m pytest tests/py/test_release_killed.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from release_rig import Driver, Rig, driver, problems, rig

KILLED = -9


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("release")) as made:
        yield made


def undisturbed(ready: Driver, place: Path) -> tuple[list[Any], list[str], int]:
    """Return the state after a release, the methods of its requests, and its journal's lines."""
    with rig(ready, place / "undisturbed") as line:
        done = line.release()
        assert done.code == 0, done.output
        methods = [method for _, method, _ in line.seen]
        lines = (line.dist / "v0.9.0" / "journal.jsonl").read_text().count("\n")
        return line.state(), methods, lines


def resumed(line: Rig, want: list[Any], **kill: Any) -> list[str]:
    """Start a release that gets killed, resume it, and return in what the end differs."""
    killed = line.release(**kill)
    if killed.code != KILLED:
        return [f"was not killed: {killed}"]
    done = line.release("--resume")
    if done.code != 0:
        return [f"resumed with code {done.code}: {done.output}"]
    return problems(line, want)


def at_requests(ready: Driver, place: Path, when: str, *, changing: bool) -> None:
    want, methods, _ = undisturbed(ready, place)
    chosen = [number for number, method in enumerate(methods) if (method != "GET") == changing]
    assert chosen
    wrong = {}
    for number in chosen:
        with rig(ready, place / str(number)) as line:
            line.kill_at = (number, when)
            wrong[number, methods[number]] = resumed(line, want)
    assert not {point: faults for point, faults in wrong.items() if faults}


def test_killed_before_any_change_is_made(ready: Driver, tmp_path: Path) -> None:
    at_requests(ready, tmp_path, "asked", changing=True)


def test_killed_after_any_change_before_its_answer_arrives(ready: Driver, tmp_path: Path) -> None:
    at_requests(ready, tmp_path, "done", changing=True)


def test_killed_at_any_request_that_only_reads(ready: Driver, tmp_path: Path) -> None:
    at_requests(ready, tmp_path, "asked", changing=False)


@pytest.mark.parametrize("torn", [False, True], ids=["whole", "half"])
def test_killed_with_any_line_of_the_journal_written(
    ready: Driver, tmp_path: Path, *, torn: bool
) -> None:
    want, _, lines = undisturbed(ready, tmp_path)
    wrong = {}
    for number in range(lines):
        with rig(ready, tmp_path / str(number)) as line:
            wrong[number] = resumed(line, want, at_line=number, torn=torn)
    assert not {number: faults for number, faults in wrong.items() if faults}


def test_killed_again_and_again_a_release_still_ends(ready: Driver, tmp_path: Path) -> None:
    want, methods, _ = undisturbed(ready, tmp_path)
    with rig(ready, tmp_path / "again") as line:
        for number in range(3, len(methods) + 20, 3):
            line.kill_at = (number, "done")
            done = line.release("--resume")
            if done.code != KILLED:
                break
        assert done.code == 0, done.output
        assert not problems(line, want)
