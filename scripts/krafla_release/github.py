# SPDX-License-Identifier: MIT
"""What a release needs of GitHub's REST interface: releases, their assets, and where a tag points.

    PYTHONPATH=scripts python3 -m krafla_release.github

lists the releases.  GITHUB_API_URL, GITHUB_REPOSITORY and GITHUB_TOKEN are read from the
environment; the token is sent, and never shown or stored.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from krafla_release import http
from krafla_release.project import (
    PreflightError,
    RemoteError,
    TryLaterError,
    VerificationError,
    exit_code,
    facts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import requests

API_URL = "https://api.github.com"
API_VERSION = "2022-11-28"
PAGE = 100  # releases in an answer, the most there may be
PAGES = 100  # more is a server that goes round in circles
ASSET_LIMIT = 2 << 30  # bytes, GitHub's own
NOT_THERE = (404, 422)  # of a commit: no such name, no such hash
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
LONGEST_LINE = 1000  # characters of a name or an address in GitHub's answers
STORED = "uploaded"  # the state of an asset that is whole


@dataclasses.dataclass(frozen=True)
class Asset:
    """One file of a release; `digest` is empty where GitHub has not computed it."""

    id: int
    name: str
    size: int
    state: str
    digest: str
    browser_url: str

    @property
    def whole(self) -> bool:
        """Whether the upload has ended well; a broken one leaves an entry behind."""
        return self.state == STORED and self.size > 0


@dataclasses.dataclass(frozen=True)
class Release:
    """A release as GitHub knows it; a draft has no tag yet, only the name it will get."""

    id: int
    tag: str
    target: str
    body: str
    draft: bool
    page: str
    upload_url: str
    assets: tuple[Asset, ...]


@contextlib.contextmanager
def described(what: str) -> Iterator[None]:
    """Take JSON of another form than GitHub's for an outage."""
    try:
        yield
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise TryLaterError(f"GitHub described {what} in another form: {error}") from None


def line_of(value: Any) -> str:
    """Return a text that is shown and compared; GitHub has none with control codes in it."""
    text = str(value)
    if not text.isprintable() or len(text) > LONGEST_LINE:
        raise ValueError(f"{text[:20]!r} is no name or address")
    return text


def asset_of(data: Any) -> Asset:
    """Return an asset from GitHub's JSON."""
    with described("a file"):
        digest = str(data.get("digest") or "")
        found = re.fullmatch(r"sha256:([0-9a-f]{64})", digest)
        return Asset(
            id=int(data["id"]),
            name=line_of(data["name"]),
            size=int(data["size"]),
            state=str(data["state"]),
            digest=found[1] if found else "",
            browser_url=line_of(data["browser_download_url"]),
        )


def release_of(data: Any) -> Release:
    """Return a release from GitHub's JSON."""
    with described("a release"):
        return Release(
            id=int(data["id"]),
            tag=line_of(data["tag_name"]),
            target=line_of(data["target_commitish"]),
            body=str(data["body"] or ""),
            draft=bool(data["draft"]),
            page=line_of(data["html_url"]),
            upload_url=line_of(data["upload_url"]).partition("{")[0],
            assets=tuple(asset_of(asset) for asset in data["assets"]),
        )


class Client:
    """One repository on GitHub."""

    def __init__(
        self,
        repository: str,
        token: str = "",
        api_url: str = API_URL,
        pause: float = 1.0,
        tries: int = http.TRIES,
    ) -> None:
        self.repository, self.token = repository, token
        self.api = f"{api_url}/repos/{repository}"
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION}
        self.session = http.session(headers, pause, tries)
        if token:
            # Not a header of the session: .netrc would win over that.
            self.session.auth = self.authorize
        self.anonymous = http.session(pause=pause, tries=tries)
        self.digests: dict[int, str] = {}  # of assets, by id, where GitHub gives none

    def authorize(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the token to a request; requests drops it when another host is pointed at."""
        request.headers["Authorization"] = f"Bearer {self.token}"
        return request

    def ask(self, method: str, path: str, **options: Any) -> Any:
        """Return the JSON of an answer."""
        return http.json_of(self.allowed(self.session.request(method, self.api + path, **options)))

    def allowed(self, answer: requests.Response) -> requests.Response:
        """Return an answer unless it says that the token is not good enough."""
        code = answer.status_code
        if code == 401 or (code == 403 and not http.is_limit(answer)):
            what = "GITHUB_TOKEN" if self.token else "asking without GITHUB_TOKEN"
            raise RemoteError(
                f"GitHub does not accept {what} ({code}) for {answer.request.method} "
                f"{http.shown(answer.url)}: it needs contents: write for {self.repository} and "
                "must not have expired; then go on with --resume"
            )
        return answer

    def releases(self) -> list[Release]:
        """Return all releases, newest first, with the drafts if the token may see them."""
        found: dict[int, Release] = {}  # by id: one that moves to the next page is seen twice
        for page in range(1, PAGES + 1):
            url = f"{self.api}/releases"
            answer = self.allowed(
                self.session.get(url, params={"per_page": str(PAGE), "page": str(page)})
            )
            data = http.json_of(answer)
            if not isinstance(data, list):
                raise TryLaterError(f"{url}: wanted a list of releases")
            found |= {release.id: release for release in map(release_of, data)}
            if "next" not in answer.links:
                return list(found.values())
        raise RemoteError(f"{self.api}/releases has no last page")

    def find(self, tag: str) -> Release | None:
        """Return the release of a tag, draft or not; releases/tags/TAG does not show drafts."""
        return only(self.releases(), tag)

    def get(self, number: int) -> Release:
        """Return a release by its id: what was just made may be missing in the list for a while."""
        return release_of(self.ask("GET", f"/releases/{number}"))

    def commit_of(self, reference: str) -> str | None:
        """Return the commit that a hash, or tags/NAME, stands for; None if GitHub has none."""
        answer = self.session.get(f"{self.api}/commits/{quote(reference)}")
        if answer.status_code in NOT_THERE:
            return None
        with described("a commit"):
            return line_of(http.json_of(self.allowed(answer))["sha"])

    def create_draft(self, tag: str, commit: str, title: str, body: str) -> Release:
        """Make a draft; publishing it will create the tag at the commit."""
        wanted = {"tag_name": tag, "target_commitish": commit, "name": title, "body": body}
        return release_of(self.ask("POST", "/releases", json={**wanted, "draft": True}))

    def upload(self, release: Release, name: str, data: bytes) -> Asset:
        """Add a file to a release; GitHub refuses a second one of the same name."""
        if not NAME.fullmatch(name):
            raise VerificationError(f"{name!r} would get another name on GitHub")
        check_upload_url(self.api, release.upload_url)
        headers = {"Content-Type": "application/octet-stream"}
        answer = self.session.post(
            release.upload_url, params={"name": name}, data=data, headers=headers
        )
        if answer.status_code == 422 and "already_exists" in answer.text:
            raise TryLaterError(f"{name}: there is an asset of this name already")
        return asset_of(http.json_of(self.allowed(answer)))

    def delete_asset(self, number: int) -> None:
        """Take a file away from a release; one that is gone already is no failure."""
        answer = self.session.delete(f"{self.api}/releases/assets/{number}")
        if answer.status_code != 404:
            http.check(self.allowed(answer))

    def edit(self, release: Release, body: str) -> Release:
        """Change the notes of a release."""
        return release_of(self.ask("PATCH", f"/releases/{release.id}", json={"body": body}))

    def publish(self, release: Release) -> Release:
        """Make a draft public: with immutable releases this is the last change of its files."""
        wanted = {"draft": False, "make_latest": "true"}
        return release_of(self.ask("PATCH", f"/releases/{release.id}", json=wanted))

    def download(self, asset: Asset, limit: int = ASSET_LIMIT) -> bytes:
        """Return a file of a release, be it a draft."""
        url = f"{self.api}/releases/assets/{asset.id}"
        return self.session.fetch(url, limit, headers={"Accept": "application/octet-stream"})

    def download_public(self, asset: Asset, limit: int = ASSET_LIMIT) -> bytes:
        """Return a file of a published release as anybody gets it, without a token."""
        try:
            return self.anonymous.fetch(asset.browser_url, limit)
        except RemoteError as error:  # right after publishing, not every server knows the file
            raise TryLaterError(str(error)) from None

    def digest(self, asset: Asset) -> str:
        """Return the SHA-256 of a file of a release; it is fetched where GitHub gives none."""
        if asset.digest:
            return asset.digest
        if asset.id not in self.digests:
            self.digests[asset.id] = hashlib.sha256(self.download(asset)).hexdigest()
        return self.digests[asset.id]


def only(releases: Iterable[Release], tag: str) -> Release | None:
    """Return the release of a tag; several, which GitHub allows for drafts, are refused."""
    found = [release for release in releases if release.tag == tag]
    if len(found) > 1:
        which = ", ".join(f"{release.id} ({release.page})" for release in found)
        raise RemoteError(f"GitHub has {len(found)} releases {tag}: {which}; delete all but one")
    return found[0] if found else None


def check_upload_url(api: str, url: str) -> None:
    """Fail if files, and the token, would go to a host that is not of this GitHub."""
    home, there = urlsplit(api), urlsplit(url)
    host = (home.hostname or "").removeprefix("api.")
    if there.scheme != home.scheme or there.hostname not in (home.hostname, f"uploads.{host}"):
        raise RemoteError(f"GitHub wants uploads at {http.shown(url)}, which is not {host}")


def token() -> str:
    """Return GITHUB_TOKEN, or nothing; its value is never shown."""
    found = os.environ.get("GITHUB_TOKEN", "").strip()
    if not re.fullmatch(r"[\x21-\x7e]*", found):
        raise PreflightError("GITHUB_TOKEN holds characters that no token has")
    return found


def from_environment(pause: float = 1.0, tries: int = http.TRIES) -> Client:
    """Return the client that the environment asks for, by default the project's repository."""
    repository = os.environ.get("GITHUB_REPOSITORY") or facts()["repository"]
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9-]*/(?!\.{1,2}$)[A-Za-z0-9._-]+", repository):
        raise PreflightError(f"GITHUB_REPOSITORY is {repository!r}, expected OWNER/NAME")
    return Client(repository, token(), http.address("GITHUB_API_URL", API_URL), pause, tries)


def main(argv: Sequence[str] | None = None) -> int:
    """List the releases."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.parse_args(argv)

    def work() -> None:
        for release in from_environment().releases():
            kind = "draft" if release.draft else "published"
            print(f"{release.tag:12} {kind:10} {len(release.assets):2} files  {release.page}")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
