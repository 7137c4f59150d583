# SPDX-License-Identifier: MIT
"""install.sh in every POSIX shell, with every downloader, over a loopback server.

.venv/bin/python -m pytest tests/py/test_installer.py
"""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from installing import (
    NAMES,
    NOT_FOUND,
    OLD,
    REPOSITORY,
    SHELLS,
    SUMMERS,
    VERSION,
    Site,
    User,
    harmless,
    new_busybox_user,
    new_site,
    new_user,
    on,
)
from krafla_release import archives, installer, project
from krafla_release.project import ReleaseError


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


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("download", ["curl", "wget"])
@pytest.mark.parametrize("summer", SUMMERS)
def test_it_installs_in_every_shell_by_every_tool(
    tmp_path: Path, site: Site, shell: str, download: str, summer: str
) -> None:
    user = new_user(tmp_path, shell, (download, summer))
    done = user.run(site)
    user.has_installed()
    assert f"Krafla {VERSION} is installed: ml_run" in done.stdout
    assert f"PATH has no {user.bin} yet" in done.stdout
    assert (user.versions / VERSION / "tools/mlb/__init__.py").read_text() == "# tool\n"


def test_it_installs_upgrades_and_uninstalls_with_nothing_but_busybox(
    busybox_user: User, site: Site, old_site: Site
) -> None:
    busybox_user.run(old_site)
    busybox_user.run(site)
    busybox_user.has_installed()
    busybox_user.run(site, "--uninstall")
    assert busybox_user.files() == []


def test_it_runs_from_a_pipe(any_user: User, site: Site) -> None:
    words = [*any_user.shell, "-s", "--", "--prefix", "there"]
    done = subprocess.run(
        words,
        input=site.script.read_bytes(),
        env=any_user.env(site),
        cwd=any_user.home,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert (any_user.home / "there/bin/ml_run").is_symlink()


def test_a_script_that_is_cut_short_does_nothing(any_user: User, site: Site) -> None:
    text = site.script.read_text()
    last = text.rindex("\n", 0, -1)
    ends = [at for at, letter in enumerate(text[:last]) if letter == "\n"][::8]
    for end in [*ends, *range(last, len(text) - 1)]:
        words = [*any_user.shell, "-s", "--", "--uninstall"]
        env = any_user.env(site) | {"KRAFLA_INSTALL_URL": "nonsense"}
        script = text[:end].encode()
        done = subprocess.run(words, input=script, env=env, capture_output=True, check=False)
        assert b"KRAFLA_INSTALL_URL" not in done.stdout + done.stderr, text[:end][-30:]
        assert any_user.files() == []


def test_help_says_what_it_does_and_does_nothing(any_user: User, site: Site) -> None:
    done = any_user.run(site, "--help", env={"KRAFLA_INSTALL_URL": ""})
    assert "usage: sh install.sh [--prefix DIR] [--uninstall]" in done.stdout
    assert f"https://github.com/{REPOSITORY}/releases/download/v{VERSION}" in done.stdout
    assert any_user.files() == []


@pytest.mark.parametrize(
    ("machine", "arch"),
    [
        ("x86_64", "x86_64"),
        ("amd64", "x86_64"),
        ("aarch64", "aarch64"),
        ("arm64", "aarch64"),
        ("armv8l", "aarch64"),
        ("armv7l", "armv7hf"),
        ("armv7", "armv7hf"),
    ],
)
def test_the_machine_decides_what_is_tried_first(
    user: User, site: Site, machine: str, arch: str
) -> None:
    on(user, machine).run(site)
    user.has_installed(arch=arch)


@pytest.mark.parametrize("machine", ["aarch64", "armv8l"])
def test_a_program_that_does_not_start_makes_room_for_the_next(
    user: User, site: Site, machine: str
) -> None:
    on(user, machine).run(site, env={"CODE_aarch64": "126"})
    user.has_installed(arch="armv7hf")


def test_a_cpu_that_lacks_something_is_told_so_with_code_3(any_user: User, site: Site) -> None:
    done = any_user.run(site, env={"CODE_x86_64": "3"}, code=3)
    assert "CPU lacks x86_64-feature required by ISA=low" in done.stderr
    assert any_user.files() == []


def test_nothing_that_starts_is_an_error_that_names_what_was_tried(user: User, site: Site) -> None:
    env = {"CODE_aarch64": "126", "CODE_armv7hf": "3"}
    done = on(user, "aarch64").run(site, env=env, code=3)
    assert "linux-aarch64: " in done.stderr
    assert "linux-armv7hf: CPU lacks" in done.stderr
    assert user.files() == []


def test_the_users_choice_of_a_build_does_not_disturb_the_try(user: User, site: Site) -> None:
    (site.place / "stub").write_text("")
    entries = harmless(VERSION, NAMES[0])
    choosy = b'#!/bin/sh\n[ -z "${KRAFLA_ISA-}${ISA_LM_ISA-}" ] || exit 2\n'
    entries[0] = dataclasses.replace(entries[0], data=choosy + entries[0].data)
    site.publish({NAMES[0]: entries})
    user.run(site, env={"KRAFLA_ISA": "nope", "ISA_LM_ISA": "nope"})
    user.has_installed()


@pytest.mark.parametrize(
    ("system", "machine"),
    [
        ("Linux", "i686"),
        ("Linux", "riscv64"),
        ("Linux", "armv6l"),
        ("Linux", ""),
        ("Darwin", "arm64"),
        ("FreeBSD", "amd64"),
        ("MINGW64_NT-10.0", "x86_64"),
        ("CYGWIN_NT-10.0", "x86_64"),
    ],
)
def test_an_unsupported_machine_is_told_what_there_is(
    user: User, site: Site, system: str, machine: str
) -> None:
    done = on(user, machine, system).run(site, code=1)
    assert f"there is no Krafla for {system} {machine}, only for: linux-x86_64" in done.stderr
    assert f"https://github.com/{REPOSITORY}/releases" in done.stderr
    assert ("unpack the .zip" in done.stderr) == ("_NT" in system)
    assert user.files() == []


def test_every_linux_archive_is_a_candidate_and_no_candidate_is_invented() -> None:
    text = installer.render(VERSION, REPOSITORY)
    words = {word for line in text.splitlines() if "candidates=" in line for word in line.split()}
    found = {word.split("=")[-1].strip("'") for word in words}
    known = {archive.name for archive in archives.load() if archive.system == "linux"}
    assert known == {word for word in found if word.startswith("linux-")}


@pytest.mark.parametrize(
    "url", ["file:///etc", "-o/etc/passwd", "ftp://127.0.0.1/", "127.0.0.1", "HTTPS//x"]
)
def test_an_address_that_is_not_http_is_refused(user: User, site: Site, url: str) -> None:
    done = user.run(site, env={"KRAFLA_INSTALL_URL": url}, code=2)
    assert "no http:// or https:// address" in done.stderr


@pytest.mark.parametrize("version", ["1.2", "1.2.3'; id'", "1.2.3\n", "../1.2.3", "v1.2.3", ""])
def test_a_hostile_version_is_not_rendered(version: str) -> None:
    with pytest.raises(ReleaseError, match="is no version to write into a script"):
        installer.render(version, REPOSITORY)


@pytest.mark.parametrize("repository", ["a", "a/b/c", "a/b'c", "a/$(id)", "a/b c", "/b"])
def test_a_hostile_repository_is_not_rendered(repository: str) -> None:
    with pytest.raises(ReleaseError, match="is no repository to write into a script"):
        installer.render(VERSION, repository)


def test_running_it_twice_downloads_nothing(any_user: User, site: Site) -> None:
    any_user.run(site)
    before = any_user.files()
    nobody = {"KRAFLA_INSTALL_URL": "http://127.0.0.1:9", "PATH": f"{any_user.bin}:/usr/bin:/bin"}
    done = any_user.run(site, env=nobody)
    assert f"Krafla {VERSION} is installed already" in done.stdout
    assert "PATH has no" not in done.stdout
    assert any_user.files() == before


def test_an_upgrade_replaces_the_old_version(any_user: User, site: Site, old_site: Site) -> None:
    any_user.run(old_site)
    any_user.has_installed(OLD)
    done = any_user.run(site)
    assert f"Krafla {VERSION} is installed in place of {OLD}: ml_run" in done.stdout
    any_user.has_installed()


def test_a_failed_upgrade_leaves_the_old_version_as_it_was(
    any_user: User, site: Site, old_site: Site
) -> None:
    any_user.run(old_site)
    before = any_user.files()
    site.archive(NAMES[0]).write_bytes(b"not an archive")
    any_user.run(site, code=1)
    any_user.has_installed(OLD)
    assert any_user.files() == before


def test_a_program_that_is_no_more_loses_its_link(user: User, site: Site, old_site: Site) -> None:
    user.run(old_site)
    (user.bin / "ml_gone").symlink_to(user.versions.resolve() / OLD / "ml_run")
    (user.bin / "ml_other").symlink_to("/bin/sh")
    user.run(site)
    assert not (user.bin / "ml_gone").is_symlink()
    assert (user.bin / "ml_other").is_symlink()


def test_a_damaged_installation_is_repaired(user: User, site: Site) -> None:
    user.run(site)
    (user.versions / VERSION / "ml_run").write_text("#!/bin/sh\nexit 1\n")
    (user.bin / "ml_tok").unlink()
    user.run(site)
    user.has_installed()


def test_uninstalling_leaves_the_home_as_it_was(any_user: User, site: Site) -> None:
    (any_user.home / ".local/bin").mkdir(parents=True)
    (any_user.home / ".local/bin/mine").write_text("mine")
    (any_user.home / ".local/bin/ml_mine").symlink_to("mine")
    before = any_user.files()
    any_user.run(site)
    assert "Krafla is removed" in any_user.run(site, "--uninstall").stdout
    assert any_user.files() == before
    assert "Krafla is not installed" in any_user.run(site, "--uninstall").stdout
    assert any_user.files() == before


def test_uninstalling_needs_no_network_and_none_of_the_tools(user: User, site: Site) -> None:
    user.run(site)
    for name in ("curl", "sha256sum", "tar", "gzip"):
        (user.tools / name).unlink()
    user.run(site, "--uninstall")
    assert user.files() == []


def test_uninstalling_an_interrupted_installation_leaves_nothing(user: User, site: Site) -> None:
    user.run(site)
    for link in user.bin.iterdir():
        link.unlink()
    (user.versions / ".part.999999999").mkdir()
    (user.versions / ".part.999999999/x").touch()
    user.run(site, "--uninstall")
    assert user.files() == []


def test_a_home_behind_a_link_is_the_same_home(user: User, site: Site, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(user.home)
    user.run(site, env={"HOME": str(link)})
    assert "is installed already" in user.run(site).stdout
    shutil.rmtree(user.versions)
    user.run(site, env={"HOME": str(link)})
    user.has_installed()


def test_a_strict_umask_is_kept_and_does_not_disturb(user: User, site: Site) -> None:
    words = [*user.shell, str(site.script)]
    subprocess.run(words, env=user.env(site), check=True, capture_output=True, umask=0o077)
    user.has_installed()
    assert user.bin.stat().st_mode & 0o077 == 0


def test_what_is_installed_is_writable_for_its_owner_alone(any_user: User, site: Site) -> None:
    words = [*any_user.shell, str(site.script)]
    subprocess.run(words, env=any_user.env(site), check=True, capture_output=True, umask=0)
    paths = [path for path in any_user.home.rglob("*") if not path.is_symlink()]
    assert [path for path in paths if path.stat().st_mode & 0o022] == []


def test_options_for_tar_in_the_environment_do_not_disturb(user: User, site: Site) -> None:
    user.run(site, env={"TAR_OPTIONS": "-v --exclude=ml_tok"})
    user.has_installed()


def test_a_link_to_a_directory_with_a_line_break_is_refused(
    any_user: User, site: Site, tmp_path: Path
) -> None:
    (tmp_path / "home\n").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "home\n")
    said = any_user.run(site, env={"HOME": str(tmp_path / "link")}, code=1).stderr
    assert "a line break in its name" in said
    assert not (tmp_path / "home").exists()


def test_the_data_directory_of_the_user_is_used(user: User, site: Site, tmp_path: Path) -> None:
    user.run(site, env={"XDG_DATA_HOME": str(tmp_path / "data")})
    assert (user.bin / "ml_run").resolve() == tmp_path.resolve() / f"data/krafla/{VERSION}/ml_run"
    user.run(site, "--uninstall", env={"XDG_DATA_HOME": str(tmp_path / "data")})
    assert not (tmp_path / "data").exists()
    user.run(site, env={"XDG_DATA_HOME": "relative"})
    user.has_installed()


@pytest.mark.parametrize("words", [["--prefix", "a b"], ["--prefix=a b"]], ids=["two", "one"])
def test_a_prefix_is_used_for_programs_and_links(user: User, site: Site, words: list[str]) -> None:
    user.run(site, *words, env={"HOME": ""})
    prefix = user.home.parent / "a b"
    assert (prefix / "bin/ml_run").resolve() == prefix / f"share/krafla/{VERSION}/ml_run"
    user.run(site, "--uninstall", *words, env={"HOME": ""})
    assert not prefix.exists()
    assert user.files() == []


@pytest.mark.parametrize(
    "words",
    [["--prefix"], ["--prefix", ""], ["--prefix", "--uninstall"], ["--prefix="], ["now"], ["-x"]],
)
def test_wrong_options_are_usage_errors(any_user: User, site: Site, words: list[str]) -> None:
    any_user.run(site, *words, code=2)
    assert any_user.files() == []


@pytest.mark.parametrize("home", ["", "relative", "."])
def test_without_a_home_a_prefix_is_asked_for(any_user: User, site: Site, home: str) -> None:
    done = any_user.run(site, env={"HOME": home}, code=1)
    assert done.stderr == "error: HOME is not set to a directory: give --prefix DIR\n"


def test_the_script_passes_shellcheck(site: Site) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip(NOT_FOUND.format("shellcheck"))
    words = ["shellcheck", "-s", "sh", str(site.script)]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stdout == ""


def test_the_file_of_a_release_is_a_program_of_its_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert installer.main(["--dist", str(tmp_path)]) == 0
    path = tmp_path / "install.sh"
    assert path.stat().st_mode & 0o777 == 0o755
    want = installer.render(project.version(), project.facts()["repository"])
    assert path.read_text() == want
    assert str(path) in capsys.readouterr().out
