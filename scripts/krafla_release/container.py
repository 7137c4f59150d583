# SPDX-License-Identifier: MIT
"""Build packaging/Containerfile for every platform and run what is in the images.

    PYTHONPATH=scripts python3 -m krafla_release.container

Needs root and buildah, and no network: the base is made of this machine's static busybox, and of
the emulated ones that krafla_release.sysroot fetches.  The image for this machine runs as a
container would: its user, its environment, its own root, as process 1.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import isas
from krafla_release import archives, audit, build, checksums, smoke, sysroot, testing, wheel_smoke
from krafla_release import package as packing
from krafla_release.project import (
    ReleaseError,
    VerificationError,
    exit_code,
    facts,
    output,
    run,
    version,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from krafla_release.archives import Archive

CONTAINERFILE = archives.PACKAGING / "Containerfile"
PLATFORMS = {"x86_64": "amd64", "aarch64": "arm64", "armv7": "arm/v7"}
BASE = "localhost/base"
BASE_COMMANDS = ("sh", "readlink", "tar", "gzip", "grep", "sha256sum", "mkdir", "mv")
HOME = Path("opt/krafla")  # in the image
SECONDS = 60  # after which a container hangs
ENDS = {signal.SIGINT: 130, signal.SIGTERM: 143}


@dataclasses.dataclass(frozen=True)
class Store:
    """A place for images, apart from the machine's own."""

    place: Path

    def words(self, *args: str | Path) -> list[str | Path]:
        """Return a command of buildah on this store."""
        where = [f"--root={self.place}/store", f"--runroot={self.place}/run"]
        return ["buildah", *where, "--storage-driver=vfs", *args]

    def say(self, *args: str | Path) -> str:
        """Return what a command prints."""
        return output(*self.words(*args))

    def do(self, *args: str | Path) -> None:
        """Run a command and fail if it fails."""
        run(*self.words(*args))

    def add_base(self, arch: str, busybox: Path) -> None:
        """Add the base for an architecture to the base of all: busybox and nothing else."""
        kind, _, variant = PLATFORMS[arch].partition("/")
        name = self.say("from", "--arch", kind, "scratch")
        bin_of_base = Path(self.say("mount", name)) / "bin"
        bin_of_base.mkdir()
        shutil.copy(busybox, bin_of_base / "busybox")
        for command in BASE_COMMANDS:
            (bin_of_base / command).symlink_to("busybox")
        self.do("config", "--arch", kind, *(["--variant", variant] if variant else []), name)
        self.do("commit", "--quiet", "--rm", "--manifest", BASE, name, f"{BASE}-{kind}")

    def build(self, context: Path, arch: str) -> str:
        """Build the image for an architecture and return its name."""
        name = f"localhost/krafla-{arch}"
        given = {
            "BASE": BASE,
            "VERSION": version(),
            "SOURCE": f"https://github.com/{facts()['repository']}",
            "BUILDPLATFORM": f"linux/{PLATFORMS[build.host_arch()]}",  # older buildahs lack it
        }
        words = ["build", "--quiet", "--pull=never", "--isolation=chroot"]
        words += [f"--build-arg={key}={value}" for key, value in given.items()]
        words += [f"--platform=linux/{PLATFORMS[arch]}", f"--file={CONTAINERFILE}", f"--tag={name}"]
        self.do(*words, context)
        return name


@dataclasses.dataclass(frozen=True)
class Container:
    """The files of an image and how it wants to be started."""

    archive: Archive
    root: Path
    image: dict[str, Any]

    @property
    def config(self) -> dict[str, Any]:
        """The part of the image that a container is started by."""
        return dict(self.image["config"])

    def words(self, program: str = "") -> list[str]:
        """Return the command that stands for `docker run`, up to the arguments."""
        user, group = self.config["User"].split(":")
        entry = [program] if program else self.config["Entrypoint"]
        own = ["--pid", "--mount-proc", "--fork", "--kill-child", f"--root={self.root}"]
        own += [f"--wd={self.config['WorkingDir']}", f"--setgid={group}", f"--setuid={user}"]
        return ["unshare", *own, *entry]

    def env(self, chosen: str = "") -> dict[str, str]:
        """Return the environment of the container."""
        env = dict(line.split("=", 1) for line in self.config["Env"])
        return env | ({"KRAFLA_ISA": chosen} if chosen else {})

    def call(self, *args: str, code: int = 0, program: str = "", chosen: str = "") -> str:
        """Run the container to its end and return what it printed."""
        shown = [*([f"--env=KRAFLA_ISA={chosen}"] if chosen else [])]
        shown += [f"--entrypoint={program}"] if program else []
        print("+ run", shlex.join([*shown, "krafla", *args]), flush=True)
        done = subprocess.run(
            [*self.words(program), *(args or self.config["Cmd"])],
            env=self.env(chosen),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        if done.returncode != code:
            raise VerificationError(
                f"the container ended with code {done.returncode}, want {code}: {done.stderr}"
            )
        return done.stdout if code == 0 else done.stderr

    def end_by(self, number: signal.Signals, tokenizer: str) -> None:
        """Fail unless a program that waits for text, started by its launcher, ends by a signal."""
        words = [*self.words("ml_tok"), tokenizer]
        print("+ run", shlex.join(["--entrypoint=ml_tok", "krafla", tokenizer]), flush=True)
        pipe = subprocess.PIPE
        with subprocess.Popen(words, env=self.env(), stdin=pipe, stdout=pipe) as process:
            code = end_child(process, "ml_tok-", number)
        if code != ENDS[number]:
            raise VerificationError(f"{number.name} gave code {code}")
        print(f"  {number.name}: code {process.returncode}")


def end_child(process: subprocess.Popen[bytes], name: str, number: signal.Signals) -> int:
    """Send a signal to a process's child, once it is a program so named; return the code of both.

    Where both hang they are killed, which gives another code than any that is meant.
    """
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    for _ in range(SECONDS * 10):
        for child in children.read_text().split() if process.poll() is None else []:
            if program_of(child).startswith(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(child), number)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    return process.wait()


def program_of(pid: str) -> str:
    """Return the name of what a process runs; nothing if it has ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def missing() -> str:
    """Return what stands in the way of building images here, if anything does."""
    lacking = [name for name in ("buildah", "unshare", "busybox") if not shutil.which(name)]
    if lacking:
        return f"{', '.join(lacking)} not installed"
    if os.geteuid() != 0:
        return "only root may make images without a service"
    return "" if is_static(busybox_of(build.host_arch())) else "busybox is not the static one"


def is_static(program: Path) -> bool:
    """Return whether a program needs no libraries."""
    return not any("static" in fault for fault in audit.program_faults(program))


def busybox_of(arch: str) -> Path:
    """Return where busybox of an architecture is, or would be."""
    if arch == build.host_arch():
        return Path(shutil.which("busybox") or "busybox")
    return sysroot.path(arch) / "bin" / "busybox"


def make_context(directory: Path, place: Path) -> list[Archive]:
    """Copy the Linux archives of a directory, with their sums; return those that there are."""
    place.mkdir()
    found = []
    for archive in archives.load():
        path = packing.path_of(archive, directory)
        if archive.system == "linux" and path.is_file():
            shutil.copy(path, place)
            found.append(archive)
    if not found:
        raise ReleaseError(f"{directory} has no archive for Linux: invoke package")
    checksums.write(place, [packing.path_of(archive, place).name for archive in found])
    return found


def check_image(container: Container) -> None:
    """Fail unless an image is for its platform, says what it is and holds what it has to."""
    image, config, labels = container.image, container.config, container.config["Labels"]
    want: dict[str, tuple[Any, Any]] = {
        "architecture": (PLATFORMS[container.archive.arch].split("/")[0], image["architecture"]),
        "user": ("65532:65532", config["User"]),
        "entry": (["ml_run"], config["Entrypoint"]),
        "version": (version(), labels["org.opencontainers.image.version"]),
        "licence": ("MIT", labels["org.opencontainers.image.licenses"]),
        "members": (members_of(container.archive), members_in(container.root / HOME)),
    }
    wrong = [
        f"{what} is {got}, want {meant}" for what, (meant, got) in want.items() if meant != got
    ]
    if wrong:
        raise VerificationError("\n  ".join(["the image is wrong:", *wrong]))


def members_of(archive: Archive) -> list[str]:
    """Return the modes and paths of the archive's members that an image has, in order."""
    wanted = re.compile(r"\d+ (bin/.*|ml_\w+|LICENSE|README\.md)")
    return sorted(line for line in archive.contract.splitlines() if wanted.fullmatch(line))


def members_in(home: Path) -> list[str]:
    """Return the modes and paths of the files in a folder, in order."""
    files = [path for path in home.rglob("*") if path.is_file()]
    return sorted(f"{path.stat().st_mode & 0o7777:04o} {path.relative_to(home)}" for path in files)


def run_native(container: Container) -> None:
    """Run every program, force every build, and end one by each signal."""
    for name in ("dev", "proc"):
        (container.root / name).mkdir()
    os.mknod(container.root / "dev" / "null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    (container.root / "dev" / "null").chmod(0o666)
    model, tokenizer = smoke.make_files(container.root / "models")
    tokens = [model.name, "--tokens", smoke.TOKENS, "-n", str(wheel_smoke.POSITIONS)]
    if "usage" not in container.call().lower():
        raise VerificationError("the container without arguments does not explain itself")
    for isa in isas.load(container.archive.arch, built=True, ship=True):
        program = container.root / HOME / "bin" / f"ml_run-{isa.name}"
        if subprocess.run([str(program), "--probe"], capture_output=True, check=False).returncode:
            want = f"error: CPU lacks {isa.needs[0]} required by ISA={isa.name}"
            said = container.call(*tokens, chosen=isa.name, code=3)
            testing.expect("the refusal", want, said.strip())
        else:
            want = wheel_smoke.answer(model, fused=isa.fused)
            said = container.call(*tokens, chosen=isa.name)
            testing.expect(f"the tokens of {isa.name}", want, said.strip())
    container.call(*tokens)
    container.call("no such file", "--tokens", "1", code=1)
    container.call("--no-such-option", code=2)
    container.call(model.name, "-n", "4", program="ml_bench")
    for number in ENDS:
        container.end_by(number, tokenizer.name)


def run_emulated(container: Container) -> None:
    """Run each build of another architecture; the emulator does not follow its launcher."""
    model, _ = smoke.make_files(container.root / "models")
    for isa in isas.load(container.archive.arch, built=True, ship=True):
        words: list[str | Path] = [*testing.emulator(isa, isa.cpus[0])]
        words += [container.root / HOME / "bin" / f"ml_run-{isa.name}", model]
        words += ["--tokens", smoke.TOKENS, "-n", str(wheel_smoke.POSITIONS)]
        want = wheel_smoke.answer(model, fused=isa.fused)
        testing.expect(f"the tokens of {isa.name}", want, output(*words))


def refuse_changed(store: Store, context: Path, arch: str) -> None:
    """Fail if an archive with another sum than SHA256SUMS says gets into an image."""
    sums = context / checksums.FILE_NAME
    known = sums.read_text()
    sums.write_text("\n".join(f"{'0' * 64}{line[64:]}" for line in known.splitlines()) + "\n")
    try:
        store.build(context, arch)
    except ReleaseError:
        print("  an archive that is not the one of SHA256SUMS is refused")
        return
    finally:
        sums.write_text(known)
    raise VerificationError("an image was made of an archive that SHA256SUMS does not know")


def prove(store: Store, archive: Archive, context: Path) -> None:
    """Build and run the image of one archive."""
    name = store.build(context, archive.arch)
    image = json.loads(store.say("inspect", "--type=image", name))["OCIv1"]
    root = store.say("mount", store.say("from", "--pull=never", name))
    container = Container(archive, Path(root), image)
    check_image(container)
    (run_native if archive.arch == build.host_arch() else run_emulated)(container)
    print(f"container: linux/{PLATFORMS[archive.arch]} passed")


def smoke_images(directory: Path = packing.DIST) -> None:
    """Build and run the images of every archive in a directory, as far as this machine can."""
    reason = missing()
    if reason:
        testing.not_run("container", reason)
        return
    with tempfile.TemporaryDirectory(prefix="krafla-container-") as temporary:
        store, context = Store(Path(temporary)), Path(temporary) / "context"
        found = []
        for archive in make_context(directory, context):
            if busybox_of(archive.arch).is_file():
                store.add_base(archive.arch, busybox_of(archive.arch))
                found.append(archive)
            else:
                reason = f"no busybox of {archive.arch}: krafla_release.sysroot fetches it"
                testing.not_run(f"the image for linux/{PLATFORMS[archive.arch]}", reason)
        if found:
            refuse_changed(store, context, found[0].arch)
        for archive in found:
            prove(store, archive, context)


def main(argv: Sequence[str] | None = None) -> int:
    """Prove the container file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--dist", type=Path, default=packing.DIST, help="where the archives are (default: dist)"
    )
    args = parser.parse_args(argv)
    return exit_code(lambda: smoke_images(args.dist))


if __name__ == "__main__":
    sys.exit(main())
