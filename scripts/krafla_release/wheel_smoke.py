# SPDX-License-Identifier: MIT
"""Install a wheel where paths have spaces and accents, and run every library in it.

    PYTHONPATH=scripts python3 -m krafla_release.wheel --smoke linux-x86_64

Of this machine's architecture the wheel goes into a new environment, of another one beside an
emulated Python (krafla_release.sysroot).  Each library must give the tokens of an ml_run of its
arithmetic class, and refuse a CPU that is too old for it by the name of what the CPU lacks.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import isas
from krafla_release import build, smoke, sysroot, testing
from krafla_release.project import ROOT, ReleaseError, VerificationError, output, run

if TYPE_CHECKING:
    from krafla_release.archives import Archive

POSITIONS = 16
SECONDS = 300  # of an emulated start, after which it hangs
NEEDS = ("cffi", "pycparser")  # what the package depends on
PROGRAM = f"""\
import sys, krafla
print(krafla.__file__)
print(krafla.isa())
prompt = [{smoke.TOKENS}]
with krafla.Model.open(sys.argv[1]) as model, model.session(ctx={POSITIONS}) as session:
    print(*prompt, *session.generate(prompt))
"""


@dataclasses.dataclass
class Installed:
    """An installed wheel, the Python that runs it, and what its libraries have to print."""

    archive: Archive
    place: Path
    python: Path
    env: dict[str, str]
    model: Path
    answers: dict[bool, str] = dataclasses.field(default_factory=dict)

    @property
    def rows(self) -> list[isas.Isa]:
        """The rows that the wheel has libraries of, fastest first."""
        return isas.load(self.archive.arch, built=True, ship=True)

    def start(self, chosen: str = "", cpu: str = "") -> subprocess.CompletedProcess[str]:
        """Run the program by a library, on a CPU."""
        before = self.runner(cpu)
        chosen_by = {"KRAFLA_ISA": chosen} if chosen else {}
        env = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **self.env, **chosen_by}
        shown = [f"{name}={value}" for name, value in chosen_by.items()]
        shown += [*before, str(self.python), "program.py", self.model.name]
        print("+", shlex.join(shown), flush=True)
        try:
            return subprocess.run(
                [*before, self.python, "program.py", self.model],
                cwd=self.place,
                env=env,
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise VerificationError(f"it hangs: {shlex.join(shown)}") from None

    def runner(self, cpu: str) -> list[str]:
        """Return the emulator of a CPU; nothing for this machine's own."""
        return [isas.EMULATORS[self.archive.arch], "-cpu", cpu] if cpu else []

    def expect_tokens(self, isa: isas.Isa, chosen: str = "", cpu: str = "") -> None:
        """Fail unless this library is loaded from here and prints what its class prints."""
        done = self.start(chosen, cpu)
        if done.returncode:
            raise VerificationError(
                f"{isa.name} ended with code {done.returncode}: {done.stderr.strip()[-500:]}"
            )
        loaded, ran, tokens = done.stdout.splitlines()
        if not Path(loaded).is_relative_to(self.place):
            raise VerificationError(f"{loaded} was imported instead of the wheel's")
        testing.expect(f"the library on {cpu or 'this CPU'}", isa.name, ran)
        if isa.fused not in self.answers:
            self.answers[isa.fused] = answer(self.model, fused=isa.fused)
        if tokens != self.answers[isa.fused]:
            raise VerificationError(
                f"{isa.name} gave {tokens}, ml_run of its class {self.answers[isa.fused]}"
            )

    def expect_refusal(self, isa: isas.Isa, words: str, cpu: str = "") -> None:
        """Fail unless this library says in its exception what the CPU lacks."""
        done = self.start(isa.name, cpu)
        said = (done.stderr.strip().splitlines() or [""])[-1]
        if done.returncode != 1 or "KraflaCpuError: " not in said or words not in said:
            raise VerificationError(f"{isa.name} was to say {words!r}, it said: {said!r}")
        print(f"  {said}")


def answer(model: Path, *, fused: bool) -> str:
    """Return the tokens of an ml_run of a class that this CPU can run."""
    for isa in isas.load(build.host_arch(), built=True):
        if isa.fused == fused:
            program = build.build_dir(isa) / "ml_run"
            build.make(isa, str(program.relative_to(ROOT)))
            if testing.runs_here(isa) is None:
                return output(program, model, "--tokens", smoke.TOKENS, "-n", str(POSITIONS))
    raise ReleaseError("this CPU runs no ml_run of that arithmetic class to compare with")


def new_environment(place: Path, wheel: Path) -> Path:
    """Install a wheel into a new environment without a network and return its Python."""
    run(sys.executable, "-m", "venv", place / "venv")
    python = place / "venv" / "bin" / "python"
    site = Path(output(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"))
    for name in NEEDS:  # as they are installed here, with what tells pip that they are there
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or []:
            if ".." not in file.parts:
                (site / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(str(distribution.locate_file(file)), site / file)
    options = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-cache-dir")
    run(python, "-m", "pip", "install", *options, wheel)
    return python


def beside_emulated_python(place: Path, wheel: Path) -> Path:
    """Install a wheel for an emulated Python; pip checks that its name says the platform."""
    target = place / "site"
    options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
    options += ["--only-binary=:all:", "--implementation=py", "--target", str(target)]
    options += [f"--platform={wheel.stem.split('-')[-1]}"]
    run(sys.executable, "-m", "pip", "install", *options, wheel)
    return target


def install(archive: Archive, wheel: Path, place: Path) -> Installed | None:
    """Install a wheel as it can be here."""
    (place / "program.py").write_text(PROGRAM)
    model, _ = smoke.make_files(place)
    if archive.arch == build.host_arch():
        return Installed(archive, place, new_environment(place, wheel), {}, model)
    root = sysroot.path(archive.arch)
    if not (root / sysroot.PYTHON).exists():
        testing.not_run(f"smoke of {wheel.name}", f"no Python of {archive.arch}: nox -s wheel-arm")
        return None
    site = beside_emulated_python(place, wheel)
    env = {"PYTHONPATH": str(site), "QEMU_LD_PREFIX": str(root)}
    return Installed(archive, place, root / sysroot.PYTHON, env, model)


def smoke_native(installed: Installed) -> None:
    """Run every library here; one that this CPU is too old for must say so."""
    fitting = []
    for isa in installed.rows:
        build.make(isa, str((build.build_dir(isa) / "ml_run").relative_to(ROOT)))
        refusal = testing.runs_here(isa)
        if refusal is None:
            fitting.append(isa)
            installed.expect_tokens(isa, isa.name)
        else:
            installed.expect_refusal(isa, refusal.removeprefix("error: "))
    installed.expect_tokens(fitting[0])


def smoke_emulated(installed: Installed) -> None:
    """Run the choice on each emulated CPU, and let the next faster library refuse it."""
    emulator = isas.EMULATORS[installed.archive.arch]
    if not shutil.which(emulator):
        testing.not_run("smoke of the wheel on emulated CPUs", f"{emulator} not installed")
        return
    faster: isas.Isa | None = None
    seen: set[str] = set()
    for isa in installed.rows:
        if isa.cpu and isa.cpu != testing.VNNIRUN:
            installed.expect_tokens(isa, isa.name if isa.cpu in seen else "", isa.cpu)
            if faster and isa.cpu not in seen:
                installed.expect_refusal(faster, f"CPU lacks {faster.needs[0]} ", isa.cpu)
            seen.add(isa.cpu)
        faster = isa


def prove(archive: Archive, wheel: Path, place: Path) -> None:
    """Install and run one wheel in a directory that is there for it."""
    installed = install(archive, wheel, place)
    if installed is None:
        return
    if archive.arch == build.host_arch():
        smoke_native(installed)
    smoke_emulated(installed)
    print(f"smoke: {wheel.name} passed")
