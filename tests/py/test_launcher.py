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

from krafla_release import archives, project

BUILDS = {"wide": "feature-b feature-a", "middle": "feature-a", "low": "base"}
CPUS = {"wide": "base feature-a feature-b", "middle": "base feature-a", "low": "base", "none": ""}
SHELLS = [["dash"], ["bash", "--posix"], ["busybox", "sh"]]
# Not needed for a release; tried where somebody has installed them.
OTHERS = [["zsh"], ["zsh", "--emulate", "sh"], ["mksh"], ["posh"]]
SHELLS += [shell for shell in OTHERS if shutil.which(shell[0])]
PLACES = [
    "plain",
    "a b (ü)",
    "quote'\"$HOME`id`",
    "new\nline",
    "-dash",
    "arrow -> here",
    "*?[",
    "100% !x! ^&(y)",
    "back\\slash",
]

# A build: answers for the CPU that $CPU describes, logs each start, prints its words.
STUB = """#!/bin/sh
printf '%s %s\\n' "${0##*/}" "${1-}" >>"${0%/*}/../starts"
has() {
    for need do
        case " ${CPU-base feature-a feature-b} " in *" $need "*) ;; *) return 1 ;; esac
    done
}
if ! has {{needs}}; then
    [ "${1-}" = --probe ] || echo "error: CPU lacks a feature required by ISA={{isa}}" >&2
    exit 3
fi
if [ "${1-}" = --probe ]; then
    shift
    code=10
    for list do
        has $list && exit $code
        code=$((code + 1))
    done
    exit 3
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

    @property
    def starts(self) -> list[str]:
        """The builds that were started, in order, each with its first argument."""
        return (self.home / "starts").read_text().splitlines()

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
    for isa, needs in BUILDS.items():
        files[f"bin/ml_run-{isa}"] = STUB.replace("{{isa}}", isa).replace("{{needs}}", needs)
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


@pytest.mark.parametrize("isa", BUILDS)
def test_launcher_asks_once_and_starts_the_fastest_build_that_fits(tree: Tree, isa: str) -> None:
    done = tree.run("-n", "3", env={"CPU": CPUS[isa]})
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{isa}|-n|3", "")
    assert tree.starts == ["ml_run-low --probe", f"ml_run-{isa} -n"]


def test_launcher_says_what_the_lowest_build_lacks_and_exits_3(tree: Tree) -> None:
    done = tree.run(env={"CPU": CPUS["none"]})
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr == "error: CPU lacks a feature required by ISA=low\n"


def test_launcher_never_starts_another_build_than_the_chosen_one(tree: Tree) -> None:
    done = tree.run("x", env={"CPU": CPUS["low"], "KRAFLA_ISA": "wide"})
    assert done.returncode == 3
    assert done.stderr == "error: CPU lacks a feature required by ISA=wide\n"
    assert tree.starts == ["ml_run-wide x"]


def test_launcher_takes_no_run_that_ends_with_3_for_a_wrong_build(tree: Tree) -> None:
    done = tree.run("x", env={"EXIT": "3"})
    assert (done.returncode, done.stdout, done.stderr) == (3, "wide|x", "")
    assert tree.starts == ["ml_run-low --probe", "ml_run-wide x"]


def test_launcher_without_builds_is_a_runtime_error_not_a_cpu_error(tree: Tree) -> None:
    shutil.rmtree(tree.home / "bin")
    done = tree.run()
    assert done.returncode == 1
    assert "is the archive complete" in done.stderr


@pytest.mark.parametrize("isa", ["low", "wide"], ids=["the one that is asked", "the one that fits"])
@pytest.mark.parametrize("fault", ["missing", "not executable", "directory"])
def test_launcher_names_a_build_that_cannot_be_started(tree: Tree, isa: str, fault: str) -> None:
    build = tree.home / "bin" / f"ml_run-{isa}"
    if fault == "not executable":
        build.chmod(0o644)
    else:
        build.unlink()
    if fault == "directory":
        build.mkdir()
    done = tree.run()
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"error: cannot start {build}: ")
    assert done.stderr.endswith("not on a noexec file system?\n")
    assert done.stderr.count("\n") == 1
    assert tree.run(env={"KRAFLA_ISA": "middle"}).stdout == "middle"


def test_launcher_on_a_file_system_without_execution_says_so(
    tmp_path: Path, shell: list[str]
) -> None:
    """`sh ml_run` reads the launcher there, and nothing else can be started."""
    script = (
        'mount -t tmpfs -o noexec none "$1" && cp -r "$2"/. "$1" || exit 77\n'
        'place=$1; shift 2; exec "$@" "$place/ml_run"\n'
    )
    make_tree(tmp_path / "krafla", shell)
    (tmp_path / "mounted").mkdir()
    words = [str(tmp_path / "mounted"), str(tmp_path / "krafla"), *shell]
    command = ["unshare", "-rm", "sh", "-c", script, "sh", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 77 or done.stderr.startswith("unshare:"):
        pytest.skip(f"not run: this machine lets nobody mount: {done.stderr.strip()}")
    assert (done.returncode, done.stdout) == (1, "")
    assert "not on a noexec file system?" in done.stderr


def test_launcher_of_another_program_asks_ml_run_and_starts_its_own(tree: Tree) -> None:
    (tree.home / "ml_tok").write_bytes(archives.launcher("ml_tok", BUILDS).data)
    (tree.home / "bin/ml_tok-middle").write_text('#!/bin/sh\necho "tok $*"\n')
    (tree.home / "bin/ml_tok-middle").chmod(0o755)
    done = tree.run("x", script=tree.home / "ml_tok", env={"CPU": CPUS["middle"]})
    assert (done.stdout, done.stderr) == ("tok x\n", "")


def test_launcher_knows_the_codes_of_the_question() -> None:
    source = (project.ROOT / "runtime" / "cli" / "ml_run.c").read_text()
    assert f"PROBE_FIRST = {archives.PROBE_FIRST}," in source


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
    "wide|low",
    "wide) id ;; low",
    "WIDE",
    "x" * 10000,
]


@pytest.mark.parametrize("variable", ["KRAFLA_ISA", "ISA_LM_ISA"])
@pytest.mark.parametrize("value", HOSTILE, ids=repr)
def test_launcher_refuses_a_hostile_choice_and_does_not_print_it(
    tree: Tree, value: str, variable: str
) -> None:
    done = tree.run(env={variable: value})
    assert done.returncode == 2
    assert done.stdout == ""
    want = "error: KRAFLA_ISA names no build of this archive; it has: wide middle low\n"
    assert done.stderr == want
    assert not (tree.home / "starts").exists()


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


def test_launcher_is_found_through_a_link_on_path(tree: Tree, tmp_path: Path) -> None:
    """A link of two levels, both relative, in a directory that PATH names relatively."""
    (tmp_path / "usr" / "bin").mkdir(parents=True)
    (tmp_path / "usr" / "deep link").symlink_to("../krafla/ml_run")
    (tmp_path / "usr" / "bin" / "ml_run").symlink_to("../deep link")
    for search in (f"{tmp_path}/usr/bin", "usr/bin"):
        done = subprocess.run(
            [*tree.shell, "-c", 'ml_run "$@"', "sh", "a b"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={"PATH": f"{search}:{os.environ['PATH']}"},
            check=False,
        )
        assert (done.stdout, done.stderr) == ("wide|a b", "")


@pytest.mark.parametrize("path", ["", "/nonexistent", None], ids=["empty", "nowhere", "unset"])
def test_launcher_needs_no_path(tree: Tree, path: str | None) -> None:
    shell = [str(shutil.which(tree.shell[0])), *tree.shell[1:]]
    env = {} if path is None else {"PATH": path}
    done = subprocess.run(
        [*shell, tree.launcher, "x"], capture_output=True, text=True, env=env, check=False
    )
    assert (done.stdout, done.stderr) == ("wide|x", "")


def test_launcher_that_cannot_follow_its_link_says_so(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tree.launcher)
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "printf").symlink_to(str(shutil.which("printf")))
    shell = [str(shutil.which(tree.shell[0])), *tree.shell[1:]]
    done = subprocess.run(
        [*shell, tmp_path / "link"],
        capture_output=True,
        text=True,
        env={"PATH": str(tmp_path / "only")},
        check=False,
    )
    if tree.shell[0] == "busybox" and done.returncode == 0:
        assert done.stdout == "wide"  # Debian's runs its own readlink, whatever PATH says
        return
    assert done.returncode == 1
    assert f"error: cannot read the link {tmp_path}/link" in done.stderr


def test_launcher_runs_in_a_strict_shell(tree: Tree) -> None:
    strict = Tree([*tree.shell, "-eu"], tree.home)
    assert strict.run("x").stdout == "wide|x"


def test_launcher_ignores_cdpath_and_field_separators(tree: Tree) -> None:
    done = tree.run("x", script="ml_run", cwd=tree.home, env={"CDPATH": "/:/tmp", "IFS": "aeiou/"})
    assert done.stdout == "wide|x"


def test_launcher_leaves_standard_input_to_the_program(tree: Tree) -> None:
    (tree.home / "bin/ml_run-low").write_text("#!/bin/sh\ncat >/dev/null\nexit 10\n")
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
