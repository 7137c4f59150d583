# SPDX-License-Identifier: MIT
"""The launcher of the archives, run by every POSIX shell at hand, over builds that are stubs.

.venv/bin/python -m pytest tests/py/test_launcher.py
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from krafla_release import archives

BUILDS = ["wide", "middle", "low"]
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
PLACES = ["plain", "a b (ü)", "quote'\"$HOME`id`", "new\nline", "-dash", "arrow -> here", "*?["]

STUB = """#!/bin/sh
eval "code=\\${PROBE_{{isa}}-0}"
[ "${1-}" != --probe ] || exit "$code"
if [ "$code" != 0 ]; then
    echo "error: CPU lacks {{isa}}-feature required by ISA={{isa}}" >&2
    exit "$code"
fi
printf '{{isa}}'
for word do printf '|%s' "$word"; done
exit "${EXIT-0}"
"""


@dataclasses.dataclass(frozen=True)
class Tree:
    """An unpacked archive whose builds are stubs, and the shell that runs its launcher."""

    shell: list[str]
    home: Path

    @property
    def launcher(self) -> Path:
        """The launcher's path."""
        return self.home / "ml_run"

    def run(
        self,
        *args: str,
        script: str | Path | None = None,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run the launcher, or another name of it, in the tree's shell."""
        return subprocess.run(
            [*self.shell, str(script or self.launcher), *args],
            capture_output=True,
            text=True,
            timeout=30,
            cwd=cwd,
            env={"PATH": os.environ["PATH"]} | (env or {}),
            check=False,
        )


def make_tree(home: Path, shell: list[str]) -> Tree:
    """Write the launcher and its stub builds below a directory."""
    member = archives.launcher("ml_run", BUILDS)
    (home / "bin").mkdir(parents=True)
    files = {"ml_run": member.data.decode()}
    files |= {f"bin/ml_run-{isa}": STUB.replace("{{isa}}", isa) for isa in BUILDS}
    for name, text in files.items():
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    return Tree(shell, home)


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def shell(request: pytest.FixtureRequest) -> list[str]:
    """Return the words that start one shell."""
    words: list[str] = request.param
    if not shutil.which(words[0]):
        pytest.skip(f"not run: {words[0]} is not installed")
    return words


@pytest.fixture
def tree(tmp_path: Path, shell: list[str]) -> Tree:
    """Return a tree in a plain directory."""
    return make_tree(tmp_path / "krafla", shell)


def test_launcher_starts_the_fastest_build(tree: Tree) -> None:
    assert tree.run("-n", "3").stdout == "wide|-n|3"


@pytest.mark.parametrize(
    ("refused", "started"),
    [(["wide"], "middle"), (["wide", "middle"], "low")],
    ids=["second", "third"],
)
def test_launcher_skips_builds_that_the_cpu_refuses(
    tree: Tree, refused: list[str], started: str
) -> None:
    done = tree.run(env={f"PROBE_{isa}": "3" for isa in refused})
    assert (done.returncode, done.stdout, done.stderr) == (0, started, "")


def test_launcher_skips_a_build_that_dies(tree: Tree) -> None:
    (tree.home / "bin/ml_run-wide").write_text("#!/bin/sh\nkill -ILL $$\n")
    assert tree.run().stdout == "middle"


def test_launcher_says_what_the_lowest_build_lacks_and_exits_3(tree: Tree) -> None:
    done = tree.run(env={f"PROBE_{isa}": "3" for isa in BUILDS})
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == "error: CPU lacks low-feature required by ISA=low\n"


def test_launcher_without_builds_is_a_runtime_error_not_a_cpu_error(tree: Tree) -> None:
    shutil.rmtree(tree.home / "bin")
    done = tree.run()
    assert done.returncode == 1
    assert "is the archive complete" in done.stderr


def test_launcher_of_another_program_asks_ml_run_and_starts_its_own(tree: Tree) -> None:
    (tree.home / "ml_tok").write_bytes(archives.launcher("ml_tok", BUILDS).data)
    (tree.home / "bin/ml_tok-middle").write_text('#!/bin/sh\necho "tok $*"\n')
    (tree.home / "bin/ml_tok-middle").chmod(0o755)
    done = tree.run("x", script=tree.home / "ml_tok", env={"PROBE_wide": "3"})
    assert (done.stdout, done.stderr) == ("tok x\n", "")


@pytest.mark.parametrize("code", [0, 1, 2, 3, 77, 255])
def test_launcher_keeps_the_exit_code(tree: Tree, code: int) -> None:
    done = tree.run(env={"EXIT": str(code)})
    assert (done.returncode, done.stdout) == (code, "wide")


@pytest.mark.parametrize("variable", ["KRAFLA_ISA", "ISA_LM_ISA"])
@pytest.mark.parametrize("isa", BUILDS)
def test_launcher_obeys_the_users_choice(tree: Tree, variable: str, isa: str) -> None:
    assert tree.run("x", env={variable: isa}).stdout == f"{isa}|x"


def test_launcher_prefers_the_new_name_of_the_variable(tree: Tree) -> None:
    assert tree.run(env={"KRAFLA_ISA": "low", "ISA_LM_ISA": "middle"}).stdout == "low"


def test_launcher_treats_an_empty_choice_as_none(tree: Tree) -> None:
    assert tree.run(env={"KRAFLA_ISA": "", "ISA_LM_ISA": ""}).stdout == "wide"


HOSTILE = [
    "nope",
    "wide middle",
    " wide",
    "wide ",
    "../low",
    "*",
    "w?de",
    "wide;id",
    "$(id)",
    "`id`",
    "-n",
    "low\n",
    "\x1b[31mred",
    "/bin/sh",
    "x" * 10000,
]


@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_launcher_refuses_a_hostile_choice_and_does_not_print_it(tree: Tree, value: str) -> None:
    done = tree.run(env={"KRAFLA_ISA": value})
    assert done.returncode == 2
    assert done.stdout == ""
    want = "error: KRAFLA_ISA names no build of this archive; it has: wide middle low\n"
    assert done.stderr == want


ARGUMENTS = [["a b", "", "*", "$HOME", "'", '"', "\\n", "-", "--", "é\n漢"], ["--probe-not"], []]


@pytest.mark.parametrize("words", ARGUMENTS, ids=["special", "option", "none"])
def test_launcher_passes_arguments_untouched(tree: Tree, words: list[str]) -> None:
    assert tree.run(*words).stdout == "|".join(["wide", *words])


@pytest.mark.parametrize("place", PLACES, ids=repr)
def test_launcher_works_from_any_directory_name(
    tmp_path: Path, shell: list[str], place: str
) -> None:
    tree = make_tree(tmp_path / place / "krafla", shell)
    assert tree.run("1").stdout == "wide|1"
    assert tree.run("2", script="./ml_run", cwd=tree.home).stdout == "wide|2"
    assert tree.run("3", script="ml_run", cwd=tree.home).stdout == "wide|3"
    assert tree.run("4", script="krafla/ml_run", cwd=tree.home.parent).stdout == "wide|4"


@pytest.mark.parametrize("place", PLACES, ids=repr)
def test_launcher_follows_links_of_links(tmp_path: Path, shell: list[str], place: str) -> None:
    tree = make_tree(tmp_path / place / "krafla", shell)
    links = tmp_path / place / "links"
    (links / "deep").mkdir(parents=True)
    (links / "absolute").symlink_to(tree.launcher)
    (links / "relative").symlink_to("../krafla/ml_run")
    (links / "deep" / "twice").symlink_to("../relative")
    (tree.home / "beside").symlink_to("ml_run")
    for name in ("absolute", "relative", "deep/twice", "../krafla/beside"):
        assert tree.run(name, script=links / name).stdout == f"wide|{name}"
    assert tree.run("bare", script="relative", cwd=links).stdout == "wide|bare"


@pytest.mark.parametrize(
    "path", ["{home}:{path}", "{path}:{home}", "{path}:", ":{path}", "{path}::/x"]
)
def test_launcher_is_found_through_path(tree: Tree, path: str) -> None:
    search = path.format(home=tree.home, path=os.environ["PATH"])
    done = subprocess.run(
        [*tree.shell, "-c", 'ml_run "$@"', "sh", "a b"],
        capture_output=True,
        text=True,
        cwd=tree.home,
        env={"PATH": search},
        check=False,
    )
    assert (done.stdout, done.stderr) == ("wide|a b", "")


def test_launcher_ignores_cdpath_and_field_separators(tree: Tree) -> None:
    done = tree.run("x", script="ml_run", cwd=tree.home, env={"CDPATH": "/:/tmp", "IFS": "aeiou/"})
    assert done.stdout == "wide|x"


def test_launcher_leaves_standard_input_to_the_program(tree: Tree) -> None:
    (tree.home / "bin/ml_run-wide").write_text("#!/bin/sh\ncat\n")
    done = subprocess.run(
        [*tree.shell, tree.launcher], input=b"\x00\xffall", capture_output=True, check=False
    )
    assert done.stdout == b"\x00\xffall"


def test_launcher_is_replaced_by_the_program(tree: Tree) -> None:
    """A signal sent to what the user started must reach the program itself."""
    (tree.home / "bin/ml_run-wide").write_text('#!/bin/sh\n[ "${1-}" = --probe ] || echo $$\n')
    with subprocess.Popen([*tree.shell, tree.launcher], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert int(process.stdout.read()) == process.pid


def test_launcher_passes_shellcheck(tmp_path: Path) -> None:
    if not shutil.which("shellcheck"):
        pytest.skip("not run: shellcheck is not installed")
    script = tmp_path / "ml_run"
    script.write_bytes(archives.launcher("ml_run", BUILDS).data)
    done = subprocess.run(
        ["shellcheck", "-s", "sh", script], capture_output=True, text=True, check=False
    )
    assert done.stdout == ""
