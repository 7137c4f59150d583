# SPDX-License-Identifier: MIT
"""Texts that tell tokenizers apart: many scripts, white space, look-alikes of special tokens.

from tokenizer_texts import TEXTS, random_texts
"""

# Characters that look alike are the point here.
# ruff: noqa: RUF001

from __future__ import annotations

import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TEXTS = (
    "",
    " ",
    "  ",
    "a",
    "Hello, world",
    " Hello,  world! ",
    "\n",
    "\r\n",
    "line\r\nline\n\n\n  indented\n\tdef f(x):\n\t\treturn x ** 2  # tab\n",
    "   leading and trailing   ",
    "I'll we've DON'T don’t it's 'tis rock'n'roll 'S 's'",
    "3.14159 1e-10 42 007 1,000,000 ½ ² ① Ⅷ ١٢٣ १२३",
    "naïve café e\u0301 Å ﬁ ß İ ǆ ŉ",
    "你好，世界。日本語テキスト 한국어 텍스트",
    "नमस्ते दुनिया ไทย العربية עברית Ελληνικά русский ሰላም",
    "👩\u200d👩\u200d👧\u200d👦 🏳️\u200d🌈 🇩🇪 👍🏽 🦙🚀 𝕳𝖊𝖑𝖑𝖔",
    "\u00a0\u2003\u3000\u2028\u2029\u0085\u200b\ufeff\u00ad",
    "\x00\x01\x02\x07\x08\x0b\x0c\x0e\x1b[31m\x7f",
    "a! the x!  the! the",
    "▁ ▁▁ a▁b ▁a <0x41> <0x0A> <unk> <s> </s>",
    'https://example.com/?q=1&b=%20#x <b>html</b> {"a": [1, 2, {}]}',
    "a" * 70 + " " * 40 + "\t\t\n" * 5 + "!" * 33,
    "<|end|> <|end <|end|>> <|endless|> [MASK]  x  [MASK]\n<left>  <left>",
    "\ufffd\uffff\U0010ffff\U000e0001",
)

BLOCKS = (
    *[(0x20, 0x7F)] * 6,
    *((0xA0, 0x250), (0x300, 0x370), (0x370, 0x400), (0x400, 0x500), (0x590, 0x600)),
    *((0x600, 0x700), (0x900, 0x980), (0xE00, 0xE80), (0x1200, 0x1300), (0x2000, 0x2070)),
    *((0x2150, 0x2200), (0x2460, 0x2500), (0x3000, 0x3100), (0x4E00, 0x9FFF), (0xAC00, 0xD7A4)),
    *((0xFE00, 0xFE10), (0x1D400, 0x1D800), (0x1F300, 0x1F700), (0x1F900, 0x1FA00)),
    *((0, 0x20), (0x10000, 0x110000)),
)
FRAGMENTS = (
    *("'s", "'ll", "'LL", "’s", "'t", "'", "  ", "   ", "\n", "\r\n", "\t", "\n\n\n", " \n "),
    *(
        "1",
        "123",
        "3.14",
        " 42",
        "Ⅷ",
        "½",
        "²",
        "١٢",
        "hello",
        " world",
        "the ",
        "Don't",
        "kara",
        "! the",
        "!",
    ),
    *("\u200d", "👩\u200d👧", "é", "e\u0301", "\u00a0", "\u3000", "\u2028", "\u0085", "▁", "▁▁"),
    *("<0x41>", "<|", "|>", "<", "\ufeff", "İ", "ß", "a b", " a b", "def f(x):\n    return x\n"),
)


def _fragment(rng: random.Random, fragments: Sequence[str]) -> str:
    if rng.random() < 0.6:
        return rng.choice(fragments)
    code = rng.randrange(*rng.choice(BLOCKS))
    return "" if 0xD800 <= code < 0xE000 else chr(code) * rng.choice((1, 1, 1, 2, 5))


def random_texts(count: int, added: Sequence[str]) -> Iterator[str]:
    """Yield texts of up to 30 fragments, among them added tokens, whole, cut and doubled."""
    rng = random.Random(count)
    some = [*added[:12], *rng.sample(added, min(30, len(added)))]
    fragments = [*FRAGMENTS, *some, *(s[:-1] for s in some), *(s + s for s in some)]
    for _ in range(count):
        yield "".join(_fragment(rng, fragments) for _ in range(rng.randrange(30)))
