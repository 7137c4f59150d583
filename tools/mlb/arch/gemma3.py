# SPDX-License-Identifier: MIT
"""Gemma 3 (text): names, and what is special.

Norms multiply by 1 + w and are stored with the 1 added; queries and keys are normalised per head;
each block's output is normalised before it is added; most layers see a sliding window and have a
RoPE base of their own; the embedding is multiplied by sqrt(dim); scores are scaled by
query_pre_attn_scalar, not by head_dim.
"""

from __future__ import annotations

import numpy as np

from mlb.arch.common import Config, Plan, Source, rope_base, rope_frequencies
from mlb.shape import MAX_VOCAB, Arch

# Our name of a layer's tensor -> Hugging Face's, below model.layers.N.
LAYER = {
    "attn_norm": "input_layernorm.weight",
    "wq": "self_attn.q_proj.weight",
    "wk": "self_attn.k_proj.weight",
    "wv": "self_attn.v_proj.weight",
    "q_norm": "self_attn.q_norm.weight",
    "k_norm": "self_attn.k_norm.weight",
    "wo": "self_attn.o_proj.weight",
    "attn_post_norm": "post_attention_layernorm.weight",
    "ffn_norm": "pre_feedforward_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
    "ffn_post_norm": "post_feedforward_layernorm.weight",
}
TURNED = ("wq", "wk", "q_norm", "k_norm")
KINDS = ("sliding_attention", "full_attention")


def plan(config: Config) -> Plan:
    """The plan of a Gemma3ForCausalLM checkpoint."""
    config.must_be("hidden_activation", "gelu_pytorch_tanh")
    config.must_be("hidden_act", "gelu_pytorch_tanh")
    config.must_be_off("attention_bias")
    config.must_be("attn_logit_softcapping")
    config.must_be("final_logit_softcapping")
    config.must_be_off("use_bidirectional_attention")
    dim = config.integer("hidden_size", 2304)
    head_dim = config.integer("head_dim", 256)
    layers = config.integer("num_hidden_layers", 26)
    local = _local_layers(config, layers)
    tied = config.flag("tie_word_embeddings", default=True)
    base = rope_base(config, "rope_theta", 1e6, KINDS[1])
    local_base = rope_base(config, "rope_local_base_freq", 1e4, KINDS[0])
    local_rope = bool(local) and local_base != base
    window = config.integer("sliding_window", 4096, most=MAX_VOCAB)
    arch = Arch(
        family="gemma3",
        dim=dim,
        hidden_dim=config.integer("intermediate_size", 9216),
        n_layers=layers,
        n_heads=config.integer("num_attention_heads", 8),
        n_kv_heads=config.integer("num_key_value_heads", 4),
        head_dim=head_dim,
        vocab=config.integer("vocab_size", 262208, most=MAX_VOCAB),
        max_seq=config.integer("max_position_embeddings", 131072, most=MAX_VOCAB),
        rotary_dim=head_dim,
        norm_eps=config.number("rms_norm_eps", 1e-6),
        embed_scale=float(np.float32(dim**0.5)),
        attn_scale=float(np.float32(config.number("query_pre_attn_scalar", 256) ** -0.5)),
        activation="gelu_tanh",
        window=window if local else 0,
        local_layers=local,
        local_rope=local_rope,
        tied=tied,
        qk_norm=True,
        post_norms=True,
    )
    sources = {
        "embed": Source("model.embed_tokens.weight"),
        "out_norm": Source("model.norm.weight", add_one=True),
    }
    for n in range(layers):
        for ours, theirs in LAYER.items():
            sources[f"layers.{n}.{ours}"] = Source(
                f"model.layers.{n}.{theirs}",
                head_dim=head_dim if ours in TURNED else 0,
                add_one="norm" in ours,
            )
    constants = {"rope_freq": rope_frequencies(base, head_dim)}
    if local_rope:
        constants["rope_freq_local"] = rope_frequencies(local_base, head_dim)
    if not tied:
        sources["classifier"] = Source("lm_head.weight")
    return Plan(arch, sources, constants, frozenset({"lm_head.weight"} if tied else ()))


def _local_layers(config: Config, layers: int) -> tuple[int, ...]:
    """Layers with a sliding window: layer_types, or all but every sliding_window_pattern-th."""
    config.get("_sliding_window_pattern", None)
    pattern = config.integer("sliding_window_pattern", config.get("_sliding_window_pattern", 6))
    kinds = config.get("layer_types", [KINDS[(n + 1) % pattern == 0] for n in range(layers)])
    if not isinstance(kinds, list) or len(kinds) != layers or not all(k in KINDS for k in kinds):
        raise config.fail("layer_types", f"{layers} of {' or '.join(KINDS)}")
    return tuple(n for n, kind in enumerate(kinds) if kind == KINDS[0])
