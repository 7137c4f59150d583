# SPDX-License-Identifier: MIT
"""Texts that tell tokenizers apart: many scripts, white space, look-alikes of special tokens.

from tokenizer_texts import TEXTS, random_texts
"""

# Characters that look alike are the point here.
# ruff: noqa: RUF001

from __future__ import annotations

import random
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Make = Callable[[random.Random, Sequence[str]], str]

ROOT = Path(__file__).resolve().parent.parent.parent

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


# ---- ten thousand texts --------------------------------------------------------------------------

# Planes 0 to 3 and the tags and selectors of plane 14: everything that is assigned to somebody, and
# what is not yet assigned between.
CODES = (*range(0xD800), *range(0xE000, 0x40000), *range(0xE0000, 0xE0200))
SURROUNDINGS = (
    *("{}", "a{}", "{}a", " {}", "{} ", "1{}1", "'{}", "!{}", "{}\n", "\u0301{}", "{}\u0301"),
)
SPACES = (
    *"\t\n\v\f\r \x1c\x1d\x1e\x1f\x85\xa0\u1680\u180e\u2000\u2003\u2007\u200a\u200b\u2028\u2029",
    *"\u202f\u205f\u2060\u3000\ufeff\n\n\r    ",
)
APOSTROPHES = "'''''’‘ʼ＇`´"
# s, t, re, ve, m, ll, d, and what folds to their letters or looks as if it did
ENDINGS = (
    *("s", "t", "re", "ve", "m", "ll", "d", "S", "T", "RE", "Ve", "vE", "M", "LL", "lL", "D"),
    *("ſ", "ſt", "ẞ", "ß", "ẛ", "\u212a", "ı", "İ", "ŀ", "ŀl", "ᵗ", "ﬆ", "ŉ", "е", "rе", "l", "v"),
)
JAMO = (*range(0x1100, 0x1200), *range(0x3131, 0x318F), *range(0xA960, 0xA97D), 0xD7B0, 0xD7CB)
EMOJI = (
    *(
        "👩\u200d👩\u200d👧\u200d👦",
        "🏳️\u200d🌈",
        "🇩🇪",
        "🇺🇸🇬🇧🇫",
        "👍🏽",
        "👩🏿\u200d🚀",
        "1\ufe0f\u20e3",
    ),
    *(
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "☺\ufe0e",
        "\u200d",
        "\ufe0f",
    ),
)
MARKS = [c for c in map(chr, CODES) if unicodedata.combining(c)]
NUMBERS = [c for c in map(chr, CODES) if unicodedata.category(c)[0] == "N"]
CHANGED = [c for c in map(chr, CODES) if not unicodedata.is_normalized("NFD", c)]
COLLECTED = ("tests/data/text/*.txt", "runtime/core/*.c", "tools/mlb/*.py", "docs/*.md", "*.md")


def _choices(rng: random.Random, some: Sequence[str], most: int) -> str:
    return "".join(rng.choices(some, k=rng.randint(1, most)))


def _codes(rng: random.Random, _added: Sequence[str]) -> str:
    """Code points from anywhere, often next to each other."""
    some = [chr(c) for c in rng.sample(CODES, rng.randint(1, 40))]
    return "".join(c + rng.choice(("", "", "a", " ", "1", ".", "\n")) for c in some)


def _marks(rng: random.Random, _added: Sequence[str]) -> str:
    """Letters with marks in every order, composed, decomposed or mixed."""
    text = ""
    for _ in range(rng.randint(1, 12)):
        text += rng.choice(CHANGED) if rng.random() < 0.5 else rng.choice("aeo gsKÅqyΩи가1 ")
        text += _choices(rng, MARKS, 6) if rng.random() < 0.7 else ""
    form: Literal["NFC", "NFD"] = rng.choice(("NFC", "NFD"))
    return unicodedata.normalize(form, text) if rng.random() < 0.3 else text


def _hangul(rng: random.Random, _added: Sequence[str]) -> str:
    """Syllables and single jamo of all kinds, next to each other and to marks."""
    parts: tuple[Callable[[], str], ...] = (
        lambda: chr(rng.randrange(0xAC00, 0xD7A4)),
        lambda: unicodedata.normalize("NFD", chr(rng.randrange(0xAC00, 0xD7A4))),
        lambda: chr(rng.choice(JAMO)),
        lambda: rng.choice([*MARKS[:50], " "]),
    )
    return "".join(rng.choice(parts)() for _ in range(rng.randint(1, 20)))


def _numbers(rng: random.Random, _added: Sequence[str]) -> str:
    """Numbers of every script and length."""
    some = rng.sample(NUMBERS, 5)
    parts = (*some, *"0123456789", "12", "345", "6789", " ", ".", ",", "x", "\n")
    return _choices(rng, parts, 30)


def _contractions(rng: random.Random, _added: Sequence[str]) -> str:
    """Words with endings after what is or is not an apostrophe."""
    words = (
        rng.choice(("I", "we", "don", "", " ", "1", "é", "Ω", "'"))
        + rng.choice(APOSTROPHES)
        + rng.choice(ENDINGS)
        + rng.choice(("", " ", "x", "'", "!", "\u0301"))
        for _ in range(rng.randint(1, 12))
    )
    return "".join(words)


def _spaces(rng: random.Random, _added: Sequence[str]) -> str:
    """Runs of white space and of what is none, between a few other things."""
    words = ("", "a", "The", "1", "!", "'s", "\u0301", "世", "<", "\u00ad")
    runs = (rng.choice(words) + _choices(rng, SPACES, 8) for _ in range(rng.randint(1, 10)))
    return "".join(runs) + rng.choice(words)


def _long_run(rng: random.Random, _added: Sequence[str]) -> str:
    """One thing many times."""
    what: str = rng.choice((*FRAGMENTS, *EMOJI, *SPACES, chr(rng.choice(CODES)), rng.choice(MARKS)))
    return rng.choice(("", "a", " ")) + what * rng.randint(50, 700) + rng.choice(("", "a", "\n"))


def _emoji(rng: random.Random, _added: Sequence[str]) -> str:
    """Sequences of emoji, whole and broken."""
    parts = (*EMOJI, chr(rng.randrange(0x1F300, 0x1FB00)), "a", " ", "世界", "!")
    return _choices(rng, parts, 20)


def _specials(rng: random.Random, added: Sequence[str]) -> str:
    """Added tokens whole, cut, doubled, in capitals and with all kinds of neighbours."""
    token = rng.choice(added)
    cut = rng.randint(0, len(token))
    forms = (
        *(token, token, token, token * 2, token[:cut], token[cut:], token.upper(), token.title()),
        *(token[:cut] + rng.choice(" \u0301x") + token[cut:], unicodedata.normalize("NFD", token)),
    )
    around = (
        "",
        "",
        " ",
        "  ",
        "a",
        "\n",
        "\t \u00a0",
        "1",
        "_",
        "é",
        "\u0301",
        "<",
        "▁",
        "'s",
        "世",
    )
    parts = (rng.choice(around) + rng.choice(forms) for _ in range(rng.randint(1, 5)))
    return "".join(parts) + rng.choice(around) + rng.choice(added) + rng.choice(around)


def _mixed(rng: random.Random, added: Sequence[str]) -> str:
    """A little of everything."""
    makers = (_codes, _marks, _hangul, _numbers, _contractions, _spaces, _emoji, _specials)
    return "".join(rng.choice(makers)(rng, added)[:40] for _ in range(rng.randint(1, 6)))


# Each with its weight.
MAKERS: tuple[tuple[Make, int], ...] = (
    *((_codes, 8), (_marks, 14), (_hangul, 7), (_numbers, 7), (_contractions, 9), (_spaces, 12)),
    *((_long_run, 2), (_emoji, 5), (_specials, 20), (_mixed, 16)),
)


def every_code_point() -> Iterator[str]:
    """Yield all of CODES, a hundred to a text, in changing surroundings."""
    for at in range(0, len(CODES), 100):
        form = SURROUNDINGS[at // 100 % len(SURROUNDINGS)]
        yield "".join(form.format(chr(c)) for c in CODES[at : at + 100])


def collected_texts(count: int) -> Iterator[str]:
    """Yield pieces of this project's own texts and programs."""
    rng = random.Random(count)
    paths = sorted(path for pattern in COLLECTED for path in ROOT.glob(pattern))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    for _ in range(count):
        text = rng.choice(texts)
        start = rng.randrange(len(text))
        yield text[start : start + rng.choice((20, 200, 2000))]


def many_texts(count: int, added: Sequence[str]) -> list[str]:
    """Return `count` texts of all kinds; of 10,000 a quarter has every code point between them."""
    rng = random.Random(count)
    points = list(every_code_point())
    texts = [*TEXTS, *rng.sample(points, min(len(points), count // 3))]
    texts += collected_texts(count // 10)
    makers, weights = zip(*MAKERS, strict=True)
    chosen = rng.choices(makers, weights, k=max(0, count - len(texts)))
    return [*texts, *(make(rng, added) for make in chosen)]
