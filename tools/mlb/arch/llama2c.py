# SPDX-License-Identifier: MIT
"""llama2.c checkpoints: Llama without a configuration file, with fixed constants.

Tensors carry our names already and heads are in interleaved order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlb.arch import rope
from mlb.arch.common import Plan, Source
from mlb.shape import Arch

if TYPE_CHECKING:
    from mlb.checkpoint import Llama2c


def plan(checkpoint: Llama2c) -> Plan:
    """Return the plan of an opened llama2.c file."""
    sizes = checkpoint.sizes
    head_dim = sizes.dim // sizes.n_heads
    arch = Arch(
        family="llama",
        dim=sizes.dim,
        hidden_dim=sizes.hidden_dim,
        n_layers=sizes.n_layers,
        n_heads=sizes.n_heads,
        n_kv_heads=sizes.n_kv_heads,
        head_dim=head_dim,
        vocab=sizes.vocab,
        max_seq=sizes.seq_len,
        rotary_dim=head_dim,
        norm_eps=1e-5,
        attn_scale=float(np.float32(head_dim**-0.5)),
        tied=sizes.tied,
    )
    sources = {name: Source(name) for name in checkpoint.shapes}
    return Plan(arch, sources, {"rope_freq": rope.default(10000.0, head_dim)}, frozenset())
