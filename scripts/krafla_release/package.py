# SPDX-License-Identifier: MIT
"""Make dist/krafla-VERSION-<archive>.tar.gz or .zip: same commit, same compiler, same bytes.

    PYTHONPATH=scripts python3 -m krafla_release.package linux-x86_64

The members are compared with packaging/<archive>.contract; --update-contract writes that file
anew, so that a change of the archive is a reviewed diff.  --digest FILE... prints the content
digest of packed files, which tells whether two hold the same, whatever compressed them.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import archives, build, packed, testing
from krafla_release.archives import PROGRAM, Archive, Member
from krafla_release.project import (
    ROOT,
    ReleaseError,
    VerificationError,
    exit_code,
    source_date_epoch,
    version,
    write_atomically,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DIST = ROOT / "dist"


def members_of(archive: Archive, read: Callable[[Path], bytes] = Path.read_bytes) -> list[Member]:
    """Return everything that goes in; the programs must have been built if they are read."""
    rows = isas.load(archive.arch, built=True, ship=True)
    builds = {isa.name: " ".join(isa.needs) for isa in rows}
    members = [*archives.plain_files(), archives.readme(archive, builds, path_of(archive).name)]
    for program in archives.programs():
        members.append(archives.launcher(program, builds, archive.system))
        for isa in rows:
            path = build.program_file(isa, program, archive.system)
            name = f"bin/{program}-{isa.name}{path.suffix}"
            members.append(Member(name, PROGRAM, read(path)))
    return archives.self_contained(members)


def check_contract(archive: Archive, members: list[Member]) -> None:
    """Fail if the members are not exactly the agreed ones."""
    want = set(archive.contract.splitlines())
    got = set(archives.contract_lines(members).splitlines())
    if want != got:
        lines = [f"  missing: {line}" for line in sorted(want - got)]
        lines += [f"  unexpected: {line}" for line in sorted(got - want)]
        raise VerificationError(
            f"{archive.name} differs from packaging/{archive.name}.contract; "
            "if that is meant, run package with --update-contract\n" + "\n".join(lines)
        )


def update_contract(archive: Archive) -> None:
    """Write the contract anew; nothing needs to be built for that."""
    members = members_of(archive, read=lambda _: b"")
    contract = archives.PACKAGING / f"{archive.name}.contract"
    contract.write_text(archives.contract_lines(members))


def file_name(archive: Archive) -> str:
    """Return the archive's file name without the ending, which is also its top directory."""
    return f"krafla-{version()}-{archive.name}"


def path_of(archive: Archive, directory: Path = DIST) -> Path:
    """Return where an archive is written."""
    return directory / f"{file_name(archive)}{archive.suffix}"


def package(archive: Archive, directory: Path = DIST) -> Path:
    """Build and write one archive and return its path."""
    build.build_arch(archive.arch, archive.system)
    members = members_of(archive)
    check_contract(archive, members)
    path = path_of(archive, directory)
    data = packed.pack(archive, file_name(archive), members, source_date_epoch())
    write_atomically(path, data)
    print(f"{path}: {len(data)} bytes, {len(members)} members")
    print(f"  sha256  {hashlib.sha256(data).hexdigest()}")
    print(f"  content {digest(path)}")
    return path


def check_packed(archive: Archive, directory: Path = DIST) -> str:
    """Fail unless a packed file has the agreed members, read back; return its content digest."""
    path, top = path_of(archive, directory), f"{file_name(archive)}/"
    members = packed.read(path)
    for member in members:
        if not member.path.startswith(top):
            raise VerificationError(f"{path}: {member.path} is not below {top}")
    inside = [dataclasses.replace(each, path=each.path.removeprefix(top)) for each in members]
    check_contract(archive, inside)
    return archives.content_digest(members)


def digest(path: Path) -> str:
    """Return the content digest of a packed file, from what is read back out of it."""
    return archives.content_digest(packed.read(path))


def default_archive() -> str:
    """Return the archive of this machine."""
    for archive in archives.load():
        if (archive.arch, archive.system) == (build.host_arch(), "linux"):
            return archive.name
    raise ReleaseError(f"packaging/archives.toml has no archive for {build.host_arch()}: name one")


def missing_tool(archive: Archive) -> str | None:
    """Return what stands in the way of building an archive here, if anything does."""
    if archive.system == "windows":
        return None if build.mingw_compiler() else f"{build.MINGW}gcc not installed"
    return testing.missing_tool(isas.load(archive.arch)[0])


def choose(names: Sequence[str], *, every: bool, system: str = "") -> list[Archive]:
    """Return the named archives, or every one of a system; announce those that lack a tool."""
    if not every:
        return [archives.find(name) for name in names or [default_archive()]]
    chosen = []
    for archive in archives.load():
        if system not in ("", archive.system):
            continue
        reason = missing_tool(archive)
        if reason:
            testing.not_run(archive.name, reason)
        else:
            chosen.append(archive)
    return chosen


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose archives."""
    parser.add_argument("archive", nargs="*", help="default: this machine's")
    parser.add_argument("--all", action="store_true", help="every archive that can be built here")


def linux_command(
    argv: Sequence[str] | None,
    description: str,
    make: Callable[[Archive, Path], object],
    prove: Callable[[Archive, Path], object],
) -> int:
    """Make what comes of each chosen Linux archive, or prove it with --smoke."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    add_arguments(parser)
    parser.add_argument("--dist", type=Path, default=DIST, help="where (default: dist)")
    parser.add_argument("--smoke", action="store_true", help="install and run what is there")
    args = parser.parse_args(argv)

    def work() -> None:
        for archive in choose(args.archive, every=args.all, system="linux"):
            (prove if args.smoke else make)(archive, args.dist)

    return exit_code(work)


def main(argv: Sequence[str] | None = None) -> int:
    """Package the chosen archives, or write their contracts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_arguments(parser)
    parser.add_argument(
        "--update-contract", action="store_true", help="write packaging/*.contract and stop"
    )
    parser.add_argument(
        "--digest", type=Path, nargs="+", metavar="FILE", help="print content digests and stop"
    )
    parser.add_argument("--dist", type=Path, default=DIST, help="where to write (default: dist)")
    args = parser.parse_args(argv)

    def work() -> None:
        for path in args.digest or []:
            print(f"{digest(path)}  {path}")
        if args.digest:
            return
        for archive in choose(args.archive, every=args.all):
            if args.update_contract:
                update_contract(archive)
            else:
                package(archive, args.dist)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
