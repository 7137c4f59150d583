# SPDX-License-Identifier: MIT
"""The Debian packages: Debian's places and modes, the same bytes each time; and manual pages.

.venv/bin/python -m pytest tests/py/test_deb.py
"""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from krafla_release import archives, deb, manual, packed
from krafla_release import package as packing
from krafla_release.archives import Member
from krafla_release.project import ROOT, ReleaseError, VerificationError, version

EPOCH = 1_700_000_000  # 2023-11-14
ARCHIVE = archives.find("linux-x86_64")
MEMBERS = [
    *(Member(name, 0o755, b"#!/bin/sh\n") for name in archives.programs()),
    *(Member(f"bin/{name}-sse2", 0o755, b"\x7fELF") for name in archives.programs()),
    Member("LICENSE", 0o644, b"licence\n"),
    Member("README.md", 0o644, b"[guide](docs/user-guide.md) [licence](LICENSE)\n"),
    Member("docs/user-guide.md", 0o644, b"# Guide\n\n[tool](../tools/convert.py)\n"),
    Member("tools/convert.py", 0o644, b"print()\n"),
    Member("tools/mlb/__init__.py", 0o644, b""),
]
HELP = r"""{name} - do a thing with C:\ and 'quotes': at once. Then more of it,
in two lines.

usage: {name} MODEL [options]

Examples:
  {name} model.mlb    with a model
  {name} 'x'

options:
  -n N                 Count; default 1.
                       And a second line.
  --long-name FILE     A file.
  --help               Print this page.

exit codes: 0 success, 1 load or runtime error, 3 this CPU lacks the build's
instruction set
"""


@pytest.fixture(autouse=True)
def _no_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the help from here: what programs really say is checked by the smoke test."""
    monkeypatch.setattr(deb, "help_of", lambda program: HELP.format(name=program))
    if not shutil.which("dpkg-deb"):
        pytest.skip("not run: dpkg-deb is not installed")


def packed_at(path: Path, members: list[Member] = MEMBERS) -> Path:
    """Write the package of an archive with these members."""
    deb.pack(deb.contents_of(ARCHIVE, members, EPOCH), path, EPOCH)
    return path


def source_at(directory: Path, members: list[Member] = MEMBERS) -> Path:
    """Write the archive that a package is compared with."""
    path = packing.path_of(ARCHIVE, directory)
    path.write_bytes(packed.pack(ARCHIVE, packing.file_name(ARCHIVE), members, EPOCH))
    return path


def field(path: Path, name: str) -> str:
    """Return a field of a package's control file, as dpkg-deb reads it."""
    words = ["dpkg-deb", "--field", str(path), name]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def test_packages_are_named_as_debian_names_architectures() -> None:
    names = [deb.file_name(each) for each in archives.load() if each.system == "linux"]
    assert names == [f"krafla_{version()}_{arch}.deb" for arch in ("amd64", "arm64", "armhf")]


def test_an_archive_for_windows_has_no_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert deb.main(["windows-x86_64"]) == 1
    want = "error: windows-x86_64: Debian packages are made of Linux archives only\n"
    assert capsys.readouterr().err == want


def test_a_package_puts_everything_in_its_place_for_root(tmp_path: Path) -> None:
    found = deb.file_system_of(packed_at(tmp_path / "a.deb"))
    files = {name: mode for name, (mode, data) in found.items() if isinstance(data, bytes)}
    names = archives.programs()
    assert files == {
        **{f"usr/lib/krafla/{name}": 0o755 for name in names},
        **{f"usr/lib/krafla/bin/{name}-sse2": 0o755 for name in names},
        "usr/share/krafla/tools/convert.py": 0o644,
        "usr/share/krafla/tools/mlb/__init__.py": 0o644,
        "usr/share/doc/krafla/README.Debian": 0o644,
        "usr/share/doc/krafla/README.md": 0o644,
        "usr/share/doc/krafla/changelog.gz": 0o644,
        "usr/share/doc/krafla/copyright": 0o644,
        "usr/share/doc/krafla/docs/user-guide.md": 0o644,
        "usr/share/lintian/overrides/krafla": 0o644,
        **{f"usr/share/man/man1/{name}.1.gz": 0o644 for name in names},
    }
    links = {name: data for name, (_, data) in found.items() if isinstance(data, str)}
    assert links == {f"usr/bin/{name}": f"../lib/krafla/{name}" for name in names}
    assert {mode for mode, data in found.values() if data is None} == {0o755}


def test_the_documents_lead_nowhere_that_is_not_installed(tmp_path: Path) -> None:
    found = deb.file_system_of(packed_at(tmp_path / "a.deb"))
    readme = found["usr/share/doc/krafla/README.md"][1]
    guide = found["usr/share/doc/krafla/docs/user-guide.md"][1]
    assert isinstance(readme, bytes)
    assert isinstance(guide, bytes)
    assert b"[guide](docs/user-guide.md) [licence](https://" in readme
    assert b"[tool](https://" in guide


def test_the_control_file_says_what_dpkg_needs(tmp_path: Path) -> None:
    path = packed_at(tmp_path / "a.deb")
    assert field(path, "Package") == "krafla"
    assert field(path, "Version") == version()
    assert field(path, "Architecture") == "amd64"
    assert field(path, "Depends") == ""
    assert field(path, "Suggests") == "python3 (>= 3.10), python3-numpy"
    assert field(path, "Description").startswith("run Llama-family language models on any CPU\n")
    assert "(avx512vnni, avxvnni, avx2, sse41, sse2)" in field(path, "Description")


def test_the_installed_size_counts_files_links_and_directories(tmp_path: Path) -> None:
    members = [Member("ml_run", 0o755, bytes(1025)), Member("bin/x", 0o755, bytes(1024))]
    links = {"usr/bin/ml_run": "../lib/ml_run"}
    assert deb.installed_size(members, links) == 2 + 1 + 1 + len({"bin", "usr", "usr/bin"})
    before = int(field(packed_at(tmp_path / "a.deb"), "Installed-Size"))
    more = [*MEMBERS, Member("tools/x.py", 0o644, bytes(2048))]
    assert int(field(packed_at(tmp_path / "b.deb", more), "Installed-Size")) == before + 2


def test_the_sums_are_of_every_file(tmp_path: Path) -> None:
    path = packed_at(tmp_path / "a.deb")
    subprocess.run(["dpkg-deb", "--raw-extract", path, tmp_path / "x"], check=True)
    sums = (tmp_path / "x/DEBIAN/md5sums").read_text().splitlines()
    found = deb.file_system_of(path)
    want = {
        f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {name}"
        for name, (_, data) in found.items()
        if isinstance(data, bytes)
    }
    assert set(sums) == want


def test_a_package_has_the_same_bytes_whatever_surrounds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = packed_at(tmp_path / "a.deb").read_bytes()
    (tmp_path / "other temporary").mkdir()
    for name, value in {
        "TMPDIR": str(tmp_path / "other temporary"),
        "TZ": "Asia/Tokyo",
        "LC_ALL": "C",
        "SOURCE_DATE_EPOCH": "1",
        "TAR_OPTIONS": "--mtime=@0",
        "XZ_OPT": "-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    time.tzset()
    old = os.umask(0o077)
    try:
        second = packed_at(tmp_path / "elsewhere" / "b.deb", MEMBERS[::-1]).read_bytes()
    finally:
        os.umask(old)
        monkeypatch.undo()
        time.tzset()
    assert first == second
    assert str(tmp_path).encode() not in first


def test_a_package_depends_on_content_and_time(tmp_path: Path) -> None:
    first = packed_at(tmp_path / "a.deb").read_bytes()
    other = [dataclasses.replace(MEMBERS[0], data=b"#!/bin/bash\n"), *MEMBERS[1:]]
    assert packed_at(tmp_path / "b.deb", other).read_bytes() != first
    later = deb.contents_of(ARCHIVE, MEMBERS, EPOCH + 86400)
    deb.pack(later, tmp_path / "c.deb", EPOCH + 86400)
    assert (tmp_path / "c.deb").read_bytes() != first


def test_the_changelog_is_one_that_debian_reads() -> None:
    files = {member.path: member.data for member in deb.debian_files(EPOCH)}
    lines = gzip.decompress(files["usr/share/doc/krafla/changelog.gz"]).decode().splitlines()
    assert lines[0] == f"krafla ({version()}) unstable; urgency=medium"
    assert lines[-1].startswith(" -- Krafla contributors <")
    assert lines[-1].endswith(">  Tue, 14 Nov 2023 22:13:20 +0000")


def test_the_copyright_holds_the_whole_licence() -> None:
    files = {member.path: member.data for member in deb.debian_files(EPOCH)}
    lines = files["usr/share/doc/krafla/copyright"].decode().splitlines()
    said = (ROOT / "LICENSE").read_text().splitlines()
    assert f"Copyright: {said[2].removeprefix('Copyright (c) ')}" in lines
    assert [line[1:] for line in lines[-17:]] == [line or "." for line in said[4:]]
    assert any("LGPL-2.1-or-later" in line for line in lines)


def test_a_package_that_holds_something_else_than_its_archive_is_refused(tmp_path: Path) -> None:
    path = packed_at(tmp_path / "a.deb")
    source = source_at(tmp_path)
    deb.check_files(path, source)
    with pytest.raises(VerificationError, match=r"bin/ml_tok-sse2 is missing"):
        deb.check_files(packed_at(path, [m for m in MEMBERS if "tok-" not in m.path]), source)
    more = [*MEMBERS, Member("tools/more.py", 0o644, b"")]
    with pytest.raises(VerificationError, match=r"tools/more.py extra"):
        deb.check_files(packed_at(path, more), source)
    other = [dataclasses.replace(MEMBERS[0], data=b"x"), *MEMBERS[1:]]
    with pytest.raises(VerificationError, match=r"lib/krafla/ml_run is not what krafla-"):
        deb.check_files(packed_at(path, other), source)
    closed = [*MEMBERS[:-1], dataclasses.replace(MEMBERS[-1], mode=0o600)]
    with pytest.raises(VerificationError, match=r"mlb/__init__.py is not what krafla-"):
        deb.check_files(packed_at(path, closed), source)


def test_a_package_is_installed_upgraded_and_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if reason := deb.cannot_install():
        pytest.skip(f"not run: {reason}")
    deb.smoke_installation(packed_at(tmp_path / "a.deb"), tmp_path)
    assert "installed over 0.0.1 and removed: nothing is left" in capsys.readouterr().out


def test_something_left_after_the_removal_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := deb.cannot_install():
        pytest.skip(f"not run: {reason}")
    copied = deb.copied
    idle = Member("prerm", 0o755, b"#!/bin/sh\n")
    monkeypatch.setattr(deb, "copied", lambda *a: idle if a[1] == "prerm" else copied(*a))
    with pytest.raises(VerificationError, match=r"after its removal there is \['usr', 'var'\]"):
        deb.smoke_installation(packed_at(tmp_path / "a.deb"), tmp_path)


def test_something_left_after_the_upgrade_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if reason := deb.cannot_install():
        pytest.skip(f"not run: {reason}")
    dpkg, path = deb.dpkg, packed_at(tmp_path / "a.deb")
    monkeypatch.setattr(deb, "dpkg", lambda *a: dpkg(*a) if path not in a else None)
    with pytest.raises(VerificationError, match="other files after the upgrade than it holds"):
        deb.smoke_installation(path, tmp_path)


def test_a_package_whose_files_belong_to_a_user_is_refused(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    deb.write_tree(tree, deb.contents_of(ARCHIVE, MEMBERS, EPOCH), EPOCH)
    if os.geteuid() == 0:
        os.chown(tree / "usr", 1000, 1000)
    subprocess.run(["dpkg-deb", "-Znone", "--build", tree, tmp_path / "a.deb"], check=True)
    with pytest.raises(VerificationError, match=r"a\.deb: .* does not belong to root"):
        deb.file_system_of(tmp_path / "a.deb")


def test_a_package_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*words: str | Path, **_: object) -> None:
        Path(words[-1]).write_bytes(b"half")
        raise ReleaseError("broke off")

    monkeypatch.setattr(deb, "run", break_off)
    with pytest.raises(ReleaseError, match="broke off"):
        deb.pack(deb.contents_of(ARCHIVE, MEMBERS, EPOCH), tmp_path / "dist" / "a.deb", EPOCH)
    assert list((tmp_path / "dist").glob("*")) == []


def test_a_file_that_is_no_package_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "a.deb").write_text("no package, but text")
    with pytest.raises(VerificationError, match=r"a\.deb: dpkg-deb: error: "):
        deb.file_system_of(tmp_path / "a.deb")


def test_the_removal_script_takes_bytecode_and_nothing_else(tmp_path: Path) -> None:
    tools = tmp_path / "a b/usr/share/krafla/tools"
    for name in ("mlb/__pycache__/x.pyc", "__pycache__/y.pyc", "mlb/kept.py", "mine/kept"):
        (tools / name).parent.mkdir(parents=True, exist_ok=True)
        (tools / name).touch()
    script = archives.PACKAGING / "deb" / "prerm"
    for _ in range(2):
        env = {"PATH": os.environ["PATH"], "DPKG_ROOT": str(tmp_path / "a b")}
        subprocess.run(["sh", script, "remove"], env=env, check=True)
    left = sorted(str(path.relative_to(tools)) for path in tools.rglob("*") if path.is_file())
    assert left == ["mine/kept", "mlb/kept.py"]


def test_smoke_asks_for_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deb.main(["linux-x86_64", "--smoke", "--dist", str(tmp_path)]) == 1
    assert capsys.readouterr().err.endswith("_amd64.deb is not there: invoke package\n")


def test_what_cannot_be_installed_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == "fakeroot" else name)
    assert deb.cannot_install() == "fakeroot not installed, and this is not root"


def test_a_manual_page_has_the_sections_of_one() -> None:
    page = manual.page(HELP.format(name="ml_run"), EPOCH)
    assert page.startswith(f'.TH ML_RUN 1 "2023-11-14" "Krafla {version()}" "Krafla"\n')
    heads = [line[4:] for line in page.splitlines() if line.startswith(".SH ")]
    assert heads == [
        *("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO")
    ]
    assert "\nml_run \\- do a thing with C:\\e and 'quotes': at once\n" in page
    assert "\nDo a thing with C:\\e and 'quotes': at once. Then more of it, in two lines.\n" in page
    assert "\n.TP\n.B \\-n N\nCount; default 1. And a second line.\n" in page


def test_a_manual_page_pleases_man(tmp_path: Path) -> None:
    if not shutil.which("man"):
        pytest.skip("not run: man is not installed")
    path = tmp_path / "ml_run.1"
    path.write_text(manual.page(HELP.format(name="ml_run"), EPOCH))
    words = ["man", "--warnings", "-E", "UTF-8", "-l", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "  ml_run model.mlb    with a model\n" in done.stdout
    assert "C:\\ and 'quotes'" in done.stdout


def test_a_help_of_another_form_makes_no_manual_page() -> None:
    with pytest.raises(ReleaseError, match="a help text of another form than expected: 'nothing'"):
        manual.page("nothing", EPOCH)
