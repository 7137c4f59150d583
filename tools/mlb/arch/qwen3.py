# SPDX-License-Identifier: MIT
"""Qwen3 (dense): Qwen2 with queries and keys normalised per head in the place of biases.

python3 tools/convert.py hf ./Qwen3-0.6B model.mlb --wtype q8
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from mlb.arch import rope
from mlb.arch.common import QK_NORMS, Plan, decoder, make_plan, silu_without_biases
from mlb.arch.llama import LAYER as LLAMA
from mlb.arch.qwen2 import DEFAULTS as QWEN2
from mlb.arch.qwen2 import upper_window

if TYPE_CHECKING:
    from mlb.arch.config import Config

LAYER = {**LLAMA, **QK_NORMS}
DEFAULTS = {**QWEN2, "head_dim": 128}


def plan(config: Config) -> Plan:
    """The plan of a Qwen3ForCausalLM checkpoint."""
    silu_without_biases(config)
    arch = upper_window(config, decoder(config, "qwen3", DEFAULTS))
    turn = rope.read(config, arch.head_dim, arch.max_seq)
    return make_plan(dataclasses.replace(arch, qk_norm=True), [LAYER] * arch.n_layers, turn)
