# SPDX-License-Identifier: MIT
"""Tell which CPU feature an instruction needs, from a line of objdump.

    PYTHONPATH=scripts python3 -m krafla_release.audit

On x86 the encoding says it, on ARM the names and registers.  What every CPU of the architecture
has needs no feature: SSE2 on x86-64, NEON on AArch64, VFPv3 with 16 registers on ARMv7.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# What a need of isas.txt, or the compiler's flag for it, brings along.
BRINGS = {
    "ssse3": {"sse3"},
    "avx2": {"avx"},
    "avx512-vnni": {"avx512"},
    "avx512f": {"avx512"},
}

LEGACY_PREFIXES = frozenset(bytes.fromhex("2e363e2664656667f0f2f3"))
VZEROUPPER = bytes.fromhex("c5f877")  # compiler.h: only after a look at the CPU
GENERAL_VEX = {2: (0xF2, 0xF3, 0xF5, 0xF6, 0xF7), 3: (0xF0,)}  # on general registers: BMI1, BMI2
FMA_COLUMNS = range(6, 16)


def vex(map_number: int, opcode: int) -> str:
    """Return the feature of a VEX-encoded instruction."""
    if opcode in GENERAL_VEX.get(map_number, ()):
        return "bmi"
    if map_number == 2 and opcode in range(0x50, 0x54):
        return "avx-vnni"
    if map_number == 2 and opcode >> 4 in (0x9, 0xA, 0xB) and opcode & 15 in FMA_COLUMNS:
        return "fma"
    if (map_number, opcode) in ((2, 0x13), (3, 0x1D)):
        return "f16c"
    return "avx"


def two_byte(prefixes: set[int], opcode: int) -> str:
    """Return the feature of an instruction 0f xx, or nothing."""
    if 0xF3 in prefixes and opcode in (0xB8, 0xBD):
        return "popcnt" if opcode == 0xB8 else "lzcnt"
    double = 0xF2 in prefixes and opcode in (0x12, 0x7C, 0x7D, 0xD0, 0xF0)
    single = 0xF3 in prefixes and opcode in (0x12, 0x16)
    packed = 0x66 in prefixes and opcode in (0x7C, 0x7D, 0xD0)
    return "sse3" if double or single or packed else ""


def three_byte(second: int, opcode: int) -> str:
    """Return the feature of an instruction 0f 38 xx or 0f 3a xx."""
    if second == 0x38:
        if opcode <= 0x0B or 0x1C <= opcode <= 0x1E:
            return "ssse3"
        return "sse4.1" if opcode <= 0x41 and opcode != 0x37 else "after sse4.1"
    if opcode == 0x0F:
        return "ssse3"
    return "sse4.1" if opcode <= 0x42 else "after sse4.1"


def x86(code: bytes) -> str:
    """Return the feature that an x86-64 instruction needs beyond SSE2, or nothing."""
    at = 0
    while at < len(code) and code[at] in LEGACY_PREFIXES:
        at += 1
    prefixes, code = set(code[:at]), code[at:]
    if not code or code == VZEROUPPER:
        return ""
    if code[0] == 0xC5:
        return vex(1, code[2])
    if code[0] == 0xC4:
        return vex(code[1] & 0x1F, code[3])
    if code[0] == 0x62:
        return "avx512"
    if 0x40 <= code[0] <= 0x4F:  # REX
        code = code[1:]
    if code[0] != 0x0F or len(code) < 2:
        return ""
    return three_byte(*code[1:3]) if code[1] in (0x38, 0x3A) else two_byte(prefixes, code[1])


# The first that matches names the feature.
AARCH64 = [
    ("sve", r"\b[zp]\d+[./]|\bz\d+\b|^(?:cnt|inc|dec)[bhwd]\b|^(?:rdvl|addvl|addpl|setffr)\b"),
    ("i8mm", r"^(?:[su]|us)mmla\b|^(?:usdot|sudot)\b"),
    ("dotprod", r"^[su]dot\b"),
    ("bf16", r"^bf(?:dot|mmla|mlal|cvt)"),
    ("fp16", r"^f(?!cvt|mov)\w+\s.*(?:\bh\d+|\.[48]h)\b|^fml[as]l"),
    ("lse", r"^(?:(?:ld|st)(?:add|clr|set|eor|[su]max|[su]min)|swp|casp?)(?:al?|l)?[bh]?\s"),
    ("crypto", r"^(?:crc32|aes|sha\d|pmull2?\s.*\.1q)"),
    ("rdm", r"^sqrdml"),
]
ARMV7 = [
    ("vfpv4", r"^vfn?m[as]"),
    ("fp16", r"^vcvt[bt]?(?:\w\w)?\..*\bf16|\.f16\b"),
    ("idiv", r"^[su]div"),
    ("crypto", r"^(?:crc32|aes|sha\d)"),
    ("dotprod", r"^v[su]dot"),
    ("neon", r"^v.*(?:\bq\d+\b|\bd(?:1[6-9]|2\d|3[01])\b)|^v(?:ld|st)[1-4]\.|^v\w+\.[isup]8\b"),
]


def by_name(table: list[tuple[str, str]]) -> Callable[[str], str]:
    """Return a function that finds the feature of an instruction's words."""
    patterns = [(feature, re.compile(pattern)) for feature, pattern in table]
    return lambda text: next((name for name, pattern in patterns if pattern.search(text)), "")


BY_NAME = {"aarch64": by_name(AARCH64), "armv7": by_name(ARMV7)}


def allowed(needs: tuple[str, ...]) -> set[str]:
    """Return the features that code for a row's needs may use."""
    return set(needs).union(*(BRINGS.get(need, ()) for need in needs))


def beyond(arch: str, needs: tuple[str, ...], text: str) -> Iterator[tuple[str, str, str]]:
    """Yield function, feature and line of each instruction that the needs do not cover."""
    may_use, function = allowed(needs), "?"
    for line in text.splitlines():
        named = re.match(r"[0-9a-f]+ <(.+)>:$", line)
        function = named[1] if named else function
        cells = line.split("\t")
        if len(cells) < 3:
            continue
        words = " ".join(cells[2:])
        feature = x86(bytes.fromhex(cells[1])) if arch == "x86_64" else BY_NAME[arch](words)
        if feature and feature not in may_use:
            yield function, feature, words.strip()
