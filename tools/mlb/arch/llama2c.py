"""llama2.c checkpoints: Llama without a configuration file, with fixed constants.

Tensors carry our names already and heads are in interleaved order.

SPDX-License-Identifier: MIT
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mlb.arch.common import Plan, Source, rope_frequencies
from mlb.format import Arch

if TYPE_CHECKING:
    from mlb.checkpoint import Llama2c


def plan(checkpoint: Llama2c) -> Plan:
    """Return the plan of an opened llama2.c file."""
    head_dim = checkpoint.dim // checkpoint.n_heads
    arch = Arch(
        family="llama",
        dim=checkpoint.dim,
        hidden_dim=checkpoint.hidden_dim,
        n_layers=checkpoint.n_layers,
        n_heads=checkpoint.n_heads,
        n_kv_heads=checkpoint.n_kv_heads,
        head_dim=head_dim,
        vocab=checkpoint.vocab,
        max_seq=checkpoint.seq_len,
        norm_eps=1e-5,
        attn_scale=float(np.float32(head_dim**-0.5)),
        tied=checkpoint.tied,
    )
    sources = {name: Source(name) for name in checkpoint.shapes}
    return Plan(arch, sources, {"rope_freq": rope_frequencies(10000.0, head_dim)}, frozenset())
