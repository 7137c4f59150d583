# SPDX-License-Identifier: MIT
"""Unpack a release archive where paths have spaces and accents, and run everything in it.

    PYTHONPATH=scripts python3 -m krafla_release.smoke linux-x86_64

Every program of every build runs with a small random model, natively or on the emulated CPU that
isas.txt names; each emulated CPU must get the build made for it; the builds of one arithmetic class
must print the same tokens.  A real model answers a question if models/ has one.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import build, package, project, quickstart
from krafla_release.project import ROOT, ReleaseError, exit_code, output, run
from krafla_release.testing import VNNIRUN, not_run, vnnirun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from krafla_release.archives import Archive

TOKENS = "1,5,9,2,7,3"
CPU_VARIABLE = "KRAFLA_SMOKE_CPU"
# One wrapper per build: the emulator does not follow exec, so the launcher's children bring it.
WRAPPER = """#!/bin/sh
exec {emulator} -cpu "${CPU_VARIABLE}" "${{0%/*}}/../real/${{0##*/}}" "$@"
"""


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

    @property
    def native(self) -> bool:
        """Whether this machine is of the archive's architecture."""
        return self.archive.arch == build.host_arch()

    def fits(self, isa: isas.Isa) -> bool:
        """Return whether this CPU can run a build of the archive."""
        probe: list[str | Path] = [self.home / "bin" / f"ml_run-{isa.name}", "--probe"]
        return subprocess.run(probe, capture_output=True, check=False).returncode == 0

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
        shown = [f"{name}={value}" for name, value in (env or {}).items()]
        words = [*runner, str(self.home / program), *map(str, args)]
        print("+", *shown, *runner, f"./{program}", shlex.join(map(str, args)), flush=True)
        done = subprocess.run(
            words,
            input=text,
            capture_output=True,
            text=True,
            env=os.environ | (env or {}),
            timeout=600,
            check=False,
        )
        if done.returncode != code:
            raise ReleaseError(
                f"{program} ended with code {done.returncode}, want {code}: {done.stderr.strip()}"
            )
        return done

    def generate(
        self, env: dict[str, str] | None = None, runner: Sequence[str] = ()
    ) -> tuple[str, str]:
        """Return the build that ran and the tokens that the random model gives."""
        done = self.call(
            "ml_run", self.model, "--tokens", TOKENS, "-n", "16", env=env, runner=runner
        )
        found = re.search(r"\bisa: (\w+)", done.stderr)
        if not found:
            raise ReleaseError(f"ml_run did not say its isa: {done.stderr.strip()}")
        return found[1], done.stdout

    def expect_answer(self, isa: isas.Isa, tokens: str) -> None:
        """Fail unless all builds of an arithmetic class, emulated or not, give the same tokens."""
        known = self.answers.setdefault(isa.fused, tokens)
        if known != tokens:
            raise ReleaseError(f"{isa.name} printed {tokens!r}, its class printed {known!r} before")

    def run_every_program(self, env: dict[str, str] | None = None) -> None:
        """Run what generate() does not: the benchmark and the tokenizer."""
        self.call("ml_bench", self.model, "-n", "4", env=env)
        ids = self.call("ml_tok", self.tokenizer, text="Hello, world", env=env).stdout
        back = self.call("ml_tok", self.tokenizer, "--decode", text=ids, env=env).stdout
        if "Hello, world" not in back:
            raise ReleaseError(f"ml_tok: 'Hello, world' came back as {back!r} through ids {ids!r}")


def unpack(archive: Archive, place: Path) -> Path:
    """Return the directory of the unpacked archive."""
    path = package.DIST / f"{package.file_name(archive)}.tar.gz"
    if not path.is_file():
        raise ReleaseError(f"{path.relative_to(ROOT)} is not there: invoke package")
    project.unpack(path, place)
    return place / package.file_name(archive)


def make_files(place: Path) -> tuple[Path, Path]:
    """Return a small random model and a tokenizer for it."""
    model, tokenizer = place / "random model.mlb", place / "tokenizer.bin"
    run(sys.executable, "tools/gen_random.py", "--wtype", "q8", "--out", model)
    run(sys.executable, "tools/gen_tokenizer.py", "--out", tokenizer)
    return model, tokenizer


def smoke_native(release: Release) -> None:
    """Run every build here; a build that this CPU refuses must say so with code 3."""
    fitting = []
    for isa in release.rows:
        chosen = {"KRAFLA_ISA": isa.name}
        if not release.fits(isa):
            refused = release.call("ml_run", release.model, "--tokens", "1", code=3, env=chosen)
            if not refused.stderr.startswith("error: CPU lacks "):
                raise ReleaseError(f"{isa.name} refused without a reason: {refused.stderr!r}")
            if isa.cpu != VNNIRUN:  # smoke_levels runs it
                not_run(f"smoke of {isa.name} on this CPU", refused.stderr.strip())
            continue
        fitting.append(isa.name)
        ran, tokens = release.generate(chosen)
        expect(f"KRAFLA_ISA={isa.name}", isa.name, ran)
        release.expect_answer(isa, tokens)
        release.run_every_program(chosen)
    expect("the launcher's choice", fitting[0], release.generate()[0])
    release.call("ml_run", release.model, "--tokens", "1", code=2, env={"KRAFLA_ISA": "../ml_run"})
    release.call("ml_run", "--no-such-option", code=2)
    release.call("ml_run", release.home / "no such file", "--tokens", "1", code=1)


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


def smoke_emulated(release: Release) -> None:
    """Let the launcher choose on each emulated CPU, and run the choice."""
    emulator = isas.EMULATORS[release.archive.arch]
    if not shutil.which(emulator):
        not_run("smoke on emulated CPUs", f"{emulator} not installed")
        return
    (release.home / "bin").rename(release.home / "real")
    (release.home / "bin").mkdir()
    for real in (release.home / "real").iterdir():
        wrapper = release.home / "bin" / real.name
        wrapper.write_text(WRAPPER.format(emulator=emulator, CPU_VARIABLE=CPU_VARIABLE))
        wrapper.chmod(0o755)
    fastest_of_cpu: dict[str, isas.Isa] = {}
    for isa in release.rows:
        if isa.cpu and isa.cpu != VNNIRUN:
            fastest_of_cpu.setdefault(isa.cpu, isa)
    for cpu, isa in fastest_of_cpu.items():
        on_cpu = {CPU_VARIABLE: cpu}
        ran, tokens = release.generate(on_cpu)
        release.expect_answer(isa, tokens)
        expect(f"the launcher's choice on {cpu}", isa.name, ran)
        release.run_every_program(on_cpu)


def smoke_tools(release: Release) -> None:
    """Run the archive's own Python tools, which must find all they need inside it."""
    for tool in ("convert.py", "convert_tokenizer.py", "perplexity.py"):
        output(sys.executable, "-E", "-s", release.home / "tools" / tool, "--help")


def smoke_real(release: Release) -> None:
    """Ask a real model a question, if `make quickstart` or `make check` has fetched one."""
    if not quickstart.CHECKPOINT.is_dir():
        not_run("smoke with a real model", "python3 scripts/fetch_models.py was not run")
        return
    model, tokenizer = quickstart.convert(release.home / "tools")
    done = release.call("ml_run", model, *quickstart.question(tokenizer))
    print(done.stdout.strip())
    if quickstart.ANSWER not in done.stdout:
        raise ReleaseError(f"asked {quickstart.QUESTION!r}, the model said: {done.stdout!r}")


def expect(what: str, want: str, got: str) -> None:
    """Fail unless the right build ran."""
    if want != got:
        raise ReleaseError(f"{what}: {got} ran, want {want}")
    print(f"  {what}: {got}")


def smoke(archive: Archive) -> None:
    """Prove one archive."""
    with tempfile.TemporaryDirectory(prefix="krafla smoke (é ü) ") as temporary:
        place = Path(temporary)
        release = Release(archive, unpack(archive, place), *make_files(place))
        smoke_tools(release)
        if release.native:
            smoke_native(release)
            smoke_real(release)
        if archive.arch == build.host_arch() == "x86_64":
            smoke_levels(release)
        smoke_emulated(release)
    print(f"smoke: {archive.name} passed")


def main(argv: Sequence[str] | None = None) -> int:
    """Prove one archive of dist/."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    package.add_arguments(parser)
    args = parser.parse_args(argv)

    def work() -> None:
        for archive in package.choose(args.archive, every=args.all):
            smoke(archive)

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
