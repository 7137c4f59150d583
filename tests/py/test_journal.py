# SPDX-License-Identifier: MIT
"""The journal of a release, SHA256SUMS, and the plan: what they take and what they refuse.

.venv/bin/python -m pytest tests/py/test_journal.py
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from krafla_release import checksums, journal, plan, project
from krafla_release.github import Asset, Release
from krafla_release.journal import Journal
from krafla_release.plan import File, Wanted
from krafla_release.project import PreflightError, VerificationError

COMMIT, OTHER = "c" * 40, "d" * 40


def note(directory: Path, *steps: str) -> None:
    with closing(Journal(directory)) as made:
        for step in steps:
            made.add(step, COMMIT, inputs="1")


def steps_of(directory: Path) -> list[str]:
    with closing(Journal(directory)) as made:
        return [entry.step for entry in made.entries]


# ---- the journal --------------------------------------------------------------------------------


def test_what_was_noted_is_read_by_the_next_run(tmp_path: Path) -> None:
    note(tmp_path, "build")
    note(tmp_path, "audit", "package")
    assert steps_of(tmp_path) == ["build", "audit", "package"]


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_line_that_was_cut_off_counts_as_not_written(tmp_path: Path, cut: int) -> None:
    note(tmp_path, "build", "audit")
    path = tmp_path / journal.FILE_NAME
    path.write_bytes(path.read_bytes()[:-cut])
    whole = ["build", "audit"][: 2 if cut == 1 else 1]  # only the newline is missing: all is there
    assert steps_of(tmp_path) == whole
    note(tmp_path, "package")
    assert steps_of(tmp_path) == [*whole, "package"]


def test_the_journal_only_grows(tmp_path: Path) -> None:
    note(tmp_path, "build")
    before = (tmp_path / journal.FILE_NAME).read_bytes()
    note(tmp_path, "audit")
    assert (tmp_path / journal.FILE_NAME).read_bytes().startswith(before)


GOOD: dict[str, object] = {
    "step": "build",
    "outcome": "done",
    "commit": COMMIT,
    "inputs": "1",
    "outputs": {"file": "digest"},
    "facts": {},
    "remote": "",
}


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"null",
        b"[]",
        b"[" * 100_000,
        b'{"step": "build"}',
        json.dumps(GOOD | {"step": 1}).encode(),
        json.dumps(GOOD | {"outputs": {"file": 1}}).encode(),
        json.dumps(GOOD | {"outputs": []}).encode(),
        json.dumps(GOOD | {"facts": None}).encode(),
    ],
    ids=["bytes", "null", "list", "deep", "cut", "number", "digest", "no table", "no facts"],
)
def test_a_line_that_is_no_entry_counts_as_not_written(tmp_path: Path, line: bytes) -> None:
    good = json.dumps(GOOD).encode()
    (tmp_path / journal.FILE_NAME).write_bytes(good + b"\n" + line + b"\n" + good + b"\n")
    note(tmp_path, "audit")
    assert steps_of(tmp_path) == ["build", "build", "audit"]


def test_a_step_is_done_while_its_inputs_and_files_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("made")
    digest = checksums.digest_of(tmp_path / "file")
    with closing(Journal(tmp_path)) as made:
        made.add("package", COMMIT, inputs="1", outputs={"file": digest})
        assert made.done("package", COMMIT, "1")
        assert not made.done("package", COMMIT, "2")
        assert not made.done("package", OTHER, "1")
        assert not made.done("build", COMMIT, "1")
        (tmp_path / "file").write_text("changed")
        assert not made.done("package", COMMIT, "1")
        (tmp_path / "file").unlink()
        assert not made.done("package", COMMIT, "1")


def test_a_step_that_failed_is_not_done(tmp_path: Path) -> None:
    with closing(Journal(tmp_path)) as made:
        made.add("build", COMMIT, inputs="1", outcome="failed: no compiler")
        assert not made.done("build", COMMIT, "1")


def test_a_journal_names_no_file_outside_of_its_directory(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    digest = checksums.digest_of(tmp_path / "secret")
    with closing(Journal(tmp_path / "dist")) as made:
        made.add("package", COMMIT, inputs="1", outputs={"../secret": digest})
        assert not made.done("package", COMMIT, "1")


def test_the_journal_can_be_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note(tmp_path, "build")
    assert journal.main([str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{COMMIT[:12]} build     done\n"
    assert journal.main([str(tmp_path / "empty")]) == 3


# ---- SHA256SUMS ---------------------------------------------------------------------------------


def test_sha256sum_takes_what_is_written(tmp_path: Path) -> None:
    for name in ("b.zip", "a.tar.gz"):
        (tmp_path / name).write_text(name)
    checksums.write(tmp_path, ["b.zip", "a.tar.gz"])
    words = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "b.zip: OK\na.tar.gz: OK\n"
    assert list(checksums.verify(tmp_path)) == ["b.zip", "a.tar.gz"]


def test_files_that_are_changed_or_missing_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_text("a")
    checksums.write(tmp_path, ["a"])
    assert checksums.main([str(tmp_path)]) == 0
    (tmp_path / "a").write_text("b")
    assert checksums.main([str(tmp_path)]) == 4
    assert "a is not the file that SHA256SUMS lists" in capsys.readouterr().err
    (tmp_path / "a").unlink()
    assert checksums.main([str(tmp_path)]) == 4
    assert "a is missing" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [
        "",
        f"{'0' * 64} a",
        f"{'0' * 64} *a",
        f"{'0' * 63}  a",
        f"{'0' * 64}  ../a",
        f"{'0' * 64}  .a",
    ],
)
def test_other_lines_in_sha256sums_are_refused(line: str) -> None:
    good = f"{'0' * 64}  good\n"
    with pytest.raises(VerificationError, match="SHA256SUMS:2: no line of the form"):
        checksums.parse(f"{good}{line}\n")


def test_a_name_that_stands_twice_in_sha256sums_is_refused() -> None:
    line = f"{'0' * 64}  a\n"
    with pytest.raises(VerificationError, match="a stands there twice"):
        checksums.parse(line * 2)


# ---- the plan -----------------------------------------------------------------------------------


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


WANTED = Wanted(
    "v1.0.0", COMMIT, "title", "notes", tuple(File(name, 1, digest_of(name)) for name in "ab")
)


def found(*files: Asset, draft: bool = True, target: str = COMMIT, body: str = "notes") -> Release:
    return Release(7, "v1.0.0", target, body, draft, "https://page", "https://up", files)


def asset(name: str, text: str | None = None, state: str = "uploaded") -> Asset:
    return Asset(ord(name[0]), name, 1, state, digest_of(name if text is None else text), "")


def kinds(release: Release | None) -> list[str]:
    return [
        f"{action.kind} {action.what}"
        for action in plan.actions(WANTED, release, lambda one: one.digest)
        if action.kind not in (plan.VERIFY, plan.PUBLISH)
    ]


def test_without_a_release_everything_is_to_be_done() -> None:
    assert kinds(None) == ["draft v1.0.0", "upload a", "upload b"]


def test_a_whole_draft_needs_only_publishing() -> None:
    assert kinds(found(asset("a"), asset("b"))) == []
    todo = plan.actions(WANTED, found(asset("a"), asset("b")), lambda one: one.digest)
    assert [action.kind for action in todo] == ["verify", "publish"]


def test_what_is_wrong_in_a_draft_is_deleted_before_it_is_sent_again() -> None:
    release = found(asset("a", "other"), asset("b", state="starter"), asset("stray"))
    want = ["delete a", "delete b", "delete stray", "upload a", "upload b"]
    assert kinds(release) == want


def test_notes_that_a_browser_sent_back_with_other_line_ends_are_the_same() -> None:
    whole = (asset("a"), asset("b"))
    many = Wanted("v1.0.0", COMMIT, "title", "one\ntwo\n", WANTED.files)
    same = found(*whole, body="one\r\ntwo")
    assert plan.NOTES not in [one.kind for one in plan.actions(many, same, lambda one: one.digest)]
    assert kinds(found(*whole, body="other")) == ["notes v1.0.0"]


def test_a_published_release_leaves_nothing_to_do_or_is_refused() -> None:
    whole = (asset("a"), asset("b"))
    assert plan.actions(WANTED, found(*whole, draft=False), lambda one: one.digest) == []
    for wrong in (whole[:1], (*whole, asset("c")), (asset("a"), asset("b", "other"))):
        with pytest.raises(VerificationError, match="is published and is never changed"):
            plan.actions(WANTED, found(*wrong, draft=False), lambda one: one.digest)


def test_a_draft_of_another_commit_is_refused() -> None:
    with pytest.raises(PreflightError, match="is a draft of main, not of"):
        plan.actions(WANTED, found(target="main"), lambda one: one.digest)


def test_the_plan_is_shown_as_a_table_and_as_json() -> None:
    todo = plan.actions(WANTED, None, lambda one: one.digest)
    lines = plan.table(todo).splitlines()
    assert [line.split()[0] for line in lines] == ["draft", "upload", "upload", "verify", "publish"]
    assert plan.table([]) == "  nothing to do\n"
    data = json.loads(plan.as_json(WANTED, "owner/name", todo))
    assert [action["kind"] for action in data["actions"]] == [one.kind for one in todo]
    assert data["files"][0] == {"name": "a", "size": 1, "digest": digest_of("a")}


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    project.write_atomically(path, b"one")
    project.write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert [entry.name for entry in path.parent.iterdir()] == ["file"]


def test_a_file_that_cannot_be_written_leaves_the_old_one_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.mkdir()  # no file can replace it
    with pytest.raises(OSError, match="directory"):
        project.write_atomically(path, b"new")
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]
