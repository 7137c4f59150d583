# SPDX-License-Identifier: MIT
"""The archives: same bytes from the same source, the agreed members, and nothing of the machine.

.venv/bin/python -m pytest tests/py/test_package.py
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import isas
import mlb
from krafla_release import archives, build, check, package, packed, project, quickstart
from krafla_release.archives import Archive, Member
from krafla_release.project import ReleaseError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable

MEMBERS = [
    Member("ml_run", 0o755, b"#!/bin/sh\n"),
    Member("bin/ml_run-sse2", 0o755, b"\x7fELF"),
    Member("README.md", 0o644, b"read me\n"),
]
EPOCH = 1_700_000_000


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


@pytest.mark.parametrize("archive", archives.load(), ids=lambda archive: archive.name)
def test_a_program_joins_every_archive_by_one_line(
    monkeypatch: pytest.MonkeyPatch, archive: Archive
) -> None:
    before = {member.path for member in nothing_built(archive)}
    table = archives.table()
    joined = {**table["programs"], "ml_fifth": "does something new"}
    monkeypatch.setattr(archives, "table", lambda: {**table, "programs": joined})
    members = {member.path: member for member in nothing_built(archive)}
    script, binary = {"linux": ("", ""), "windows": (".cmd", ".exe")}[archive.system]
    rows = isas.load(archive.arch, built=True, ship=True)
    added = {f"bin/ml_fifth-{isa.name}{binary}" for isa in rows} | {f"ml_fifth{script}"}
    assert members.keys() - before == added
    assert all(members[path].mode == 0o755 for path in added)
    assert b"ml_fifth" in members[f"ml_fifth{script}"].data
    assert b"does something new" in members["README.md"].data


def nothing_built(archive: Archive) -> list[Member]:
    """Return the members of an archive with empty programs."""
    return package.members_of(archive, read=lambda _: b"")


@pytest.mark.parametrize("archive", archives.load(), ids=lambda archive: archive.name)
def test_members_are_those_of_the_contract(archive: Archive) -> None:
    assert archives.contract_lines(nothing_built(archive)) == archive.contract


def test_launchers_of_windows_end_their_lines_as_windows_does() -> None:
    for member in nothing_built(archives.find("windows-x86_64")):
        if member.path.endswith(".cmd"):
            lines = member.data.split(b"\r\n")
            assert len(lines) > 10
            assert not any(b"\n" in line or b"\r" in line for line in lines)


def headings(page: bytes) -> set[str]:
    """Return the places of a page that a link can name."""
    titles = re.findall(r"^#+ (.*)$", page.decode(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("archive", archives.load(), ids=lambda archive: archive.name)
def test_links_inside_an_archive_lead_somewhere(archive: Archive) -> None:
    pages = {member.path: member.data for member in nothing_built(archive)}
    followed = 0
    for path, data in pages.items():
        if not path.endswith(".md"):
            continue
        for target, place in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]+))?\)", data.decode()):
            if re.match(r"https://", target):
                continue
            there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
            there = there if target else path
            assert there in pages, f"{path}: {target}"
            assert not place or place in headings(pages[there]), f"{path}: {target}#{place}"
            followed += 1
    assert followed > 10


def test_link_to_a_page_that_stays_outside_leads_to_the_web() -> None:
    text = b"[a](kernels.md#x) ![b](comparison.svg) [c](../Makefile) [d](user-guide.md) [e](#f)"
    members = [Member("docs/page.md", 0o644, text), Member("docs/user-guide.md", 0o644, b"")]
    (page, _) = archives.self_contained(members)
    site, repository = project.facts()["site"], project.facts()["repository"]
    source = f"https://github.com/{repository}/blob/v{project.version()}/Makefile"
    assert page.data.decode() == (
        f"[a]({site}kernels/#x) ![b]({site}comparison.svg) [c]({source}) [d](user-guide.md) [e](#f)"
    )


def test_link_that_leads_nowhere_is_refused() -> None:
    with pytest.raises(ReleaseError, match=r"docs/page\.md: the link to gone\.md leads nowhere"):
        archives.self_contained([Member("docs/page.md", 0o644, b"[a](gone.md)")])


@pytest.mark.parametrize("archive", archives.load(), ids=lambda archive: archive.name)
def test_readme_of_an_archive_names_what_is_inside_and_nothing_else(archive: Archive) -> None:
    members = {member.path: member for member in nothing_built(archive)}
    text = members["README.md"].data.decode()
    table = text[text.index("| build | needs |") :]
    builds = re.findall(r"^\| `(\w+)` \| [a-z]", table, re.MULTILINE)
    rows = isas.load(archive.arch, built=True, ship=True)
    assert [isa.name for isa in rows] == builds
    assert set(re.findall(r"\bml_\w+", text)) == set(archives.programs())
    tools = {name.replace("\\", "/") for name in re.findall(r"tools[/\\]\w+\.py", text)}
    assert len(tools) == 3
    assert tools <= members.keys()
    assert package.path_of(archive).name in text or archive.system == "linux"


@pytest.mark.parametrize("archive", archives.load(), ids=lambda archive: archive.name)
def test_packed_file_is_named_after_version_and_archive(archive: Archive, tmp_path: Path) -> None:
    ending = ".zip" if archive.system == "windows" else ".tar.gz"
    want = tmp_path / f"krafla-{project.version()}-{archive.name}{ending}"
    assert package.path_of(archive, tmp_path) == want


@pytest.mark.parametrize("name", ["linux-armv7hf", "windows-x86_64"])
def test_packing_writes_what_the_contract_says_and_its_digests(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archives.find(name)
    monkeypatch.setattr(build, "build_arch", lambda *_: [])
    monkeypatch.setattr(package, "members_of", nothing_built_of(archive))
    path = package.package(archive, tmp_path / "new")
    assert package.check_packed(archive, tmp_path / "new") == package.digest(path)
    assert [path] == list((tmp_path / "new").iterdir())
    found = packed.read(path)
    top = f"krafla-{project.version()}-{name}/"
    assert all(member.path.startswith(top) for member in found)
    lines = archives.contract_lines(found).replace(top, "")
    assert set(lines.splitlines()) == set(archive.contract.splitlines())
    said = capsys.readouterr().out
    assert hashlib.sha256(path.read_bytes()).hexdigest() in said
    assert archives.content_digest(found) in said


def nothing_built_of(archive: Archive) -> Callable[[Archive], list[Member]]:
    """Return a members_of that needs no programs."""
    members = nothing_built(archive)
    return lambda _: members


def test_windows_archive_needs_its_compiler(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "mingw_compiler", lambda: None)
    assert package.missing_tool(archives.find("windows-x86_64")) == (
        "x86_64-w64-mingw32-gcc not installed"
    )
    assert package.main(["windows-x86_64"]) == 1
    assert "x86_64-w64-mingw32-gcc is not installed" in capsys.readouterr().err


def test_windows_programs_are_made_for_x86_64_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        build.main(["--arch", "armv7", "--system", "windows"])
    assert caught.value.code == 2
    assert "Windows programs are made for x86_64" in capsys.readouterr().err


def test_unknown_archive_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert package.main(["nope"]) == 2
    assert "no archive 'nope'; it has: linux-x86_64" in capsys.readouterr().err


def test_pattern_without_a_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "table", lambda: {"files": ["no/such/*.md"]})
    with pytest.raises(ReleaseError, match="nothing matches"):
        archives.plain_files()


def test_version_of_the_archive_is_that_of_its_tools_and_programs() -> None:
    assert project.version() == mlb.VERSION
    assert f'#define ML_VERSION "{mlb.VERSION}"\n' in project.VERSION_HEADER.read_text()


@pytest.mark.parametrize("given", ["yesterday", "-1", "٣", "4354819200", "99999999999"])
def test_archive_time_that_no_archive_can_have_is_refused(
    monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", given)
    with pytest.raises(ReleaseError, match=f"SOURCE_DATE_EPOCH is '{given}', expected seconds"):
        project.source_date_epoch()


def test_last_time_of_a_zip_can_be_packed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", str(project.LAST_ZIP_TIME))
    for pack in (packed.tar_gz, packed.zipped):
        assert pack("k", [Member("a", 0o644, b"")], project.source_date_epoch())


def test_machine_without_an_archive_is_told_to_name_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "riscv64")
    assert package.main([]) == 1
    assert "no archive for riscv64: name one" in capsys.readouterr().err


@pytest.mark.parametrize(("arch", "name"), [("x86_64", "linux-x86_64"), ("armv7", "linux-armv7hf")])
def test_archive_of_a_machine_is_the_one_for_linux(
    monkeypatch: pytest.MonkeyPatch, arch: str, name: str
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: arch)
    turned = dict(reversed(archives.table()["archives"].items()))
    monkeypatch.setattr(archives, "table", lambda: {"archives": turned})
    assert package.default_archive() == name


def test_archive_that_differs_from_its_contract_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "build_arch", lambda *_: [])
    monkeypatch.setattr(package, "members_of", lambda _: MEMBERS)
    with pytest.raises(ReleaseError, match=r"differs from packaging/linux-x86_64\.contract"):
        package.package(archives.find("linux-x86_64"), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("top", "fault"),
    [
        ("krafla-{version}-linux-x86_64", "unexpected: 0755 more"),
        ("krafla-{version}-linux-x86", "more is not below krafla-"),
    ],
    ids=["other members", "another directory"],
)
def test_packed_file_that_is_not_as_agreed_is_refused(tmp_path: Path, top: str, fault: str) -> None:
    members = [Member("more", 0o755, b"")]
    archive = archives.find("linux-x86_64")
    data = packed.tar_gz(top.format(version=project.version()), members, EPOCH)
    package.path_of(archive, tmp_path).write_bytes(data)
    with pytest.raises(VerificationError, match=fault):
        package.check_packed(archive, tmp_path)


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


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (lambda: Path("no such", "file").read_bytes(), "no such/file: No such file or directory"),
        (lambda: subprocess.run(["sleep", "9"], timeout=0.01, check=False), "timed out after 0.0"),
        (lambda: subprocess.run(["false"], check=True), "non-zero exit status 1"),
    ],
    ids=["file", "timeout", "code"],
)
def test_what_the_system_refuses_ends_a_tool_in_one_line(
    fails: Callable[[], object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert project.exit_code(fails) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert said in error
