# SPDX-License-Identifier: MIT
"""Qwen2 and Qwen2.5: Llama with biases on q, k and v, and perhaps a window in the upper layers.

python3 tools/convert.py hf ./Qwen2.5-0.5B-Instruct model.mlb --wtype q8
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from mlb.arch import rope
from mlb.arch.common import (
    BIASES,
    FULL,
    SLIDING,
    Plan,
    decoder,
    layer_types,
    make_plan,
    used_window,
    with_window,
)
from mlb.arch.llama import LAYER as LLAMA

if TYPE_CHECKING:
    from mlb.arch.config import Config
    from mlb.shape import Arch

LAYER = {**LLAMA, **BIASES}
DEFAULTS = {
    "max_position_embeddings": 32768,
    "tie_word_embeddings": False,
}


def plan(config: Config) -> Plan:
    """The plan of a Qwen2ForCausalLM checkpoint."""
    config.must_be("hidden_act", "silu")
    config.must_be_off("mlp_bias")
    config.must_be_off("use_mrope")
    config.must_be("attention_bias", True)  # noqa: FBT003  (the value in the file)
    arch = dataclasses.replace(decoder(config, "qwen2", DEFAULTS), qkv_bias=True)
    arch = upper_window(config, arch)
    turn = rope.read(config, arch.head_dim, arch.max_seq)
    return make_plan(arch, [LAYER] * arch.n_layers, turn)


def upper_window(config: Config, arch: Arch) -> Arch:
    """The sliding window of the layers from max_window_layers on, or where layer_types says."""
    window = used_window(config, 4096)
    first = config.get("max_window_layers", 28)
    if type(first) is not int or first < 0:
        raise config.fail("max_window_layers", "a number of layers")
    upper = [SLIDING if window and n >= first else FULL for n in range(arch.n_layers)]
    return with_window(config, arch, layer_types(config, upper), window)
