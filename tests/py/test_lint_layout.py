# SPDX-License-Identifier: MIT
"""The layout lint finds what it promises to find.

.venv/bin/python -m pytest tests/py/test_lint_layout.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

import isas
import lint_layout

GUARD = "#ifndef A_H\n#define A_H\n#endif\n"
PLACES = {
    "krafla.h": {"include"},
    "args.h": {"cli"},
    "model.h": {"core"},
    "kernels.h": {"kernels"},
    "vf.h": {"kernels"},
    "ml.h": {"core"},
}


def conditionals(path: str, text: str) -> list[str]:
    return list(lint_layout.check_conditionals(Path(path), text))


def includes(path: str, header: str) -> list[str]:
    return list(lint_layout.check_includes(Path(path), f'#include "{header}"\n', PLACES))


def test_lint_allows_an_include_guard() -> None:
    assert conditionals("runtime/core/a.h", GUARD) == []


def test_lint_refuses_a_guard_in_a_source() -> None:
    assert len(conditionals("runtime/core/a.c", GUARD)) == 1


@pytest.mark.parametrize("word", ["#if X", "#ifdef X", "# ifndef X", "  #elif X"])
def test_lint_refuses_conditionals(word: str) -> None:
    found = conditionals("runtime/core/a.c", f"int a;\n{word}\n")
    assert len(found) == 1
    assert found[0].startswith("runtime/core/a.c:2: ")


@pytest.mark.parametrize(
    "name", ["map_posix.c", "map_win32.c", "cpu_x86.c", "cpu_arm.c", "compiler.h"]
)
def test_lint_allows_conditionals_where_systems_differ(name: str) -> None:
    assert conditionals(f"runtime/core/{name}", "#if defined(X)\n#endif\n") == []


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("runtime/cli/ml_run.c", "krafla.h"),
        ("runtime/cli/ml_run.c", "args.h"),
        ("runtime/cli/ml_run.c", "ml.h"),
        ("runtime/cli/bench_model.c", "model.h"),
        ("runtime/cli/bench.h", "kernels.h"),
        ("runtime/core/a.c", "model.h"),
        ("runtime/core/a.c", "kernels.h"),
        ("runtime/kernels/avx2/a.c", "../sse2/vf.h"),
        ("tests/unit/a.c", "model.h"),
    ],
)
def test_lint_allows_includes_downward(path: str, header: str) -> None:
    assert includes(path, header) == []


@pytest.mark.parametrize(
    ("path", "header"),
    [
        ("runtime/cli/ml_run.c", "model.h"),
        ("runtime/cli/ml_run.c", "kernels.h"),
        ("runtime/cli/bench_model.c", "vf.h"),
        ("runtime/core/a.c", "args.h"),
        ("runtime/core/a.c", "vf.h"),
        ("runtime/kernels/avx2/a.c", "model.h"),
        ("runtime/kernels/avx2/a.c", "krafla.h"),
        ("runtime/core/a.c", "nowhere.h"),
    ],
)
def test_lint_refuses_includes_upward_and_past_the_interface(path: str, header: str) -> None:
    assert len(includes(path, header)) == 1


def test_lint_measures_functions_and_files() -> None:
    function = "int f(void)\n{\n" + "    g();\n" * 70 + "}\n"
    assert len(list(lint_layout.check_c_sizes(Path("runtime/core/a.c"), function))) == 1
    short = "int f(void)\n{\n    g();\n}\n"
    assert list(lint_layout.check_c_sizes(Path("runtime/core/a.c"), short * 140)) == []
    assert len(list(lint_layout.check_c_sizes(Path("runtime/core/a.c"), short * 150))) == 1
    assert len(list(lint_layout.check_c_sizes(Path("runtime/kernels/x/a.c"), short * 100))) == 1


def test_lint_measures_python_functions() -> None:
    text = "def f():\n" + "    g()\n" * 70
    assert len(list(lint_layout.check_python_sizes(Path("tools/a.py"), text))) == 1


@pytest.mark.parametrize(
    "line",
    [
        "x = 1  # TO" + "DO later",
        "/* FIX" + "ME */",
        'open("/' + 'home/somebody/x")',
        "cd /" + "root/y",
    ],
)
def test_lint_refuses_unfinished_spots_and_machine_paths(line: str) -> None:
    assert len(list(lint_layout.check_text(Path("README.md"), line))) == 1


def test_lint_wants_a_licence_line_in_sources() -> None:
    assert len(list(lint_layout.check_text(Path("tools/a.py"), "x = 1\n"))) == 1
    assert list(lint_layout.check_text(Path("README.md"), "x = 1\n")) == []


def test_lint_compares_the_contracts_with_the_table(tmp_path: Path) -> None:
    (tmp_path / "packaging").mkdir()
    (tmp_path / "packaging/linux-x86_64.contract").write_text("0755 bin/ml_run-mmx\n")
    (tmp_path / "packaging/windows-x86_64.contract").write_text("0755 bin/ml_run-mmx.exe\n")
    x86, aarch64, _, windows = lint_layout.check_contracts(tmp_path)
    assert "builds mmx, isas.txt ships avx2" in x86
    assert "packaging/linux-aarch64.contract: builds none" in aarch64
    assert "builds mmx, isas.txt ships avx2" in windows


def test_lint_compares_the_user_guide_with_the_table(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    guide = tmp_path / "docs" / "user-guide.md"
    guide.write_text("| ISA | CPUs |\n|---|---|\n| `sse2` | all |\n| `mmx` | old |\n")
    found = list(lint_layout.check_guide(tmp_path))
    assert "docs/user-guide.md: ISA mmx is not in isas.txt" in found
    assert any("no row for ISA avx2" in line for line in found)
    assert not any("sse2" in line for line in found)


def file_findings(root: Path, name: str, data: bytes) -> list[str]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return list(lint_layout.check_file(root, Path(name), {}))


LICENCE = b"# SPDX-License-Identifier: MIT\n"
IF = b"/* SPDX-License-Identifier: MIT */\n#if X\n#endif\n"


@pytest.mark.parametrize(
    ("name", "data", "findings"),
    [
        ("docs/a.bin", b"x" * 200_000, 0),
        ("docs/a.bin", b"x" * 200_001, 1),
        ("tests/data/a.bin", b"x" * 200_001, 0),
        ("docs/a.bin", b"\xff", 0),
        ("docs/a.md", b"TO" + b"DO", 1),
        ("tests/fuzz/corpus/a", b"\xff TO" + b"DO", 0),
        ("tools/a.py", LICENCE + b"x = 1\n" * 598, 0),
        ("tools/a.py", LICENCE + b"x = 1\n" * 599, 1),
        ("tools/a.py", LICENCE + b"def f():\n" + b"    g()\n" * 59, 0),
        ("tools/a.py", LICENCE + b"def f():\n" + b"    g()\n" * 60, 1),
        ("docs/a.md", b"# a\n" * 700, 0),
        ("runtime/core/a.c", IF, 1),
        ("runtime/core/a_posix.c", IF, 0),
        ("runtime/core/a_tables.c", IF * 600, 0),
        ("docs/a.md", IF, 0),
    ],
)
def test_lint_applies_to_each_kind_of_file_its_own_rules(
    tmp_path: Path, name: str, data: bytes, findings: int
) -> None:
    assert findings == len(file_findings(tmp_path, name, data))


def test_lint_wants_the_same_files_in_every_instruction_set(tmp_path: Path) -> None:
    for isa in isas.load(built=True):
        folder = tmp_path / "runtime" / "kernels" / isa.name
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*lint_layout.ISA_FILES, "fp_x86.c"):
            (folder / name).touch()
    assert list(lint_layout.check_isa_folders(tmp_path)) == []
    folder = tmp_path / "runtime" / "kernels" / "avx2"
    (folder / "vec.h").rename(folder / "extra.c")
    missing, extra = lint_layout.check_isa_folders(tmp_path)
    assert missing.startswith("runtime/kernels/avx2/vec.h: missing")
    assert extra.startswith("runtime/kernels/avx2/extra.c: not one of")


def test_lint_wants_a_plain_twin_of_every_file_in_assembly(tmp_path: Path) -> None:
    for isa in isas.load(built=True):
        folder = tmp_path / "runtime" / "kernels" / isa.name
        (folder / "asm").mkdir(parents=True, exist_ok=True)
        for name in (*lint_layout.ISA_FILES, "dot_sums.h", "asm/dot_sums.h"):
            (folder / name).touch()
    assert list(lint_layout.check_isa_folders(tmp_path)) == []
    (tmp_path / "runtime" / "kernels" / "sse2" / "dot_sums.h").unlink()
    (fault,) = lint_layout.check_isa_folders(tmp_path)
    assert fault.startswith("runtime/kernels/sse2/asm/dot_sums.h: ")


def test_lint_names_a_missing_guide(tmp_path: Path) -> None:
    assert list(lint_layout.check_guide(tmp_path)) == ["docs/user-guide.md: missing"]
