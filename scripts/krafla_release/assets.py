# SPDX-License-Identifier: MIT
"""The files of a release: their names in order, how they are made, checked and proven.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.assets dist/v0.1.0

Archives, wheels and Debian packages come from packaging/archives.toml: a new row there brings all
three.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import (
    archives,
    checksums,
    deb,
    doctor,
    installer,
    sbom,
    smoke,
    wheel,
)
from krafla_release import build as building
from krafla_release import package as packing
from krafla_release.project import ROOT, exit_code, run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from krafla_release.archives import Archive

# What must be there to make and prove every file on one x86-64 machine.
COMPILERS = ("gcc", "aarch64-linux-gnu-gcc", "arm-linux-gnueabihf-gcc")
TOOLS = (
    *("make", "git", "curl", "busybox", "dpkg-deb", "fakeroot", "lintian"),
    *("qemu-x86_64", "qemu-aarch64", "qemu-arm", "wine"),
)
MODULES = ("check_jsonschema", "hatchling", "jinja2", "numpy", "requests")
REMEDY = "scripts/bootstrap.sh --for-release"
PYTHONPATH = {"PYTHONPATH": str(ROOT / "scripts")}


def linux() -> list[Archive]:
    """Return the archives that also come as a wheel and as a Debian package."""
    return [archive for archive in archives.load() if archive.system == "linux"]


def contents() -> list[str]:
    """Return the names of the files that users install, in order."""
    names = [packing.path_of(archive).name for archive in archives.load()]
    names += [wheel.file_name(archive) for archive in linux()]
    names += [deb.file_name(archive) for archive in linux()]
    return [*names, installer.FILE_NAME]


def expected() -> list[str]:
    """Return the names of all files of a release, in order."""
    return [*contents(), sbom.file_name(), checksums.FILE_NAME]


def tool_versions() -> dict[str, str]:
    """Return the versions of what decides over the bytes; a tool that is missing has none."""
    found = {name: doctor.first_line(name) for name in compilers() if shutil.which(name)}
    return found | {"python": sys.version.split()[0]}


def compilers() -> list[str]:
    """Return the compilers of all archives."""
    return [*COMPILERS, building.MINGW + (building.mingw_compiler() or "gcc")]


def missing_tools() -> list[str]:
    """Return what a release needs and this machine lacks."""
    lacking = [tool for tool in (*compilers(), *TOOLS) if not shutil.which(tool)]
    return lacking + [name for name in MODULES if not importlib.util.find_spec(name)]


def build(directory: Path) -> list[str]:  # noqa: ARG001  (every step has the same form)
    """Build the programs of every archive; they stay in build/."""
    for archive in archives.load():
        building.build_arch(archive.arch, archive.system)
    return []


def audit(directory: Path) -> list[str]:  # noqa: ARG001
    """Look for instructions and segments that no program may have, in every build of an archive."""
    rows = [
        (archive, isa)
        for archive in archives.load()
        for isa in isas.load(archive.arch, built=True, ship=True)
    ]
    first = archives.programs()[0]
    builds = [building.program_file(isa, first, archive.system).parent for archive, isa in rows]
    names = [build.name for build in builds]
    run(sys.executable, "-m", "krafla_release.audit", *names, env=PYTHONPATH)
    return []


def package(directory: Path) -> list[str]:
    """Write what users install."""
    for archive in archives.load():
        packing.package(archive, directory)
    for archive in linux():
        wheel.package(archive, directory)
        deb.package(archive, directory)
    installer.package(directory)
    return contents()


def check(directory: Path) -> list[str]:
    """Read the archives back and compare them with their contracts; the pages must be fresh."""
    for archive in archives.load():
        digest = packing.check_packed(archive, directory)
        print(f"{packing.path_of(archive).name}: as agreed, content {digest}")
    run(sys.executable, "scripts/sync_docs.py", "--check")
    return []


def prove(directory: Path) -> list[str]:
    """Unpack or install every file, and run what is inside."""
    for archive in archives.load():
        smoke.smoke(archive, directory)
    for archive in linux():
        wheel.smoke(archive, directory)
        deb.smoke(archive, directory)
    installer.smoke(directory)
    return []


def seal(directory: Path) -> list[str]:
    """Write the bill of materials and SHA256SUMS, which lists all other files."""
    bill = sbom.package(directory, contents())
    sums = checksums.write(directory, [*contents(), bill.name])
    return [bill.name, sums.name]


def make(directory: Path) -> None:
    """Make all files of a release."""
    build(directory)
    package(directory)
    check(directory)
    seal(directory)


def main(argv: Sequence[str] | None = None) -> int:
    """Make all files of a release in a directory."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("directory", type=Path, help="where to write them")
    args = parser.parse_args(argv)
    return exit_code(lambda: make(args.directory))


if __name__ == "__main__":
    sys.exit(main())
