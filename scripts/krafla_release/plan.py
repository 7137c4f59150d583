# SPDX-License-Identifier: MIT
"""Compare a release as it should be with the one on GitHub: what is to be done, and in which order.

    PYTHONPATH=scripts python3 -m krafla_release.release --version 0.1.0 --dry-run

shows a plan and writes it to dist/v0.1.0/plan.json.  Nothing here asks or changes anything.
"""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from krafla_release.project import PreflightError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from krafla_release.github import Asset, Release

FILE_NAME = "plan.json"
DRAFT, NOTES, DELETE, UPLOAD = "draft", "notes", "delete", "upload"
VERIFY, PUBLISH, DOI = "verify", "publish", "doi"


@dataclasses.dataclass(frozen=True)
class File:
    """A file that the release must have."""

    name: str
    size: int
    digest: str


@dataclasses.dataclass(frozen=True)
class Wanted:
    """The release as it should be."""

    tag: str
    commit: str
    title: str
    body: str
    files: tuple[File, ...]

    def file(self, name: str) -> File | None:
        """Return the file of a name."""
        return next((file for file in self.files if file.name == name), None)


@dataclasses.dataclass(frozen=True)
class Action:
    """One thing to do on GitHub or Zenodo."""

    kind: str
    what: str
    why: str
    asset: int = 0  # the id of the asset that is deleted


def actions(wanted: Wanted, found: Release | None, digest: Callable[[Asset], str]) -> list[Action]:
    """Return what is missing until the release is published as it should be, in order.

    `digest` tells the SHA-256 of a whole asset.
    """
    if found and not found.draft:
        check_published(wanted, found, digest)
        return []
    todo = []
    if not found:
        todo.append(Action(DRAFT, wanted.tag, "no release of this tag yet"))
        right = set[str]()
    else:
        check_commit(found, wanted.commit)
        if found.body.replace("\r\n", "\n").strip() != wanted.body.strip():
            todo.append(Action(NOTES, wanted.tag, "the draft's are not those of CHANGELOG.md"))
        wrong = {asset: fault_of(wanted, asset, digest) for asset in found.assets}
        todo += [Action(DELETE, asset.name, why, asset.id) for asset, why in wrong.items() if why]
        right = {asset.name for asset, why in wrong.items() if not why}
    todo += [
        Action(UPLOAD, file.name, f"{file.size} bytes, sha256 {file.digest[:12]}")
        for file in wanted.files
        if file.name not in right
    ]
    everything = f"{len(wanted.files)} files"
    todo.append(Action(VERIFY, everything, "downloaded again, compared with SHA256SUMS"))
    todo.append(Action(PUBLISH, wanted.tag, f"creates the tag at {wanted.commit[:12]}"))
    return todo


def check_commit(draft: Release, commit: str) -> None:
    """Fail unless a draft is one of this commit, which only this program makes."""
    if draft.target != commit:
        raise PreflightError(
            f"{draft.page} is a draft of {draft.target}, not of {commit}: go on from that commit,"
            " or delete the draft"
        )


def fault_of(wanted: Wanted, asset: Asset, digest: Callable[[Asset], str]) -> str:
    """Return what is wrong with an asset; empty if it is as it should be."""
    file = wanted.file(asset.name)
    if file is None:
        return "is no file of this release"
    if not asset.whole:
        return "its upload broke off"
    return "" if digest(asset) == file.digest else "has other bytes"


def check_published(wanted: Wanted, found: Release, digest: Callable[[Asset], str]) -> None:
    """Fail unless a published release has exactly the wanted files: it is never changed."""
    names = {asset.name for asset in found.assets}
    faults = [f"{file.name} is missing" for file in wanted.files if file.name not in names]
    for asset in found.assets:
        fault = fault_of(wanted, asset, digest)
        if fault:
            faults.append(f"{asset.name} {fault}")
    if faults:
        raise VerificationError(
            f"{found.page} is published and is never changed, but what was made here differs; "
            f"raise the version. {', '.join(faults)}"
        )


def table(todo: Sequence[Action]) -> str:
    """Return a plan as people read it."""
    if not todo:
        return "  nothing to do\n"
    width = max(len(action.what) for action in todo)
    return "".join(f"  {action.kind:8} {action.what:{width}}  {action.why}\n" for action in todo)


def as_json(wanted: Wanted, repository: str, todo: Sequence[Action]) -> str:
    """Return a plan as programs read it."""
    files = [dataclasses.asdict(file) for file in wanted.files]
    shown = {
        "repository": repository,
        "tag": wanted.tag,
        "commit": wanted.commit,
        "title": wanted.title,
        "body": wanted.body,
        "files": files,
        "actions": [dataclasses.asdict(action) for action in todo],
    }
    return json.dumps(shown, indent=2) + "\n"
