# SPDX-License-Identifier: MIT
"""The Python reader refuses every hostile model file in one line and names foreign files.

.venv/bin/python -m pytest tests/py/test_hostile_python.py
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import hostile
import hostile_base
import hostile_sizes
from mlb.envelope import CONTROL, FormatError
from mlb.format import read_model


@pytest.fixture
def directory() -> Iterator[Path]:
    """Return a directory that is gone after the test, however many files were in it."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def verdict(path: Path) -> str:
    """Return the reader's message, or "" if it accepts the file."""
    try:
        read_model(path)
    except FormatError as error:
        return str(error)
    return ""


def test_every_hostile_file_is_refused_in_one_line_and_every_valid_one_read(
    directory: Path,
) -> None:
    wrong = []
    for case in hostile.cases():
        path = case.write(directory)
        message = verdict(path)
        path.unlink()
        if case.refused is not None and bool(message) != case.refused:
            wrong.append((case.name, message))
        if message:
            assert message.startswith(f"{path}: "), message
            assert not CONTROL.search(message), message
            assert ";" in message, f"no remedy: {message}"
    assert wrong == []


FOREIGN = {
    "empty": "the file is empty; download it again",
    "one-byte": "only 1 bytes of a Krafla model (.mlb); download it again",
    "one-other-byte": "is no Krafla file: begins with 78; check the file name",
    "html": "is an HTML or XML page; download the file itself, not the page about it",
    "html-bom": "is an HTML or XML page; download the file itself, not the page about it",
    "xml": "is an HTML or XML page; download the file itself, not the page about it",
    "lfs": "is a Git LFS pointer; run 'git lfs pull' or download the file itself",
    "gguf": "is a GGUF file; convert it with tools/convert.py gguf",
    "safetensors": "is a safetensors checkpoint; convert the checkpoint with tools/convert.py",
    "first-format": "is a file of Krafla's first format; convert the checkpoint again with "
    "tools/convert.py",
    "zip": "is a zip archive or a PyTorch checkpoint; unpack it, or convert the checkpoint with "
    "tools/convert.py",
    "gzip": "is a gzip file; unpack it",
    "pickle": "is a pickled PyTorch checkpoint; convert the checkpoint with tools/convert.py",
    "zeros": "is a file that begins with zeros; the download is not complete: download it again",
    "lf": "is a Krafla file damaged by a transfer as text; transfer it again, as binary",
    "crlf": "is a Krafla file damaged by a transfer as text; transfer it again, as binary",
    "seven-bit": "is a Krafla file damaged by a transfer as text; transfer it again, as binary",
    "utf8": "is a Krafla file damaged by a transfer as text; transfer it again, as binary",
    "utf8-replaced": "is a Krafla file damaged by a transfer as text; transfer it again, as binary",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_file_is_named_with_the_remedy(name: str, directory: Path) -> None:
    files = hostile.foreign_cases(hostile_base.small_model(hostile_base.LLAMA))
    path = next(case for case in files if case.name == f"foreign-{name}").write(directory)
    assert verdict(path) == f"{path}: {FOREIGN[name]}"


def test_a_truncated_download_says_how_much_is_missing(directory: Path) -> None:
    file = hostile_base.small_model(hostile_base.LLAMA)
    path = directory / "m.mlb"
    path.write_bytes(file[:-1000])
    expected = f"{path}: truncated: {len(file) - 1000} of {len(file)} bytes; download it again"
    assert verdict(path) == expected


def test_a_file_for_a_later_krafla_names_it(directory: Path) -> None:
    parts = hostile_base.take_apart(hostile_base.small_model(hostile_base.LLAMA))
    path = directory / "m.mlb"
    header = {**parts.header, "min_version": "7.1.0", "tensors": None}
    path.write_bytes(hostile_base.build(header, parts.data))
    assert ": needs Krafla 7.1.0 or later, this is " in verdict(path)
    text = hostile.file_text(hostile_base.Parts(header, b""))
    path.write_bytes(hostile_base.frame(text, parts.data, version=2))
    assert ": needs Krafla 7.1.0 or later, this is " in verdict(path)


def test_what_is_not_a_file_is_refused(directory: Path) -> None:
    assert verdict(directory).endswith(": is a directory, expected a file; name the file in it")
    missing = directory / "none.mlb"
    assert verdict(missing) == f"{missing}: cannot open: No such file or directory"


def test_control_characters_of_a_file_do_not_reach_the_terminal(directory: Path) -> None:
    parts = hostile_base.take_apart(hostile_base.small_model(hostile_base.LLAMA))
    path = directory / "a\x1b[31m\nb.mlb"
    path.write_bytes(hostile_base.build({**parts.header, "\x1b[2J\n": 1}, parts.data))
    assert not CONTROL.search(verdict(path))


def test_a_5_gib_file_costs_no_memory(directory: Path) -> None:
    parts = hostile_base.take_apart(hostile_base.small_model(hostile_base.LLAMA))
    script = (
        "import resource, sys; from pathlib import Path; from mlb import format\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: format.read_model(Path(sys.argv[1]))\n"
        "except format.FormatError: pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    for case in hostile_sizes.sparse_cases(hostile_base.small_model(hostile_base.LLAMA), parts):
        path = case.write(directory)
        done = subprocess.run(
            [sys.executable, "-c", script, path],
            env={"PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(done.stdout) < 32 << 10, (case.name, done.stdout)
