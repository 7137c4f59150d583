# SPDX-License-Identifier: MIT
"""Pack members into a .tar.gz or .zip, the same bytes each time, and read them back with distrust.

PYTHONPATH=scripts python3 -m krafla_release.package --digest dist/krafla-*.tar.gz
"""

from __future__ import annotations

import gzip
import io
import stat
import struct
import tarfile
import time
import zipfile
import zlib
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from krafla_release import archives
from krafla_release.archives import Member
from krafla_release.project import VerificationError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from krafla_release.archives import Archive

LEVEL = 9  # of deflate
ZIPS = {".zip", ".whl"}  # by name, as users' programs choose: a file can be of two forms
WAYS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}  # others are unpacked whole, be it a bomb
UNIX = 3  # the system that made a .zip, whose modes then count
FIRST_ZIP_TIME = 315_532_800  # 1980-01-01: a .zip has no earlier one, and counts in 2 seconds
MOST_MEMBERS = 4096
MOST_BYTES = 1 << 28  # unpacked: 20 times what the largest archive has
MOST_NAME = 200
# What the readers of the standard library raise; RuntimeError and its children where a .zip is
# encrypted or packed in a way they do not know.
DAMAGE = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    OSError,
    OverflowError,
    RuntimeError,
    ValueError,
)
STRANGE = "has a header that no archive of ours has"
MODES = 0o777  # a mode with any other bit (setuid) is refused


def pack(archive: Archive, top: str, members: Sequence[Member], epoch: int) -> bytes:
    """Return the packed file that the archive's system unpacks without help."""
    return (zipped if archive.suffix == ".zip" else tar_gz)(top, members, epoch)


def tar_gz(top: str, members: Sequence[Member], epoch: int) -> bytes:
    """Return a .tar.gz with nothing of this machine in it: sorted, owner 0, one time."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", LEVEL, packed, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for member in below(top, members):
            info = tarfile.TarInfo(member.path)
            info.size, info.mode, info.mtime = len(member.data), member.mode, epoch
            tar.addfile(info, io.BytesIO(member.data))
    return packed.getvalue()


def zipped(top: str, members: Sequence[Member], epoch: int) -> bytes:
    """Return the same as a .zip; its times are UTC, though the format calls them local."""
    packed = io.BytesIO()
    moment = time.gmtime(max(epoch, FIRST_ZIP_TIME))
    with zipfile.ZipFile(packed, "w") as archive:
        for member in below(top, members):
            info = zipfile.ZipInfo(member.path, moment[:6])
            info.create_system = UNIX
            info.external_attr = (stat.S_IFREG | member.mode) << 16
            archive.writestr(info, member.data, zipfile.ZIP_DEFLATED, LEVEL)
    return packed.getvalue()


def below(top: str, members: Sequence[Member]) -> list[Member]:
    """Return the members in the order of the archive, under its top directory."""
    moved = [Member(f"{top}/{member.path}", member.mode, member.data) for member in members]
    return sorted(moved, key=archives.by_path)


def read(path: Path) -> list[Member]:
    """Return the files of a .tar.gz or .zip in its order; whatever we do not write is refused."""
    found: dict[str, Member] = {}
    if not path.is_file():  # reading a pipe would wait
        raise VerificationError(f"{path}: there is no such file")
    try:
        for member in zip_members(path) if path.suffix in ZIPS else tar_members(path):
            if fault := fault_of(member) or ("it is there twice" if member.path in found else ""):
                raise VerificationError(f"{path}: {member.path[:MOST_NAME]!r}: {fault}")
            if len(found) == MOST_MEMBERS:
                raise VerificationError(f"{path}: more than {MOST_MEMBERS} members")
            found[member.path] = member
    except DAMAGE as error:
        raise VerificationError(f"{path}: {str(error) or type(error).__name__}") from None
    return list(found.values())


def fault_of(member: Member) -> str:
    """Return what is wrong with a member, if anything is."""
    parts = PurePosixPath(member.path).parts
    if len(member.path) > MOST_NAME or not member.path.isprintable():
        return "the name is too long or not printable"
    if (
        not parts
        or "/".join(parts) != member.path
        or ".." in parts
        or set(member.path) & set("\\:")
    ):
        return "the name would lead out of the directory it is unpacked in"
    if member.mode & ~MODES:
        return f"mode {member.mode:04o}"
    return ""


def tar_members(path: Path) -> Iterator[Member]:
    """Yield the members of a .tar.gz."""
    with gzip.open(path) as stream:
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise VerificationError(f"{path}: more than {MOST_BYTES} bytes unpacked")
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as tar:
        for info in tar:
            content = tar.extractfile(info) if info.isreg() and not info.issparse() else None
            if content is None:
                raise VerificationError(f"{path}: {info.name[:MOST_NAME]!r} is no regular file")
            if info.pax_headers or info.size < 0:  # which others may read in another way
                raise VerificationError(f"{path}: {info.name[:MOST_NAME]!r} {STRANGE}")
            yield Member(info.name, info.mode, content.read())


def zip_members(path: Path) -> Iterator[Member]:
    """Yield the members of a .zip."""
    left = MOST_BYTES
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            mode = info.external_attr >> 16
            if info.create_system != UNIX or stat.S_IFMT(mode) not in {0, stat.S_IFREG}:
                raise VerificationError(f"{path}: {info.filename[:MOST_NAME]!r} is no regular file")
            if info.compress_type not in WAYS:
                raise VerificationError(
                    f"{path}: {info.filename[:MOST_NAME]!r} is neither stored nor deflated"
                )
            # To other programs, an extra field or what follows a NUL may be another name.
            if info.extra or info.orig_filename != info.filename:
                raise VerificationError(f"{path}: {info.filename[:MOST_NAME]!r} {STRANGE}")
            with archive.open(info) as content:
                data = content.read(left + 1)
            left -= len(data)
            if left < 0:
                raise VerificationError(f"{path}: more than {MOST_BYTES} bytes unpacked")
            yield Member(info.filename, stat.S_IMODE(mode), data)
