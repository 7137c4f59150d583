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


def speed_of_rate(stat: dict[str, float]) -> Speed:
    """Return tokens per second as they are."""
    return Speed(stat["median"], stat["low"], stat["high"], f"{stat['median']:.2f} tok/s")


def speed_of_time(stat: dict[str, float]) -> Speed:
    """Return the inverse of nanoseconds: a short time is a high speed."""
    return Speed(1 / stat["median"], 1 / stat["high"], 1 / stat["low"], f"{stat['median']:.0f} ns")


def speeds(document: dict[str, Any]) -> Iterator[tuple[str, Speed]]:
    """Yield (case, speed) of a document of either kind."""
    for row in document["results"]:
        if document["kind"] == "kernels":
            yield row["case"], speed_of_time(row["ns"])
            continue
        for test in ("prefill", "decode"):
            case = f"{test} {row[test]['tokens']}, depth {row['depth']}, threads {row['threads']}"
            yield case, speed_of_rate(row[test])


def load(path: Path) -> Result:
    """Read one file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        conditions = {name: str(document[name]) for name in CONDITIONS if name in document}
        return Result(document["kind"], conditions, dict(speeds(document)))
    except (OSError, ValueError) as error:
        raise CompareError(f"{path}: {error}") from None
    except (KeyError, TypeError, ZeroDivisionError):
        raise CompareError(f"{path}: not written by this version's ml_bench --json") from None


def pair(old: Result, new: Result) -> list[Row]:
    """Return the cases that both have, in the order of the new file."""
    if old.kind != new.kind:
        raise CompareError(f"one file is of {old.kind}, the other of {new.kind}")
    rows = [
        Row(case, old.speeds[case], new.speeds[case]) for case in new.speeds.keys() & old.speeds
    ]
    if not rows:
        raise CompareError("the two files have no case in common")
    order = list(new.speeds)
    return sorted(rows, key=lambda row: order.index(row.case))


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


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison; 1 if a case fell below the limit, 2 if there is nothing to compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD.json")
    parser.add_argument("new", type=Path, metavar="NEW.json")
    parser.add_argument(
        "--fail-below", type=float, metavar="RATIO", help="exit 1 if a marked ratio is below this"
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
    limit = args.fail_below or 0.0
    failed = [row for row in rows if row.mark == "slower" and row.ratio < limit]
    for row in failed:
        print(f"error: {row.case}: {row.ratio:.3f} is below {limit}", file=sys.stderr)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
