# SPDX-License-Identifier: MIT
"""Packed files: the same bytes each time, the same digest however compressed, no hostile member.

.venv/bin/python -m pytest tests/py/test_packed.py
"""

from __future__ import annotations

import gzip
import io
import os
import random
import stat
import tarfile
import time
import zipfile
from typing import TYPE_CHECKING

import pytest

from krafla_release import archives, package, packed
from krafla_release.archives import Archive, Member
from krafla_release.project import VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MEMBERS = [
    Member("ml_run", 0o755, b"#!/bin/sh\n"),
    Member("bin/ml_run-sse2", 0o755, b"\x7fELF" + bytes(5000)),
    Member("README.md", 0o644, b"read me\n"),
]
NAMES = ["krafla-1/README.md", "krafla-1/bin/ml_run-sse2", "krafla-1/ml_run"]
EPOCH = 1_700_000_001
WRITERS = [packed.tar_gz, packed.zipped]
MUTATIONS = 400


def entries(data: bytes) -> list[tarfile.TarInfo]:
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        return tar.getmembers()


def zip_entries(data: bytes) -> list[zipfile.ZipInfo]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return archive.infolist()


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def put(place: Path, data: bytes) -> Path:
    """Write a file under the name that its form has."""
    return write(place / ("a.tar.gz" if data.startswith(b"\x1f\x8b") else "a.zip"), data)


@pytest.mark.parametrize("writer", WRITERS)
def test_archive_does_not_depend_on_order_time_zone_umask_or_clock(
    monkeypatch: pytest.MonkeyPatch, writer: Callable[..., bytes]
) -> None:
    first = writer("krafla-1", MEMBERS, EPOCH)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    monkeypatch.setattr(time, "time", lambda: 1.0)
    old = os.umask(0o077)
    try:
        second = writer("krafla-1", MEMBERS[::-1], EPOCH)
    finally:
        os.umask(old)
        monkeypatch.undo()
        time.tzset()
    assert first == second


@pytest.mark.parametrize("writer", WRITERS)
def test_archive_depends_on_content_mode_and_time(writer: Callable[..., bytes]) -> None:
    base = writer("krafla-1", MEMBERS, EPOCH)
    other = [Member("ml_run", 0o644, b"#!/bin/sh\n"), *MEMBERS[1:]]
    assert base != writer("krafla-1", other, EPOCH)
    assert base != writer("krafla-1", MEMBERS, EPOCH + 2)


def test_tar_members_are_sorted_owned_by_root_and_below_one_directory() -> None:
    found = entries(packed.tar_gz("krafla-1", MEMBERS, EPOCH))
    assert [entry.name for entry in found] == NAMES
    for entry in found:
        assert (entry.uid, entry.gid, entry.uname, entry.gname) == (0, 0, "", "")
        assert (entry.mtime, entry.isreg()) == (EPOCH, True)
    assert [entry.mode for entry in found] == [0o644, 0o755, 0o755]


def test_gzip_header_has_no_name_and_no_time() -> None:
    data = packed.tar_gz("krafla-1", MEMBERS, EPOCH)
    assert data[:4] == b"\x1f\x8b\x08\x00"
    assert data[4:8] == bytes(4)


def test_zip_members_are_sorted_deflated_and_have_unix_modes() -> None:
    found = zip_entries(packed.zipped("krafla-1", MEMBERS, EPOCH))
    assert [entry.filename for entry in found] == NAMES
    for entry in found:
        assert (entry.create_system, entry.compress_type) == (3, zipfile.ZIP_DEFLATED)
        assert (entry.extra, entry.comment) == (b"", b"")
    modes = [entry.external_attr >> 16 for entry in found]
    assert modes == [stat.S_IFREG | 0o644, stat.S_IFREG | 0o755, stat.S_IFREG | 0o755]


@pytest.mark.parametrize(
    ("epoch", "want"),
    [
        (EPOCH, (2023, 11, 14, 22, 13, 20)),
        (0, (1980, 1, 1, 0, 0, 0)),
        (315_532_799, (1980, 1, 1, 0, 0, 0)),
        (315_532_803, (1980, 1, 1, 0, 0, 2)),
    ],
    ids=["odd second", "1970", "just before 1980", "just after"],
)
def test_zip_time_is_utc_even_and_not_before_1980(epoch: int, want: tuple[int, ...]) -> None:
    assert zip_entries(packed.zipped("k", MEMBERS, epoch))[0].date_time == want


def test_each_system_gets_what_it_unpacks_without_help() -> None:
    linux, windows = Archive("a", "x86_64"), Archive("a", "x86_64", "windows")
    assert packed.pack(linux, "k", MEMBERS, EPOCH) == packed.tar_gz("k", MEMBERS, EPOCH)
    assert packed.pack(windows, "k", MEMBERS, EPOCH) == packed.zipped("k", MEMBERS, EPOCH)


@pytest.mark.parametrize("writer", WRITERS)
def test_what_was_packed_is_read_back(tmp_path: Path, writer: Callable[..., bytes]) -> None:
    path = put(tmp_path, writer("krafla-1", MEMBERS, EPOCH))
    assert packed.read(path) == packed.below("krafla-1", MEMBERS)


def test_recompressed_archive_has_the_same_content_digest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tar = packed.tar_gz("krafla-1", MEMBERS, EPOCH)
    fast = gzip.compress(gzip.decompress(tar), 1)
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as archive:
        for member in packed.below("krafla-1", MEMBERS)[::-1]:
            info = zipfile.ZipInfo(member.path)
            info.create_system, info.external_attr = 3, (stat.S_IFREG | member.mode) << 16
            archive.writestr(info, member.data, zipfile.ZIP_STORED)
    assert fast != tar
    paths = [
        write(tmp_path / "best.tar.gz", tar),
        write(tmp_path / "fast.tar.gz", fast),
        write(tmp_path / "deflated.zip", packed.zipped("krafla-1", MEMBERS, EPOCH)),
        write(tmp_path / "stored.zip", stored.getvalue()),
    ]
    assert package.main(["--digest", *map(str, paths)]) == 0
    want = archives.content_digest(packed.below("krafla-1", MEMBERS))
    assert capsys.readouterr().out == "".join(f"{want}  {path}\n" for path in paths)


def test_content_digest_depends_on_path_mode_and_content_alone() -> None:
    base = archives.content_digest(MEMBERS)
    assert base == archives.content_digest(MEMBERS[::-1])
    for changed in (
        Member("ml_runs", 0o755, b"#!/bin/sh\n"),
        Member("ml_run", 0o644, b"#!/bin/sh\n"),
        Member("ml_run", 0o755, b"#!/bin/sh\r"),
    ):
        assert archives.content_digest([changed, *MEMBERS[1:]]) != base


# ---- hostile files -------------------------------------------------------------------------------


def tar_of(*infos: tarfile.TarInfo) -> bytes:
    """Pack empty members as they are given."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", format=tarfile.GNU_FORMAT) as tar:
        for info in infos:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    return data.getvalue()


def tar_entry(name: str, kind: bytes = tarfile.REGTYPE, mode: int = 0o644) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.linkname = kind, mode, "target"
    return info


def zip_of(*names: str, mode: int = stat.S_IFREG | 0o644, system: int = 3) -> bytes:
    """Pack empty members as they are given."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        for name in names:
            info = zipfile.ZipInfo()
            info.filename = name  # the constructor would make it harmless
            info.create_system, info.external_attr = system, mode << 16
            archive.writestr(info, b"")
    return data.getvalue()


NAMES_REFUSED = [
    "",
    "/absolute",
    "../outside",
    "a/../../outside",
    "a/..",
    "./a",
    "a//b",
    "a/",
    "a\\b",
    "C:a",
    "new\nline",
    "\x1b[31mred",
    "\u202etxt.exe",
    "x" * 201,
]


@pytest.mark.parametrize("name", NAMES_REFUSED, ids=ascii)
@pytest.mark.parametrize("form", ["tar", "zip"])
def test_member_with_a_bad_name_is_refused(tmp_path: Path, name: str, form: str) -> None:
    data = tar_of(tar_entry(name)) if form == "tar" else zip_of(name)
    with pytest.raises(VerificationError, match="the name ") as caught:
        packed.read(put(tmp_path, data))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE],
    ids=["symbolic link", "hard link", "directory", "pipe", "device"],
)
def test_tar_member_that_is_no_file_is_refused(tmp_path: Path, kind: bytes) -> None:
    with pytest.raises(VerificationError, match="'a' is no regular file"):
        packed.read(put(tmp_path, tar_of(tar_entry("a", kind))))


def test_member_with_holes_is_refused(tmp_path: Path) -> None:
    """A few bytes of a sparse member may stand for as many as memory holds."""
    packed_to = io.BytesIO()
    with tarfile.open(fileobj=packed_to, mode="w", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("a")
        sparse = {"major": "1", "minor": "0", "name": "a", "realsize": "9999"}
        info.pax_headers = {f"GNU.sparse.{key}": text for key, text in sparse.items()}
        info.size = 512
        tar.addfile(info, io.BytesIO(b"0\n".ljust(512, b"\0")))
    path = put(tmp_path, gzip.compress(packed_to.getvalue()))
    with pytest.raises(VerificationError, match="'a' is no regular file"):
        packed.read(path)


@pytest.mark.parametrize(
    ("mode", "system"),
    [(stat.S_IFLNK | 0o777, 3), (stat.S_IFDIR | 0o755, 3), (stat.S_IFREG | 0o644, 0)],
    ids=["symbolic link", "directory", "made by DOS"],
)
def test_zip_member_that_is_no_file_is_refused(tmp_path: Path, mode: int, system: int) -> None:
    with pytest.raises(VerificationError, match="'a' is no regular file"):
        packed.read(put(tmp_path, zip_of("a", mode=mode, system=system)))


def test_zip_member_of_no_kind_is_a_file(tmp_path: Path) -> None:
    """So does hatchling write the metadata of a wheel."""
    (member,) = packed.read(put(tmp_path, zip_of("a", mode=0o644)))
    assert member == Member("a", 0o644, b"")


@pytest.mark.parametrize("mode", [0o4755, 0o2755, 0o1777])
def test_member_with_a_mode_that_gives_rights_is_refused(tmp_path: Path, mode: int) -> None:
    for data in (tar_of(tar_entry("a", mode=mode)), zip_of("a", mode=stat.S_IFREG | mode)):
        with pytest.raises(VerificationError, match=f"'a': mode {mode:04o}"):
            packed.read(put(tmp_path, data))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_member_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    for data in (tar_of(tar_entry("a"), tar_entry("a")), zip_of("a", "a")):
        with pytest.raises(VerificationError, match="'a': it is there twice"):
            packed.read(put(tmp_path, data))


def test_more_members_than_any_archive_has_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packed, "MOST_MEMBERS", 2)
    for data in (tar_of(*map(tar_entry, "abc")), zip_of(*"abc")):
        with pytest.raises(VerificationError, match="more than 2 members"):
            packed.read(put(tmp_path, data))


@pytest.mark.parametrize("writer", WRITERS)
def test_bomb_is_refused_without_unpacking_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: Callable[..., bytes]
) -> None:
    bomb = [Member("a", 0o644, bytes(600)), Member("b", 0o644, bytes(10_000_000))]
    path = put(tmp_path, writer("krafla-1", bomb, EPOCH))
    monkeypatch.setattr(packed, "MOST_BYTES", 2000)
    with pytest.raises(VerificationError, match="more than 2000 bytes unpacked"):
        packed.read(path)


@pytest.mark.parametrize(
    "data",
    [b"", b"PK\x03\x04", b"\x1f\x8b\x08", b"not packed at all", gzip.compress(b"no tar", mtime=0)],
    ids=["empty", "head of a zip", "head of a gzip", "text", "no tar in a gzip"],
)
@pytest.mark.parametrize("name", ["a.tar.gz", "a.zip"])
def test_file_that_is_no_archive_is_one_line(
    tmp_path: Path, name: str, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / name, data)
    assert package.main(["--digest", str(path)]) == VerificationError.code
    error = capsys.readouterr().err
    assert error.startswith(f"error: {path}: ")
    assert error.count("\n") == 1


def test_file_of_two_forms_is_read_as_the_one_that_its_name_says(tmp_path: Path) -> None:
    """What is looked at must be what a user's tar or unzip unpacks."""
    both = packed.tar_gz("tar", MEMBERS, EPOCH) + packed.zipped("zip", MEMBERS, EPOCH)
    with pytest.raises(VerificationError):  # what follows the gzip stream is no gzip
        packed.read(write(tmp_path / "a.tar.gz", both))
    found = packed.read(write(tmp_path / "a.zip", both))
    assert {member.path.split("/")[0] for member in found} == {"zip"}


def test_file_that_is_not_there_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert package.main(["--digest", str(tmp_path / "none")]) == VerificationError.code
    assert capsys.readouterr().err.count("\n") == 1


def test_pipe_is_no_file_and_nobody_waits_for_it(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.tar.gz")
    with pytest.raises(VerificationError, match="there is no such file"):
        packed.read(tmp_path / "a.tar.gz")


@pytest.mark.parametrize("header", [{"size": "x"}, {"path": "b"}, {"comment": "c"}], ids=str)
def test_tar_header_that_others_may_read_in_another_way_is_refused(
    tmp_path: Path, header: dict[str, str]
) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz", format=tarfile.PAX_FORMAT) as tar:
        info = tarfile.TarInfo("a")
        info.pax_headers = header
        tar.addfile(info)
    with pytest.raises(VerificationError, match="has a header that no archive of ours has"):
        packed.read(put(tmp_path, data.getvalue()))


def test_tar_member_of_negative_size_is_refused(tmp_path: Path) -> None:
    head = bytearray(tarfile.TarInfo("a").tobuf(tarfile.GNU_FORMAT))
    head[124:136] = b"\xff" * 12  # the size, -1 in the way of GNU
    head[148:156] = b" " * 8
    head[148:156] = b"%06o\0 " % sum(head)
    data = gzip.compress(bytes(head) + bytes(1024), mtime=0)
    with pytest.raises(VerificationError, match="has a header that no archive of ours has"):
        packed.read(put(tmp_path, data))


def test_zip_member_that_others_call_by_another_name_is_refused(tmp_path: Path) -> None:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        info = zipfile.ZipInfo("a")
        info.create_system = 3
        info.extra = b"up\x06\0\x01\0\0\0\0b"  # the name b, to Info-ZIP
        archive.writestr(info, b"")
    for hostile in (data.getvalue(), zip_of("aXb").replace(b"aXb", b"a\0b")):
        with pytest.raises(VerificationError, match="has a header that no archive of ours has"):
            packed.read(put(tmp_path, hostile))


def test_encrypted_zip_is_refused(tmp_path: Path) -> None:
    data = bytearray(packed.zipped("k", MEMBERS[:1], EPOCH))
    data[6] |= 1  # flag of the member's own header
    data[data.index(b"PK\x01\x02") + 8] |= 1  # and of the list's
    with pytest.raises(VerificationError, match="encrypted"):
        packed.read(put(tmp_path, bytes(data)))


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA], ids=["bzip2", "lzma"])
def test_zip_packed_in_a_way_of_others_is_refused(tmp_path: Path, way: int) -> None:
    """Its readers do not stop at a size, and lzma has an error of its own."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", way) as archive:
        archive.writestr("a", b"a" * 1000)
    with pytest.raises(VerificationError, match="'a' is neither stored nor deflated"):
        packed.read(put(tmp_path, data.getvalue()))


def test_damaged_content_is_refused(tmp_path: Path) -> None:
    data = bytearray(zip_of("a"))
    data[14] ^= 1  # the CRC-32
    data[data.index(b"PK\x01\x02") + 16] ^= 1
    with pytest.raises(VerificationError, match="Bad CRC-32"):
        packed.read(put(tmp_path, bytes(data)))


@pytest.mark.parametrize("form", ["tar", "zip"])
def test_no_damaged_archive_hangs_or_raises_anything_else(tmp_path: Path, form: str) -> None:
    random.seed(1)
    small = [Member("a", 0o644, b"aaaa"), Member("b/c", 0o755, b"")]
    whole = packed.zipped("k", small, EPOCH)
    if form == "tar":
        whole = gzip.decompress(packed.tar_gz("k", small, EPOCH))[: 4 * 512]
    # A tar header is the first 160 bytes of its 512, and most of a file is padding.
    places = [at for at in range(len(whole)) if form == "zip" or at % 512 < 160]
    refused = 0
    for _ in range(MUTATIONS):
        data = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            value = random.choice([0, 0x80, 0xFF, random.randrange(256)])
            data[random.choice(places)] = value
        if form == "tar":
            with_checksums(data)
        damaged = gzip.compress(bytes(data), 0) if form == "tar" else bytes(data)
        try:
            packed.read(put(tmp_path, damaged))
        except VerificationError:
            refused += 1
    assert refused > MUTATIONS // 10  # most bytes of a tar header count for nothing


def with_checksums(data: bytearray) -> None:
    """Make the sums of tar headers right again, so that a reader looks at the rest of them."""
    for at in range(0, len(data), 512):
        header = data[at : at + 148] + b" " * 8 + data[at + 156 : at + 512]
        if header[257:262] == b"ustar":
            data[at + 148 : at + 156] = b"%06o\0 " % sum(header)
