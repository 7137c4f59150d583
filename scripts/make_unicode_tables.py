# SPDX-License-Identifier: MIT
r"""Write the Unicode tables of the runtime: the classes of characters, and NFC.

    python3 scripts/make_unicode_tables.py --check

runtime/core/unicode_tables.c has the classes the pre-tokenizers ask for: letters are \p{L}, numbers
\p{N}, marks \p{M}, white space is the property White_Space, and word characters are what \w is to
the `tokenizers` library.  They follow Unicode 16.0.0, the version that library has: with an older
or newer `unicodedata`, install `unicodedata2==16.0.0`.

runtime/core/normalize_tables.c has combining classes, decompositions and compositions.  There the
library follows Unicode 9.0.0; what has been normalized never changes in later versions, so that is
16.0.0 without the characters of NEWER.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = "16.0.0"
CORE = Path(__file__).resolve().parent.parent / "runtime" / "core"
CODES = 0x110000
PAGE = 256  # code points per page; two of them share a byte

SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)} | {
    0x2028,
    0x2029,
    0x202F,
    0x205F,
    0x3000,
}
JOINERS = {0x200C, 0x200D}
# Alphabetic characters that are neither letters nor marks nor letter numbers: circled and squared
# Latin letters.
SYMBOL_LETTERS = {
    *range(0x24B6, 0x24EA),
    *range(0x1F130, 0x1F14A),
    *range(0x1F150, 0x1F16A),
    *range(0x1F170, 0x1F18A),
}
# Ranges with a combining class or a canonical decomposition that came after Unicode 9.0.0.
NEWER = """
    7FD 897-89F 8CA-8D3 9FE C3C D3B-D3C EBA 1715 1ABF-1ACE 1DF6-1DFA A82C 105C9 105E4 10D24-10D27
    10D69-10D6D 10EAB-10EAC 10EFD-10EFF 10F46-10F50 10F82-10F85 11070 1133B 11383 11385 1138E
    11391 113C5 113C7-113C8 113CE-113D0 1145E 11839-1183A 11938 1193D-1193E 11943 119E0 11A34
    11A47 11A99 11D42 11D44-11D45 11D97 11F41-11F42 16121-16128 1612F 16D68-16D6A 16FF0-16FF1
    1E08F 1E130-1E136 1E2AE 1E2EC-1E2EF 1E4EC-1E4EF 1E5EE-1E5EF
"""
# Jamo of Hangul that combine with the one before; syllables are arithmetic.
JAMO = (*range(0x1161, 0x1176), *range(0x11A8, 0x11C3))
SECOND, CHANGES = 1, 2  # as in normalize_tables.h


class DatabaseError(Exception):
    """No database of the right version on this Python."""


def database() -> Any:
    """Return a `unicodedata` module of VERSION."""
    for name in ("unicodedata", "unicodedata2"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if module.unidata_version == VERSION:
            return module
    raise DatabaseError(f"no Unicode {VERSION} here; install unicodedata2=={VERSION}")


def nibble(code: int, category: str) -> int:
    """Return class (0 other, 1 letter, 2 number, 3 white space), 4 word character, 8 mark."""
    kind = 3 if code in SPACES else {"L": 1, "N": 2}.get(category[0], 0)
    word = category[0] in "LM" or category in ("Nd", "Nl", "Pc")
    word = word or code in JOINERS or code in SYMBOL_LETTERS
    return kind | 4 * word | 8 * (category[0] == "M")


def pages(values: Sequence[int]) -> tuple[list[int], list[tuple[int, ...]]]:
    """Return the page number of each 256 code points and the distinct pages."""
    index: list[int] = []
    distinct: dict[tuple[int, ...], int] = {}
    for first in range(0, CODES, PAGE):
        page = tuple(values[first : first + PAGE])
        index.append(distinct.setdefault(page, len(distinct)))
    assert len(distinct) <= PAGE
    return index, list(distinct)


def lines(numbers: Sequence[int], per_line: int = 32) -> str:
    """Return the numbers as lines of an initialiser."""
    rows = (numbers[i : i + per_line] for i in range(0, len(numbers), per_line))
    return "\n".join("    " + ",".join(str(n) for n in row) + "," for row in rows)


def triples(rows: Sequence[tuple[int, int, int]]) -> str:
    """Return the rows as lines of an initialiser of structs, four to the line."""
    quads = (rows[i : i + 4] for i in range(0, len(rows), 4))
    return "\n".join("    " + " ".join(f"{{{a},{b},{c}}}," for a, b, c in quad) for quad in quads)


def head(name: str, about: str, header: str) -> str:
    """Return how a table file begins."""
    return f"""\
/* {name} - {about}.
 *
 * Written by scripts/make_unicode_tables.py; the layout is in {header}.
 * SPDX-License-Identifier: MIT */
#include "{header}"
"""


def render_classes(db: Any) -> str:
    """Return the whole text of unicode_tables.c."""
    n = [nibble(c, db.category(chr(c))) for c in range(CODES)]
    index, distinct = pages(n)
    packed = [[p[i] | p[i + 1] << 4 for i in range(0, PAGE, 2)] for p in distinct]
    body = "\n".join(f"    {{\n{lines(page)}\n    }}," for page in packed)
    about = f"character classes of Unicode {VERSION}, two code points to the byte"
    return f"""\
{head("unicode_tables.c", about, "unicode.h")}
/* clang-format off */
const uint8_t kr_unicode_ascii[128] = {{
{lines(n[:128])}
}};

const uint8_t kr_unicode_index[{len(index)}] = {{
{lines(index)}
}};

const uint8_t kr_unicode_pages[{len(packed)}][{PAGE // 2}] = {{
{body}
}};
/* clang-format on */
"""


def newer() -> set[int]:
    """Return the code points of NEWER."""
    ends = [[int(end, 16) for end in word.split("-")] for word in NEWER.split()]
    return {code for e in ends for code in range(e[0], e[-1] + 1)}


def decompositions(db: Any) -> dict[int, tuple[int, int]]:
    """Return code point -> the one or two (else 0) it decomposes to, Hangul left out."""
    found = {}
    left_out = newer()
    for code in range(CODES):
        parts = db.decomposition(chr(code)).split()
        if parts and not parts[0].startswith("<") and code not in left_out:
            first, second = [int(p, 16) for p in parts] + [0] * (2 - len(parts))
            found[code] = (first, second)
    return found


def render_nfc(db: Any) -> str:
    """Return the whole text of normalize_tables.c."""
    left_out = newer()
    pairs = decompositions(db)
    composed = {
        pair: code
        for code, pair in pairs.items()
        if pair[1] and db.normalize("NFC", chr(code)) == chr(code)
    }
    seconds = {second for _, second in composed} | set(JAMO)
    kinds = [(0, 0)]
    values = []
    for code in range(CODES):
        changes = code in pairs and pairs[code] not in composed
        kind = (
            0 if code in left_out else db.combining(chr(code)),
            SECOND * (code in seconds) | CHANGES * changes,
        )
        if kind not in kinds:
            kinds.append(kind)
        values.append(kinds.index(kind))
    for code, (first, second) in pairs.items():
        assert values[code] != 0 or values[first] == 0  # kind 0: nothing joins it to the left
        assert second not in pairs  # only the first of a pair decomposes again
    index, distinct = pages(values)
    rows = [(code, *pair) for code, pair in pairs.items()]
    order = sorted(range(len(rows)), key=lambda i: rows[i][1:])
    order = [i for i in order if rows[i][1:] in composed]
    body = "\n".join(f"    {{\n{lines(page)}\n    }}," for page in distinct)
    kind_rows = textwrap.fill(" ".join(f"{{{ccc},{flags}}}," for ccc, flags in kinds), 90)
    return f"""\
{head("normalize_tables.c", "NFC of Unicode 9.0.0", "normalize_tables.h")}
/* clang-format off */
const uint8_t kr_nfc_index[{len(index)}] = {{
{lines(index)}
}};

const uint8_t kr_nfc_pages[{len(distinct)}][{PAGE}] = {{
{body}
}};

const struct kr_nfc_kind kr_nfc_kinds[{len(kinds)}] = {{
{textwrap.indent(kind_rows, "    ")}
}};

const size_t kr_nfc_n_pairs = {len(rows)};
const struct kr_nfc_pair kr_nfc_pairs[{len(rows)}] = {{
{triples(rows)}
}};

const size_t kr_nfc_n_composed = {len(order)};
const uint16_t kr_nfc_composed[{len(order)}] = {{
{lines(order, 20)}
}};
/* clang-format on */
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the tables, or with --check compare them with the files."""
    parser = argparse.ArgumentParser(description="Write the Unicode tables of the runtime.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args(argv)
    try:
        db = database()
    except DatabaseError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    for name, text in (
        ("unicode_tables.c", render_classes(db)),
        ("normalize_tables.c", render_nfc(db)),
    ):
        path = CORE / name
        if not args.check:
            path.write_text(text, encoding="ascii")
        elif path.read_text(encoding="ascii") != text:
            print(f"error: {path} differs; run {Path(__file__).name}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
