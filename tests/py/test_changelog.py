# SPDX-License-Identifier: MIT
"""Versions, the strict reader of CHANGELOG.md, and the release notes made from it.

.venv/bin/python -m pytest tests/py/test_changelog.py
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from krafla_release import changelog, notes, versions
from krafla_release.project import ReleaseError, VerificationError, facts

GOOD = """\
# Changelog

## Unreleased

### Added

- A thing, described
  in two lines.

### Fixed

- Another; see [the page](https://example.org/).

## 0.10.0 — 2026-02-03

### Changed

- Something.

## 0.9.0 — 2026-02-03

### Added

- The start.
"""


@pytest.mark.parametrize("text", ["0.0.0", "1.2.3", "10.20.30", "999999.0.1"])
def test_a_version_is_three_numbers(text: str) -> None:
    assert str(versions.parse(text)) == text
    assert versions.parse(text).tag == f"v{text}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1",
        "1.2",
        "1.2.3.4",
        "v1.2.3",
        "01.2.3",
        "1.2.3 ",
        "1.2.3\n",
        "1.2.-3",
        "1.2.3-rc1",
        "1.2.٣",
        "1000000.0.0",
        "1..2",
        "--dry",
        "1.2.3+4",
    ],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(versions.VersionError, match="is no version"):
        versions.parse(text)


def test_versions_are_ordered_by_their_numbers() -> None:
    texts = ["0.9.9", "0.10.0", "0.10.2", "0.10.10", "1.0.0", "10.0.0"]
    assert sorted(map(versions.parse, reversed(texts))) == [versions.parse(t) for t in texts]


def test_sections_have_version_date_and_body() -> None:
    found = changelog.sections(GOOD)
    assert [str(section.version) for section in found] == ["None", "0.10.0", "0.9.0"]
    assert found[1].date == dt.date(2026, 2, 3)
    assert found[2].body == "### Added\n\n- The start."
    assert [section.heading for section in found] == [
        line for line in GOOD.splitlines() if line.startswith("## ")
    ]
    assert [GOOD.splitlines()[section.line - 1] for section in found] == [
        section.heading for section in found
    ]


def test_a_version_is_found() -> None:
    section = changelog.find(versions.parse("0.9.0"), GOOD)
    assert section
    assert section.body.endswith("- The start.")
    assert changelog.find(versions.parse("0.9.1"), GOOD) is None


def test_a_changelog_without_versions_is_one() -> None:
    assert changelog.sections("# Changelog\n") == []


TOMORROW = changelog.today() + dt.timedelta(days=1)
WRONG = {
    "no-title": ("# Changelog", "# Changes", 1, "want the title"),
    "text-first": ("# Changelog\n", "# Changelog\n\nHello.\n", 3, "first"),
    "heading": ("## Unreleased", "## unreleased", 3, "want '## Unreleased' or"),
    "hyphen": ("0.10.0 — 2", "0.10.0 - 2", 14, "want an em dash"),
    "en-dash": ("0.10.0 — 2", "0.10.0 \u2013 2", 14, "want an em dash"),
    "two-hyphens": ("0.10.0 — 2", "0.10.0 -- 2", 14, "want an em dash"),
    "no-date": ("0.10.0 — 2026-02-03", "0.10.0", 14, "YYYY-MM-DD"),
    "brackets": ("0.10.0 —", "[0.10.0] —", 14, "no version"),
    "version": ("0.10.0 —", "0.010.0 —", 14, "no version"),
    "tag": ("0.10.0 —", "v0.10.0 —", 14, "no version"),
    "no-day": ("0.10.0 — 2026-02-03", "0.10.0 — 2026-02-30", 14, "day is out of range"),
    "future": ("0.10.0 — 2026-02-03", f"0.10.0 — {TOMORROW}", 14, "in the future"),
    "order": ("0.10.0 —", "0.8.0 —", 20, "0.9.0 stands below 0.8.0"),
    "twice": ("0.10.0 —", "0.9.0 —", 20, "0.9.0 stands twice"),
    "dates": ("0.9.0 — 2026-02-03", "0.9.0 — 2026-02-04", 20, "dated after 0.10.0"),
    "unreleased-last": ("## 0.9.0 — 2026-02-03", "## Unreleased", 20, "stands first"),
    "empty": ("- Something.", "", 16, "### Changed is empty"),
    "empty-inside": ("- A thing, described\n  in two lines.\n", "", 5, "### Added is empty"),
    "nothing": ("### Changed\n\n- Something.\n", "", 14, "nothing is written"),
    "kind": ("### Changed", "### Removed", 16, "want ### Added, ### Changed"),
    "kind-level": ("### Changed", "#### Changed", 16, "want ### Added"),
    "kind-twice": ("### Fixed", "### Added", 10, "stands twice"),
    "kind-order": ("### Added\n\n- A", "### Fixed\n\n- A", 10, "stands twice"),
    "text": ("- Something.", "Something.", 18, "want '- ' and an item"),
    "continued": ("  in two lines.", " in two lines.", 8, "want '- ' and an item"),
    "link": ("(https://example.org/)", "(docs/user-guide.md)", 12, "links in full"),
}


@pytest.mark.parametrize(("old", "new", "line", "what"), WRONG.values(), ids=WRONG)
def test_a_wrong_line_is_named(old: str, new: str, line: int, what: str) -> None:
    assert old in GOOD
    with pytest.raises(changelog.ChangelogError) as caught:
        changelog.sections(GOOD.replace(old, new, 1))
    assert str(caught.value).startswith(f"CHANGELOG.md:{line}: ")
    assert what in str(caught.value)
    assert caught.value.code == 3


def test_the_order_of_kinds_is_fixed() -> None:
    text = GOOD.replace("### Added", "### Changed", 1).replace("### Fixed", "### Added", 1)
    with pytest.raises(changelog.ChangelogError, match=r":10: ### Added stands before ### Changed"):
        changelog.sections(text)


def test_our_changelog_is_in_its_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert changelog.main([]) == 0
    assert "items" in capsys.readouterr().out


@pytest.fixture
def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the good changelog in the place of ours."""
    path = tmp_path / "CHANGELOG.md"
    path.write_text(GOOD, encoding="utf-8")
    monkeypatch.setattr(changelog, "PATH", path)
    return path


@pytest.mark.usefixtures("written")
def test_notes_are_the_section_and_how_to_verify() -> None:
    text = notes.release_notes(versions.parse("0.10.0"))
    assert text.startswith("### Changed\n\n- Something.\n\n### Verify\n")
    assert "sha256sum --check --ignore-missing SHA256SUMS" in text
    assert f"krafla-0.10.0-linux-x86_64.tar.gz --repo {facts()['repository']}" in text
    assert text == notes.release_notes(versions.parse("0.10.0"))
    assert notes.title(versions.parse("0.10.0")) == "Krafla v0.10.0"


def test_an_item_of_the_notes_is_one_line(written: Path) -> None:
    """GitHub shows every line break of release notes, unlike those of a file."""
    written.write_text(GOOD.replace("- Something.", "- Some\n  thing\n  else.\n- More."))
    text = notes.release_notes(versions.parse("0.10.0"))
    assert text.startswith("### Changed\n\n- Some thing else.\n- More.\n\n### Verify\n")


@pytest.mark.usefixtures("written")
def test_there_are_no_notes_without_a_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert notes.main(["--version", "0.11.0"]) == 3
    assert "no section '## 0.11.0 — YYYY-MM-DD'" in capsys.readouterr().err
    assert notes.main(["--version", "0.10.0"]) == 0
    assert "- Something." in capsys.readouterr().out


DOI = "10.5281/zenodo.23880700"


def test_the_doi_block_is_added_once() -> None:
    once = notes.with_doi("Notes.\n", DOI)
    assert once.startswith(f"Notes.\n\n{notes.START}\n")
    assert once.endswith(f"{notes.END}\n")
    assert notes.with_doi(once, DOI) == once
    assert notes.with_doi("", DOI).startswith(notes.START)


def test_another_doi_takes_the_place_of_the_first_and_the_rest_stays() -> None:
    around = f"Before\r\n{notes.START} x\r\n{notes.END}\r\nafter \n\n"
    text = notes.with_doi(around, DOI)
    assert text.startswith("Before\r\n")
    assert text.endswith(f"{notes.END}\r\nafter \n\n")
    assert text.count(DOI) == 2


@pytest.mark.parametrize(
    "body",
    [
        notes.START,
        notes.END,
        f"{notes.END} {notes.START}",
        f"{notes.START} {notes.START} {notes.END}",
        f"{notes.START}{notes.END}" * 2,
    ],
)
def test_damaged_marks_are_left_to_a_person(body: str) -> None:
    with pytest.raises(VerificationError, match="mend them by hand"):
        notes.with_doi(body, DOI)


@pytest.mark.parametrize("doi", ["", "10.5281/zenodo.", "10.1/zenodo.5", f"{DOI}\n", f"{DOI})"])
def test_only_a_doi_of_zenodo_is_written(doi: str) -> None:
    with pytest.raises(ReleaseError, match="is not the DOI of one version"):
        notes.with_doi("", doi)
