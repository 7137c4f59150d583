# SPDX-License-Identifier: MIT
"""Rehearse the release of a version that the sources do not have yet, in a clean clone.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.release --version 0.2.0 --dry-run

shows the bump as a diff, commits it in build/rehearsal/ and runs the same program there.  The clone
is kept, so that the next rehearsal builds only what has changed.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from krafla_release.project import INTERRUPTED, ROOT, PreflightError, ReleaseError, output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from krafla_release.versions import Version

CLONE = ROOT / "build" / "rehearsal"
# Neither the person's name nor hooks: the same sources give the same commit, and so a journal that
# fits.
COMMIT = (
    *("-c", "user.name=rehearsal", "-c", "user.email=rehearsal@invalid"),
    *("-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null"),
    *("commit", "--quiet", "--all", "--message"),
)


def there(*words: str | Path, env: dict[str, str] | None = None) -> int:
    """Show a command, run it in the clone and return its exit code."""
    print("+", shlex.join(map(str, words)), flush=True)
    here = {"PYTHONPATH": str(CLONE / "scripts")} | (env or {})
    with subprocess.Popen(words, cwd=CLONE, env=os.environ | here) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:  # from a terminal it gets that too, and tidies up before it ends
            if process.wait() != INTERRUPTED:
                raise
            return INTERRUPTED


def must(*words: str | Path, env: dict[str, str] | None = None) -> None:
    """Run a command in the clone and fail if it fails."""
    code = there(*words, env=env)
    if code == INTERRUPTED:
        raise KeyboardInterrupt
    if code:
        raise ReleaseError(f"the rehearsal in {CLONE} failed: {shlex.join(map(str, words))}")


def prepare() -> None:
    """Bring the clone to this checkout's commit, with nothing else but what was built."""
    if not (CLONE / ".git").is_dir():
        output("git", "clone", "--quiet", "--no-checkout", ROOT, CLONE)
    must("git", "fetch", "--quiet", "--tags", "--force", ROOT, "HEAD")
    must("git", "checkout", "--quiet", "--force", "-B", "main", "FETCH_HEAD")
    must("git", "clean", "--quiet", "-d", "--force", "--force")
    (CLONE / "build").mkdir(exist_ok=True)
    models = CLONE / "models"
    if (ROOT / "models").is_dir() and not models.exists():
        models.symlink_to(ROOT / "models")
        (CLONE / ".git" / "info" / "exclude").write_text("/models\n")


def rehearse(version: Version, directory: Path) -> int:
    """Bump, commit and run the release line in the clone; the files go where real ones would."""
    print(f"the sources are not those of {version} yet: this rehearses it in {CLONE}")
    if output("git", "status", "--porcelain"):
        print("what is not committed is not part of it")
    with alone():
        return rehearse_in_clone(version, directory)


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Keep other rehearsals, which may be of another version, out of the clone for a block."""
    CLONE.parent.mkdir(exist_ok=True)
    with CLONE.with_name("rehearsal.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PreflightError(
                f"{CLONE}: another rehearsal works there; wait for its end"
            ) from None
        yield


def rehearse_in_clone(version: Version, directory: Path) -> int:
    """Prepare the clone, commit the bump and start the release line in it."""
    prepare()
    python = (sys.executable, "-m")
    must(*python, "krafla_release.bump", "--version", str(version), "--write")
    time = output("git", "log", "-1", "--format=%ct +0000")
    dates = {"GIT_AUTHOR_DATE": time, "GIT_COMMITTER_DATE": time}
    must("git", *COMMIT, f"rehearsal of {version}", env=dates)
    words = ("--version", str(version), "--dry-run", "--dist", directory.resolve())
    code = there(*python, "krafla_release.release", *words)
    print(f"a rehearsal: {version} will be of the commit that brings the bump above to main")
    return code
