# SPDX-License-Identifier: MIT
"""Llama (Llama 2, TinyLlama, SmolLM, SmolLM2): names, and what config.json may say."""

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
    "wo": "self_attn.o_proj.weight",
    "ffn_norm": "post_attention_layernorm.weight",
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}


def plan(config: Config) -> Plan:
    """The plan of a LlamaForCausalLM checkpoint."""
    config.must_be("hidden_act", "silu")
    config.must_be_off("attention_bias")
    config.must_be_off("mlp_bias")
    config.must_be("pretraining_tp", 1)
    config.must_be_off("rope_interleaved")
    config.must_be("sliding_window")
    dim = config.integer("hidden_size")
    heads = config.integer("num_attention_heads")
    head_dim = config.integer("head_dim", dim // heads or 1)
    layers = config.integer("num_hidden_layers")
    tied = config.flag("tie_word_embeddings", default=False)
    base = rope_base(config, "rope_theta", 10000.0)
    arch = Arch(
        family="llama",
        dim=dim,
        hidden_dim=config.integer("intermediate_size"),
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=config.integer("num_key_value_heads", heads),
        head_dim=head_dim,
        vocab=config.integer("vocab_size", most=MAX_VOCAB),
        max_seq=config.integer("max_position_embeddings", 2048, most=MAX_VOCAB),
        rotary_dim=head_dim,
        norm_eps=config.number("rms_norm_eps", 1e-6),
        attn_scale=float(np.float32(head_dim**-0.5)),
        tied=tied,
    )
    sources = {
        "embed": Source("model.embed_tokens.weight"),
        "out_norm": Source("model.norm.weight"),
    }
    ignored = {f"model.layers.{n}.self_attn.rotary_emb.inv_freq" for n in range(layers)}
    for n in range(layers):
        for ours, theirs in LAYER.items():
            turned = head_dim if ours in ("wq", "wk") else 0
            sources[f"layers.{n}.{ours}"] = Source(f"model.layers.{n}.{theirs}", head_dim=turned)
    if tied:
        ignored.add("lm_head.weight")  # written by some tools: the embedding once more
    else:
        sources["classifier"] = Source("lm_head.weight")
    return Plan(arch, sources, {"rope_freq": rope_frequencies(base, head_dim)}, frozenset(ignored))
