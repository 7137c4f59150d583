# SPDX-License-Identifier: MIT
"""The golden models: for each model_type at least two, which between them have every feature.

    PYTHONPATH=scripts python3 -c "import golden_models as g; print(*(m.name for m in g.GOLDENS))"

Sizes are chosen to be awkward: odd numbers of blocks, a head_dim that is not dim / heads and not a
multiple of 16, one to four query heads per key head, a window and a length of training (where RoPE
is scaled) shorter than the text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

Values = Mapping[str, Any]

COMMON: Values = {
    "vocab_size": 320,
    "max_position_embeddings": 1024,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}
SMALL: Values = {"vocab_size": 151}  # of most: as odd as sizes get, and small files
SLIDING, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"


@dataclasses.dataclass(frozen=True)
class Golden:
    """One checkpoint: its directory, class in transformers, stored type, seed and configuration.

    text: the configuration of the language model in an image-text model.
    """

    name: str
    model: str
    dtype: str
    seed: int
    config: Values
    text: Values | None = None


def sizes(dim: int, hidden: int, layers: int, heads: tuple[int, int], head_dim: int) -> Values:
    """The keys that every family has; heads: of queries, of keys and values."""
    return {
        "hidden_size": dim,
        "intermediate_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads[0],
        "num_key_value_heads": heads[1],
        "head_dim": head_dim,
    }


LLAMAS = (
    Golden(
        "llama",
        "LlamaForCausalLM",
        "float32",
        1,
        {
            "hidden_size": 32,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "rope_theta": 10000.0,
            "tie_word_embeddings": False,
        },
    ),
    Golden(
        "llama_gqa",
        "LlamaForCausalLM",
        "float16",
        2,
        {
            **sizes(64, 32, 2, (4, 2), 40),
            "rope_theta": 100000.0,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
        },
    ),
    Golden(
        "llama_llama3",
        "LlamaForCausalLM",
        "bfloat16",
        4,
        {
            **SMALL,
            **sizes(32, 96, 2, (8, 2), 12),
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 500000.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64,
            },
            "tie_word_embeddings": True,
        },
    ),
    Golden(
        "mistral",
        "MistralForCausalLM",
        "bfloat16",
        5,
        {
            **SMALL,
            **sizes(32, 96, 2, (4, 2), 24),
            "sliding_window": 9,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
            "tie_word_embeddings": False,
        },
    ),
    Golden(
        "mistral_full",
        "MistralForCausalLM",
        "float16",
        6,
        {
            **SMALL,
            **sizes(64, 32, 2, (2, 2), 48),
            "sliding_window": None,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 1e6, "factor": 4.0},
            "tie_word_embeddings": True,
        },
    ),
    Golden(
        "smollm3",
        "SmolLM3ForCausalLM",
        "bfloat16",
        7,
        {
            **SMALL,
            **sizes(32, 32, 5, (4, 1), 24),
            "rope_parameters": {"rope_type": "default", "rope_theta": 5e6},
        },
    ),
    Golden(
        "smollm3_local",
        "SmolLM3ForCausalLM",
        "float16",
        8,
        {
            **SMALL,
            **sizes(32, 96, 3, (4, 4), 8),
            "no_rope_layers": [1, 0, 1],
            "use_sliding_window": True,
            "sliding_window": 13,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 5e6,
                "factor": 4.0,
                "original_max_position_embeddings": 32,
            },
            "tie_word_embeddings": False,
        },
    ),
)
QWEN_VISION: Values = {
    "depth": 1,
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_heads": 1,
    "out_hidden_size": 32,
    "patch_size": 2,
    "num_position_embeddings": 4,
}
QWENS = (
    Golden(
        "qwen2",
        "Qwen2ForCausalLM",
        "bfloat16",
        9,
        {
            **SMALL,
            **sizes(32, 96, 3, (4, 2), 8),
            "use_sliding_window": True,
            "sliding_window": 11,
            "max_window_layers": 1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
            "tie_word_embeddings": False,
        },
    ),
    Golden(
        "qwen2_yarn",
        "Qwen2ForCausalLM",
        "float16",
        10,
        {
            **SMALL,
            **sizes(64, 32, 2, (4, 4), 16),
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e6,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            },
            "tie_word_embeddings": True,
        },
    ),
    Golden(
        "qwen3",
        "Qwen3ForCausalLM",
        "bfloat16",
        11,
        {
            **SMALL,
            **sizes(32, 96, 2, (4, 1), 40),
            "layer_types": [SLIDING, FULL],
            "use_sliding_window": True,
            "sliding_window": 10,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
            "tie_word_embeddings": True,
        },
    ),
    Golden(
        "qwen3_yarn",
        "Qwen3ForCausalLM",
        "bfloat16",
        12,
        {
            **SMALL,
            **sizes(32, 32, 2, (4, 4), 24),
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 10000.0,
                "factor": 8.0,
                "original_max_position_embeddings": 32,
                "attention_factor": 1.5,
                "beta_fast": 1.5,
                "beta_slow": 0.35,
                "truncate": False,
            },
            "tie_word_embeddings": False,
        },
    ),
    Golden(
        "qwen3_5",
        "Qwen3_5ForConditionalGeneration",
        "bfloat16",
        13,
        {"tie_word_embeddings": True, "vision_config": QWEN_VISION},
        {
            **SMALL,
            **sizes(32, 32, 4, (4, 2), 16),
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 12,
            "linear_value_head_dim": 8,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 1e7,
                "partial_rotary_factor": 0.25,
                "mrope_interleaved": True,
                "mrope_section": [1, 1, 0],
            },
            "tie_word_embeddings": True,
        },
    ),
    Golden(
        "qwen3_5_untied",
        "Qwen3_5ForConditionalGeneration",
        "float16",
        14,
        {"tie_word_embeddings": False, "vision_config": QWEN_VISION},
        {
            **SMALL,
            **sizes(32, 32, 3, (2, 2), 16),
            "layer_types": [LINEAR, FULL, LINEAR],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 16,
            "linear_value_head_dim": 16,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e7,
                "factor": 4.0,
                "original_max_position_embeddings": 32,
                "partial_rotary_factor": 0.5,
                "mrope_interleaved": True,
                "mrope_section": [2, 1, 1],
            },
            "tie_word_embeddings": False,
        },
    ),
    Golden(
        "qwen3_5_text",
        "Qwen3_5ForCausalLM",
        "bfloat16",
        15,
        {
            **SMALL,
            **sizes(32, 32, 3, (4, 1), 24),
            "layer_types": [FULL, LINEAR, LINEAR],
            "linear_num_key_heads": 2,
            "linear_num_value_heads": 4,
            "linear_key_head_dim": 20,
            "linear_value_head_dim": 24,
            "linear_conv_kernel_dim": 3,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "partial_rotary_factor": 0.75,
                "mrope_section": [3, 3, 3],
            },
            "tie_word_embeddings": False,
        },
    ),
)
GEMMA_VISION: Values = {
    "hidden_size": 8,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 1,
    "image_size": 4,
    "patch_size": 2,
    "model_type": "siglip_vision_model",
    "vision_use_head": False,
}
GEMMAS = (
    Golden(
        "gemma2",
        "Gemma2ForCausalLM",
        "bfloat16",
        16,
        {
            **SMALL,
            **sizes(32, 96, 3, (4, 2), 24),
            "query_pre_attn_scalar": 20,
            "sliding_window": 7,
            "attn_logit_softcapping": 2.0,
            "final_logit_softcapping": 3.0,
        },
    ),
    Golden(
        "gemma2_uncapped",
        "Gemma2ForCausalLM",
        "float16",
        17,
        {
            **SMALL,
            **sizes(32, 32, 2, (2, 2), 16),
            "query_pre_attn_scalar": 16,
            "sliding_window": 12,
            "layer_types": [FULL, SLIDING],
            "attn_logit_softcapping": None,
            "final_logit_softcapping": None,
            "rope_parameters": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
            "tie_word_embeddings": False,
        },
    ),
    Golden(
        "gemma3",
        "Gemma3ForCausalLM",
        "bfloat16",
        3,
        {
            **sizes(32, 96, 4, (4, 1), 24),
            "query_pre_attn_scalar": 20,
            "sliding_window": 7,
            "layer_types": [SLIDING, SLIDING, FULL, SLIDING],
            "tie_word_embeddings": True,
        },
    ),
    Golden(
        "gemma3_linear",
        "Gemma3ForCausalLM",
        "float16",
        18,
        {
            **SMALL,
            **sizes(32, 32, 3, (2, 2), 16),
            "query_pre_attn_scalar": 16,
            "sliding_window": 15,
            "layer_types": [FULL, SLIDING, SLIDING],
            "final_logit_softcapping": 4.0,
            "rope_parameters": {
                FULL: {"rope_type": "linear", "rope_theta": 1e6, "factor": 8.0},
                SLIDING: {"rope_type": "default", "rope_theta": 5000.0},
            },
            "tie_word_embeddings": False,
        },
    ),
    Golden(
        "gemma3_image",
        "Gemma3ForConditionalGeneration",
        "bfloat16",
        19,
        {"mm_tokens_per_image": 1, "vision_config": GEMMA_VISION},
        {
            **SMALL,
            **sizes(32, 32, 6, (4, 2), 16),
            "query_pre_attn_scalar": 16,
            "sliding_window": 8,
            "rope_scaling": {"rope_type": "linear", "factor": 8.0},
        },
    ),
    Golden(
        "gemma3_image_untied",
        "Gemma3ForConditionalGeneration",
        "float16",
        20,
        {
            "mm_tokens_per_image": 1,
            "vision_config": GEMMA_VISION,
            "tie_word_embeddings": False,
        },
        {
            **SMALL,
            **sizes(32, 32, 2, (4, 4), 24),
            "query_pre_attn_scalar": 30,
            "sliding_window": 20,
            "layer_types": [SLIDING, FULL],
            "rope_parameters": {
                FULL: {
                    "rope_type": "yarn",
                    "rope_theta": 1e6,
                    "factor": 4.0,
                    "original_max_position_embeddings": 32,
                },
                SLIDING: {"rope_type": "default", "rope_theta": 10000.0},
            },
            "tie_word_embeddings": False,
        },
    ),
)
GOLDENS = (*LLAMAS, *QWENS, *GEMMAS)
