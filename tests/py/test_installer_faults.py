# SPDX-License-Identifier: MIT
"""install.sh with faulty and hostile releases, on full and foreign file systems, killed anywhere.

.venv/bin/python -m pytest tests/py/test_installer_faults.py
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from installing import (
    NAMES,
    OLD,
    SHELLS,
    VERSION,
    Entry,
    Site,
    User,
    harmless,
    new_busybox_user,
    new_site,
    new_user,
    program,
)
from krafla_release import archives, checksums, installer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    place = tmp_path_factory.mktemp("site")
    with installer.serve(place) as url:
        yield place, url


@pytest.fixture
def site(server: tuple[Path, str], tmp_path: Path) -> Site:
    return new_site(server, tmp_path)


@pytest.fixture
def old_site(server: tuple[Path, str], tmp_path: Path) -> Site:
    return new_site(server, tmp_path, OLD)


@pytest.fixture
def user(tmp_path: Path) -> User:
    return new_user(tmp_path)


@pytest.fixture(params=SHELLS)
def any_user(tmp_path: Path, request: pytest.FixtureRequest) -> User:
    return new_user(tmp_path, str(request.param))


@pytest.fixture
def busybox_user(tmp_path: Path) -> User:
    return new_busybox_user(tmp_path)


CRASH = b"#!/bin/sh\nkill -ILL $$\n"


def truncated(site: Site) -> None:
    path = site.archive(NAMES[0])
    path.write_bytes(path.read_bytes()[:-9])


def other_byte(site: Site) -> None:
    path = site.archive(NAMES[0])
    path.write_bytes(path.read_bytes()[:-1] + b"\x7f")


def no_line(site: Site) -> None:
    checksums.write(site.place, [site.archive(name).name for name in NAMES[1:]])


def line_twice(site: Site) -> None:
    path = site.place / "SHA256SUMS"
    path.write_text(path.read_text() + "0" * 64 + f"  {site.archive(NAMES[0]).name}\n")


def only_a_longer_name(site: Site) -> None:
    path = site.place / "SHA256SUMS"
    path.write_text(path.read_text().replace(".tar.gz", ".tar.gz.old"))


def control_codes(site: Site) -> None:
    name = site.archive(NAMES[0]).name
    (site.place / "SHA256SUMS").write_bytes(b"\x1b[31m\x07  " + name.encode() + b"\n")


def page_in_its_place(site: Site) -> None:
    (site.place / "SHA256SUMS").write_text("<html>\nnot here\n</html>\n")


def sum_of_truncated(site: Site) -> None:
    truncated(site)
    site.sum_up()


def says_another_version(site: Site) -> None:
    entries = harmless(VERSION, NAMES[0])
    entries[0] = dataclasses.replace(entries[0], data=program("9.9.9", NAMES[0]))
    site.publish({NAMES[0]: entries})


def lacks_a_program(site: Site) -> None:
    site.publish({NAMES[0]: harmless(VERSION, NAMES[0])[:-2]})


def crashes(site: Site) -> None:
    entries = [dataclasses.replace(each, data=CRASH) for each in harmless(VERSION, NAMES[0])]
    site.publish({NAMES[0]: entries})


FAULTS: dict[str, tuple[Callable[[Site], object], str]] = {
    "truncated": (truncated, "is damaged or not the published one: its SHA-256 is "),
    "other byte": (other_byte, "is damaged or not the published one"),
    "no line": (no_line, "SHA256SUMS does not list krafla-1.2.3-linux-x86_64.tar.gz"),
    "line twice": (line_twice, "SHA256SUMS lists krafla-1.2.3-linux-x86_64.tar.gz twice"),
    "only a longer name": (only_a_longer_name, "SHA256SUMS does not list"),
    "control codes": (control_codes, "SHA256SUMS does not list krafla-1.2.3-linux-x86_64.tar.gz"),
    "page in its place": (page_in_its_place, "SHA256SUMS does not list"),
    "no sums": (lambda site: (site.place / "SHA256SUMS").unlink(), "SHA256SUMS: "),
    "no archive": (lambda site: site.archive(NAMES[0]).unlink(), "cannot download http://"),
    "sum of truncated": (sum_of_truncated, "cannot read krafla-1.2.3-linux-x86_64.tar.gz"),
    "another version": (says_another_version, "says it is 'ml_run 9.9.9, isa: x86_64', not"),
    "no program": (lacks_a_program, f"linux-x86_64: has no program {archives.programs()[-1]}"),
    "crash": (crashes, "linux-x86_64: ml_run ended with code 132"),
}


@pytest.mark.parametrize("download", ["curl", "wget"])
@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_release_is_refused_and_leaves_nothing(
    tmp_path: Path, site: Site, download: str, fault: str
) -> None:
    user = new_user(tmp_path, extra=(download, "sha256sum"))
    spoil, words = FAULTS[fault]
    spoil(site)
    said = user.run(site, code=1).stderr
    assert words in said
    assert said.rstrip("\n").isprintable()
    assert user.files() == []


@pytest.mark.parametrize("download", ["curl", "wget"])
def test_errors_of_the_server_and_of_the_network_are_passed_on(
    tmp_path: Path, site: Site, download: str
) -> None:
    user = new_user(tmp_path, extra=(download, "sha256sum"))
    (site.place / "SHA256SUMS").unlink()
    assert "404" in user.run(site, code=1).stderr
    nobody = {"KRAFLA_INSTALL_URL": "http://127.0.0.1:9"}
    assert "efused" in user.run(site, env=nobody, code=1).stderr.replace("onnect to", "efused")


def test_busybox_passes_errors_on(busybox_user: User, site: Site) -> None:
    (site.place / "SHA256SUMS").unlink()
    assert "404" in busybox_user.run(site, code=1).stderr
    assert busybox_user.files() == []


TOP = f"krafla-{VERSION}-linux-x86_64"
EVIL = Path("/dev/shm/krafla-evil")  # noqa: S108  (nothing must write it)
HOSTILE = {
    "absolute": Entry(str(EVIL), b"x"),
    "parent": Entry("../evil", b"x"),
    "parent below": Entry(f"{TOP}/../../evil", b"x"),
    "parent at the end": Entry(f"{TOP}/a/..", type=tarfile.DIRTYPE),
    "beside": Entry("evil", b"x"),
    "like the top": Entry(f"{TOP}-evil/x", b"x"),
    "link": Entry(f"{TOP}/evil", type=tarfile.SYMTYPE, target="/etc"),
    "link within": Entry(f"{TOP}/evil", type=tarfile.SYMTYPE, target="ml_run"),
    "hard link": Entry(f"{TOP}/evil", type=tarfile.LNKTYPE, target=f"{TOP}/ml_run"),
    "fifo": Entry(f"{TOP}/evil", type=tarfile.FIFOTYPE),
    "device": Entry(f"{TOP}/evil", type=tarfile.CHRTYPE),
    "setuid": Entry(f"{TOP}/evil", b"x", mode=0o4755),
    "setgid": Entry(f"{TOP}/evil", b"x", mode=0o2755),
    "writable": Entry(f"{TOP}/evil", b"x", mode=0o777),
    "space": Entry(f"{TOP}/e vil", b"x"),
    "line break": Entry(f"{TOP}/evil\n../x", b"x"),
    "escape": Entry(f"{TOP}/\x1b[31m", b"x"),
    "option": Entry(f"{TOP}/--evil=$(id)", b"x"),
    "accent": Entry(f"{TOP}/é", b"x"),
}


@pytest.mark.parametrize("only_busybox", [False, True], ids=["gnu", "busybox"])
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_member_is_refused_before_anything_is_unpacked(
    request: pytest.FixtureRequest, site: Site, kind: str, *, only_busybox: bool
) -> None:
    user: User = request.getfixturevalue("busybox_user" if only_busybox else "user")
    site.publish({NAMES[0]: [*harmless(VERSION, NAMES[0]), HOSTILE[kind]]})
    done = user.run(site, code=1)
    assert "tar.gz holds a" in done.stderr or "cannot read" in done.stderr
    assert user.files() == []
    assert not EVIL.exists()


def test_a_crash_leaves_one_line_in_every_shell(any_user: User, site: Site) -> None:
    crashes(site)
    any_user.run(site, code=1)


def test_an_endless_refusal_is_cut(any_user: User, site: Site) -> None:
    talker = b"#!/bin/sh\nhead -c 100000 /dev/zero | tr '\\0' y\nexit 1\n"
    entries = [dataclasses.replace(each, data=talker) for each in harmless(VERSION, NAMES[0])]
    site.publish({NAMES[0]: entries})
    env = {"PATH": f"{any_user.tools}:{os.environ['PATH']}"}
    assert len(any_user.run(site, env=env, code=1).stderr) < 3000


def foreign_file(user: User) -> Path:
    path = user.bin / "ml_tok"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    return path


def foreign_link(user: User) -> Path:
    path = user.bin / "ml_run"
    path.parent.mkdir(parents=True)
    path.symlink_to("/nowhere")
    return path


def foreign_directory(user: User) -> Path:
    user.versions.mkdir(parents=True)
    (user.versions / "model.mlb").write_text("mine")
    return user.versions


def file_for_directory(user: User) -> Path:
    user.versions.parent.mkdir(parents=True)
    user.versions.write_text("mine")
    return user.versions


@pytest.mark.parametrize("put", [foreign_file, foreign_link, foreign_directory, file_for_directory])
def test_what_is_not_its_own_is_neither_overwritten_nor_removed(
    any_user: User, site: Site, put: Callable[[User], Path]
) -> None:
    path = put(any_user)
    before = any_user.files()
    done = any_user.run(site, code=1)
    assert f"{path} was not made by this script" in done.stderr
    assert any_user.files() == before
    done = any_user.run(site, "--uninstall", code=int(path == any_user.versions))
    assert any_user.files() == before


@pytest.mark.parametrize("tool", ["curl", "sha256sum", "tar", "gzip"])
def test_a_missing_tool_is_named(user: User, site: Site, tool: str) -> None:
    (user.tools / tool).unlink()
    assert tool in user.run(site, code=1).stderr
    assert user.files() == []


def test_without_the_commands_of_any_system_it_says_so(user: User, site: Site) -> None:
    said = user.run(site, env={"PATH": "/nowhere"}, code=1).stderr
    assert said == "error: PATH has no tr\n"


def test_a_path_too_long_for_the_system_is_one_error(any_user: User, site: Site) -> None:
    assert "cannot make" in any_user.run(site, "--prefix", "x" * 5000, code=1).stderr


def test_a_directory_that_cannot_be_made_is_named(any_user: User, site: Site) -> None:
    done = any_user.run(site, "--prefix", "/proc/krafla", code=1)
    assert "cannot make /proc/krafla/share/krafla: mkdir: " in done.stderr


def mounted(
    user: User, options: str, site: Site, below: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the script where a part of its home is a file system of its own, seen by nobody else."""
    mount = 'mount -t tmpfs -o "$1" none "$2" && shift 2 && exec "$@"'
    words = ["unshare", "--mount", "--map-root-user", "sh", "-c", mount, "sh", options]
    path = f"{user.tools}:{os.environ['PATH']}"
    done = subprocess.run(
        [*words, str(user.home / below), *user.shell, str(site.script)],
        env=user.env(site) | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare:" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"not run: no file system can be mounted here: {done.stderr.strip()}")
    return done


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("noexec", "programs cannot be started in "),
        ("ro", "cannot make "),
        ("size=4k", ""),
        ("size=16k", ""),
        ("nr_inodes=8", ""),
    ],
)
def test_a_file_system_that_cannot_hold_it_is_an_error_of_one_line(
    any_user: User, site: Site, options: str, words: str
) -> None:
    site.publish({NAMES[0]: [*harmless(VERSION, NAMES[0]), Entry(f"{TOP}/x", os.urandom(50_000))]})
    done = mounted(any_user, options, site)
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert words in done.stderr


def test_links_that_cannot_be_made_are_noticed_before_the_download(
    any_user: User, site: Site
) -> None:
    any_user.bin.mkdir(parents=True)
    done = mounted(any_user, "ro", site, ".local/bin")
    assert done.stderr.startswith(f"error: cannot write to {any_user.bin}: ln: ")
    assert done.stderr.count("\n") == 1
    assert "downloading" not in done.stdout
    assert any_user.files() == [".local", ".local/bin"]


KILLER = """
count=$(cat "$COUNT")
count=$((count - 1))
echo "$count" >"$COUNT"
if [ "$count" -eq 0 ]; then
    {half}
    kill -9 0
fi
exec "{real}" "$@"
"""
HALF = {"rm": 'for last; do :; done; "{real}" -rf "$last/ml_bench"'}  # of what the command does


def kill_at(user: User, site: Site, count: int, *args: str) -> bool:
    """Kill the script and all it started at its count-th command; return whether it came so far."""
    counter = user.home.parent / "count"
    counter.write_text(str(count))
    env = user.env(site) | {"COUNT": str(counter)}
    words = [*user.shell, str(site.script), *args]
    with subprocess.Popen(
        words, env=env, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        code = process.wait(60)
    assert code in (0, -signal.SIGKILL)
    return code != 0


def killers(user: User) -> None:
    """Count the commands that change something."""
    for name in ("mkdir", "mv", "ln", "rm", "rmdir", "tar", "curl", "chmod"):
        real = str((user.tools / name).resolve())
        user.fake(name, KILLER.replace("{half}", HALF.get(name, "")).replace("{real}", real))


@pytest.mark.parametrize("then", [VERSION, OLD])
def test_a_kill_at_any_command_of_an_upgrade_leaves_a_version_that_works(
    user: User, site: Site, old_site: Site, then: str
) -> None:
    plain = dataclasses.replace(user, tools=user.home.parent / "plain")
    shutil.copytree(user.tools, plain.tools, symlinks=True)
    killers(user)
    count = 0
    while True:
        count += 1
        plain.run(old_site)
        plain.has_installed(OLD)
        if not kill_at(user, site, count):
            break
        for name in archives.programs():
            assert plain.says(name) in {
                f"ml_run {version}, isa: x86_64\n" for version in (OLD, VERSION)
            }
        plain.run(site if then == VERSION else old_site)
        plain.has_installed(then)
    assert count > 15


def test_a_kill_at_any_command_of_a_first_installation_can_be_repeated_or_undone(
    user: User, site: Site
) -> None:
    plain = dataclasses.replace(user, tools=user.home.parent / "plain")
    shutil.copytree(user.tools, plain.tools, symlinks=True)
    killers(user)
    count = 0
    while kill_at(user, site, count := count + 1):
        plain.run(site)
        plain.has_installed()
        plain.run(site, "--uninstall")
        assert [path for path in plain.files() if Path(path).name not in PARENTS] == []
        shutil.rmtree(plain.home)
        plain.home.mkdir()
    assert count > 12


PARENTS = {".local", "bin", "share", "krafla"}  # made before anything notes that they were


def test_a_kill_at_any_command_of_an_uninstallation_can_be_repeated(user: User, site: Site) -> None:
    plain = dataclasses.replace(user, tools=user.home.parent / "plain")
    shutil.copytree(user.tools, plain.tools, symlinks=True)
    killers(user)
    count = 0
    plain.run(site)
    while kill_at(user, site, count := count + 1, "--uninstall"):
        plain.run(site, "--uninstall")
        assert [path for path in plain.files() if Path(path).name not in PARENTS] == []
        plain.run(site)
        plain.has_installed()
    assert count > 8


@pytest.mark.parametrize(("name", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_a_signal_during_the_download_leaves_nothing(
    any_user: User, site: Site, name: str, code: int
) -> None:
    any_user.fake("curl", f"kill -{name} 0\nsleep 5\n")
    words = [*any_user.shell, str(site.script)]
    number = getattr(signal, f"SIG{name}")
    ours = signal.signal(number, signal.SIG_DFL)  # a shell cannot trap what it was told to ignore
    with subprocess.Popen(
        words,
        env=any_user.env(site),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        signal.signal(number, ours)
        assert process.wait(60) in (code, -number)
    assert any_user.files() == []


def test_a_run_that_is_still_at_work_is_not_disturbed(any_user: User, site: Site) -> None:
    rival = any_user.versions / f".part.{os.getpid()}"
    any_user.run(site)
    rival.mkdir()
    before = any_user.files()
    for words in ([], ["--uninstall"]):
        done = any_user.run(site, *words, code=1)
        assert f"another run is at work, process {os.getpid()};" in done.stderr
        assert any_user.files() == before


def test_a_link_that_another_run_makes_at_the_same_time_does_no_harm(
    any_user: User, site: Site
) -> None:
    real = (any_user.tools / "ln").resolve()
    any_user.fake("ln", f'"{real}" "$@"\n"{real}" "$@" 2>/dev/null\nexit 0\n')
    any_user.run(site)
    any_user.has_installed()


def test_many_at_a_time_end_with_one_installation(any_user: User, site: Site) -> None:
    words = [*any_user.shell, str(site.script)]
    env = any_user.env(site)
    started = [
        subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in started:
        said = process.communicate(timeout=60)[1]
        assert process.returncode == 0 or said.startswith(b"error: "), said
    any_user.run(site)
    any_user.has_installed()
