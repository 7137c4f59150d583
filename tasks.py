# SPDX-License-Identifier: MIT
"""What changes something: on this machine, then on GitHub; each is a front end of scripts/.

    .venv/bin/invoke --list
    .venv/bin/invoke build package smoke
    .venv/bin/invoke release --version 0.1.0 --dry-run

The exit codes are those of the tools: 0 done, 2 usage, 3 not ready, 4 not proven, 5 refused by a
service, 75 try the same command later.  What invoke itself cannot read ends with 1.
"""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invoke.collection import Collection
from invoke.exceptions import Exit
from invoke.tasks import task

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

import sync_docs as sync_docs_module
from krafla_release import build as build_module
from krafla_release import doctor as doctor_module
from krafla_release import package as package_module
from krafla_release import smoke as smoke_module

if TYPE_CHECKING:
    from invoke.context import Context

# Letters given out by chance would make -v the version in one task and something else in another.
verb = functools.partial(task, auto_shortflags=False)
ARCHIVE = "a name in packaging/archives.toml (default: this machine's)"
EVERY = "every archive that this machine can build"


def finish(code: int) -> None:
    """End invoke with a tool's exit code."""
    if code:
        raise Exit(code=code)


def tool(name: str) -> Any:
    """Return a module of krafla_release that needs more than who only builds has installed."""
    try:
        return importlib.import_module(f"krafla_release.{name}")
    except ModuleNotFoundError as error:
        remedy = "scripts/bootstrap.sh --for-release"
        raise Exit(f"error: {error.name} is missing: {remedy}", code=3) from None


def chosen(archive: str, *, every: bool) -> list[str]:
    """Return the words that choose archives."""
    return ["--all"] if every else [archive] if archive else []


@verb
def doctor(_: Context) -> None:
    """Show what this machine can do, and what to install for the rest."""
    finish(doctor_module.main([]))


@verb(help={"arch": "x86_64, aarch64 or armv7 (default: this machine's)"})
def build(_: Context, arch: str = "") -> None:
    """Build the programs of every shipped instruction set."""
    finish(build_module.main(["--arch", arch] if arch else []))


@verb(help={"archive": ARCHIVE, "all": EVERY})
def package(_: Context, archive: str = "", *, all: bool = False) -> None:  # noqa: A002
    """Build and make dist/krafla-VERSION-ARCHIVE.tar.gz or .zip."""
    finish(package_module.main(chosen(archive, every=all)))


@verb(help={"archive": ARCHIVE, "all": EVERY})
def smoke(_: Context, archive: str = "", *, all: bool = False) -> None:  # noqa: A002
    """Unpack an archive of dist/ elsewhere and run everything in it."""
    finish(smoke_module.main(chosen(archive, every=all)))


@verb(
    help={
        "version": "X.Y.Z; if the sources are older, the bump is shown and offered",
        "dry-run": "end with the plan; a version that the sources do not have is rehearsed",
        "resume": "go on with the draft that an interrupted run has left",
    }
)
def release(c: Context, version: str = "", *, dry_run: bool = False, resume: bool = False) -> None:
    """Build, prove, publish and document a version as one transaction."""
    dry = dry_run or c.config.run.dry  # invoke's own --dry must not publish
    words = ["--version", version] if version else []
    finish(tool("release").main([*words, *["--dry-run"] * dry, *["--resume"] * resume]))


@verb(
    help={
        "version": "X.Y.Z (default: the newest published one)",
        "dry-run": "only say what would be done",
    }
)
def zenodo_doi(c: Context, version: str = "", *, dry_run: bool = False) -> None:
    """Add the DOI that Zenodo gave a release to its notes."""
    words = ["--version", version] if version else []
    finish(tool("zenodo").main([*words, *["--dry-run"] * (dry_run or c.config.run.dry)]))


@verb(help={"check": "only say what is stale"})
def sync_docs(_: Context, *, check: bool = False) -> None:
    """Refresh the pages and tables of the site that come from data."""
    finish(sync_docs_module.main(["--check"] if check else []))


namespace = Collection(doctor, build, package, smoke, release, zenodo_doi, sync_docs)
