# SPDX-License-Identifier: MIT
"""GGUF in: the same model from a GGUF and from its checkpoint, whole blocks, what is refused.

.venv/bin/python -m pytest tests/py/test_gguf_convert.py
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

import convert
from made_gguf import Type, add_field, write_gguf
from mlb import quant
from mlb.format import Model, read_model
from mlb.gguf import read_gguf
from mlb.gguf_model import GgufCheckpoint, View

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
# Every golden checkpoint that a GGUF can say, with the fields of its architecture that it cannot.
SCALE, WINDOW = {"attn_scale"}, {"window", "local_layers"}
MODELS: dict[str, set[str]] = {
    "gemma2": SCALE,
    "gemma2_uncapped": set(),
    "gemma3": SCALE,
    "gemma3_image": set(),
    "gemma3_image_untied": SCALE,
    "gemma3_linear": set(),
    "llama": set(),
    "llama_gqa": set(),
    "llama_llama3": set(),
    "mistral": set(),
    "mistral_full": {"family"},
    "qwen2": WINDOW,
    "qwen2_yarn": set(),
    "qwen3": WINDOW,
    "qwen3_5": set(),
    "qwen3_5_text": set(),
    "qwen3_5_untied": set(),
    "smollm3": set(),
}


def converted(source: Path, out: Path, *options: str, kind: str = "gguf") -> Model:
    assert convert.main([kind, str(source), str(out), *options]) == 0
    return read_model(out)


def refused(source: Path, out: Path, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """Convert, expect exit code 1, one line and no file; return the line."""
    capsys.readouterr()
    assert convert.main(["gguf", str(source), str(out), *options]) == 1
    assert not list(out.parent.glob(f"*{out.name}*"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: ")
    return lines[0]


@pytest.mark.parametrize("wtype", ["q8", "q4"])
@pytest.mark.parametrize("name", MODELS)
def test_a_gguf_gives_the_tensors_of_its_checkpoint(tmp_path: Path, name: str, wtype: str) -> None:
    source = write_gguf(GOLDEN / name, tmp_path / "model.gguf")
    ours = converted(source, tmp_path / "gguf.mlb", "--wtype", wtype)
    theirs = converted(GOLDEN / name, tmp_path / "hf.mlb", "--wtype", wtype, kind="hf")
    differing = {
        field.name
        for field in dataclasses.fields(ours.arch)
        if getattr(ours.arch, field.name) != getattr(theirs.arch, field.name)
    }
    assert differing == MODELS[name]
    assert list(ours.tensors) == list(theirs.tensors)
    for tensor, want in theirs.tensors.items():
        got = ours.tensors[tensor]
        if tensor == "rope_freq":  # llama3's factors are rounded in the file
            np.testing.assert_allclose(got.values, want.values, rtol=1e-6)
        else:
            assert got.values.tobytes() == want.values.tobytes(), tensor


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.Q4_0], ids=["Q8_0", "Q4_0"])
@pytest.mark.parametrize("name", MODELS)
def test_blocks_move_as_their_values_do(tmp_path: Path, name: str, kind: Any) -> None:
    # llama.cpp's rounding, done again on its own result, gives the same blocks.
    blocks = write_gguf(GOLDEN / name, tmp_path / "blocks.gguf", kind)
    values = write_gguf(GOLDEN / name, tmp_path / "values.gguf", kind, rounded=True)
    wtype = "q8" if kind == Type.Q8_0 else "q4"
    options = ("--wtype", wtype, "--q4-rule", "round")
    ours = converted(blocks, tmp_path / "blocks.mlb", *options)
    again = converted(values, tmp_path / "values.mlb", *options)
    assert again.provenance["q4_rule"] == ("round" if wtype == "q4" else None)
    for tensor, want in again.tensors.items():
        assert ours.tensors[tensor].type == want.type
        assert ours.tensors[tensor].values.tobytes() == want.values.tobytes(), tensor


@pytest.mark.parametrize("scales", ["f16", "f32"])
@pytest.mark.parametrize("kind", ["Q8_0", "Q4_0"])
def test_blocks_are_those_of_the_file(tmp_path: Path, kind: str, scales: str) -> None:
    # Blocks that no rounding would give: none holds the largest integer.
    source = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf", Type[kind])
    reader = gguf.GGUFReader(source, "r+")
    (tensor,) = (t for t in reader.tensors if t.name == "token_embd.weight")
    blocks = tensor.data.reshape(-1).view(quant.DTYPES[kind.lower()])
    blocks["q"] = np.random.default_rng(1).integers(0, 100, blocks["q"].shape)
    reader.data.flush()
    found = converted(source, tmp_path / "m.mlb", "--scales", scales).tensors["embed"].values
    assert found["q"].tobytes() == blocks["q"].tobytes()
    assert read_model(tmp_path / "m.mlb").provenance["q4_rule"] is None
    assert np.array_equal(found["d"].reshape(-1), blocks["d"])
    assert found.dtype["d"] == np.dtype("<f2" if scales == "f16" else "<f4")


def test_blocks_of_a_row_move_whole(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    values = random.standard_normal((3, 192)).astype(np.float32)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "qwen35")
    writer.add_tensor("w", gguf.quants.quantize(values, Type.Q8_0), raw_dtype=Type.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    file = read_gguf(tmp_path / "m.gguf")
    heads = np.arange(192).reshape(3, 2, 32).swapaxes(0, 1).reshape(-1)
    torn = np.arange(192).reshape(6, 2, 16).swapaxes(0, 1).reshape(-1)
    for columns, whole in ((heads, True), (torn, False)):
        view = View(file.tensors["w"], (3, 192), np.array([2, 0, 1]), columns)
        checkpoint = GgufCheckpoint({}, file, {"w": view})
        moved = file.values(file.tensors["w"])[[2, 0, 1]][:, columns]
        assert np.array_equal(checkpoint.read("w", 1, 3), moved[1:3])
        assert checkpoint.keeps("w", "q8_0") is whole
        if whole:
            assert np.array_equal(quant.dequantize(checkpoint.blocks("w", "q8_0", 0, 3)), moved)


# ---- mixed types ---------------------------------------------------------------------------------


def mixed(name: str) -> Any:
    """Types as in the mixed files of llama.cpp, and gate and up of different ones in layer 0."""
    if name.endswith("attn_v.weight") or name == "blk.0.ffn_gate.weight":
        return Type.Q8_0
    return Type.Q5_1 if "attn" in name else Type.Q4_0


def test_mixed_types_stay_where_they_can(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf", mixed)
    types = {n: t.type for n, t in converted(source, tmp_path / "m.mlb").tensors.items()}
    assert types["embed"] == types["layers.1.gate"] == types["layers.1.up"] == "q4_0"
    assert types["layers.0.wv"] == types["layers.0.wq"] == "q8_0"
    assert types["layers.0.gate"] == types["layers.0.up"] == "q8_0"
    note, warning = capsys.readouterr().err.splitlines()
    assert note == (
        "note: 1 layers have gate and up of different types, which .mlb has not: both become Q8_0"
    )
    assert warning.startswith("warning: quantized for a second time")
    assert "1 of Q4_0 as q8_0, 6 of Q5_1 as q8_0" in warning


def test_wtype_is_for_what_has_to_be_quantized(tmp_path: Path) -> None:
    source = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf", mixed)
    found = converted(source, tmp_path / "m.mlb", "--wtype", "q4", "--q8", "o").tensors
    assert found["layers.0.wq"].type == "q4_0"
    assert found["layers.0.wo"].type == "q8_0"
    assert found["layers.0.wv"].type == "q8_0"


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q8_0", "Q4_0"])
def test_files_that_lose_nothing_more_give_no_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    source = write_gguf(GOLDEN / "qwen3_5_untied", tmp_path / "model.gguf", one_type(Type[kind]))
    converted(source, tmp_path / "m.mlb")
    assert not capsys.readouterr().err


def one_type(kind: Any) -> Any:
    """The type for all matrices but those that are Q8 in every .mlb."""
    always = ("ssm_alpha.weight", "ssm_beta.weight")
    return lambda name: Type.Q8_0 if name.endswith(always) and kind == Type.Q4_0 else kind


@pytest.mark.parametrize("name", ["gemma2", "gemma3_image"])
def test_older_files_of_gemma_do_not_say_which_layers_are_local(tmp_path: Path, name: str) -> None:
    family = name.partition("_")[0]
    left_out = ("attention.sliding_window_pattern", "rope.freq_base_swa")
    more = {f"{family}.{key}": None for key in left_out}
    older = write_gguf(GOLDEN / name, tmp_path / "older.gguf", more=more)
    newer = write_gguf(GOLDEN / name, tmp_path / "newer.gguf")
    found = converted(older, tmp_path / "older.mlb")
    want = converted(newer, tmp_path / "newer.mlb")
    assert found.arch == want.arch
    assert found.data_sha256 == want.data_sha256


# ---- what goes with it ---------------------------------------------------------------------------


def test_fields_beside_the_architecture_are_kept(tmp_path: Path) -> None:
    more = {
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.eot_token_id": 5,
        "tokenizer.ggml.eom_token_id": 100000,
        "general.sampling.temp": 0.5,
        "general.sampling.top_k": 20,
        "general.sampling.top_p": 0.25,
    }
    source = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf", more=more)
    found = converted(source, tmp_path / "m.mlb", "--max-seq", "32", "--name", "mine")
    assert (found.stop_ids, found.name, found.arch.max_seq) == ((2, 5), "mine", 32)
    assert found.sampling == {"temperature": 0.5, "top_k": 20, "top_p": 0.25}


def test_a_layer_of_multi_token_prediction_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = converted(write_gguf(GOLDEN / "qwen3_5", tmp_path / "a.gguf"), tmp_path / "a.mlb")
    capsys.readouterr()
    extra = {"qwen35.block_count": 5, "qwen35.nextn_predict_layers": 1}
    source = write_gguf(GOLDEN / "qwen3_5", tmp_path / "b.gguf", more=extra)
    source = with_tensor(source, tmp_path / "c.gguf", "blk.4.nextn.eh_proj.weight", (32, 64))
    found = converted(source, tmp_path / "b.mlb")
    assert found.data_sha256 == plain.data_sha256
    assert "multi-token prediction head: 1 tensors are left out" in capsys.readouterr().err


def with_tensor(
    source: Path, out: Path, name: str, shape: tuple[int, ...] = (), drop: str = ""
) -> Path:
    """Write a file again with another tensor, and without one."""
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(out, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            add_field(writer, key, field.contents())
    for tensor in reader.tensors:
        if tensor.name != drop:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    if name:
        writer.add_tensor(name, np.zeros(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"llama.expert_count": 8}, "a mixture of experts is not supported"),
        ({"llama.attention.causal": False}, "attention.causal = False is not supported"),
        ({"llama.rope.scaling.type": "longrope"}, "type 'longrope' is not supported"),
        ({"llama.rope.dimension_count": 4}, "rope.dimension_count = 4 is not supported"),
        ({"llama.attention.value_length": 4}, "attention.value_length = 4 is not supported"),
        ({"llama.logit_scale": 0.5}, "unknown key 'logit_scale' = 0.5"),
        ({"llama.block_count": 3}, "tensor 'blk.2.attn_norm.weight' is missing"),
        ({"llama.block_count": 1}, "unknown tensor 'blk.1."),
        ({"llama.embedding_length": 64}, "expected shape"),
        ({"llama.attention.head_count": 0}, "attention.head_count: expected a positive integer"),
        ({"llama.feed_forward_length": [96, 96]}, "feed_forward_length: expected a positive"),
        ({"llama.context_length": 1 << 30}, "context_length: expected a positive integer"),
        ({"llama.attention.layer_norm_rms_epsilon": float("nan")}, "expected a number above 0"),
        ({"general.type": "adapter"}, "general.type is 'adapter'"),
        ({"general.type": "mmproj"}, "the vision part of a model (mmproj)"),
        ({"general.type": [1, 2]}, "general.type is [1, 2]"),
        ({"general.architecture": [1, 2]}, "architecture [1, 2] is not supported"),
        ({"llama.expert_count": [0, 0]}, "a mixture of experts is not supported"),
        ({"llama.attention.value_length": [8, 8]}, "attention.value_length = [8, 8] is not"),
        ({"llama.rope.scaling.factor": [1.0, 2.0]}, "factor: expected a number above 0"),
        ({"llama.attention.scale": [1.0, 2.0]}, "attention.scale: expected a number above 0"),
        ({"split.count": 3}, "is one of 3 parts of a model: join them first: llama-gguf-split"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_would_compute_something_else_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any], named: str
) -> None:
    source = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf", more=more)
    assert named in refused(source, tmp_path / "m.mlb", capsys)


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ({"qwen35.ssm.time_step_rank": 1}, "linear_v_heads"),
        ({"qwen35.ssm.inner_size": 127}, "ssm.inner_size: expected a multiple of"),
        ({"qwen35.ssm.conv_kernel": 9}, "linear_conv_kernel_dim: expected"),
        ({"qwen35.attention.recurrent_layers": [True]}, "expected 4 layers' kinds"),
        ({"qwen35.nextn_predict_layers": 4}, "nextn_predict_layers: expected less than 4 layers"),
        ({"qwen35.ssm.group_count": 1}, "expected shape"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_sizes_of_linear_layers_that_cannot_be_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: dict[str, Any], named: str
) -> None:
    source = write_gguf(GOLDEN / "qwen3_5", tmp_path / "model.gguf", more=more)
    assert named in refused(source, tmp_path / "m.mlb", capsys)


@pytest.mark.parametrize("name", ["phi3", "qwen3moe", "mistral3", "clip", "gpt2", "\n"])
def test_other_architectures_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", name)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    line = refused(tmp_path / "model.gguf", tmp_path / "m.mlb", capsys)
    wanted = "mmproj" if name == "clip" else f"architecture {name!r} is not supported"
    assert wanted in line


def test_a_bias_elsewhere_and_a_missing_tensor_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf")
    biased = with_tensor(plain, tmp_path / "b.gguf", "blk.0.attn_output.bias", (32,))
    line = refused(biased, tmp_path / "m.mlb", capsys)
    assert "unknown tensor 'blk.0.attn_output.bias'" in line
    lacking = with_tensor(plain, tmp_path / "l.gguf", "", drop="blk.0.ffn_up.weight")
    line = refused(lacking, tmp_path / "m.mlb", capsys)
    assert "tensor 'blk.0.ffn_up.weight' is missing" in line


@pytest.mark.parametrize(
    ("at", "byte", "named"),
    [
        (2, 0x80, "holds -128, and blocks go from -127 to 127"),
        (1, 0x7C, "scales are NaN or infinite"),
    ],
    ids=["-128", "infinite scale"],
)
def test_blocks_that_the_runtime_could_not_use_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], at: int, byte: int, named: str
) -> None:
    source = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf", Type.Q8_0)
    reader = gguf.GGUFReader(source, "r+")
    (tensor,) = (t for t in reader.tensors if t.name == "blk.1.ffn_up.weight")
    tensor.data.reshape(-1)[at] = byte
    reader.data.flush()
    line = refused(source, tmp_path / "m.mlb", capsys)
    assert f"tensor 'blk.1.ffn_up.weight': {named}" in line


@pytest.mark.parametrize("kind", ["IQ4_NL", "TQ2_0", "MXFP4", "I32"])
def test_other_types_are_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    source = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf")
    reader = gguf.GGUFReader(source)
    writer = gguf.GGUFWriter(tmp_path / "o.gguf", "llama")
    for key, field in reader.fields.items():
        if key.startswith("llama."):
            add_field(writer, key, field.contents())
    elements, size = gguf.GGML_QUANT_SIZES[Type[kind]]
    for tensor in reader.tensors:
        if tensor.name == "blk.0.ffn_up.weight":
            raw = np.zeros((96, 256 // elements * size), np.uint8)
            writer.add_tensor(tensor.name, raw, raw_dtype=Type[kind])
        else:
            writer.add_tensor(tensor.name, tensor.data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    line = refused(tmp_path / "o.gguf", tmp_path / "m.mlb", capsys)
    assert kind in line


def test_a_path_is_given_once_and_the_source_is_never_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_gguf(GOLDEN / "llama", tmp_path / "model.gguf")
    before = source.read_bytes()
    out, link = str(tmp_path / "m.mlb"), tmp_path / "link.mlb"
    link.hardlink_to(source)
    for target in (
        [str(source)],
        [str(link)],
        [out, "--tokenizer", str(source)],
        [out, "--tokenizer", out],
    ):
        assert convert.main(["gguf", str(source), *target]) == 1
        assert "is named twice: give another name" in capsys.readouterr().err
    assert source.read_bytes() == before
