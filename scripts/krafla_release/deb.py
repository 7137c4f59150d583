# SPDX-License-Identifier: MIT
"""Make the Debian package of a Linux archive: the same programs, in the places of Debian.

    PYTHONPATH=scripts python3 -m krafla_release.deb linux-x86_64

--smoke proves the packages that are there: their members against the archive's, and an
installation below a directory of its own that is upgraded, run and removed.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import email.utils
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import isas
from krafla_release import archives, build, docs_tables, manual, packed, testing
from krafla_release import package as packing
from krafla_release.archives import PLAIN, PROGRAM, Archive, Member
from krafla_release.project import (
    ROOT,
    ReleaseError,
    VerificationError,
    facts,
    run,
    source_date_epoch,
    version,
    write_atomically,
)
from krafla_release.smoke import CPU_VARIABLE, Release, answers, make_files, wrap

if TYPE_CHECKING:
    from collections.abc import Sequence

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "armv7": "armhf"}  # as Debian spells them
PROGRAMS = PurePosixPath("usr/lib/krafla")
TOOLS = PurePosixPath("usr/share/krafla")
LICENCES = ("LICENSE", "THIRD-PARTY.md", "licenses")  # what `copyright` says instead
DOCUMENTS = PurePosixPath("usr/share/doc/krafla")
MANUAL = PurePosixPath("usr/share/man/man1")
OVERRIDES = PurePosixPath("usr/share/lintian/overrides/krafla")
OLD_VERSION = "0.0.1"  # what smoke() upgrades from
SYSTEM_PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"  # dpkg wants ldconfig there


@dataclasses.dataclass(frozen=True)
class Contents:
    """What a package puts into the file system, and the files that steer dpkg."""

    members: list[Member]
    links: dict[str, str]  # where -> what it says
    control: list[Member]


def architecture(archive: Archive) -> str:
    """Return Debian's name of what an archive is for."""
    if archive.system != "linux":
        raise ReleaseError(f"{archive.name}: Debian packages are made of Linux archives only")
    return ARCHITECTURES[archive.arch]


def file_name(archive: Archive) -> str:
    """Return the file name of an archive's package."""
    return f"krafla_{version()}_{architecture(archive)}.deb"


def maintainer() -> str:
    """Return whom the package names; the owner of the repository has this address at GitHub."""
    owner = facts()["repository"].partition("/")[0]
    return f"Krafla contributors <{owner}@users.noreply.github.com>"


def place_of(member: Member) -> PurePosixPath | None:
    """Return where a member of the archive goes, if it does."""
    path = PurePosixPath(member.path)
    if path.parts[0] == "tools":
        return TOOLS / path
    if path.parts[0] == "bin" or member.mode == PROGRAM:
        return PROGRAMS / path
    return None if path.parts[0] in LICENCES else DOCUMENTS / path


def zipped(name: PurePosixPath, text: str) -> Member:
    """Return a compressed file, as Debian wants manuals and changelogs."""
    data = gzip.compress(text.encode(), 9, mtime=0)
    return Member(f"{name}.gz", PLAIN, data)


def rendered(path: str | PurePosixPath, template: str, **values: object) -> Member:
    """Return a file made of a template of packaging/deb."""
    text = archives.render(f"deb/{template}", version=version(), maintainer=maintainer(), **values)
    return Member(str(path), PLAIN, text.encode())


def copied(path: str | PurePosixPath, file: str, mode: int = PLAIN) -> Member:
    """Return a file of packaging/deb as it stands."""
    return Member(str(path), mode, (archives.PACKAGING / "deb" / file).read_bytes())


def debian_files(epoch: int) -> list[Member]:
    """Return what Debian wants to be there: the licence, the changes, the manuals."""
    date = email.utils.format_datetime(dt.datetime.fromtimestamp(epoch, dt.timezone.utc))
    _, _, terms = (ROOT / "LICENSE").read_text().partition("\n\n")
    owners, _, licence = terms.partition("\n\n")
    repository, lines = facts()["repository"], licence.strip().splitlines()
    changes = rendered(DOCUMENTS / "changelog", "changelog.in", date=date)
    return [
        zipped(DOCUMENTS / "changelog", changes.data.decode()),
        copied(DOCUMENTS / "README.Debian", "README.Debian"),
        copied(OVERRIDES, "lintian-overrides"),
        rendered(
            DOCUMENTS / "copyright",
            "copyright.in",
            repository=repository,
            copyright=owners.removeprefix("Copyright (c) "),
            license=lines,
        ),
        *(
            zipped(MANUAL / f"{program}.1", manual.page(help_of(program), epoch))
            for program in archives.programs()
        ),
    ]


def help_of(program: str) -> str:
    """Return what a program says, in the build of this machine that asks for least."""
    isa = isas.load(build.host_arch(), built=True, ship=True)[-1]
    path = build.program_file(isa, program)
    build.make(isa, str(path.relative_to(ROOT)))
    return docs_tables.help_of([str(path)])


def contents_of(archive: Archive, members: Sequence[Member], epoch: int) -> Contents:
    """Return what the package of an archive with these members holds."""
    placed = [
        dataclasses.replace(member, path=str(place))
        for member in archives.self_contained([m for m in members if is_document(m)])
        + [m for m in members if not is_document(m)]
        if (place := place_of(member))
    ]
    placed += debian_files(epoch)
    placed.sort(key=archives.by_path)
    links = {f"usr/bin/{program}": f"../lib/krafla/{program}" for program in archives.programs()}
    sums = "".join(
        f"{hashlib.md5(member.data, usedforsecurity=False).hexdigest()}  {member.path}\n"
        for member in placed
    )
    control = rendered(
        "control",
        "control.in",
        architecture=architecture(archive),
        installed_size=installed_size(placed, links),
        site=facts()["site"],
        builds=[isa.name for isa in isas.load(archive.arch, built=True, ship=True)],
    )
    steering = [control, Member("md5sums", PLAIN, sums.encode()), copied("prerm", "prerm", PROGRAM)]
    return Contents(placed, links, steering)


def is_document(member: Member) -> bool:
    """Return whether a member goes to the documents, whose links must not lead out of them."""
    return member.path.endswith(".md")


def directories(paths: Sequence[str]) -> set[PurePosixPath]:
    """Return the directories that files are in, and those above them."""
    return {parent for path in paths for parent in PurePosixPath(path).parents if parent.parts}


def installed_size(members: Sequence[Member], links: dict[str, str]) -> int:
    """Return the KiB that dpkg-gencontrol would count: files rounded up, 1 for all else."""
    files = sum(-(-len(member.data) // 1024) for member in members)
    return files + len(links) + len(directories([m.path for m in members] + list(links)))


def write_tree(tree: Path, contents: Contents, epoch: int) -> None:
    """Lay a package out as dpkg-deb wants it, with the same modes and times under every umask."""
    steering = [dataclasses.replace(m, path=f"DEBIAN/{m.path}") for m in contents.control]
    files = [*contents.members, *steering]
    for member in files:
        path = tree / member.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(member.data)
        path.chmod(member.mode)
    for name, target in contents.links.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)
    for path in [tree, *tree.rglob("*")]:
        if path.is_dir() and not path.is_symlink():
            path.chmod(PROGRAM)
        os.utime(path, (epoch, epoch), follow_symlinks=False)


def pack(contents: Contents, path: Path, epoch: int, compression: str = "-Zxz") -> None:
    """Write a package; one thread, as the bytes depend on how many compress."""
    with tempfile.TemporaryDirectory() as temporary:
        tree, made = Path(temporary) / "tree", Path(temporary) / path.name
        tree.mkdir()
        write_tree(tree, contents, epoch)
        steady = {"SOURCE_DATE_EPOCH": str(epoch), "DPKG_DEB_THREADS_MAX": "1"}
        run("dpkg-deb", "--root-owner-group", compression, "--build", tree, made, env=steady)
        write_atomically(path, made.read_bytes())


def package(archive: Archive, directory: Path = packing.DIST) -> Path:
    """Build and write the package of one archive and return its path."""
    path = directory / file_name(archive)
    build.build_arch(archive.arch)
    members = packing.members_of(archive)
    packing.check_contract(archive, members)
    epoch = source_date_epoch()
    pack(contents_of(archive, members, epoch), path, epoch)
    data = path.read_bytes()
    print(f"{path}: {len(data)} bytes\n  sha256  {hashlib.sha256(data).hexdigest()}")
    return path


def smoke(archive: Archive, directory: Path = packing.DIST) -> None:
    """Prove one package against its archive, and by installing it."""
    path, source = directory / file_name(archive), packing.path_of(archive, directory)
    for file in (path, source):
        if not file.is_file():
            raise ReleaseError(f"{file} is not there: invoke package")
    check_files(path, source)
    check_policy(path)
    with tempfile.TemporaryDirectory(prefix="krafla deb (é ü) ") as temporary:
        place = Path(temporary)
        if reason := cannot_install():
            testing.not_run(f"installation of {path.name}", reason)
        else:
            smoke_installation(path, place)
        smoke_programs(archive, path, place)
    print(f"smoke: {path.name} passed")


def check_files(path: Path, source: Path) -> None:
    """Fail unless a package holds its archive's files, unchanged, the links and Debian's files."""
    want: dict[str, tuple[int, bytes | str | None]] = dict.fromkeys(debian_names(), (PLAIN, None))
    want |= {f"usr/bin/{name}": (0o777, f"../lib/krafla/{name}") for name in archives.programs()}
    for member in packed.read(source):
        inside = dataclasses.replace(member, path=member.path.partition("/")[2])
        if place := place_of(inside):
            want[str(place)] = (inside.mode, None if is_document(inside) else inside.data)
    want |= {str(name): (PROGRAM, None) for name in directories(list(want))}
    got = file_system_of(path)
    for name in sorted(want.keys() ^ got.keys()):
        raise VerificationError(f"{path.name}: {name} {'is missing' if name in want else 'extra'}")
    for name, (mode, data) in want.items():
        if got[name][0] != mode or (data is not None and got[name][1] != data):
            raise VerificationError(f"{path.name}: {name} is not what {source.name} holds")
    print(f"  {path.name} holds the files of {source.name}: {len(got)} members")


def check_policy(path: Path) -> None:
    """Let lintian look for what Debian does not want; our overrides tell why we want some of it."""
    if not shutil.which("lintian"):
        testing.not_run(f"lintian of {path.name}", "lintian not installed")
        return
    run("lintian", "--allow-root", "--fail-on", "error,warning", path)


def debian_names() -> list[str]:
    """Return the files that a package has and its archive has not."""
    names = ["README.Debian", "changelog.gz", "copyright"]
    manuals = [str(MANUAL / f"{program}.1.gz") for program in archives.programs()]
    return [*(str(DOCUMENTS / name) for name in names), str(OVERRIDES), *manuals]


def file_system_of(path: Path) -> dict[str, tuple[int, bytes | str | None]]:
    """Return mode and data, or what a link says, of all that a package puts down, root's all."""
    words = ["dpkg-deb", "--fsys-tarfile", str(path)]
    done = subprocess.run(words, capture_output=True, check=False)
    if done.returncode:
        why = " ".join(done.stderr.decode(errors="replace").split())
        raise VerificationError(f"{path.name}: {why}")
    found: dict[str, tuple[int, bytes | str | None]] = {}
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as tar:
        for info in tar:
            if (info.uid, info.gid, info.uname, info.gname) != (0, 0, "root", "root"):
                raise VerificationError(f"{path.name}: {info.name} does not belong to root")
            content = tar.extractfile(info) if info.isreg() else None
            said = content.read() if content else info.linkname if info.issym() else None
            found[info.name.removeprefix("./").rstrip("/")] = (info.mode, said)
    found.pop(".", None)
    found.pop("", None)
    return found


def cannot_install() -> str | None:
    """Return why no package can be installed here, if none can."""
    if not shutil.which("dpkg", path=SYSTEM_PATH):
        return "dpkg not installed"
    if os.geteuid() != 0 and not shutil.which("fakeroot"):
        return "fakeroot not installed, and this is not root"
    return None


def dpkg(root: Path, *words: str | Path) -> None:
    """Call dpkg on a system below a directory: with its own database, log and rules."""
    apart = [f"--root={root}", "--log=/dev/null", "--path-include=*"]
    # Scripts are told the directory instead of being locked into it, where no shell is.
    apart += ["--force-script-chrootless", "--force-architecture"]
    fake = [] if os.geteuid() == 0 else ["fakeroot"]
    run(*fake, "dpkg", *apart, *words, env={"PATH": SYSTEM_PATH, "LC_ALL": "C"})


def smoke_installation(path: Path, place: Path) -> None:
    """Install an older package, upgrade it, remove it: only the new files are there, then none."""
    root = place / "system"
    (root / "var/lib/dpkg").mkdir(parents=True)
    for name in ("status", "available"):
        (root / "var/lib/dpkg" / name).touch()
    dpkg(root, "--install", older(path, place))
    dpkg(root, "--install", path)
    files = {str(file.relative_to(root)) for file in (root / "usr").rglob("*")} | {"usr"}
    if files != file_system_of(path).keys():
        raise VerificationError(f"{path.name}: other files after the upgrade than it holds")
    bytecode = root / TOOLS / "tools/mlb/__pycache__"  # as Python leaves it
    bytecode.mkdir()
    (bytecode / "quant.cpython-311.pyc").touch()
    dpkg(root, "--purge", "krafla")
    left = sorted(str(file.relative_to(root)) for file in root.iterdir())
    if left != ["var"]:
        raise VerificationError(f"{path.name}: after its removal there is {left}")
    print(f"  {path.name} was installed over {OLD_VERSION} and removed: nothing is left")


def older(path: Path, place: Path) -> Path:
    """Return a package of an earlier version that has a file more than this one."""
    tree, old = place / "old tree", place / "old.deb"
    run("dpkg-deb", "--raw-extract", path, tree)
    control = tree / "DEBIAN/control"
    control.write_text(
        control.read_text().replace(f"Version: {version()}\n", f"Version: {OLD_VERSION}\n")
    )
    (tree / DOCUMENTS / "old.md").touch()
    run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, old)
    return old


def smoke_programs(archive: Archive, path: Path, place: Path) -> None:
    """Run every program by its link in usr/bin with a random model, emulated if it has to be."""
    root = place / "root"
    run("dpkg-deb", "--extract", path, root)
    links = Release(archive, root / "usr/bin", *make_files(place), answers())
    env = {}
    if archive.arch != build.host_arch():
        emulator = isas.EMULATORS[archive.arch]
        if not shutil.which(emulator):
            testing.not_run(f"programs of {path.name}", f"{emulator} not installed")
            return
        wrap(dataclasses.replace(links, home=root / PROGRAMS), emulator)
        env = {CPU_VARIABLE: links.rows[-1].cpu or "max"}
    ran, tokens = links.generate(env)
    isa = next(row for row in links.rows if row.name == ran)
    links.expect_answer(isa, tokens)
    links.run_every_program(isa, env)
    print(f"  the programs of {path.name} run by their links")


def main(argv: Sequence[str] | None = None) -> int:
    """Make the chosen packages, or prove them."""
    return packing.linux_command(argv, __doc__, package, smoke)


if __name__ == "__main__":
    sys.exit(main())
