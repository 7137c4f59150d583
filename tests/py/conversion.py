# SPDX-License-Identifier: MIT
"""Converting small checkpoints in a test, and changing them first.

    from conversion import GOLDEN, converted, refused

The fixture `changed` of tests/py copies a golden checkpoint with other keys in its config.json.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import convert
from mlb.checkpoint import open_safetensors
from mlb.format import Model, read_model

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "data" / "golden"


def run(source: Path, out: Path, *options: str, kind: str = "hf", wtype: str = "q8") -> int:
    return convert.main([kind, str(source), str(out), "--wtype", wtype, *options])


def converted(source: Path, out: Path, *options: str, wtype: str = "q8") -> Model:
    assert run(source, out, *options, wtype=wtype) == 0
    return read_model(out)


def save(directory: Path, tensors: dict[str, np.ndarray[Any, Any]]) -> None:
    """Write a float32 safetensors file."""
    header: dict[str, Any] = {}
    at = 0
    for name, value in tensors.items():
        end = at + value.nbytes
        header[name] = {"dtype": "F32", "shape": list(value.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    data = b"".join(value.astype("<f4").tobytes() for value in tensors.values())
    (directory / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)


def load(directory: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read all tensors of a checkpoint."""
    checkpoint = open_safetensors(directory)
    return {name: checkpoint.read(name) for name in checkpoint.shapes}


def refused(source: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """Convert, expect exit code 1, one line and no file; return the line."""
    capsys.readouterr()
    assert run(source, out) == 1
    assert not list(out.parent.glob(f"*{out.name}*"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]
