# SPDX-License-Identifier: MIT
"""Build the site into build/site, and be the hook of mkdocs.yml that adds what stands elsewhere.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.site

README, CONTRIBUTING and SECURITY are pages as they are: no text stands twice.  A link to a file of
the repository that is no page leads to GitHub; one that leads nowhere stops the build, as does a
page that would fetch anything from another server.
"""

from __future__ import annotations

import argparse
import posixpath
import re
import sys
from typing import TYPE_CHECKING

from krafla_release.project import ROOT, ReleaseError, exit_code, facts, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

SITE = ROOT / "build" / "site"
# Pages that stand outside of docs/, and their names on the site.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
SAME = {"CHANGELOG.md": "changelog.md"}  # whose text sync_docs.py keeps in docs/
CODE = re.compile(r"^(```|~~~).*?^\1 *$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
FETCHED = re.compile(
    r"<(?:script|img|iframe|source|link)\b[^>]*?\b(?:src|href)=[\"']?((?:https?:)?//[^\"'\s>]+)[^>]*>"
)
PRECONNECTED = re.compile(r"rel=[\"']?canonical")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Take names and addresses from their one home."""
    repository = f"https://github.com/{facts()['repository']}"
    config.site_url = facts()["site"]
    config.extra["social"] = [
        {"icon": "fontawesome/brands/github", "link": repository, "name": "Krafla on GitHub"}
    ]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside of docs/."""
    from mkdocs.structure.files import File  # a release starts without it

    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Lead links to where their files are on the site."""
    from mkdocs.exceptions import PluginError

    source = next((s for s, name in PAGES.items() if name == page.file.src_uri), None)
    source = source or f"docs/{page.file.src_uri}"
    try:
        return relink(markdown, source)
    except ReleaseError as error:
        raise PluginError(str(error)) from None


def relink(markdown: str, source: str) -> str:
    """Return a page's text with the links of its file, which count from there, as the site's."""
    quoted = [match.span() for match in CODE.finditer(markdown)]

    def replace(match: re.Match[str]) -> str:
        if any(start <= match.start() < end for start, end in quoted):
            return match[0]
        return target(match[1], source) + (match[2] or "")

    return LINK.sub(replace, markdown)


def target(link: str, source: str) -> str:
    """Return where the site has a file that a source links to."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if path in PAGES | SAME:
        return (PAGES | SAME)[path]
    if path.startswith("../") or not (ROOT / path).exists():
        raise ReleaseError(f"{source}: links to {link}, and there is no {path}")
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"https://github.com/{facts()['repository']}/blob/main/{path}"


def fetched(site: Path) -> Iterator[str]:
    """Name what pages fetch from other servers."""
    for page in sorted(site.rglob("*.html")):
        for match in FETCHED.finditer(page.read_text()):
            if not PRECONNECTED.search(match[0]) and not match[1].startswith(facts()["site"]):
                yield f"{page.relative_to(site)}: {match[1]}"
    for sheet in sorted(site.rglob("*.css")):
        for url in re.findall(r"url\([\"']?((?:https?:)?//[^)]+)\)", sheet.read_text()):
            yield f"{sheet.relative_to(site)}: {url}"


def render(settings: Path) -> None:
    """Build a site by its mkdocs.yml; every link and anchor of it must lead somewhere."""
    # Not --quiet: it hides the warnings that --strict is to count.
    words = ("-m", "mkdocs", "build", "--clean", "--strict", "--config-file")
    env = {"PYTHONPATH": str(ROOT / "scripts"), "NO_MKDOCS_2_WARNING": "true"}
    run(sys.executable, *words, settings, env=env)


def build() -> None:
    """Build the site and look that its pages ask no other server for anything."""
    render(ROOT / "mkdocs.yml")
    others = list(fetched(SITE))
    if others:
        raise ReleaseError("\n".join(["pages fetch from other servers:", *others]))
    pages = sum(1 for _ in SITE.rglob("*.html"))
    print(f"{SITE.relative_to(ROOT)}: {pages} pages; every link and anchor leads somewhere")


def main(argv: Sequence[str] | None = None) -> int:
    """Build the site."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(argv)
    return exit_code(build)


if __name__ == "__main__":
    sys.exit(main())
