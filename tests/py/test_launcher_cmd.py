# SPDX-License-Identifier: MIT
"""The launcher of the Windows archive, run by Wine's cmd, over builds that are stubs.

.venv/bin/python -m pytest tests/py/test_launcher_cmd.py
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from krafla_release import archives, build, wine
from krafla_release.project import ROOT

# Each build of the stubs needs the feature of its own name, as tests/launcher/stub.c says.
BUILDS = {"wide": "low middle wide", "middle": "low middle", "low": "low"}
WIDE = {"CPU": "low middle wide"}
REFUSED = "error: KRAFLA_ISA names no build of this archive; it has: wide middle low"
PLACES = [
    "plain",
    "My Models (x)/a & b",
    "Ünal/é漢",
    "!x! ^y",
    "!PATH!",
    "comma, equals=@'`~",
]
HOSTILE = [
    "scalar",
    "WIDE",
    "low ",
    " low",
    "low,wide",
    "..",
    "..\\ml_run",
    "../ml_run",
    "C:\\windows\\x",
    '"',
    '"low"',
    'low"',
    'x" == "x" echo INJECTED & rem ',
    'x"&echo INJECTED&"',
    "low&echo INJECTED",
    "|echo INJECTED",
    ">INJECTED",
    "^",
    "low^",
    "(",
    ")",
    "%PATH%",
    "!PATH!",
    "*",
    "?",
    "low\necho INJECTED",
    "é漢",
    "x" * 5000,
]
OLD_NAME = HOSTILE[::4]  # one line of the launcher reads it as the other reads KRAFLA_ISA


@dataclasses.dataclass(frozen=True)
class Tree:
    """An unpacked archive whose builds are stubs."""

    home: Path
    place: Path

    def run(
        self, *args: str, env: dict[str, str] | None = None, text: bytes = b""
    ) -> tuple[int, str, str]:
        """Run the launcher by cmd /c and return its code and what it printed."""
        program = wine.windows_path(self.home / "ml_run.cmd")
        return self.cmd(program, *args, env=env, text=text)

    def script(self, *lines: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
        """Run these lines as a batch file; %HERE% is the tree."""
        path = self.place / "script.cmd"
        path.write_bytes("\r\n".join(["@echo off", *lines, ""]).encode())
        return self.cmd(wine.windows_path(path), env=env)

    def cmd(
        self, *words: str, env: dict[str, str] | None = None, text: bytes = b""
    ) -> tuple[int, str, str]:
        """Run a command by cmd /c."""
        here = {"HERE": wine.windows_path(self.home)}
        done = wine.call("cmd", "/c", *words, env=WIDE | here | (env or {}), text=text)
        said = [stream.decode().replace("\r\n", "\n") for stream in (done.stdout, done.stderr)]
        return done.returncode, said[0].strip(), said[1].strip()

    @property
    def starts(self) -> list[str]:
        """Which builds were started, each with the word --probe if that was asked.

        Of an attempt that Wine did not end, and that wine.call() repeats, the question is left.
        """
        lines = (self.home / "starts.txt").read_text().splitlines()
        while lines[:2] == ["low --probe", "low --probe"]:
            del lines[0]
        return lines


@pytest.fixture(scope="module")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Return the stub of a build, and keep the prefix while it is in use."""
    reason, compiler = wine.missing(), build.mingw_compiler()
    if reason or not compiler:
        pytest.skip(f"not run: {reason or f'{build.MINGW}gcc not installed'}")
    program = tmp_path_factory.mktemp("stub") / "stub.exe"
    source = ROOT / "tests" / "launcher" / "stub.c"
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Os", "-s", "-static"]
    words = [build.MINGW + compiler, *flags, str(source), "-o", str(program), "-lshell32"]
    subprocess.run(words, check=True)
    with wine.prefix():
        yield program


def make_tree(place: Path, name: str, stub: Path) -> Tree:
    """Write the launcher and its stub builds to a directory below a plain one."""
    home = place / name
    (home / "bin").mkdir(parents=True)
    for program in ("ml_run", "ml_tok"):
        member = archives.launcher(program, BUILDS, "windows")
        (home / member.path).write_bytes(member.data)
        for isa in BUILDS:
            shutil.copy(stub, home / "bin" / f"{program}-{isa}.exe")
    return Tree(home, place)


@pytest.fixture
def tree(tmp_path: Path, stub: Path) -> Tree:
    """Return a tree in a plain directory."""
    return make_tree(tmp_path, "krafla", stub)


@pytest.mark.parametrize(
    ("cpu", "started"),
    [("low middle wide", "wide"), ("middle low", "middle"), ("low wide", "low")],
    ids=["fastest", "second", "a gap"],
)
def test_launcher_starts_the_fastest_build_that_fits(tree: Tree, cpu: str, started: str) -> None:
    assert tree.run("-n", "3", env={"CPU": cpu}) == (0, f"{started}|-n|3", "")
    assert tree.starts == ["low --probe", f"{started} "]


def test_launcher_says_what_the_lowest_build_lacks_and_exits_3(tree: Tree) -> None:
    said = "error: CPU lacks low required by ISA=low"
    assert tree.run(env={"CPU": "wide"}) == (3, "", said)


def test_launcher_of_another_program_asks_ml_run_and_starts_its_own(tree: Tree) -> None:
    assert tree.script(r'"%HERE%\ml_tok.cmd" x') == (0, "wide|x", "")
    (tree.home / "bin" / "ml_tok-wide.exe").unlink()
    code, out, err = tree.script(r'"%HERE%\ml_tok.cmd" x')
    assert (code, out) == (1, "")
    assert re.fullmatch(r'error: cannot start ".*ml_tok-wide\.exe": is the archive .*', err)


@pytest.mark.parametrize("lost", ["bin", "bin/ml_run-low.exe"])
def test_launcher_of_an_incomplete_archive_is_no_cpu_error(tree: Tree, lost: str) -> None:
    """Cmd's own code for a path that is not there is 3."""
    (tree.home / lost).rename(tree.home / "lost")
    code, out, err = tree.run()
    assert (code, out) == (1, "")
    assert re.fullmatch(r'error: cannot start ".*ml_run-low\.exe": is the archive .*', err)


def test_launcher_takes_a_crashing_probe_for_no_answer(tree: Tree) -> None:
    code, out, err = tree.run(env={"CRASH": "1"})
    assert (code, out) == (1, "")
    assert "for this kind of CPU?" in err


@pytest.mark.parametrize("code", [0, 1, 2, 3, 10, 77])
def test_launcher_keeps_the_exit_code_and_starts_no_other_build(tree: Tree, code: int) -> None:
    assert tree.run("x", env={"EXIT": str(code)}) == (code, "wide|x", "")
    assert tree.starts == ["low --probe", "wide "]


@pytest.mark.parametrize("name", ["KRAFLA_ISA", "ISA_LM_ISA"])
def test_launcher_starts_the_chosen_build_unasked(tree: Tree, name: str) -> None:
    assert tree.run("x", env={name: "middle"}) == (0, "middle|x", "")
    assert tree.starts == ["middle "]


def test_launcher_leaves_the_refusal_to_a_chosen_build_that_does_not_fit(tree: Tree) -> None:
    said = "error: CPU lacks wide required by ISA=wide"
    assert tree.run(env={"KRAFLA_ISA": "wide", "CPU": "low"}) == (3, "", said)


@pytest.mark.parametrize(
    ("env", "started"),
    [
        ({"KRAFLA_ISA": "low", "ISA_LM_ISA": "middle"}, "low"),
        ({"KRAFLA_ISA": "low", "ISA_LM_ISA": '"&echo INJECTED'}, "low"),
        ({"KRAFLA_ISA": "", "ISA_LM_ISA": "middle"}, "middle"),
        ({"KRAFLA_ISA": "", "ISA_LM_ISA": ""}, "wide"),
    ],
    ids=["both", "hostile old name", "empty", "both empty"],
)
def test_launcher_prefers_the_new_name_and_takes_empty_for_none(
    tree: Tree, env: dict[str, str], started: str
) -> None:
    assert tree.run(env=env) == (0, started, "")


@pytest.mark.parametrize("value", HOSTILE, ids=[ascii(value)[:20] for value in HOSTILE])
def test_launcher_refuses_what_is_no_build_and_neither_runs_nor_repeats_it(
    tree: Tree, value: str
) -> None:
    name = "ISA_LM_ISA" if value in OLD_NAME else "KRAFLA_ISA"
    assert tree.run("x", env={name: value}) == (2, "", REFUSED)
    assert not (tree.home / "starts.txt").exists()
    assert sorted(path.name for path in tree.home.iterdir()) == ["bin", "ml_run.cmd", "ml_tok.cmd"]


def test_launcher_is_not_misled_by_a_variable_named_errorlevel(tree: Tree) -> None:
    assert tree.run(env={"ERRORLEVEL": "10", "CPU": "low", "EXIT": "2"}) == (2, "low", "")


ARGUMENTS = {
    '"a b"': "a b",
    '"what, now; = *?"': "what, now; = *?",
    '"!x! 1^2 ^^"': "!x! 1^2 ^^",
    '"p & q | r < s > t (u)"': "p & q | r < s > t (u)",
    '"" - --': "|-|--",
    r'"say \"hi there\"" x': 'say "hi there"|x',
    r"C:\dir\ x": "C:\\dir\\|x",
    "1 2 3 4 5 6 7 8 9 10 11": "1|2|3|4|5|6|7|8|9|10|11",
    "--probe-not": "--probe-not",
}


@pytest.mark.parametrize("line", ARGUMENTS, ids=repr)
def test_launcher_passes_arguments_untouched(tree: Tree, line: str) -> None:
    """Not shown: a % in them or in a path; cmd leaves it alone, but Wine 8 reads it once more."""
    done = tree.script(rf'"%HERE%\ml_run.cmd" {line}')
    assert done == (0, f"wide|{ARGUMENTS[line]}", "")


def test_launcher_passes_characters_of_no_code_page(tree: Tree) -> None:
    assert tree.run("é漢 😀", "Ünal") == (0, "wide|é漢 😀|Ünal", "")


@pytest.mark.parametrize("place", PLACES, ids=ascii)
def test_launcher_works_from_any_directory_name(tmp_path: Path, stub: Path, place: str) -> None:
    tree = make_tree(tmp_path, f"{place}/krafla", stub)
    # `call` would read % and ^ of a path anew; the last line needs none.
    code, out, err = tree.script(
        r'cd /d "%HERE%\.."',
        r"call krafla\ml_run.cmd below",
        r"cd krafla",
        r"call .\ml_run.cmd here",
        r"call ml_run bare",
        r"cd /d C:\windows",
        r'set "PATH=%HERE%;%PATH%"',
        r"call ml_run by path",
        r'call "ml_run" quoted',
        r'"%HERE%\ml_run" elsewhere',
    )
    words = ["below", "here", "bare", "by|path", "quoted", "elsewhere"]
    assert (code, out.splitlines(), err) == (0, [f"wide|{word}" for word in words], "")


def test_launcher_leaves_the_callers_environment_and_directory_alone(tree: Tree) -> None:
    code, out, _ = tree.script(
        'set "krafla_build=mine"',
        'set >"%HERE%\\before.txt"',
        r'call "%HERE%\ml_run.cmd" x && echo fine',
        'set >"%HERE%\\after.txt"',
        'set "EXIT=3"',
        r'call "%HERE%\ml_run.cmd" y || echo failed',
        "exit /b 0",
    )
    assert (code, out.splitlines()) == (0, ["wide|x", "fine", "wide|y", "failed"])
    before, after = ((tree.home / name).read_bytes() for name in ("before.txt", "after.txt"))
    assert before == after


def test_launcher_leaves_standard_input_to_the_program(tree: Tree) -> None:
    done = wine.call(
        "cmd", "/c", wine.windows_path(tree.home / "ml_run.cmd"), "-", env=WIDE, text=b"\x00\xffall"
    )
    assert done.stdout == b"wide|-\n\x00\xffall"


def test_launcher_has_lines_that_every_windows_reads(tree: Tree) -> None:
    data = (tree.home / "ml_run.cmd").read_bytes()
    assert data.isascii()
    assert data.count(b"\n") == data.count(b"\r\n")
    assert max(map(len, data.splitlines())) < 1000
    assert b"chcp" not in data
    assert not re.search(rb"(?m)^rem.*[&|<>^%!]", data)  # cmd reads comments, too
