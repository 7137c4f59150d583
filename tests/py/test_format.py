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

import hostile_base
from mlb import format as mlb_format
from mlb import quant, shape
from mlb.envelope import FormatError
from mlb.format import TensorSource, read_model, write_model
from mlb.shape import Arch, Expected, always_q8, expected_tensors, tensor_bytes

ROOT = Path(__file__).resolve().parent.parent.parent


def source_of(want: Expected, kind: str, data: Any) -> TensorSource:
    """Return a tensor with these bytes."""
    return TensorSource(want.name, kind, want.shape, lambda: data)


def zeros(arch: Arch) -> list[TensorSource]:
    """Return sources of all tensors, of zeros."""
    sources = []
    for want in expected_tensors(arch):
        kind = "f32" if want.kind == "f32" else "q8_0" if always_q8(want.name) else "q4_0"
        sources.append(source_of(want, kind, bytes(tensor_bytes(kind, want.shape))))
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


@pytest.mark.parametrize("arch", hostile_base.ARCHS.values(), ids=hostile_base.ARCHS)
def test_a_model_is_read_back_as_it_was_written(arch: Arch, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    types = iter(("q8_0", "q4_0", "q8_0f", "q4_0f") * 9)
    sources, wanted = [], {}
    for want in expected_tensors(arch):
        values = rng.standard_normal(want.shape).astype(np.float32)
        kind = "f32" if want.kind == "f32" else next(types)
        kind = "q4_0" if want.name.endswith((".gate", ".up")) else kind
        kind = "q8_0f" if always_q8(want.name) else kind
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
        sampling={"temperature": 0.6, "top_k": 40, "min_p": 0.05, "repeat_penalty": 1.1},
        provenance={"source": "here", "revision": None},
    )
    model = read_model(path)
    assert arch == model.arch
    assert (model.name, model.chat, model.stop_ids) == ("Tiny", "zephyr", (2, 3))
    assert model.sampling == {
        "temperature": 0.6,
        "top_k": 40,
        "min_p": 0.05,
        "repeat_penalty": 1.1,
    }
    assert model.provenance == {"source": "here", "revision": None}
    assert digest == model.data_sha256
    assert list(wanted) == list(model.tensors)
    for name, (kind, stored) in wanted.items():
        assert kind == model.tensors[name].type
        assert stored.tobytes() == model.tensors[name].values.tobytes()
        assert stored.shape == model.tensors[name].values.shape


def test_weights_may_be_produced_in_pieces(tmp_path: Path) -> None:
    whole, pieces = tmp_path / "whole", tmp_path / "pieces"
    sources = zeros(hostile_base.LLAMA)
    write(whole, hostile_base.LLAMA, sources)

    def cut(data: Any) -> Any:
        return lambda: (data[:5], data[5:])

    cut_sources = [source._replace(produce=cut(source.produce())) for source in sources]
    write(pieces, hostile_base.LLAMA, cut_sources)
    assert whole.read_bytes() == pieces.read_bytes()


def test_one_tensor_is_in_memory_at_a_time(tmp_path: Path) -> None:
    order: list[str] = []

    def watched(source: TensorSource) -> TensorSource:
        def produce() -> Iterator[Any]:
            order.append(f"begin {source.name}")
            yield source.produce()
            order.append(f"end {source.name}")

        return source._replace(produce=produce)

    write(
        tmp_path / "m",
        hostile_base.LLAMA,
        [watched(source) for source in zeros(hostile_base.LLAMA)],
    )
    names = [want.name for want in expected_tensors(hostile_base.LLAMA)]
    assert [f"{what} {name}" for name in names for what in ("begin", "end")] == order


def test_options_of_the_architecture_add_their_tensors() -> None:
    def names(**changes: Any) -> set[str]:
        return {
            want.name
            for want in expected_tensors(dataclasses.replace(hostile_base.LLAMA, **changes))
        }

    base = names()
    assert len(base) == 3 + 2 * 9
    assert {"classifier"} == names(tied=False) - base
    assert {"rope_freq_local"} == names(local_rope=True) - base
    assert {f"layers.{i}.{n}_norm" for i in (0, 1) for n in "qk"} == names(qk_norm=True) - base
    posts = {f"layers.{i}.{n}_post_norm" for i in (0, 1) for n in ("attn", "ffn")}
    assert posts == names(post_norms=True) - base
    assert {f"layers.{i}.b{n}" for i in (0, 1) for n in "qkv"} == names(qkv_bias=True) - base
    assert {f"layers.{i}.wg" for i in (0, 1)} == names(attn_gate=True) - base


def test_a_linear_layer_has_its_own_tensors_in_the_place_of_attentions() -> None:
    arch = hostile_base.QWEN
    kinds: dict[int, list[str]] = {0: [], 1: []}
    for want in expected_tensors(arch):
        if want.name.startswith("layers."):
            _, layer, name = want.name.split(".")
            kinds[int(layer)].append(name)
    linear = "attn_norm wqkv wz wb wa conv dt_bias decay_rate delta_norm wo ffn_norm gate up down"
    attention = "attn_norm wq wk wv wg q_norm k_norm wo ffn_norm gate up down"
    assert [" ".join(kinds[0]), " ".join(kinds[1])] == [linear, attention]
    shapes = {want.name: want.shape for want in expected_tensors(arch)}
    assert shapes["layers.0.wqkv"] == (2 * 8 + 32, 32)
    assert shapes["layers.0.conv"] == (4 * 48,)
    assert shapes["layers.0.wo"] == (32, 32)
    assert shapes["rope_freq"] == (2,)


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
        ({"rotary_dim": 10}, "rotary_dim is 10, expected an even number up to head_dim 8"),
        ({"rotary_dim": 3}, "rotary_dim is 3, expected an even number"),
        ({"rope_scale": 0.0}, "rope_scale: expected a number from 1e-22"),
        ({"no_rope_layers": (1, 0)}, "no_rope_layers are not in ascending order"),
        ({"conv_taps": 4}, "conv_taps: expected 0, found 4"),
        ({"linear_layers": (0,)}, "linear_k_heads: expected an integer from 1"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_an_architecture_that_could_not_be_read_is_not_written(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    arch = dataclasses.replace(hostile_base.LLAMA, **changes)
    with pytest.raises(FormatError, match=re.escape(message)):
        write(tmp_path / "m", arch, zeros(arch))
    assert list(tmp_path.iterdir()) == []


def test_tensors_that_are_not_the_architectures_are_not_written(tmp_path: Path) -> None:
    sources = zeros(hostile_base.LLAMA)
    short = sources[1]._replace(produce=lambda: b"abc")
    swapped = [sources[1], sources[0], *sources[2:]]
    as_matrix = [sources[0]._replace(type="f32"), *sources[1:]]
    for wrong in (sources[:-1], swapped, as_matrix, [sources[0], short, *sources[2:]]):
        with pytest.raises(FormatError):
            write(tmp_path / "m", hostile_base.LLAMA, wrong)
    assert list(tmp_path.iterdir()) == []


def test_limits_agree_with_the_c_reader() -> None:
    header = (ROOT / "runtime/core/mlb.h").read_text()
    found = re.findall(r"(KR_\w+) = (\d+)(?: << (\d+))?,", header)
    c = {name: int(value) << int(shift or 0) for name, value, shift in found}
    assert (c["KR_MAX_WIDTH"], c["KR_MAX_VOCAB"]) == (shape.MAX_WIDTH, shape.MAX_VOCAB)
    assert c["KR_MAX_TAPS"] == shape.MAX_TAPS
    assert (
        c["KR_MAX_STOP_IDS"],
        c["KR_NAME_CAP"],
    ) == (mlb_format.MAX_STOP_IDS, mlb_format.NAME_BYTES + 1)
    source = (ROOT / "runtime/core/mlb_tensors.c").read_text()
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
    write(tmp_path / "m", hostile_base.LLAMA, zeros(hostile_base.LLAMA))
    assert mlb_format.main([str(tmp_path / "m")]) == 0
    assert "layers.1.down" in capsys.readouterr().out
    assert mlb_format.main([str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv_taps": 9}, "conv_taps: expected an integer from 2 to 8"),
        ({"conv_taps": 1}, "conv_taps: expected an integer from 2 to 8"),
        ({"linear_k_heads": 3}, "linear_v_heads 4 is not a multiple of linear_k_heads 3"),
        ({"linear_v_dim": 4}, "linear_v_heads * linear_v_dim is 16, expected a multiple of 32"),
        ({"linear_k_dim": 40000}, "linear_k_heads * linear_k_dim is 80000"),
        ({"linear_k_dim": 20000}, "linear queries, keys and values is 80032"),
        ({"no_rope_layers": (0,)}, "layer 0 is in no_rope_layers and in linear_layers"),
        ({"local_layers": (0,), "window": 8}, "layer 0 is in local_layers and in linear_layers"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_linear_layers_that_could_not_be_read_are_not_written(
    changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    arch = dataclasses.replace(hostile_base.QWEN, **changes)
    with pytest.raises(FormatError, match=re.escape(message)):
        write(tmp_path / "m", arch, zeros(arch))
    assert list(tmp_path.iterdir()) == []


def test_strength_and_decay_of_the_delta_rule_are_never_q4(tmp_path: Path) -> None:
    sources = zeros(hostile_base.QWEN)
    i = next(i for i, source in enumerate(sources) if source.name == "layers.0.wa")
    sources[i] = sources[i]._replace(type="q4_0")
    with pytest.raises(FormatError, match=re.escape("layers.0.wa: type q4_0 cannot hold it")):
        write(tmp_path / "m", hostile_base.QWEN, sources)
