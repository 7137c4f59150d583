# SPDX-License-Identifier: MIT
"""Read CHANGELOG.md, strictly: what is written there becomes release notes and a page of the site.

PYTHONPATH=scripts python3 -m krafla_release.changelog

The file is "# Changelog", then the versions, newest first: "## Unreleased" while there is something
unreleased, and "## X.Y.Z — YYYY-MM-DD" with an em dash.  Each has one or more of the sections
"### Added", "### Changed" and "### Fixed", in this order, and each of these has items ("- ...",
continued by lines that are indented by two spaces).  Links are written in full, because the text is
shown in several places.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import itertools
import re
import sys
from typing import TYPE_CHECKING

from krafla_release import versions
from krafla_release.project import ROOT, ReleaseError, exit_code

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from krafla_release.versions import Version

PATH = ROOT / "CHANGELOG.md"
TITLE = "# Changelog"
UNRELEASED = "## Unreleased"
KINDS = ("Added", "Changed", "Fixed")
DATED = re.compile(r"## (\S+) — (\d{4}-\d{2}-\d{2})", re.ASCII)
RELATIVE_LINK = re.compile(r"\]\((?!https?://|mailto:)")


class ChangelogError(ReleaseError):
    """CHANGELOG.md is not in its form; the message names the line."""

    code = 3

    def __init__(self, line: int, what: str) -> None:
        super().__init__(f"CHANGELOG.md:{line}: {what}")


@dataclasses.dataclass(frozen=True)
class Section:
    """What is written about one version; both are None for what is not released."""

    version: Version | None
    date: dt.date | None
    body: str
    line: int

    @property
    def heading(self) -> str:
        """The section's first line."""
        return heading(self.version, self.date) if self.version and self.date else UNRELEASED


def heading(version: Version, date: dt.date) -> str:
    """Return the first line of a released version's section."""
    return f"## {version} — {date.isoformat()}"


def today() -> dt.date:
    """Return the date that a release of now bears, the same all over the world."""
    return dt.datetime.now(dt.timezone.utc).date()


def sections(text: str) -> list[Section]:
    """Return the sections in their order, newest first, or fail at the first wrong line."""
    lines = text.splitlines()
    if not lines or lines[0] != TITLE:
        raise ChangelogError(1, f"want the title '{TITLE}'")
    starts = [number for number, line in enumerate(lines) if line.startswith("## ")]
    for number, line in enumerate(lines[1 : starts[0] if starts else None], start=2):
        if line.strip():
            raise ChangelogError(number, f"want '{UNRELEASED}' or '## X.Y.Z — YYYY-MM-DD' first")
    found = []
    for start, end in itertools.pairwise([*starts, len(lines)]):
        version, date = parse_heading(lines[start], start + 1)
        check_body(lines[start + 1 : end], start + 2)
        body = "\n".join(lines[start + 1 : end]).strip("\n")
        found.append(Section(version, date, body, start + 1))
    check_order(found)
    return found


def parse_heading(line: str, number: int) -> tuple[Version | None, dt.date | None]:
    """Return version and date of a heading; say what is wrong with one that is nearly right."""
    if line == UNRELEASED:
        return None, None
    found = DATED.fullmatch(line)
    if not found:
        if re.fullmatch(r"## \S+ +\S{1,3} +\d{4}-\d{2}-\d{2} *", line):
            raise ChangelogError(number, f"want an em dash between version and date: {line!r}")
        raise ChangelogError(
            number, f"want '{UNRELEASED}' or '## X.Y.Z — YYYY-MM-DD', got {line!r}"
        )
    try:
        version, date = versions.parse(found[1]), dt.date.fromisoformat(found[2])
    except (ReleaseError, ValueError) as error:
        raise ChangelogError(number, str(error)) from None
    if date > today():
        raise ChangelogError(number, f"{date} is in the future; today is {today()} (UTC)")
    return version, date


def check_body(lines: list[str], first: int) -> None:
    """Check the sections of one version: known, in order, once each, and with items."""
    kinds: list[str] = []
    items, opened = 0, first - 1

    def close() -> None:
        if not items:
            what = f"### {kinds[-1]} is empty" if kinds else "nothing is written about this version"
            raise ChangelogError(opened, what)

    for number, line in enumerate(lines, start=first):
        if line.startswith("#"):
            if kinds:
                close()
            kinds.append(parse_kind(line, number, kinds))
            items, opened = 0, number
        elif line.startswith("- ") and kinds:
            items += 1
        elif line.strip() and not (items and line.startswith("  ")):
            raise ChangelogError(number, f"want '- ' and an item under ### Added: {line!r}")
        if RELATIVE_LINK.search(line):
            raise ChangelogError(number, "write links in full: this text is shown elsewhere, too")
    close()


def parse_kind(line: str, number: int, before: list[str]) -> str:
    """Return which kind of change a heading begins."""
    kind = line.removeprefix("### ")
    if kind not in KINDS:
        raise ChangelogError(number, f"want ### {', ### '.join(KINDS)}, got {line!r}")
    if kind in before:
        raise ChangelogError(number, f"### {kind} stands twice in one version")
    if before and KINDS.index(kind) < KINDS.index(before[-1]):
        raise ChangelogError(number, f"### {kind} stands before ### {before[-1]}")
    return kind


def check_order(found: list[Section]) -> None:
    """Check that versions and dates fall, and that what is not released stands first."""
    for section in found[1:]:
        if section.version is None:
            raise ChangelogError(section.line, f"{UNRELEASED} stands first, and once")
    dated = [(s.version, s.date, s.line) for s in found if s.version and s.date]
    for (newer, later, _), (older, earlier, line) in itertools.pairwise(dated):
        if newer == older:
            raise ChangelogError(line, f"{older} stands twice")
        if newer < older:
            raise ChangelogError(line, f"{older} stands below {newer}: the newest stands first")
        if later < earlier:
            raise ChangelogError(line, f"{older} is dated after {newer}")


def find(version: Version, text: str | None = None) -> Section | None:
    """Return the section of a released version, if it has one."""
    return next((section for section in load(text) if section.version == version), None)


def load(text: str | None = None) -> list[Section]:
    """Return the sections of CHANGELOG.md, or of another text of it."""
    return sections(PATH.read_text(encoding="utf-8") if text is None else text)


def summary() -> Iterator[str]:
    """Return a line for each version."""
    for section in load():
        items = sum(line.startswith("- ") for line in section.body.splitlines())
        yield f"{section.heading.removeprefix('## ')}: {items} items"


def main(argv: Sequence[str] | None = None) -> int:
    """Check CHANGELOG.md and print what it holds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(argv)
    return exit_code(lambda: print("\n".join(summary())))


if __name__ == "__main__":
    sys.exit(main())
