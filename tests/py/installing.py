# SPDX-License-Identifier: MIT
"""Releases to install from over a loopback server, and users who do, for the tests of install.sh.

.venv/bin/python -m pytest tests/py/test_installer.py tests/py/test_installer_faults.py
"""

from __future__ import annotations

import dataclasses
import gzip
import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from krafla_release import archives, checksums, installer

VERSION, OLD = "1.2.3", "1.2.2"
NAMES = ["linux-x86_64", "linux-aarch64", "linux-armv7hf"]
REPOSITORY = "somebody/krafla"
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "busybox": ["busybox", "sh"]}
SUMMERS = ["sha256sum", "shasum", "openssl"]
# Everything else that the script calls; what is not here must not be needed.
TOOLS = ["cat", "chmod", "grep", "gzip", "kill", "ln", "ls", "mkdir", "mv", "readlink", "rm"]
TOOLS += ["rmdir", "sh", "sleep", "tar", "tr", "uname"]
NOT_FOUND = "not run: {} is not installed"

# Programs of the archives: CODE_<arch> is how they end, as on a CPU that they do not fit.
PROGRAM = r"""#!/bin/sh
eval "code=\${CODE_@ARCH@-0}"
[ "$code" = 0 ] || { echo "error: CPU lacks @ARCH@-feature required by ISA=low" >&2; exit "$code"; }
echo "ml_run @VERSION@, isa: @ARCH@"
"""


def program(version: str, name: str) -> bytes:
    """Return the stub of a program of one archive."""
    arch = name.partition("-")[2]
    return PROGRAM.replace("@ARCH@", arch).replace("@VERSION@", version).encode()


@dataclasses.dataclass(frozen=True)
class Entry:
    """A member of a tar archive, which need not be a harmless one."""

    name: str
    data: bytes = b""
    mode: int = 0o755
    type: bytes = tarfile.REGTYPE
    target: str = ""


def tar_gz(entries: list[Entry]) -> bytes:
    """Return an archive with these members, whatever they are."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for entry in entries:
            info = tarfile.TarInfo(entry.name)
            info.size, info.mode, info.type = len(entry.data), entry.mode, entry.type
            info.linkname = entry.target
            tar.addfile(info, io.BytesIO(entry.data))
    return gzip.compress(packed.getvalue(), 1, mtime=0)


def harmless(version: str, name: str) -> list[Entry]:
    """Return the members of a small archive that is in order."""
    top = f"krafla-{version}-{name}"
    programs = [Entry(f"{top}/{each}", program(version, name)) for each in archives.programs()]
    return [*programs, Entry(f"{top}/tools/mlb/__init__.py", b"# tool\n", 0o644)]


@dataclasses.dataclass(frozen=True)
class Site:
    """What a release serves, below a loopback address."""

    place: Path
    url: str
    version: str = VERSION

    @property
    def script(self) -> Path:
        """The installer."""
        return self.place / installer.FILE_NAME

    def archive(self, name: str) -> Path:
        """Return the path of an archive."""
        return self.place / f"krafla-{self.version}-{name}.tar.gz"

    def publish(self, entries: dict[str, list[Entry]] | None = None) -> Site:
        """Write the archives, their sums and the script."""
        self.place.mkdir(parents=True, exist_ok=True)
        self.script.write_text(installer.render(self.version, REPOSITORY))
        for name in NAMES:
            members = (entries or {}).get(name) or harmless(self.version, name)
            self.archive(name).write_bytes(tar_gz(members))
        self.sum_up()
        return self

    def sum_up(self) -> None:
        """Write SHA256SUMS."""
        checksums.write(self.place, [self.archive(name).name for name in NAMES])


@dataclasses.dataclass(frozen=True)
class User:
    """A home directory, a shell, and a PATH that holds no more than the script needs."""

    home: Path
    shell: list[str]
    tools: Path

    @property
    def versions(self) -> Path:
        """Where the versions are."""
        return self.home / ".local/share/krafla"

    @property
    def bin(self) -> Path:
        """Where the links are."""
        return self.home / ".local/bin"

    def run(
        self, site: Site, *args: str, env: dict[str, str] | None = None, code: int = 0
    ) -> subprocess.CompletedProcess[str]:
        """Run the script and check how it ends."""
        done = subprocess.run(
            [*self.shell, str(site.script), *args],
            env=self.env(site) | (env or {}),
            cwd=self.home.parent,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        if code:
            assert done.stderr.startswith("error: ")
            assert done.stderr.count("\n") == 1
        else:
            assert done.stderr == ""
        return done

    def env(self, site: Site) -> dict[str, str]:
        """Return the environment of the script."""
        home, path = str(self.home), str(self.tools)
        return {"HOME": home, "PATH": path, "KRAFLA_INSTALL_URL": site.url}

    def says(self, name: str) -> str:
        """Return what an installed program says."""
        words = [str(self.bin / name), "--version"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def fake(self, name: str, text: str) -> None:
        """Replace a command of the PATH by a script of ours."""
        (self.tools / name).unlink(missing_ok=True)
        (self.tools / name).write_text(f"#!/bin/sh\n{text}")
        (self.tools / name).chmod(0o755)

    def files(self) -> list[str]:
        """Return everything in the home directory."""
        return sorted(str(path.relative_to(self.home)) for path in self.home.rglob("*"))

    def has_installed(self, version: str = VERSION, arch: str = "x86_64") -> None:
        """Check that one version is installed, and nothing is left beside it."""
        for name in archives.programs():
            assert self.says(name) == f"ml_run {version}, isa: {arch}\n"
        assert sorted(path.name for path in self.bin.iterdir()) == sorted(archives.programs())
        names = sorted(path.name for path in self.versions.iterdir())
        assert names == [version, "made-by-install.sh"]


def put_tools(place: Path, names: list[str]) -> Path:
    """Make a PATH of these commands."""
    place.mkdir(exist_ok=True)
    for name in names:
        found = shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")
        if not found:
            pytest.skip(NOT_FOUND.format(name))
        (place / name).symlink_to(found)
    return place


def on(user: User, machine: str, system: str = "Linux") -> User:
    """Let the user sit at another machine."""
    user.fake("uname", f"case $1 in -s) echo '{system}' ;; -m) echo '{machine}' ;; esac\n")
    return user


def new_site(server: tuple[Path, str], tmp_path: Path, version: str = VERSION) -> Site:
    """Publish a release of one test below a server's directory and address."""
    place, url = server
    name = f"{tmp_path.name}-{version}"
    return Site(place / name, f"{url}/{name}", version).publish()


def new_user(tmp_path: Path, shell: str = "dash", extra: tuple[str, ...] = ()) -> User:
    """Return a user of one shell, at an x86-64 machine, in a home that needs quoting."""
    words = SHELLS[shell]
    path = shutil.which(words[0])
    if not path:
        pytest.skip(NOT_FOUND.format(words[0]))
    home = tmp_path / "hôme of  'me' $HOME * (x)"
    home.mkdir()
    names = [*TOOLS, *(extra or ("curl", "sha256sum"))]
    return on(User(home, [path, *words[1:]], put_tools(tmp_path / "tools", names)), "x86_64")


def new_busybox_user(tmp_path: Path) -> User:
    """Return a user whose every command is BusyBox's, as on Alpine."""
    found = shutil.which("busybox")
    if not found:
        pytest.skip(NOT_FOUND.format("busybox"))
    user = new_user(tmp_path, "busybox")
    for tool in user.tools.iterdir():
        if tool.name != "uname":
            tool.unlink()
    for name in {*TOOLS, "wget", "sha256sum"} - {"uname"}:
        (user.tools / name).symlink_to(found)
    return user
