# SPDX-License-Identifier: MIT
"""llama.cpp at the level of each of our x86 builds, and what is published of ik_llama.cpp.

    .venv/bin/python scripts/peers.py avx2 sse2

Builds llama-bench from the newest llama-cpp-python source distribution under build/peers, once per
level. ik_llama.cpp has no such distribution: its speed enters as a ratio to llama.cpp, measured on
the same kind of machine with the same files.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from typing import TYPE_CHECKING

from krafla_release.project import ROOT, exit_code, output, run, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PEERS = ROOT / "build" / "peers"
EXTENSIONS = ("SSE42", "AVX", "AVX2", "FMA", "F16C", "BMI2")


@dataclasses.dataclass(frozen=True)
class Level:
    """One of our x86 builds and llama.cpp with the same instructions."""

    name: str  # of our row in isas.txt
    extensions: tuple[str, ...] | None  # what llama.cpp may use; None: all this CPU has
    decode: int  # tokens: few where the peer needs long for one
    slow: bool = False  # a peer so slow that it is not warmed up, and gets one model only

    @property
    def flags(self) -> list[str]:
        """Return CMake's flags for the peer."""
        if self.extensions is None:
            return ["-DGGML_NATIVE=ON"]
        chosen = {name: "ON" if name in self.extensions else "OFF" for name in EXTENSIONS}
        return ["-DGGML_NATIVE=OFF", *(f"-DGGML_{name}={value}" for name, value in chosen.items())]


LEVELS = {
    level.name: level
    for level in (
        Level("avx512vnni", None, decode=128),
        Level("avx2", EXTENSIONS, decode=128),
        Level("sse41", ("SSE42",), decode=32, slow=True),
        Level("sse2", (), decode=16, slow=True),
    )
}

# tok/s of the Qwen2.5-0.5B shape: ik_llama.cpp with -rtr 1 (weights repacked), and llama.cpp in the
# same interleaved rounds; prefill and decode of 128 tokens.
IK_SOURCE = (
    "ik_llama.cpp 8337e4c against llama.cpp of llama-cpp-python 0.3.36, "
    "same kind of machine, 30 Nov 2026"
)
IK_SPEEDS: dict[tuple[str, str, str, int], tuple[float, float]] = {
    ("avx512vnni", "q4_0", "prefill", 1): (263.9, 187.0),
    ("avx512vnni", "q4_0", "prefill", 2): (510.1, 358.6),
    ("avx512vnni", "q4_0", "decode", 1): (69.29, 62.13),
    ("avx512vnni", "q4_0", "decode", 2): (108.3, 100.2),
    ("avx512vnni", "q8_0", "prefill", 1): (276.5, 144.3),
    ("avx512vnni", "q8_0", "prefill", 2): (511.4, 267.0),
    ("avx512vnni", "q8_0", "decode", 1): (44.45, 35.07),
    ("avx512vnni", "q8_0", "decode", 2): (68.80, 49.26),
    ("avx2", "q4_0", "prefill", 1): (190.7, 125.2),
    ("avx2", "q4_0", "prefill", 2): (373.4, 245.5),
    ("avx2", "q4_0", "decode", 1): (66.04, 57.72),
    ("avx2", "q4_0", "decode", 2): (103.5, 93.47),
    ("avx2", "q8_0", "prefill", 1): (151.8, 114.0),
    ("avx2", "q8_0", "prefill", 2): (311.6, 220.7),
    ("avx2", "q8_0", "decode", 1): (41.74, 34.91),
    ("avx2", "q8_0", "decode", 2): (63.71, 49.89),
}


def ik_ratio(level: str, fmt: str, test: str, threads: int) -> float | None:
    """Return ik_llama.cpp's speed over llama.cpp's, if it is published."""
    speeds = IK_SPEEDS.get((level, fmt, test, threads))
    return speeds[0] / speeds[1] if speeds else None


def source() -> Path:
    """Return the llama.cpp tree of the newest llama-cpp-python source distribution."""
    found = sorted(PEERS.glob("llama_cpp_python-*/vendor/llama.cpp"))
    if found:
        return found[-1]
    PEERS.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    output(*pip, "install", "-q", "scikit-build-core")
    options = ["-q", "--no-deps", "--no-binary=llama-cpp-python", "--no-build-isolation"]
    output(*pip, "download", *options, "-d", PEERS, "llama-cpp-python")
    unpack(next(PEERS.glob("llama_cpp_python-*.tar.gz")), PEERS)
    return next(PEERS.glob("llama_cpp_python-*/vendor/llama.cpp"))


def version() -> str:
    """Return the distribution that source() found: "llama_cpp_python-0.3.36"."""
    return source().parents[1].name


def program(level: Level, name: str = "llama-bench") -> Path:
    """Build one program of the peer at a level, if it is not there, and return it."""
    directory = PEERS / level.name
    path = directory / "bin" / name
    if not path.exists():
        options = ["LLAMA_CURL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES"]
        options += ["LLAMA_BUILD_SERVER", "BUILD_SHARED_LIBS"]
        flags = ["-DCMAKE_BUILD_TYPE=Release", *(f"-D{option}=OFF" for option in options)]
        output("cmake", "-S", source(), "-B", directory, *flags, *level.flags)
        run("cmake", "--build", directory, "--target", name, "-j", "2")
    return path


def main(argv: Sequence[str] | None = None) -> int:
    """Build the named levels."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("levels", nargs="*", choices=LEVELS, metavar="LEVEL", default=list(LEVELS))
    args = parser.parse_args(argv)
    return exit_code(lambda: [program(LEVELS[name]) for name in args.levels])


if __name__ == "__main__":
    sys.exit(main())
