# SPDX-License-Identifier: MIT
"""The container file: which archive it takes, what it leaves out, and how process 1 ends.

.venv/bin/python -m pytest tests/py/test_container.py
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from krafla_release import archives, checksums, container, package
from krafla_release.project import ReleaseError, VerificationError, facts, version
from made import plain_tokenizer

X86 = archives.find("linux-x86_64")
TEXT = container.CONTAINERFILE.read_text()
SHELLS = [["dash"], ["busybox", "sh"]]
KEPT = ["LICENSE", "README.md", "bin/ml_run-a", "ml_run"]


def step(place: Path) -> str:
    """Return the command that unpacks, as a shell sees it, with another place for its result."""
    found: list[str] = re.findall(r"^RUN ((?:.*\\\n)*.*)$", TEXT, re.MULTILINE)
    assert len(found) == 1
    return found[0].replace("\\\n", "").replace("/krafla", f"{place}/krafla")


def make_archive(place: Path, name: str) -> None:
    """Write a small archive with the members that count."""
    top = place / f"krafla-{version()}-{name}"
    for path in (*KEPT, "tools/convert.py", "docs/user-guide.md"):
        (top / path).parent.mkdir(parents=True, exist_ok=True)
        (top / path).write_text(name)
    with tarfile.open(f"{top}.tar.gz", "w:gz") as tar:
        tar.add(top, top.name)
    shutil.rmtree(top)


@pytest.fixture
def context(tmp_path: Path) -> Path:
    """Return a folder like the one that is given to the build, with all Linux archives."""
    names = [archive.name for archive in archives.load() if archive.system == "linux"]
    for name in names:
        make_archive(tmp_path, name)
    checksums.write(tmp_path, [f"krafla-{version()}-{name}.tar.gz" for name in names])
    return tmp_path


def unpack(context: Path, platform: str, shell: list[str]) -> subprocess.CompletedProcess[str]:
    """Run the step for a platform."""
    if not shutil.which(shell[0]):
        pytest.skip(f"not run: {shell[0]} is not installed")
    kind, _, variant = platform.partition("/")
    env = {"PATH": os.environ["PATH"], "VERSION": version()}
    env |= {"TARGETARCH": kind, "TARGETVARIANT": variant}
    words = [*shell, "-c", step(context)]
    return subprocess.run(words, cwd=context, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize(
    ("platform", "name"),
    [
        ("amd64", "linux-x86_64"),
        ("arm64", "linux-aarch64"),
        ("arm64/v8", "linux-aarch64"),
        ("arm/v7", "linux-armv7hf"),
    ],
)
def test_each_platform_gets_the_programs_of_its_archive(
    context: Path, platform: str, name: str, shell: list[str]
) -> None:
    done = unpack(context, platform, shell)
    assert done.returncode == 0, done.stderr
    home = context / "krafla"
    files = sorted(str(path.relative_to(home)) for path in home.rglob("*") if path.is_file())
    assert files == KEPT
    assert (home / "ml_run").read_text() == name


@pytest.mark.parametrize("platform", ["arm/v6", "386", "riscv64", ""])
def test_a_platform_without_an_archive_is_named(context: Path, platform: str) -> None:
    done = unpack(context, platform, ["dash"])
    assert done.returncode == 1
    assert "there is no archive for" in done.stderr
    assert not (context / "krafla").exists()


@pytest.mark.parametrize("shell", SHELLS, ids=" ".join)
@pytest.mark.parametrize("fault", ["changed", "not listed", "no sums"])
def test_an_archive_that_sha256sums_does_not_know_is_refused(
    context: Path, fault: str, shell: list[str]
) -> None:
    sums = context / checksums.FILE_NAME
    if fault == "changed":
        with (context / f"krafla-{version()}-linux-x86_64.tar.gz").open("ab") as stream:
            stream.write(b"\0")
    elif fault == "not listed":
        sums.write_text(sums.read_text().replace("x86_64", "x86_65"))
    else:
        sums.unlink()
    assert unpack(context, "amd64", shell).returncode != 0
    assert not (context / "krafla").exists()


def test_nothing_of_another_platform_has_to_run_while_building() -> None:
    first, last = TEXT.split("\nFROM ")[1:]
    assert first.startswith("--platform=$BUILDPLATFORM ")
    assert "\nRUN " not in last


def test_the_image_names_the_published_project() -> None:
    assert f"\nARG SOURCE=https://github.com/{facts()['repository']}\n" in TEXT


def test_there_is_a_platform_for_every_linux_archive() -> None:
    assert {a.arch for a in archives.load() if a.system == "linux"} == set(container.PLATFORMS)


@pytest.fixture
def image(tmp_path: Path) -> container.Container:
    """Return an image that is as it has to be."""
    for line in container.members_of(X86):
        mode, path = line.split(" ", 1)
        file = tmp_path / container.HOME / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        file.chmod(int(mode, 8))
    labels = {"version": version(), "licenses": "MIT"}
    config = {
        "User": "65532:65532",
        "Entrypoint": ["ml_run"],
        "Labels": {f"org.opencontainers.image.{name}": text for name, text in labels.items()},
    }
    return container.Container(X86, tmp_path, {"architecture": "amd64", "config": config})


@pytest.mark.parametrize(
    ("key", "value", "fault"),
    [
        ("User", "0:0", "user is 0:0"),
        ("User", "", "user is"),
        ("Entrypoint", ["sh"], "entry is"),
        ("architecture", "arm64", "architecture is arm64, want amd64"),
    ],
)
def test_an_image_that_is_not_as_meant_is_refused(
    image: container.Container, key: str, value: Any, fault: str
) -> None:
    container.check_image(image)
    (image.image if key == "architecture" else image.image["config"])[key] = value
    with pytest.raises(VerificationError, match=fault):
        container.check_image(image)


def test_an_image_with_other_members_or_modes_is_refused(image: container.Container) -> None:
    home = image.root / container.HOME
    (home / "bin" / "ml_run-sse2").chmod(0o4755)
    with pytest.raises(VerificationError, match="4755 bin/ml_run-sse2"):
        container.check_image(image)
    (home / "bin" / "ml_run-sse2").chmod(0o755)
    (home / "tools").mkdir()
    (home / "tools" / "convert.py").touch()
    with pytest.raises(VerificationError, match="tools/convert"):
        container.check_image(image)


def test_archives_that_have_no_base_here_are_announced_and_nothing_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arm = archives.find("linux-aarch64")
    package.path_of(arm, tmp_path).touch()
    monkeypatch.setattr(container, "missing", lambda: "")
    monkeypatch.setattr(container, "busybox_of", lambda _: tmp_path / "none")
    assert container.main(["--dist", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("not run: the image for linux/arm64: no busybox of aarch64")


def test_what_a_machine_cannot_do_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert container.main([]) == 0
    assert (
        capsys.readouterr().out == "not run: container: buildah, unshare, busybox not installed\n"
    )


def test_a_folder_without_archives_is_named(tmp_path: Path) -> None:
    (tmp_path / package.path_of(archives.find("windows-x86_64")).name).touch()
    with pytest.raises(ReleaseError, match="has no archive for Linux: invoke package"):
        container.make_context(tmp_path, tmp_path / "context")


@pytest.fixture
def first_process(not_run: Callable[[str], NoReturn]) -> list[str]:
    """Return the command that makes a program the first process of its own numbering."""
    words = ["unshare", "--pid", "--fork", "--kill-child"]
    words += [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    if (
        not shutil.which("unshare")
        or subprocess.run([*words, "true"], capture_output=True, check=False).returncode
    ):
        not_run("unshare is not there or not allowed")
    return words


def test_a_process_that_has_ended_runs_nothing() -> None:
    """It may end between being listed and being looked at."""
    with subprocess.Popen(["true"]) as process:
        pass
    assert container.program_of(str(process.pid)) == ""
    assert container.program_of(str(os.getpid())) != ""


@pytest.mark.parametrize("number", list(container.ENDS), ids=lambda number: str(number.name))
def test_the_first_process_of_a_container_ends_by_a_signal(
    number: signal.Signals, build_dir: Path, first_process: list[str], tmp_path: Path
) -> None:
    tokenizer = plain_tokenizer(tmp_path / "t.bin", 512)
    words = [*first_process, str(build_dir / "ml_tok"), str(tokenizer)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        code = container.end_child(process, "ml_tok", number)
    assert code == container.ENDS[number]
