# SPDX-License-Identifier: MIT
"""Find the DOI that Zenodo gave a release, and add it to the release notes on GitHub.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.zenodo --version 0.1.0 --dry-run

Zenodo archives a published release by itself, minutes to hours later, and needs no token to be
asked.  Until then the exit code is 75: the same command later goes on.  A second run changes
nothing.  GITHUB_TOKEN must be allowed to write releases, but not for --dry-run.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import re
import sys
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from krafla_release import github, http, notes, preflight, versions
from krafla_release.project import (
    PreflightError,
    RemoteError,
    TryLaterError,
    VerificationError,
    exit_code,
    facts,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from krafla_release.versions import Version

API_URL = "https://zenodo.org/api"
PAGE = 25  # records in an answer, the most that Zenodo gives those who do not log in
PAGES = 40  # a thousand versions
MINUTE = 60.0
PAUSES = (1 * MINUTE, 2 * MINUTE, 4 * MINUTE, 8 * MINUTE, 15 * MINUTE)  # the last one again
LONGEST = 120 * MINUTE  # a release that is not archived by then is looked at by a person


@dataclasses.dataclass(frozen=True)
class Record:
    """One version as Zenodo describes it."""

    doi: str
    title: str
    version: str
    related: tuple[str, ...]


def api_url() -> str:
    """Return where to ask: ZENODO_API_URL, or Zenodo itself."""
    return http.address("ZENODO_API_URL", API_URL)


def version_doi(version: Version, session: http.Session | None = None) -> str | None:
    """Return the DOI of a version, or None while Zenodo does not know it yet."""
    return chosen(version, list(records(session or http.session())))


def records(session: http.Session) -> Iterator[Record]:
    """Return the versions that Zenodo lists under the concept DOI, newest first."""
    # conceptdoi is a name that Zenodo translates; its "version" would be a number of its own.
    query = {
        "q": f'conceptdoi:"{facts()["concept_doi"]}"',
        "all_versions": "true",
        "sort": "newest",
        "size": str(PAGE),
    }
    seen = 0
    for page in range(1, PAGES + 1):
        url = f"{api_url()}/records?{urlencode({**query, 'page': str(page)})}"
        total, found = hits_of(session.fetch(url, http.ANSWER_LIMIT))
        for hit in found:
            record = record_of(hit)
            if record:
                yield record
        seen += len(found)
        if not found or seen >= total:
            return
    raise RemoteError(f"Zenodo lists more than {seen} versions")


def hits_of(answer: bytes) -> tuple[int, list[Any]]:
    """Return how many records there are in all, and those of this answer.

    A page in place of JSON is an outage, whatever its status said.
    """
    try:
        hits = json.loads(answer)["hits"]
        total, found = int(hits["total"]), hits["hits"]
    except (KeyError, OverflowError, TypeError, ValueError, RecursionError):
        total, found = 0, None
    if not isinstance(found, list):
        start = answer[:60].decode(errors="replace")
        raise TryLaterError(f"Zenodo answered with something that is no list of records: {start!r}")
    return total, found


def record_of(hit: Any) -> Record | None:
    """Return a record, unless it is not one of this project's published versions."""
    if not isinstance(hit, dict) or hit.get("conceptdoi") != facts()["concept_doi"]:
        return None
    doi, metadata = hit.get("doi"), hit.get("metadata")
    if not isinstance(doi, str) or not isinstance(metadata, dict):
        return None
    if not notes.DOI.fullmatch(doi) or doi == facts()["concept_doi"]:
        return None
    related = metadata.get("related_identifiers")
    entries = related if isinstance(related, list) else []
    identifiers = [entry.get("identifier") for entry in entries if isinstance(entry, dict)]
    return Record(
        doi=doi,
        title=str(metadata.get("title", "")),
        version=str(metadata.get("version", "")),
        related=tuple(text for text in identifiers if isinstance(text, str)),
    )


def chosen(version: Version, found: list[Record]) -> str | None:
    """Return the DOI of a version's only record, by the surest sign that any record has."""
    home = f"//github.com/{facts()['repository']}/tree/{version.tag}".lower()
    named = re.compile(rf"(?<![\w.]){re.escape(version.tag)}(?![\w-]|\.\d)")
    signs: tuple[Callable[[Record], bool], ...] = (
        lambda record: any(text.lower().endswith(home) for text in record.related),
        lambda record: record.version in (version.tag, str(version)),
        lambda record: bool(named.search(record.title)),
    )
    for sign in signs:
        dois = sorted({record.doi for record in found if sign(record)})
        if len(dois) > 1:
            raise VerificationError(
                f"Zenodo has {len(dois)} records of {version.tag}, {' and '.join(dois)}: "
                "decide which one is right and write it into the release notes by hand"
            )
        if dois:
            return dois[0]
    return None


def wait(
    version: Version,
    session: http.Session | None = None,
    *,
    sleep: Callable[[float], object] = time.sleep,
    longest: float = LONGEST,
) -> str | None:
    """Return the DOI of a version as soon as Zenodo has it; None if that takes too long.

    An interruption by the keyboard leaves nothing behind: the next call starts over.
    """
    session = session or http.session()
    waited = 0.0
    for number in itertools.count():
        why, asked = "not archived yet", 0.0
        try:
            doi = version_doi(version, session)
            if doi:
                return doi
        except TryLaterError as error:
            why, asked = str(error), http.asked_of(error)
        pause = max(PAUSES[min(number, len(PAUSES) - 1)], asked)
        if waited + pause > longest:
            break
        print(f"Zenodo, {version.tag}: {why}; asking again in {pause / MINUTE:.0f} min", flush=True)
        sleep(pause)
        waited += pause
    return None


def pending(version: Version) -> TryLaterError:
    """Return the error for a DOI that is not there yet; it says what to do."""
    return TryLaterError(
        f"Zenodo has no DOI for {version.tag} yet. It takes minutes to hours after a release is "
        f"published: then run invoke zenodo-doi --version {version}. If it is not there the next "
        f"day, look at {facts()['repository']} under https://zenodo.org/account/settings/github/"
    )


def add(client: github.Client, version: Version, doi: str, *, dry_run: bool = False) -> bool:
    """Put a version's DOI into its release notes and return whether that changed them."""
    release = published(client, version)
    body = notes.with_doi(release.body, doi)
    if body == release.body:
        print(f"{release.page}: names {doi} already, nothing to do")
        return False
    if dry_run:
        print(f"{release.page}: would name {doi}")
        return False
    try:
        client.edit(release, body)
    except TryLaterError as error:
        if http.asked_of(error) > http.LONGEST_WAIT:  # refused, so it was not done
            raise
        print(f"{error}: looking whether it was done", file=sys.stderr)
    # There is no precondition in GitHub's interface: whoever wrote last is looked up.
    after = published(client, version).body
    if after.replace("\r\n", "\n") != body.replace("\r\n", "\n"):
        raise TryLaterError(
            f"{release.page}: the notes are not what was written, somebody may have edited them "
            "at the same time: run the same command again"
        )
    print(f"{release.page}: names {doi}")
    return True


def published(client: github.Client, version: Version) -> github.Release:
    """Return a version's release; fail if it is not public."""
    release = client.find(version.tag)
    if not release or release.draft:
        what = "is a draft" if release else "is not there"
        raise PreflightError(
            f"release {version.tag} of {client.repository} {what}: "
            f"invoke release --version {version} --resume publishes it"
        )
    return release


def newest(client: github.Client) -> Version | None:
    """Return the newest version that is published, if any is."""
    return max(preflight.published_versions(client.releases()), default=None)


def main(argv: Sequence[str] | None = None, pause: float = 1.0, tries: int = http.TRIES) -> int:
    """Add the DOI of a version to its release notes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", metavar="X.Y.Z", help="default: the newest published one")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be done")
    args = parser.parse_args(argv)

    def work() -> None:
        client = github.from_environment(pause, tries)
        version = versions.parse(args.version) if args.version else newest(client)
        if not version:
            print(f"{client.repository} has published no version yet: nothing to do")
            return
        published(client, version)
        doi = version_doi(version, http.session(pause=pause, tries=tries))
        if not doi:
            raise pending(version)
        add(client, version, doi, dry_run=args.dry_run)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
