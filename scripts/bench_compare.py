# SPDX-License-Identifier: MIT
"""Compare two results of `ml_bench --json`: what became faster, what slower, what is noise.

    python3 scripts/bench_compare.py OLD.json NEW.json --fail-below 0.95

Ratios are of speed: above 1 the new one is faster. A difference counts where the middle halves of
the repetitions, from quartile to quartile, do not overlap; the rest stands without a mark.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# What should be equal if the two are to be compared.
CONDITIONS = ("cpu", "isa", "model", "kv", "batch", "packed")
# Tokens per second, nanoseconds, percent: what lies outside was not measured, and may have no
# ratio.
PLAUSIBLE = (1e-9, 1e15)


class CompareError(Exception):
    """A file is not a result of ml_bench, or not of the same kind; the message says which."""


@dataclasses.dataclass(frozen=True)
class Speed:
    """One measurement as a speed: more is better; low and high are its quartiles."""

    median: float
    low: float
    high: float
    shown: str  # with its unit


@dataclasses.dataclass(frozen=True)
class Result:
    """One file: under which conditions it was measured, and what came out."""

    kind: str
    conditions: dict[str, str]
    speeds: dict[str, Speed]


@dataclasses.dataclass(frozen=True)
class Row:
    """One case of both files."""

    case: str
    old: Speed
    new: Speed

    @property
    def ratio(self) -> float:
        """Return the speed of the new over the old."""
        return self.new.median / self.old.median

    @property
    def mark(self) -> str:
        """Return whether the difference is more than the spread."""
        if self.new.low > self.old.high:
            return "faster"
        return "slower" if self.new.high < self.old.low else ""


def printable(value: object) -> str:
    """Return a name of a file as one line that cannot command the terminal."""
    return "".join(c if c.isprintable() else "?" for c in str(value))


def is_plausible(value: Any) -> bool:
    """Return whether this can be a measured number."""
    return type(value) in (int, float) and PLAUSIBLE[0] < value < PLAUSIBLE[1]


def quartiles(stat: dict[str, Any]) -> tuple[float, float, float]:
    """Return (low, median, high), or raise TypeError if they cannot be that."""
    numbers = [stat[name] for name in ("low", "median", "high")]
    for number in numbers:
        if not is_plausible(number):
            raise TypeError
    low, median, high = map(float, numbers)
    if not low <= median <= high:
        raise TypeError
    return low, median, high


def speed_of_rate(stat: dict[str, Any]) -> Speed:
    """Return tokens per second as they are."""
    low, median, high = quartiles(stat)
    return Speed(median, low, high, f"{median:.2f} tok/s")


def speed_of_time(stat: dict[str, Any]) -> Speed:
    """Return the inverse of nanoseconds: a short time is a high speed."""
    low, median, high = quartiles(stat)
    return Speed(1 / median, 1 / high, 1 / low, f"{median:.0f} ns")


def speeds(document: dict[str, Any]) -> Iterator[tuple[str, Speed]]:
    """Yield (case, speed) of a document of either kind."""
    for row in document["results"]:
        if document["kind"] == "kernels":
            yield printable(row["case"]), speed_of_time(row["ns"])
            continue
        for test in ("prefill", "decode"):
            case = f"{test} {row[test]['tokens']}, depth {row['depth']}, threads {row['threads']}"
            yield printable(case), speed_of_rate(row[test])


def load(path: Path) -> Result:
    """Read one file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["kind"] not in ("model", "kernels"):
            raise TypeError
        conditions = {name: printable(document[name]) for name in CONDITIONS if name in document}
        return Result(document["kind"], conditions, dict(speeds(document)))
    except OSError as error:
        raise CompareError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CompareError(f"{path}: not written by this version's ml_bench --json") from None


def pair(old: Result, new: Result) -> list[Row]:
    """Return the cases that both have, in the order of the new file."""
    if old.kind != new.kind:
        raise CompareError(f"one file is of {old.kind}, the other of {new.kind}")
    rows = [
        Row(case, old.speeds[case], speed)
        for case, speed in new.speeds.items()
        if case in old.speeds
    ]
    if not rows:
        raise CompareError("the two files have no case in common")
    return rows


def report(old: Result, new: Result, rows: Sequence[Row]) -> Iterator[str]:
    """Yield the lines: what differs in the conditions, the table, what only one file has."""
    for name in CONDITIONS:
        before, after = old.conditions.get(name), new.conditions.get(name)
        if before != after:
            yield f"{name}: {before} before, {after} now"
    yield "| case | old | new | ratio | |"
    yield "|---|---|---|---|---|"
    for row in rows:
        shown = f"{row.old.shown} | {row.new.shown} | {row.ratio:.3f}"
        yield f"| {row.case} | {shown} | {row.mark} |"
    mean = math.exp(sum(math.log(row.ratio) for row in rows) / len(rows))
    yield f"geometric mean of {len(rows)} ratios: {mean:.3f}"
    for name, mine, other in (("old", old, new), ("new", new, old)):
        for case in mine.speeds:
            if case not in other.speeds:
                yield f"only in the {name} file: {case}"


def ratio(text: str) -> float:
    """Return the number of --fail-below; nan would let everything pass."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError
    return value


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison; 1 if a case fell below the limit, 2 if there is nothing to compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD.json")
    parser.add_argument("new", type=Path, metavar="NEW.json")
    parser.add_argument(
        "--fail-below",
        type=ratio,
        default=0.0,
        metavar="RATIO",
        help="exit 1 if a marked ratio is below this",
    )
    args = parser.parse_args(argv)
    try:
        old, new = load(args.old), load(args.new)
        rows = pair(old, new)
    except CompareError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for line in report(old, new, rows):
        print(line)
    failed = [row for row in rows if row.mark == "slower" and row.ratio < args.fail_below]
    for row in failed:
        below = f"{row.ratio:.3f} is below {args.fail_below}"
        print(f"error: {row.case}: {below}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
