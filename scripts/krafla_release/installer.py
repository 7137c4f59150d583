# SPDX-License-Identifier: MIT
"""Make install.sh of a release, and prove it with the real archive over a loopback server.

    PYTHONPATH=scripts python3 -m krafla_release.installer --smoke

The script is packaging/install.sh.in with the version and the repository filled in: it installs
the one release that it belongs to.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import http.server
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import archives, checksums, packed, testing
from krafla_release.archives import PROGRAM, Archive, Member
from krafla_release.package import DIST, default_archive, path_of
from krafla_release.project import (
    ReleaseError,
    VerificationError,
    exit_code,
    facts,
    version,
    write_atomically,
)
from krafla_release.smoke import Release, answers, make_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FILE_NAME = "install.sh"
TEMPLATE = "install.sh.in"
# What the template puts between quotes of the shell.
VERSION = re.compile(r"\d{1,9}\.\d{1,9}\.\d{1,9}")
REPOSITORY = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+")
OLD_VERSION = "0.0.1"  # what smoke() upgrades from
OLD_PROGRAM = f"#!/bin/sh\necho 'ml_run {OLD_VERSION}, isa: none'\n"
SHELLS = (["dash"], ["busybox", "sh"])


def render(release: str, repository: str) -> str:
    """Return the script that installs one release of a repository."""
    for what, value, form in (
        ("version", release, VERSION),
        ("repository", repository, REPOSITORY),
    ):
        if not form.fullmatch(value):
            raise ReleaseError(f"{TEMPLATE}: {value!r} is no {what} to write into a script")
    return archives.render(
        TEMPLATE,
        version=release,
        repository=repository,
        programs=archives.programs(),
        archives=[archive.name for archive in archives.load()],
    )


def package(directory: Path = DIST) -> Path:
    """Write install.sh and return its path."""
    path = directory / FILE_NAME
    write_atomically(path, render(version(), facts()["repository"]).encode())
    path.chmod(PROGRAM)
    print(f"{path}: {path.stat().st_size} bytes")
    return path


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serve files without a line on standard error for each."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the base's name)
        """Say nothing."""


@contextlib.contextmanager
def serve(directory: Path) -> Iterator[str]:
    """Serve a directory on the loopback interface and yield its address."""
    handler = functools.partial(Quiet, directory=str(directory))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def publish(directory: Path, release: str, files: Sequence[Path]) -> None:
    """Lay out what a release serves: its files, their sums and the script."""
    directory.mkdir()
    for file in files:
        shutil.copy(file, directory)
    script = directory / FILE_NAME
    script.write_text(render(release, facts()["repository"]))
    checksums.write(directory, [*(file.name for file in files), FILE_NAME])


@dataclasses.dataclass(frozen=True)
class User:
    """Somebody with a home directory, a shell and nothing else in the environment."""

    home: Path
    shell: list[str]

    @property
    def env(self) -> dict[str, str]:
        """What the script finds in the environment."""
        return {"HOME": str(self.home), "PATH": os.environ["PATH"]}

    def pipe(self, url: str, *args: str) -> str:
        """Run the script as the documents say: from the network into a shell."""
        words = [*self.shell, "-s", "--", *args]
        print(f"+ curl -fsSL {url}/{FILE_NAME} |", shlex.join(words), flush=True)
        env = self.env | {"KRAFLA_INSTALL_URL": url}
        fetch = ["curl", "-fsSL", f"{url}/{FILE_NAME}"]
        script = subprocess.run(fetch, env=env, capture_output=True, check=True).stdout
        done = subprocess.run(words, input=script, env=env, capture_output=True, check=False)
        said = (done.stdout + done.stderr).decode()
        print(said, end="", flush=True)
        if done.returncode:
            raise VerificationError(f"{FILE_NAME} ended with code {done.returncode}: {said}")
        return said

    def version(self) -> str:
        """Return what an installed program says of itself, by the link to it."""
        words = [str(self.home / ".local/bin/ml_run"), "--version"]
        done = subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)
        return done.stdout.partition(",")[0]


def smoke_shell(user: User, archive: Archive, old: str, new: str, files: tuple[Path, Path]) -> None:
    """Install an old release, upgrade to the new one, run every program, uninstall."""
    user.home.mkdir()
    user.pipe(old)
    testing.expect("installed", f"ml_run {OLD_VERSION}", user.version())
    user.pipe(new)
    testing.expect("upgraded", f"ml_run {version()}", user.version())
    versions = user.home / ".local/share/krafla"
    testing.expect("kept", [version()], sorted(path.name for path in versions.glob("[0-9]*")))
    installed = Release(archive, user.home / ".local/bin", *files, answers())
    ran, tokens = installed.generate()
    isa = next(row for row in installed.rows if row.name == ran)
    installed.expect_answer(isa, tokens)
    installed.run_every_program(isa, {})
    again = user.pipe(new).partition(" is ")[2].partition(":")[0]
    testing.expect("run twice", "installed already", again)
    user.pipe(new, "--uninstall")
    testing.expect("left after --uninstall", [], sorted(path.name for path in user.home.iterdir()))


def old_archive(archive: Archive, directory: Path) -> Path:
    """Write an archive of an earlier version, whose programs only say so."""
    name = f"krafla-{OLD_VERSION}-{archive.name}"
    members = [Member(name, PROGRAM, OLD_PROGRAM.encode()) for name in archives.programs()]
    path = directory / f"{name}{archive.suffix}"
    path.write_bytes(packed.pack(archive, name, members, 0))
    return path


def smoke(directory: Path = DIST) -> None:
    """Prove install.sh with this machine's archive, as a user who pipes it into a shell."""
    archive = archives.find(default_archive())
    path = path_of(archive, directory)
    if not path.is_file():
        raise ReleaseError(f"{path} is not there: invoke package")
    if not shutil.which("curl"):
        testing.not_run(f"smoke of {FILE_NAME}", "curl not installed")
        return
    with tempfile.TemporaryDirectory(prefix="krafla install (é ü) ") as temporary:
        place = Path(temporary)
        files = make_files(place)
        publish(place / "old", OLD_VERSION, [old_archive(archive, place)])
        publish(place / "new", version(), [path])
        with serve(place) as url:
            for shell in SHELLS:
                if not shutil.which(shell[0]):
                    testing.not_run(f"smoke of {FILE_NAME} by {shell[0]}", "not installed")
                    continue
                user = User(place / f"home of {shell[0]} (ü)", shell)
                smoke_shell(user, archive, f"{url}/old", f"{url}/new", files)
    print(f"smoke: {FILE_NAME} passed")


def main(argv: Sequence[str] | None = None) -> int:
    """Write install.sh, or prove it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dist", type=Path, default=DIST, help="the release's directory")
    parser.add_argument("--smoke", action="store_true", help="install, run, upgrade and uninstall")
    args = parser.parse_args(argv)
    return exit_code(lambda: (smoke if args.smoke else package)(args.dist))


if __name__ == "__main__":
    sys.exit(main())
