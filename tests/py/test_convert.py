# SPDX-License-Identifier: MIT
"""The converter: what it writes, what it refuses by name, and that failures leave nothing behind.

.venv/bin/python -m pytest tests/py/test_convert.py
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

import convert
from mlb import quant, reference
from mlb.arch import common, gemma3, llama
from mlb.checkpoint import open_safetensors
from mlb.format import Model, read_model

ROOT = Path(__file__).resolve().parent.parent.parent
GOLDEN = ROOT / "tests" / "data" / "golden"
TEMPLATES = ROOT / "tests" / "data" / "templates"
NAMES = ("llama", "llama_gqa", "gemma3")


def run(source: Path, out: Path, *options: str, kind: str = "hf", wtype: str = "q8") -> int:
    return convert.main([kind, str(source), str(out), "--wtype", wtype, *options])


def converted(source: Path, out: Path, *options: str, wtype: str = "q8") -> Model:
    assert run(source, out, *options, wtype=wtype) == 0
    return read_model(out)


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that copies a golden checkpoint with other config.json keys."""

    def copy(name: str = "llama", **changes: Any) -> Path:
        directory = tmp_path / "checkpoint"
        shutil.copytree(GOLDEN / name, directory)
        config = json.loads((directory / "config.json").read_text()) | changes
        (directory / "config.json").write_text(json.dumps(config))
        return directory

    return copy


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


def test_stop_ids_and_sampling_come_from_generation_config(
    tmp_path: Path, changed: Callable[..., Path]
) -> None:
    directory = changed()
    generation = {"eos_token_id": [2, 106, 100000], "temperature": 0.7, "top_k": 64, "top_p": 2}
    (directory / "generation_config.json").write_text(json.dumps(generation))
    model = converted(directory, tmp_path / "m.mlb")
    assert model.stop_ids == (2, 106)
    assert model.sampling == {"temperature": 0.7, "top_k": 64}


def test_without_generation_config_the_eos_of_config_stops(
    tmp_path: Path, changed: Callable[..., Path]
) -> None:
    directory = changed(eos_token_id=7)
    (directory / "generation_config.json").unlink()
    assert converted(directory, tmp_path / "m.mlb").stop_ids == (7,)


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


# ---- what it refuses ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "type 'llama3'"),
        ({"rope_scaling": {"type": "dynamic", "factor": 8.0}}, "type 'dynamic'"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4}}, "type 'yarn'"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"mlp_bias": True}, "mlp_bias = True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"num_local_experts": 8}, "unknown key 'num_local_experts' = 8"),
        ({"partial_rotary_factor": 0.5}, "unknown key 'partial_rotary_factor'"),
        ({"sliding_window": 4096}, "sliding_window = 4096"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"rope_interleaved": True}, "rope_interleaved = True"),
        ({"model_type": "mixtral"}, "model_type 'mixtral' is not supported"),
        ({"model_type": ["llama"]}, "model_type"),
        ({"hidden_size": "32"}, "hidden_size: expected a positive integer up to 65536, found '32'"),
        ({"hidden_size": True}, "hidden_size: expected a positive integer"),
        ({"hidden_size": None}, "hidden_size: expected a value"),
        ({"num_attention_heads": 0}, "num_attention_heads: expected a positive integer"),
        ({"rms_norm_eps": -1}, "rms_norm_eps: expected a number above 0"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings: expected true or false"),
        ({"vocab_size": 321}, r"'model.embed_tokens.weight': expected shape \[321, 32\]"),
        ({"num_hidden_layers": 3}, "'model.layers.2.input_layernorm.weight' is missing"),
        ({"num_hidden_layers": 1}, "unknown tensor 'model.layers.1"),
        ({"num_key_value_heads": 3}, "n_heads 4 is not a multiple of n_kv_heads 3"),
        ({"head_dim": 7}, "n_heads . head_dim is 28, expected a multiple of 32"),
        ({"max_position_embeddings": 1 << 30}, "max_position_embeddings: expected a positive"),
        ({"num_hidden_layers": (1 << 31) - 1}, "num_hidden_layers: expected a positive integer up"),
        ({"rope_theta": 10**400}, "rope_theta: expected a number above 0, at most 1e"),
        ({"rope_theta": 0.5}, "RoPE base: expected at least 1, found 0.5"),
        ({"hidden_act": "x" * 100000}, r"^.{,1010} is not supported$"),
    ],
)
def test_what_would_compute_something_else_is_refused_by_name(
    tmp_path: Path,
    changed: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    named: str,
) -> None:
    line = refused(changed(**changes), tmp_path / "m.mlb", capsys)
    assert re.search(named, line), line


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"final_logit_softcapping": 30.0}, "final_logit_softcapping = 30.0"),
        ({"use_bidirectional_attention": True}, "use_bidirectional_attention = True"),
        ({"layer_types": ["full_attention"]}, "layer_types: expected 4 of"),
        ({"layer_types": ["linear_attention"] * 4}, "layer_types: expected 4 of"),
        ({"hidden_activation": "silu"}, "hidden_activation = 'silu'"),
    ],
)
def test_what_gemma_would_compute_differently_is_refused_by_name(
    tmp_path: Path,
    changed: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    changes: dict[str, Any],
    named: str,
) -> None:
    assert named in refused(changed("gemma3", **changes), tmp_path / "m.mlb", capsys)


def test_a_missing_classifier_is_refused_unless_tied(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = changed()
    tensors = load(directory)
    del tensors["lm_head.weight"]
    save(directory, tensors)
    line = refused(directory, tmp_path / "m.mlb", capsys)
    assert "'lm_head.weight' is missing, and tie_word_embeddings is not true" in line


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("name", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_weights_that_are_not_numbers_are_refused_with_their_tensor(
    tmp_path: Path,
    changed: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    value: float,
    name: str,
) -> None:
    directory = changed()
    tensors = load(directory)
    tensors[name] = tensors[name].copy()
    tensors[name].flat[5] = value
    save(directory, tensors)
    line = refused(directory, tmp_path / "m.mlb", capsys)
    assert f"tensor '{name}': 1 of " in line


def test_a_missing_directory_or_configuration_is_named(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not a directory" in refused(tmp_path / "absent", tmp_path / "m.mlb", capsys)
    directory = changed()
    (directory / "config.json").unlink()
    assert "config.json: No such file" in refused(directory, tmp_path / "m.mlb", capsys)


def test_a_pipe_in_a_checkpoint_is_not_waited_for(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("model.safetensors", "config.json", "chat_template.jinja"):
        directory = changed()
        (directory / name).unlink(missing_ok=True)
        os.mkfifo(directory / name)
        assert f"{name}: is not a regular" in refused(directory, tmp_path / "m.mlb", capsys)
        shutil.rmtree(directory)


def test_a_directory_whose_name_is_no_text_is_converted(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    directory = changed().rename(tmp_path / "\udcff\x1b[2J")
    assert convert.main(["hf", str(directory), str(tmp_path / "m.mlb"), "--wtype", "q8"]) == 0
    assert read_model(tmp_path / "m.mlb").name == "??[2J"
    (directory / "config.json").unlink()
    assert "/??[2J/config" in refused(directory, tmp_path / "n.mlb", capsys)


@pytest.mark.parametrize(
    "options",
    [["--wtype", "q5"], ["--wtype", "q4", "--q8", "v,qkv"], ["--wtype", "q8", "--max-seq", "0"]],
)
def test_wrong_usage_exits_with_2(tmp_path: Path, options: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        convert.main(["hf", str(GOLDEN / "llama"), str(tmp_path / "m.mlb"), *options])
    assert caught.value.code == 2


# ---- failures leave nothing, or the old file ---------------------------------------------------


def test_the_self_check_notices_a_wrong_permutation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(common, "interleave", np.arange)
    assert "self-check failed" in refused(GOLDEN / "llama", tmp_path / "m.mlb", capsys)


@pytest.mark.parametrize(("ours", "wrong"), [("up", "gate"), ("attn_norm", "ffn_norm")])
def test_the_self_check_notices_swapped_tensors(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    ours: str,
    wrong: str,
) -> None:
    real = common.load

    def swapped(source: common.Source, *args: Any) -> common.F32:
        names = {llama.LAYER[ours]: llama.LAYER[wrong]}
        prefix, _, last = source.name.partition("layers.0.")
        if last in names:
            source = common.Source(f"{prefix}layers.0.{names[last]}")
        return real(source, *args)

    monkeypatch.setattr(convert, "load", swapped)
    assert "self-check failed" in refused(GOLDEN / "llama", tmp_path / "m.mlb", capsys)


@pytest.mark.parametrize(
    "outcome",
    [
        (KeyboardInterrupt(), 130, "interrupted: nothing was written"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "No space left on device: free"),
    ],
)
def test_an_interruption_or_a_full_disk_leaves_the_old_file(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    outcome: tuple[BaseException, int, str],
) -> None:
    raised, code, message = outcome
    out = tmp_path / "m.mlb"
    out.write_bytes(b"old")

    def interrupted(*_: object) -> None:
        raise raised

    monkeypatch.setattr(quant, "quantize", interrupted)
    assert run(GOLDEN / "llama", out) == code
    assert message in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["m.mlb"]
    assert out.read_bytes() == b"old"


def test_too_little_space_is_found_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=10))
    assert "are free in" in refused(GOLDEN / "llama", tmp_path / "m.mlb", capsys)


def test_progress_is_shown_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    convert.Progress(100).step("embed", 50)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    convert.Progress(100).step("embed", 50)
    assert "50%  embed" in capsys.readouterr().err


# VmHWM and not ru_maxrss, which begins with what the parent had before exec.
MEASURE = """
import convert, pathlib, re, sys
code = convert.main(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", pathlib.Path("/proc/self/status").read_text())[1])
sys.exit(code)
"""


@pytest.mark.parametrize("wtype", ["q8", "q4"])
def test_peak_memory_is_the_largest_tensor_and_150_mib(
    tmp_path: Path, not_run: Callable[[str], NoReturn], wtype: str
) -> None:
    if not Path("/proc/self/status").exists():
        not_run("peak memory is read from /proc")
    dim, hidden, layers, vocab = 512, 2048, 24, 8192
    directory = tmp_path / "big"
    directory.mkdir()
    config = json.loads((GOLDEN / "llama" / "config.json").read_text()) | {
        "hidden_size": dim,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "vocab_size": vocab,
        "tie_word_embeddings": True,
    }
    (directory / "config.json").write_text(json.dumps(config))
    shapes: dict[str, tuple[int, ...]] = {"model.norm.weight": (dim,)}
    shapes["model.embed_tokens.weight"] = (vocab, dim)
    for n in range(layers):
        for theirs in llama.LAYER.values():
            rows = hidden if "gate" in theirs or "up_" in theirs else dim
            k = hidden if "down" in theirs else dim
            whole = (dim,) if "norm" in theirs else (rows, k)
            shapes[f"model.layers.{n}.{theirs}"] = whole
    header, at = {}, 0
    for name, shape in shapes.items():
        end = at + 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    rng = np.random.default_rng(1)
    with (directory / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            bits = np.frombuffer(rng.bytes(2 * int(np.prod(shape))), dtype="<u2")
            file.write(((bits & 0x80FF) | 0x3C00).tobytes())  # +-0.008 to 0.03
    paths = [str(directory), str(tmp_path / "m.mlb")]
    command = [sys.executable, "-c", MEASURE, "hf", *paths, "--wtype", wtype]
    done = subprocess.run(command, cwd=ROOT / "tools", capture_output=True, text=True, check=True)
    peak = int(done.stdout.split()[-1]) * 1024
    assert at > 200 << 20  # the whole model in float32 would be 400 MiB
    assert peak < 4 * vocab * dim + (150 << 20)


def test_the_float_reference_reads_the_file_back(tmp_path: Path) -> None:
    model = converted(GOLDEN / "llama", tmp_path / "m.mlb", "--scales", "f32")
    tokens = json.loads((GOLDEN / "llama" / "tokens.json").read_text())
    logits = reference.forward(model.arch, reference.FileWeights(model), tokens, reference.Float())
    want = np.load(GOLDEN / "llama" / "logits.npy")
    assert np.abs(logits - want).max() < 0.1 * np.abs(want).max()


def test_the_guide_has_the_options_of_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        convert.main(["hf", "--help"])
    options = set(re.findall(r"^  (--[\w-]+)", capsys.readouterr().out, re.MULTILINE))
    guide = Path(__file__).resolve().parents[2] / "docs" / "user-guide.md"
    table = (
        guide.read_text(encoding="utf-8").split("| option of `convert.py` |")[1].split("\n\n")[0]
    )
    assert options == set(re.findall(r"^\| `(--[\w-]+)", table, re.MULTILINE))


def gemma_plan(**changes: Any) -> common.Plan:
    """Return the plan of the golden Gemma with other keys; None leaves a key out."""
    values = json.loads((GOLDEN / "gemma3" / "config.json").read_text()) | changes
    return gemma3.plan(common.Config({k: v for k, v in values.items() if v is not None}, "here"))


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
