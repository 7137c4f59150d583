# SPDX-License-Identifier: MIT
"""Say whether a release is due: ML_VERSION has its dated section, and its tag is not there yet.

    PYTHONPATH=scripts python3 -m krafla_release.due

Prints version=X.Y.Z, or version= if nothing is to be done, as a workflow wants its outputs; why, it
says on standard error.  Publishing makes the tag, so a release that got stuck is still due.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from krafla_release import changelog, versions
from krafla_release.project import exit_code, output

if TYPE_CHECKING:
    from collections.abc import Sequence

REMOTE = "origin"


def reason_against() -> str | None:
    """Return why no release is due, or None if one is."""
    version = versions.current()
    if not changelog.find(version):
        return f"CHANGELOG.md has no section '## {version} — YYYY-MM-DD'"
    tag = f"refs/tags/{version.tag}"
    if output("git", "ls-remote", "--tags", REMOTE, tag):
        return f"{tag} is there: {version} is published"
    return None


def decide() -> None:
    """Print the decision."""
    reason = reason_against()
    print(f"due: {reason or 'release it'}", file=sys.stderr)
    print(f"version={'' if reason else versions.current()}")


def main(argv: Sequence[str] | None = None) -> int:
    """Decide and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args(argv)
    return exit_code(decide)


if __name__ == "__main__":
    sys.exit(main())
