# SPDX-License-Identifier: MIT
"""Turn a GGUF file (llama or Gemma 3 text) back into a Hugging Face checkpoint directory.

    .venv/bin/python scripts/gguf_to_hf.py model.gguf models/name --tokenizer tokenizer.json

Only the test models come this way: Krafla's own converter reads original checkpoints.  Quantized
weights become the float32 values that their bits stand for.  Anything unknown is refused.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5  # tokenizer.ggml.token_type
SLIDING_PATTERN = 6  # Gemma 3: every sixth layer attends to everything; the GGUF does not say so

WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
COMMON = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
FAMILY = {
    "llama": {"ffn_norm": "post_attention_layernorm"},
    "gemma3": {
        "attn_q_norm": "self_attn.q_norm",
        "attn_k_norm": "self_attn.k_norm",
        "post_attention_norm": "post_attention_layernorm",
        "ffn_norm": "pre_feedforward_layernorm",
        "post_ffw_norm": "post_feedforward_layernorm",
    },
}


class GgufError(Exception):
    """The file holds something this program does not know; the message names it."""


class Gguf:
    """A GGUF file: its fields by name, its tensors as float32."""

    def __init__(self, path: Path) -> None:
        from gguf import GGUFReader
        from gguf.quants import dequantize

        self._reader: Any = GGUFReader(path)
        self._dequantize: Any = dequantize
        self.arch = str(self.field("general.architecture"))
        if self.arch not in FAMILY:
            raise GgufError(f"{path}: architecture {self.arch}, known: {', '.join(FAMILY)}")

    def field(self, name: str, default: object = None) -> Any:
        """Return a metadata field."""
        found = self._reader.fields.get(name)
        return default if found is None else found.contents()

    def hyper(self, name: str, default: object = None) -> Any:
        """Return a field of the architecture."""
        return self.field(f"{self.arch}.{name}", default)

    def tensors(self) -> dict[str, Array]:
        """Return every tensor under its Hugging Face name, row-major."""
        named = {}
        for tensor in self._reader.tensors:
            values = np.asarray(self._dequantize(tensor.data, tensor.tensor_type), np.float32)
            values = values.reshape([int(size) for size in tensor.shape][::-1])
            name = self.hf_name(tensor.name)
            named[name] = np.ascontiguousarray(self.as_trained(name, values))
        return named

    def hf_name(self, name: str) -> str:
        """Return the Hugging Face name of a tensor."""
        if name in WHOLE:
            return WHOLE[name]
        found = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
        part = (COMMON | FAMILY[self.arch]).get(found[2]) if found else None
        if not found or not part:
            raise GgufError(f"unknown tensor {name}")
        return f"model.layers.{found[1]}.{part}.{found[3]}"

    def as_trained(self, name: str, values: Array) -> Array:
        """Undo what the GGUF converter did to the values of a tensor."""
        if self.arch == "gemma3" and name.endswith("norm.weight"):
            return values - np.float32(1.0)  # the file holds 1 + w
        heads = {"q_proj": "head_count", "k_proj": "head_count_kv"}.get(name.split(".")[-2])
        if self.arch == "llama" and heads:
            return rotate_half_order(values, int(self.hyper(f"attention.{heads}")))
        return values


def rotate_half_order(values: Array, n_heads: int) -> Array:
    """Return q or k rows in the rotate-half order, from interleaved pairs."""
    pairs = values.reshape(n_heads, -1, 2, *values.shape[1:])  # [heads, head_dim/2, 2, dim]
    return pairs.swapaxes(1, 2).reshape(values.shape)


def make_config(gguf: Gguf, vocab: int, *, tied: bool) -> dict[str, Any]:
    """Return config.json."""
    heads = gguf.hyper("attention.head_count")
    dim = gguf.hyper("embedding_length")
    layers = gguf.hyper("block_count")
    config: dict[str, Any] = {
        "vocab_size": vocab,
        "hidden_size": dim,
        "intermediate_size": gguf.hyper("feed_forward_length"),
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": gguf.hyper("attention.head_count_kv"),
        "head_dim": gguf.hyper("attention.key_length", dim // heads),
        "max_position_embeddings": gguf.hyper("context_length"),
        "rms_norm_eps": float(f"{gguf.hyper('attention.layer_norm_rms_epsilon'):.3g}"),
        "rope_theta": float(gguf.hyper("rope.freq_base", 10000.0)),
        "rope_scaling": None,
        "tie_word_embeddings": tied,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": "float32",
        **special_ids(gguf),
    }
    if gguf.arch == "llama":
        own = {"architectures": ["LlamaForCausalLM"], "model_type": "llama"}
        return config | own | {"hidden_act": "silu", "mlp_bias": False}
    kinds = ("sliding_attention", "full_attention")
    return config | {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "hidden_activation": "gelu_pytorch_tanh",
        "query_pre_attn_scalar": config["head_dim"],
        "rope_local_base_freq": 10000.0,
        "sliding_window": gguf.hyper("attention.sliding_window"),
        "attn_logit_softcapping": None,
        "final_logit_softcapping": None,
        "layer_types": [kinds[(i + 1) % SLIDING_PATTERN == 0] for i in range(layers)],
    }


def special_ids(gguf: Gguf) -> dict[str, int | None]:
    """Return the ids that config.json and generation_config.json share."""
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {f"{n}_token_id": gguf.field(f"tokenizer.ggml.{g}_token_id") for n, g in names.items()}


def make_tokenizer(gguf: Gguf) -> Any:
    """Rebuild SmolLM's tokenizer.json from the vocabulary and the merges."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    kind = (gguf.field("tokenizer.ggml.model"), gguf.field("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise GgufError(f"tokenizer {kind[0]}/{kind[1]}: give its tokenizer.json, --tokenizer")
    tokens, types = gguf.field("tokenizer.ggml.tokens"), gguf.field("tokenizer.ggml.token_type")
    merges = [tuple(merge.split(" ")) for merge in gguf.field("tokenizer.ggml.merges")]
    known = (NORMAL, CONTROL, USER_DEFINED)
    vocab = {token: i for i, token in enumerate(tokens) if types[i] in known}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens(
        [
            AddedToken(token, special=types[i] == CONTROL, normalized=False)
            for i, token in enumerate(tokens)
            if types[i] in (CONTROL, USER_DEFINED)
        ]
    )
    return tokenizer


def read_tokenizer(path: Path) -> Any:
    """Return an original tokenizer.json."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))


def check_tokenizer(gguf: Gguf, tokenizer: Any) -> int:
    """Return how many ids the tokenizer spells otherwise than the GGUF does."""
    tokens, types = gguf.field("tokenizer.ggml.tokens"), gguf.field("tokenizer.ggml.token_type")
    return sum(
        types[i] != UNUSED and tokenizer.id_to_token(i) != token for i, token in enumerate(tokens)
    )


def tokenizer_config(gguf: Gguf) -> dict[str, Any]:
    """Return tokenizer_config.json."""
    tokens = gguf.field("tokenizer.ggml.tokens")
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": gguf.hyper("context_length"),
        "clean_up_tokenization_spaces": False,
    }
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        token = gguf.field(f"tokenizer.ggml.{key}_token_id")
        if token is not None:
            config[f"{name}_token"] = tokens[token]
    template = gguf.field("tokenizer.chat_template")
    return config | ({"chat_template": template} if template else {})


def convert(path: Path, out: Path, tokenizer_json: Path | None = None) -> None:
    """Write the checkpoint directory."""
    from safetensors.numpy import save_file

    gguf = Gguf(path)
    tensors = gguf.tensors()
    tied = "lm_head.weight" not in tensors
    tokenizer = read_tokenizer(tokenizer_json) if tokenizer_json else make_tokenizer(gguf)
    differing = check_tokenizer(gguf, tokenizer)
    if differing and tokenizer_json is None:
        raise GgufError(f"{path}: the rebuilt tokenizer spells {differing} ids otherwise")

    out.mkdir(parents=True, exist_ok=True)
    vocab = tensors["model.embed_tokens.weight"].shape[0]
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(out / "tokenizer.json"))
    for name, data in (
        ("config.json", make_config(gguf, vocab, tied=tied)),
        ("tokenizer_config.json", tokenizer_config(gguf)),
        ("generation_config.json", special_ids(gguf)),
    ):
        (out / name).write_text(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Convert one file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="the model's original tokenizer.json")
    args = parser.parse_args(argv)
    try:
        convert(args.gguf, args.out, args.tokenizer)
    except GgufError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
