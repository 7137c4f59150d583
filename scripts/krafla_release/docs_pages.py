# SPDX-License-Identifier: MIT
"""Read the pages of the docs: their commands, and what the pages show that these print.

    PYTHONPATH=scripts python3 -c 'from krafla_release import docs_pages; print(docs_pages.pages())'

Every block names its language.  `sh` holds commands, one a line, a backslash joins lines; `bat` is
for the Command Prompt; `python` is a program.  `text` right below such a block is what it
prints; elsewhere it holds no command.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from typing import TYPE_CHECKING

from krafla_release import archives
from krafla_release.project import ROOT, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Beside docs/*.md; the archives' own pages are made from a template.
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "runtime/python/README.md")
SHELL = "sh"
BATCH = "bat"
PROGRAM = "python"
OUTPUT = "text"
LANGUAGES = (SHELL, BATCH, PROGRAM, OUTPUT, "c", "json", "toml", "yaml")

FENCE = re.compile(r"^( *)```(.*)$")
SPAN = re.compile(r"`([^`]+)`")
# How a command begins: a program of ours or a tool, after variables, with at least one argument.
BEGIN = re.compile(
    r"(?:[A-Z_]+=\S* )*"
    r"(?:(?:make|nox|invoke|sh|curl|wget|pip|python3?|git|gh|cmake|cosign|sudo|apt|apt-get|dpkg|dpkg-deb"
    r"|sha256sum|certutil|docker|podman|buildah|(?:\./)?ml_\w+(?:\.cmd)?"
    r"|\.venv/bin/[\w-]+|build/[\w/.-]+) \S"
    r"|scripts/[\w-]+\.sh\b)"
)
# What the reader fills in: <isa>, [options], DIRECTORY..., X.Y.Z
BLANK = re.compile(r"<[\w-]+>|\[[\w|=.-]+\]|\.\.\.|…")


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block."""

    line: int  # of its first line in the page
    end: int  # the line of its closing fence
    language: str
    text: str


@dataclasses.dataclass(frozen=True)
class Command:
    """A command with where it stands; those that differ in that alone are equal."""

    page: str = dataclasses.field(compare=False)
    line: int = dataclasses.field(compare=False)
    text: str
    language: str = "sh"
    shown: str | None = None  # what the page says that it prints

    @property
    def place(self) -> str:
        """Where it stands, in the form that editors jump to."""
        return f"{self.page}:{self.line}"


def pages() -> dict[str, str]:
    """Return the text of every page, by a name that says where it is."""
    paths = [ROOT / name for name in PAGES] + sorted((ROOT / "docs").glob("*.md"))
    found = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    for archive in archives.load():
        builds = {"sse2": "sse2"}  # a table of the page, no command
        made = archives.readme(archive, builds, f"krafla-X.Y.Z-{archive.name}{archive.suffix}")
        found[f"packaging/archive-readme.md ({archive.system})"] = made.data.decode()
    return found


def blocks(page: str, text: str) -> list[Block]:
    """Return the fenced blocks of a page; each must name a language that is known."""
    found: list[Block] = []
    opened: tuple[int, str, str] | None = None
    body: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if fence and opened is None:
            opened, body = (number + 1, fence[1], fence[2].strip()), []
        elif fence and opened and not fence[2].strip():
            first, _, language = opened
            found.append(Block(first, number, language, "\n".join(body)))
            opened = None
        elif opened:
            body.append(line.removeprefix(opened[1]))
    if opened:
        raise ReleaseError(f"{page}:{opened[0] - 1}: this block has no end")
    for block in found:
        if block.language not in LANGUAGES:
            raise ReleaseError(
                f"{page}:{block.line - 1}: a block in {block.language or 'no language'!r}; "
                f"known: {', '.join(LANGUAGES)}"
            )
    return found


def without_comment(line: str) -> str:
    """Return a line of shell without the comment at its end."""
    quote = ""
    for position, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = letter
        elif letter == "#" and (position == 0 or line[position - 1].isspace()):
            return line[:position].rstrip()
    return line.rstrip()


def lines_of(block: Block) -> Iterator[tuple[int, str]]:
    """Return the commands of a block with their lines; a backslash at its end joins a line."""
    begin, joined = block.line, ""
    for number, line in enumerate(block.text.splitlines(), block.line):
        begin = begin if joined else number
        joined += line.strip() if joined else line
        if joined.endswith("\\"):
            joined = joined[:-1]
            continue
        command = without_comment(joined).strip()
        if command:
            yield begin, command
        joined = ""


def in_blocks(page: str, text: str) -> Iterator[Command]:
    """Return the commands and programs of a page's blocks."""
    lines = text.splitlines()
    found = blocks(page, text)
    for block, below in itertools.zip_longest(found, found[1:]):
        between = lines[block.end : below.line - 2] if below else []
        follows = below and below.language == OUTPUT and not "".join(between).strip()
        shown = below.text if below and follows else None
        if block.language == PROGRAM:
            yield Command(page, block.line, block.text, PROGRAM, shown)
        elif block.language == BATCH:  # as a whole: a variable, and what it is set for
            yield Command(page, block.line, block.text, BATCH, shown)
        elif block.language == SHELL:
            commands = list(lines_of(block))
            for number, command in commands:
                last = number == commands[-1][0]
                yield Command(page, number, command, SHELL, shown if last else None)
        elif block.language == OUTPUT:
            for number, line in enumerate(block.text.splitlines(), block.line):
                if BEGIN.match(line) and not BLANK.search(line):
                    raise ReleaseError(f"{page}:{number}: a command in a block of text: {line}")


def in_sentences(page: str, text: str) -> Iterator[Command]:
    """Return the commands that stand as code in sentences and tables."""
    inside = {line for b in blocks(page, text) for line in range(b.line - 1, b.end + 1)}
    lines = ["" if n in inside else line for n, line in enumerate(text.splitlines(), 1)]
    outside = "\n".join(lines)
    for span in SPAN.finditer(outside):
        words = " ".join(span[1].split()).replace("\\|", "|")
        if BEGIN.match(words) and not BLANK.search(words):
            yield Command(page, outside.count("\n", 0, span.start()) + 1, words)


def commands() -> list[Command]:
    """Return every command of every page, in order."""
    return [
        command
        for page, text in pages().items()
        for command in sorted(
            [*in_blocks(page, text), *in_sentences(page, text)], key=lambda found: found.line
        )
    ]
