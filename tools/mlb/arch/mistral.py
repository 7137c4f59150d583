# SPDX-License-Identifier: MIT
"""Mistral: Llama with a sliding window in every layer, unless sliding_window is null.

python3 tools/convert.py hf ./Mistral-7B-v0.1 model.mlb --wtype q4
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlb.arch import rope
from mlb.arch.common import (
    FULL,
    SLIDING,
    Plan,
    decoder,
    layer_types,
    make_plan,
    silu_without_biases,
    sliding_window,
    with_window,
)
from mlb.arch.llama import LAYER

if TYPE_CHECKING:
    from mlb.arch.config import Config

DEFAULTS = {
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
}


def plan(config: Config) -> Plan:
    """The plan of a MistralForCausalLM checkpoint."""
    silu_without_biases(config)
    arch = decoder(config, "mistral", DEFAULTS)
    window = sliding_window(config, 4096)
    every = [FULL if window is None else SLIDING] * arch.n_layers
    if list(layer_types(config, every)) != every:
        raise config.fail("layer_types", f"{every[0]} in every layer, as sliding_window says")
    arch = with_window(config, arch, every, window)
    turn = rope.read(config, arch.head_dim, arch.max_seq)
    return make_plan(arch, [LAYER] * arch.n_layers, turn)
