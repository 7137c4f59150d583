# SPDX-License-Identifier: MIT
"""Llama (Llama 2, 3, 3.1, 3.2, TinyLlama, SmolLM2): what other families differ from.

python3 tools/convert.py hf ./Llama-3.2-1B-Instruct model.mlb --wtype q8
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlb.arch import rope
from mlb.arch.common import ATTENTION, MLP, NORMS, Plan, decoder, make_plan, silu_without_biases

if TYPE_CHECKING:
    from mlb.arch.config import Config

LAYER = {**NORMS, **ATTENTION, **MLP}
DEFAULTS = {
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
}


def plan(config: Config) -> Plan:
    """The plan of a LlamaForCausalLM checkpoint."""
    silu_without_biases(config)
    config.must_be_off("rope_interleaved")
    config.must_be("sliding_window")
    arch = decoder(config, "llama", DEFAULTS)
    turn = rope.read(config, arch.head_dim, arch.max_seq)
    return make_plan(arch, [LAYER] * arch.n_layers, turn)
