# SPDX-License-Identifier: MIT
"""Make the manual page of a program from what it prints when it is asked for help.

PYTHONPATH=scripts python3 -m krafla_release.manual build/scalar/ml_tok | man -l -
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import docs_tables
from krafla_release.project import ReleaseError, exit_code, source_date_epoch, version

if TYPE_CHECKING:
    from collections.abc import Sequence

HELP = re.compile(
    r"(?P<name>\w+) - (?P<does>(?P<first>.+?)\.(\s.+?)?)\n\n"
    r"usage: (?P<usage>.+?)\n\n"
    r"Examples:\n(?P<examples>.+?)\n\n"
    r"options:\n.+?\n\n"
    r"exit codes: (?P<codes>.+?)\n*",
    re.DOTALL,
)


def page(text: str, epoch: int) -> str:
    """Return the manual page for a program's help text."""
    found = HELP.fullmatch(text)
    if not found:
        raise ReleaseError(f"a help text of another form than expected: {text[:60]!r}")
    name, does = found["name"], plain(found["does"])
    date = time.strftime("%Y-%m-%d", time.gmtime(epoch))
    lines = [
        f'.TH {name.upper()} 1 "{date}" "Krafla {version()}" "Krafla"',
        *(".SH NAME", rf"{name} \- {plain(found['first'])}"),
        *(".SH SYNOPSIS", f".B {plain(found['usage'])}"),
        *(".SH DESCRIPTION", does[0].upper() + does[1:]),
        ".SH OPTIONS",
    ]
    for option, meaning in docs_tables.options(text):
        lines += [".TP", f".B {plain(option)}", plain(meaning)]
    lines += [
        *(".SH EXAMPLES", ".nf", *map(quoted, found["examples"].splitlines()), ".fi"),
        *(".SH EXIT STATUS", plain(found["codes"]) + "."),
        *(".SH SEE ALSO", "The documents in /usr/share/doc/krafla."),
    ]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Return a text as one line that roff prints as it stands."""
    return quoted(" ".join(text.split()))


def quoted(line: str) -> str:
    """Return a line that roff prints as it stands."""
    line = line.replace("\\", r"\e").replace("-", r"\-")
    return rf"\&{line}" if line.startswith((".", "'")) else line


def main(argv: Sequence[str] | None = None) -> int:
    """Print the manual page of a program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=Path, help="a program of a build")
    args = parser.parse_args(argv)

    def work() -> None:
        sys.stdout.write(page(docs_tables.help_of([str(args.program)]), source_date_epoch()))

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
