# SPDX-License-Identifier: MIT
"""Gemma 3: Gemma 2 with normalised queries and keys, and a RoPE base of its own in local layers.

Most layers see a sliding window.  The larger ones are image-text models: their text model is taken.

    python3 tools/convert.py hf ./gemma-3-1b-it model.mlb --wtype q4
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from mlb.arch import rope
from mlb.arch.common import (
    FULL,
    QK_NORMS,
    SLIDING,
    Plan,
    layer_types,
    make_plan,
    sliding_window,
    text_model,
    with_window,
)
from mlb.arch.gemma2 import LAYER as GEMMA2
from mlb.arch.gemma2 import gemma

if TYPE_CHECKING:
    from mlb.arch.config import Config
    from mlb.shape import Arch

LAYER = {**GEMMA2, **QK_NORMS}
DEFAULTS = {
    "vocab_size": 262208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "attn_logit_softcapping": None,
    "final_logit_softcapping": None,
}
IMAGE_TEXT = (
    "boi_token_id",
    "boi_token_index",
    "eoi_token_id",
    "eoi_token_index",
    "image_token_id",
    "image_token_index",
    "mm_tokens_per_image",
)
LEFT_OUT = {"vision tower": ("vision_tower.", "multi_modal_projector.")}


def plan(config: Config) -> Plan:
    """The plan of a Gemma3ForCausalLM checkpoint."""
    config.must_be("attn_logit_softcapping")  # which transformers reads here and does not use
    arch = dataclasses.replace(gemma(config, "gemma3", DEFAULTS), qk_norm=True)
    config.get("_sliding_window_pattern", None)
    pattern = config.integer("sliding_window_pattern", config.get("_sliding_window_pattern", 6))
    kinds = [FULL if (n + 1) % pattern == 0 else SLIDING for n in range(arch.n_layers)]
    arch = with_window(config, arch, layer_types(config, kinds), sliding_window(config, 4096))
    wide, local = _ropes(config, arch)
    return make_plan(arch, [LAYER] * arch.n_layers, wide, local, add_one=True)


def image_text_plan(config: Config) -> Plan:
    """The plan of the language model of a Gemma3ForConditionalGeneration checkpoint."""
    inner = text_model(config, "gemma3_text", IMAGE_TEXT, tied=True)
    inner.must_be("final_logit_softcapping")  # only the text model of that name has it
    made = plan(inner)
    inner.finish()
    return dataclasses.replace(made, left_out=LEFT_OUT)


def _ropes(config: Config, arch: Arch) -> tuple[rope.Rope, rope.Rope | None]:
    """RoPE of the full layers, and of the local ones where it differs.

    Older files have rope_theta, rope_local_base_freq and, for full layers, rope_scaling; newer ones
    rope_parameters with an object for each kind of layer.
    """
    parameters = config.get("rope_parameters", {})
    scaling = config.get("rope_scaling", {})
    bases = {
        FULL: config.number("rope_theta", 1e6),
        SLIDING: config.number("rope_local_base_freq", 1e4),
    }
    if not isinstance(parameters, dict) or not set(parameters) <= set(bases):
        raise config.fail("rope_parameters", f"an object of {FULL} and {SLIDING}")
    found = {}
    for kind, base in bases.items():
        values = parameters.get(kind) or {}
        older = scaling if kind == FULL else {}
        if not isinstance(values, dict) or not isinstance(older, dict):
            raise config.fail("rope_parameters" if older == {} else "rope_scaling", "objects")
        inner = config.inside("rope_parameters", {**values, **older})
        inner.must_be("partial_rotary_factor", 1.0)
        found[kind] = rope.scaled(inner, base, arch.head_dim, arch.max_seq)
    wide, local = found[FULL], found[SLIDING]
    if not arch.local_layers:
        return wide, None
    if local.scale != 1:
        raise config.fail("rope_parameters", f"no attention factor in {SLIDING}")
    same = wide.scale == 1 and np.array_equal(wide.frequencies, local.frequencies)
    return wide, None if same else local
