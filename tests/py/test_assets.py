# SPDX-License-Identifier: MIT
"""The files of a release: all are made, compared with what was agreed, proven and summed up.

.venv/bin/python -m pytest tests/py/test_assets.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

import isas
from krafla_release import (
    archives,
    assets,
    build,
    checksums,
    deb,
    installer,
    package,
    packed,
    project,
    sbom,
    smoke,
    wheel,
)
from krafla_release.archives import Archive, Member
from krafla_release.project import VerificationError

EPOCH = 1_700_000_000


def names_of(archive: Archive, module: object) -> str:
    """Return the name of the file that a module makes of an archive."""
    if module is package:
        return package.path_of(archive).name
    return wheel.file_name(archive) if module is wheel else deb.file_name(archive)


def test_every_file_that_users_install_is_made_and_proven(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, proven = [], []
    for module, checked in ((package, smoke), (wheel, wheel), (deb, deb)):
        monkeypatch.setattr(
            module, "package", lambda archive, _, m=module: made.append(names_of(archive, m))
        )
        monkeypatch.setattr(
            checked, "smoke", lambda archive, _, m=module: proven.append(names_of(archive, m))
        )
    monkeypatch.setattr(installer, "package", lambda _: made.append(installer.FILE_NAME))
    monkeypatch.setattr(installer, "smoke", lambda _: proven.append(installer.FILE_NAME))
    assert assets.package(tmp_path) == assets.contents()
    assert sorted(made) == sorted(assets.contents())
    assert assets.prove(tmp_path) == []
    assert sorted(proven) == sorted(assets.contents())


def test_every_build_of_every_archive_is_made_and_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, str]] = []
    audited: list[str] = []
    monkeypatch.setattr(build, "build_arch", lambda *words: made.append(words))
    monkeypatch.setattr(assets, "run", lambda *words, **_: audited.extend(words[3:]))
    assets.build(tmp_path)
    assets.audit(tmp_path)
    assert made == [(archive.arch, archive.system) for archive in archives.load()]
    rows = [row for a in archives.load() for row in isas.load(a.arch, built=True, ship=True)]
    assert len(audited) == len(set(audited)) == len(rows)
    assert sum("-windows" in name for name in audited) == 5


def archives_at(directory: Path, extra: str) -> None:
    """Write archives whose members are the agreed ones, and one more in the last."""
    for archive in archives.load():
        members = package.members_of(archive, read=lambda _: b"")
        if extra and archive == archives.load()[-1]:
            members = [*members, Member(extra, 0o644, b"")]
        data = packed.pack(archive, package.file_name(archive), members, EPOCH)
        package.path_of(archive, directory).write_bytes(data)


@pytest.mark.parametrize("extra", ["", "more"], ids=["right", "one more"])
def test_every_archive_is_compared_with_its_contract(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, extra: str
) -> None:
    ran: list[tuple[object, ...]] = []
    monkeypatch.setattr(assets, "run", lambda *words: ran.append(words[1:]))
    archives_at(tmp_path, extra)
    if extra:
        with pytest.raises(VerificationError, match="unexpected: 0644 more"):
            assets.check(tmp_path)
    else:
        assert assets.check(tmp_path) == []
        assert ran == [("scripts/sync_docs.py", "--check")]


def test_all_other_files_are_summed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def bill(directory: Path, names: list[str]) -> Path:
        path = directory / f"krafla-{project.version()}.spdx.json"
        path.write_text(" ".join(names))
        return path

    monkeypatch.setattr(sbom, "package", bill)
    for name in assets.contents():
        (tmp_path / name).write_text(name)
    made = assets.seal(tmp_path)
    assert made == assets.expected()[-2:]
    assert list(checksums.verify(tmp_path)) == assets.expected()[:-1]
