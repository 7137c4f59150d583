# SPDX-License-Identifier: MIT
"""Qwen3.5 and Qwen3.6 (dense): the gated delta rule in three of four layers, attention in the rest.

Norms multiply by 1 + w and are stored with the 1 added, all but that of the delta rule's output.
Attention has a gate beside each query head, and turns only the first quarter of a head.  The
language model of an image-text checkpoint is taken.

    python3 tools/convert.py hf ./Qwen3.5-0.8B model.mlb --wtype q8
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from mlb.arch import rope
from mlb.arch.common import (
    ATTENTION,
    BODY,
    FULL,
    MLP,
    NORMS,
    QK_NORMS,
    Plan,
    Source,
    decoder,
    layer_types,
    make_plan,
    silu_without_biases,
    text_model,
)
from mlb.shape import MAX_TAPS, Arch

if TYPE_CHECKING:
    from mlb.arch.config import Config

LINEAR = "linear_attention"
BOTH = {**NORMS, **MLP}
LAYER = {**BOTH, **ATTENTION, **QK_NORMS}
LINEAR_LAYER = {
    **BOTH,
    "wqkv": "linear_attn.in_proj_qkv.weight",
    "wz": "linear_attn.in_proj_z.weight",
    "wb": "linear_attn.in_proj_b.weight",
    "wa": "linear_attn.in_proj_a.weight",
    "dt_bias": "linear_attn.dt_bias",
    "wo": "linear_attn.out_proj.weight",
}
DEFAULTS = {
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}
IMAGE_TEXT = (
    "image_token_id",
    "language_model_only",
    "video_token_id",
    "vision_end_token_id",
    "vision_start_token_id",
)
LEFT_OUT = {
    "vision tower": ("visual.",),
    "multi-token prediction head": ("mtp.",),
}


def plan(config: Config) -> Plan:
    """The plan of a Qwen3_5ForCausalLM checkpoint."""
    silu_without_biases(config)
    config.must_be("attn_output_gate", True)  # noqa: FBT003  (the value in the file)
    config.must_be("output_gate_type", "swish", "silu")
    config.must_be("mlp_only_layers", [])
    for key in ("mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"):
        config.get(key, None)
    arch = decoder(config, "qwen3_5", DEFAULTS)
    interval = config.integer("full_attention_interval", 4)
    usual = [LINEAR if (n + 1) % interval else FULL for n in range(arch.n_layers)]
    kinds = layer_types(config, usual, (LINEAR, FULL))
    arch = _with_linear(config, arch, tuple(n for n, kind in enumerate(kinds) if kind == LINEAR))
    turn = rope.read(config, arch.head_dim, arch.max_seq, partial=0.25, mrope=True)
    layers = [LINEAR_LAYER if kind == LINEAR else LAYER for kind in kinds]
    made = make_plan(arch, layers, turn, add_one=True)
    sources = {**made.sources, **_special(made.arch)}
    return dataclasses.replace(made, sources=sources, left_out=LEFT_OUT)


def image_text_plan(config: Config) -> Plan:
    """The plan of the language model of a Qwen3_5ForConditionalGeneration checkpoint."""
    inner = text_model(config, "qwen3_5_text", IMAGE_TEXT, tied=False)
    made = plan(inner)
    inner.finish()
    return made


def _with_linear(config: Config, arch: Arch, linear: tuple[int, ...]) -> Arch:
    """The architecture with the sizes of its linear layers."""
    arch = dataclasses.replace(arch, qk_norm=True, attn_gate=True, linear_layers=linear)
    with_sizes = dataclasses.replace(
        arch,
        linear_k_heads=config.integer("linear_num_key_heads", 16),
        linear_v_heads=config.integer("linear_num_value_heads", 32),
        linear_k_dim=config.integer("linear_key_head_dim", 128),
        linear_v_dim=config.integer("linear_value_head_dim", 128),
        conv_taps=config.integer("linear_conv_kernel_dim", 4, most=MAX_TAPS),
    )
    return with_sizes if linear else arch


def _special(arch: Arch) -> dict[str, Source]:
    """The tensors that are not simply taken over."""
    sources: dict[str, Source] = {}
    linear = frozenset(arch.linear_layers)
    for n in range(arch.n_layers):
        ours = f"layers.{n}."
        theirs = f"{BODY}layers.{n}.linear_attn."
        if n in linear:
            sources[f"{ours}conv"] = Source(f"{theirs}conv1d.weight", taps=arch.conv_taps)
            sources[f"{ours}decay_rate"] = Source(f"{theirs}A_log", exponential=True)
            sources[f"{ours}delta_norm"] = Source(f"{theirs}norm.weight")
        else:  # q_proj has the rows of a head's query, then of its gate
            both = f"{BODY}layers.{n}.self_attn.q_proj.weight"
            of_head = Source(both, head_dim=arch.head_dim, turned=arch.rotary_dim, parts=2)
            sources[f"{ours}wq"] = of_head
            sources[f"{ours}wg"] = dataclasses.replace(of_head, turned=0, part=1)
    return sources
