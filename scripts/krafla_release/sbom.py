# SPDX-License-Identifier: MIT
"""Write the bill of materials of a release: what each file is, and which libraries are inside.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.sbom dist krafla-0.1.0-linux-x86_64.tar.gz

Krafla depends on nothing but the C library and the compiler's own, which static programs carry with
them: their versions are those of the compilers of this machine.  The document is SPDX 2.3 in JSON;
the same files and compilers give the same bytes.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import hashlib
import json
import re
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import isas
from krafla_release import build, project
from krafla_release.project import (
    ReleaseError,
    exit_code,
    facts,
    output,
    source_date_epoch,
    write_atomically,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MIT = "MIT"
GCC_LICENCE = "GPL-3.0-or-later WITH GCC-exception-3.1"
UNKNOWN = "NOASSERTION"
NAMESPACE_DIGITS = 32
# How the names of wheels and Debian packages spell the architectures of isas.txt.
SPELLINGS = {
    "x86_64": ("x86_64", "amd64"),
    "aarch64": ("aarch64", "arm64"),
    "armv7": ("armv7l", "armv7hf", "armhf"),
}


@dataclasses.dataclass(frozen=True)
class Target:
    """What a file of the release runs on."""

    arch: str
    system: str

    @property
    def compiler(self) -> str:
        """The compiler of this machine that makes its programs."""
        if self.system == "windows":
            return build.MINGW + (build.mingw_compiler() or "gcc")
        return f"{isas.CROSS[self.arch] if self.arch != build.host_arch() else ''}gcc"


@dataclasses.dataclass(frozen=True)
class Library:
    """A library that the compiler of a target puts into programs."""

    name: str
    version: str
    licence: str
    origin: str  # the distribution's package, "" where none is known
    purl: str

    @property
    def key(self) -> str:
        """The name of this library in the document."""
        return spdx_id(f"{self.name}-{self.version}-{self.origin}")


def spdx_id(text: str) -> str:
    """Return an identifier with the characters that SPDX allows."""
    return "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", text).strip("-")


def target_of(name: str) -> Target | None:
    """Return what a file of the release runs on; None for one without programs."""
    if not name.endswith((".tar.gz", ".zip", ".whl", ".deb")):
        return None
    for arch, spellings in SPELLINGS.items():
        if any(re.search(rf"[_-]{spelling}\.[a-z.]+$", name) for spelling in spellings):
            return Target(arch, "windows" if "-windows-" in name else "linux")
    raise ReleaseError(f"{name}: the name ends with no known architecture: see sbom.SPELLINGS")


def macros(compiler: str, header: str) -> dict[str, str]:
    """Return what a header of the compiler defines."""
    text = output(compiler, "-E", "-dM", "-include", header, "-x", "c", "/dev/null")
    return dict(re.findall(r"^#define (\w+) (.*)$", text, re.MULTILINE))


def packaged(path: Path) -> tuple[str, str]:
    """Return the Debian package of a file, "name version", and its package URL, if dpkg knows."""
    if not shutil.which("dpkg-query"):
        return "", ""
    try:
        owner = output("dpkg-query", "-S", path).split(": ", 1)[0]
        form = "${Package} ${Version} ${Architecture}"
        name, version, arch = output("dpkg-query", "-W", "-f", form, owner).split()
    except ReleaseError:
        return "", ""
    return f"{name} {version}", f"pkg:deb/debian/{name}@{quote(version, safe='')}?arch={arch}"


@functools.cache
def libraries(target: Target) -> tuple[Library, ...]:
    """Return what the target's compiler puts into a program: the C library and its own."""
    compiler = target.compiler

    def library(name: str, version: str, licence: str, asked: str) -> Library:
        path = Path(output(compiler, asked)).resolve()
        return Library(name, version, licence, *packaged(path))

    if target.system == "windows":
        found = macros(compiler, "_mingw.h")
        version = ".".join(
            found[f"__MINGW64_VERSION_{part}"] for part in ("MAJOR", "MINOR", "BUGFIX")
        )
        # Its copyright file lists one licence per part, most of them the Zope Public License.
        libc = library("mingw-w64", version, UNKNOWN, "-print-file-name=libmingw32.a")
    else:
        found = macros(compiler, "features.h")
        version = f"{found['__GLIBC__']}.{found['__GLIBC_MINOR__']}"
        libc = library("glibc", version, "LGPL-2.1-or-later", "-print-file-name=libc.a")
    own = output(compiler, "-dumpfullversion")
    return libc, library("libgcc", own, GCC_LICENCE, "-print-libgcc-file-name")


def described(
    name: str, version: str, licence: str, key: str, purl: str, **more: object
) -> dict[str, Any]:
    """Return a package of the document."""
    fields: dict[str, Any] = {
        "SPDXID": key,
        "name": name,
        "versionInfo": version,
        "downloadLocation": UNKNOWN,
        "filesAnalyzed": False,
        "licenseConcluded": licence,
        "licenseDeclared": licence,
        "copyrightText": UNKNOWN,
    }
    if purl:
        reference = {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl"}
        fields["externalRefs"] = [reference | {"referenceLocator": purl}]
    return fields | more


def source_package() -> dict[str, Any]:
    """Return the source that everything is made from, at the tag of this version."""
    version, repository = project.version(), facts()["repository"]
    return described(
        "krafla",
        version,
        MIT,
        "SPDXRef-krafla-source",
        f"pkg:github/{repository}@v{version}",
        downloadLocation=f"git+https://github.com/{repository}.git@v{version}",
        primaryPackagePurpose="SOURCE",
        copyrightText="Copyright (c) Krafla contributors",
    )


def asset_package(path: Path) -> dict[str, Any]:
    """Return a file of the release as a package."""
    version, data = project.version(), path.read_bytes()
    where = f"https://github.com/{facts()['repository']}/releases/download/v{version}/{path.name}"
    return described(
        path.name,
        version,
        MIT,
        spdx_id(path.name),
        "",
        packageFileName=path.name,
        downloadLocation=where,
        checksums=[{"algorithm": "SHA256", "checksumValue": hashlib.sha256(data).hexdigest()}],
        comment=f"{len(data)} bytes",
        primaryPackagePurpose="INSTALL" if target_of(path.name) is None else "ARCHIVE",
        copyrightText="Copyright (c) Krafla contributors",
    )


def library_package(library: Library) -> dict[str, Any]:
    """Return a library that programs of the release carry with them."""
    found = described(library.name, library.version, library.licence, library.key, library.purl) | {
        "primaryPackagePurpose": "LIBRARY"
    }
    return found | ({"sourceInfo": f"Debian package {library.origin}"} if library.origin else {})


def relation(subject: str, kind: str, other: str) -> dict[str, str]:
    """Return a relationship of the document."""
    return {"spdxElementId": subject, "relationshipType": kind, "relatedSpdxElement": other}


def document(files: Sequence[Path]) -> dict[str, Any]:
    """Return the bill of materials of these files, in their order."""
    source = source_package()
    packages, inside = [source], dict[str, Library]()
    relations = [relation("SPDXRef-DOCUMENT", "DESCRIBES", source["SPDXID"])]
    for path in files:
        asset, target = asset_package(path), target_of(path.name)
        packages.append(asset)
        relations.append(relation("SPDXRef-DOCUMENT", "DESCRIBES", asset["SPDXID"]))
        relations.append(relation(asset["SPDXID"], "GENERATED_FROM", source["SPDXID"]))
        # The libraries of a wheel use the C library of the machine that they run on.
        link = "DYNAMIC_LINK" if path.suffix == ".whl" else "STATIC_LINK"
        for library in libraries(target) if target else ():
            inside[library.key] = library
            relations.append(relation(asset["SPDXID"], link, library.key))
    packages += [library_package(inside[key]) for key in sorted(inside)]
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(source_date_epoch()))
    tool = f"Tool: krafla_release-{project.version()}"
    made: dict[str, Any] = {
        "spdxVersion": "SPDX-2.3",
        "dataLicense": "CC0-1.0",
        "SPDXID": "SPDXRef-DOCUMENT",
        "name": f"krafla-{project.version()}",
        "creationInfo": {"created": created, "creators": ["Organization: Krafla", tool]},
        "packages": packages,
        "relationships": relations,
    }
    digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
    place = f"{facts()['site']}spdx/krafla-{project.version()}-{digest[:NAMESPACE_DIGITS]}"
    return made | {"documentNamespace": place}


def file_name() -> str:
    """Return the name of the bill of materials."""
    return f"krafla-{project.version()}.spdx.json"


def package(directory: Path, names: Iterable[str]) -> Path:
    """Write the bill of materials of these files of a directory beside them."""
    files = [directory / name for name in names]
    for path in files:
        if not path.is_file():
            raise ReleaseError(f"{path} is not there: invoke package")
    path = directory / file_name()
    write_atomically(path, (json.dumps(document(files), indent=2, sort_keys=True) + "\n").encode())
    print(f"{path}: {len(files)} files")
    return path


def main(argv: Sequence[str] | None = None) -> int:
    """Write the bill of materials of a directory's files."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="where the files of the release are")
    parser.add_argument("file", nargs="+", help="their names, in the order of the document")
    args = parser.parse_args(argv)
    return exit_code(lambda: package(args.directory, args.file))


if __name__ == "__main__":
    sys.exit(main())
