# SPDX-License-Identifier: MIT
"""The site: links of pages that stand elsewhere, what pages fetch, and what the guide says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import isas
from krafla_release import archives, site
from krafla_release.project import ROOT, ReleaseError, facts

BLOB = f"https://github.com/{facts()['repository']}/blob/main"


@pytest.mark.parametrize(
    ("source", "link", "want"),
    [
        ("README.md", "[a](docs/user-guide.md#chat)", "[a](user-guide.md#chat)"),
        ("README.md", "[a](CONTRIBUTING.md)", "[a](contributing.md)"),
        ("README.md", "[a](LICENSE)", f"[a]({BLOB}/LICENSE)"),
        ("docs/faq.md", "[a](models.md)", "[a](models.md)"),
        ("docs/faq.md", "[a](../README.md#models)", "[a](index.md#models)"),
        ("docs/faq.md", "[a](../CHANGELOG.md)", "[a](changelog.md)"),
        ("docs/faq.md", "[a](../Makefile)", f"[a]({BLOB}/Makefile)"),
        ("docs/faq.md", "![a](comparison.svg)", "![a](comparison.svg)"),
        ("docs/faq.md", "[a](#b) [c](https://d.example/e)", "[a](#b) [c](https://d.example/e)"),
        ("docs/faq.md", "`[a](nowhere.md)`", "`[a](nowhere.md)`"),
        ("docs/faq.md", "```text\n[a](nowhere.md)\n```", "```text\n[a](nowhere.md)\n```"),
    ],
)
def test_links_lead_to_the_same_file_on_the_site(source: str, link: str, want: str) -> None:
    assert site.relink(link, source) == want


@pytest.mark.parametrize("link", ["nowhere.md", "../../etc/passwd", "docs/nowhere.md"])
def test_a_link_that_leads_nowhere_is_refused(link: str) -> None:
    with pytest.raises(ReleaseError, match=r"README.md: links to"):
        site.relink(f"[a]({link})", "README.md")


@pytest.mark.parametrize(
    ("html", "found"),
    [
        ('<script src="https://cdn.example/a.js"></script>', 1),
        ('<link rel="stylesheet" href="//fonts.example/css">', 1),
        ("<img src=https://badge.example/a.svg>", 1),
        (f'<link rel="canonical" href="{facts()["site"]}faq/">', 0),
        ('<a href="https://other.example">there</a><img src="../a.svg">', 0),
    ],
)
def test_what_a_page_fetches_from_others_is_found(html: str, found: int, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text(html)
    assert len(list(site.fetched(tmp_path))) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a](b.md)", "b.md"),
        ("[a](#nowhere)", "nowhere"),
        ("[a](other.md#nowhere)", "nowhere"),
    ],
)
def test_a_broken_link_or_anchor_stops_the_build(
    text: str, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(f"# Home\n\n{text}\n")
    (tmp_path / "docs" / "other.md").write_text("# Other\n")
    ours = (ROOT / "mkdocs.yml").read_text()
    validation = ours[ours.index("validation:") : ours.index("exclude_docs:")]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: a\nstrict: true\n{validation}")
    with pytest.raises(ReleaseError):
        site.render(tmp_path / "mkdocs.yml")
    assert message in capfd.readouterr().err


def test_every_address_of_the_project_is_that_of_project_toml() -> None:
    """Whoever releases a fork finds by this where the old names are left."""
    kinds = ["[A-Za-z0-9-]+[.]github[.]io/[a-z]+/", "github[.]com/[A-Za-z0-9-]+/krafla"]
    kinds += ["doi[.]org/10[.]5281/zenodo[.][0-9]+"]
    address = f"https://({'|'.join(kinds)})"
    files = ("*.md", "CITATION.cff", "packaging", "tests/docs")
    words = ["git", "grep", "-oE", address, "--", *files]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    ours = {facts()["site"], f"https://github.com/{facts()['repository']}"}
    ours.add(f"https://doi.org/{facts()['concept_doi']}")
    found = [line.partition(":") for line in done.stdout.splitlines()]
    assert len(found) >= 10
    assert [name for name, _, address in found if address not in ours] == []


def test_the_guide_lists_the_archives_and_their_builds() -> None:
    guide = (ROOT / "docs" / "user-guide.md").read_text()
    for archive in archives.load():
        (row,) = [
            line
            for line in guide.splitlines()
            if line.startswith(f"| `krafla-X.Y.Z-{archive.name}{archive.suffix}` |")
        ]
        builds = [f"`{isa.name}`" for isa in isas.load(archive.arch, built=True, ship=True)]
        assert row.split("|")[3].strip() == ", ".join(builds)
