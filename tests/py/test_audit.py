# SPDX-License-Identifier: MIT
"""The audit of the built programs finds what it promises to find.

.venv/bin/python -m pytest tests/py/test_audit.py
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import isas
from krafla_release import audit, instructions
from krafla_release.project import ROOT

X86 = "#include <immintrin.h>\n"
ARM = "#include <arm_neon.h>\n"
SVE = "#include <arm_sve.h>\n"
PLAIN = "double f(double a, double b) { return a * b + 1; }"
# architecture, compiler flags, source, the feature that it needs beyond the baseline
SNIPPETS = [
    ("x86_64", "", PLAIN, ""),
    ("x86_64", "-msse3", X86 + "__m128 f(__m128 a) { return _mm_hadd_ps(a, a); }", "sse3"),
    ("x86_64", "-mssse3", X86 + "__m128i f(__m128i a) { return _mm_abs_epi8(a); }", "ssse3"),
    ("x86_64", "-msse4.1", X86 + "__m128i f(__m128i a) { return _mm_cvtepi8_epi16(a); }", "sse4.1"),
    (
        "x86_64",
        "-msse4.2",
        "int f(int a, int b) { return __builtin_ia32_crc32si(a, b); }",
        "after sse4.1",
    ),
    ("x86_64", "-mpopcnt", "int f(int a) { return __builtin_popcount(a); }", "popcnt"),
    ("x86_64", "-mbmi2", X86 + "int f(int a, int b) { return _pext_u32(a, b); }", "bmi"),
    ("x86_64", "-mavx2", X86 + "__m256i f(__m256i a) { return _mm256_abs_epi8(a); }", "avx"),
    ("x86_64", "-mavx", PLAIN, "avx"),
    (
        "x86_64",
        "-mf16c -mavx",
        X86 + "__m256 f(__m128i *a) { return _mm256_cvtph_ps(*a); }",
        "f16c",
    ),
    (
        "x86_64",
        "-mfma -mavx",
        X86 + "__m256 f(__m256 a) { return _mm256_fmadd_ps(a, a, a); }",
        "fma",
    ),
    (
        "x86_64",
        "-mavxvnni",
        X86 + "__m256i f(__m256i a) { return _mm256_dpbusd_epi32(a, a, a); }",
        "avx-vnni",
    ),
    ("x86_64", "-mavx512f", X86 + "__m512 f(__m512 a) { return _mm512_add_ps(a, a); }", "avx512"),
    ("aarch64", "", PLAIN, ""),
    ("aarch64", "", ARM + "float16x4_t f(float32x4_t a) { return vcvt_f16_f32(a); }", ""),
    (
        "aarch64",
        "-march=armv8.2-a+dotprod",
        ARM + "int32x4_t f(int32x4_t a, int8x16_t b) { return vdotq_s32(a, b, b); }",
        "dotprod",
    ),
    (
        "aarch64",
        "-march=armv8.2-a+i8mm",
        ARM + "int32x4_t f(int32x4_t a, int8x16_t b) { return vmmlaq_s32(a, b, b); }",
        "i8mm",
    ),
    ("aarch64", "-march=armv8.2-a+sve", SVE + "svint32_t f(int a) { return svdup_s32(a); }", "sve"),
    ("aarch64", "-march=armv8.2-a+fp16", "__fp16 f(__fp16 a) { return a * a; }", "fp16"),
    ("aarch64", "-march=armv8.1-a", "int f(int *a) { return __atomic_fetch_add(a, 1, 0); }", "lse"),
    ("armv7", "-mfpu=vfpv3-d16", PLAIN, ""),
    ("armv7", "-mfpu=neon", ARM + "int8x16_t f(int8x16_t a) { return vaddq_s8(a, a); }", "neon"),
    (
        "armv7",
        "-mfpu=neon-vfpv4",
        ARM + "float32x4_t f(float32x4_t a) { return vfmaq_f32(a, a, a); }",
        "vfpv4",
    ),
    ("armv7", "-mcpu=cortex-a7", "int f(int a, int b) { return a / b; }", "idiv"),
]


def compiled(place: Path, arch: str, *flags: str) -> Path:
    """Return an object made from place/a.c."""
    compiler = f"{isas.CROSS[arch]}gcc"
    if not shutil.which(compiler):
        pytest.skip(f"not run: {compiler} is not installed")
    out = place / "a.o"
    command = [
        compiler,
        "-std=gnu11",
        "-O2",
        "-w",
        *flags,
        "-c",
        str(place / "a.c"),
        "-o",
        str(out),
    ]
    subprocess.run(command, check=True)
    return out


@pytest.mark.parametrize(
    ("arch", "flags", "source", "feature"), SNIPPETS, ids=lambda value: str(value)[:24]
)
def test_audit_names_the_feature_of_an_instruction(
    tmp_path: Path, arch: str, flags: str, source: str, feature: str
) -> None:
    (tmp_path / "a.c").write_text(source)
    built = compiled(tmp_path, arch, *flags.split())
    text = audit.listing(f"{isas.CROSS[arch]}objdump", "-d", "--insn-width=15", built)
    found = {(function, name) for function, name, _ in instructions.beyond(arch, (), text)}
    assert ("f", feature) in found if feature else not found
    assert not list(instructions.beyond(arch, (feature, "avx"), text)), (
        "what a row asks for is its own"
    )


def test_audit_takes_what_a_need_brings_along() -> None:
    assert instructions.allowed(("avx512-vnni", "ssse3")) >= {"avx512", "sse3"}
    assert "avx512" not in instructions.allowed(("avx-vnni", "avx2"))


@pytest.mark.parametrize(
    ("flags", "faults"),
    [
        (["-static"], []),
        (["-static", "-Wl,-z,execstack"], ["may have an executable stack"]),
        (
            ["-static", "-nostdlib", "-Wl,-N,-e,main"],
            ["has memory that is writable and executable"],
        ),
        (["-no-pie"], ["INTERP", "DYNAMIC"]),
    ],
    ids=["as released", "stack", "memory", "dynamic"],
)
def test_audit_looks_at_the_segments_of_a_program(
    tmp_path: Path, flags: list[str], faults: list[str]
) -> None:
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    program = tmp_path / "a"
    subprocess.run(["gcc", *flags, tmp_path / "a.c", "-o", program], check=True)
    found = list(audit.program_faults(program))
    assert len(found) == len(faults)
    assert all(fault in line for fault, line in zip(faults, found, strict=True))


def test_audit_refuses_a_library_that_not_every_windows_has() -> None:
    text = "\tDLL Name: KERNEL32.dll\n\tDLL Name: libwinpthread-1.dll\n"
    assert list(audit.import_faults(text)) == [
        "needs libwinpthread-1.dll, which not every Windows has"
    ]


PROTECTED = """
DllCharacteristics\t00000160
\t\t\t\t\tHIGH_ENTROPY_VA
\t\t\t\t\tDYNAMIC_BASE
\t\t\t\t\tNX_COMPAT
Idx Name          Size      VMA
  0 .text         0004c030  0000000140001000
                  CONTENTS, ALLOC, LOAD, READONLY, CODE, DATA
"""


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("", "", None),
        ("\t\t\t\t\tDYNAMIC_BASE\n", "", "is without DYNAMIC_BASE"),
        ("READONLY, ", "", "has a section .text that is writable and executable"),
    ],
    ids=["as released", "fixed address", "memory"],
)
def test_audit_wants_the_protections_of_windows(before: str, after: str, fault: str | None) -> None:
    assert list(audit.protection_faults(PROTECTED)) == []
    found = list(audit.protection_faults(PROTECTED.replace(before, after, 1)))
    assert found == ([fault] if fault else [])


def test_audit_finds_the_folder_in_which_a_program_was_built(tmp_path: Path) -> None:
    program = tmp_path / "a"
    source = "const char where[] = __FILE__; int main(void) { return where[0] == 1; }\n"
    (tmp_path / "a.c").write_text(source)
    for option, faults in ((f"-ffile-prefix-map={tmp_path}={ROOT}", 1), ("-O2", 0)):
        command = ["gcc", "-static", option, str(tmp_path / "a.c"), "-o", str(program)]
        subprocess.run(command, check=True)
        assert len(list(audit.program_faults(program))) == faults


def test_audit_of_what_is_not_built_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert audit.main(["no-such-build"]) == 1
    assert "no-such-build is built; there are" in capsys.readouterr().err


def test_audit_lists_what_is_not_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    isa = isas.load("x86_64")[0]
    places = {"here": (isa, tmp_path / "here"), "gone": (isa, tmp_path / "gone")}
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "ml_run").touch()
    monkeypatch.setattr(audit, "places", lambda: places)
    monkeypatch.setattr(audit, "audit", lambda *_: [])
    assert audit.main([]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["not run: audit of gone: not built"]


def line(code: str, words: str) -> str:
    return f"0000000000000000 <f>:\n   0:\t{code}\t{words}\n"


VADDPS = line("c5 fc 58 c1 ", "vaddps %ymm1,%ymm0,%ymm0")
VFMADD = line("c4 e2 7d b8 c1 ", "vfmadd231ps %ymm1,%ymm0,%ymm0")


def test_audit_of_a_row_with_some_needs_finds_others() -> None:
    assert not list(instructions.beyond("x86_64", ("avx2",), VADDPS))
    found = instructions.beyond("x86_64", ("avx2",), VFMADD)
    assert [(function, feature) for function, feature, _ in found] == [("f", "fma")]


def test_audit_lets_any_code_clear_the_upper_halves() -> None:
    assert not list(instructions.beyond("x86_64", (), line("c5 f8 77 ", "vzeroupper")))


def test_audit_allows_a_row_its_features_in_its_own_directory_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    objects = [tmp_path / "obj" / "runtime" / place for place in ("kernels/avx2/a.o", "core/b.o")]
    for path in objects:
        path.parent.mkdir(parents=True)
        path.touch()
    text = "".join(f"\n{path}:     file format elf64-x86-64\n\n{VADDPS}" for path in objects)
    monkeypatch.setattr(audit, "listing", lambda *_: text)
    isa = next(isa for isa in isas.load("x86_64") if isa.name == "avx2")
    faults = list(audit.object_faults(isa, tmp_path))
    assert faults == ["runtime/core/b.o, f: avx: vaddps %ymm1,%ymm0,%ymm0"]
