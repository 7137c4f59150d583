# SPDX-License-Identifier: MIT
"""The reader of isas.txt, and what must hold between its rows.

.venv/bin/python -m pytest tests/py/test_isas.py
"""

from __future__ import annotations

import json
import re

import pytest

import isas

ROW = (
    "avx2 | x86_64 | fused | -mavx2 -mfma | /arch:AVX2 | avx2 fma | q8p16x4 q4p16x4 | Haswell | yes"
)


def test_isas_reads_every_cell() -> None:
    want = isas.Isa(
        name="avx2",
        arch="x86_64",
        fused=True,
        cflags=("-mavx2", "-mfma"),
        msvc="/arch:AVX2",
        needs=("avx2", "fma"),
        layouts=("q8p16x4", "q4p16x4"),
        cpus=("Haswell",),
        ship=True,
    )
    assert isas.parse(f"# comment\n\n{ROW}\n") == [want]


def test_isas_reads_a_dash_as_nothing() -> None:
    row = isas.parse("a | armv7 | unfused | | - | | | - | test")[0]
    assert (row.cflags, row.msvc, row.needs, row.cpu, row.ship) == ((), None, (), None, False)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("avx2 | x86_64", "isas.txt:1: want 9 columns, got 2"),
        ("#\n" + ROW.replace("x86_64", "vax"), "isas.txt:2: arch is 'vax'"),
        (ROW.replace("fused", "exact"), "class is 'exact'"),
        (ROW.replace("yes", "maybe"), "ship is 'maybe'"),
        (f"{ROW}\n{ROW}", "isas.txt:2: avx2 for x86_64 stands twice"),
    ],
    ids=["columns", "arch", "class", "ship", "twice"],
)
def test_isas_refuses_a_bad_row_and_names_its_line(text: str, message: str) -> None:
    with pytest.raises(isas.TableError, match=re.escape(message)):
        isas.parse(text)


def test_isas_table_ends_each_architecture_with_its_least_demanding_shipped_row() -> None:
    """The launcher names what the last build lacks, so nothing may ask for less than that one."""
    for arch in isas.CROSS:
        rows = isas.load(arch, ship=True)
        assert min(len(row.needs) for row in rows) == len(rows[-1].needs)


@pytest.mark.parametrize("row", isas.load(built=True), ids=lambda row: f"{row.name}-{row.arch}")
def test_isas_table_has_the_layouts_of_the_kernels(row: isas.Isa) -> None:
    folder = isas.TABLE.parent / row.name
    header = (folder / "isa.h").read_text()
    for shared in re.findall(r'^#include "(\.\./\w+/isa\.h)"$', header, re.MULTILINE):
        header += (folder / shared).read_text()
    assert row.layouts == tuple(
        re.findall(r'^#define PACK_Q\d_NAME "(\w+)"$', header, re.MULTILINE)
    )


def test_isas_table_spells_directories_as_the_launcher_needs_them() -> None:
    assert all(re.fullmatch(r"[a-z0-9_]+", row.name) for row in isas.load())


def test_isas_prints_names_of_an_architecture_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert isas.main(["--arch", "armv7", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["neon", "scalar"]


def test_isas_table_is_narrowed_by_kernels_and_by_what_ships() -> None:
    assert "scalar" not in {row.name for row in isas.load("x86_64", ship=True)}
    assert "scalar" in {row.name for row in isas.load("x86_64")}
    assert all(row.built for row in isas.load(built=True))


def test_isas_prints_one_field_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert isas.main(["--arch", "x86_64", "--field", "needs"]) == 0
    assert "avx2 fma f16c" in capsys.readouterr().out.splitlines()


def test_sessions_name_every_row_with_kernels_once() -> None:
    sessions = isas.sessions()
    assert list(sessions.values()) == isas.load(built=True)
    assert sessions["test-avx2"].arch == "x86_64"


def test_isas_prints_the_sessions_of_an_architecture(capsys: pytest.CaptureFixture[str]) -> None:
    assert isas.main(["--arch", "armv7", "--sessions", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == ["test-neon-armv7", "test-scalar-armv7"]
