# SPDX-License-Identifier: MIT
"""The inner loops of the ARM builds do as much with an instruction as their design promises.

.venv/bin/python -m pytest tests/py/test_inner_loops.py
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import inner_loops
from krafla_release import build

if TYPE_CHECKING:
    from tests.conftest import NotRun

NESTED = """
Disassembly of section .text:

0000000000000000 <p16_q4_f16>:
   0:\tmov\tx0, #0x0
   4:\tmov\tx1, #0x8
   8:\tld1\t{v0.16b-v3.16b}, [x2], #64
   c:\tsdot\tv4.4s, v0.16b, v1.4b[0]
  10:\tsdot\tv4.4s, v2.16b, v1.4b[1]
  14:\tsubs\tx1, x1, #0x1
  18:\tb.ne\t8 <p16_q4_f16+0x8>  // b.any
  1c:\tfmla\tv5.4s, v6.4s, v4.4s
  20:\tcmp\tx0, x3
  24:\tb.hi\t4 <p16_q4_f16+0x4>  // b.pmore
  28:\tb\t30 <p16_q4_f16+0x30>
  2c:\tret

0000000000000030 <kern_matmul>:
  30:\tret
"""


def test_a_loop_around_another_is_not_counted() -> None:
    body = inner_loops.functions(NESTED)["p16_q4_f16"]
    (loop,) = inner_loops.innermost(body)
    assert [instruction.address for instruction in loop] == [0x8, 0xC, 0x10, 0x14, 0x18]
    assert sum(instruction.macs for instruction in loop) == 32


def test_functions_end_where_the_next_begins() -> None:
    found = inner_loops.functions(NESTED)
    assert [(n, len(body)) for n, body in found.items()] == [("p16_q4_f16", 12), ("kern_matmul", 1)]


@pytest.mark.parametrize(
    ("text", "macs"),
    [
        ("smmla v4.4s, v0.16b, v1.16b", 32),
        ("sdot v4.4s, v0.16b, v1.4b[2]", 16),
        ("sdot z4.s, z0.b, z1.b[2]", 16),
        ("smlal2 v4.8h, v0.16b, v1.16b", 8),
        ("smull v4.8h, v0.8b, v1.8b", 8),
        ("vmlal.s8 q8, d1, d2", 8),
        ("smlal v4.4s, v0.4h, v1.4h", 4),
        ("sadalp v4.4s, v0.8h", 0),
        ("fmla v4.4s, v0.4s, v1.4s", 0),
    ],
)
def test_a_multiplication_counts_what_it_does(text: str, macs: int) -> None:
    assert macs == inner_loops.Instruction(0, text).macs


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("b.ne 2988 <p16_q4_f16+0x2a8> // b.any", 0x2988),
        ("cbnz x1, 4c <p16_q4_f16+0x4c>", 0x4C),
        ("tbz w1, #3, 8 <p16_q4_f16+0x8>", 0x8),
        ("bne.n 12a <p16_q4_f16+0x12a>", 0x12A),
        ("bhi.w fe <p16_q4_f16+0xfe>", 0xFE),
        ("bl 100 <memset>", None),
        ("blx 100 <memset>", None),
        ("bic v0.8h, #0xf", None),
    ],
)
def test_a_branch_is_told_from_a_call(text: str, target: int | None) -> None:
    assert target == inner_loops.Instruction(0, text).target


def test_a_promise_for_a_whole_block_is_not_held_by_a_part_of_it() -> None:
    part = inner_loops.Loop("q4", "f16", "one", instructions=10, macs=160, whole_block=False)
    assert not inner_loops.met(inner_loops.Floor("x", "q4", "one", 5.0), part)
    assert inner_loops.met(inner_loops.Floor("x", "q4", "one", 5.0, inner_k=True), part)
    assert not inner_loops.met(inner_loops.Floor("x", "q4", "one", 16.01, inner_k=True), part)


@pytest.mark.parametrize("name", sorted({floor.isa for floor in inner_loops.FLOORS}))
def test_every_promise_is_held(name: str, not_run: NotRun) -> None:
    isa = next(row for row in inner_loops.rows() if (row.name, row.arch) == (name, "aarch64"))
    compiler = f"{build.cross(isa)}gcc"
    if not shutil.which(compiler):
        not_run(f"{compiler} not installed")
    loops = {
        (loop.wtype, loop.columns): loop for loop in inner_loops.loops(isa) if "f16" in loop.stype
    }
    promises = [floor for floor in inner_loops.FLOORS if floor.isa == name]
    short = [
        f"{p.wtype} {p.columns}: {loops[p.wtype, p.columns]}, promised {p.macs_per_instruction}"
        for p in promises
        if not inner_loops.met(p, loops[p.wtype, p.columns])
    ]
    assert short == []
