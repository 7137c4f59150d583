# SPDX-License-Identifier: MIT
"""Fetch a Python of another architecture, with cffi, for the emulator to run.

    PYTHONPATH=scripts python3 -m krafla_release.sysroot aarch64 armv7

The packages are Debian's, fetched by apt-get as this machine's sources.list says, into a package
database of their own: nothing is installed, and no root is needed.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release.project import ROOT, ReleaseError, exit_code, run

if TYPE_CHECKING:
    from collections.abc import Sequence

DEBIAN = {"aarch64": "arm64", "armv7": "armhf"}
PACKAGES = ("python3-minimal", "python3-cffi", "busybox-static")
PYTHON = Path("usr/bin/python3")


def path(arch: str) -> Path:
    """Return where the Python of an architecture is, or would be."""
    return ROOT / "build" / f"sysroot-{arch}"


def download(arch: str, place: Path) -> list[Path]:
    """Fetch the packages and what they depend on."""
    for name in ("lists/partial", "archives/partial"):
        (place / name).mkdir(parents=True)
    (place / "status").touch()
    options = {
        "APT::Architecture": DEBIAN[arch],
        "APT::Architectures": DEBIAN[arch],
        "APT::Sandbox::User": "",
        "Dir::State": str(place),
        "Dir::State::status": str(place / "status"),
        "Dir::Cache": str(place),
        "Debug::NoLocking": "true",
    }
    words = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    with contextlib.suppress(ReleaseError):  # of one list of several; install says what is missing
        run(*words, "update")
    run(*words, "install", "--download-only", "--yes", "--no-install-recommends", *PACKAGES)
    return sorted((place / "archives").glob("*.deb"))


def make(arch: str) -> None:
    """Fetch and unpack, unless that was done."""
    root = path(arch)
    if (root / PYTHON).exists():
        print(f"{root.relative_to(ROOT)} is there")
        return
    with tempfile.TemporaryDirectory(prefix="krafla-sysroot-") as temporary:
        unpacked = Path(temporary) / "root"
        for package in download(arch, Path(temporary)):
            run("dpkg-deb", "-x", package, unpacked)
        if not (unpacked / PYTHON).exists():
            raise ReleaseError(f"the packages hold no {PYTHON}: are the sources Debian's?")
        part = root.with_name(f"{root.name}.part")
        for left in (part, root):
            shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(unpacked, part, symlinks=True)
        part.replace(root)  # which counts as whole from here on


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch the Pythons of the named architectures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("arch", nargs="+", choices=sorted(DEBIAN))
    args = parser.parse_args(argv)

    def work() -> None:
        for arch in args.arch:
            make(arch)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
