# SPDX-License-Identifier: MIT
"""The journal of a release: which steps were done, for which commit and inputs, with which files.

PYTHONPATH=scripts python3 -m krafla_release.journal dist/v0.1.0

Lines of JSON are added at the end and never changed; a line that was cut off counts as not written.
It says which steps on this machine need not be done again.  What is on GitHub is asked of GitHub.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from krafla_release import checksums
from krafla_release.project import PreflightError, exit_code

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FILE_NAME = "journal.jsonl"
DONE = "done"
MOST_BYTES = 16 << 20  # a journal has some kilobytes


@dataclasses.dataclass(frozen=True)
class Entry:
    """One step, and how it ended."""

    step: str
    outcome: str  # DONE, or what went wrong
    commit: str
    inputs: str  # a digest of all that the step depends on
    outputs: dict[str, str]  # the SHA-256 of each file of the directory that it made, by name
    facts: dict[str, str]  # what else is worth knowing; never a secret
    remote: str  # what GitHub or Zenodo calls what was made there; empty for a step on this machine


def entry_of(line: str) -> Entry | None:
    """Return the entry of a line, or None if the line is not whole."""
    try:
        data = json.loads(line)
        fields = {field.name: data[field.name] for field in dataclasses.fields(Entry)}
        return Entry(**fields) if well_formed(fields) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def well_formed(fields: dict[str, Any]) -> bool:
    """Return whether the values are of the types that an entry has."""
    texts = [fields[name] for name in ("step", "outcome", "commit", "inputs", "remote")]
    tables = [fields["outputs"], fields["facts"]]
    if not all(isinstance(table, dict) for table in tables):
        return False
    texts += [text for table in tables for pair in table.items() for text in pair]
    return all(isinstance(text, str) for text in texts)


def digest_of(*inputs: object) -> str:
    """Return a digest of what a step depends on."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


class Journal:
    """The journal of one directory, which nobody else can open meanwhile."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.path = directory / FILE_NAME
        self.stream = self.path.open("a+b")
        try:
            fcntl.flock(self.stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.stream.close()
            raise PreflightError(
                f"{self.path}: another run works there; wait for its end"
            ) from None
        self.entries = self.read()

    def close(self) -> None:
        """Let others open it."""
        self.stream.close()

    def read(self) -> list[Entry]:
        """Return the entries, and end a line that was cut off so that the next one stands alone."""
        self.stream.seek(0)
        data = self.stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise PreflightError(f"{self.path} is no journal: delete {self.directory}")
        if data and not data.endswith(b"\n"):
            self.append(b"\n")
        lines = data.decode(errors="replace").splitlines()
        return [entry for entry in map(entry_of, lines) if entry]

    def append(self, line: bytes) -> None:
        """Write at the end, onto the disk."""
        self.stream.write(line)
        self.stream.flush()
        os.fsync(self.stream.fileno())

    def add(
        self,
        step: str,
        commit: str,
        *,
        inputs: str = "",
        outputs: Mapping[str, str] | None = None,
        facts: Mapping[str, str] | None = None,
        remote: str = "",
        outcome: str = DONE,
    ) -> Entry:
        """Note how a step ended."""
        entry = Entry(step, outcome, commit, inputs, dict(outputs or {}), dict(facts or {}), remote)
        self.append(json.dumps(dataclasses.asdict(entry), sort_keys=True).encode() + b"\n")
        self.entries.append(entry)
        return entry

    def last(self, step: str, commit: str) -> Entry | None:
        """Return the newest entry that says that a step was done for a commit."""
        wanted = (step, DONE, commit)
        for entry in reversed(self.entries):
            if (entry.step, entry.outcome, entry.commit) == wanted:
                return entry
        return None

    def done(self, step: str, commit: str, inputs: str) -> Entry | None:
        """Return the entry of a step that need not be done again: same inputs, files as noted."""
        entry = self.last(step, commit)
        if not entry or entry.inputs != inputs:
            return None
        for name, digest in entry.outputs.items():
            path = self.directory / Path(name).name
            if not path.is_file() or checksums.digest_of(path) != digest:
                return None
        return entry

    def other_release(self, commit: str) -> Entry | None:
        """Return an entry that says that another commit has begun to be released, if one does."""
        return next(
            (entry for entry in self.entries if entry.remote and entry.commit != commit), None
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Show the journal of a directory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="dist/vX.Y.Z")
    args = parser.parse_args(argv)

    def work() -> None:
        if not (args.directory / FILE_NAME).is_file():
            raise PreflightError(f"{args.directory} has no {FILE_NAME}: nothing was released there")
        with contextlib.closing(Journal(args.directory)) as journal:
            for entry in journal.entries:
                what = [*entry.outputs, *(f"{name}={text}" for name, text in entry.facts.items())]
                words = [entry.commit[:12], f"{entry.step:9}", entry.outcome, entry.remote, *what]
                print(" ".join(filter(None, words)))

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
