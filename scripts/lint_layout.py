# SPDX-License-Identifier: MIT
"""Check what no other linter knows: the layout of the tree and the tables that must agree.

    .venv/bin/python scripts/lint_layout.py

Every instruction set has the same files; #if stays in the files made for it; nothing includes
upward; files and functions stay short; isas.txt, the user guide and the archives' contracts list
the same builds; no source holds an unfinished spot or a path of somebody's machine.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import archives

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent

ISA_FILES = (
    "attn.c",
    "dot.h",
    "elementwise.c",
    "isa.h",
    "matmul.c",
    "peak.c",
    "quantize.c",
    "vec.h",
)
SYSTEM_FILE = re.compile(
    r"_(posix|win32|x86|arm|pthread|single)\.[ch]$|/(compiler|neon_compat)\.h$"
)
GENERATED = re.compile(r"_tables\.c$")
LOGIC_LINES, KERNEL_LINES, FUNCTION_LINES, FILE_BYTES = 600, 400, 60, 200_000
# Who may include whom: a folder of runtime -> the folders whose headers its files may name.
MAY_INCLUDE = {
    "cli": ("cli", "include"),
    "core": ("core", "include", "kernels"),
    "include": (),
    "kernels": ("kernels",),
}
FOR_EVERYONE = ("ml.h", "compiler.h")
# Spelt with a class, so that this file passes its own check.
UNFINISHED = re.compile(r"\b(TOD[O]|FIXM[E]|XX[X])\b")
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|root|home/\w+|Users/\w+|tmp/\w)/")
TEXT = re.compile(r"(\.(c|h|py|sh|md|txt|toml|ya?ml|cff|in|map))?")


def tracked(root: Path) -> list[Path]:
    """Return the files that git knows or would add, relative to the checkout."""
    words = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(words, cwd=root, capture_output=True, text=True, check=True)
    paths = sorted({Path(name) for name in done.stdout.split("\0") if name})
    return [path for path in paths if (root / path).is_file()]


def check_isa_folders(root: Path) -> Iterator[str]:
    """Every instruction set has the same files, and no other but those made for one system.

    One with inner loops in assembly has them twice, for example dot_sums.h and asm/dot_sums.h.
    """
    for folder in sorted({isa.name for isa in isas.load(built=True)}):
        path = Path("runtime/kernels") / folder
        names = {entry.name for entry in (root / path).iterdir()}
        for name in sorted(set(ISA_FILES) - names):
            yield f"{path}/{name}: missing; every instruction set has {' '.join(ISA_FILES)}"
        loops = {entry.name for entry in (root / path / "asm").glob("*")}
        for name in sorted(loops - names):
            yield f"{path}/asm/{name}: {path}/{name} is missing, which does the same without"
        for name in sorted(names - set(ISA_FILES) - loops - {"asm"}):
            if not SYSTEM_FILE.search(f"/{name}"):
                yield f"{path}/{name}: not one of {' '.join(ISA_FILES)}"


def check_conditionals(path: Path, text: str) -> Iterator[str]:
    """Allow #if in include guards and in the files made for one system or compiler."""
    if SYSTEM_FILE.search(f"/{path}"):
        return
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        found = re.match(r"\s*#\s*(if|ifdef|ifndef|elif)\b\s*(\w*)", line)
        if found and not is_guard(path, lines, number, found[2]):
            yield f"{path}:{number}: #{found[1]} belongs into a *_posix, _win32, _x86 or _arm file"


def is_guard(path: Path, lines: list[str], number: int, name: str) -> bool:
    """Return whether the conditional in this line is a header's include guard."""
    return path.suffix == ".h" and lines[number - 1 : number + 1] == [
        f"#ifndef {name}",
        f"#define {name}",
    ]


def headers(root: Path) -> dict[str, set[str]]:
    """Return which folders of runtime have a header (or included source) of a name."""
    places: dict[str, set[str]] = {}
    for path in (root / "runtime").rglob("*.[ch]"):
        places.setdefault(path.name, set()).add(path.relative_to(root / "runtime").parts[0])
    return places


def check_includes(path: Path, text: str, places: dict[str, set[str]]) -> Iterator[str]:
    """Nothing includes upward: kernels < core < programs, which see krafla.h alone."""
    folder = path.parts[1]
    if path.parts[0] != "runtime" or folder not in MAY_INCLUDE:
        return
    inside = folder == "core" or path.match("runtime/cli/bench*")  # ml_bench measures the inside
    allowed = set(MAY_INCLUDE[folder]) | set(MAY_INCLUDE["core"] if inside else ())
    for number, line in enumerate(text.splitlines(), start=1):
        found = re.match(r'\s*#\s*include "(?:.*/)?([^"/]+)"', line)
        name = found[1] if found else ""
        homes = places.get(name, set())
        into_kernels = inside and homes == {"kernels"} and name != "kernels.h"
        if name and name not in FOR_EVERYONE and (not homes & allowed or into_kernels):
            where = "/".join(sorted(homes)) or "nowhere"
            yield f'{path}:{number}: runtime/{folder} must not include "{name}" (of {where})'


def check_c_sizes(path: Path, text: str) -> Iterator[str]:
    """Files and functions stay short enough to read."""
    lines = text.splitlines()
    limit = KERNEL_LINES if path.parts[:2] == ("runtime", "kernels") else LOGIC_LINES
    if len(lines) >= limit:
        yield f"{path}: {len(lines)} lines, want fewer than {limit}"
    start = 0
    for number, line in enumerate(lines, start=1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start >= FUNCTION_LINES:
                yield f"{path}:{start}: function of {number - start} lines, want < {FUNCTION_LINES}"
            start = 0


def check_python_sizes(path: Path, text: str) -> Iterator[str]:
    """Files and functions stay short enough to read."""
    if len(text.splitlines()) >= LOGIC_LINES:
        yield f"{path}: {len(text.splitlines())} lines, want fewer than {LOGIC_LINES}"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef) and node.end_lineno:
            length = node.end_lineno - node.lineno
            if length >= FUNCTION_LINES:
                yield f"{path}:{node.lineno}: {node.name} has {length} lines"


def check_text(path: Path, text: str) -> Iterator[str]:
    """No unfinished spots, no paths of a machine, a licence line in every source."""
    for number, line in enumerate(text.splitlines(), start=1):
        if UNFINISHED.search(line):
            yield f"{path}:{number}: unfinished: {line.strip()}"
        if MACHINE_PATH.search(line):
            yield f"{path}:{number}: a path of somebody's machine: {line.strip()}"
    if path.suffix in (".c", ".h", ".py") and "SPDX-License-Identifier: MIT" not in text:
        yield f"{path}: no line SPDX-License-Identifier: MIT"


def check_file(root: Path, path: Path, places: dict[str, set[str]]) -> Iterator[str]:
    """Apply what applies to one file."""
    data = (root / path).read_bytes()
    generated = GENERATED.search(path.name) or path.parts[:2] == ("tests", "data")
    if len(data) > FILE_BYTES and not generated:
        yield f"{path}: {len(data)} bytes, want at most {FILE_BYTES}"
    if not TEXT.fullmatch(path.suffix) or path.parts[:2] in (("tests", "data"), ("tests", "fuzz")):
        return
    text = data.decode()
    yield from check_text(path, text)
    if path.suffix in (".c", ".h") and not generated:
        yield from check_conditionals(path, text)
        yield from check_includes(path, text, places)
        yield from check_c_sizes(path, text)
    if path.suffix == ".py":
        yield from check_python_sizes(path, text)


def check_guide(root: Path) -> Iterator[str]:
    """The user guide's table of instruction sets has the rows of isas.txt that ship."""
    guide = root / "docs" / "user-guide.md"
    if not guide.is_file():
        yield "docs/user-guide.md: missing"
        return
    known = {isa.name for isa in isas.load()}
    tables = re.findall(r"(?:^\|.*\n)+", guide.read_text(), re.MULTILINE)
    rows = [set(re.findall(r"^\| *`(\w+)` *\|", table, re.MULTILINE)) for table in tables]
    listed = next((names for names in rows if "sse2" in names), set())
    shipped = {isa.name for isa in isas.load(built=True, ship=True)}
    for name in sorted(shipped - listed):
        yield f"docs/user-guide.md: no row for ISA {name} in the table of instruction sets"
    for name in sorted(listed - known):
        yield f"docs/user-guide.md: ISA {name} is not in isas.txt"


def check_contracts(root: Path) -> Iterator[str]:
    """Each archive's contract has the builds that isas.txt ships for its architecture."""
    for archive in archives.load():
        contract = root / "packaging" / f"{archive.name}.contract"
        text = contract.read_text() if contract.is_file() else ""
        got = set(re.findall(r"bin/ml_run-(\w+)(?:\.exe)?$", text, re.MULTILINE))
        want = {isa.name for isa in isas.load(archive.arch, built=True, ship=True)}
        if got != want:
            yield (
                f"packaging/{contract.name}: builds {' '.join(sorted(got)) or 'none'}, "
                f"isas.txt ships {' '.join(sorted(want))}: package --update-contract"
            )


def findings(root: Path) -> Iterator[str]:
    """Return everything that is wrong."""
    places = headers(root)
    for path in tracked(root):
        yield from check_file(root, path, places)
    yield from check_isa_folders(root)
    yield from check_guide(root)
    yield from check_contracts(root)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the findings; the exit code is 1 if there are any."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args(argv)
    found = list(findings(ROOT))
    print("\n".join(found) if found else "lint_layout: nothing to report")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
