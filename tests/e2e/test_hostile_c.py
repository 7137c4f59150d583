# SPDX-License-Identifier: MIT
"""The C reader against the hostile corpus: the same verdicts as the Python reader, and no harm.

    KRAFLA_BUILD=build/scalar .venv/bin/python -m pytest tests/e2e/test_hostile_c.py

The reader is the same code in every build of an architecture: the scalar one and that of the
sanitizers read the whole corpus, others a part of it.
"""

from __future__ import annotations

import itertools
import os
import re
import resource
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hostile
import hostile_base
from mlb.envelope import CONTROL, FormatError
from mlb.format import read_model

if TYPE_CHECKING:
    from tests.conftest import Krafla, NotRun

BATCH = 2000  # files per run of the reader
EVERY = 11  # of the corpus, where the reader is that of another build
# What happens to files on their way: here both readers use the same words.
SAME_WORDS = re.compile("llama-(foreign|truncated|trailing|magic|version|min-version|sparse)-")


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory that is gone after the test, however many files were in it."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def python_verdict(path: Path) -> str:
    """Return what test_mlb would print, by the Python reader."""
    try:
        read_model(path)
    except FormatError as error:
        return str(error).replace(f"{path.parent}/", "")
    return f"{path.name}: ok"


@pytest.fixture
def cases(build_dir: Path) -> Iterator[hostile_base.Case]:
    """Return the part of the corpus that this build reads."""
    name, *more = build_dir.name.split("-")
    whole = name == "scalar" or "asan" in more
    return itertools.islice(hostile.cases(), 0, None, 1 if whole else EVERY)


def test_both_readers_agree_on_hostile_files(
    krafla: Krafla, directory: Path, emulator: list[str], cases: Iterator[hostile_base.Case]
) -> None:
    native = not emulator  # a 32-bit guest refuses 5 GiB for their size alone
    wrong = []
    while batch := list(itertools.islice(cases, BATCH)):
        paths = [case.write(directory) for case in batch]
        done = krafla("test_mlb", *(path.name for path in paths), cwd=directory)
        assert done.returncode == 0, done.stderr.decode()
        lines = done.stdout.decode().splitlines()
        assert len(batch) == len(lines)
        for case, path, line in zip(batch, paths, lines, strict=True):
            refused, python = line != f"{path.name}: ok", python_verdict(path)
            agree = line == python if SAME_WORDS.match(case.name) else refused == (";" in python)
            if not agree and (native or not case.size):
                wrong.append((line, python))
            if refused:
                assert line.startswith(f"{path.name}: "), line
                assert not CONTROL.search(line), line
                assert ";" in line, f"no remedy: {line}"
            path.unlink()
    assert wrong == []


CHOSEN = (
    *("foreign-empty", "foreign-html", "foreign-gguf", "foreign-safetensors", "foreign-lfs"),
    *("foreign-first-format", "foreign-crlf", "truncated-100", "trailing-1", "version-2"),
    *("json-deep", "json-many-keys", "json-many-values", "tensors-swapped-1", "sparse-zeros"),
    *("sparse-trailing", "sparse-html", "sparse-wrapping"),
)


@pytest.fixture
def native(emulator: list[str], not_run: NotRun) -> None:
    """Leave the test out in an emulator, whose memory says nothing about its guest's."""
    if emulator:
        not_run("an emulator's memory is not its guest's")


@pytest.fixture(scope="module")
def chosen() -> dict[str, hostile_base.Case]:
    """Return the cases that ml_run itself is given."""
    names = {f"llama-{name}" for name in CHOSEN}
    return {case.name: case for case in hostile.cases() if case.name in names}


@pytest.mark.parametrize("name", CHOSEN)
def test_ml_run_refuses_a_hostile_file_in_one_line(
    name: str, chosen: dict[str, hostile_base.Case], krafla: Krafla, directory: Path
) -> None:
    path = chosen[f"llama-{name}"].write(directory)
    done = krafla("ml_run", path, "--tokens", "1", "-n", "2", timeout=20)
    assert (done.returncode, done.stdout) == (1, b"")
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith(f"error: {path}: ")


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("name", [name for name in CHOSEN if name.startswith(("sparse", "json"))])
def test_refusing_a_hostile_file_takes_little_memory(
    name: str,
    chosen: dict[str, hostile_base.Case],
    build_dir: Path,
    directory: Path,
) -> None:
    path = chosen[f"llama-{name}"].write(directory)
    ours = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # the child's peak begins with it
    command = [build_dir / "test_mlb", path]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    assert usage.ru_maxrss < ours + (32 << 10)


def test_ml_run_names_a_file_that_is_not_there(krafla: Krafla, directory: Path) -> None:
    done = krafla("ml_run", directory / "none.mlb", "--tokens", "1")
    expected = f"error: {directory / 'none.mlb'}: cannot open: No such file or directory\n"
    assert (done.returncode, done.stderr.decode()) == (1, expected)
