# SPDX-License-Identifier: MIT
"""The writer of the common frame: atomic, deterministic, exact.

.venv/bin/python -m pytest tests/py/test_envelope.py
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import mlb
from mlb import envelope
from mlb.envelope import FormatError

ROOT = Path(__file__).resolve().parent.parent.parent


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "a.mlt"
    data = bytes(range(200))
    digest = envelope.write(path, "mlt", {"kind": "x", "none": None}, [data[:7], data[7:]], 200)
    found = envelope.read(path, "mlt")
    assert data == found.data.tobytes()
    assert digest == hashlib.sha256(data).hexdigest() == found.header["data_sha256"]
    assert path.stat().st_size == found.header["file_bytes"]
    assert tuple(found.header[k] for k in ("kind", "none", "data_bytes")) == ("x", None, 200)


def test_the_header_is_sorted_compact_utf8_and_the_data_aligned(tmp_path: Path) -> None:
    path = tmp_path / "a.mlt"
    envelope.write(path, "mlt", {"z": "\u00e9", "a": [1, 2]}, [b"x" * 5], 5)
    raw = path.read_bytes()
    version, length = struct.unpack_from("<II", raw, 8)
    assert (raw[:8], version) == (b"\x89MLT\r\n\x1a\n", 1)
    text = raw[16 : 16 + length].decode()
    assert text.startswith('{"a":[1,2],"data_bytes":5,')
    assert text.endswith('"z":"\u00e9"}')
    assert (len(raw) - 5) % 64 == 0
    assert set(raw[16 + length : -5]) <= {0}


def test_file_bytes_is_right_where_its_digits_change_the_padding(tmp_path: Path) -> None:
    path = tmp_path / "a.mlt"
    for n in range(600, 730):
        envelope.write(path, "mlt", {"pad": "p" * (n % 64)}, [bytes(n)], n)
        assert path.stat().st_size == envelope.read(path, "mlt").header["file_bytes"]


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        envelope.write(tmp_path / name, "mlt", {"f": np.float32(0.1), "n": np.int64(3)}, [b"1"], 1)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_floats_are_written_as_the_shortest_decimal_of_their_float32() -> None:
    assert (
        envelope.dump([0.1, 1e-5, 1e6, 0.125**0.5, 0.0]) == b"[0.1,1e-05,1000000.0,0.35355338,0.0]"
    )
    for bad in (float("nan"), float("inf"), 1e-40, 1e38):
        with pytest.raises(FormatError, match="cannot be written"):
            envelope.dump(bad)


@pytest.mark.parametrize("failure", [KeyboardInterrupt, ValueError, OSError])
def test_a_failure_leaves_the_old_file_and_no_other(
    failure: type[BaseException], tmp_path: Path
) -> None:
    path = tmp_path / "a.mlt"
    path.write_bytes(b"old")

    def chunks() -> Iterator[bytes]:
        yield b"x" * 100
        raise failure

    with pytest.raises(failure):
        envelope.write(path, "mlt", {}, chunks(), 200)
    assert path.read_bytes() == b"old"
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [99, 101])
def test_a_wrong_amount_of_data_is_not_published(given: int, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=f"{given} bytes of data were produced, 100 announced"):
        envelope.write(tmp_path / "a", "mlt", {}, [bytes(given)], 100)
    assert list(tmp_path.iterdir()) == []


def test_the_new_file_has_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    envelope.write(tmp_path / "a", "mlt", {}, [], 0)
    assert (tmp_path / "plain").stat().st_mode == (tmp_path / "a").stat().st_mode


@pytest.mark.parametrize("kind", ["pipe", "link", "folder"])
def test_only_a_regular_file_is_replaced(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "out"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to("elsewhere")
    else:
        path.mkdir()
    before = path.lstat()
    with pytest.raises(FormatError, match="out: is there and is not a regular file: give another"):
        envelope.write(path, "mlb", {}, [b"x"], 1)
    assert before.st_ino == path.lstat().st_ino
    assert [path] == list(tmp_path.iterdir())


def test_a_header_over_1_mib_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="the format allows 1048576"):
        envelope.write(tmp_path / "a", "mlt", {"x": "y" * (1 << 20)}, [], 0)


def test_arrays_of_blocks_are_written_as_their_bytes(tmp_path: Path) -> None:
    blocks = np.zeros((2, 3), dtype=[("d", "<f2"), ("q", "i1", (32,))])
    blocks["q"][1, 2, 31] = 7
    envelope.write(tmp_path / "a", "mlt", {}, [blocks, blocks[:, ::2]], 6 * 34 + 4 * 34)
    data = envelope.read(tmp_path / "a", "mlt").data.tobytes()
    assert blocks.tobytes() + np.ascontiguousarray(blocks[:, ::2]).tobytes() == data


def test_the_program_prints_the_header_and_verifies_the_data(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.mlt"
    envelope.write(path, "mlt", {"kind": "x"}, [b"data"], 4)
    assert envelope.main([str(path)]) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "x"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert envelope.main([str(path)]) == 1
    assert "the data's SHA-256 differs" in capsys.readouterr().err
    assert envelope.main([str(tmp_path / "none")]) == 1
    assert envelope.main([]) == 2


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(FormatError, match="is not a regular file"):
        envelope.read(tmp_path / "fifo", "mlb")


def constants(path: str) -> dict[str, str]:
    """Return the enum values and defines of a C file."""
    text = (ROOT / path).read_text()
    found = dict(re.findall(r"(\w+) = ([^,/}]+?)\s*[,/}\n]", text))
    return found | dict(re.findall(r'#define (\w+) "([^"]*)"', text))


def test_constants_agree_with_the_c_reader() -> None:
    c = constants("runtime/core/envelope.c")
    assert c["HEADER_CAP"] == "1 << 20"
    assert envelope.HEADER_CAP == 1 << 20
    assert int(c["FILE_VERSION"]) == envelope.FILE_VERSION
    assert int(c["FIXED_BYTES"]) == envelope.FIXED_BYTES
    assert int(c["ALIGN"]) == envelope.ALIGN
    json_c = constants("runtime/core/json.c")
    limits = (envelope.MAX_DEPTH, envelope.MAX_DIGITS, envelope.MAX_POWER)
    assert limits == tuple(int(json_c[k]) for k in ("MAX_DEPTH", "MAX_DIGITS", "MAX_POWER"))
    assert constants("runtime/core/ml.h")["ML_VERSION"] == mlb.VERSION


@pytest.mark.parametrize("tool", ["convert.py", "convert_tokenizer.py"])
def test_a_python_without_numpy_says_how_to_get_it(tool: str) -> None:
    command = [sys.executable, "-E", "-S", str(ROOT / "tools" / tool), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("error: numpy is missing: apt-get install python3-numpy")
