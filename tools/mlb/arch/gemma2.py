# SPDX-License-Identifier: MIT
"""Gemma 2: norms before and after each block, soft caps, a window in every other layer.

Norms multiply by 1 + w and are stored with the 1 added; the embedding is multiplied by sqrt(dim);
scores are scaled by query_pre_attn_scalar, not by head_dim, and like the logits soft-capped.

    python3 tools/convert.py hf ./gemma-2-2b-it model.mlb --wtype q4
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from mlb.arch import rope
from mlb.arch.common import (
    ATTENTION,
    FOUR_NORMS,
    FULL,
    MLP,
    SLIDING,
    Plan,
    decoder,
    layer_types,
    make_plan,
    sliding_window,
    with_window,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlb.arch.config import Config
    from mlb.shape import Arch

LAYER = {**FOUR_NORMS, **ATTENTION, **MLP}
DEFAULTS = {
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "attn_logit_softcapping": 50.0,
    "final_logit_softcapping": 30.0,
}


def plan(config: Config) -> Plan:
    """The plan of a Gemma2ForCausalLM checkpoint."""
    arch = gemma(config, "gemma2", DEFAULTS)
    every_other = [FULL if n % 2 else SLIDING for n in range(arch.n_layers)]
    kinds = layer_types(config, every_other)
    arch = with_window(config, arch, kinds, sliding_window(config, 4096))
    turn = rope.read(config, arch.head_dim, arch.max_seq)
    return make_plan(arch, [LAYER] * arch.n_layers, turn, add_one=True)


def gemma(config: Config, family: str, defaults: Mapping[str, int | float | bool | None]) -> Arch:
    """The sizes, and what Gemma 2 and Gemma 3 have in common."""
    config.must_be("hidden_activation", "gelu_pytorch_tanh")
    config.must_be("hidden_act", "gelu_pytorch_tanh")
    config.must_be_off("attention_bias")
    config.must_be_off("use_bidirectional_attention")
    arch = decoder(config, family, defaults)
    scale = config.number("query_pre_attn_scalar", 256) ** -0.5
    caps = [
        config.number(key, defaults[key])
        if config.nullable(key, defaults[key]) is not None
        else 0.0
        for key in ("attn_logit_softcapping", "final_logit_softcapping")
    ]
    return dataclasses.replace(
        arch,
        embed_scale=float(np.float32(arch.dim**0.5)),
        attn_scale=float(np.float32(scale)),
        attn_cap=caps[0],
        logit_cap=caps[1],
        activation="gelu_tanh",
        post_norms=True,
    )
