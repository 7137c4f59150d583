# SPDX-License-Identifier: MIT
"""Run the release line of a checkout with quick stand-ins for building and proving.

    PYTHONPATH=CHECKOUT/scripts python tests/py/release_driver.py

One order a line on standard input, one process for each, started by a fork because importing takes
longer than a release by stand-ins.  Everything else is what `invoke release` runs.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from krafla_release import assets, bump, checksums, release, sbom, site, versions, zenodo
from krafla_release.journal import Journal

PAUSE = 0.001  # of a second in place of one
FILES = ("krafla-linux.tar.gz", "krafla-windows.zip", "install.sh")


def note(directory: Path, what: str) -> None:
    """Write down that a step on this machine was really done; none may see the token."""
    assert "GITHUB_TOKEN" not in os.environ
    with (directory.parent / "ran").open("a") as stream:
        stream.write(f"{what}\n")


def stand_in(name: str) -> Callable[[Path], list[str]]:
    """Return a step that does nothing, or during which somebody works in the checkout."""

    def step(directory: Path) -> list[str]:
        note(directory, name)
        if os.environ["TEST_DURING"] == name:
            subprocess.run(["/bin/sh", "-c", os.environ["TEST_SOMEBODY"]], check=True)
        return []

    return step


def package(directory: Path) -> list[str]:
    """Write small files."""
    note(directory, "package")
    for number, name in enumerate(FILES):
        (directory / name).write_bytes(f"{name}\n".encode() * 40 * (number + 1))
    return list(FILES)


def bill(directory: Path, names: list[str]) -> Path:
    """Write a bill of materials without looking at compilers."""
    path = directory / sbom.file_name()
    path.write_text(json.dumps({name: checksums.digest_of(directory / name) for name in names}))
    return path


def replace_slow_parts() -> None:
    """Put the stand-ins in their places; what checks the sources runs once for real."""
    faults = bump.problems(versions.current())
    bump.problems = lambda version: faults  # noqa: ARG005  (the same for each)
    for name in ("build", "audit", "check", "prove"):
        setattr(assets, name, stand_in(name))
    assets.package = package
    assets.contents = lambda: list(FILES)
    assets.tool_versions = lambda: {"cc": os.environ.get("TEST_COMPILER", "1.0")}
    assets.missing_tools = lambda: os.environ.get("TEST_MISSING", "").split()
    sbom.package = bill  # type: ignore[assignment]
    site.build = lambda: print("site built")
    release.DOI_WAIT = 5 * zenodo.MINUTE


def die_at_line(number: int, *, torn: bool) -> None:
    """Kill this process when it has written a line of the journal, or half of it."""
    written = 0
    append = Journal.append

    def dying(journal: Journal, line: bytes) -> None:
        nonlocal written
        last = written == number
        written += 1
        append(journal, line[: len(line) // 2] if last and torn else line)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    Journal.append = dying  # type: ignore[method-assign,assignment]


def obey(order: dict[str, Any]) -> int:
    """Run one release in this process."""
    with Path(order["output"]).open("w") as stream:
        os.dup2(stream.fileno(), 1)
        os.dup2(stream.fileno(), 2)
    os.environ.update(order["env"])
    if "at_line" in order:
        die_at_line(order["at_line"], torn=order["torn"])
    return release.main(order["argv"], pause=PAUSE)


def main() -> None:
    """Fork for each order; print the number of the process, then how it ended."""
    replace_slow_parts()
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if not child:
            code = 70  # an exception that nobody expected
            try:
                code = obey(order)
            finally:
                sys.stdout.flush()
                os._exit(code)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    main()
