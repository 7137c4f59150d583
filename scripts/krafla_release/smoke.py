# SPDX-License-Identifier: MIT
"""Unpack a release archive where paths have spaces and accents, and run everything in it.

    PYTHONPATH=scripts python3 -m krafla_release.smoke linux-x86_64

Every program of every build runs with a small random model: natively, on the table of emulated
CPUs (emulated.CPUS), or by Wine.  On each CPU the launcher must start the fastest build that fits,
and a build that does not must refuse by the name of what the CPU lacks; the builds of one
arithmetic class must print the same tokens.  A real model answers a question if models/ has one.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import (
    archives,
    build,
    docs_tables,
    emulated,
    package,
    packed,
    quickstart,
    wine,
)
from krafla_release.project import (
    ROOT,
    ReleaseError,
    VerificationError,
    exit_code,
    output,
    run,
    version,
)
from krafla_release.testing import VNNIRUN, expect, not_run, vnnirun

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from krafla_release.archives import Archive
    from krafla_release.emulated import Cpu

TOKENS = "1,5,9,2,7,3"
TEXT = "Grüße, 漢字 and a 😀"
PROMPT = "Japanese: 日本語、東京、大阪、京都、"  # which a real model goes on with in kind
POSITIONS = len(PROMPT.encode()) + 32  # a tokenizer that knows no word of it gives a token per byte
SECONDS = 600  # after which a program hangs
LANES = 2  # emulated CPUs at a time
CONTEXT = ("--ctx", "128")  # enough for a question and its answer
CLASSES = {True: "fused", False: "unfused"}
CPU_VARIABLE = "KRAFLA_SMOKE_CPU"
CHOICES = ("KRAFLA_ISA", "ISA_LM_ISA")  # what a user may have set, and a smoke test must not see
# One wrapper per build: the emulator does not follow exec, so the launcher's children bring it.
WRAPPER = """#!/bin/sh
exec {emulator} -cpu "${CPU_VARIABLE}" "${{0%/*}}/../real/${{0##*/}}" "$@"
"""
# Where users of Windows keep such things.
WINDOWS_PLACE = wine.DRIVE_C / "users" / "Ünal" / "My Models (x)"


@dataclasses.dataclass(frozen=True)
class Release:
    """An unpacked archive, the rows it has builds of, and small files to run them with."""

    archive: Archive
    home: Path
    model: Path
    tokenizer: Path
    answers: dict[bool, str] = dataclasses.field(default_factory=dict)

    @property
    def rows(self) -> list[isas.Isa]:
        """The rows of isas.txt that the archive has builds of, fastest first."""
        return isas.load(self.archive.arch, built=True, ship=True)

    def fits(self, isa: isas.Isa) -> bool:
        """Return whether this CPU can run a build of the archive."""
        probe: list[str | Path] = [self.home / "bin" / f"ml_run-{isa.name}", "--probe"]
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0

    def path(self, file: Path) -> str:
        """Return how the programs name a file."""
        return str(file)

    def start(
        self, program: str, args: list[str], text: bytes, env: dict[str, str], runner: Sequence[str]
    ) -> subprocess.CompletedProcess[bytes]:
        """Start a program of the archive by its launcher."""
        kept = {name: value for name, value in os.environ.items() if name not in CHOICES}
        return subprocess.run(
            [*runner, self.home / program, *args],
            input=text,
            capture_output=True,
            env=kept | env,
            timeout=SECONDS,
            check=False,
        )

    def call(
        self,
        program: str,
        *args: str | Path,
        code: int = 0,
        text: str = "",
        env: dict[str, str] | None = None,
        runner: Sequence[str] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a program of the archive and check its exit code."""
        words = [self.path(word) if isinstance(word, Path) else word for word in args]
        shown = [f"{name}={value}" for name, value in (env or {}).items()]
        line = shlex.join([*shown, *runner, f"./{program}", *words])
        print(f"+ {line}\n", end="", flush=True)  # in one piece beside the other lane's
        try:
            done = self.start(program, words, text.encode(), env or {}, runner)
        except subprocess.TimeoutExpired:
            raise VerificationError(f"not done after {SECONDS} s: {line}") from None
        said = emulated.own_words(done.stderr.decode(errors="backslashreplace"))
        out = done.stdout.decode(errors="surrogateescape")  # as many bytes as it printed
        if done.returncode != code:
            words_of_it = said.strip() or ascii(out)
            raise VerificationError(
                f"{line} ended with code {done.returncode}, want {code}: {words_of_it}"
            )
        return subprocess.CompletedProcess(done.args, code, out, said)

    def generate(
        self, env: dict[str, str] | None = None, runner: Sequence[str] = ()
    ) -> tuple[str, str]:
        """Return the build that ran and the tokens that the random model gives."""
        done = self.call(
            "ml_run", self.model, "--tokens", TOKENS, "-n", "16", env=env, runner=runner
        )
        found = re.search(r"\bisa: (\w+)", done.stderr)
        if not found:
            raise VerificationError(f"ml_run did not say its isa: {done.stderr.strip()}")
        return found[1], done.stdout

    def expect_answer(self, isa: isas.Isa, tokens: str) -> None:
        """Fail unless all builds of an arithmetic class, emulated or not, give the same tokens."""
        known = self.answers.setdefault(isa.fused, tokens)
        if known != tokens:
            raise VerificationError(
                f"{isa.name} printed {tokens!r}, its class printed {known!r} before"
            )

    def expect_refusal(self, isa: isas.Isa, lacks: str, env: dict[str, str]) -> None:
        """Fail unless a chosen build says what the CPU lacks; it names the first of its needs."""
        said = self.call(
            "ml_run", self.model, "--tokens", "1", code=3, env=env | {"KRAFLA_ISA": isa.name}
        ).stderr
        if said.strip() != f"error: CPU lacks {lacks} required by ISA={isa.name}":
            raise VerificationError(f"{isa.name} is for a CPU with {lacks}, but said: {said!r}")

    def run_every_program(self, isa: isas.Isa, env: dict[str, str]) -> None:
        """Run what generate() does not: what every program answers, benchmark and tokenizer."""
        for program in archives.programs():
            said = self.call(program, "--version", env=env).stdout
            expect_text(f"{program} --version", f"{program} {version()}, isa: {isa.name}\n", said)
            if f"{program} - " not in self.call(program, "--help", env=env).stdout:
                raise VerificationError(f"{program} --help does not say what it is")
        self.call("ml_bench", self.model, "-n", "4", env=env)
        ids = self.call("ml_tok", self.tokenizer, text=TEXT, env=env).stdout
        back = self.call("ml_tok", self.tokenizer, "--decode", text=ids, env=env).stdout
        if TEXT not in back:
            raise VerificationError(f"ml_tok: {TEXT!r} came back as {back!r} through ids {ids!r}")

    def expect_codes(self, env: dict[str, str]) -> None:
        """Fail unless the launcher keeps the codes of errors; code 3 belongs to the refusals."""
        hostile = env | {"KRAFLA_ISA": "../ml_run"}
        self.call("ml_run", self.model, "--tokens", "1", code=2, env=hostile)
        self.call("ml_run", "--no-such-option", code=2, env=env)
        self.call("ml_run", self.home / "no such file", "--tokens", "1", code=1, env=env)


@dataclasses.dataclass(frozen=True)
class WindowsRelease(Release):
    """The same of the archive for Windows, by Wine."""

    def fits(self, isa: isas.Isa) -> bool:
        """Return whether this CPU can run a build of the archive."""
        return wine.call(self.home / "bin" / f"ml_run-{isa.name}.exe", "--probe").returncode == 0

    def path(self, file: Path) -> str:
        """Return how the programs name a file."""
        return wine.windows_path(file)

    def start(
        self, program: str, args: list[str], text: bytes, env: dict[str, str], runner: Sequence[str]
    ) -> subprocess.CompletedProcess[bytes]:
        """Start a program of the archive by its launcher, as it is started in a console."""
        nothing = dict.fromkeys(CHOICES, "")
        return wine.call(
            *runner,
            "cmd",
            "/c",
            f"{program}.cmd",
            *args,
            env=nothing | env,
            text=text,
            cwd=self.home,
        )


def unpack(archive: Archive, place: Path, directory: Path = package.DIST) -> Path:
    """Return the directory of the unpacked archive, whose members have names that stay in it."""
    path = package.path_of(archive, directory)
    if not path.is_file():
        shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
        raise ReleaseError(f"{shown} is not there: invoke package --archive {archive.name}")
    for member in packed.read(path):
        file = place / member.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(member.data)
        file.chmod(member.mode)
    return place / package.file_name(archive)


def make_files(place: Path) -> tuple[Path, Path]:
    """Return a small random model and a tokenizer for it."""
    model, tokenizer = place / "random model.mlb", place / "tokenizer.bin"
    run(sys.executable, "tools/gen_random.py", "--wtype", "q8", "--out", model)
    run(sys.executable, "tools/gen_tokenizer.py", "--out", tokenizer)
    return model, tokenizer


@functools.cache
def answers() -> dict[bool, str]:
    """Return what each class printed in this process: the archives have to agree as well."""
    return {}


def smoke_here(release: Release) -> list[isas.Isa]:
    """Run every build on this CPU; one that does not fit must say so.  Return those that do."""
    fitting = []
    for isa in release.rows:
        chosen = {"KRAFLA_ISA": isa.name}
        if not release.fits(isa):
            refused = release.call("ml_run", release.model, "--tokens", "1", code=3, env=chosen)
            if not refused.stderr.startswith("error: CPU lacks "):
                raise VerificationError(f"{isa.name} refused without a reason: {refused.stderr!r}")
            if isa.cpu != VNNIRUN or release.archive.system == "windows":  # else smoke_levels
                not_run(f"smoke of {release.archive.name}: {isa.name}", refused.stderr.strip())
            continue
        fitting.append(isa)
        ran, tokens = release.generate(chosen)
        expect(f"KRAFLA_ISA={isa.name}", isa.name, ran)
        release.expect_answer(isa, tokens)
        release.run_every_program(isa, chosen)
    expect("the launcher's choice", fitting[0].name, release.generate()[0])
    release.expect_codes({})
    return fitting


def smoke_levels(release: Release) -> None:
    """Let the launcher choose on this CPU with the features of each faster one hidden, and run."""
    fitting = [isa for isa in release.rows if isa.cpu == VNNIRUN or release.fits(isa)]
    for isa in fitting:
        runner = vnnirun(isa.name)
        if isa.cpu == VNNIRUN and "--fast" not in runner:
            not_run(f"smoke of {isa.name}", "this CPU has nothing to stand in for AVX-VNNI")
            continue
        ran, tokens = release.generate(runner=runner)
        expect(f"the launcher's choice at level {isa.name}", isa.name, ran)
        release.expect_answer(isa, tokens)


def wrap(release: Release, emulator: str) -> None:
    """Put a script in the place of each build that starts it on the CPU of CPU_VARIABLE."""
    (release.home / "bin").rename(release.home / "real")
    (release.home / "bin").mkdir()
    for real in (release.home / "real").iterdir():
        wrapper = release.home / "bin" / real.name
        wrapper.write_text(WRAPPER.format(emulator=emulator, CPU_VARIABLE=CPU_VARIABLE))
        wrapper.chmod(0o755)


def smoke_cpu(release: Release, cpu: Cpu) -> tuple[isas.Isa, str]:
    """Start the launcher on an emulated CPU; return the build that had to run, and its tokens."""
    on_cpu = {CPU_VARIABLE: cpu.model}
    isa = emulated.fastest(cpu, release.rows)
    ran, tokens = release.generate(on_cpu)
    expect(f"the launcher's choice on {cpu.model}", isa.name, ran)
    for row in release.rows:
        lacks = emulated.lacking(cpu, row)
        if lacks:
            release.expect_refusal(row, lacks, on_cpu)
    return isa, tokens


def smoke_emulated(release: Release) -> list[str]:
    """Run the archive on each emulated CPU and return a table of what was started there."""
    emulator = isas.EMULATORS[release.archive.arch]
    if not shutil.which(emulator):
        not_run(f"smoke of {release.archive.name} on emulated CPUs", f"{emulator} not installed")
        return []
    wrap(release, emulator)
    cpus = emulated.launcher_cpus(release.archive.arch)
    with ThreadPoolExecutor(LANES) as pool:
        cells = list(pool.map(lambda cpu: smoke_cpu(release, cpu), cpus))
    for isa, tokens in cells:
        release.expect_answer(isa, tokens)
    if release.archive.arch != build.host_arch():
        started = {
            isa: {CPU_VARIABLE: cpu.model} for cpu, (isa, _) in zip(cpus, cells, strict=True)
        }
        with ThreadPoolExecutor(LANES) as pool:
            list(pool.map(lambda item: release.run_every_program(*item), started.items()))
        on_fastest = started[min(started, key=release.rows.index)]
        release.expect_codes(on_fastest)
        smoke_real(release, on_fastest)
    return [row_of_table(release, cpu, *cell) for cpu, cell in zip(cpus, cells, strict=True)]


def row_of_table(release: Release, cpu: Cpu, started: isas.Isa, tokens: str) -> str:
    """Return the line of a CPU in the table of launchers."""
    lacks = {isa.name: emulated.lacking(cpu, isa) for isa in release.rows}
    refused = ", ".join(f"{name} ({need})" for name, need in lacks.items() if need)
    same = f"{hashlib.sha256(tokens.encode()).hexdigest()[:8]} as all {CLASSES[started.fused]}"
    return f"  {cpu.model:32} {started.name:13} {same:22} refuses {refused or 'none'}"


def smoke_tools(release: Release) -> None:
    """Run the archive's own Python tools, which must find all they need inside it."""
    for tool in docs_tables.TOOLS:
        output(sys.executable, "-E", "-s", release.home / "tools" / tool, "--help")


def smoke_real(release: Release, env: dict[str, str] | None = None) -> None:
    """Ask a real model a question, if `make quickstart` or `make check` has fetched one."""
    if not quickstart.CHECKPOINT.is_dir():
        what = f"smoke of {release.archive.name} with a real model"
        not_run(what, "python3 scripts/fetch_models.py was not run")
        return
    model, tokenizer = quickstart.convert(release.home / "tools")
    words = quickstart.question(Path(release.path(tokenizer)))
    answer = release.call("ml_run", model, *words, *CONTEXT, env=env).stdout
    print(f"  {answer.strip()!a}", flush=True)
    if quickstart.ANSWER not in answer:
        raise VerificationError(f"asked {quickstart.QUESTION!r}, the model said: {answer!r}")


def smoke_twins(release: Release, isa: isas.Isa) -> None:
    """Give a Windows build and its Linux twin the same text: they must print the same bytes."""
    model, tokenizer = release.model, release.tokenizer
    if quickstart.CHECKPOINT.is_dir():
        model, tokenizer = quickstart.convert(release.home / "tools")
    words: list[str | Path] = [model, "-z", tokenizer, "-i", PROMPT, "-n", str(POSITIONS)]
    here = release.call("ml_run", *words, env={"KRAFLA_ISA": isa.name}).stdout
    twin = build.program_file(isa, "ml_run")
    build.make(isa, str(twin.relative_to(ROOT)))
    done = subprocess.run([twin, *words], capture_output=True, timeout=SECONDS, check=False)
    there = done.stdout.decode(errors="surrogateescape")
    if PROMPT not in there:
        raise VerificationError(f"{twin} did not complete {PROMPT!r}: {done.stderr!r}")
    expect_text("ml_run for Windows, beside that for Linux", there, here)
    print(f"  {len(done.stdout)} bytes, the same as for Linux: {here.strip()!a}")


def expect_text(what: str, want: str, got: str) -> None:
    """Fail unless a program printed what it should."""
    if want != got:
        raise VerificationError(f"{what}: got {got!r}, want {want!r}")


@contextlib.contextmanager
def windows_place() -> Iterator[Path]:
    """Make WINDOWS_PLACE, and remove that user."""
    shutil.rmtree(WINDOWS_PLACE.parent, ignore_errors=True)
    WINDOWS_PLACE.mkdir(parents=True)
    try:
        yield WINDOWS_PLACE
    finally:
        shutil.rmtree(WINDOWS_PLACE.parent, ignore_errors=True)


def smoke_windows(archive: Archive, directory: Path) -> None:
    """Prove the archive for Windows."""
    if reason := wine.missing():
        not_run(f"smoke of {archive.name}", reason)
        return
    with wine.prefix(), windows_place() as place:
        release = WindowsRelease(
            archive, unpack(archive, place, directory), *make_files(place), answers()
        )
        print(f"in {wine.windows_path(release.home)}")
        smoke_tools(release)
        smoke_twins(release, smoke_here(release)[0])
        smoke_real(release)


def smoke_linux(archive: Archive, directory: Path) -> None:
    """Prove an archive for Linux."""
    with tempfile.TemporaryDirectory(prefix="krafla smoke (é ü) ") as temporary:
        place = Path(temporary)
        release = Release(archive, unpack(archive, place, directory), *make_files(place), answers())
        smoke_tools(release)
        if archive.arch == build.host_arch():
            smoke_here(release)
            smoke_real(release)
        if archive.arch == build.host_arch() == "x86_64":
            smoke_levels(release)
        table = smoke_emulated(release)
    if table:
        print("\n".join([f"launchers of {archive.name} on emulated CPUs:", *table]))


def smoke(archive: Archive, directory: Path = package.DIST) -> None:
    """Prove one archive of a directory."""
    start = time.monotonic()
    (smoke_windows if archive.system == "windows" else smoke_linux)(archive, directory)
    print(f"smoke: {archive.name} passed after {time.monotonic() - start:.0f} s")


def main(argv: Sequence[str] | None = None) -> int:
    """Prove archives of dist/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    package.add_arguments(parser)
    parser.add_argument(
        "--dist", type=Path, default=package.DIST, help="where they are (default: dist)"
    )
    args = parser.parse_args(argv)

    def work() -> None:
        for archive in package.choose(args.archive, every=args.all):
            smoke(archive, args.dist.resolve())

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
