# SPDX-License-Identifier: MIT
"""Make the parts of the pages that come from data: between the markers <!-- table:NAME --> in docs.

    python3 scripts/sync_docs.py --check

A table is made from one home: the changelog from CHANGELOG.md, `isas` from runtime/kernels,
`catalog` from scripts/hf_models.json, `options:PROGRAM` from what `PROGRAM --help` says.  Python
alone is enough, but for the options: the tools' --help wants numpy, and the programs must be built.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isas
from krafla_release import changelog
from krafla_release.project import ROOT, PreflightError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

DOCS = ROOT / "docs"
CHANGELOG_PAGE = DOCS / "changelog.md"
CATALOG = ROOT / "scripts" / "hf_models.json"
RUNS_ON = ROOT / "runtime" / "kernels" / "runs_on.txt"
PROGRAMS = ("ml_run", "ml_bench", "ml_tok")
TOOLS = ("convert.py", "convert_tokenizer.py", "perplexity.py")
ARCHITECTURES = {"x86_64": "x86-64", "aarch64": "64-bit ARM", "armv7": "32-bit ARM"}
LICENCES = {"apache-2.0": "Apache-2.0"}  # the hub's names and those of SPDX

MARKER = re.compile(r"^<!-- (?:table:(?P<name>[^>]+?)|(?P<end>/table)) -->$", re.MULTILINE)
# "  -z FILE              Tokenizer: ..."; without the text where the option leaves no room for it.
OPTION = re.compile(r" {2}(-\S.*?)(?: {2,}(\S.*))?")
MENTIONED = re.compile(r'"(-[^"]*)"|(?<![\w-])(--?[a-zA-Z][\w-]*)')
WIDE = {"COLUMNS": "1000", "NO_COLOR": "1", "PYTHON_COLORS": "0", "PYTHONDONTWRITEBYTECODE": "1"}


class NotMadeError(PreflightError):
    """A table cannot be made on this machine yet; the message says what is missing."""


@dataclasses.dataclass(frozen=True)
class Page:
    """A page as it is and as it should be, and what could not be made of it."""

    path: Path
    before: str
    after: str
    not_made: tuple[str, ...] = ()


def tables() -> dict[str, Callable[[], str]]:
    """Return how each table is made; the pages must show every one of them."""
    made: dict[str, Callable[[], str]] = {
        "changelog": lambda: changelog_table(changelog.PATH.read_text(encoding="utf-8")),
        "isas": isa_table,
        "catalog": catalog_table,
    }
    for program in PROGRAMS:
        made[f"options:{program}"] = functools.partial(program_table, program)
    for tool in TOOLS:
        made[f"options:{tool}"] = functools.partial(tool_table, tool)
    return made


def filled(text: str, where: str, make: Callable[[str], str | None]) -> str:
    """Return a page with its tables made anew; one that `make` has nothing for stays as it is."""
    parts, position, start = [], 0, None
    for marker in MARKER.finditer(text):
        line = f"{where}:{text.count(chr(10), 0, marker.start()) + 1}"
        if marker["end"] and not start:
            raise PreflightError(f"{line}: <!-- /table --> ends no table")
        if start and not marker["end"]:
            raise PreflightError(f"{line}: <!-- table:{start['name']} --> before this has no end")
        if not start:
            start = marker
            continue
        table = make(start["name"])
        if table is not None:
            parts += [text[position : start.end()], f"\n\n{table}\n\n"]
            position = marker.start()
        start = None
    if start:
        raise PreflightError(f"{where}: <!-- table:{start['name']} --> has no <!-- /table -->")
    return "".join([*parts, text[position:]])


def pages(docs: Path = DOCS) -> list[Page]:
    """Return every page that shows a table; fail if a table is unknown, shown twice or nowhere."""
    known = tables()
    shown: dict[str, str] = {}
    found = []
    for path in sorted(docs.glob("**/*.md")):
        text = path.read_bytes().decode()
        where = f"docs/{path.relative_to(docs).as_posix()}"
        not_made: list[str] = []

        def make(name: str, where: str = where, not_made: list[str] = not_made) -> str | None:
            if name not in known:
                raise PreflightError(f"{where}: no table {name}; there are: {', '.join(known)}")
            if name in shown:
                raise PreflightError(f"{where}: table {name} is in {shown[name]} already")
            shown[name] = where
            try:
                return known[name]()
            except NotMadeError as error:
                not_made.append(f"{where}: {name}: {error}")
                return None

        after = filled(text, where, make)
        if MARKER.search(text):
            found.append(Page(path, text, after, tuple(not_made)))
    nowhere = [name for name in known if name not in shown]
    if nowhere:
        raise PreflightError(f"no page in docs shows <!-- table:{nowhere[0]} -->")
    return found


def with_changelog(page: str, log: str) -> str:
    """Return the site's changelog page for a text of CHANGELOG.md."""
    where = f"docs/{CHANGELOG_PAGE.name}"
    return filled(page, where, lambda name: changelog_table(log) if name == "changelog" else None)


def changelog_table(log: str) -> str:
    """Return the changelog as the site shows it: checked, without its title."""
    found = changelog.sections(log)
    return "\n\n".join(f"{section.heading}\n\n{section.body}" for section in found)


def isa_table() -> str:
    """Return the instruction sets, fastest first within an architecture, and where they run."""
    texts = runs_on()
    archs: dict[str, list[str]] = {}
    shipped = {isa.name for isa in isas.load(built=True, ship=True)}
    for isa in isas.load(built=True):
        archs.setdefault(isa.name, []).append(ARCHITECTURES[isa.arch])
    if set(archs) != set(texts):
        name = min(set(archs) ^ set(texts))
        raise PreflightError(f"{name}: in one of isas.txt and {RUNS_ON.name}, want it in both")
    rows = []
    for name, where in archs.items():
        only = "" if name in shipped else "; for tests, in no archive"
        rows.append((f"`{name}`", ", ".join(where), f"{texts[name]}{only}"))
    return markdown(("ISA", "for", "runs on"), rows)


def runs_on() -> dict[str, str]:
    """Return what runs_on.txt says about each instruction set."""
    texts: dict[str, str] = {}
    for number, line in enumerate(RUNS_ON.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, bar, text = (part.strip() for part in line.partition("|"))
        if not (name and bar and text) or name in texts:
            raise PreflightError(f"{RUNS_ON.name}:{number}: want 'name | CPUs', each name once")
        texts[name] = text
    return texts


def catalog_table() -> str:
    """Return the catalog's models."""
    rows = []
    for model in catalog():
        licence = LICENCES[model["license"]]
        rows.append(
            (
                f"[{model['name']}](https://huggingface.co/{model['source']})",
                model["parameters"],
                licence,
                f"`{model['chat']}`",
                f"`{','.join(model['mixed'])}`" if model["mixed"] else "take `q8`",
                model["min_krafla"],
            )
        )
    head = ("model", "parameters", "licence", "`--chat`", "`--wtype q4 --q8`", "Krafla since")
    return markdown(head, rows)


def catalog() -> list[dict[str, Any]]:
    """Return the models of scripts/hf_models.json, whose form a schema beside it tells."""
    return list(json.loads(CATALOG.read_text(encoding="utf-8"))["models"])


def program_table(program: str) -> str:
    """Return the options of one of our programs."""
    return options_table({"": help_of([str(built_program(program))])})


def tool_table(tool: str) -> str:
    """Return the options of one of the model tools, and what sets its subcommands apart."""
    command = [python_with_numpy(), str(ROOT / "tools" / tool)]
    text = help_of(command)
    subcommands = re.search(r"^  \{([\w,]+)\}$", text, re.MULTILINE)
    if not subcommands:
        return options_table({"": text})
    return options_table({name: help_of([*command, name]) for name in subcommands[1].split(",")})


def options_table(helps: dict[str, str]) -> str:
    """Return the table of the options of a program, by the help of each of its subcommands."""
    meanings: dict[str, dict[str, list[str]]] = {}
    for name, text in helps.items():
        for option, meaning in options(text):
            meanings.setdefault(option, {}).setdefault(meaning, []).append(name)
    rows = []
    for option, said in meanings.items():
        everywhere = len(said) == 1 and len(next(iter(said.values()))) == len(helps)
        texts = [
            shown(meaning)
            if everywhere
            else f"{' and '.join(f'`{n}`' for n in names)}: {shown(meaning)}"
            for meaning, names in said.items()
        ]
        rows.append((f"`{option}`".replace("|", r"\|"), "; ".join(texts)))
    return markdown(("option", "meaning"), rows)


def options(text: str) -> Iterator[tuple[str, str]]:
    """Return the options that a --help lists, with their texts; --help itself needs none."""
    _, found, listed = text.partition("\noptions:\n")
    if not found:
        raise PreflightError("a --help without a line 'options:'")
    option, words = "", [""]
    for line in [*listed.split("\n\n")[0].splitlines(), "  --"]:
        starts = OPTION.fullmatch(line)
        if not starts:
            words.append(line.strip())
            continue
        if option and "--help" not in option:
            yield option, " ".join(filter(None, words))
        option, words = starts[1], [starts[2] or ""]


def shown(text: str) -> str:
    """Return a text of --help as Markdown."""
    for special in "\\|*<":
        text = text.replace(special, f"\\{special}")
    return MENTIONED.sub(lambda found: f"`{found[1] or found[2]}`", text)


def help_of(command: list[str]) -> str:
    """Return what a program prints when it is asked for help."""
    done = subprocess.run(
        [*command, "--help"],
        env=os.environ | WIDE,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise NotMadeError(f"{Path(command[-1]).name} --help: {said}")
    return done.stdout


def built_program(program: str) -> Path:
    """Return the newest build of a program that this machine runs; it must not be out of date."""
    source = ROOT / "runtime" / "cli" / f"{program}.c"
    built = [(path.stat().st_mtime, path) for path in ROOT.glob(f"build/*/{program}")]
    for time, path in sorted(built, reverse=True):
        if time >= source.stat().st_mtime and answers(path):
            return path
    what = f"older than {source.relative_to(ROOT)}" if built else "not built"
    raise NotMadeError(f"{program} is {what}: make ISA=scalar THREADS=pthread")


def answers(program: Path) -> bool:
    """Return whether this machine can run a program."""
    try:
        return not subprocess.run(
            [program, "--version"], capture_output=True, check=False
        ).returncode
    except OSError:  # of another architecture
        return False


@functools.cache
def python_with_numpy() -> str:
    """Return a Python that can run the model tools: this one, or that of the checkout."""
    for python in (sys.executable, str(ROOT / ".venv" / "bin" / "python")):
        words = [python, "-c", "import numpy"]
        if (
            Path(python).exists()
            and not subprocess.run(words, capture_output=True, check=False).returncode
        ):
            return python
    raise NotMadeError("numpy is missing: apt-get install python3-numpy")


def markdown(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(head) + "|", *lines[1:]])
