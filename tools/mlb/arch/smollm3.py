# SPDX-License-Identifier: MIT
"""SmolLM3: Llama without RoPE in some layers, every fourth by default.

python3 tools/convert.py hf ./SmolLM3-3B model.mlb --wtype q4
"""

from __future__ import annotations

import dataclasses
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
    used_window,
    with_window,
)
from mlb.arch.llama import LAYER

if TYPE_CHECKING:
    from mlb.arch.config import Config

DEFAULTS = {
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}


def plan(config: Config) -> Plan:
    """The plan of a SmolLM3ForCausalLM checkpoint."""
    silu_without_biases(config)
    config.get("max_window_layers", None)  # left over from Qwen2: transformers does not read it
    arch = decoder(config, "smollm3", DEFAULTS)
    without = no_rope_layers(config, arch.n_layers)
    window = used_window(config, None)
    alone = frozenset(without)
    local = [SLIDING if window and n in alone else FULL for n in range(arch.n_layers)]
    arch = with_window(config, arch, layer_types(config, local), window)
    turn = rope.read(config, arch.head_dim, arch.max_seq, theta=2e6)
    arch = dataclasses.replace(arch, no_rope_layers=without)
    return make_plan(arch, [LAYER] * arch.n_layers, turn)


def no_rope_layers(config: Config, layers: int) -> tuple[int, ...]:
    """Layers without RoPE.  Despite its name, no_rope_layers has a 1 for each layer with it."""
    interval = config.integer("no_rope_layer_interval", 4)
    turning = config.get("no_rope_layers", [int((n + 1) % interval != 0) for n in range(layers)])
    if (
        not isinstance(turning, list)
        or len(turning) < layers
        or not all(type(flag) in (int, bool) and flag in (0, 1) for flag in turning)
    ):
        raise config.fail("no_rope_layers", f"{layers} of 0 and 1")
    return tuple(n for n in range(layers) if not turning[n])
