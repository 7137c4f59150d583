# SPDX-License-Identifier: MIT
"""What the fields of a GGUF file say about its model, as the keys of a Hugging Face config.json.

So that a GGUF and a checkpoint become the same architecture by the same code (mlb/arch): rope
scaling, limits and refusals are there.  One row of FAMILIES is one family; what a GGUF does not say
is known by family and written down in its row.

    PYTHONPATH=tools python3 -c "from mlb.gguf_families import FAMILIES; print(*FAMILIES)"
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from mlb.arch.common import FULL, MAX_LAYERS, SLIDING
from mlb.arch.config import Config
from mlb.arch.qwen3_5 import LINEAR
from mlb.checkpoint import CheckpointError
from mlb.shape import MAX_VOCAB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlb.gguf import Gguf, Value

Json = dict[str, Any]

ROPE_FACTORS = "rope_freqs.weight"  # divisors of the frequencies: what llama3's scaling comes to

# Our name of a layer's tensor -> the file's, below blk.N.
LAYER = {
    "attn_norm": "attn_norm.weight",
    "wq": "attn_q.weight",
    "wk": "attn_k.weight",
    "wv": "attn_v.weight",
    "bq": "attn_q.bias",
    "bk": "attn_k.bias",
    "bv": "attn_v.bias",
    "q_norm": "attn_q_norm.weight",
    "k_norm": "attn_k_norm.weight",
    "wo": "attn_output.weight",
    "attn_post_norm": "post_attention_norm.weight",
    "ffn_norm": "ffn_norm.weight",
    "gate": "ffn_gate.weight",
    "up": "ffn_up.weight",
    "down": "ffn_down.weight",
    "ffn_post_norm": "post_ffw_norm.weight",
}
QWEN35_LAYER = LAYER | {
    "wg": "attn_q.weight",  # each head's gate follows its query
    "ffn_norm": "post_attention_norm.weight",
    "wqkv": "attn_qkv.weight",
    "wz": "attn_gate.weight",
    "wb": "ssm_beta.weight",
    "wa": "ssm_alpha.weight",
    "conv": "ssm_conv1d.weight",
    "dt_bias": "ssm_dt.bias",
    "decay_rate": "ssm_a",
    "delta_norm": "ssm_norm.weight",
}
WHOLE = {
    "embed": "token_embd.weight",
    "out_norm": "output_norm.weight",
    "classifier": "output.weight",
}


@dataclasses.dataclass(frozen=True)
class Family:
    """One `general.architecture`."""

    special: Callable[[Config, Json], Json]  # keys of config.json beside the common ones
    layer: Mapping[str, str] = dataclasses.field(default_factory=lambda: LAYER)
    turned: bool = True  # query and key rows are in rotate-half order, as in the checkpoint
    partial: bool = False  # only the first elements of each head turn


# ---- what is special in each family --------------------------------------------------------------


def _llama(meta: Config, _: Json) -> Json:
    """Llama, and Mistral under the same name.

    Mistral v0.1's window is not in the files that llama.cpp writes; without it every layer sees
    everything, as in llama.cpp.
    """
    window = meta.get("attention.sliding_window", None)
    if window is None:
        return {"model_type": "llama"}
    return {"model_type": "mistral", "sliding_window": window}


def _plain(model_type: str) -> Callable[[Config, Json], Json]:
    """A family whose common keys say everything."""
    return lambda _meta, _common: {"model_type": model_type}


def _qwen35(meta: Config, common: Json) -> Json:
    layers = common["num_hidden_layers"]
    interval = meta.integer("full_attention_interval", 4)
    linear = meta.get("attention.recurrent_layers", None)
    if linear is None:
        linear = [(n + 1) % interval != 0 for n in range(layers)]
    kinds = [LINEAR if item else FULL for item in _per_layer(meta, linear, layers)]
    meta.get("rope.dimension_sections", None)  # of positions in images: all equal in text
    rotary = meta.integer("rope.dimension_count", common["head_dim"])
    v_heads = meta.integer("ssm.time_step_rank")
    values = meta.integer("ssm.inner_size")
    if values % v_heads:
        raise meta.fail("ssm.inner_size", f"a multiple of {v_heads} heads")
    rope = {"rope_type": "default", **(common.pop("rope_scaling") or {})}
    theta = common.pop("rope_theta")
    return {
        "model_type": "qwen3_5_text",
        "layer_types": kinds,
        "rope_parameters": rope
        | {"rope_theta": theta, "partial_rotary_factor": rotary / common["head_dim"]},
        "linear_num_key_heads": meta.integer("ssm.group_count"),
        "linear_num_value_heads": v_heads,
        "linear_key_head_dim": meta.integer("ssm.state_size"),
        "linear_value_head_dim": values // v_heads,
        "linear_conv_kernel_dim": meta.integer("ssm.conv_kernel"),
    }


def _smollm3(_: Config, common: Json) -> Json:
    """Every fourth layer is without rotation: llama.cpp has that in its code, not in the file."""
    layers = common["num_hidden_layers"]
    return {
        "model_type": "smollm3",
        "no_rope_layers": [int((n + 1) % 4 != 0) for n in range(layers)],
    }


def _gemma(meta: Config, common: Json, every: int, largest: int) -> Json:
    """What Gemma 2 and 3 share.

    The layers without a window are every `every`-th, unless the file says it; scores are divided by
    the root of head_dim, in the largest model (known by its layers) by that of dim / heads.
    """
    layers, heads = common["num_hidden_layers"], common["num_attention_heads"]
    pattern = meta.get("attention.sliding_window_pattern", every)
    if type(pattern) is int and pattern > 0:
        pattern = [(n + 1) % pattern != 0 for n in range(layers)]
    local = _per_layer(meta, pattern, layers)
    window = meta.get("attention.sliding_window", None)
    width = common["hidden_size"] // heads if layers == largest else common["head_dim"]
    return {
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": width,
        "sliding_window": window,
        "layer_types": [SLIDING if window and item else FULL for item in local],
        "final_logit_softcapping": meta.get("final_logit_softcapping", None),
    }


def _gemma2(meta: Config, common: Json) -> Json:
    special = _gemma(meta, common, every=2, largest=46)
    meta.must_be("rope.freq_base_swa", common["rope_theta"])
    return special | {
        "model_type": "gemma2",
        "attn_logit_softcapping": meta.get("attn_logit_softcapping", None),
    }


def _gemma3(meta: Config, common: Json) -> Json:
    """The RoPE base of the local layers is 10000 in every Gemma 3; only newer files say it."""
    special = _gemma(meta, common, every=6, largest=62)
    local_base = meta.number("rope.freq_base_swa", 10000.0)
    return special | {"model_type": "gemma3_text", "rope_local_base_freq": local_base}


def _per_layer(meta: Config, values: object, layers: int) -> list[bool]:
    """Check a list with a truth value for each layer (of which a file may have more)."""
    if not isinstance(values, list) or len(values) < layers or any(v not in (0, 1) for v in values):
        raise CheckpointError(f"{meta.where}: expected {layers} layers' kinds, found {values!r}")
    return [bool(value) for value in values[:layers]]


FAMILIES: Mapping[str, Family] = {
    "llama": Family(_llama, turned=False),
    "qwen2": Family(_plain("qwen2")),
    "qwen3": Family(_plain("qwen3")),
    "qwen35": Family(_qwen35, QWEN35_LAYER, partial=True),
    "smollm3": Family(_smollm3, turned=False),
    "gemma2": Family(_gemma2),
    "gemma3": Family(_gemma3),
}


SAMPLING = {  # of generation_config.json
    "temperature": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "penalty_repeat",
}


def generation_of(gguf: Gguf) -> Json:
    """The generation_config.json that the file's fields come to."""
    found = {ours: gguf.fields.get(f"general.sampling.{key}") for ours, key in SAMPLING.items()}
    return {ours: value for ours, value in found.items() if value is not None}


# ---- what all have -------------------------------------------------------------------------------


def _plain_value(value: Value) -> Any:
    """The value as JSON has it: numpy's arrays compare and print otherwise.

    Of more elements than any model has layers, the rest is left out.
    """
    return value[:MAX_LAYERS].tolist() if isinstance(value, np.ndarray) else value


def family_of(gguf: Gguf) -> tuple[str, Family]:
    """The family of a file, or the reason why there is none."""
    name = _plain_value(gguf.fields.get("general.architecture"))
    kind = _plain_value(gguf.fields.get("general.type", "model"))
    if name == "clip" or kind == "mmproj":
        raise CheckpointError(
            f"{gguf.path}: is the vision part of a model (mmproj): convert the file of the "
            "language model"
        )
    if kind != "model":
        raise CheckpointError(f"{gguf.path}: general.type is {kind!r}: expected a whole model")
    if not isinstance(name, str) or name not in FAMILIES:
        raise CheckpointError(
            f"{gguf.path}: architecture {name!r} is not supported: expected one of "
            f"{', '.join(FAMILIES)}"
        )
    return name, FAMILIES[name]


def config_of(gguf: Gguf) -> Json:
    """The config.json that the file's fields come to; a field that nobody knows is refused."""
    name, family = family_of(gguf)
    own = {
        key.removeprefix(f"{name}."): _plain_value(value)
        for key, value in gguf.fields.items()
        if key.startswith(f"{name}.")
    }
    meta = Config(own, f"{gguf.path}: {name}")
    common = _common(meta, gguf)
    found = common | family.special(meta, common)
    if not family.partial:
        meta.must_be("rope.dimension_count", common["head_dim"])
    meta.finish()
    return found


def _common(meta: Config, gguf: Gguf) -> Json:
    for key in ("expert_count", "expert_used_count"):
        if meta.get(key, 0):
            raise CheckpointError(f"{meta.where}: a mixture of experts is not supported")
    meta.must_be("attention.causal", True)  # noqa: FBT003  (the value in the file)
    meta.must_be("pooling_type", 0)
    meta.amount("attention.scale", 0)  # open_gguf() takes it
    for key in ("vocab_size", "rope.scaling.finetuned", "tensor_data_layout"):
        meta.get(key, None)
    dim, heads = meta.integer("embedding_length"), meta.integer("attention.head_count")
    head_dim = meta.integer("attention.key_length", dim // heads or 1)
    meta.must_be("attention.value_length", head_dim)
    embedding = gguf.tensors.get(WHOLE["embed"])
    if embedding is None:
        raise CheckpointError(f"{gguf.path}: has no {WHOLE['embed']}: it holds no model")
    extra = meta.get("nextn_predict_layers", 0)  # multi-token prediction, after the model's own
    layers = meta.integer("block_count")
    if type(extra) is not int or not 0 <= extra < layers:
        raise meta.fail("nextn_predict_layers", f"less than {layers} layers")
    return {
        "vocab_size": embedding.shape[0],
        "hidden_size": dim,
        "intermediate_size": meta.integer("feed_forward_length"),
        "num_hidden_layers": layers - extra,
        "num_attention_heads": heads,
        "num_key_value_heads": meta.integer("attention.head_count_kv", heads),
        "head_dim": head_dim,
        "max_position_embeddings": meta.integer("context_length", most=MAX_VOCAB),
        "rms_norm_eps": meta.number("attention.layer_norm_rms_epsilon"),
        "rope_theta": meta.number("rope.freq_base", 10000.0),
        "rope_scaling": _rope_scaling(meta),
        "tie_word_embeddings": WHOLE["classifier"] not in gguf.tensors,
    }


def _rope_scaling(meta: Config) -> Json | None:
    """The scaling of the RoPE frequencies; llama3's is in ROPE_FACTORS instead."""
    kind = meta.get("rope.scaling.type", "linear")
    older = meta.get("rope.scale_linear", None)
    factor = meta.get("rope.scaling.factor", older)
    names = {
        "original_max_position_embeddings": "rope.scaling.original_context_length",
        "attention_factor": "rope.scaling.yarn_attn_factor",
        "beta_fast": "rope.scaling.yarn_beta_fast",
        "beta_slow": "rope.scaling.yarn_beta_slow",
    }
    yarn = {ours: meta.get(key, None) for ours, key in names.items()}
    meta.must_be("rope.scaling.yarn_ext_factor", 1.0)
    meta.must_be("rope.scaling.attn_factor", 1.0)
    if kind == "none" or (kind == "linear" and factor in (None, 0, 1)):
        return None
    if kind == "yarn":
        said = {key: value for key, value in yarn.items() if value is not None}
        return {"rope_type": "yarn", "factor": factor, **said}
    return {"rope_type": kind, "factor": factor}  # mlb/arch knows linear and refuses the others
