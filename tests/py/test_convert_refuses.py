# SPDX-License-Identifier: MIT
"""The converter: what it refuses by name, and that failures leave nothing behind.

.venv/bin/python -m pytest tests/py/test_convert_refuses.py
"""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import pytest

import convert
from conversion import GOLDEN, ROOT, load, refused, run, save
from mlb import quant
from mlb.arch import common, llama
from mlb.format import read_model

# ---- what it refuses ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"rope_scaling": {"rope_type": "llama3", "factor": 8.0}}, "low_freq_factor: expected"),
        ({"rope_scaling": {"type": "dynamic", "factor": 8.0}}, "type 'dynamic'"),
        ({"rope_parameters": {"rope_type": "longrope"}}, "type 'longrope'"),
        ({"attention_bias": True}, "attention_bias = True"),
        ({"mlp_bias": True}, "mlp_bias = True"),
        ({"quantization_config": {"bits": 4}}, "quantization_config"),
        ({"num_local_experts": 8}, "model_type 'llama' is a mixture of experts"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5"),
        ({"sliding_window": 4096}, "sliding_window = 4096"),
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu'"),
        ({"rope_interleaved": True}, "rope_interleaved = True"),
        ({"model_type": "mixtral"}, "'mixtral' is a mixture of experts"),
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
        ({"head_dim": 6}, "n_heads . head_dim is 24, expected a multiple of 32"),
        ({"head_dim": 7}, "head_dim 7: expected an even number"),
        ({"max_position_embeddings": 1 << 30}, "max_position_embeddings: expected a positive"),
        ({"num_hidden_layers": (1 << 31) - 1}, "num_hidden_layers: expected a positive integer up"),
        ({"rope_theta": 10**400}, "rope_theta: expected a number above 0"),
        ({"rope_theta": 0.5}, "RoPE base: expected more than 1, found 0.5"),
        ({"rms_norm_eps": 1e-30}, r"rms_norm_eps: .* \(1e-22 to 1e\+37\), found 1e-30"),
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
        (
            {"head_dim": 7, "rope_scaling": {"rope_type": "yarn", "factor": 2.0}},
            "n_heads * head_dim is 28, expected a multiple of 32",
        ),
        ({"final_logit_softcapping": 1e-30}, "final_logit_softcapping: expected a number above 0"),
        ({"query_pre_attn_scalar": 1e-320}, "query_pre_attn_scalar: expected a number above 0"),
        ({"final_logit_softcapping": -30.0}, "final_logit_softcapping: expected a number above 0"),
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
def test_weights_that_are_not_numbers_are_counted_in_their_tensor(
    tmp_path: Path,
    changed: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    value: float,
    name: str,
) -> None:
    monkeypatch.setattr(common, "SLICE", 64)  # the tensor is read in parts
    directory = changed()
    tensors = load(directory)
    weights = tensors[name].copy()
    weights.reshape(-1)[[-3, -1]] = value
    tensors[name] = weights
    save(directory, tensors)
    row = len(weights) - (3 if weights.ndim == 1 else 1)
    assert (
        f"tensor '{name}': 2 of {weights.size} weights are NaN or infinite, the first in row {row}:"
        in refused(directory, tmp_path / "m.mlb", capsys)
    )


@pytest.mark.parametrize("name", ["input_layernorm", "post_attention_layernorm"])
def test_weights_with_which_nothing_is_finite_are_refused_in_one_line(
    tmp_path: Path, changed: Callable[..., Path], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    directory = changed()
    tensors = load(directory)
    weights = f"model.layers.0.{name}.weight"
    tensors[weights] = np.full_like(tensors[weights], 3e38)
    save(directory, tensors)
    line = refused(directory, tmp_path / "m.mlb", capsys)
    assert "self-check failed: the first layers compute NaN or infinity" in line


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


@pytest.mark.parametrize(
    "case",
    [
        ("llama", "mlp.up_proj.weight", "mlp.gate_proj.weight"),
        ("llama", "input_layernorm.weight", "post_attention_layernorm.weight"),
        ("gemma2", "pre_feedforward_layernorm.weight", "post_feedforward_layernorm.weight"),
        ("qwen2", "self_attn.k_proj.bias", "self_attn.v_proj.bias"),
        ("qwen3", "self_attn.q_norm.weight", "self_attn.k_norm.weight"),
        ("qwen3_5_text", "linear_attn.in_proj_a.weight", "linear_attn.in_proj_b.weight"),
        ("qwen3_5_text", "linear_attn.dt_bias", "linear_attn.A_log"),
    ],
    ids=lambda case: f"{case[0]}-{case[1]}",
)
def test_the_self_check_notices_swapped_tensors(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    case: tuple[str, str, str],
) -> None:
    name, ours, wrong = case

    def swapped(real: Callable[..., Any], source: common.Source, *args: Any) -> Any:
        if source.name.endswith(ours):
            other = source.name.removesuffix(ours) + wrong
            source = dataclasses.replace(source, name=other)
        return real(source, *args)

    monkeypatch.setattr(convert, "load", partial(swapped, common.load))
    monkeypatch.setattr(convert, "load_blocks", partial(swapped, common.load_blocks))
    assert "self-check failed" in refused(GOLDEN / name, tmp_path / "m.mlb", capsys)


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
