# SPDX-License-Identifier: MIT
"""Turn a GGUF file (llama or Gemma 3 text) back into a Hugging Face checkpoint directory.

    .venv/bin/python scripts/gguf_to_hf.py model.gguf models/name --tokenizer tokenizer.json

Only the test models come this way: tools/convert.py reads GGUF files itself.  Quantized weights
become the float32 values that their bits stand for.  Anything unknown is refused.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from krafla_release.project import ROOT

sys.path.insert(0, str(ROOT / "tools"))  # the reader is the converter's

# isort: split
from mlb import gguf_tokenizer
from mlb.checkpoint import CheckpointError
from mlb.gguf import Gguf, read_gguf
from mlb.gguf_families import config_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Array = npt.NDArray[np.float32]

GgufError = CheckpointError  # what this program raises, for those who call it

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


def architecture(gguf: Gguf) -> str:
    """Return the family, if it is one of those that this program knows."""
    name = str(gguf.fields.get("general.architecture"))
    if name not in FAMILY:
        raise CheckpointError(f"{gguf.path}: architecture {name}, known: {', '.join(FAMILY)}")
    return name


def original_tensors(gguf: Gguf, config: dict[str, Any]) -> dict[str, Array]:
    """Return every tensor under its Hugging Face name, as it was trained."""
    named = {}
    for tensor in gguf.tensors.values():
        name = hf_name(architecture(gguf), tensor.name)
        values = as_trained(architecture(gguf), config, name, gguf.values(tensor))
        named[name] = np.ascontiguousarray(values)
    return named


def hf_name(arch: str, name: str) -> str:
    """Return the Hugging Face name of a tensor."""
    if name in WHOLE:
        return WHOLE[name]
    found = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
    part = (COMMON | FAMILY[arch]).get(found[2]) if found else None
    if not found or not part:
        raise CheckpointError(f"unknown tensor {name}")
    return f"model.layers.{found[1]}.{part}.{found[3]}"


def as_trained(arch: str, config: dict[str, Any], name: str, values: Array) -> Array:
    """Undo what the GGUF converter did to the values of a tensor."""
    if arch == "gemma3" and name.endswith("norm.weight"):
        return values - np.float32(1.0)  # the file holds 1 + w
    heads = {"q_proj": "num_attention_heads", "k_proj": "num_key_value_heads"}
    kind = heads.get(name.split(".")[-2])
    if arch == "llama" and kind:
        return rotate_half_order(values, config[kind])
    return values


def rotate_half_order(values: Array, n_heads: int) -> Array:
    """Return q or k rows in the rotate-half order, from interleaved pairs."""
    pairs = values.reshape(n_heads, -1, 2, *values.shape[1:])  # [heads, head_dim/2, 2, dim]
    return pairs.swapaxes(1, 2).reshape(values.shape)


def special_ids(gguf: Gguf) -> dict[str, int | None]:
    """Return the ids that config.json and generation_config.json share."""
    names = {"bos": "bos", "eos": "eos", "pad": "padding"}
    return {
        f"{name}_token_id": gguf.fields.get(f"tokenizer.ggml.{key}_token_id")
        for name, key in names.items()
    }


def make_config(gguf: Gguf) -> dict[str, Any]:
    """Return config.json."""
    own = {"llama": "LlamaForCausalLM", "gemma3": "Gemma3ForCausalLM"}
    return config_of(gguf) | {
        "architectures": [own[architecture(gguf)]],
        "initializer_range": 0.02,
        "use_cache": True,
        "torch_dtype": "float32",
        **special_ids(gguf),
    }


def make_tokenizer(gguf: Gguf) -> Any:
    """Rebuild the tokenizer from the vocabulary and the merges."""
    from tokenizers import Tokenizer

    vocab = gguf_tokenizer.Vocabulary(gguf)
    return Tokenizer.from_str(json.dumps(gguf_tokenizer.tokenizer_json(vocab)))


def read_tokenizer(path: Path) -> Any:
    """Return an original tokenizer.json."""
    from tokenizers import Tokenizer

    return Tokenizer.from_file(str(path))


def check_tokenizer(gguf: Gguf, tokenizer: Any) -> int:
    """Return how many ids the tokenizer spells otherwise than the GGUF does."""
    vocab = gguf_tokenizer.Vocabulary(gguf)
    known = (i for i, kind in enumerate(vocab.types) if kind != gguf_tokenizer.UNUSED)
    return sum(tokenizer.id_to_token(i) != vocab.tokens[i] for i in known)


def tokenizer_config(gguf: Gguf, config: dict[str, Any]) -> dict[str, Any]:
    """Return tokenizer_config.json."""
    tokens = gguf.fields["tokenizer.ggml.tokens"]
    found: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config["max_position_embeddings"],
        "clean_up_tokenization_spaces": False,
    }
    for name, key in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"), ("unk", "unknown")):
        token = gguf.fields.get(f"tokenizer.ggml.{key}_token_id")
        if token is not None:
            found[f"{name}_token"] = tokens[token]
    template = gguf.fields.get("tokenizer.chat_template")
    return found | ({"chat_template": template} if template else {})


def convert(path: Path, out: Path, tokenizer_json: Path | None = None) -> None:
    """Write the checkpoint directory."""
    from safetensors.numpy import save_file

    gguf = read_gguf(path)
    config = make_config(gguf)
    tensors = original_tensors(gguf, config)
    tokenizer = read_tokenizer(tokenizer_json) if tokenizer_json else make_tokenizer(gguf)
    differing = check_tokenizer(gguf, tokenizer)
    if differing and tokenizer_json is None:
        raise CheckpointError(f"{path}: the rebuilt tokenizer spells {differing} ids otherwise")

    out.mkdir(parents=True, exist_ok=True)
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    tokenizer.save(str(out / "tokenizer.json"))
    for name, data in (
        ("config.json", config),
        ("tokenizer_config.json", tokenizer_config(gguf, config)),
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
    except CheckpointError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
