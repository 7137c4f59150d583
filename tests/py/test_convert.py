# SPDX-License-Identifier: MIT
"""The converter: what it writes.  Refusals and failures are in test_convert_refuses.py.

.venv/bin/python -m pytest tests/py/test_convert.py
"""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conversion import GOLDEN, ROOT, converted, load, refused, run
from mlb import quant, reference
from mlb.arch import common, gemma3
from mlb.arch.config import Config
from mlb.checkpoint import open_safetensors
from mlb.format import Model, read_model

TEMPLATES = ROOT / "tests" / "data" / "templates"
NAMES = ("llama", "llama_gqa", "gemma3")


# ---- what it writes ----------------------------------------------------------------------------


@pytest.mark.parametrize("wtype", ["q8", "q4"])
@pytest.mark.parametrize("name", NAMES)
def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path, name: str, wtype: str) -> None:
    for out in ("a.mlb", "b.mlb"):
        converted(GOLDEN / name, tmp_path / out, wtype=wtype)
    assert (tmp_path / "a.mlb").read_bytes() == (tmp_path / "b.mlb").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.mlb", "b.mlb"]


def test_rows_of_q_and_k_are_interleaved_within_each_head(tmp_path: Path) -> None:
    model = converted(GOLDEN / "llama_gqa", tmp_path / "m.mlb", "--scales", "f32")
    original = load(GOLDEN / "llama_gqa")["model.layers.1.self_attn.k_proj.weight"]
    head, half = 40, 20
    stored = quant.dequantize(model.tensors["layers.1.wk"].values)
    for row in range(2 * head):
        start, inside = row // head * head, row % head
        pair, second = inside // 2, inside % 2
        theirs = original[start + pair + second * half]
        assert np.abs(stored[row] - theirs).max() < 0.006 * np.abs(theirs).max()


def test_gemma_norms_are_stored_with_the_one_added(tmp_path: Path) -> None:
    model = converted(GOLDEN / "gemma3", tmp_path / "m.mlb")
    original = load(GOLDEN / "gemma3")
    for ours, theirs in (
        ("layers.2.attn_norm", "model.layers.2.input_layernorm.weight"),
        ("layers.2.ffn_post_norm", "model.layers.2.post_feedforward_layernorm.weight"),
        ("out_norm", "model.norm.weight"),
    ):
        assert np.array_equal(model.tensors[ours].values, original[theirs] + np.float32(1))


def test_the_header_has_what_the_configuration_says(tmp_path: Path) -> None:
    arch = converted(GOLDEN / "gemma3", tmp_path / "m.mlb").arch
    assert (arch.family, arch.head_dim, arch.n_kv_heads, arch.window) == ("gemma3", 24, 1, 7)
    assert arch.local_layers == (0, 1, 3)
    assert arch.attn_scale == pytest.approx(20**-0.5, rel=1e-7)
    assert arch.embed_scale == pytest.approx(32**0.5, rel=1e-7)
    assert arch.local_rope
    assert arch.activation == "gelu_tanh"


def test_rope_frequencies_are_those_of_transformers(tmp_path: Path) -> None:
    model = converted(GOLDEN / "gemma3", tmp_path / "m.mlb")
    for name, base in (("rope_freq", 1e6), ("rope_freq_local", 1e4)):
        want = 1 / base ** (np.arange(0, 24, 2) / 24)
        assert np.allclose(model.tensors[name].values, want, rtol=3e-7)


def types(model: Model) -> dict[str, str]:
    return {name: tensor.type for name, tensor in model.tensors.items()}


def test_q8_classes_are_kept_in_a_q4_file(tmp_path: Path) -> None:
    found = types(converted(GOLDEN / "llama", tmp_path / "m.mlb", "--q8", "v,down", wtype="q4"))
    for name, kind in found.items():
        if kind != "f32":
            last = name.rpartition(".")[2]
            assert kind == ("q8_0" if last in ("wv", "down") else "q4_0")


def test_up_covers_gate_and_up(tmp_path: Path) -> None:
    found = types(converted(GOLDEN / "llama", tmp_path / "m.mlb", "--q8", "up", wtype="q4"))
    assert (found["layers.0.gate"], found["layers.0.up"]) == ("q8_0", "q8_0")


def test_linear_layers_have_classes_and_two_matrices_always_in_q8(tmp_path: Path) -> None:
    source = GOLDEN / "qwen3_5_text"
    for q8, kept in (("v", ("wv", "wqkv")), ("qk", ("wq", "wk", "wg", "wz")), ("o", ("wo",))):
        found = types(converted(source, tmp_path / "m.mlb", "--q8", q8, wtype="q4"))
        for name, kind in found.items():
            last = name.rpartition(".")[2]
            if kind != "f32":
                assert kind == ("q8_0" if last in (*kept, "wa", "wb") else "q4_0"), name


def test_a_tied_embedding_follows_the_classifier(tmp_path: Path) -> None:
    tied = converted(GOLDEN / "llama_gqa", tmp_path / "t.mlb", "--q8", "cls", wtype="q4")
    assert types(tied)["embed"] == "q8_0"
    untied = converted(GOLDEN / "llama", tmp_path / "u.mlb", "--q8", "cls", wtype="q4")
    assert (types(untied)["embed"], types(untied)["classifier"]) == ("q4_0", "q8_0")


def test_f32_scales_are_another_type(tmp_path: Path) -> None:
    found = types(converted(GOLDEN / "llama", tmp_path / "m.mlb", "--scales", "f32", wtype="q4"))
    assert set(found.values()) == {"f32", "q4_0f"}


@pytest.mark.parametrize(("name", "rule"), [("gemma3", "round"), ("llama", "fit")])
def test_gemma_is_rounded_and_others_are_fitted(tmp_path: Path, name: str, rule: str) -> None:
    default = converted(GOLDEN / name, tmp_path / "d.mlb", wtype="q4")
    chosen = converted(GOLDEN / name, tmp_path / "c.mlb", "--q4-rule", rule, wtype="q4")
    other = "fit" if rule == "round" else "round"
    opposite = converted(GOLDEN / name, tmp_path / "o.mlb", "--q4-rule", other, wtype="q4")
    assert default.data_sha256 == chosen.data_sha256 != opposite.data_sha256
    assert default.provenance["q4_rule"] == rule


def test_max_seq_lowers_the_context_and_never_raises_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert converted(GOLDEN / "llama", tmp_path / "m.mlb").arch.max_seq == 1024
    short = converted(GOLDEN / "llama", tmp_path / "s.mlb", "--max-seq", "256", "--name", "tiny")
    assert (short.arch.max_seq, short.name) == (256, "tiny")
    assert run(GOLDEN / "llama", tmp_path / "l.mlb", "--max-seq", "2048") == 1
    assert "made for 1024 positions" in capsys.readouterr().err


def test_stop_ids_and_sampling_come_from_the_files_beside(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = changed(eos_token_id=7)
    generation = {"eos_token_id": [2, 106, 100000], "temperature": 0.7, "top_k": 64, "top_p": 2}
    (directory / "generation_config.json").write_text(json.dumps(generation))
    vocab = {"a": 0, "<image>": 320}
    (directory / "tokenizer.json").write_text(json.dumps({"model": {"vocab": vocab}}))
    model = converted(directory, tmp_path / "m.mlb")
    assert model.stop_ids == (2, 106, 7)
    assert model.sampling == {"temperature": 0.7, "top_k": 64}
    beside = directory / "generation_config.json"
    lacking = (
        "the model's 320 rows end before 320 '<image>': a prompt that holds such a token is refused"
    )
    assert capsys.readouterr().err.splitlines() == [
        f"warning: {beside}: eos_token_id 100000 is not a token of a model of 320: left out",
        f"warning: {beside}: top_p is 2, expected a number from 0 to 1: left out",
        f"warning: {directory / 'tokenizer.json'}: {lacking}",
    ]


def test_an_image_text_model_ends_where_its_text_model_does(tmp_path: Path) -> None:
    directory = shutil.copytree(GOLDEN / "gemma3_image", tmp_path / "checkpoint")
    config = json.loads((directory / "config.json").read_text())
    config["eos_token_id"], config["text_config"]["eos_token_id"] = [1, 106], 7
    (directory / "config.json").write_text(json.dumps(config))
    (directory / "generation_config.json").unlink(missing_ok=True)
    assert converted(directory, tmp_path / "m.mlb").stop_ids == (1, 106, 7)


def test_strangers_in_a_checkpoint_are_named_in_one_line(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = changed()
    for name in ("pytorch_model.bin", "consolidated.00.pth", "LICENSE"):
        (directory / name).touch()
    (directory / "original").mkdir()
    converted(directory, tmp_path / "m.mlb")
    line = "ignored: consolidated.00.pth, original/, pytorch_model.bin\n"
    assert capsys.readouterr().err == line


def test_a_gguf_file_given_as_a_checkpoint_is_told_its_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"GGUF\3\0\0\0")
    line = refused(path, tmp_path / "m.mlb", capsys)
    assert line.endswith("m.gguf: is a GGUF file: convert it with 'tools/convert.py gguf'")


def test_a_template_that_is_named_is_recorded_whatever_the_checkpoint_has(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = changed()
    (directory / "chat_template.jinja").write_text("{{ messages }}")
    assert converted(directory, tmp_path / "m.mlb", "--chat", "llama3").chat == "llama3"
    assert capsys.readouterr().err == ""
    with pytest.raises(SystemExit) as caught:
        run(directory, tmp_path / "n.mlb", "--chat", "vicuna")
    assert caught.value.code == 2


def test_the_chat_template_beside_the_weights_is_recorded(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = changed()
    zephyr = (TEMPLATES / "zephyr-7b-beta.jinja").read_text()
    config = {"chat_template": zephyr, "eos_token": {"content": "</s>"}}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    assert converted(directory, tmp_path / "m.mlb").chat == "zephyr"
    assert "template" not in capsys.readouterr().err
    own = (TEMPLATES / "smollm3.jinja").read_text()
    (directory / "chat_template.jinja").write_text(own)
    assert converted(directory, tmp_path / "m.mlb").chat is None
    assert "its chat template is none of ours" in capsys.readouterr().err


def test_a_llama2c_file_gives_the_tensors_of_the_same_huggingface_model(tmp_path: Path) -> None:
    t = load(GOLDEN / "llama")

    def interleaved(name: str) -> np.ndarray[Any, Any]:  # as llama2.c's export.py does it
        w = t[name]
        return w.reshape(4, 2, 4, 32).transpose(0, 2, 1, 3).reshape(32, 32)

    layer = "model.layers.{}."
    order = [t["model.embed_tokens.weight"]]
    for name in (
        "input_layernorm",
        "self_attn.q_proj",
        "self_attn.k_proj",
        "self_attn.v_proj",
        "self_attn.o_proj",
        "post_attention_layernorm",
        "mlp.gate_proj",
        "mlp.down_proj",
        "mlp.up_proj",
    ):
        for n in range(2):
            full = f"{layer.format(n)}{name}.weight"
            turned = name.endswith(("q_proj", "k_proj"))
            order.append(interleaved(full) if turned else t[full])
    order += [t["model.norm.weight"], np.zeros((2, 1024, 4)), t["lm_head.weight"]]
    header = struct.pack("<7i", 32, 96, 2, 4, 4, -320, 1024)
    path = tmp_path / "model.bin"
    path.write_bytes(header + b"".join(w.astype("<f4").tobytes() for w in order))
    assert run(path, tmp_path / "l.mlb", kind="llama2c") == 0
    ours = read_model(tmp_path / "l.mlb")
    theirs = converted(GOLDEN / "llama", tmp_path / "h.mlb")
    assert ours.data_sha256 == theirs.data_sha256
    assert (ours.stop_ids, ours.name) == ((1, 2), "model")


def test_the_float_reference_reads_the_file_back(tmp_path: Path) -> None:
    model = converted(GOLDEN / "llama", tmp_path / "m.mlb", "--scales", "f32")
    tokens = json.loads((GOLDEN / "llama" / "tokens.json").read_text())
    logits = reference.forward(model.arch, reference.FileWeights(model), tokens, reference.Float())
    want = np.load(GOLDEN / "llama" / "logits.npy")
    assert np.abs(logits - want).max() < 0.1 * np.abs(want).max()


def gemma_plan(**changes: Any) -> common.Plan:
    """Return the plan of the golden Gemma with other keys; None leaves a key out."""
    values = json.loads((GOLDEN / "gemma3" / "config.json").read_text()) | changes
    return gemma3.plan(Config({k: v for k, v in values.items() if v is not None}, "here"))


def test_gemma_without_layer_types_has_a_full_layer_after_every_pattern_minus_one() -> None:
    layers = gemma_plan(layer_types=None, sliding_window_pattern=None, num_hidden_layers=13).arch
    assert layers.local_layers == (0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 12)
    three = gemma_plan(layer_types=None, sliding_window_pattern=3, num_hidden_layers=7).arch
    assert three.local_layers == (0, 1, 3, 4, 6)


@pytest.mark.parametrize(("local", "there"), [(1e4, True), (1e6, False)], ids=["own", "the same"])
def test_gemma_has_local_frequencies_where_the_bases_differ(local: float, *, there: bool) -> None:
    rope = {"rope_theta": 1e6, "rope_local_base_freq": local, "rope_parameters": None}
    plan = gemma_plan(**rope)
    assert (plan.arch.local_rope, "rope_freq_local" in plan.constants) == (there, there)


@pytest.mark.parametrize("tied", [False, True])
def test_gemma_has_a_classifier_unless_tied(*, tied: bool) -> None:
    plan = gemma_plan(tie_word_embeddings=tied)
    assert ("classifier" in plan.sources, "lm_head.weight" in plan.ignored) == (not tied, tied)


def test_any_range_of_turned_rows_is_that_part_of_the_whole() -> None:
    checkpoint = open_safetensors(GOLDEN / "llama_gqa")
    source = common.Source("model.layers.0.self_attn.q_proj.weight", head_dim=40)
    whole = common.load(source, checkpoint)
    for row0, row1 in ((0, 160), (0, 7), (39, 41), (45, 119), (120, 160), (80, 80)):
        assert np.array_equal(whole[row0:row1], common.load(source, checkpoint, row0, row1))
