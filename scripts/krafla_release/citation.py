# SPDX-License-Identifier: MIT
"""Keep CITATION.cff such that GitHub shows it and Zenodo archives the release with it.

PYTHONPATH=scripts .venv/bin/python -m krafla_release.citation

Zenodo drops a release without a word if it cannot read this file, so what it trips over is checked
before there is a tag.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from typing import TYPE_CHECKING

from krafla_release import versions
from krafla_release.project import ROOT, PreflightError, exit_code, facts

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from krafla_release.versions import Version

PATH = ROOT / "CITATION.cff"
VERSION = re.compile(r'^version: "(.*)"$', re.MULTILINE)
DATE = re.compile(r'^date-released: "(.*)"$', re.MULTILINE)
SCHEMA = "vendor.citation-file-format"


def with_version(text: str, version: Version, date: dt.date) -> str:
    """Return the file with a version and the date of its release."""
    if len(VERSION.findall(text)) != 1:
        raise PreflightError('CITATION.cff: want one line version: "X.Y.Z"')
    if not DATE.search(text):  # never released before
        text = VERSION.sub(lambda found: f'{found[0]}\ndate-released: ""', text)
    return DATE.sub(f'date-released: "{date}"', VERSION.sub(f'version: "{version}"', text))


def problems(version: Version, date: dt.date | None) -> list[str]:
    """Return what is wrong with the file of a version; without a date it is not released yet."""
    text = PATH.read_text(encoding="utf-8")
    found = []
    if VERSION.findall(text) != [str(version)]:
        found.append(f'CITATION.cff: want version: "{version}"')
    if date and DATE.findall(text) != [date.isoformat()]:
        found.append(f'CITATION.cff: want date-released: "{date}", as in CHANGELOG.md')
    return found + schema_problems() + service_problems(text)


def schema_problems() -> list[str]:
    """Return what the schema of the format says, as far as one line tells it."""
    words = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", SCHEMA, str(PATH)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if not done.returncode:
        return []
    if "No module named check_jsonschema" in done.stderr:
        return ["CITATION.cff is not checked: check-jsonschema is missing: make check installs it"]
    said = [line.strip() for line in done.stdout.splitlines() if "::" in line or "Error" in line]
    return [f"CITATION.cff: {line[:200]}" for line in said or ["the schema refuses it"]]


def service_problems(text: str) -> list[str]:
    """Return what the schema allows and a service does not take, or takes for something else."""
    found = []
    if not re.search(r"^license: [A-Za-z0-9.+-]+$", text, re.MULTILINE):
        found.append("CITATION.cff: want one SPDX license on its own line: Zenodo takes no list")
    if re.search(r"^doi:", text, re.MULTILINE):
        found.append("CITATION.cff: a doi would be taken for that of the version: see identifiers")
    concept = facts()["concept_doi"]
    if f'value: "{concept}"' not in text:
        found.append(f"CITATION.cff: want the concept DOI {concept} among the identifiers")
    repository = f'repository-code: "https://github.com/{facts()["repository"]}"'
    if repository not in text:
        found.append(f"CITATION.cff: want {repository}")
    if (ROOT / ".zenodo.json").exists():
        found.append(".zenodo.json hides CITATION.cff from Zenodo: keep one of them")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Check CITATION.cff of the version of the sources."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(argv)

    def work() -> None:
        found = problems(versions.current(), None)
        if found:
            raise PreflightError("\n  ".join(["CITATION.cff would not be taken:", *found]))
        print("CITATION.cff: nothing to report")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
