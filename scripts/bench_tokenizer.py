# SPDX-License-Identifier: MIT
"""Time krafla_tokenizer_encode beside the `tokenizers` library: MB/s of one core, and opening.

    .venv/bin/python scripts/bench_tokenizer.py models/tokenizers/llama3 models/tokenizers/qwen3

Each directory holds a tokenizer.json (scripts/fetch_tokenizers.py makes them); the runtime is the
library of `make ISA=<isa> THREADS=pthread lib`.  Both encode the same megabyte in turns, the best
of several rounds counts, and their ids must be equal.
"""

from __future__ import annotations

import argparse
import dataclasses
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tokenizers import Tokenizer as Library

from krafla import KraflaError, Tokenizer
from krafla._select import check, ffi, library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parent.parent
TEXT = ROOT / "tests" / "data" / "text" / "moby-dick.txt"
BYTES = 1_000_000  # the text is repeated to at least this
ROUNDS = 7


class BenchError(Exception):
    """One line: what is missing, or which ids differ."""


@dataclasses.dataclass(frozen=True)
class Times:
    """Seconds of CPU time: the runtime's and the library's, opening and encoding."""

    opening: tuple[float, float]
    encoding: tuple[float, float]
    tokens: int


class Encoder:
    """The runtime's encoding into memory that is there already, as a C program does it."""

    def __init__(self, tokenizer: Tokenizer, text: bytes) -> None:
        """Make room for the ids of text."""
        self.tokenizer, self.text = tokenizer, text
        self.room = len(text) + 16
        self.ids = ffi.new("int32_t[]", self.room)
        self.n = ffi.new("size_t *")

    def run(self) -> None:
        """Encode the text."""
        err = ffi.new("krafla_error *")
        with self.tokenizer._use() as t:  # noqa: SLF001  (our own class)
            call = library().krafla_tokenizer_encode
            check(call(t, self.text, len(self.text), 0, self.ids, self.room, self.n, err), err)

    def result(self) -> list[int]:
        """Return the ids of the last run."""
        return list(self.ids[0 : self.n[0]])


def seconds(call: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def convert(source: Path, output: Path) -> None:
    """Make the .mlt file of a tokenizer.json."""
    if not source.is_file():
        raise BenchError(f"{source} is not there: scripts/fetch_tokenizers.py makes it")
    program = ROOT / "tools" / "convert_tokenizer.py"
    command: list[str | Path] = [sys.executable, program, source, output]
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        raise BenchError(f"{source} cannot be converted")


def measure(source: Path, mlt: Path, text: str) -> Times:
    """Time both on one tokenizer."""
    with Tokenizer.open(mlt) as tokenizer:
        theirs = Library.from_file(str(source))
        ours = Encoder(tokenizer, text.encode())
        ours.run()
        if ours.result() != theirs.encode(text, add_special_tokens=False).ids:
            raise BenchError(f"{source}: the ids differ")

        def encode() -> object:  # the fastest the library has: one that finds no offsets
            return theirs.encode_batch_fast([text], add_special_tokens=False)

        rounds = [(seconds(ours.run), seconds(encode)) for _ in range(ROUNDS)]
        opening = (
            min(seconds(lambda: Tokenizer.open(mlt).close()) for _ in range(ROUNDS)),
            seconds(lambda: Library.from_file(str(source))),
        )
        first, second = zip(*rounds, strict=True)
        return Times(opening, (min(first), min(second)), len(tokenizer))


def row(name: str, t: Times, size: int) -> str:
    """Return one line of the table."""
    ours, theirs = (size / s / 1e6 for s in t.encoding)
    opening = f"{1e3 * t.opening[0]:.0f} | {1e3 * t.opening[1]:.0f}"
    return f"| {name} | {t.tokens} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.0f} | {opening} |"


def main(argv: Sequence[str] | None = None) -> int:
    """Print a table with a line for each tokenizer."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("directories", nargs="+", type=Path, help="each with a tokenizer.json")
    parser.add_argument("--text", type=Path, default=TEXT, help="what is encoded, UTF-8")
    args = parser.parse_args(argv)
    try:
        library()
        text = args.text.read_text(encoding="utf-8")
        text *= -(-BYTES // max(1, len(text.encode())))
        size = len(text.encode())
        print(f"{args.text}, repeated to {size} bytes\n")
        print("| tokenizer | tokens | MB/s | library | times | open, ms | library |")
        print("|---|---|---|---|---|---|---|")
        with tempfile.TemporaryDirectory() as work:
            for directory in args.directories:
                source, mlt = directory / "tokenizer.json", Path(work) / "tokenizer.mlt"
                convert(source, mlt)
                print(row(directory.name, measure(source, mlt, text), size), flush=True)
    except (BenchError, KraflaError, OSError, UnicodeDecodeError) as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
