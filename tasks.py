# SPDX-License-Identifier: MIT
"""The maintainers' tasks; each is a front end of scripts/krafla_release.

.venv/bin/invoke doctor build package smoke
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from invoke.collection import Collection
from invoke.exceptions import Exit
from invoke.tasks import task

sys.path.insert(0, str(Path(__file__).parent / "scripts"))

from krafla_release import build as build_module
from krafla_release import doctor as doctor_module
from krafla_release import package as package_module
from krafla_release import smoke as smoke_module

if TYPE_CHECKING:
    from invoke.context import Context


def finish(code: int) -> None:
    """End invoke with a tool's exit code."""
    if code:
        raise Exit(code=code)


@task(help={"arch": "x86_64, aarch64 or armv7 (default: this machine's)"})
def build(_: Context, arch: str = "") -> None:
    """Build the programs of every shipped instruction set."""
    finish(build_module.main(["--arch", arch] if arch else []))


@task(help={"archive": "a name in packaging/archives.toml (default: this machine's)"})
def package(_: Context, archive: str = "") -> None:
    """Make dist/krafla-VERSION-ARCHIVE.tar.gz."""
    finish(package_module.main([archive] if archive else []))


@task(help={"archive": "a name in packaging/archives.toml (default: this machine's)"})
def smoke(_: Context, archive: str = "") -> None:
    """Unpack an archive and run everything in it."""
    finish(smoke_module.main([archive] if archive else []))


@task
def doctor(_: Context) -> None:
    """Show what this machine can build, run and test."""
    finish(doctor_module.main([]))


namespace = Collection(build, package, smoke, doctor)
