# SPDX-License-Identifier: MIT
"""Look, before anything is built, at all that would stop a release later; nothing is changed.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.release --version 0.1.0 --dry-run

names all faults of the sources and of this machine at once, then those of what GitHub has already.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from krafla_release import assets, bump, doctor, github, plan, versions
from krafla_release.project import ROOT, PreflightError, ReleaseError, output

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from krafla_release.github import Client, Release
    from krafla_release.versions import Version

MAIN = "main"
SHOWN = 3  # changed files that a message names


def check(faults: Iterable[str]) -> None:
    """Fail with every fault that was found."""
    found = list(faults)
    if found:
        raise PreflightError("\n  ".join(["not ready for a release:", *found]))


def source_faults(version: Version) -> list[str]:
    """Return what is wrong with the checkout."""
    faults = bump.problems(version) + uncommitted_faults()
    if not on_main():
        faults.append(f"HEAD is not on {MAIN}: releases are made of what was merged")
    return faults


def uncommitted_faults() -> list[str]:
    """Return which files differ from the commit."""
    changed = output("git", "status", "--porcelain").splitlines()
    if not changed:
        return []
    names = ", ".join(line[2:].strip() for line in changed[:SHOWN])
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return [f"not committed: {names}{more}"]


def check_unchanged(commit: str, step: str) -> None:
    """Fail if the checkout is no longer what a step began with: its files are of no commit then."""
    faults = uncommitted_faults()
    head = output("git", "rev-parse", "HEAD")
    if head != commit:
        faults.insert(0, f"HEAD was {commit} and is {head}: go back to it, or start again from it")
    if faults:
        first = f"the checkout changed while {step} ran, leave it alone until the end:"
        raise PreflightError("\n  ".join([first, *faults]))


def on_main() -> bool:
    """Return whether HEAD is on the main branch, here or at origin."""
    holding = output("git", "branch", "--all", "--contains", "HEAD", "--format=%(refname)")
    wanted = {f"refs/heads/{MAIN}", f"refs/remotes/origin/{MAIN}"}
    return bool(wanted & set(holding.splitlines()))


def machine_faults(directory: Path) -> list[str]:
    """Return what this machine lacks for making everything."""
    missing = assets.missing_tools()
    faults = [f"missing: {', '.join(missing)}: run {assets.REMEDY}"] if missing else []
    return faults + disk_faults(directory)


def disk_faults(directory: Path) -> list[str]:
    """Return whether the files would not fit."""
    there = next(path for path in (directory, *directory.parents) if path.exists())
    free = min(shutil.disk_usage(path).free for path in (ROOT, there)) / 2**30
    if free >= doctor.FREE_GIB:
        return []
    return [f"{free:.1f} GiB free, want {doctor.FREE_GIB}: building and proving need that"]


def published_versions(releases: Iterable[Release]) -> list[Version]:
    """Return the versions that were published; a tag of another form is somebody else's."""
    return tagged(release.tag for release in releases if not release.draft)


def local_versions() -> list[Version]:
    """Return the versions of the tags in this checkout."""
    return tagged(output("git", "tag", "--list", "v*").split())


def tagged(tags: Iterable[str]) -> list[Version]:
    """Return the versions of tags vX.Y.Z."""
    found = []
    for tag in tags:
        try:
            found.append(versions.parse(tag.removeprefix("v")))
        except ReleaseError:
            continue
    return found


def order_faults(version: Version, released: Iterable[Version]) -> list[str]:
    """Return whether a later version was released already."""
    last = max(released, default=None)
    if last and last > version:
        return [f"{last} is released already, {version} would be older: raise the version"]
    return []


def remote_faults(
    client: Client, version: Version, commit: str, *, dry_run: bool, resume: bool
) -> list[str]:
    """Return what stands in the way on GitHub."""
    releases = client.releases()
    faults = order_faults(version, published_versions(releases))
    tagged_commit = client.commit_of(f"tags/{version.tag}")
    if tagged_commit not in (None, commit):
        faults.append(f"{version.tag} is the tag of {tagged_commit}, not of {commit}")
    draft = github.only(releases, version.tag)
    if draft and draft.draft:
        plan.check_commit(draft, commit)
        if not (dry_run or resume):
            faults.append(f"an earlier run has made the draft {draft.page}: go on with --resume")
    if not dry_run and client.commit_of(commit) != commit:
        faults.append(f"{client.repository} does not have {commit}: push it first")
    return faults
