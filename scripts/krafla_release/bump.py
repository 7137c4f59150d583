# SPDX-License-Identifier: MIT
"""Raise the version everywhere at once, and check that all places agree.

    PYTHONPATH=scripts python3 -m krafla_release.bump --version 0.2.0
    PYTHONPATH=scripts python3 -m krafla_release.bump --check --base origin/main

The first shows, as a diff, what a bump would change: ML_VERSION and its copy, `## Unreleased` in
CHANGELOG.md, CITATION.cff and the site's changelog page; with --write it changes them, all or none.
--check fails if they disagree, or if ML_VERSION differs from that at --base without being higher
and having its dated section in CHANGELOG.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import changelog, citation, docs_tables, versions
from krafla_release.project import ROOT, VERSION_HEADER, PreflightError, ReleaseError, exit_code

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Sequence

    from krafla_release.versions import Version

ML_VERSION = re.compile(r'^#define ML_VERSION "(.*)"$', re.MULTILINE)
COPY = ROOT / "tools" / "mlb" / "__init__.py"
COPIED = re.compile(r'^VERSION = "(.*?)"', re.MULTILINE)


@dataclasses.dataclass(frozen=True)
class Change:
    """One file before and after; its path is relative to the checkout."""

    path: Path
    before: str
    after: str

    def diff(self) -> str:
        """Return the change as `diff -u` writes it."""
        lines = difflib.unified_diff(
            self.before.splitlines(keepends=True),
            self.after.splitlines(keepends=True),
            f"a/{self.path.as_posix()}",
            f"b/{self.path.as_posix()}",
        )
        return "".join(lines)


def read(path: Path) -> str:
    """Return a file with the line ends that it has."""
    return path.read_bytes().decode()


def changes(version: Version, date: dt.date | None = None) -> list[Change]:
    """Return what is missing to make the sources those of a version; nothing is written.

    What is done already is left alone, so a bump that was cut short is completed by the next one.
    """
    if version < versions.current():
        raise PreflightError(f"{version} is below {versions.current()}, the version of the sources")
    log = released_changelog(read(changelog.PATH), version, date or changelog.today())
    released = changelog.find(version, log)
    assert released
    assert released.date
    texts = {
        VERSION_HEADER: replaced(VERSION_HEADER, ML_VERSION, str(version)),
        COPY: replaced(COPY, COPIED, str(version)),
        changelog.PATH: log,
        citation.PATH: citation.with_version(read(citation.PATH), version, released.date),
        docs_tables.CHANGELOG_PAGE: docs_tables.with_changelog(
            read(docs_tables.CHANGELOG_PAGE), log
        ),
    }
    made = [Change(path.relative_to(ROOT), read(path), text) for path, text in texts.items()]
    return [change for change in made if change.before != change.after]


def replaced(path: Path, pattern: re.Pattern[str], value: str) -> str:
    """Return a file with the one place that a pattern finds changed."""
    text = read(path)
    found = list(pattern.finditer(text))
    if len(found) != 1:
        where = path.relative_to(ROOT)
        raise PreflightError(f"{where}: {len(found)} places match {pattern.pattern}, want one")
    return text[: found[0].start(1)] + value + text[found[0].end(1) :]


def released_changelog(text: str, version: Version, date: dt.date) -> str:
    """Return the changelog with `## Unreleased` renamed, unless the version is there already."""
    found = changelog.sections(text)
    if any(section.version == version for section in found):
        return text
    newest = max((section.version for section in found if section.version), default=None)
    if newest and version < newest:
        raise PreflightError(f"{version} is below {newest}, the newest version of CHANGELOG.md")
    if not found or found[0].version:
        raise PreflightError("CHANGELOG.md has no ## Unreleased: write there what has changed")
    lines = text.splitlines(keepends=True)
    number = found[0].line - 1
    lines[number] = lines[number].replace(changelog.UNRELEASED, changelog.heading(version, date), 1)
    return "".join(lines)


def write(
    planned: Sequence[Change], replace: Callable[[Path, Path], object] = Path.replace
) -> None:
    """Write all changes or none; refuse if a file is no longer what the diff showed."""
    for change in planned:
        if read(ROOT / change.path) != change.before:
            raise PreflightError(f"{change.path} has changed meanwhile: look at the diff again")
    done: list[Change] = []
    (ROOT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / "build", prefix="bump-") as place:
        # All is on the disk before the first file gets its name: renaming cannot find it full.
        new, old = stage(Path(place), "new", planned), stage(Path(place), "old", planned)
        try:
            for change in planned:
                done.append(change)
                replace(new[change], ROOT / change.path)
        except BaseException:
            for change in done:
                old[change].replace(ROOT / change.path)
            raise


def stage(place: Path, which: str, planned: Sequence[Change]) -> dict[Change, Path]:
    """Write the texts of one side of the changes into files of a directory, with their modes."""
    files = {}
    for number, change in enumerate(planned):
        path = place / f"{number}.{which}"
        path.write_bytes((change.after if which == "new" else change.before).encode())
        path.chmod((ROOT / change.path).stat().st_mode & 0o777)
        files[change] = path
    return files


def problems(version: Version) -> list[str]:
    """Return what keeps the sources from being the release of a version; empty if nothing does."""
    found = []
    for path, pattern in ((VERSION_HEADER, ML_VERSION), (COPY, COPIED)):
        values = pattern.findall(read(path))
        if values != [str(version)]:
            found.append(f"{path.relative_to(ROOT)} says {' and '.join(values)}, not {version}")
    try:
        section = changelog.find(version)
    except ReleaseError as error:
        return [*found, str(error), *citation.problems(version, None)]
    if not section:
        found.append(f"CHANGELOG.md has no section '## {version} — YYYY-MM-DD'")
    found += citation.problems(version, section.date if section else None)
    page = docs_tables.CHANGELOG_PAGE
    if docs_tables.with_changelog(read(page), read(changelog.PATH)) != read(page):
        found.append(f"{page.relative_to(ROOT)} is stale: python3 scripts/sync_docs.py")
    return found


def disagreements(base: str | None) -> list[str]:
    """Return what a change must not leave behind: the rule for every commit on the main branch."""
    version = versions.current()
    sections = changelog.load()
    newest = max((section.version for section in sections if section.version), default=None)
    if newest and newest > version:
        return [f"CHANGELOG.md has {newest}, but ML_VERSION is {version}"]
    before = version_at(base) if base else version
    if version < before:
        return [f"ML_VERSION is {version}, below {before} at {base}: take that in, or raise it"]
    found = problems(version)
    # Before the first release there is a version, but no section yet.
    if version == before and not newest:
        found = [line for line in found if not line.startswith("CHANGELOG.md has no section")]
    return found


def version_at(base: str) -> Version:
    """Return ML_VERSION at another commit."""
    path = VERSION_HEADER.relative_to(ROOT).as_posix()
    words = ["git", "show", "--end-of-options", f"{base}:{path}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    values = ML_VERSION.findall(done.stdout)
    if done.returncode or len(values) != 1:
        reason = (done.stderr.strip().splitlines() or ["no ML_VERSION"])[0]
        raise PreflightError(f"{base}:{path}: {reason}")
    return versions.parse(values[0])


def propose(version: Version, *, really: bool) -> None:
    """Show the bump to a version, and write it if that is wanted."""
    planned = changes(version)
    print("".join(change.diff() for change in planned), end="")
    if not planned:
        print(f"the sources are those of {version}: nothing to change")
    elif really:
        write(planned)
        print(f"written: {len(planned)} files; commit them as one change")
    else:
        print("nothing is written: add --write for that")


def check(base: str | None) -> None:
    """Fail if the places of the version disagree."""
    found = disagreements(base)
    if found:
        raise PreflightError("\n  ".join(["the version is not the same everywhere:", *found]))
    print(f"{versions.current()}: everything agrees")


def main(argv: Sequence[str] | None = None) -> int:
    """Show or write a bump, or check that the places of the version agree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--version", metavar="X.Y.Z", help="show the bump to this version")
    what.add_argument("--check", action="store_true", help="check that the places agree")
    parser.add_argument("--write", action="store_true", help="with --version: write it")
    parser.add_argument("--base", metavar="REV", help="with --check: the commit to compare with")
    args = parser.parse_args(argv)
    if (args.write and args.check) or (args.base and not args.check):
        parser.error("--write belongs to --version, --base to --check")
    if args.check:
        return exit_code(lambda: check(args.base))
    return exit_code(lambda: propose(versions.parse(args.version), really=args.write))


if __name__ == "__main__":
    sys.exit(main())
