# SPDX-License-Identifier: MIT
"""The bill of materials is valid SPDX, names what is inside every file, and is the same each time.

.venv/bin/python -m pytest tests/py/test_sbom.py
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from spdx_tools.spdx.parser.parse_anything import parse_file
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from krafla_release import build, project, sbom
from krafla_release.sbom import Library, Target

LINUX, WHEEL, WINDOWS, DEB = (
    "krafla-0.1.0-linux-aarch64.tar.gz",
    "krafla-0.1.0-py3-none-manylinux_2_34_armv7l.whl",
    "krafla-0.1.0-windows-x86_64.zip",
    "krafla_0.1.0_amd64.deb",
)
NAMES = (LINUX, WHEEL, WINDOWS, DEB, "install.sh")


def compiled_in(target: Target) -> tuple[Library, ...]:
    """Stand in for the compilers, which not every machine has."""
    name = "mingw-w64" if target.system == "windows" else "glibc"
    return (Library(name, "2.36", "MIT", f"{name}-{target.arch} 1", f"pkg:deb/debian/{name}@1"),)


@pytest.fixture
def dist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sbom, "libraries", compiled_in)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    for name in NAMES:
        (tmp_path / name).write_text(name)
    return tmp_path


def written(dist: Path, *names: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(sbom.package(dist, names or NAMES).read_text())
    return loaded


def test_another_program_finds_the_document_valid(dist: Path) -> None:
    document = parse_file(str(sbom.package(dist, NAMES)))
    assert validate_full_spdx_document(document) == []
    assert document.creation_info.created.isoformat() == "2023-11-14T22:13:20"


def test_a_document_with_a_wrong_identifier_is_found_invalid(dist: Path) -> None:
    path = sbom.package(dist, NAMES)
    path.write_text(path.read_text().replace("SPDXRef-krafla-source", "SPDXRef-krafla_source"))
    assert validate_full_spdx_document(parse_file(str(path)))


def test_every_file_stands_in_it_with_its_digest_and_size(dist: Path) -> None:
    packages = {package["name"]: package for package in written(dist)["packages"]}
    for name in NAMES:
        want = hashlib.sha256(name.encode()).hexdigest()
        assert packages[name]["checksums"] == [{"algorithm": "SHA256", "checksumValue": want}]
        assert packages[name]["comment"] == f"{len(name)} bytes"
        assert packages[name]["licenseDeclared"] == "MIT"
        assert (
            f"/releases/download/v{project.version()}/{name}" in packages[name]["downloadLocation"]
        )


def links(document: dict[str, Any], name: str) -> list[tuple[str, str]]:
    """Return how and with what a file is linked."""
    names = {package["SPDXID"]: package["name"] for package in document["packages"]}
    return [
        (relation["relationshipType"], names[relation["relatedSpdxElement"]])
        for relation in document["relationships"]
        if names.get(relation["spdxElementId"]) == name and "LINK" in relation["relationshipType"]
    ]


def test_programs_carry_their_c_library_and_wheels_use_the_machines(dist: Path) -> None:
    document = written(dist)
    assert links(document, LINUX) == links(document, DEB) == [("STATIC_LINK", "glibc")]
    assert links(document, WINDOWS) == [("STATIC_LINK", "mingw-w64")]
    assert links(document, WHEEL) == [("DYNAMIC_LINK", "glibc")]
    assert links(document, "install.sh") == []


def test_the_same_files_give_the_same_bytes_and_others_another_namespace(dist: Path) -> None:
    first = sbom.package(dist, NAMES).read_bytes()
    assert sbom.package(dist, NAMES).read_bytes() == first
    (dist / DEB).write_text("other")
    assert written(dist)["documentNamespace"] != json.loads(first)["documentNamespace"]


def test_the_libraries_are_those_of_this_machines_compiler() -> None:
    libc, own = sbom.libraries(Target(build.host_arch(), "linux"))
    assert (libc.name, own.name) == ("glibc", "libgcc")
    assert own.version == project.output("gcc", "-dumpfullversion")
    assert libc.origin.split()[-1].startswith(libc.version) or not libc.origin


@pytest.mark.parametrize(
    ("name", "want"),
    [
        (LINUX, Target("aarch64", "linux")),
        (WHEEL, Target("armv7", "linux")),
        (WINDOWS, Target("x86_64", "windows")),
        (DEB, Target("x86_64", "linux")),
        ("krafla-0.1.0-linux-armv7hf.tar.gz", Target("armv7", "linux")),
        ("krafla_0.1.0_armhf.deb", Target("armv7", "linux")),
        ("krafla_0.1.0_arm64.deb", Target("aarch64", "linux")),
        ("install.sh", None),
    ],
    ids=str,
)
def test_a_name_says_what_a_file_runs_on(name: str, want: Target | None) -> None:
    assert sbom.target_of(name) == want


def test_a_file_for_an_unknown_machine_and_a_missing_one_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sbom.main([str(tmp_path), "krafla-0.1.0-linux-riscv64.tar.gz"]) == 1
    assert "riscv64.tar.gz is not there" in capsys.readouterr().err
    (tmp_path / "krafla-0.1.0-linux-riscv64.tar.gz").touch()
    assert sbom.main([str(tmp_path), "krafla-0.1.0-linux-riscv64.tar.gz"]) == 1
    assert "no known architecture" in capsys.readouterr().err
