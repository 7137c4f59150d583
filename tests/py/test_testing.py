# SPDX-License-Identifier: MIT
"""What cannot be run is announced with its reason, never left out in silence.

.venv/bin/python -m pytest tests/py/test_testing.py
"""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

import isas
from krafla_release import build, doctor, kernels, package, testing
from krafla_release.project import ReleaseError


def row(name: str, arch: str) -> isas.Isa:
    return next(isa for isa in isas.load(arch) if isa.name == name)


def fake_build(directory: Path, code: int) -> None:
    program = directory / "ml_run"
    directory.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\necho 'error: CPU lacks x required by ISA=y' >&2\nexit {code}\n")
    program.chmod(0o755)


def test_missing_cross_compiler_and_emulator_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "x86_64")
    monkeypatch.setenv("PATH", "")
    reason = testing.missing_tool(row("neon", "aarch64"))
    assert reason == "aarch64-linux-gnu-gcc, qemu-aarch64 not installed"
    assert testing.missing_tool(row("avx2", "x86_64")) == "gcc not installed"


def test_build_that_runs_here_needs_no_emulator(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "x86_64")
    monkeypatch.setattr(build, "build_dir", lambda _: tmp_path)
    fake_build(tmp_path, 0)
    assert testing.runners(row("avx2", "x86_64")) == [[]]


def test_build_that_this_cpu_refuses_gets_the_emulated_cpu_of_its_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "x86_64")
    monkeypatch.setattr(build, "build_dir", lambda _: tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    fake_build(tmp_path, 3)
    assert testing.runners(row("avx2", "x86_64")) == [["qemu-x86_64", "-cpu", "Haswell"]]


def test_build_with_several_emulated_cpus_runs_on_all_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "x86_64")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    models = [words[-1] for words in testing.runners(row("sve", "aarch64"))]
    assert models == ["a64fx", "max,sve-max-vq=1"]


def test_build_without_an_emulator_of_its_instructions_runs_with_the_stand_in(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "x86_64")
    monkeypatch.setattr(build, "build_dir", lambda _: tmp_path)
    monkeypatch.setattr(testing, "vnnirun", lambda level: ["vnnirun", f"--cpu={level}"])
    fake_build(tmp_path, 3)
    assert testing.runners(row("avxvnni", "x86_64")) == [["vnnirun", "--cpu=avxvnni"]]


def test_build_that_nothing_can_run_says_what_is_lacking(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "x86_64")
    monkeypatch.setattr(build, "build_dir", lambda _: tmp_path)
    fake_build(tmp_path, 3)
    with pytest.raises(ReleaseError, match="error: CPU lacks x required by ISA=y"):
        testing.runners(dataclasses.replace(row("avx2", "x86_64"), cpus=()))


def test_archives_that_cannot_be_built_here_are_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "missing_tool", lambda isa: isa.arch == "armv7" and "no gcc")
    monkeypatch.setattr(build, "mingw_compiler", lambda: "gcc-posix")
    chosen = [archive.name for archive in package.choose([], every=True)]
    assert chosen == ["linux-x86_64", "linux-aarch64", "windows-x86_64"]
    assert capsys.readouterr().out == "not run: linux-armv7hf: no gcc\n"


def test_of_archives_for_another_system_nothing_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "missing_tool", lambda _: None)
    monkeypatch.setattr(build, "mingw_compiler", lambda: None)
    chosen = package.choose([], every=True, system="linux")
    assert [archive.system for archive in chosen] == ["linux"] * 3
    assert capsys.readouterr().out == ""


def test_testing_lists_its_sessions_when_asked_for_an_unknown_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert testing.main(["nope"]) == 2
    assert "test-avx2" in capsys.readouterr().err


def test_doctor_lists_every_session_and_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in (*isas.sessions(), *doctor.TOOLS))


def test_build_for_another_machine_is_not_started_to_see_whether_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(build, "host_arch", lambda: "x86_64")
    monkeypatch.setattr(build, "build_dir", pytest.fail)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    assert testing.runners(row("neon", "aarch64")) == [["qemu-aarch64", "-cpu", "cortex-a53"]]


FAILED = """class fused, seed 1, hash 0123456789abcdef
checkkern avx2: 8 passed, 1 failed
"""


@pytest.mark.parametrize(
    ("program", "case", "excused"),
    [
        ("/usr/bin/qemu-x86_64", "matmul q8 f16 rows=1", 1),
        ("/usr/bin/qemu-x86_64", "matmul q8 f32 rows=1", 0),
        ("/usr/bin/qemu-aarch64", "matmul q8 f16 rows=1", 0),
        ("build/avx2/checkkern", "matmul q8 f16 rows=1", 0),
    ],
    ids=["halves on emulated x86", "another case", "emulated ARM", "native"],
)
def test_only_halves_on_emulated_x86_are_excused(program: str, case: str, excused: int) -> None:
    found = kernels.judge(program, 1, FAILED, f"FAIL {case} (input: tiny)\n  1 of 1 wrong\n")
    assert (found.excused, found.wrong) == (excused, "" if excused else case)


def test_checkkern_that_dies_is_wrong() -> None:
    found = kernels.judge("qemu-x86_64", -4, "", "Illegal instruction")
    assert found.wrong == "ended with code -4: Illegal instruction"


def test_session_without_its_tools_is_announced_and_builds_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(testing, "missing_tool", lambda _: "qemu-arm not installed")
    monkeypatch.setattr(build, "make", pytest.fail)
    assert testing.main(["test-neon-armv7"]) == 0
    assert capsys.readouterr().out == "not run: test-neon-armv7: qemu-arm not installed\n"


def test_fuzzing_without_clang_is_announced(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(build, "make", pytest.fail)
    assert testing.main(["fuzz"]) == 0
    assert capsys.readouterr().out == "not run: fuzz: clang not installed\n"


def test_fastest_is_the_first_build_that_runs_here(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = isas.load("x86_64", built=True)
    monkeypatch.setattr(build, "host_arch", lambda: "x86_64")
    monkeypatch.setattr(build, "build_dir", lambda isa: tmp_path / isa.name)
    monkeypatch.setattr(build, "make", lambda *_: None)
    for isa in rows:
        fake_build(tmp_path / isa.name, 0 if isa.name in ("sse2", "scalar") else 3)
    assert testing.fastest().name == "sse2"
    for isa in rows:
        fake_build(tmp_path / isa.name, 3)
    with pytest.raises(ReleaseError, match="no build in runtime"):
        testing.fastest()


def test_checkkern_that_hangs_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "SECONDS", 0.1)
    assert kernels.check(["sleep", "60"]).wrong == "hangs: stopped after 0.1 s"


def test_a_failed_case_without_a_line_of_its_own_is_not_excused() -> None:
    said = FAILED.replace("1 failed", "2 failed")
    found = kernels.judge("qemu-x86_64", 1, said, "FAIL kv_store f16 (input: tiny)\n")
    assert (found.excused, found.wrong) == (0, "kv_store f16")


def test_checkkern_that_fails_without_saying_where_is_wrong() -> None:
    assert kernels.judge("checkkern", 1, FAILED, "").wrong == "ended with code 1"


def test_a_row_whose_dots_all_trap_is_checked_in_part_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[tuple[str | Path, ...]] = []
    monkeypatch.setattr(testing, "missing_tool", lambda _: None)
    monkeypatch.setattr(build, "make", lambda *_: None)
    monkeypatch.setattr(testing, "runners", lambda _: [["vnnirun", "--cpu=avxvnni"]])
    monkeypatch.setattr(testing, "run", lambda *words: ran.append(words))
    testing.check_isa("test-avxvnni")
    assert [words[-2:] for words in ran] == [("--only", testing.FEW_KERNELS)]
    assert capsys.readouterr().out.startswith("not run: all of test-avxvnni but ")
