# SPDX-License-Identifier: MIT
"""Read packaging/: which archives there are, what goes in, and the exact members each must have.

PYTHONPATH=scripts python3 -c 'from krafla_release import archives; print(archives.load())'
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
from typing import Any

import jinja2

from krafla_release.project import ROOT, ReleaseError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

PACKAGING = ROOT / "packaging"
PLAIN, PROGRAM = 0o644, 0o755


@dataclasses.dataclass(frozen=True)
class Archive:
    """One release archive."""

    name: str
    arch: str
    system: str = "linux"

    @property
    def suffix(self) -> str:
        """How the file's name ends: what that system unpacks without help."""
        return ".zip" if self.system == "windows" else ".tar.gz"

    @property
    def contract(self) -> str:
        """The members that the archive must have, one "mode path" a line."""
        return (PACKAGING / f"{self.name}.contract").read_text()


@dataclasses.dataclass(frozen=True)
class Member:
    """One file of an archive; the path has no leading directory of the archive."""

    path: str
    mode: int
    data: bytes


@functools.cache
def table() -> dict[str, Any]:
    """Return archives.toml as it stands."""
    return tomllib.loads((PACKAGING / "archives.toml").read_text())


def load() -> list[Archive]:
    """Return the archives in the file's order."""
    return [Archive(name, **row) for name, row in table()["archives"].items()]


def find(name: str) -> Archive:
    """Return one archive by name."""
    for archive in load():
        if archive.name == name:
            return archive
    known = ", ".join(archive.name for archive in load())
    raise ReleaseError(f"packaging/archives.toml has no archive '{name}'; it has: {known}")


def programs() -> list[str]:
    """Return the programs that every archive holds."""
    return [str(program) for program in table()["programs"]]


def plain_files() -> list[Member]:
    """Return the members that are the same in every archive; each pattern must match."""
    members = []
    for pattern in table()["files"]:
        found = sorted(path for path in ROOT.glob(pattern) if path.is_file())
        if not found:
            raise ReleaseError(f"packaging/archives.toml: nothing matches '{pattern}'")
        members += [
            Member(path.relative_to(ROOT).as_posix(), PLAIN, path.read_bytes()) for path in found
        ]
    return members


def launcher(program: str, builds: list[str]) -> Member:
    """Return the script that starts the fastest fitting build of a program."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  (a shell script, not a page)
    )
    template = environment.from_string((PACKAGING / "launcher.sh.in").read_text())
    return Member(program, PROGRAM, template.render(program=program, builds=builds).encode())


def contract_lines(members: list[Member]) -> str:
    """Return the members in the form of a contract file."""
    return "".join(f"{member.mode:04o} {member.path}\n" for member in sorted(members, key=by_path))


def content_digest(members: list[Member]) -> str:
    """Return a digest of what is inside, whatever program compressed it."""
    lines = (
        f"{member.mode:04o} {hashlib.sha256(member.data).hexdigest()} {member.path}\n"
        for member in sorted(members, key=by_path)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def by_path(member: Member) -> str:
    """Sort key: members stand in the order of their paths."""
    return member.path
