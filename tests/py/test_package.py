# SPDX-License-Identifier: MIT
"""The archives: same bytes from the same source, the agreed members, and nothing of the machine.

.venv/bin/python -m pytest tests/py/test_package.py
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

import isas
import mlb
from krafla_release import archives, build, check, package, packed, project, quickstart
from krafla_release.archives import Archive, Member
from krafla_release.project import ReleaseError

MEMBERS = [
    Member("ml_run", 0o755, b"#!/bin/sh\n"),
    Member("bin/ml_run-sse2", 0o755, b"\x7fELF"),
    Member("README.md", 0o644, b"read me\n"),
]
EPOCH = 1_700_000_000


def entries(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return tar.getmembers()


def test_archive_does_not_depend_on_order_time_zone_or_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = packed.tar_gz("krafla-1", MEMBERS, EPOCH)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: 1.0)
    old = os.umask(0o077)
    try:
        second = packed.tar_gz("krafla-1", MEMBERS[::-1], EPOCH)
    finally:
        os.umask(old)
        monkeypatch.undo()
        time.tzset()
    assert first == second


def test_archive_depends_on_content_mode_and_time() -> None:
    base = packed.tar_gz("krafla-1", MEMBERS, EPOCH)
    other = [Member("ml_run", 0o644, b"#!/bin/sh\n"), *MEMBERS[1:]]
    assert base != packed.tar_gz("krafla-1", other, EPOCH)
    assert base != packed.tar_gz("krafla-1", MEMBERS, EPOCH + 1)
    assert archives.content_digest(MEMBERS) != archives.content_digest(other)
    assert archives.content_digest(MEMBERS) == archives.content_digest(MEMBERS[::-1])


def test_archive_members_are_sorted_owned_by_root_and_below_one_directory() -> None:
    found = entries(packed.tar_gz("krafla-1", MEMBERS, EPOCH))
    names = ["krafla-1/README.md", "krafla-1/bin/ml_run-sse2", "krafla-1/ml_run"]
    assert [entry.name for entry in found] == names
    for entry in found:
        assert (entry.uid, entry.gid, entry.uname, entry.gname) == (0, 0, "", "")
        assert (entry.mtime, entry.isreg()) == (EPOCH, True)
    assert [entry.mode for entry in found] == [0o644, 0o755, 0o755]


def test_archive_header_has_no_name_and_no_time() -> None:
    data = packed.tar_gz("krafla-1", MEMBERS, EPOCH)
    assert data[:4] == b"\x1f\x8b\x08\x00"
    assert data[4:8] == bytes(4)


def test_archive_time_is_the_commits_unless_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    assert project.source_date_epoch() == int(project.output("git", "log", "-1", "--format=%ct"))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12")
    assert project.source_date_epoch() == 12


def test_contract_names_missing_and_unexpected_members(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(archives, "PACKAGING", tmp_path)
    (tmp_path / "test.contract").write_text("0644 README.md\n0755 ml_run\n0755 ml_tok\n")
    with pytest.raises(ReleaseError) as caught:
        package.check_contract(Archive("test", "x86_64"), MEMBERS)
    lines = str(caught.value).splitlines()[1:]
    assert lines == ["  missing: 0755 ml_tok", "  unexpected: 0755 bin/ml_run-sse2"]


@pytest.mark.parametrize("archive", archives.load(), ids=lambda archive: archive.name)
def test_contract_has_a_launcher_and_every_build_of_every_program(archive: Archive) -> None:
    members = set(archive.contract.splitlines())
    script, binary = {"linux": ("", ""), "windows": (".cmd", ".exe")}[archive.system]
    for program in archives.programs():
        assert f"0755 {program}{script}" in members
        for isa in isas.load(archive.arch, built=True, ship=True):
            assert f"0755 bin/{program}-{isa.name}{binary}" in members
    assert {"0644 LICENSE", "0644 README.md", "0644 tools/convert.py"} <= members


@pytest.mark.parametrize("archive", archives.load(), ids=lambda archive: archive.name)
def test_contract_has_the_plain_files_of_this_checkout(archive: Archive) -> None:
    members = set(archive.contract.splitlines())
    assert {f"0644 {member.path}" for member in archives.plain_files()} <= members


def test_unknown_archive_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ReleaseError, match=r"no archive 'nope'; it has: linux-x86_64"):
        archives.find("nope")


def test_pattern_without_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "table", lambda: {"files": ["no/such/*.md"]})
    with pytest.raises(ReleaseError, match="nothing matches"):
        archives.plain_files()


def test_version_of_the_archive_is_that_of_its_tools_and_programs() -> None:
    assert project.version() == mlb.VERSION
    assert f'#define ML_VERSION "{mlb.VERSION}"\n' in project.VERSION_HEADER.read_text()


def test_archive_time_that_is_no_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ReleaseError, match="SOURCE_DATE_EPOCH is 'yesterday', expected seconds"):
        project.source_date_epoch()


def test_machine_without_an_archive_is_told_to_name_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "riscv64")
    assert package.main([]) == 1
    assert "no archive for riscv64: name one" in capsys.readouterr().err


def test_programs_are_the_same_bytes_when_built_in_another_directory(tmp_path: Path) -> None:
    """Two clean builds, in directories of different names and under another umask."""
    if not shutil.which("gcc"):
        pytest.skip("not run: gcc is not installed")
    row = isas.load(build.host_arch(), built=True, ship=True)[-1]
    built = []
    for name, umask in (("one", 0o022), ("another-directory", 0o077)):
        tree = tmp_path / name
        shutil.copytree(project.ROOT / "runtime", tree / "runtime")
        shutil.copy(project.ROOT / "Makefile", tree)
        goal = f"build/{row.name}-pt/ml_tok"
        words = ["make", "-j2", f"ISA={row.name}", "THREADS=pthread", goal]
        subprocess.run(words, cwd=tree, check=True, capture_output=True, umask=umask)
        built.append((tree / goal).read_bytes())
    assert built[0] == built[1]
    assert str(tmp_path).encode() not in built[0]


def test_check_counts_the_summaries_of_pytest_and_of_the_c_tests() -> None:
    log = "\n".join(
        [
            "test_json: 40 passed, 0 failed",
            "checkkern avx2: 12 passed, 1 failed",
            "test_cpu: 3 passed, 1 failed",
            "181 passed in 2.00s",
            "2 failed, 30 passed, 4 skipped in 9.99s",
            "1 error in 0.1s",
            "a line that says 7 passed by",
        ]
    )
    assert check.count(log, 1) == (224, 5)


@pytest.mark.parametrize(("code", "want"), [(0, (1, 0)), (1, (0, 1))], ids=["ok", "failed"])
def test_check_counts_a_step_without_tests_as_one(code: int, want: tuple[int, int]) -> None:
    assert check.count("nothing to count\n", code) == want


def test_check_counts_a_step_that_fails_after_passing_tests_as_failed() -> None:
    assert check.count("5 passed in 1s\n", 2) == (5, 1)


def test_check_ends_with_one_plain_line_after_what_was_not_run() -> None:
    results = [
        check.Result("lint", 1, 0, (), 1.0),
        check.Result("test-avxvnni", 1, 2, ("test-avxvnni: this CPU lacks avx-vnni",), 2.0),
    ]
    lines = check.summary(results).splitlines()
    assert lines[-1] == "2 passed, 2 failed"
    assert "  not run, test-avxvnni: test-avxvnni: this CPU lacks avx-vnni" in lines


def test_check_refuses_an_unknown_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main(["nope"]) == 2
    assert "unknown step nope; known: models, lint" in capsys.readouterr().err


def test_quickstart_takes_no_arguments(capsys: pytest.CaptureFixture[str]) -> None:
    assert quickstart.main(["x"]) == 2
    assert capsys.readouterr().err == "usage: quickstart\n"


def test_archive_is_found_by_its_name() -> None:
    assert archives.find("linux-aarch64") == Archive("linux-aarch64", "aarch64")


def test_contract_is_written_anew_without_building(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    want = archives.find("linux-armv7hf").contract
    shutil.copytree(archives.PACKAGING, tmp_path, dirs_exist_ok=True)
    (tmp_path / "linux-armv7hf.contract").write_text("0644 old\n")
    monkeypatch.setattr(archives, "PACKAGING", tmp_path)
    monkeypatch.setattr(build, "build_arch", pytest.fail)
    assert package.main(["--update-contract", "linux-armv7hf"]) == 0
    assert (tmp_path / "linux-armv7hf.contract").read_text() == want


def test_archive_unpacks_with_its_modes_also_where_python_has_no_filters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delattr(tarfile, "data_filter", raising=False)
    path = tmp_path / "a.tar.gz"
    path.write_bytes(packed.tar_gz("krafla-1", MEMBERS, EPOCH))
    project.unpack(path, tmp_path / "out")
    modes = {
        file.relative_to(tmp_path / "out").as_posix(): file.stat().st_mode & 0o777
        for file in (tmp_path / "out").rglob("*")
        if file.is_file()
    }
    assert modes == {f"krafla-1/{member.path}": member.mode for member in MEMBERS}


@pytest.mark.parametrize("name", ["/absolute", "../outside", "a/../../outside"])
def test_archive_that_would_write_outside_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as tar:
        tar.addfile(tarfile.TarInfo(name))
    with pytest.raises(ReleaseError, match="would be written outside"):
        project.unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
