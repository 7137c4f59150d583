# SPDX-License-Identifier: MIT
"""The smoke test of an archive needs nothing but the archive.

.venv/bin/python -m pytest tests/py/test_smoke.py
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import isas
from krafla_release import (
    archives,
    build,
    emulated,
    package,
    packed,
    project,
    quickstart,
    smoke,
    testing,
    wine,
)
from krafla_release.archives import Member
from krafla_release.project import ReleaseError, VerificationError


def release_of(home: Path, fitting: set[str]) -> smoke.Release:
    """Unpack nothing: the builds are scripts that answer the launcher's question."""
    archive = next(archive for archive in archives.load() if archive.arch == "x86_64")
    (home / "bin").mkdir()
    for isa in isas.load("x86_64", built=True, ship=True):
        program = home / "bin" / f"ml_run-{isa.name}"
        program.write_text(f"#!/bin/sh\nexit {0 if isa.name in fitting else 3}\n")
        program.chmod(0o755)
    return smoke.Release(archive, home, home / "m.mlb", home / "t.bin")


def test_levels_are_those_that_the_builds_of_the_archive_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def generate(_: smoke.Release, runner: list[str]) -> tuple[str, str]:
        asked.append(runner[-1])
        return runner[-1], "1 2 3"

    monkeypatch.setattr(build, "build_dir", pytest.fail)
    monkeypatch.setattr(smoke, "vnnirun", lambda level: ["vnnirun", "--fast", level])
    monkeypatch.setattr(smoke.Release, "generate", generate)
    smoke.smoke_levels(release_of(tmp_path, {"avx2", "sse2"}))
    assert asked == ["avxvnni", "avx2", "sse2"]


def test_another_build_than_wanted_is_an_error() -> None:
    with pytest.raises(ReleaseError, match="sse2, want avx2"):
        testing.expect("the launcher's choice", "avx2", "sse2")


def test_builds_of_a_class_have_to_print_the_same(tmp_path: Path) -> None:
    release = release_of(tmp_path, set())
    rows = {isa.name: isa for isa in release.rows}
    release.expect_answer(rows["avx2"], "1 2")
    release.expect_answer(rows["sse2"], "1 3")
    with pytest.raises(ReleaseError, match="its class printed '1 2' before"):
        release.expect_answer(rows["avxvnni"], "1 3")


def test_a_level_without_a_stand_in_is_listed_as_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(smoke, "vnnirun", lambda level: ["vnnirun", level])
    smoke.smoke_levels(release_of(tmp_path, set()))
    assert capsys.readouterr().out.startswith("not run: smoke of avxvnni: ")


# ---- the table of launchers --------------------------------------------------------------------

OLD = next(cpu for cpu in emulated.CPUS if cpu.model == "Penryn")


def test_launchers_are_asked_on_every_cpu_that_users_were_promised() -> None:
    asked = {arch: {cpu.model for cpu in emulated.launcher_cpus(arch)} for arch in isas.CROSS}
    old = {"qemu64", "Opteron_G1", "core2duo", "Penryn", "Nehalem"}
    assert asked["x86_64"] == old | {"SandyBridge", "Haswell", "max"}
    arm64 = {"cortex-a53", "cortex-a76", "neoverse-n1", "a64fx", "max", "max,sve=off"}
    assert asked["aarch64"] == arm64
    assert {name.split(",vfp")[0] for name in asked["armv7"]} == {
        *("cortex-a7", "cortex-a9", "cortex-a9,neon=off")
    }


@pytest.mark.parametrize("arch", isas.CROSS)
def test_every_build_of_an_archive_is_started_on_some_cpu_or_has_a_stand_in(arch: str) -> None:
    """On x86 the two that no emulator runs: one by vnnirun, one only where the CPU has it."""
    rows = isas.load(arch, built=True, ship=True)
    cpus = [cpu for cpu in emulated.CPUS if cpu.arch == arch]
    started = {emulated.fastest(cpu, rows).name for cpu in cpus}
    assert started == {isa.name for isa in rows if isa.cpu not in (None, testing.VNNIRUN)}


def answers_of(started: str, refusal: str) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return what stands for Release.call: the launcher's choice, and what a forced build says."""

    def call(
        _: smoke.Release, *_words: object, code: int = 0, env: dict[str, str], **_more: object
    ) -> subprocess.CompletedProcess[str]:
        said = refusal.format(isa=env["KRAFLA_ISA"]) if code else f"isa: {started}"
        return subprocess.CompletedProcess([], code, "1 2", said)

    return call


@pytest.mark.parametrize(
    ("started", "lacks", "wrong"),
    [
        ("sse41", None, ""),
        ("sse2", None, "the launcher's choice on Penryn: sse2, want sse41"),
        ("avx2", None, "the launcher's choice on Penryn: avx2, want sse41"),
        ("sse41", "fma", "is for a CPU with"),
    ],
    ids=["right", "too slow a build", "too new a build", "another feature named"],
)
def test_a_cpu_wants_its_fastest_build_and_the_name_of_what_it_lacks(
    started: str, lacks: str | None, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needs = {isa.name: emulated.lacking(OLD, isa) for isa in isas.load("x86_64")}

    class Said(str):
        """A refusal that names what the build needs first, or always the same feature."""

        __slots__ = ()

        def format(self, *_: object, **fields: object) -> str:
            isa = str(fields["isa"])
            return f"error: CPU lacks {lacks or needs[isa]} required by ISA={isa}\n"

    monkeypatch.setattr(smoke.Release, "call", answers_of(started, Said()))
    release = release_of(tmp_path, set())
    if wrong:
        with pytest.raises(VerificationError, match=wrong):
            smoke.smoke_cpu(release, OLD)
    else:
        isa, tokens = smoke.smoke_cpu(release, OLD)
        assert (isa.name, tokens) == ("sse41", "1 2")


def test_the_table_says_what_was_started_and_what_refused(tmp_path: Path) -> None:
    release = release_of(tmp_path, set())
    rows = {isa.name: isa for isa in release.rows}
    line = smoke.row_of_table(release, OLD, rows["sse41"], "1 2")
    assert line.split() == [
        *("Penryn", "sse41", "f71998fe", "as", "all", "unfused", "refuses"),
        *("avx512vnni", "(avx512-vnni),", "avxvnni", "(avx-vnni),", "avx2", "(avx2)"),
    ]


# ---- an unpacked archive -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["linux-x86_64", "windows-x86_64"])
def test_archive_is_unpacked_with_its_modes(name: str, tmp_path: Path) -> None:
    archive = archives.find(name)
    members = [Member("ml_run", 0o755, b"a"), Member("docs/a.md", 0o644, b"b")]
    data = packed.pack(archive, package.file_name(archive), members, 1_700_000_000)
    package.path_of(archive, tmp_path).write_bytes(data)
    home = smoke.unpack(archive, tmp_path / "out (é)", tmp_path)
    found = {
        path.relative_to(home).as_posix(): (path.stat().st_mode & 0o777, path.read_bytes())
        for path in home.rglob("*")
        if path.is_file()
    }
    assert found == {"ml_run": (0o755, b"a"), "docs/a.md": (0o644, b"b")}


def test_archive_that_is_not_there_is_named_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ReleaseError, match=r"\.zip is not there: invoke package --archive windows"):
        smoke.unpack(archives.find("windows-x86_64"), tmp_path / "out", tmp_path)


def script(home: Path, text: str) -> None:
    (home / "ml_run").write_text(f"#!/bin/sh\n{text}\n")
    (home / "ml_run").chmod(0o755)


def test_what_the_user_has_chosen_does_not_choose_for_the_test(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRAFLA_ISA", "scalar")
    monkeypatch.setenv("ISA_LM_ISA", "scalar")
    release = release_of(tmp_path, set())
    script(tmp_path, 'echo "${KRAFLA_ISA-none} ${ISA_LM_ISA-none}"')
    assert release.call("ml_run").stdout == "none none\n"
    assert release.call("ml_run", env={"KRAFLA_ISA": "sse2"}).stdout == "sse2 none\n"


def test_another_exit_code_than_wanted_is_an_error_with_the_programs_words(tmp_path: Path) -> None:
    release = release_of(tmp_path, set())
    script(tmp_path, 'echo "qemu-x86_64: warning" >&2; echo "error: why" >&2; exit 1')
    assert release.call("ml_run", code=1).stderr == "error: why\n"
    with pytest.raises(VerificationError, match="ended with code 1, want 3: error: why"):
        release.call("ml_run", code=3)


def test_a_program_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(smoke, "SECONDS", 0.2)
    release = release_of(tmp_path, set())
    script(tmp_path, "exec sleep 60")
    with pytest.raises(VerificationError, match=r"not done after 0\.2 s: \./ml_run --version"):
        release.call("ml_run", "--version")


def test_bytes_that_are_no_text_are_compared_as_they_are(tmp_path: Path) -> None:
    release = release_of(tmp_path, set())
    script(tmp_path, "printf 'a\\377'")
    assert release.call("ml_run").stdout.encode(errors="surrogateescape") == b"a\xff"


CODES = """
[ -z "${KRAFLA_ISA-}" ] || exit 2
case $1 in
--no-such-option) exit 2 ;;
*"/no such file") exit 1 ;;
esac
"""


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", None),
        ("|| exit 2", "|| exit 0", "KRAFLA_ISA=../ml_run .* ended with code 0, want 2"),
        ("option) exit 2", "option) exit 1", "option ended with code 1, want 2"),
        ('file") exit 1', 'file") exit 3', "file' --tokens 1 ended with code 3, want 1"),
    ],
    ids=["right", "hostile choice", "usage", "file"],
)
def test_other_codes_of_errors_than_promised_are_errors(
    old: str, new: str, fault: str | None, tmp_path: Path
) -> None:
    release = release_of(tmp_path, set())
    assert old in CODES
    script(tmp_path, CODES.replace(old, new))
    if fault is None:
        release.expect_codes({})
    else:
        with pytest.raises(VerificationError, match=fault):
            release.expect_codes({})


def test_real_model_that_does_not_know_the_answer_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quickstart, "CHECKPOINT", tmp_path)
    monkeypatch.setattr(quickstart, "convert", lambda _: (tmp_path / "m", tmp_path / "t"))
    release = release_of(tmp_path, set())
    script(tmp_path, f"echo 'It is {quickstart.ANSWER}.'")
    smoke.smoke_real(release)
    script(tmp_path, "echo 'It is Kyoto.'")
    with pytest.raises(VerificationError, match=r"the model said: 'It is Kyoto\.\\n'"):
        smoke.smoke_real(release)


def test_windows_program_that_prints_another_byte_than_its_twin_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = tmp_path / "twin"
    twin.write_text(f"#!/bin/sh\nprintf '%s\\n' '{smoke.PROMPT}and so on'\n")
    twin.chmod(0o755)
    monkeypatch.setattr(smoke, "ROOT", tmp_path)
    monkeypatch.setattr(quickstart, "CHECKPOINT", tmp_path / "no model")
    monkeypatch.setattr(build, "program_file", lambda *_: twin)
    monkeypatch.setattr(build, "make", lambda *_: None)
    release = release_of(tmp_path, set())
    script(tmp_path, f"exec '{twin}'")
    smoke.smoke_twins(release, release.rows[0])
    script(tmp_path, f"'{twin}' | tr '\\n' '\\r'")
    with pytest.raises(VerificationError, match="beside that for Linux: got"):
        smoke.smoke_twins(release, release.rows[0])


def test_tokenizer_that_loses_a_character_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(_: smoke.Release, program: str, *words: str, **_more: object) -> object:
        version = f"{program} {project.version()}, isa: sse2\n"
        out = {"--version": version, "--help": f"{program} - helps", "--decode": "Gr\ufffde"}
        return subprocess.CompletedProcess([], 0, out.get(str(words[-1]), "1"), "")

    monkeypatch.setattr(smoke.Release, "call", call)
    release = release_of(tmp_path, set())
    with pytest.raises(VerificationError, match="came back as"):
        release.run_every_program(release.rows[-1], {})
    with pytest.raises(VerificationError, match="ml_run --version: got"):
        release.run_every_program(release.rows[0], {})


# ---- Wine --------------------------------------------------------------------------------------


@pytest.fixture
def prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Put the prefix elsewhere, and return the commands that would have been run for it."""
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(wine, "PREFIX", tmp_path / "wine")
    monkeypatch.setattr(wine, "run_quietly", lambda *words: ran.append(words))
    place = tmp_path / "wine" / "users" / "Ünal" / "My Models (x)"
    monkeypatch.setattr(smoke, "WINDOWS_PLACE", place)
    return ran


def test_nothing_is_left_of_wine_when_a_user_interrupts(
    tmp_path: Path, prefix: list[tuple[str, ...]]
) -> None:
    with pytest.raises(KeyboardInterrupt), wine.prefix(), smoke.windows_place() as place:  # noqa: PT012
        (place / "model").touch()
        raise KeyboardInterrupt
    assert prefix == [("wineboot", "--init"), ("wineserver", "--kill")]
    assert list((tmp_path / "wine" / "users").iterdir()) == []


def test_windows_names_of_files_are_those_of_the_drive_or_of_the_whole_disk() -> None:
    home = wine.DRIVE_C / "users" / "Ünal" / "My Models (x)"
    assert wine.windows_path(home) == "C:\\users\\Ünal\\My Models (x)"
    assert wine.windows_path(Path("/tmp/a b")) == "Z:\\tmp\\a b"  # noqa: S108


NOT_FOUND = (49, b"", b"Can't recognize 'x' as an internal or external command")


@pytest.mark.parametrize(
    ("outcomes", "want"),
    [
        ([NOT_FOUND, (0, b"out", b"")], (0, b"out", b"")),
        ([(1, b"", b""), (1, b"", b"error: why")], (1, b"", b"error: why")),
        ([NOT_FOUND] * 3, NOT_FOUND),
        ([(3, b"", b"")], (3, b"", b"")),
        ([(49, b"out", NOT_FOUND[2])], (49, b"out", NOT_FOUND[2])),
        ([(49, b"", b"error: why")], (49, b"", b"error: why")),
    ],
    ids=["started late", "said nothing", "is not there", "answers", "has run", "own code"],
)
def test_what_wine_has_not_started_is_started_again_and_nothing_else(
    outcomes: list[tuple[int, bytes, bytes]],
    want: tuple[int, bytes, bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = list(outcomes)

    def start(*words: str, **_: object) -> subprocess.CompletedProcess[bytes]:
        return subprocess.CompletedProcess(words, *left.pop(0))

    monkeypatch.setattr(wine, "start", start)
    done = wine.call("cmd")
    assert ((done.returncode, done.stdout, done.stderr), left) == (want, [])


def test_archive_for_windows_is_listed_as_not_run_without_wine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(wine, "missing", lambda: "wine not installed")
    smoke.smoke_windows(archives.find("windows-x86_64"), Path("nowhere"))
    assert capsys.readouterr().out == "not run: smoke of windows-x86_64: wine not installed\n"
