# SPDX-License-Identifier: MIT
"""Find every command that the docs show, and execute it.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.docs_commands --quick

A command is a line of a block in `sh`, a whole block in `python`, or a code span in a sentence that
starts like a command.  It is executed as it stands, in a place like the reader's (docs_places.py),
and what the page shows right below its block is compared with what it prints; `...` there stands
for anything.  A session of nox or a task of invoke must exist and have the options; `make check`
and the release run those.  What cannot be executed as it stands is listed in
tests/docs/commands.toml, with the reason and with what is executed in its place.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import docs_pages, docs_places, wine
from krafla_release.docs_pages import BATCH, PROGRAM, SHELL, Command
from krafla_release.project import (
    ROOT,
    ReleaseError,
    VerificationError,
    exit_code,
    output,
    read_toml,
)
from krafla_release.testing import not_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from krafla_release.docs_places import Places

TABLE = ROOT / "tests" / "docs" / "commands.toml"
TIMEOUT = 1800  # seconds that one command may take
SLOWEST = 5  # durations that the summary names
TYPED = "typed.cmd"  # what a reader types into the Command Prompt
SHOWN = 12  # lines of a failed command's output that an error shows
SESSION = re.compile(r"(?:\.venv/bin/)?nox -s ([\w -]+?)(?: -- (.*))?")
TASK = re.compile(r"(?:\.venv/bin/)?invoke ([a-z][a-z-]*)( .*)?")
OPTION = re.compile(r"--[a-z][\w-]+")


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of commands.toml: a command that is not simply executed each time."""

    text: str
    because: str
    instead: tuple[str, ...] = ()  # executed in its place; {address} is the loopback server's
    session: str = ""  # of nox, run by hand: executes it, or the nearest to it
    slow: bool = False  # only without --quick


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What came of executing a command."""

    fault: str | None
    seconds: float


def table(path: Path = TABLE) -> dict[str, Row]:
    """Return commands.toml by the commands' text."""
    rows = read_toml(path)["command"]
    known: dict[str, Row] = {}
    for row in rows:
        if row["text"] in known:
            raise ReleaseError(f"{path.name}: '{row['text']}' is listed twice")
        known[row["text"]] = Row(**row | {"instead": tuple(row.get("instead", ()))})
    return known


class Sessions:
    """What noxfile.py and tasks.py offer."""

    def __init__(self) -> None:
        scripts = Path(sys.executable).parent
        self._nox, self._invoke = scripts / "nox", scripts / "invoke"

    @functools.cached_property
    def sessions(self) -> set[str]:
        """The sessions of nox."""
        listed = json.loads(output(self._nox, "--list", "--json", "-k", "not none"))
        return {row["session"] for row in listed}

    @functools.cached_property
    def tasks(self) -> set[str]:
        """The tasks of invoke."""
        listed = json.loads(output(self._invoke, "--list", "--list-format=json"))
        return {row["name"] for row in listed["tasks"]}

    def fault(self, text: str) -> str | None:
        """Return what is wrong with a session or task that a page names, if anything is."""
        session, task = SESSION.fullmatch(text), TASK.fullmatch(text)
        if session:
            unknown = sorted(set(session[1].split()) - self.sessions)
            if unknown:
                return f"noxfile.py has no session {unknown[0]}"
            help_of = [self._nox, "-s", *session[1].split(), "--", "--help"]
            return self._missing_option(session[2], help_of)
        if task and task[1] not in self.tasks:
            return f"tasks.py has no task {task[1]}"
        return self._missing_option(task[2], [self._invoke, "--help", task[1]]) if task else None

    @staticmethod
    def _missing_option(text: str | None, help_of: list[str | Path]) -> str | None:
        """Return which option of a command line its help does not have."""
        wanted = set(OPTION.findall(text or ""))
        missing = wanted - set(OPTION.findall(output(*help_of))) if wanted else set()
        return f"there is no option {min(missing)}" if missing else None


def is_offer(text: str) -> bool:
    """Return whether this is a session or a task, which `make check` and the release run."""
    return bool(SESSION.fullmatch(text) or TASK.fullmatch(text))


def matches(shown: str, printed: str) -> bool:
    """Return whether a page shows what was printed; `...` stands for anything."""
    pattern = ".*".join(re.escape(part) for part in shown.strip().split("..."))
    return re.fullmatch(pattern, printed.strip(), re.DOTALL) is not None


def start(text: str, command: Command, places: Places) -> subprocess.CompletedProcess[bytes]:
    """Execute a command, or what stands in for it, where it belongs."""
    language = command.language if text == command.text else SHELL
    place = docs_places.of(text, language)
    directory = getattr(places, place)
    print(f"+ {command.place if language == PROGRAM else text}   [{place}]", flush=True)
    if language == BATCH:
        with wine.prefix():
            (directory / TYPED).write_text(f"@echo off\n{text}\n", newline="\r\n")
            return wine.call("cmd", "/c", TYPED, cwd=directory)
    if "{address}" in text:
        text = text.replace("{address}", places.address)
    return subprocess.run(
        [sys.executable, "-c", text] if language == PROGRAM else ["sh", "-euc", text],
        cwd=directory,
        env=places.environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )


def execute(text: str, command: Command, places: Places) -> Outcome:
    """Execute a command and return what is wrong with how it ended and what it printed."""
    begin = time.monotonic()
    try:
        done = start(text, command, places)
    except subprocess.TimeoutExpired:
        return Outcome(f"ran for more than {TIMEOUT} s", TIMEOUT)
    seconds = time.monotonic() - begin
    printed, said = (stream.decode(errors="replace") for stream in (done.stdout, done.stderr))
    if done.returncode:
        last = "\n".join((printed + said).splitlines()[-SHOWN:])
        return Outcome(f"ended with code {done.returncode}:\n{last}", seconds)
    compared = command.shown is not None and text == command.text
    if compared and not matches(command.shown or "", printed):
        return Outcome(f"the page shows\n{command.shown}\nit printed\n{printed}", seconds)
    return Outcome(None, seconds)


@dataclasses.dataclass
class Report:
    """What was found out."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    faults: list[str] = dataclasses.field(default_factory=list)
    durations: dict[str, float] = dataclasses.field(default_factory=dict)

    def add(self, kind: str, command: Command, outcome: Outcome) -> None:
        """Take in what came of a command."""
        self.counts[kind] += 1
        self.durations[command.text.splitlines()[0]] = outcome.seconds
        if outcome.fault:
            self.faults.append(f"{command.place}: {command.text}: {outcome.fault}")

    def summary(self) -> str:
        """Return the counts, and which commands took longest."""
        slowest = sorted(self.durations.items(), key=lambda item: -item[1])[:SLOWEST]
        lines = [f"  {seconds:6.1f} s  {text}" for text, seconds in slowest]
        kinds = ", ".join(f"{count} {kind}" for kind, count in self.counts.items())
        passed = sum(self.counts.values()) - len(self.faults)
        return "\n".join([*lines, kinds, f"{passed} passed, {len(self.faults)} failed"])


def unlisted(rows: dict[str, Row], commands: list[Command]) -> list[str]:
    """Return what is wrong with commands.toml: rows that no page has any more."""
    texts = {command.text for command in commands}
    return [
        f"{TABLE.relative_to(ROOT)}: no page shows '{text}'" for text in rows if text not in texts
    ]


def check(commands: list[Command], rows: dict[str, Row], places: Places, *, quick: bool) -> Report:
    """Execute every command once; sessions and tasks must exist."""
    report, offered = Report(), Sessions()
    for command in dict.fromkeys(commands):
        row = rows.get(command.text)
        if row and row.session:
            fault = offered.fault(f"nox -s {row.session}")
            report.add("by hand", command, Outcome(fault, 0.0))
        elif row is None and is_offer(command.text):
            report.add("offered", command, Outcome(offered.fault(command.text), 0.0))
        elif row and row.slow and quick:
            report.counts["left to the full run"] += 1
        elif command.language == BATCH and (reason := wine.missing()):
            not_run(f"{command.place}: {command.text}", reason)
        else:
            run_one(command, row, places, report)
    return report


def run_one(command: Command, row: Row | None, places: Places, report: Report) -> None:
    """Execute a command, or what stands in for it."""
    kind = "executed by others" if row and row.instead else "executed"
    try:
        for text in row.instead if row and row.instead else [command.text]:
            report.add(kind, command, execute(text, command, places))
    except docs_places.MissingModelError as error:
        not_run(f"{command.place}: {command.text}", str(error))


def main(argv: Sequence[str] | None = None) -> int:
    """Execute the commands of all pages, or of those named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("page", nargs="*", help="only pages whose name has this in it")
    parser.add_argument("--quick", action="store_true", help="leave out what takes minutes")
    args = parser.parse_args(argv)

    def work() -> None:
        commands, rows = docs_pages.commands(), table()
        faults = unlisted(rows, commands)
        chosen = [c for c in commands if not args.page or any(p in c.page for p in args.page)]
        with (
            tempfile.TemporaryDirectory(prefix="krafla docs (é) ") as temporary,
            docs_places.places(Path(temporary)) as places,
        ):
            report = check(chosen, rows, places, quick=args.quick)
        print(report.summary())
        if faults + report.faults:
            raise VerificationError("\n".join([*faults, *report.faults]))

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
