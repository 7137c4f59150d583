# SPDX-License-Identifier: MIT
"""Read packaging/: which archives there are, what goes in, and the exact members each must have.

PYTHONPATH=scripts python3 -c 'from krafla_release import archives; print(archives.load())'
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import posixpath
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import jinja2

from krafla_release.project import ROOT, ReleaseError, UsageError, facts, read_toml, version

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PACKAGING = ROOT / "packaging"
PROBE_FIRST = 10  # ml_run.c: `ml_run --probe NEEDS...` ends with this code where the first fits
PLAIN, PROGRAM = 0o644, 0o755
RELATIVE_LINK = re.compile(r"\]\((?![a-z]+:|#)(?P<target>[^)\s#]+)(?P<place>(?:#[^)\s]*)?)\)")


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
class Launcher:
    """How the launchers of a system are written."""

    file: str
    suffix: str
    newline: str


LAUNCHERS = {
    "linux": Launcher("launcher.sh.in", "", "\n"),
    "windows": Launcher("launcher.cmd.in", ".cmd", "\r\n"),
}


@dataclasses.dataclass(frozen=True)
class Member:
    """One file of an archive; the path has no leading directory of the archive."""

    path: str
    mode: int
    data: bytes


@functools.cache
def table() -> dict[str, Any]:
    """Return archives.toml as it stands."""
    return read_toml(PACKAGING / "archives.toml")


def load() -> list[Archive]:
    """Return the archives in the file's order."""
    return [Archive(name, **row) for name, row in table()["archives"].items()]


def find(name: str) -> Archive:
    """Return one archive by name."""
    for archive in load():
        if archive.name == name:
            return archive
    known = ", ".join(archive.name for archive in load())
    raise UsageError(f"packaging/archives.toml has no archive '{name}'; it has: {known}")


def programs() -> list[str]:
    """Return the programs that every archive holds."""
    return list(table()["programs"])


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


def launcher(program: str, builds: Mapping[str, str], system: str = "linux") -> Member:
    """Return the script that starts the fastest fitting build of a program.

    builds: fastest first, each with the CPU features it needs as isas.txt spells them.
    """
    template = LAUNCHERS[system]
    text = render(template.file, program=program, builds=builds, probe_first=PROBE_FIRST)
    return Member(program + template.suffix, PROGRAM, text.replace("\n", template.newline).encode())


def readme(archive: Archive, builds: Mapping[str, str], file: str) -> Member:
    """Return the archive's own README.md; every command in it works where the archive is.

    file: the name under which the archive is downloaded.
    """
    windows = archive.system == "windows"
    text = render(
        "archive-readme.md",
        archive=archive.name,
        builds=builds,
        file=file,
        programs=table()["programs"],
        python="py" if windows else "python3",
        slash="\\" if windows else "/",
        start="" if windows else "./",
        version=version(),
        windows=windows,
        **{name: facts()[name] for name in ("repository", "site")},
    )
    return Member("README.md", PLAIN, text.encode())


def render(template: str, **values: object) -> str:
    """Return a template of packaging/ with its values filled in."""
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # noqa: S701  (scripts and plain text, not pages)
    )
    return environment.from_string((PACKAGING / template).read_text()).render(values)


def self_contained(members: list[Member]) -> list[Member]:
    """Return the members with each link of a page to something outside leading to the web."""
    inside = {member.path for member in members}
    return [
        dataclasses.replace(member, data=with_links(member, inside))
        if member.path.endswith(".md")
        else member
        for member in members
    ]


def with_links(page: Member, inside: set[str]) -> bytes:
    """Return a page whose relative links lead to `inside` or, absolute, to the site and GitHub."""

    def lead(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), link["target"]))
        if target in inside:
            return link[0]
        if not (ROOT / target).exists():
            raise ReleaseError(f"{page.path}: the link to {link['target']} leads nowhere")
        name = PurePosixPath(target)
        if name.parts[0] == "docs":
            place = f"{name.stem}/" if name.suffix == ".md" else name.name
            return f"]({facts()['site']}{place}{link['place']})"
        return (
            f"](https://github.com/{facts()['repository']}/blob/v{version()}/{target}"
            f"{link['place']})"
        )

    return RELATIVE_LINK.sub(lead, page.data.decode()).encode()


def contract_lines(members: list[Member]) -> str:
    """Return the members in the form of a contract file."""
    return "".join(f"{member.mode:04o} {member.path}\n" for member in sorted(members, key=by_path))


def content_digest(members: Iterable[Member]) -> str:
    """Return a digest of what is inside, whatever program compressed it."""
    lines = (
        f"{member.mode:04o} {hashlib.sha256(member.data).hexdigest()} {member.path}\n"
        for member in sorted(members, key=by_path)
    )
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def by_path(member: Member) -> str:
    """Sort key: members stand in the order of their paths."""
    return member.path
