# SPDX-License-Identifier: MIT
"""The release line from preflight to docs page, against GitHub and Zenodo on 127.0.0.1.

.venv/bin/python -m pytest tests/py/test_release.py
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from krafla_release.journal import Journal
from loopback import Request
from loopback_github import StoredAsset, StoredRelease
from release_driver import FILES
from release_rig import TAG, TOKEN, VERSION, Driver, Rig, commit_all, driver, git, problems, rig

LOCAL = ["build", "audit", "package", "check", "prove"]  # the stand-ins, in order


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with driver(tmp_path_factory.mktemp("release")) as made:
        yield made


@pytest.fixture
def line(ready: Driver, tmp_path: Path) -> Iterator[Rig]:
    with rig(ready, tmp_path) as made:
        yield made


def names(line: Rig) -> list[str]:
    return [asset.name for asset in line.github.releases[0].assets]


def draft_of(line: Rig, **changes: Any) -> StoredRelease:
    """Put a draft there as this program makes it, but for some changes."""
    plain = StoredRelease(line.github.new_id(), TAG, line.driver.commit, f"Krafla {TAG}", "")
    made = dataclasses.replace(plain, **changes)
    line.github.releases.append(made)
    return made


# ---- the whole line -----------------------------------------------------------------------------


def test_a_release_is_published_with_its_files_tag_and_doi(line: Rig) -> None:
    done = line.release()
    assert done.code == 0, done.output
    release = line.github.releases[0]
    assert (release.draft, release.tag, release.name) == (False, TAG, f"Krafla {TAG}")
    assert line.github.tags == {TAG: line.driver.commit}
    assert names(line) == [*FILES, f"krafla-{VERSION}.spdx.json", "SHA256SUMS"]
    assert "### Added" in release.body
    assert line.zenodo.records[0].doi in release.body
    assert line.ran() == LOCAL


def test_the_token_is_written_nowhere(line: Rig) -> None:
    done = line.release()
    assert done.code == 0
    assert TOKEN not in done.output
    written = [path for path in line.dist.rglob("*") if path.is_file()]
    assert written
    assert not [path for path in written if TOKEN.encode() in path.read_bytes()]


def test_run_again_a_published_release_is_left_alone(line: Rig) -> None:
    assert line.release().code == 0
    want, changed = line.state(), len(line.github.changing())
    done = line.release()
    assert done.code == 0, done.output
    assert "published already" in done.output
    assert line.state() == want
    assert len(line.github.changing()) == changed
    assert line.ran() == LOCAL


def test_a_release_is_left_alone_by_a_machine_that_makes_the_same_files(line: Rig) -> None:
    assert line.release().code == 0
    changed = len(line.github.changing())
    shutil.rmtree(line.dist)
    assert line.release().code == 0
    assert len(line.github.changing()) == changed


def test_a_tag_that_publishing_made_of_another_commit_is_an_error(line: Rig) -> None:
    watch, other = line.github.watch, "d" * 40
    line.github.commits.add(other)

    def moved(request: Request, when: str) -> bool:
        if when == "done" and TAG in line.github.tags:
            line.github.tags[TAG] = other
        return watch(request, when)

    line.github.watch = moved
    done = line.release()
    assert done.code == 4
    assert f"{TAG} is the tag of {other}, not of {line.driver.commit}" in done.output


# ---- the dry run --------------------------------------------------------------------------------


def test_a_dry_run_ends_with_the_plan_and_changes_nothing(line: Rig) -> None:
    done = line.release("--dry-run", env={"GITHUB_TOKEN": ""})
    assert done.code == 0, done.output
    assert line.github.log
    assert not line.github.changing()
    assert not line.zenodo.log
    plan = json.loads((line.dist / TAG / "plan.json").read_text())
    kinds = [action["kind"] for action in plan["actions"]]
    assert kinds == ["draft", *["upload"] * 5, "verify", "publish", "doi"]
    assert [file["name"] for file in plan["files"]] == [
        *FILES,
        f"krafla-{VERSION}.spdx.json",
        "SHA256SUMS",
    ]
    assert (plan["tag"], plan["commit"]) == (TAG, line.driver.commit)


def test_after_a_dry_run_the_release_makes_no_file_again(line: Rig) -> None:
    assert line.release("--dry-run").code == 0
    assert line.release().code == 0
    assert line.ran() == LOCAL


def test_the_plan_after_an_interruption_shows_only_what_is_missing(line: Rig) -> None:
    line.kill_at = (12, "asked")
    assert line.release().code == -9
    there = names(line)
    assert there
    done = line.release("--dry-run")
    assert done.code == 0
    plan = json.loads((line.dist / TAG / "plan.json").read_text())
    uploads = [action["what"] for action in plan["actions"] if action["kind"] == "upload"]
    assert uploads == [file["name"] for file in plan["files"] if file["name"] not in there]
    assert "draft" not in [action["kind"] for action in plan["actions"]]


NOWHERE = {"GITHUB_API_URL": "http://127.0.0.1:9", "GITHUB_TOKEN": ""}  # the port of "discard"


def test_a_dry_run_needs_neither_network_nor_token(line: Rig) -> None:
    done = line.release("--dry-run", env=NOWHERE)
    assert done.code == 0, done.output
    assert "could not ask GitHub; compared with local tags" in done.output


def test_a_dry_run_without_network_refuses_a_version_below_the_local_tags(line: Rig) -> None:
    git(line.driver.checkout, "tag", "v1.0.0")
    try:
        done = line.release("--dry-run", env=NOWHERE)
    finally:
        git(line.driver.checkout, "tag", "--delete", "v1.0.0")
    assert done.code == 3
    assert f"1.0.0 is released already, {VERSION} would be older" in done.output


# ---- preflight ----------------------------------------------------------------------------------


def refused(line: Rig, *options: str, code: int = 3) -> str:
    """Release, and return the output of the refusal, before which nothing was changed or built."""
    done = line.release(*options)
    assert done.code == code, done.output
    assert not line.github.changing()
    assert line.ran() == []
    return done.output


def test_all_faults_of_the_checkout_are_named_at_once(line: Rig) -> None:
    checkout = line.driver.checkout
    (checkout / "README.md").write_text("changed\n")
    git(checkout, "checkout", "--quiet", "-b", "topic")
    try:
        commit_all(checkout, "not on main")
        (checkout / "LICENSE").write_text("changed\n")
        done = line.release(env={"GITHUB_TOKEN": ""})
    finally:
        git(checkout, "checkout", "--quiet", "--force", "main")
        git(checkout, "branch", "--quiet", "-D", "topic")
    assert done.code == 3
    assert "not committed: LICENSE" in done.output
    assert "HEAD is not on main" in done.output
    assert "GITHUB_TOKEN is not set" in done.output


def test_a_wrong_address_of_zenodo_is_refused_before_anything_is_made(line: Rig) -> None:
    done = line.release(env={"ZENODO_API_URL": "zenodo.org/api"})
    assert (done.code, line.ran(), line.seen) == (3, [], [])
    assert "error: ZENODO_API_URL is 'zenodo.org/api', expected" in done.output


def test_missing_tools_are_named_with_their_remedy(line: Rig) -> None:
    done = line.release(env={"TEST_MISSING": "arm-gcc wine"})
    assert done.code == 3
    assert "missing: arm-gcc, wine: run scripts/bootstrap.sh --for-release" in done.output


def test_a_commit_that_was_not_pushed_is_refused(line: Rig) -> None:
    line.github.commits.clear()
    assert "push it first" in refused(line)


def test_a_tag_of_another_commit_is_refused(line: Rig) -> None:
    line.github.commits.add("d" * 40)
    line.github.tags[TAG] = "d" * 40
    assert f"{TAG} is the tag of {'d' * 40}" in refused(line)


def test_a_version_below_a_published_one_is_refused(line: Rig) -> None:
    draft_of(line, tag="v0.10.0", draft=False)
    draft_of(line, tag="latest-build", draft=False)
    assert f"0.10.0 is released already, {VERSION} would be older" in refused(line)


def test_a_draft_of_an_earlier_run_needs_resume(line: Rig) -> None:
    draft_of(line)
    assert "go on with --resume" in refused(line)
    assert line.release("--resume").code == 0


def test_a_draft_of_another_commit_is_refused(line: Rig) -> None:
    draft_of(line, target="main")
    assert "is a draft of main, not of" in refused(line, "--resume")


def test_two_drafts_of_one_tag_are_refused_with_their_ids(line: Rig) -> None:
    ids = [draft_of(line).id, draft_of(line).id]
    output = refused(line, "--resume", code=5)
    assert all(str(number) in output for number in ids)


def test_releases_are_found_behind_the_first_page(line: Rig) -> None:
    line.github.page_size = 2
    draft_of(line)
    for number in range(5):
        draft_of(line, tag=f"v0.1.{number}", draft=False)
    assert "go on with --resume" in refused(line)


def test_a_journal_of_another_commit_that_was_begun_to_be_released_is_refused(line: Rig) -> None:
    with closing(Journal(line.dist / TAG)) as journal:
        journal.add("draft", "d" * 40, remote="77")
    output = refused(line)
    assert f"belongs to {'d' * 40}, of which draft 77 was made" in output


def test_a_journal_of_another_commit_that_built_only_is_no_hindrance(line: Rig) -> None:
    with closing(Journal(line.dist / TAG)) as journal:
        journal.add("build", "d" * 40, inputs="1")
    assert line.release().code == 0
    assert line.ran() == LOCAL


def test_two_runs_in_one_directory_are_refused(line: Rig) -> None:
    with closing(Journal(line.dist / TAG)):
        assert "another run works there" in refused(line)


# ---- what is done again -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("echo changed >README.md", "not committed: README.md"),
        ("git switch --quiet --detach HEAD~1", "HEAD was {commit} and is "),
    ],
    ids=["edited", "switched"],
)
def test_files_of_a_checkout_that_changes_meanwhile_are_not_released(
    line: Rig, command: str, said: str
) -> None:
    checkout = line.driver.checkout
    try:
        done = line.release(env={"TEST_DURING": "build", "TEST_SOMEBODY": command})
    finally:
        git(checkout, "checkout", "--quiet", "--force", "main")
    assert done.code == 3, done.output
    assert "the checkout changed while build ran" in done.output
    assert said.format(commit=line.driver.commit) in done.output
    assert line.ran() == ["build"]
    assert not line.github.changing()
    assert line.release().code == 0
    assert line.ran() == ["build", *LOCAL]


def test_another_compiler_makes_everything_again(line: Rig) -> None:
    assert line.release("--dry-run").code == 0
    assert line.release("--dry-run", env={"TEST_COMPILER": "2.0"}).code == 0
    assert line.ran() == LOCAL * 2


def test_what_was_proven_is_not_made_again_by_other_compilers_on_resume(line: Rig) -> None:
    assert line.release("--dry-run").code == 0
    assert line.release("--resume", env={"TEST_COMPILER": "2.0"}).code == 0
    assert line.ran() == LOCAL


def test_what_was_not_finished_is_made_again_by_other_compilers_on_resume(line: Rig) -> None:
    assert line.release("--dry-run", at_line=5, torn=False).code == -9
    assert line.release("--resume", env={"TEST_COMPILER": "2.0"}).code == 0
    assert line.ran() == [*LOCAL, *LOCAL]


def test_a_machine_without_compilers_cannot_finish_what_another_one_began(line: Rig) -> None:
    assert line.release("--dry-run", at_line=5, torn=False).code == -9
    done = line.release("--resume", env={"TEST_MISSING": "gcc"})
    assert done.code == 3
    assert "missing: gcc" in done.output


def test_a_damaged_file_is_packed_again_but_not_built_again(line: Rig) -> None:
    assert line.release("--dry-run").code == 0
    (line.dist / TAG / FILES[0]).write_text("damaged")
    assert line.release("--dry-run").code == 0
    assert line.ran() == [*LOCAL, "package"]


def test_a_machine_without_compilers_publishes_what_another_one_built(line: Rig) -> None:
    assert line.release("--dry-run").code == 0
    done = line.release("--resume", env={"TEST_MISSING": "gcc", "TEST_COMPILER": "none"})
    assert done.code == 0, done.output
    assert line.ran() == LOCAL


# ---- the draft ----------------------------------------------------------------------------------


def resumed_with(line: Rig, want: list[object]) -> str:
    done = line.release("--resume")
    assert done.code == 0, done.output
    assert not problems(line, want)
    return done.output


@pytest.fixture
def want(ready: Driver, tmp_path: Path) -> list[object]:
    """Return what an undisturbed release leaves."""
    with rig(ready, tmp_path / "undisturbed") as line:
        assert line.release().code == 0
        return line.state()


def test_a_broken_upload_is_deleted_and_sent_again(line: Rig, want: list[object]) -> None:
    starter = StoredAsset(line.github.new_id(), FILES[1], b"", "starter")
    draft_of(line).assets.append(starter)
    assert "its upload broke off" in resumed_with(line, want)


def test_other_bytes_in_a_draft_are_replaced(line: Rig, want: list[object]) -> None:
    old = StoredAsset(line.github.new_id(), FILES[1], b"old")
    draft_of(line).assets.append(old)
    assert "has other bytes" in resumed_with(line, want)


def test_a_file_that_does_not_belong_is_deleted_from_a_draft(line: Rig, want: list[object]) -> None:
    stray = StoredAsset(line.github.new_id(), "stray.txt", b"stray")
    draft_of(line).assets.append(stray)
    assert "delete stray.txt: is no file of this release" in resumed_with(line, want)


def test_files_without_a_digest_are_fetched_and_hashed(line: Rig, want: list[object]) -> None:
    line.github.gives_digests = False
    line.kill_at = (13, "asked")
    assert line.release().code == -9
    assert names(line)
    resumed_with(line, want)


def test_files_that_come_back_changed_stop_the_release_before_it_is_public(line: Rig) -> None:
    line.kill_at = (11, "asked")
    assert line.release().code == -9
    first = line.github.releases[0].assets[0]
    line.github.said[first.id] = line.github.digest(first)
    first.data = first.data[::-1]
    done = line.release("--resume")
    assert done.code == 4
    assert f"{first.name} as GitHub returns it is not the file" in done.output
    assert line.github.releases[0].draft


# ---- once it is published -----------------------------------------------------------------------


def published(line: Rig) -> list[StoredAsset]:
    assert line.release().code == 0
    line.github.log.clear()
    return line.github.releases[0].assets


def refused_as_published(line: Rig, *options: str) -> str:
    done = line.release(*options)
    assert done.code == 4
    assert not line.github.changing()
    assert "is published and is never changed" in done.output
    return done.output


def test_a_published_file_with_other_bytes_is_refused(line: Rig) -> None:
    published(line)[0].data = b"others"
    assert f"{FILES[0]} has other bytes" in refused_as_published(line, "--resume")


def test_a_published_release_without_a_file_is_refused(line: Rig) -> None:
    del published(line)[0]
    assert f"{FILES[0]} is missing" in refused_as_published(line)


def test_a_published_release_with_a_file_too_many_is_refused(line: Rig) -> None:
    published(line).append(StoredAsset(line.github.new_id(), "stray.txt", b"stray"))
    assert "stray.txt is no file of this release" in refused_as_published(line, "--dry-run")


def test_a_pending_doi_is_for_later_and_all_that_is_left(line: Rig) -> None:
    line.zenodo.archive("0.0.1")  # so that publishing archives nothing
    done = line.release()
    assert done.code == 75
    assert "has no DOI" in done.output
    assert not line.github.releases[0].draft
    line.github.log.clear()
    line.zenodo.archive(VERSION, related=f"https://github.com/owner/name/tree/{TAG}")
    done = line.release("--resume")
    assert done.code == 0, done.output
    assert [logged.method for logged in line.github.changing()] == ["PATCH"]
    assert line.zenodo.records[-1].doi in line.github.releases[0].body


def test_ctrl_c_ends_in_one_line_and_loses_nothing(line: Rig, want: list[object]) -> None:
    line.kill_at, line.signal = (10, "done"), signal.SIGINT
    done = line.release()
    assert done.code == 130
    assert "Traceback" not in done.output
    assert "the same command with --resume goes on from here" in done.output
    resumed_with(line, want)
