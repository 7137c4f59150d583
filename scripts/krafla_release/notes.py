# SPDX-License-Identifier: MIT
"""Write the text of a release page: what changed, how to verify the files, later the DOI.

PYTHONPATH=scripts python3 -m krafla_release.notes --version 0.1.0
"""

from __future__ import annotations

import argparse
import re
import sys
from typing import TYPE_CHECKING

from krafla_release import changelog, versions
from krafla_release.project import PreflightError, VerificationError, exit_code, facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from krafla_release.versions import Version

START, END = "<!-- doi:start -->", "<!-- doi:end -->"
BLOCK = re.compile(f"{START}.*?{END}", re.DOTALL)
DOI = re.compile(r"10\.5281/zenodo\.[0-9]{1,12}")  # of Zenodo; a version's and the concept's alike

VERIFY = """\
### Verify

Download `SHA256SUMS` beside the files that you take:

```sh
sha256sum --check --ignore-missing SHA256SUMS
```

On Windows, `Get-FileHash` in PowerShell prints the sum to compare.

Where and from which commit a file was built is attested; the GitHub CLI checks that:

```sh
gh attestation verify krafla-{version}-linux-x86_64.tar.gz --repo {repository}
```"""


def title(version: Version) -> str:
    """Return the title of a release page."""
    return f"Krafla {version.tag}"


def release_notes(version: Version) -> str:
    """Return the text of a release page; the same sources give the same text."""
    section = changelog.find(version)
    if not section:
        raise PreflightError(f"CHANGELOG.md has no section '## {version} — YYYY-MM-DD'")
    verify = VERIFY.format(version=version, repository=facts()["repository"])
    # GitHub shows a line break of the notes as one, unlike that of a file.
    changes = re.sub(r"\n {2}(?=\S)", " ", section.body)
    return f"{changes}\n\n{verify}\n"


def with_doi(body: str, doi: str) -> str:
    """Return notes with the marked block that names a DOI; everything else stays as it is."""
    if not DOI.fullmatch(doi) or doi == facts()["concept_doi"]:
        raise VerificationError(f"{doi!r} is not the DOI of one version")
    block = (
        f"{START}\n**DOI** of this version: [{doi}](https://doi.org/{doi}). All versions together:"
        f" [{facts()['concept_doi']}](https://doi.org/{facts()['concept_doi']}).\n{END}"
    )
    marked = BLOCK.findall(body)
    if len(marked) > 1 or body.count(START) != len(marked) or body.count(END) != len(marked):
        raise VerificationError(
            f"the release notes should have one {START} with its {END}, or none: mend them by hand"
        )
    if marked:
        # Whoever edits notes in a browser sends them back with CRLF: that changes nothing.
        same = marked[0].replace("\r\n", "\n") == block
        return body if same else body.replace(marked[0], block)
    return f"{body.rstrip()}\n\n{block}\n".lstrip()


def main(argv: Sequence[str] | None = None) -> int:
    """Print the notes of a version."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", metavar="X.Y.Z", help="default: that of the sources")
    args = parser.parse_args(argv)

    def work() -> None:
        version = versions.parse(args.version) if args.version else versions.current()
        print(release_notes(version), end="")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
