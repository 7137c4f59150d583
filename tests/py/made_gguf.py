# SPDX-License-Identifier: MIT
"""GGUF files that a test makes from a small checkpoint, as llama.cpp's own converter would.

    from made_gguf import write_gguf

Written with the `gguf` package and independent of tools/: names, permutations and fields are
those of llama.cpp's conversion scripts.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import numpy.typing as npt

from mlb.checkpoint import open_safetensors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Array = npt.NDArray[Any]
Json = dict[str, Any]
Type: Any = gguf.GGMLQuantizationType  # the package has no types: members are Any

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_5": "qwen35",
    "qwen3_5_text": "qwen35",
    "smollm3": "smollm3",
    "gemma2": "gemma2",
    "gemma3": "gemma3",
    "gemma3_text": "gemma3",
}
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
}
WHOLE = {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight"}
LEFT_OUT = ("visual.", "vision_tower.", "multi_modal_projector.", "mtp.")


def text_config(directory: Path) -> Json:
    """The config.json of a checkpoint's language model."""
    values: Json = json.loads((directory / "config.json").read_text())
    return {**values.get("text_config", values), "model_type": values["model_type"]}


def write_gguf(
    directory: Path,
    out: Path,
    kind: Any | Callable[[str], Any] = Type.F32,
    more: Mapping[str, Any] | None = None,
    *,
    rounded: bool = False,
) -> Path:
    """Convert a checkpoint; kind: the type of its matrices, or what gives it by their names.

    more: other fields, None to leave one out; rounded: store as F32 what the type's bits stand for.
    """
    config = text_config(directory)
    name = ARCHITECTURES[config["model_type"]]
    writer = gguf.GGUFWriter(out, name)
    tensors = _tensors(directory, config, name)
    fields = _fields(config, name, tensors) | dict(more or {})
    for key, value in fields.items():
        if value is not None:
            add_field(writer, key, value)
    for tensor, values in tensors.items():
        matrix = values.ndim == 2 and not tensor.endswith("conv1d.weight")
        wanted = (kind(tensor) if callable(kind) else kind) if matrix else Type.F32
        stored = gguf.quants.quantize(np.ascontiguousarray(values), wanted)
        if rounded:
            stored, wanted = gguf.quants.dequantize(stored, wanted), Type.F32
        writer.add_tensor(tensor, stored, raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return out


def add_field(writer: gguf.GGUFWriter, key: str, value: Any) -> None:
    """Add a field with the type that llama.cpp gives to such a value."""
    kinds = gguf.GGUFValueType
    kind = {bool: kinds.BOOL, int: kinds.UINT32, float: kinds.FLOAT32, str: kinds.STRING}
    if isinstance(value, list):
        writer.add_array(key, value)
    else:
        writer.add_key_value(key, value, kind[type(value)])


# ---- tensors -------------------------------------------------------------------------------------


def _tensors(directory: Path, config: Json, name: str) -> dict[str, Array]:
    checkpoint = open_safetensors(directory)
    found: dict[str, Array] = {}
    rope = config.get("rope_parameters") or {}
    if rope.get("rope_type") == "llama3":
        found["rope_freqs.weight"] = _llama3_factors(rope, _head_dim(config))
    for full in checkpoint.shapes:
        short = full.replace("language_model.", "").removeprefix("model.")
        if not short.startswith(LEFT_OUT):
            gguf_name, values = _converted(short, checkpoint.read(full), config, name)
            found[gguf_name] = values
    return found


def _converted(short: str, values: Array, config: Json, name: str) -> tuple[str, Array]:
    if short == "lm_head.weight":
        return "output.weight", values
    centred = name in ("gemma2", "gemma3", "qwen35") and not short.endswith(
        "linear_attn.norm.weight"
    )
    if short.endswith("norm.weight") and centred:
        values = values + np.float32(1)
    if short in WHOLE:
        return WHOLE[short], values
    _, layer, part = short.split(".", 2)
    part, _, last = part.rpartition(".")
    if last == "A_log":
        return f"blk.{layer}.ssm_a", _dealt(-np.exp(values), config, 1)
    if last == "dt_bias":
        return f"blk.{layer}.ssm_dt.bias", _dealt(values, config, 1)
    if name in ("llama", "smollm3") and part in ("self_attn.q_proj", "self_attn.k_proj"):
        heads = "num_attention_heads" if part.endswith("q_proj") else "num_key_value_heads"
        values = _interleaved(values, config[heads])
    if part.startswith("linear_attn."):
        values = _linear(part.removeprefix("linear_attn."), values, config)
    if part == "post_attention_layernorm":
        kept = name in ("gemma2", "gemma3", "qwen35")
        return f"blk.{layer}.{'post_attention_norm' if kept else 'ffn_norm'}.{last}", values
    return f"blk.{layer}.{NAMES[part]}.{last}", values


def _interleaved(values: Array, heads: int) -> Array:
    halves = values.reshape(heads, 2, -1, *values.shape[1:])  # [heads, 2, head_dim/2, k]
    return halves.swapaxes(1, 2).reshape(values.shape)


def _linear(part: str, values: Array, config: Json) -> Array:
    keys = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
    width = config["linear_value_head_dim"]
    if part in ("in_proj_qkv", "conv1d"):
        values = values.reshape(values.shape[0], -1)
        return np.concatenate([values[:keys], _dealt(values[keys:], config, width)])
    if part == "in_proj_z":
        return _dealt(values, config, width)
    if part in ("in_proj_a", "in_proj_b"):
        return _dealt(values, config, 1)
    if part == "out_proj":
        return np.ascontiguousarray(_dealt(values.T, config, width).T)
    return values


def _dealt(values: Array, config: Json, width: int) -> Array:
    """Value heads in llama.cpp's order: the first of each key head, then the second of each."""
    keys, heads = config["linear_num_key_heads"], config["linear_num_value_heads"]
    grouped = values.reshape(keys, heads // keys, width, *values.shape[1:])
    return grouped.swapaxes(0, 1).reshape(values.shape)


def _llama3_factors(rope: Json, head_dim: int) -> Array:
    factors = []
    for i in range(0, head_dim, 2):
        length = 2 * math.pi * rope["rope_theta"] ** (i / head_dim)
        low, high, old = (
            rope["low_freq_factor"],
            rope["high_freq_factor"],
            rope["original_max_position_embeddings"],
        )
        smooth = (old / length - low) / (high - low)
        if length < old / high:
            factors.append(1.0)
        elif length > old / low:
            factors.append(rope["factor"])
        else:
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return np.array(factors, np.float32)


# ---- fields --------------------------------------------------------------------------------------


def _head_dim(config: Json) -> int:
    return int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])


def _fields(config: Json, name: str, tensors: Mapping[str, Array]) -> Json:
    rope: Json = config.get("rope_parameters") or {}
    local = rope.get("sliding_attention", {})
    rope = rope.get("full_attention", rope)
    head_dim = _head_dim(config)
    found: Json = {
        "block_count": config["num_hidden_layers"],
        "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"],
        "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"],
        "attention.head_count_kv": config.get("num_key_value_heads", config["num_attention_heads"]),
        "attention.key_length": head_dim,
        "attention.value_length": head_dim,
        "attention.layer_norm_rms_epsilon": float(config.get("rms_norm_eps", 1e-6)),
        "rope.freq_base": float(rope.get("rope_theta", 10000.0)),
    }
    if rope.get("rope_type") in ("linear", "yarn"):
        found |= {"rope.scaling.type": rope["rope_type"], "rope.scaling.factor": rope["factor"]}
    if rope.get("rope_type") == "yarn":
        found["rope.scaling.original_context_length"] = rope["original_max_position_embeddings"]
    if local and name == "gemma3":
        found["rope.freq_base_swa"] = float(local["rope_theta"])
    if name in ("llama", "smollm3"):
        found["rope.dimension_count"] = head_dim
        found["vocab_size"] = len(tensors["token_embd.weight"])
    if name.startswith("gemma") or (name == "llama" and config.get("sliding_window")):
        found["attention.sliding_window"] = config["sliding_window"]
    if name.startswith("gemma"):
        pattern = [kind == "sliding_attention" for kind in config["layer_types"]]
        found["attention.sliding_window_pattern"] = pattern
    for key in ("attn_logit_softcapping", "final_logit_softcapping"):
        if config.get(key):
            found[key] = float(config[key])
    if name == "qwen35":
        found |= _linear_fields(config, rope)
    return {f"{name}.{key}": value for key, value in found.items()}


def _linear_fields(config: Json, rope: Json) -> Json:
    heads = config["linear_num_value_heads"]
    return {
        "ssm.conv_kernel": config["linear_conv_kernel_dim"],
        "ssm.state_size": config["linear_key_head_dim"],
        "ssm.group_count": config["linear_num_key_heads"],
        "ssm.time_step_rank": heads,
        "ssm.inner_size": heads * config["linear_value_head_dim"],
        "attention.recurrent_layers": [t == "linear_attention" for t in config["layer_types"]],
        "full_attention_interval": 4,
        "rope.dimension_count": int(_head_dim(config) * rope["partial_rotary_factor"]),
        "rope.dimension_sections": [11, 11, 10, 0],
    }
