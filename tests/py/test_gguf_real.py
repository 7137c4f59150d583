# SPDX-License-Identifier: MIT
"""Real GGUF files, which scripts/fetch_models.py leaves in models/.

.venv/bin/python -m pytest -q tests/py/test_gguf_real.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import convert
from mlb import gguf_tokenizer, quant, tokenizer
from mlb.format import read_model
from mlb.gguf import Gguf, read_gguf
from mlb.gguf_model import open_gguf

NotRun = Callable[[str], None]
Krafla = Callable[..., Any]

pytestmark = pytest.mark.real

ROWS = 4096  # at once
PROMPTS = {
    "smollm2-135m-instruct": ("The capital of France is", " Paris"),
    "gemma-3-270m": ("Water boils at a temperature of", " 100 degrees"),
}


@dataclasses.dataclass(frozen=True)
class Real:
    """A file, and the checkpoint that gguf_to_hf.py made of it."""

    path: Path
    directory: Path
    file: Gguf = dataclasses.field(repr=False)


@pytest.fixture(scope="module", params=PROMPTS)
def real(request: pytest.FixtureRequest, models_dir: Path, not_run: NotRun) -> Real:
    directory = models_dir / request.param
    path = models_dir / f"{request.param}.gguf"
    if not (path.is_file() and (directory / "model.safetensors").is_file()):
        not_run(f"{path.name} is not there: python3 scripts/fetch_models.py")
    return Real(path, directory, read_gguf(path))


@pytest.fixture(scope="module")
def made(real: Real, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model that the converter makes of the file; its tokenizer is beside it."""
    out = tmp_path_factory.mktemp("made") / "m.mlb"
    tok = str(out.with_suffix(".mlt"))
    assert convert.main(["gguf", str(real.path), str(out), "--tokenizer", tok]) == 0
    return out


def test_every_value_is_that_of_the_gguf_package(real: Real) -> None:
    reader = gguf.GGUFReader(real.path)
    assert [tensor.name for tensor in reader.tensors] == list(real.file.tensors)
    for theirs in reader.tensors:
        ours = real.file.tensors[theirs.name]
        rows = ours.shape[0] if len(ours.shape) > 1 else 1
        stored = theirs.data.reshape(rows, -1)
        for row in range(0, rows, ROWS):
            end = min(rows, row + ROWS)
            want = gguf.quants.dequantize(stored[row:end], theirs.tensor_type)
            got = real.file.values(ours, row, end).reshape(want.shape)
            assert np.array_equal(got, want), theirs.name


def test_the_model_is_that_of_its_checkpoint(real: Real, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "hf.mlb"
    assert convert.main(["hf", str(real.directory), str(out), "--wtype", "q8"]) == 0
    ours, theirs = read_model(made), read_model(out)
    assert ours.arch == theirs.arch
    plan, checkpoint = open_gguf(real.file)
    kept = 0
    for name, want in theirs.tensors.items():
        got = ours.tensors[name]
        if want.type != "f32" and checkpoint.keeps(plan.sources[name].name, got.type):
            kept += 1  # its blocks, where the other file has its values rounded once more
            got_values, want_values = quant.dequantize(got.values), quant.dequantize(want.values)
            np.testing.assert_allclose(got_values, want_values, atol=want_values.max() / 250)
        elif "norm" in name:  # the checkpoint has w, and 1 + w is rounded again
            np.testing.assert_allclose(got.values, want.values, rtol=1e-6)
        else:
            assert got.values.tobytes() == want.values.tobytes(), name
    assert kept == sum(t.type.name == "Q8_0" for t in real.file.tensors.values())


def test_the_tokenizer_is_that_of_its_tokenizer_json(real: Real) -> None:
    ours = gguf_tokenizer.read(real.file, None)
    theirs = tokenizer.read(real.directory / "tokenizer.json")
    assert ours.pipeline == theirs.pipeline
    assert np.array_equal(ours.merges, theirs.merges)
    assert (ours.bos, ours.eos, ours.add_bos) == (theirs.bos, theirs.eos, theirs.add_bos)
    pairs = list(zip(ours.tokens, theirs.tokens, strict=False))
    assert len(pairs) == len(ours.tokens)
    # llama.cpp has its own opinion which added tokens of Gemma are special.
    assert all(a.flags | tokenizer.SPECIAL == b.flags | tokenizer.SPECIAL for a, b in pairs)
    assert [a.text for a, _ in pairs] == [b.text for _, b in pairs]


def test_it_runs(real: Real, made: Path, krafla: Krafla) -> None:
    prompt, answer = PROMPTS[real.directory.name]
    tok = made.with_suffix(".mlt")
    found = krafla("ml_run", made, "-z", tok, "-i", prompt, "-n", "24")
    assert found.returncode == 0, found.stderr
    assert f"{prompt}{answer}".encode() in found.stdout
