# SPDX-License-Identifier: MIT
"""Find krafla.h and the fastest libkrafla that this CPU can run.

    KRAFLA_ISA=sse2 python3 -c "import krafla; print(krafla.isa())"

An installed package has krafla.h, isas.txt and _lib/libkrafla-<isa>.so beside this file; a source
tree has runtime/include, runtime/kernels and build/<isa>-pt or build/<isa>.  The choice is that of
the launchers: KRAFLA_LIB, else KRAFLA_ISA, else the first of isas.txt that passes its CPU check.
"""

from __future__ import annotations

import functools
import os
import platform
import re
from pathlib import Path
from typing import Any

from cffi import FFI

from krafla._errors import BY_STATUS, KraflaCpuError, KraflaError

HERE = Path(__file__).resolve().parent
PACKAGED = HERE / "_lib"  # of an installed package
ROOT = HERE.parent.parent.parent  # of a source tree
ARCHITECTURES = {"amd64": "x86_64", "arm64": "aarch64", "armv7l": "armv7", "armv8l": "armv7"}

ffi = FFI()


def beside(name: str, in_source_tree: str) -> Path:
    """Return the path of a file that the package carries, or of its original."""
    packaged = HERE / name
    return packaged if packaged.is_file() else ROOT / in_source_tree


def declarations() -> str:
    """Return the part of krafla.h that is the cdef, verbatim."""
    text = beside("krafla.h", "runtime/include/krafla.h").read_text(encoding="utf-8")
    found = re.search(
        r"/\* --- cffi: begin --- \*/\n(.*)/\* --- cffi: end --- \*/", text, re.DOTALL
    )
    if found is None:
        raise KraflaError("krafla.h has no cffi markers: the package is damaged, install it again")
    return found[1]


def architecture() -> str:
    """Return this machine's architecture in the spelling of isas.txt."""
    machine = platform.machine().lower()
    return ARCHITECTURES.get(machine, machine)


def isa_names() -> list[str]:
    """Return the names of this architecture's builds, fastest first."""
    text = beside("isas.txt", "runtime/kernels/isas.txt").read_text(encoding="utf-8")
    rows = [
        [cell.strip() for cell in line.split("|")]
        for line in text.splitlines()
        if line.strip() and not line.startswith("#")
    ]
    return [name for name, arch, *_ in rows if arch == architecture()]


def builds() -> dict[str, Path]:
    """Return the libraries that there are by the names of their builds, fastest first."""
    found: dict[str, Path] = {}
    for name in isa_names():
        built = (ROOT / "build" / folder / "libkrafla.so" for folder in (f"{name}-pt", name))
        paths = [PACKAGED / f"libkrafla-{name}.so"] if PACKAGED.is_dir() else built
        for path in paths:
            if path.is_file():
                found.setdefault(name, path)
    return found


def chosen() -> str | None:
    """Return the build that the environment names, by the old variable if not by the new one."""
    return os.environ.get("KRAFLA_ISA") or os.environ.get("ISA_LM_ISA") or None


def candidates() -> list[Path]:
    """Return the libraries to try, in order."""
    explicit = os.environ.get("KRAFLA_LIB")
    if explicit:
        return [Path(explicit)]
    return [path for name, path in builds().items() if chosen() in (None, name)]


def remedy() -> str:
    """Return what to do when none of them can be loaded."""
    if os.environ.get("KRAFLA_LIB"):
        return "KRAFLA_LIB has to name a libkrafla for this machine"
    if not PACKAGED.is_dir():
        return "build one with make ISA=<isa> THREADS=pthread lib, or name a file in KRAFLA_LIB"
    if not builds():
        return f"this package has none for {architecture()}: install the wheel for it"
    if chosen():
        return f"KRAFLA_ISA is {chosen()!r}; this package has {' '.join(builds())}"
    return "this package has no library for such a CPU, or system"


@functools.cache
def declare() -> None:
    """Tell cffi the interface, once: library() may be asked again after it failed."""
    ffi.cdef(declarations())


@functools.cache
def library() -> Any:
    """Return the library, loaded once."""
    declare()
    refusals = []
    for path in candidates():
        try:
            lib = ffi.dlopen(str(path))
        except OSError as error:
            refusals.append(f"{path.name}: {error}")
            continue
        err = ffi.new("krafla_error *")
        if lib.krafla_cpu_check(err) == 0:
            return lib
        refusals.append(f"{path.name}: {message(err)}")
    tried = "; ".join(refusals) or "no libkrafla was found"
    raise KraflaCpuError(f"{tried}: {remedy()}")


def message(err: Any) -> str:
    """Return the message of a krafla_error."""
    return bytes(ffi.string(err.message)).decode("utf-8", "replace")


def check(status: int, err: Any) -> None:
    """Raise the exception of a status that is not KRAFLA_OK."""
    if status != 0:
        raise BY_STATUS.get(status, KraflaError)(message(err))


def text(pointer: Any) -> str:
    """Return the str of a NUL-terminated UTF-8 string."""
    return bytes(ffi.string(pointer)).decode("utf-8", "replace")


def version() -> str:
    """Return the version of the library."""
    return text(library().krafla_version())


def isa() -> str:
    """Return the instruction set of the library that was chosen."""
    return text(library().krafla_isa())


def default_threads() -> tuple[int, str]:
    """Return the thread count that suits this machine, and what decided it."""
    reason = ffi.new("const char **")
    count = int(library().krafla_default_threads(reason))
    return count, text(reason[0])
