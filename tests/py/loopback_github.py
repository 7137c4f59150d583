# SPDX-License-Identifier: MIT
"""GitHub's releases on 127.0.0.1: drafts, assets with digests, tags, tokens, immutable releases."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable
from typing import Any

from loopback import Answer, Request, Service, as_json

OWNER_NAME = "owner/name"
API, UPLOADS, STORAGE, PUBLIC = "/api", "/uploads", "/storage", "/download"
HOME = f"{API}/repos/{OWNER_NAME}"


@dataclasses.dataclass
class StoredAsset:
    """A file of a release; `state` is "starter" when its upload broke off."""

    id: int
    name: str
    data: bytes
    state: str = "uploaded"


@dataclasses.dataclass
class StoredRelease:
    """A release."""

    id: int
    tag: str
    target: str
    name: str
    body: str
    draft: bool = True
    assets: list[StoredAsset] = dataclasses.field(default_factory=list)


class GitHub(Service):
    """One repository.  `tokens` maps each token to the changing requests it is good for."""

    def __init__(self, commit: str = "c" * 40) -> None:
        super().__init__()
        self.releases: list[StoredRelease] = []
        self.commits = {commit}
        self.tags: dict[str, str] = {}
        self.tokens: dict[str, float] = {"token": float("inf")}
        self.uploads: list[tuple[str, str]] = []  # name and digest of all that was ever stored
        self.page_size = 100
        self.gives_digests = True
        self.lags = 0  # answers about a release that do not show its newest asset yet
        self.said: dict[int, str] = {}  # digests told in place of the true ones, by id
        self.next_id = 100

    @property
    def api(self) -> str:
        """What GITHUB_API_URL must say."""
        return self.url + API

    def new_id(self) -> int:
        """Return an id that nothing has yet."""
        self.next_id += 1
        return self.next_id

    def state(self) -> list[Any]:
        """Return everything that a visitor can tell, without the ids."""
        shown: list[Any] = [dict(sorted(self.tags.items()))]
        for release in self.releases:
            files = sorted((file.name, file.state, file.data) for file in release.assets)
            shown.append((release.tag, release.target, release.name, release.body, release.draft))
            shown.append(files)
        return shown

    def answer(self, request: Request) -> Answer:
        """Check the token and take the route."""
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if token and token not in self.tokens:
            return as_json({"message": "Bad credentials"}, 401)
        if request.method != "GET":
            if not self.tokens.get(token, 0):
                return as_json({"message": "Bad credentials"}, 401 if token else 403)
            self.tokens[token] -= 1
        for method, pattern, handle in self.routes():
            found = re.fullmatch(pattern, request.path)
            if found and method == request.method:
                return handle(request, *found.groups())
        return as_json({"message": "Not Found"}, 404)

    def routes(self) -> list[tuple[str, str, Callable[..., Answer]]]:
        """Return the routes by method and path."""
        return [
            ("GET", f"{HOME}/releases", self.list_releases),
            ("POST", f"{HOME}/releases", self.create),
            ("GET", rf"{HOME}/releases/(\d+)", self.get),
            ("PATCH", rf"{HOME}/releases/(\d+)", self.change),
            ("GET", rf"{HOME}/releases/assets/(\d+)", self.redirect),
            ("DELETE", rf"{HOME}/releases/assets/(\d+)", self.delete),
            ("GET", rf"{HOME}/commits/(.+)", self.commit),
            ("POST", rf"{UPLOADS}/(\d+)/assets", self.upload),
            ("GET", rf"{STORAGE}/(\d+)", self.storage),
            ("GET", rf"{PUBLIC}/([^/]+)/(.+)", self.public),
        ]

    def digest(self, asset: StoredAsset) -> str:
        """Return the digest that is told of an asset."""
        return self.said.get(asset.id) or hashlib.sha256(asset.data).hexdigest()

    def shown_asset(self, release: StoredRelease, asset: StoredAsset) -> dict[str, Any]:
        """Return an asset in GitHub's words."""
        whole = self.gives_digests and asset.state == "uploaded"
        return {
            "id": asset.id,
            "name": asset.name,
            "size": len(asset.data),
            "state": asset.state,
            "digest": f"sha256:{self.digest(asset)}" if whole else None,
            "browser_download_url": f"{self.url}{PUBLIC}/{release.tag}/{asset.name}",
        }

    def shown(self, release: StoredRelease) -> dict[str, Any]:
        """Return a release in GitHub's words."""
        tag = f"untagged-{release.id}" if release.draft else release.tag
        return {
            "id": release.id,
            "tag_name": release.tag,
            "target_commitish": release.target,
            "name": release.name,
            "body": release.body,
            "draft": release.draft,
            "immutable": not release.draft,
            "html_url": f"{self.url}/{OWNER_NAME}/releases/tag/{tag}",
            "upload_url": f"{self.url}{UPLOADS}/{release.id}/assets{{?name,label}}",
            "assets": [self.shown_asset(release, asset) for asset in release.assets],
        }

    def list_releases(self, request: Request) -> Answer:
        """List a page of releases; only writers see drafts."""
        writes = "authorization" in request.headers
        seen = [release for release in self.releases[::-1] if writes or not release.draft]
        size = min(int(request.query["per_page"]), self.page_size)
        page = int(request.query["page"])
        part = seen[size * (page - 1) : size * page]
        answer = as_json([self.shown(release) for release in part])
        if seen[size * page :]:
            answer.headers["Link"] = f'<{self.api}/x?page={page + 1}>; rel="next"'
        return answer

    def create(self, request: Request) -> Answer:
        """Make a release of a commit that was pushed."""
        data = request.json()
        if data["target_commitish"] not in self.commits:
            return as_json({"message": "Validation Failed"}, 422)
        release = StoredRelease(
            self.new_id(),
            data["tag_name"],
            data["target_commitish"],
            data["name"],
            data["body"],
            draft=data["draft"],
        )
        self.releases.append(release)
        return as_json(self.shown(release), 201)

    def of(self, number: str) -> StoredRelease:
        """Return the release with an id."""
        return next(release for release in self.releases if release.id == int(number))

    def get(self, _: Request, number: str) -> Answer:
        """Show one release."""
        data = self.shown(self.of(number))
        if self.lags and data["assets"]:
            self.lags -= 1
            data["assets"].pop()
        return as_json(data)

    def change(self, request: Request, number: str) -> Answer:
        """Change the notes or publish; publishing creates the tag."""
        release, data = self.of(number), request.json()
        if "tag_name" in data:
            return as_json({"message": "the tag is never to be sent"}, 422)
        release.body = data.get("body", release.body)
        if release.draft and data.get("draft") is False:
            release.draft = False
            self.tags.setdefault(release.tag, release.target)
        return as_json(self.shown(release))

    def upload(self, request: Request, number: str) -> Answer:
        """Store a file, of which no other has the name, in a draft."""
        release, name = self.of(number), request.query["name"]
        if not release.draft:
            return as_json({"message": "Cannot upload assets to an immutable release."}, 422)
        if any(asset.name == name for asset in release.assets):
            errors = [{"resource": "ReleaseAsset", "code": "already_exists", "field": "name"}]
            return as_json({"message": "Validation Failed", "errors": errors}, 422)
        asset = StoredAsset(self.new_id(), name, request.body)
        release.assets.append(asset)
        self.uploads.append((name, hashlib.sha256(request.body).hexdigest()))
        return as_json(self.shown_asset(release, asset), 201)

    def broken_off(self, request: Request) -> None:
        """Leave what GitHub leaves of a broken upload: an empty asset that blocks the name."""
        found = re.fullmatch(rf"{UPLOADS}/(\d+)/assets", request.path)
        if found:
            starter = StoredAsset(self.new_id(), request.query["name"], b"", "starter")
            self.of(found[1]).assets.append(starter)

    def asset(self, number: str) -> tuple[StoredRelease, StoredAsset] | None:
        """Return the asset with an id, and its release."""
        for release in self.releases:
            for asset in release.assets:
                if asset.id == int(number):
                    return release, asset
        return None

    def delete(self, _: Request, number: str) -> Answer:
        """Take a file away from a draft."""
        found = self.asset(number)
        if not found:
            return as_json({"message": "Not Found"}, 404)
        release, asset = found
        if not release.draft:
            return as_json({"message": "Cannot delete assets of an immutable release."}, 422)
        release.assets.remove(asset)
        return Answer(204)

    def redirect(self, request: Request, number: str) -> Answer:
        """Point at the storage, which is another host and must not see the token."""
        found = self.asset(number)
        if not found or (found[0].draft and "authorization" not in request.headers):
            return as_json({"message": "Not Found"}, 404)
        where = f"http://localhost:{self.port}{STORAGE}/{number}?signature=secret"
        return Answer(302, b"", {"Location": where})

    def storage(self, request: Request, number: str) -> Answer:
        """Return the bytes of a file."""
        found = self.asset(number)
        assert found
        if "authorization" in request.headers:
            return Answer(400, b"only one of a signature and a token")
        return Answer(200, found[1].data, {"Content-Type": "application/octet-stream"})

    def public(self, request: Request, tag: str, name: str) -> Answer:
        """Return a file of a published release to anybody."""
        assert "authorization" not in request.headers
        for release in self.releases:
            for asset in release.assets:
                if (release.tag, release.draft, asset.name) == (tag, False, name):
                    return Answer(200, asset.data)
        return Answer(404)

    def commit(self, _: Request, reference: str) -> Answer:
        """Tell which commit a name stands for."""
        commit = self.tags.get(reference.removeprefix("tags/"), reference)
        if commit in self.commits:
            return as_json({"sha": commit})
        return as_json({"message": f"No commit found for SHA: {reference}"}, 422)
