# SPDX-License-Identifier: MIT
r"""Write runtime/core/unicode_tables.c: the character classes the pre-tokenizers ask for.

    python3 scripts/make_unicode_tables.py --check

Letters are \p{L}, numbers \p{N}, white space is the property White_Space, and word characters are
what \w is to the `tokenizers` library.  The tables follow Unicode 16.0.0, the version that library
has: with an older or newer `unicodedata`, install `unicodedata2==16.0.0`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = "16.0.0"
OUTPUT = Path(__file__).resolve().parent.parent / "runtime" / "core" / "unicode_tables.c"
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


def pages(db: Any) -> tuple[list[int], list[bytes]]:
    """Return the page number of each 256 code points and the distinct pages, packed."""
    index: list[int] = []
    distinct: dict[bytes, int] = {}
    for first in range(0, CODES, PAGE):
        n = [nibble(c, db.category(chr(c))) for c in range(first, first + PAGE)]
        packed = bytes(n[i] | n[i + 1] << 4 for i in range(0, PAGE, 2))
        index.append(distinct.setdefault(packed, len(distinct)))
    return index, list(distinct)


def lines(numbers: Sequence[int], per_line: int) -> str:
    """Return the numbers as lines of an initialiser."""
    rows = (numbers[i : i + per_line] for i in range(0, len(numbers), per_line))
    return "\n".join("    " + ",".join(str(n) for n in row) + "," for row in rows)


def render(db: Any) -> str:
    """Return the whole text of unicode_tables.c."""
    index, distinct = pages(db)
    assert len(distinct) <= PAGE
    body = "\n".join(f"    {{\n{lines(page, 32)}\n    }}," for page in distinct)
    return f"""\
/* unicode_tables.c - character classes of Unicode {VERSION}, two code points to the byte.
 *
 * Written by scripts/make_unicode_tables.py; the layout is in unicode.h.
 * SPDX-License-Identifier: MIT */
#include "unicode.h"

/* clang-format off */
const uint8_t kr_unicode_index[{len(index)}] = {{
{lines(index, 32)}
}};

const uint8_t kr_unicode_pages[{len(distinct)}][{PAGE // 2}] = {{
{body}
}};
/* clang-format on */
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the tables, or with --check compare them with the file."""
    parser = argparse.ArgumentParser(description="Write runtime/core/unicode_tables.c.")
    parser.add_argument("--check", action="store_true", help="compare instead of writing")
    args = parser.parse_args(argv)
    try:
        text = render(database())
    except DatabaseError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    if not args.check:
        OUTPUT.write_text(text, encoding="ascii")
    elif OUTPUT.read_text(encoding="ascii") != text:
        print(f"error: {OUTPUT} differs; run {Path(__file__).name}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
