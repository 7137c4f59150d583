# SPDX-License-Identifier: MIT
"""The second build: other circumstances, and a difference is named to the byte.

.venv/bin/python -m pytest tests/py/test_repro.py
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
from pathlib import Path

import pytest

from krafla_release import archives, assets, packed, project, repro
from krafla_release.archives import Member
from krafla_release.project import PreflightError, ReleaseError, VerificationError

MEMBERS = [Member("a", 0o755, b"0123456789"), Member("b/c", 0o644, b"same")]
NAME = "krafla-1.tar.gz"
EPOCH = 1_700_000_000
# Stands for krafla_release.assets in a repository of its own: what it writes shows how it ran.
MAKER = """
import json, os, pathlib, sys
umask = os.umask(0)
place = pathlib.Path(sys.argv[1])
place.mkdir()
seen = {"umask": umask, "cpus": len(os.sched_getaffinity(0)), "cwd": os.getcwd(), **os.environ}
(place / "seen.json").write_text(json.dumps(seen))
(place / "content").write_text(pathlib.Path("content").read_text() + CIRCUMSTANCES)
"""


def git(tree: Path, *words: str) -> None:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", *identity, *words], cwd=tree, check=True, capture_output=True)


def repository(place: Path, circumstances: str = '""') -> Path:
    """Return a repository whose release is one file, made of `content` and the circumstances."""
    modules = place / "scripts" / "krafla_release"
    modules.mkdir(parents=True)
    (modules / "__init__.py").write_text("")
    (modules / "assets.py").write_text(MAKER.replace("CIRCUMSTANCES", circumstances))
    (place / "content").write_text("committed")
    git(place, "init", "--quiet")
    git(place, "add", "--all")
    git(place, "commit", "--quiet", "-m", "all")
    return place


def write(path: Path, members: list[Member], epoch: int = EPOCH) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(packed.tar_gz("k", members, epoch))
    return path


def test_second_build_is_of_the_commit_and_in_other_circumstances(tmp_path: Path) -> None:
    source = repository(tmp_path / "source")
    (source / "content").write_text("not committed")
    (tmp_path / "place").mkdir()
    made = repro.rebuild(source, tmp_path / "place")
    seen = json.loads((made / "seen.json").read_text())
    assert (made / "content").read_text() == "committed"
    assert seen["umask"] == 0o077
    assert seen["cpus"] == 1
    assert (seen["TZ"], seen["LC_ALL"]) == ("Asia/Tokyo", "C")
    assert seen["HOME"] != str(Path.home())
    assert len(seen["cwd"]) != len(str(project.ROOT))
    allowed = {"PATH", "HOME", "TZ", "LC_ALL", "LANG", "PYTHONPATH", "SOURCE_DATE_EPOCH", "PWD"}
    assert seen.keys() - allowed - {"umask", "cpus", "cwd", "LC_CTYPE"} == set()


def test_second_build_leaves_the_processors_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = repository(tmp_path / "source", "1 / 0")
    asked: list[set[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 5, 8})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, cpus: asked.append(cpus))
    with pytest.raises(ReleaseError):
        repro.rebuild(source, tmp_path)
    assert asked == [{3}, {3, 5, 8}]


def test_second_build_that_fails_is_said(tmp_path: Path) -> None:
    source = repository(tmp_path / "source", "1 / 0")
    with pytest.raises(ReleaseError, match=r"the second build, in .*, ended with code 1"):
        repro.rebuild(source, tmp_path)


def test_same_bytes_have_no_differences(tmp_path: Path) -> None:
    one, other = write(tmp_path / "1" / NAME, MEMBERS), write(tmp_path / "2" / NAME, MEMBERS)
    assert repro.differences(one, other) == []


@pytest.mark.parametrize(
    ("members", "want"),
    [
        ([Member("a", 0o755, b"01234x6789"), MEMBERS[1]], ["k/a: 10 and 10 bytes, which differ"]),
        ([Member("a", 0o755, b"012345"), MEMBERS[1]], ["k/a: 10 and 6 bytes, which differ"]),
        ([Member("a", 0o700, b"0123456789"), MEMBERS[1]], ["k/a: mode 0755 and 0700"]),
        (MEMBERS[:1], ["k/b/c: only in"]),
        ([*MEMBERS, Member("d", 0o644, b"")], ["k/d: only in"]),
    ],
    ids=["content", "length", "mode", "missing", "added"],
)
def test_difference_names_the_member(
    tmp_path: Path, members: list[Member], want: list[str]
) -> None:
    one, other = write(tmp_path / "1" / NAME, MEMBERS), write(tmp_path / "2" / NAME, members)
    found = repro.differences(one, other)
    assert [line[: len(start)] for line, start in zip(found, want, strict=True)] == want


@pytest.mark.parametrize(
    ("one", "other", "at"),
    [(b"abc", b"abx", 2), (b"abc", b"ab", 2), (b"", b"x", 0), (b"xbc", b"abc", 0)],
    ids=["last", "cut", "empty", "first"],
)
def test_difference_names_the_first_byte(tmp_path: Path, one: bytes, other: bytes, at: int) -> None:
    (tmp_path / "1.deb").write_bytes(one)
    (tmp_path / "2.deb").write_bytes(other)
    (found,) = repro.differences(tmp_path / "1.deb", tmp_path / "2.deb")
    assert found.endswith(f" bytes, which differ from byte {at} on")


def test_difference_of_the_packing_alone_is_told_from_one_of_the_content(tmp_path: Path) -> None:
    one = write(tmp_path / "1" / NAME, MEMBERS)
    other = write(tmp_path / "2" / NAME, MEMBERS)
    other.write_bytes(gzip.compress(gzip.decompress(one.read_bytes()), 1, mtime=0))
    _, said = repro.differences(one, other)
    digest = archives.content_digest(packed.read(one))
    assert said == f"only the packing differs, both have the content digest {digest}"


def test_every_difference_is_reported_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, last in (("1", b"x"), ("2", b"y")):
        write(tmp_path / place / NAME, MEMBERS)
        (tmp_path / place / "install.sh").write_bytes(b"#!/bin/sh " + last)
    (tmp_path / "1" / "only").write_bytes(b"")
    with pytest.raises(VerificationError) as caught:
        repro.compare(tmp_path / "1", tmp_path / "2", [NAME, "install.sh", "only"])
    assert str(caught.value).splitlines()[1:] == [
        "  install.sh: 11 and 11 bytes, which differ from byte 10 on",
        f"  only: {tmp_path}/2/only is not there",
    ]
    assert "differs" in capsys.readouterr().out


def test_first_build_is_not_made_of_changes_that_nobody_else_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repro, "output", lambda *_: " M README.md\n?? new")
    monkeypatch.setattr(repro, "run", pytest.fail)
    with pytest.raises(PreflightError, match=r"2 files are not as in HEAD, M README\.md first"):
        repro.first_build()


def test_first_build_that_is_not_all_there_is_said_before_the_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_text("fetched")
    monkeypatch.setattr(repro, "rebuild", pytest.fail)
    monkeypatch.setattr(assets, "expected", lambda: ["a", "b", "c"])
    assert repro.main(["--against", str(tmp_path)]) == 3
    assert f"{tmp_path} has no b, c: put every file of the release there" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("circumstances", "want"),
    [
        ('""', (0, "repro: 1 files, the same bytes in both builds")),
        ('os.environ["TZ"]', (4, "content: 9 and 19 bytes, which differ from byte 9 on")),
        ("os.getcwd()", (4, "which differ from byte 9 on")),
    ],
    ids=["same", "time zone", "place"],
)
def test_whole_comparison(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    circumstances: str,
    want: tuple[int, str],
) -> None:
    source = repository(tmp_path / "source", circumstances)
    (tmp_path / "first").mkdir()
    (tmp_path / "first" / "content").write_text("committed")
    monkeypatch.setattr(repro, "ROOT", source)
    monkeypatch.setattr(assets, "expected", lambda: ["content"])
    code, said = want
    assert repro.main(["--against", str(tmp_path / "first")]) == code
    printed = capsys.readouterr()
    assert said in printed.out + printed.err
