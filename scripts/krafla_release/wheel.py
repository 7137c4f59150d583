# SPDX-License-Identifier: MIT
"""Make the Python wheels with the native libraries: one for each Linux archive, same bytes always.

    PYTHONPATH=scripts python3 -m krafla_release.wheel linux-x86_64

A wheel holds the package of runtime/python and a libkrafla of every shipped row, of which the
package loads the fastest that fits.  It needs no compiler, and no newer C library than its name
says.  --smoke installs the wheels that are there and runs them: those of other architectures by an
emulated Python, which krafla_release.sysroot fetches.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import audit, build, wheel_smoke
from krafla_release import package as packing
from krafla_release.project import (
    ROOT,
    ReleaseError,
    VerificationError,
    run,
    source_date_epoch,
    version,
    write_atomically,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from krafla_release.archives import Archive

# The newest glibc that a library may need; it is in the file's name.  Debian 12's compilers bind to
# 2.34 at the most (pthread_create), which Ubuntu 22.04 and RHEL 9 have, too.
GLIBC = (2, 34)
PLATFORMS = {"x86_64": "x86_64", "aarch64": "aarch64", "armv7": "armv7l"}  # as Python spells them
ELF_MACHINES = {"x86_64": 62, "aarch64": 183, "armv7": 40}
SOURCE = ROOT / "runtime" / "python" / "krafla"
HEADER = ROOT / "runtime" / "include" / "krafla.h"


def tag(archive: Archive) -> str:
    """Return what a wheel runs on, in the words of PEP 600."""
    major, minor = GLIBC
    return f"py3-none-manylinux_{major}_{minor}_{PLATFORMS[archive.arch]}"


def file_name(archive: Archive) -> str:
    """Return the name of an archive's wheel."""
    if archive.system != "linux":
        raise ReleaseError(f"{archive.name}: wheels are made for Linux only")
    return f"krafla-{version()}-{tag(archive)}.whl"


def library(isa: isas.Isa) -> Path:
    """Return where the Makefile puts a row's library."""
    return build.build_dir(isa) / "libkrafla.so"


def symbol_faults(symbols: str, declared: set[str]) -> Iterator[str]:
    """Yield what is wrong with a library's symbols, from what readelf says of them."""
    rows = [line.split() for line in symbols.splitlines() if re.match(r" *\d+: ", line)]
    # number, value, size, type, binding, visibility, section, name, number of the version
    found = [(row[7], row[6]) for row in rows if len(row) > 7 and row[4] == "GLOBAL"]
    exported = {name for name, section in found if section != "UND"}
    for name in sorted(exported ^ declared):
        yield f"{name} is {'exported' if name in exported else 'declared'} only"
    for name in (name for name, section in found if section == "UND"):
        needs = re.search(r"@GLIBC_(\d+)\.(\d+)(?:\.\d+)?$", name)
        if needs is None:
            yield f"needs {name}, which is not the C library's"
        elif (int(needs[1]), int(needs[2])) > GLIBC:
            yield f"needs {name}, newer than the {GLIBC[0]}.{GLIBC[1]} of the wheel's name"


def library_faults(isa: isas.Isa) -> Iterator[str]:
    """Yield what is wrong with the library of a row."""
    path = library(isa)
    declared = set(re.findall(r"\bkrafla_\w+(?=\()", HEADER.read_text(encoding="utf-8")))
    data = path.read_bytes()
    if int.from_bytes(data[18:20], "little") != ELF_MACHINES[isa.arch]:
        yield f"is not for {isa.arch}"
    yield from audit.memory_faults(audit.listing("readelf", "-lW", path))
    yield from symbol_faults(audit.listing("readelf", "-W", "--dyn-syms", path), declared)
    yield from audit.path_faults(data)
    yield from audit.object_faults(isa, path.parent, "pic")


def libraries(archive: Archive) -> dict[str, Path]:
    """Build and check the libraries of an archive; return them by their paths in the wheel."""
    rows = isas.load(archive.arch, built=True, ship=True)
    for isa in rows:
        build.make(isa, "lib")
    faults = [f"{isa.name}: libkrafla.so {fault}" for isa in rows for fault in library_faults(isa)]
    if faults:
        raise VerificationError("\n  ".join([f"{archive.name} has wrong libraries:", *faults]))
    return {f"krafla/_lib/libkrafla-{isa.name}.so": library(isa) for isa in rows}


def check_members(path: Path, inside: Mapping[str, Path]) -> None:
    """Fail unless a wheel holds the package, the libraries and nothing else."""
    info = f"krafla-{version()}.dist-info"
    want = {f"krafla/{source.name}" for source in SOURCE.glob("*.py")} | set(inside)
    want |= {f"krafla/{name}" for name in ("py.typed", "krafla.h", "isas.txt")}
    want |= {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "licenses/LICENSE")}
    with zipfile.ZipFile(path) as wheel:
        got = set(wheel.namelist())
    if want != got:
        lines = [f"missing: {name}" for name in sorted(want - got)]
        lines += [f"unexpected: {name}" for name in sorted(got - want)]
        raise VerificationError("\n  ".join([f"{path.name} has other members than meant:", *lines]))


def hatch(archive: Archive, inside: Mapping[str, Path], directory: Path) -> Path:
    """Let hatchling write the wheel into an empty directory."""
    data = {
        "pure_python": False,
        "tag": tag(archive),
        "force_include": {str(path): name for name, path in inside.items()},
    }
    env = {"KRAFLA_WHEEL": json.dumps(data), "SOURCE_DATE_EPOCH": str(source_date_epoch())}
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", directory, env=env)
    return directory / file_name(archive)


def package(archive: Archive, directory: Path = packing.DIST) -> Path:
    """Build and write the wheel of an archive and return its path."""
    path = directory / file_name(archive)
    inside = libraries(archive)
    with tempfile.TemporaryDirectory(prefix="krafla-wheel-") as temporary:
        made = hatch(archive, inside, Path(temporary))
        check_members(made, inside)
        data = made.read_bytes()
    write_atomically(path, data)
    print(f"{path}: {len(data)} bytes, {len(inside)} libraries")
    print(f"  sha256  {hashlib.sha256(data).hexdigest()}")
    return path


def smoke(archive: Archive, directory: Path = packing.DIST) -> None:
    """Install and run the wheel of an archive."""
    path = directory / file_name(archive)
    if not path.is_file():
        raise ReleaseError(f"{path} is not there: nox -s wheel makes it")
    with tempfile.TemporaryDirectory(prefix="krafla wheel (é ü) ") as temporary:
        wheel_smoke.prove(archive, path.resolve(), Path(temporary).resolve())


def main(argv: Sequence[str] | None = None) -> int:
    """Make or prove the wheels of the chosen archives."""
    return packing.linux_command(argv, __doc__, package, smoke)


if __name__ == "__main__":
    sys.exit(main())
