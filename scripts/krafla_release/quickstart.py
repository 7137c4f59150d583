# SPDX-License-Identifier: MIT
"""From a fresh checkout to an answer: build, fetch a model, convert, package, unpack, ask.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.quickstart

`make quickstart` runs this after scripts/bootstrap.sh.  What is done and current is not done again.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import archives, package
from krafla_release.project import ROOT, ReleaseError, exit_code, run, unpack

if TYPE_CHECKING:
    from collections.abc import Sequence

NAME = "smollm2-135m-instruct"
CHECKPOINT = ROOT / "models" / NAME
CONVERTED = ROOT / "build" / "models"
# Both arithmetic classes answer it alike: every token of the answer is 0.9 or more ahead.
QUESTION = "What is the capital of Japan?"
ANSWER = "Tokyo"


def question(tokenizer: Path) -> list[str]:
    """Return ml_run's arguments after the model: one question, answered greedily."""
    return ["-z", str(tokenizer), "--chat", "smollm", "-i", QUESTION]


def convert(tools: Path) -> tuple[Path, Path]:
    """Return the converted model and tokenizer; convert unless current."""
    model, tokenizer = CONVERTED / f"{NAME}-q8.mlb", CONVERTED / f"{NAME}.mlt"
    sources = [CHECKPOINT / "model.safetensors", *sorted((ROOT / "tools").rglob("*.py"))]
    newest = max(path.stat().st_mtime for path in sources)
    if all(path.is_file() and path.stat().st_mtime > newest for path in (model, tokenizer)):
        print(f"{model.relative_to(ROOT)} is current")
        return model, tokenizer
    CONVERTED.mkdir(parents=True, exist_ok=True)
    run(sys.executable, tools / "convert.py", "hf", CHECKPOINT, model, "--wtype", "q8")
    run(sys.executable, tools / "convert_tokenizer.py", CHECKPOINT / "tokenizer.json", tokenizer)
    return model, tokenizer


def ask(archive: Path, model: Path, tokenizer: Path) -> None:
    """Unpack the archive somewhere else and start it as a user would."""
    with tempfile.TemporaryDirectory(prefix="krafla-quickstart-") as temporary:
        unpack(archive, Path(temporary))
        (home,) = Path(temporary).iterdir()
        words = ["./ml_run", str(model), *question(tokenizer)]
        print(f"+ cd {home} && {shlex.join(words)}", flush=True)
        done = subprocess.run(words, cwd=home, stdin=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise ReleaseError(f"ml_run ended with code {done.returncode}")


def quickstart() -> None:
    """Do all of it."""
    run(sys.executable, "scripts/fetch_models.py", NAME)
    model, tokenizer = convert(ROOT / "tools")
    archive = package.package(archives.find(package.default_archive()))
    ask(archive, model, tokenizer)
    print(f"\nThe archive is {archive.relative_to(ROOT)}; the model is {model.relative_to(ROOT)}.")


def main(argv: Sequence[str] | None = None) -> int:
    """Take no arguments and do it."""
    if argv or (argv is None and sys.argv[1:]):
        print("usage: quickstart", file=sys.stderr)
        return 2
    return exit_code(quickstart)


if __name__ == "__main__":
    sys.exit(main())
