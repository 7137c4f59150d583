# SPDX-License-Identifier: MIT
"""The model file's reader and writer in Python.

.venv/bin/python -m pytest tests/py/test_format.py
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hostile
from mlb import format as mlb_format
from mlb import quant
from mlb.envelope import FormatError
from mlb.format import (
    Arch,
    Expected,
    TensorSource,
    expected_tensors,
    read_model,
    write_model,
)

ROOT = Path(__file__).resolve().parent.parent.parent


def source_of(want: Expected, kind: str, data: Any) -> TensorSource:
    """Return a tensor with these bytes."""
    return TensorSource(want.name, kind, want.shape, lambda: data)


def zeros(arch: Arch) -> list[TensorSource]:
    """Return sources of all tensors, of zeros."""
    sources = []
    for want in expected_tensors(arch):
        kind = "f32" if want.kind == "f32" else "q4_0"
        sources.append(source_of(want, kind, bytes(mlb_format.tensor_bytes(kind, want.shape))))
    return sources


def write(path: Path, arch: Arch, sources: list[TensorSource], **changes: Any) -> str:
    """Write a model with defaults for everything but the architecture."""
    options: dict[str, Any] = {
        "name": "m",
        "chat": None,
        "stop_ids": (),
        "sampling": {},
        "provenance": {},
    }
    return write_model(path, arch, tensors=sources, **(options | changes))


@pytest.mark.parametrize("arch", [hostile.LLAMA, hostile.GEMMA], ids=["llama", "gemma"])
def test_a_model_is_read_back_as_it_was_written(arch: Arch, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    types = iter(("q8_0", "q4_0", "q8_0f", "q4_0f") * 9)
    sources, wanted = [], {}
    for want in expected_tensors(arch):
        values = rng.standard_normal(want.shape).astype(np.float32)
        kind = "f32" if want.kind == "f32" else next(types)
        kind = "q4_0" if want.name.endswith((".gate", ".up")) else kind
        stored: Any = values if kind == "f32" else quant.quantize(values, kind)
        wanted[want.name] = (kind, stored)
        sources.append(source_of(want, kind, stored))
    path = tmp_path / "m.mlb"
    digest = write(
        path,
        arch,
        sources,
        name="Tiny",
        chat="zephyr",
        stop_ids=(2, 3),
        sampling={"temperature": 0.6, "top_k": 40},
        provenance={"source": "here", "revision": None},
    )
    model = read_model(path)
    assert arch == model.arch
    assert (model.name, model.chat, model.stop_ids) == ("Tiny", "zephyr", (2, 3))
    assert model.sampling == {"temperature": 0.6, "top_k": 40}
    assert model.provenance == {"source": "here", "revision": None}
    assert digest == model.data_sha256
    assert list(wanted) == list(model.tensors)
    for name, (kind, stored) in wanted.items():
        assert kind == model.tensors[name].type
        assert stored.tobytes() == model.tensors[name].values.tobytes()
        assert stored.shape == model.tensors[name].values.shape


def test_weights_may_be_produced_in_pieces(tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    sources = zeros(hostile.LLAMA)
    write(whole, hostile.LLAMA, sources)

    def cut(data: Any) -> Any:
        return lambda: (data[:5], data[5:])

    cut_sources = [source._replace(produce=cut(source.produce())) for source in sources]
    write(pieces, hostile.LLAMA, cut_sources)
    assert whole.read_bytes() == pieces.read_bytes()


def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    def watched(source: TensorSource) -> TensorSource:
        def produce() -> Iterator[Any]:
            order.append(f"begin {source.name}")
            yield source.produce()
            order.append(f"end {source.name}")

        return source._replace(produce=produce)

    write(tmp_path / "m", hostile.LLAMA, [watched(source) for source in zeros(hostile.LLAMA)])
    names = [want.name for want in expected_tensors(hostile.LLAMA)]
    assert [f"{what} {name}" for name in names for what in ("begin", "end")] == order


def test_options_of_the_architecture_add_their_tensors() -> None:
    def names(**changes: Any) -> set[str]:
        return {
            want.name for want in expected_tensors(dataclasses.replace(hostile.LLAMA, **changes))
        }

    base = names()
    assert len(base) == 3 + 2 * 9
    assert {"classifier"} == names(tied=False) - base
    assert {"rope_freq_local"} == names(local_rope=True) - base
    assert {f"layers.{i}.{n}_norm" for i in (0, 1) for n in "qk"} == names(qk_norm=True) - base
    posts = {f"layers.{i}.{n}_post_norm" for i in (0, 1) for n in ("attn", "ffn")}
    assert posts == names(post_norms=True) - base


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dim": 48}, "dim is 48, expected a multiple of 32"),
        ({"head_dim": 7, "n_heads": 32}, "head_dim is 7, expected an even number"),
        ({"n_kv_heads": 3}, "n_heads 4 is not a multiple of n_kv_heads 3"),
        ({"vocab": (1 << 24) + 1}, "vocab: expected an integer from 1 to 16777216"),
        ({"norm_eps": 0.0}, "norm_eps: expected a number from 1e-22"),
        ({"window": 5}, "window is 5 with 0 local layers"),
        ({"activation": "relu"}, "activation: expected one of"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_architecture_that_could_not_be_read_is_not_written(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    arch = dataclasses.replace(hostile.LLAMA, **changes)
    with pytest.raises(FormatError, match=re.escape(message)):
        write(tmp_path / "m", arch, zeros(arch))
    assert list(tmp_path.iterdir()) == []


def test_tensors_that_are_not_the_architectures_are_not_written(tmp_path: Path) -> None:
    sources = zeros(hostile.LLAMA)
    short = sources[1]._replace(produce=lambda: b"abc")
    swapped = [sources[1], sources[0], *sources[2:]]
    as_matrix = [sources[0]._replace(type="f32"), *sources[1:]]
    for wrong in (sources[:-1], swapped, as_matrix, [sources[0], short, *sources[2:]]):
        with pytest.raises(FormatError):
            write(tmp_path / "m", hostile.LLAMA, wrong)
    assert list(tmp_path.iterdir()) == []


def test_limits_agree_with_the_c_reader() -> None:
    header = (ROOT / "runtime/core/mlb.h").read_text()
    found = re.findall(r"(KR_\w+) = (\d+)(?: << (\d+))?,", header)
    c = {name: int(value) << int(shift or 0) for name, value, shift in found}
    assert (c["KR_MAX_WIDTH"], c["KR_MAX_VOCAB"]) == (mlb_format.MAX_WIDTH, mlb_format.MAX_VOCAB)
    assert (
        c["KR_MAX_STOP_IDS"],
        c["KR_NAME_CAP"],
    ) == (mlb_format.MAX_STOP_IDS, mlb_format.NAME_BYTES + 1)
    source = (ROOT / "runtime/core/mlb.c").read_text()
    types = {
        n: int(size) for n, size in re.findall(r'\{"(q\w+)", KERN_\w+, KERN_\w+, (\d+)\}', source)
    }
    assert {name: dtype.itemsize for name, dtype in quant.DTYPES.items()} == types


def test_every_key_of_the_format_is_documented() -> None:
    text = (ROOT / "docs/format-mlb.md").read_text()
    keys = [*mlb_format.KEYS[:-1], *(field.name for field in dataclasses.fields(Arch))]
    assert [key for key in keys if f"`{key}`" not in text] == []
    assert [kind for kind in quant.DTYPES if f"| `{kind}` |" not in text] == []


def test_the_program_lists_the_tensors(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "m", hostile.LLAMA, zeros(hostile.LLAMA))
    assert mlb_format.main([str(tmp_path / "m")]) == 0
    assert "layers.1.down" in capsys.readouterr().out
    assert mlb_format.main([str(tmp_path)]) == 1
