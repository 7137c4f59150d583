# SPDX-License-Identifier: MIT
"""Refresh the pages of the site that come from data: the changelog, and the tables in docs.

    python3 scripts/sync_docs.py
    python3 scripts/sync_docs.py --check

Run it after a change of CHANGELOG.md, isas.txt, hf_models.json or an option, and commit the pages
with the change: CI fails if they are stale.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from typing import TYPE_CHECKING

from krafla_release import docs_tables
from krafla_release.project import ROOT, PreflightError, exit_code, write_atomically

if TYPE_CHECKING:
    from collections.abc import Sequence

FEW = 20  # lines of a difference that are shown


def differences(page: docs_tables.Page) -> str:
    """Return the first lines that differ."""
    lines = difflib.unified_diff(
        page.before.splitlines(),
        page.after.splitlines(),
        "as it is",
        "from its data",
        n=0,
        lineterm="",
    )
    return "\n".join(list(lines)[:FEW])


def sync(*, check: bool) -> None:
    """Write the stale pages, or fail if there are any; say what could not be made here."""
    found = docs_tables.pages()
    stale = [page for page in found if page.before != page.after]
    for page in stale:
        name = page.path.relative_to(ROOT)
        if check:
            print(f"{name}: stale\n{differences(page)}")
        else:
            write_atomically(page.path, page.after.encode())
            print(f"{name}: refreshed")
    for line in (line for page in found for line in page.not_made):
        print(f"not refreshed: {line}")
    if check and stale:
        raise PreflightError(f"{len(stale)} stale pages: python3 scripts/sync_docs.py")
    if any(page.not_made for page in found):
        raise PreflightError("not everything could be made from its data: see above")
    print(f"{len(found)} pages: nothing is stale")


def main(argv: Sequence[str] | None = None) -> int:
    """Refresh or check the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="only say what is stale; exit code 3")
    args = parser.parse_args(argv)
    return exit_code(lambda: sync(check=args.check))


if __name__ == "__main__":
    sys.exit(main())
