# SPDX-License-Identifier: MIT
"""Show what this machine can build, run and test, and what to install for the rest.

PYTHONPATH=scripts python3 -m krafla_release.doctor
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import build, testing
from krafla_release.project import ROOT, read_toml, version

if TYPE_CHECKING:
    from collections.abc import Sequence

# The same tools and packages as in scripts/bootstrap.sh; a test compares them.
TOOLS = {
    "gcc": "gcc libc6-dev",
    "make": "make",
    "git": "git",
    "python3": "python3",
    "clang-14": "clang-14",
    "clang-format-14": "clang-format-14",
    "shellcheck": "shellcheck",
    "cmake": "cmake",
    "aarch64-linux-gnu-gcc": "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    "arm-linux-gnueabihf-gcc": "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
    "qemu-aarch64": "qemu-user",
    "x86_64-w64-mingw32-gcc-posix": "gcc-mingw-w64-x86-64-posix",
    "wine": "wine wine64",
    "busybox": "busybox",
    "curl": "curl",
    "dpkg-deb": "dpkg",
    "fakeroot": "fakeroot",
    "lintian": "lintian",
}
# The extras of pyproject.toml and what installs each.
EXTRAS = {
    "quickstart": "scripts/bootstrap.sh",
    "release": "scripts/bootstrap.sh --for-release",
    "dev": "scripts/bootstrap.sh --for-check",
    "models": "scripts/bootstrap.sh --for-check",
}
TOKEN = "GITHUB_TOKEN"  # noqa: S105  (its name)
FREE_GIB = 4
WIDTH = 60  # of what a tool says about itself
CPUINFO = Path("/proc/cpuinfo")
# The guard's spelling of a feature, where /proc/cpuinfo has another one.
CPUINFO_NAMES = {
    "sse4.1": "sse4_1",
    "avx512-vnni": "avx512_vnni",
    "avx-vnni": "avx_vnni",
    "dotprod": "asimddp",
}


def first_line(tool: str) -> str:
    """Return the first line of what a tool says about its version."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    versions = [line for line in lines if line.lower().startswith("version")]
    return (versions or lines or ["present"])[0].strip()[:WIDTH]


def tool_lines() -> list[str]:
    """Return one line per tool: its version, or the package to install."""
    lines = []
    for tool, package in TOOLS.items():
        if shutil.which(tool):
            lines.append(f"  {tool:30} {first_line(tool)}")
        else:
            lines.append(f"  {tool:30} missing: apt-get install {package}")
    return lines


def cpu_flags() -> set[str]:
    """Return this CPU's features as the kernel names them."""
    if not CPUINFO.is_file():
        return set()
    for line in CPUINFO.read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split())
    return set()


def isa_line(name: str, isa: isas.Isa) -> str:
    """Return how a row would be tested here."""
    flags = cpu_flags()
    lacking = [need for need in isa.needs if CPUINFO_NAMES.get(need, need) not in flags]
    reason = testing.missing_tool(isa)
    emulator = isas.EMULATORS[isa.arch]
    if reason:
        how = f"cannot be tested: {reason}"
    elif not build.cross(isa) and not lacking:
        how = "native"
    elif isa.cpu == testing.VNNIRUN:
        how = "native, through tests/emulate"
    elif isa.cpu and shutil.which(emulator):
        how = f"emulated: {emulator} -cpu {isa.cpu}"
    else:
        how = f"cannot be tested: this CPU lacks {' '.join(lacking)} and no emulator has it"
    return f"  {name:30} {how}"


def pins(extra: str) -> dict[str, str]:
    """Return the packages of an extra and their versions, from pyproject.toml."""
    extras = read_toml(ROOT / "pyproject.toml")["project"]
    newer = sys.version_info >= (3, 11)
    found = {}
    for line in extras["optional-dependencies"][extra]:
        pin, _, marker = line.partition(";")
        name, _, wanted = pin.partition("==")
        if wanted and (not marker or (">=" in marker) == newer):
            found[name] = wanted.strip()
    return found


def extra_line(extra: str) -> str:
    """Return whether the Python packages of an extra are there, and what installs them if not."""
    wrong = []
    for name, wanted in pins(extra).items():
        try:
            found = metadata.version(name).partition("+")[0]  # torch 2.13.0+cpu
        except metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
        else:
            wrong += [f"{name} is {found}, not {wanted}"] if found != wanted else []
    said = f"{', '.join(wrong)}: {EXTRAS[extra]}" if wrong else "everything is there"
    return f"  {extra:30} {said}"


def release_lines() -> list[str]:
    """Return what stands in the way of a release from here, besides tools."""
    words = ["git", "status", "--porcelain"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    changed = len(done.stdout.splitlines())
    tree = f"{changed} files are not committed" if changed else "everything is committed"
    token = "is set" if os.environ.get(TOKEN) else "is not set: only --dry-run works without it"
    return [f"  {'tree':30} {tree}", f"  {TOKEN:30} {token}"]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the report; the exit code is 1 if building for this machine is impossible."""
    if argv is None and sys.argv[1:]:
        print("usage: doctor", file=sys.stderr)
        return 2
    print(f"Krafla {version()} on {build.host_arch()}, Python {sys.version.split()[0]}")
    print("tools", *tool_lines(), sep="\n")
    print("Python packages", *map(extra_line, EXTRAS), sep="\n")
    print("instruction sets", *(isa_line(*row) for row in isas.sessions().items()), sep="\n")
    planned = dict.fromkeys(isa.name for isa in isas.load() if not isa.built)
    if planned:
        print("planned: in isas.txt, but without kernels\n ", ", ".join(planned))
    print("release", *release_lines(), sep="\n")
    free = shutil.disk_usage(ROOT).free / 2**30
    print(f"disk\n  {free:.1f} GiB free{'' if free > FREE_GIB else f', want {FREE_GIB}'}")
    models = sorted(path.parent.name for path in ROOT.glob("models/*/model.safetensors"))
    print("models\n ", ", ".join(models) or "none: python3 scripts/fetch_models.py")
    return 0 if all(map(shutil.which, ("gcc", "make"))) else 1


if __name__ == "__main__":
    sys.exit(main())
