# SPDX-License-Identifier: MIT
"""The wheel: its name, its members, its bytes, what its libraries need, and what it says.

.venv/bin/python -m pytest tests/py/test_wheel.py
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import isas
from krafla_release import archives, audit, build, project, smoke, sysroot, wheel, wheel_smoke
from krafla_release.project import ROOT, ReleaseError, VerificationError, facts

X86 = archives.find("linux-x86_64")
SSE2 = next(isa for isa in isas.load("x86_64") if isa.name == "sse2")
SYMBOLS = """
   Num:    Value          Size Type    Bind   Vis      Ndx Name
     0: 0000000000000000     0 NOTYPE  LOCAL  DEFAULT  UND
     1: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND free@GLIBC_2.2.5 (2)
     2: 0000000000000000     0 NOTYPE  WEAK   DEFAULT  UND __gmon_start__
    43: 0000000000000000     0 FUNC    GLOBAL DEFAULT  UND pthread_create@GLIBC_2.34 (8)
    70: 0000000000012345    99 FUNC    GLOBAL DEFAULT   12 krafla_isa
"""
SOURCES = (
    "LICENSE",
    "packaging/hatch_hooks.py",
    "packaging/project.toml",
    "pyproject.toml",
    "runtime/core/ml.h",
    "runtime/include/krafla.h",
    "runtime/kernels/isas.txt",
)
EPOCH = 1_700_000_000
PROGRAM = "import krafla; print(krafla.isa())"


@pytest.mark.parametrize(
    ("name", "platform"),
    [("linux-x86_64", "x86_64"), ("linux-aarch64", "aarch64"), ("linux-armv7hf", "armv7l")],
)
def test_the_name_says_version_platform_and_glibc(name: str, platform: str) -> None:
    want = f"krafla-{project.version()}-py3-none-manylinux_2_34_{platform}.whl"
    assert wheel.file_name(archives.find(name)) == want


def test_there_is_no_wheel_for_windows(capsys: pytest.CaptureFixture[str]) -> None:
    assert wheel.main(["windows-x86_64"]) == 1
    assert "wheels are made for Linux only" in capsys.readouterr().err


def test_a_missing_wheel_is_named_with_what_makes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert wheel.main(["--smoke", "linux-x86_64", "--dist", str(tmp_path)]) == 1
    assert f"{wheel.file_name(X86)} is not there: nox -s wheel" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("", "", None),
        ("free@GLIBC_2.2.5", "free@GLIBC_2.35", "needs free@GLIBC_2.35, newer than the 2.34"),
        ("free@GLIBC_2.2.5", "free@GLIBC_3.0", "needs free@GLIBC_3.0, newer"),
        ("free@GLIBC_2.2.5", "free", "needs free, which is not the C library's"),
        ("free@GLIBC_2.2.5", "__divti3@GCC_3.0", "which is not the C library's"),
        ("krafla_isa", "kr_isa", "kr_isa is exported only"),
        ("12 krafla_isa", "UND krafla_isa@GLIBC_2.17", "krafla_isa is declared only"),
    ],
    ids=["right", "newer", "next glibc", "no version", "libgcc", "leaked", "not exported"],
)
def test_a_library_needs_no_newer_libc_and_exports_the_header(
    old: str, new: str, fault: str | None
) -> None:
    assert old in SYMBOLS
    found = list(wheel.symbol_faults(SYMBOLS.replace(old, new), {"krafla_isa"}))
    assert (not found) if fault is None else any(fault in line for line in found)


def test_a_library_with_an_executable_stack_is_refused() -> None:
    rows = "  LOAD 0x0 0x0 0x0 0x1 0x1 R E 0x1000\n  GNU_STACK 0x0 0x0 0x0 0x0 0x0 {} 0x10\n"
    assert list(audit.memory_faults(rows.format("RW"))) == []
    assert list(audit.memory_faults(rows.format("RWE"))) == ["may have an executable stack"]


def test_everything_that_is_wrong_with_a_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "libkrafla.so"
    path.write_bytes(
        b"\x7fELF".ljust(18, b"\0") + wheel.ELF_MACHINES["aarch64"].to_bytes(2, "little")
    )
    monkeypatch.setattr(wheel, "library", lambda _: path)
    monkeypatch.setattr(wheel, "symbol_faults", lambda *_: ["symbols"])
    monkeypatch.setattr(audit, "listing", lambda *_: "")
    monkeypatch.setattr(audit, "memory_faults", lambda _: ["memory"])
    monkeypatch.setattr(audit, "path_faults", lambda _: ["paths"])
    monkeypatch.setattr(audit, "object_faults", lambda *_: ["objects"])
    want = ["is not for x86_64", "memory", "symbols", "paths", "objects"]
    assert list(wheel.library_faults(SSE2)) == want


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return files that stand for the libraries."""
    found = {}
    for name in ("libkrafla-avx2.so", "libkrafla-sse2.so"):
        path = tmp_path_factory.mktemp("libraries") / name
        path.write_bytes(b"\x7fELF")
        path.chmod(0o755)
        found[f"krafla/_lib/{name}"] = path
    return found


def built_in(place: Path, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build a wheel from a copy of the sources."""
    for name in SOURCES:
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, place / name)
    shutil.copytree(
        ROOT / "runtime" / "python",
        place / "runtime" / "python",
        ignore=shutil.ignore_patterns("__pycache__"),
        copy_function=shutil.copyfile,
    )
    monkeypatch.setattr(project, "ROOT", place)
    (place / "out").mkdir()
    return wheel.hatch(X86, libraries, place / "out")


def test_the_bytes_do_not_depend_on_folder_umask_or_time_zone(
    tmp_path: Path, libraries: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    monkeypatch.setattr(wheel, "source_date_epoch", lambda: EPOCH)
    first = built_in(tmp_path / "first", libraries, monkeypatch)
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    old = os.umask(0o077)
    try:
        second = built_in(tmp_path / "another folder", libraries, monkeypatch)
    finally:
        os.umask(old)
    assert first.read_bytes() == second.read_bytes()
    monkeypatch.setattr(wheel, "source_date_epoch", lambda: EPOCH + 2)
    third = built_in(tmp_path / "third", libraries, monkeypatch)
    assert first.read_bytes() != third.read_bytes()


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, libraries: dict[str, Path]
) -> Iterator[zipfile.ZipFile]:
    """Return a wheel of this checkout, open."""
    path = wheel.hatch(X86, libraries, tmp_path_factory.mktemp("wheel"))
    wheel.check_members(path, libraries)
    with zipfile.ZipFile(path) as opened:
        yield opened


def test_the_wheel_is_of_a_platform_and_tells_where_the_project_lives(
    made: zipfile.ZipFile,
) -> None:
    info = f"krafla-{project.version()}.dist-info"
    about = made.read(f"{info}/WHEEL").decode()
    assert f"Tag: {wheel.tag(X86)}\n" in about
    assert "Root-Is-Purelib: false\n" in about
    metadata = made.read(f"{info}/METADATA").decode()
    assert f"Version: {project.version()}\n" in metadata
    assert f"Project-URL: Documentation, {facts()['site']}\n" in metadata
    assert f"Project-URL: Source, https://github.com/{facts()['repository']}\n" in metadata
    assert "](docs/" not in metadata  # a link that only a checkout could follow


def test_a_wheel_with_other_members_is_refused(
    made: zipfile.ZipFile, libraries: dict[str, Path]
) -> None:
    with pytest.raises(VerificationError, match="unexpected: krafla/_lib/libkrafla-sse2"):
        wheel.check_members(Path(str(made.filename)), dict([*libraries.items()][:1]))
    more = libraries | {"krafla/_lib/libkrafla-sse41.so": Path()}
    with pytest.raises(VerificationError, match="missing: krafla/_lib/libkrafla-sse41"):
        wheel.check_members(Path(str(made.filename)), more)


def test_wrong_libraries_never_get_into_a_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build, "make", lambda *_: None)
    monkeypatch.setattr(wheel, "library_faults", lambda isa: [f"is no {isa.name}"])
    monkeypatch.setattr(wheel, "hatch", pytest.fail)
    with pytest.raises(ReleaseError, match="is no sse2"):
        wheel.package(X86, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_wheel_with_other_members_is_not_written(
    tmp_path: Path, made: zipfile.ZipFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel, "libraries", lambda _: {})
    monkeypatch.setattr(wheel, "hatch", lambda *_: Path(str(made.filename)))
    with pytest.raises(VerificationError, match="has other members than meant"):
        wheel.package(X86, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_editable_install_has_no_libraries(tmp_path: Path) -> None:
    code = "from hatchling.build import build_editable; import sys; build_editable(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, tmp_path], cwd=ROOT, check=True)
    (path,) = tmp_path.iterdir()
    assert path.name == f"krafla-{project.version()}-py3-none-any.whl"
    with zipfile.ZipFile(path) as opened:
        assert not [name for name in opened.namelist() if name.endswith(".so")]


# ---- the smoke test sees what is wrong ---------------------------------------------------------


Saying = Callable[..., wheel_smoke.Installed]


@pytest.fixture
def saying(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Saying:
    """Return a function that makes an installed wheel which is nothing but its answer."""

    def make(code: int, out: str = "", err: str = "") -> wheel_smoke.Installed:
        done = subprocess.CompletedProcess[str]([], code, out.format(place=tmp_path), err)
        monkeypatch.setattr(wheel_smoke.Installed, "start", lambda *_: done)
        return wheel_smoke.Installed(X86, tmp_path, Path(), {}, Path(), answers={False: "1 2 3"})

    return make


@pytest.mark.parametrize(
    ("code", "out", "fault"),
    [
        (0, "{place}/krafla/__init__.py\nsse2\n1 2 3\n", None),
        (0, "/elsewhere/krafla/__init__.py\nsse2\n1 2 3\n", "was imported instead"),
        (0, "{place}/krafla/__init__.py\nsse41\n1 2 3\n", "sse41, want sse2"),
        (0, "{place}/krafla/__init__.py\nsse2\n1 2 4\n", "gave 1 2 4, ml_run of its class 1 2 3"),
        (-4, "", "sse2 ended with code -4"),
    ],
    ids=["right", "other package", "other library", "other tokens", "illegal instruction"],
)
def test_a_library_has_to_answer_like_its_class(
    saying: Saying, code: int, out: str, fault: str | None
) -> None:
    if fault is None:
        saying(code, out).expect_tokens(SSE2)
    else:
        with pytest.raises(ReleaseError, match=fault):
            saying(code, out).expect_tokens(SSE2)


@pytest.mark.parametrize(
    ("code", "err", "right"),
    [
        (1, "Traceback\nkrafla._errors.KraflaCpuError: libkrafla: CPU lacks avx2 required", True),
        (1, "Traceback\nkrafla._errors.KraflaError: libkrafla: CPU lacks avx2 required", False),
        (1, "krafla._errors.KraflaCpuError: libkrafla: CPU lacks fma required", False),
        (-4, "", False),
        (0, "", False),
    ],
    ids=["right", "other exception", "other feature", "illegal instruction", "no refusal"],
)
def test_a_library_that_is_too_new_has_to_name_what_is_missing(
    saying: Saying,
    code: int,
    err: str,
    right: bool,  # noqa: FBT001  (a column of the table above)
) -> None:
    if right:
        saying(code, "", err).expect_refusal(SSE2, "CPU lacks avx2 ")
    else:
        with pytest.raises(VerificationError, match="was to say 'CPU lacks avx2 '"):
            saying(code, "", err).expect_refusal(SSE2, "CPU lacks avx2 ")


def test_a_wheel_that_nothing_can_run_is_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sysroot, "ROOT", tmp_path)
    monkeypatch.setattr(build, "host_arch", lambda: "riscv64")
    monkeypatch.setattr(smoke, "make_files", lambda place: (place / "m", place / "t"))
    wheel_smoke.prove(archives.find("linux-aarch64"), tmp_path / "w.whl", tmp_path)
    said = capsys.readouterr().out
    assert said == "not run: smoke of w.whl: no Python of aarch64: nox -s wheel-arm\n"


def test_packages_without_a_python_are_refused_and_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sysroot, "ROOT", tmp_path)
    monkeypatch.setattr(sysroot, "download", lambda *_: [])
    assert sysroot.main(["armv7"]) == 1
    assert "the packages hold no usr/bin/python3" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_python_whose_copy_was_cut_short_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unpack(*words: str | Path) -> None:
        place = Path(words[-1])
        (place / "usr/bin").mkdir(parents=True)
        (place / "usr/bin/python3").touch()
        (place / "usr/lib").mkdir()

    def cut_short(_: str, target: str, **__: object) -> None:
        (Path(target) / "usr/bin").mkdir(parents=True)
        (Path(target) / "usr/bin/python3").touch()
        raise KeyboardInterrupt

    monkeypatch.setattr(sysroot, "ROOT", tmp_path)
    monkeypatch.setattr(sysroot, "download", lambda *_: [tmp_path / "a.deb"])
    monkeypatch.setattr(sysroot, "run", unpack)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copytree", cut_short)
        assert sysroot.main(["armv7"]) == project.INTERRUPTED
    assert sysroot.main(["armv7"]) == 0
    assert (sysroot.path("armv7") / "usr/lib").is_dir()
    assert [path.name for path in (tmp_path / "build").iterdir()] == ["sysroot-armv7"]


# ---- what an installed package says ------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, krafla_library: Path) -> Path:
    """Return a folder with the package as a wheel has it: one library that works, one that not."""
    package = tmp_path / "site (é)" / "krafla"
    shutil.copytree(wheel.SOURCE, package)
    shutil.copy(wheel.HEADER, package)
    shutil.copy(ROOT / "runtime" / "kernels" / "isas.txt", package)
    (package / "_lib").mkdir()
    works = krafla_library.parent.name.split("-")[0]
    for name in ("avx512vnni", "sse2"):
        (package / "_lib" / f"libkrafla-{name}.so").write_text("not a library")
    shutil.copy(krafla_library, package / "_lib" / f"libkrafla-{works}.so")
    return package


def start(package: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Import an installed package in an interpreter of its own."""
    env = {name: value for name, value in os.environ.items() if "ISA" not in name}
    env |= {"PYTHONPATH": str(package.parent), "KRAFLA_LIB": "", **variables}
    words = [sys.executable, "-c", PROGRAM]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False)


def said(package: Path, **variables: str) -> str:
    """Return the exception that the package ends with."""
    done = start(package, **variables)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr.splitlines()[-1].removeprefix("krafla._errors.")


@pytest.mark.parametrize("variable", ["KRAFLA_ISA", "ISA_LM_ISA"])
def test_an_installed_package_loads_the_library_that_is_named(
    installed: Path, variable: str, krafla_library: Path
) -> None:
    name = krafla_library.parent.name.split("-")[0]
    assert start(installed, **{variable: name}).stdout == f"{name}\n"
    if name != "sse2":
        refused = said(installed, **{variable: "sse2"})
        assert refused.startswith("KraflaCpuError: libkrafla-sse2.so: ")
        assert "KRAFLA_ISA is 'sse2'; this package has avx512vnni" in refused


@pytest.mark.parametrize("name", ["sse9", "../_lib/x", "sse2;true", " ", "scalar", "neon"])
def test_an_installed_package_lists_its_libraries_when_another_is_asked_for(
    installed: Path, name: str
) -> None:
    for wrong in set(installed.glob("_lib/*.so")) - {installed / "_lib" / "libkrafla-sse2.so"}:
        wrong.unlink()
    message = f"no libkrafla was found: KRAFLA_ISA is {name!r}; this package has sse2"
    assert said(installed, KRAFLA_ISA=name) == f"KraflaCpuError: {message}"


def test_an_installed_package_says_of_each_library_why_it_is_not_loaded(installed: Path) -> None:
    (installed / "_lib" / "libkrafla-avx2.so").write_text("not a library")
    for path in installed.glob("_lib/*.so"):
        path.write_text("not a library")
    message = said(installed)
    assert message.count("invalid ELF header") + message.count("file too short") >= 2
    assert message.endswith(": this package has no library for such a CPU, or system")


def test_an_installed_package_for_another_architecture_says_so(installed: Path) -> None:
    for path in installed.glob("_lib/*.so"):
        path.rename(path.with_name(f"libkrafla-{path.stem}.so"))
    assert "this package has none for " in said(installed)


def test_a_library_of_ones_own_that_is_none_is_named(installed: Path) -> None:
    message = said(installed, KRAFLA_LIB=str(installed / "krafla.h"))
    assert "krafla.h: " in message
    assert message.endswith("KRAFLA_LIB has to name a libkrafla for this machine")
