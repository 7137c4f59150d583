# SPDX-License-Identifier: MIT
"""Build every file of a release once more, elsewhere and in other circumstances, and compare.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.repro --against dist/v0.1.0

The second build is made from a clone of HEAD whose path has another length, under another umask,
time zone, locale, home directory and number of processes.  Every file must have the same SHA-256.
Without --against the first build is made now, in this checkout, which must have no changes.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import archives, assets, checksums, packed
from krafla_release.project import (
    ROOT,
    PreflightError,
    ReleaseError,
    VerificationError,
    exit_code,
    output,
    run,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

MAKE = ["-m", "krafla_release.assets"]  # the words after the interpreter that make all files
UMASK = 0o077
LONGER = "another-place-whose-name-is-longer-than-that-of-the-first"


def circumstances(place: Path) -> dict[str, str]:
    """Return the whole environment of the second build; nothing of this one's but the programs."""
    kept = {name: os.environ[name] for name in ("PATH", "SOURCE_DATE_EPOCH") if name in os.environ}
    (place / "home").mkdir()
    return kept | {"HOME": str(place / "home"), "TZ": "Asia/Tokyo", "LC_ALL": "C", "LANG": "C"}


def rebuild(source: Path, place: Path, words: Sequence[str] = MAKE) -> Path:
    """Make all files from a clone of a repository's HEAD below `place`; return where they are."""
    tree, made = place / LONGER, place / "made"
    output("git", "clone", "--quiet", "--no-hardlinks", source, tree)
    env = circumstances(place) | {"PYTHONPATH": str(tree / "scripts")}
    command = [sys.executable, *words, str(made)]
    print("+ cd", tree, "&&", " ".join(command), flush=True)
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # the build starts a process for each CPU
    try:
        code = subprocess.run(command, cwd=tree, env=env, umask=UMASK, check=False).returncode
    finally:
        os.sched_setaffinity(0, allowed)
    if code:
        raise ReleaseError(f"the second build, in {tree}, ended with code {code}")
    return made


def first_difference(one: bytes, other: bytes) -> str:
    """Return where two contents differ first."""
    pairs = enumerate(zip(one, other, strict=False))
    at = next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))
    return f"{len(one)} and {len(other)} bytes, which differ from byte {at} on"


def member_differences(one: Path, other: Path) -> list[str]:
    """Return what differs inside of two packed files; nothing if only the packing does."""
    before = {member.path: member for member in packed.read(one)}
    after = {member.path: member for member in packed.read(other)}
    found = [f"{path}: only in {one}" for path in before.keys() - after.keys()]
    found += [f"{path}: only in {other}" for path in after.keys() - before.keys()]
    for path in before.keys() & after.keys():
        was, now = before[path], after[path]
        if was.mode != now.mode:
            found.append(f"{path}: mode {was.mode:04o} and {now.mode:04o}")
        if was.data != now.data:
            found.append(f"{path}: {first_difference(was.data, now.data)}")
    return sorted(found)


def differences(one: Path, other: Path) -> list[str]:
    """Return in what two files of a release differ; nothing if they are the same bytes."""
    missing = [f"{path} is not there" for path in (one, other) if not path.is_file()]
    if missing or checksums.digest_of(one) == checksums.digest_of(other):
        return missing
    if one.name.endswith((".tar.gz", ".zip", ".whl")):
        found = member_differences(one, other)
        if found:
            return found
    found = [first_difference(one.read_bytes(), other.read_bytes())]
    if one.name.endswith((".tar.gz", ".zip", ".whl")):
        digest = archives.content_digest(packed.read(one))
        found.append(f"only the packing differs, both have the content digest {digest}")
    return found


def compare(one: Path, other: Path, names: Sequence[str]) -> None:
    """Fail unless every file is the same in both directories; print its SHA-256."""
    faults = []
    for name in names:
        found = differences(one / name, other / name)
        faults += [f"{name}: {fault}" for fault in found]
        same = "differs" if found else checksums.digest_of(one / name)
        print(f"  {same:64}  {name}", flush=True)
    if faults:
        raise VerificationError("\n  ".join(["built twice, not the same twice:", *faults]))
    print(f"repro: {len(names)} files, the same bytes in both builds")


def first_build() -> Path:
    """Make all files in this checkout and return where they are."""
    if changed := output("git", "status", "--porcelain"):
        lines = changed.splitlines()
        raise PreflightError(
            f"{len(lines)} files are not as in HEAD, {lines[0].strip()} first: commit them, or "
            "compare with files made from HEAD by --against"
        )
    directory = ROOT / "build" / "repro"
    run(sys.executable, *MAKE, directory, env={"PYTHONPATH": str(ROOT / "scripts")})
    return directory


def given_build(directory: Path) -> Path:
    """Return where files were made or fetched; all of a release must be there."""
    missing = [name for name in assets.expected() if not (directory / name).is_file()]
    if missing:
        raise PreflightError(
            f"{directory} has no {', '.join(missing)}: put every file of the release there"
        )
    return directory.resolve()


def main(argv: Sequence[str] | None = None) -> int:
    """Build once more and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", type=Path, metavar="DIR", help="where the first build is")
    args = parser.parse_args(argv)

    def work() -> None:
        started = time.monotonic()
        first = given_build(args.against) if args.against else first_build()
        with tempfile.TemporaryDirectory(prefix="krafla-repro-") as temporary:
            second = rebuild(ROOT, Path(temporary))
            compare(first, second, assets.expected())
        print(f"repro: {(time.monotonic() - started) / 60:.1f} minutes")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
