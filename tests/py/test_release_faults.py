# SPDX-License-Identifier: MIT
"""A release while GitHub and Zenodo fail in every way on every route: it ends as without faults.

.venv/bin/python -m pytest tests/py/test_release_faults.py
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loopback import Fault
from loopback_github import HOME, PUBLIC, STORAGE, UPLOADS, StoredAsset
from release_driver import FILES
from release_rig import TAG, TOKEN, Driver, Rig, driver, problems, rig

ROUTES = {
    "list": ("GET", f"{HOME}/releases"),
    "tag": ("GET", f"{HOME}/commits/.*"),
    "draft": ("POST", f"{HOME}/releases"),
    "release": ("GET", rf"{HOME}/releases/\d+"),
    "upload": ("POST", rf"{UPLOADS}/\d+/assets"),
    "asset": ("GET", rf"{HOME}/releases/assets/\d+"),
    "storage": ("GET", rf"{STORAGE}/\d+"),
    "delete": ("DELETE", rf"{HOME}/releases/assets/\d+"),
    "publish": ("PATCH", rf"{HOME}/releases/\d+"),
    "notes": ("PATCH", rf"{HOME}/releases/\d+"),
    "public": ("GET", f"{PUBLIC}/.*"),
    "zenodo": ("GET", "/api/records"),
}
HTML = "page of HTML with 200"
SOON = {"Retry-After": "0"}
KINDS: dict[str, dict[str, Any]] = {
    "503": {"status": 503, "times": 2},
    "502": {"status": 502},
    "429 Retry-After": {"status": 429, "headers": SOON, "times": 2},
    "403 secondary limit": {"status": 403, "headers": SOON},
    HTML: {"status": 200, "headers": {"Content-Type": "text/html"}},
    "no connection": {"kind": "refuse", "times": 2},
    "reply lost": {"kind": "lost"},
    "reply cut": {"kind": "cut"},
    "late": {"kind": "slow", "seconds": 0.1},
}


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("release")) as made:
        yield made


@pytest.fixture(scope="module")
def want(ready: Driver, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return what an undisturbed release leaves."""
    with rig(ready, tmp_path_factory.mktemp("undisturbed")) as line:
        assert line.release().code == 0
        return line.state()


@pytest.fixture
def line(ready: Driver, tmp_path: Path) -> Iterator[Rig]:
    with rig(ready, tmp_path) as made:
        yield made


def leave_something_to_delete(line: Rig) -> None:
    """Stop after the first upload, and put a file into the draft that does not belong."""
    line.kill_at = (10, "asked")
    assert line.release().code == -9
    line.github.releases[0].assets.append(StoredAsset(line.github.new_id(), "stray", b"stray"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_fault_on_any_route_changes_nothing_in_the_end(
    ready: Driver, tmp_path: Path, want: list[Any], kind: str
) -> None:
    wrong = {}
    for route, (method, path) in ROUTES.items():
        if kind == HTML and route in ("asset", "storage", "public"):
            continue  # other bytes than expected are no fault that passes: see below
        with rig(ready, tmp_path / route) as line:
            if route == "delete":
                leave_something_to_delete(line)
            service = line.zenodo if route == "zenodo" else line.github
            fault = Fault(method, path, **KINDS[kind], skips=route == "notes")
            service.faults.append(fault)
            done = line.release(*["--resume"] * (route == "delete"))
            if kind == HTML and done.code == 75:  # as GitHub does in an outage: not for now
                done = line.release("--resume")
            faults = problems(line, want)
            if done.code or faults or fault.times > 0:
                wrong[route] = (done, faults, fault.times)
    assert not wrong


def test_a_502_that_leaves_an_empty_asset_behind_is_mended(line: Rig, want: list[Any]) -> None:
    line.github.faults.append(Fault("POST", f"{UPLOADS}/.*", "broken", status=502))
    done = line.release()
    assert done.code == 0, done.output
    assert f"delete {FILES[0]}: its upload broke off" in done.output
    assert not problems(line, want)


def test_an_asset_that_is_shown_late_is_not_stored_twice(line: Rig, want: list[Any]) -> None:
    line.github.lags = 2
    done = line.release()
    assert done.code == 0, done.output
    assert f"{FILES[0]}: there is an asset of this name already" in done.output
    assert line.state() == want
    assert len(line.github.uploads) == len(set(line.github.uploads)) == 5


def test_a_page_in_place_of_a_file_ends_the_release_as_a_draft(line: Rig) -> None:
    line.github.faults.append(Fault("GET", f"{STORAGE}/.*", status=200, body=b"<html>"))
    assert line.release().code == 4
    assert line.github.releases[0].draft


@pytest.mark.parametrize("route", [name for name in ROUTES if name != "delete"])
def test_an_outage_that_does_not_end_is_for_later_and_resumed(
    ready: Driver, tmp_path: Path, want: list[Any], route: str
) -> None:
    with rig(ready, tmp_path) as line:
        fault = Fault(*ROUTES[route], times=1000, skips=route == "notes")
        (line.zenodo if route == "zenodo" else line.github).faults.append(fault)
        done = line.release()
        assert done.code == 75, done.output
        assert "Traceback" not in done.output
        fault.times = 0
        done = line.release("--resume")
        assert done.code == 0, done.output
        assert not problems(line, want)


def test_a_token_that_expires_at_any_change_is_named_and_a_new_one_goes_on(
    ready: Driver, tmp_path: Path, want: list[Any]
) -> None:
    with rig(ready, tmp_path / "count") as line:
        assert line.release().code == 0
        changes = len(line.github.changing())
    for number in range(changes):
        with rig(ready, tmp_path / str(number)) as line:
            line.github.tokens = {TOKEN: number}
            done = line.release()
            assert done.code == 5, done.output
            last = done.output.splitlines()[-1]
            assert "GitHub does not accept GITHUB_TOKEN (401)" in last
            assert "go on with --resume" in last
            line.github.tokens = {"ghp_new": 1000}
            done = line.release("--resume", env={"GITHUB_TOKEN": "ghp_new"})
            assert done.code == 0, done.output
            assert not problems(line, want)


def test_a_token_that_may_not_write_is_refused(line: Rig) -> None:
    line.github.faults.append(Fault("POST", f"{HOME}/releases", status=403, body=b"{}"))
    done = line.release()
    assert done.code == 5
    assert "it needs contents: write" in done.output


def test_the_wait_that_a_service_asks_for_is_kept(line: Rig) -> None:
    fault = Fault("POST", f"{HOME}/releases", status=429, headers={"Retry-After": "1"})
    line.github.faults.append(fault)
    begun = time.monotonic()
    assert line.release().code == 0
    assert time.monotonic() - begun > 1.0


def test_the_reset_time_of_a_rate_limit_is_kept(line: Rig) -> None:
    reset = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": f"{time.time() + 1.5:.0f}"}
    fault = Fault("GET", f"{HOME}/releases", status=403, headers=reset)
    line.github.faults.append(fault)
    assert line.release().code == 0
    assert time.time() >= int(reset["X-RateLimit-Reset"])


def test_a_wait_of_an_hour_is_left_to_the_next_run(line: Rig) -> None:
    fault = Fault("POST", f"{HOME}/releases", status=429, headers={"Retry-After": "3600"})
    line.github.faults.append(fault)
    done = line.release()
    assert done.code == 75
    assert "rate limit, again in 60 minutes" in done.output
    assert len(line.github.changing()) == 1


def test_a_wait_of_an_hour_before_the_doi_is_added_is_left_to_the_next_run(line: Rig) -> None:
    fault = Fault("PATCH", rf"{HOME}/releases/\d+", status=429, headers={"Retry-After": "3600"})
    fault.skips = 1  # publishing
    line.github.faults.append(fault)
    assert line.release().code == 75
    assert len(line.github.changing()) == len(FILES) + 5  # two more files, draft, publish, DOI
    assert line.release("--resume").code == 0


def test_a_tag_that_github_shows_late_is_for_later(line: Rig, want: list[Any]) -> None:
    there = Fault("GET", f"{HOME}/commits/tags/.*", status=404, times=99)
    line.github.faults.append(there)
    done = line.release()
    assert done.code == 75
    assert f"GitHub does not show the tag {TAG} yet" in done.output
    there.times = 0
    assert line.release("--resume").code == 0
    assert problems(line, want) == []
