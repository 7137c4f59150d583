# SPDX-License-Identifier: MIT
"""The runner that masks CPUID and stands in for AVX-VNNI, and the table of emulated CPUs.

.venv/bin/python -m pytest tests/py/test_emulate.py
"""

from __future__ import annotations

import dataclasses
import os
import platform
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import isas
from krafla_release import emulated, testing
from krafla_release.project import ROOT

# Of tests/emulate/dot_forms.c: its EVEX form on a Zen 4 and in Bochs 2.7, its VEX form in Bochs 3.0
# as an Arrow Lake.
HASH = "82b358ef4c5ac540\n"
FORMS = ROOT / "build" / "emulate"
LEVELS = ["sse2", "ssse3", "sse41", "avx2", "avxvnni"]
OWN_FAILURE = 125

on_x86 = pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("objdump"),
    reason="not run: vnnirun is for x86-64 and needs objdump",
)


@pytest.fixture(scope="session")
def vnnirun() -> Path:
    """Return the runner, built."""
    return Path(testing.vnnirun("host")[0])


def has_fast(vnnirun: Path) -> bool:
    done = subprocess.run([vnnirun, "--fast", "true"], capture_output=True, check=False)
    return done.returncode == 0


def run(*words: str | Path, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = os.environ | ({} if path is None else {"PATH": path})
    return subprocess.run(words, capture_output=True, text=True, env=env, check=False)


@on_x86
def test_vnnirun_does_every_form_of_the_dot_products(vnnirun: Path) -> None:
    done = run(vnnirun, "--cpu=avxvnni", FORMS / "dot_forms_vex")
    assert (done.returncode, done.stdout) == (0, HASH)


@on_x86
def test_vnnirun_finds_the_same_by_the_evex_twins(vnnirun: Path) -> None:
    if not has_fast(vnnirun):
        pytest.skip("not run: this CPU lacks avx512-vnni or avx512vl")
    done = run(vnnirun, "--fast", "--stats", "--cpu=avxvnni", FORMS / "dot_forms_vex")
    assert (done.returncode, done.stdout) == (0, HASH)
    assert done.stderr.endswith("emulated 0 dot products\n")
    assert run(FORMS / "dot_forms_evex").stdout == HASH


@on_x86
@pytest.mark.parametrize("level", ["sse2", "avx2"])
def test_vnnirun_leaves_the_dot_products_illegal_below_their_level(
    vnnirun: Path, level: str
) -> None:
    if "avx_vnni" in Path("/proc/cpuinfo").read_text():
        pytest.skip("not run: this CPU has avx-vnni, which no mask can make illegal")
    assert run(vnnirun, f"--cpu={level}", FORMS / "dot_forms_vex").returncode == -signal.SIGILL


@pytest.fixture(scope="session")
def guards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory of small static programs that end with the guard's answer."""
    place = tmp_path_factory.mktemp("guards")
    (place / "main.c").write_text(
        '#include "krafla.h"\n#include <stdio.h>\nint main(void) { puts(krafla_isa());'
        " return krafla_cpu_check(NULL) == KRAFLA_OK ? 0 : 3; }\n"
    )
    core = ROOT / "runtime" / "core"
    for isa in isas.load("x86_64", ship=True):
        defines = [f'-DKR_ISA="{isa.name}"', f'-DKR_ISA_NEEDS="{" ".join(isa.needs)}"']
        sources = [place / "main.c", core / "cpu.c", core / "cpu_x86.c", core / "error.c"]
        flags = ["-std=c11", "-static", f"-I{core}", f"-I{ROOT / 'runtime' / 'include'}"]
        names = [*map(str, sources), "-o", str(place / isa.name)]
        subprocess.run(["gcc", *flags, *defines, *names], check=True)
    return place


@on_x86
@pytest.mark.parametrize("level", LEVELS)
def test_vnnirun_shows_the_guard_exactly_the_level(vnnirun: Path, guards: Path, level: str) -> None:
    if level.startswith("avx") and "avx2" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("not run: this CPU lacks avx2, and a mask only hides")
    order = ["sse2", "ssse3", "sse41", "avx2", "avxvnni", "avx512vnni"]
    for isa in isas.load("x86_64", ship=True):
        fits = order.index(isa.name) <= order.index(level)
        done = run(vnnirun, f"--cpu={level}", guards / isa.name)
        assert (done.returncode, done.stdout) == (0 if fits else 3, f"{isa.name}\n")


@on_x86
def test_vnnirun_follows_a_script_to_the_programs_that_it_starts(
    vnnirun: Path, guards: Path
) -> None:
    script = f'"{guards}/sse2" & wait; "{guards}/avx2" >&2; echo $?; exec "{guards}/sse41"'
    done = run(vnnirun, "--cpu=ssse3", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (3, "sse2\n3\nsse41\n")


@on_x86
@pytest.mark.parametrize("code", [0, 1, 77, 255])
def test_vnnirun_keeps_the_exit_code(vnnirun: Path, code: int) -> None:
    assert run(vnnirun, "sh", "-c", f"exit {code}").returncode == code


@on_x86
def test_vnnirun_ends_by_the_signal_of_its_program(vnnirun: Path) -> None:
    assert run(vnnirun, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


@on_x86
def test_vnnirun_passes_signals_on(vnnirun: Path) -> None:
    script = "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.05; done"
    with subprocess.Popen([vnnirun, "sh", "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == b"caught\n"
    assert process.returncode == 7


@on_x86
def test_vnnirun_without_objdump_says_what_to_install(vnnirun: Path, guards: Path) -> None:
    done = run(vnnirun, "--cpu=sse2", guards / "sse2", path="")
    assert done.returncode == OWN_FAILURE
    assert "install binutils" in done.stderr


@on_x86
@pytest.mark.parametrize("words", [[], ["--cpu=mmx", "true"], ["--nope", "true"]], ids=repr)
def test_vnnirun_refuses_what_it_does_not_know(vnnirun: Path, words: list[str]) -> None:
    done = run(vnnirun, *words)
    assert done.returncode == OWN_FAILURE
    assert done.stderr.startswith("usage: vnnirun")


# ---- the table of emulated CPUs -----------------------------------------------------------------


def test_every_row_with_an_emulated_cpu_is_refused_by_another_or_needs_nothing() -> None:
    """Otherwise nothing would show that the guard knows the row's feature."""
    for isa in isas.load():
        cpus = [cpu for cpu in emulated.CPUS if cpu.arch == isa.arch]
        lacked = {emulated.lacking(cpu, isa) for cpu in cpus} - {None}
        baseline = not isa.needs or (isa.name in ("sse2", "neon") and isa.arch != "armv7")
        assert bool(lacked) != baseline, isa


@pytest.mark.parametrize(
    "isa",
    [isa for isa in isas.load() if isa.cpu not in (None, testing.VNNIRUN)],
    ids=lambda isa: f"{isa.name}-{isa.arch}",
)
def test_the_row_fits_some_emulated_cpu(isa: isas.Isa) -> None:
    cpus = [cpu for cpu in emulated.CPUS if cpu.arch == isa.arch]
    assert any(emulated.lacking(cpu, isa) is None for cpu in cpus)


@pytest.mark.parametrize("arch", isas.CROSS)
def test_the_launcher_chooses_on_an_emulated_cpu_the_row_that_it_is_for(arch: str) -> None:
    """The smoke test expects so: the first row with a CPU is the first that fits it."""
    rows = isas.load(arch, built=True, ship=True)
    for isa in rows:
        cpus = [cpu for cpu in emulated.CPUS if cpu.arch == arch and cpu.model == isa.cpu]
        for cpu in cpus:
            chosen = next(row for row in rows if emulated.lacking(cpu, row) is None)
            assert chosen == next(row for row in rows if row.cpu == isa.cpu)
        assert cpus or isa.cpu in (None, testing.VNNIRUN)


def outcome(isa: str, digest: str) -> emulated.Outcome:
    row = next(row for row in isas.load("x86_64") if row.name == isa)
    return emulated.Outcome(emulated.CPUS[0], row, "checkkern", "", 1.0, digest)


def test_a_hash_is_compared_within_its_class_only() -> None:
    outcomes = [outcome("avx2", "a"), outcome("sse2", "b"), outcome("scalar_fused", "c")]
    assert [item.wrong for item in emulated.compare_hashes(outcomes)] == [
        "",
        "",
        "hash c, its class has a",
    ]


def test_an_excused_run_has_no_hash_to_compare() -> None:
    outcomes = [outcome("avx2", ""), outcome("scalar_fused", "c")]
    assert [item.wrong for item in emulated.compare_hashes(outcomes)] == ["", ""]


def test_a_wrong_result_is_no_measure_for_the_others_and_keeps_its_reason() -> None:
    wrong = dataclasses.replace(outcome("avx2", "a"), wrong="norm n=7")
    outcomes = [wrong, outcome("scalar_fused", "c")]
    assert [item.wrong for item in emulated.compare_hashes(outcomes)] == ["norm n=7", ""]


@pytest.mark.parametrize(
    ("code", "said", "fine"),
    [
        (3, "error: CPU lacks avx2 required by ISA=avx2\n", True),
        (-4, "", False),
        (3, "error: CPU lacks fma required by ISA=avx2\n", False),
        (0, "error: CPU lacks avx2 required by ISA=avx2\n", False),
    ],
    ids=["refuses", "illegal instruction", "another feature", "another code"],
)
def test_a_cpu_that_is_too_old_wants_a_refusal(
    *, code: int, said: str, fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def call(_: emulated.Cpu, *command: str | Path) -> subprocess.CompletedProcess[str]:
        quiet = [Path(command[0]).name, *command[1:]] == ["ml_run", "--probe"]
        return subprocess.CompletedProcess([], code, "", "" if quiet else said)

    monkeypatch.setattr(emulated, "call", call)
    old = next(cpu for cpu in emulated.CPUS if cpu.model == "qemu64")
    avx2 = next(isa for isa in isas.load("x86_64") if isa.name == "avx2")
    assert (emulated.run_cell(old, avx2).wrong == "") == fine
