# SPDX-License-Identifier: MIT
"""Make the checkpoints of tests/data/golden with transformers, and hashes of the runtime's logits.

    python3 scripts/make_golden.py        # checkpoints and F32 logits; needs torch and transformers
    python3 scripts/make_golden.py --hashes build/scalar build/scalar_fused

Sizes are chosen to be awkward: odd numbers of blocks, a head_dim that is not dim / heads and not a
multiple of 16, one to four query heads per key head, a window shorter than the text.  The second
command is run when the runtime's arithmetic changes on purpose; the tests compare every build with
what it wrote.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import isas
from krafla_release.project import ROOT, ReleaseError, exit_code, output

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GOLDEN = ROOT / "tests" / "data" / "golden"
TOKENS = 40
WTYPES = ("q8", "q4")

COMMON: Mapping[str, Any] = {
    "vocab_size": 320,
    "max_position_embeddings": 1024,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
}


@dataclasses.dataclass(frozen=True)
class Golden:
    """One checkpoint: its directory, family, stored type, seed and sizes."""

    name: str
    family: str
    dtype: str
    seed: int
    config: Mapping[str, Any]


GOLDENS = (
    Golden(
        "llama",
        "llama",
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
        "llama",
        "float16",
        2,
        {
            "hidden_size": 64,
            "intermediate_size": 32,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 40,
            "rope_theta": 100000.0,
            "rms_norm_eps": 1e-5,
            "tie_word_embeddings": True,
        },
    ),
    Golden(
        "gemma3",
        "gemma3",
        "bfloat16",
        3,
        {
            "hidden_size": 32,
            "intermediate_size": 96,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 1,
            "head_dim": 24,
            "query_pre_attn_scalar": 20,
            "sliding_window": 7,
            "layer_types": [
                "sliding_attention",
                "sliding_attention",
                "full_attention",
                "sliding_attention",
            ],
            "tie_word_embeddings": True,
        },
    ),
)


def make(golden: Golden, out: Path) -> None:
    """Write a checkpoint, tokens, and the logits transformers computes from the stored weights."""
    import torch
    from transformers import (
        Gemma3ForCausalLM,
        Gemma3TextConfig,
        LlamaConfig,
        LlamaForCausalLM,
        PreTrainedModel,
    )

    values = {**COMMON, **golden.config}
    if golden.family == "llama":
        model: PreTrainedModel = LlamaForCausalLM(LlamaConfig(**values))
    else:
        model = Gemma3ForCausalLM(Gemma3TextConfig(**values))
    rng = np.random.default_rng(golden.seed)
    with torch.no_grad():
        for _, parameter in sorted(model.named_parameters()):
            shape = tuple(parameter.shape)
            value = rng.standard_normal(shape).astype(np.float32)
            if len(shape) == 1:
                value = np.float32(0.2) * value + np.float32(golden.family == "llama")
            else:
                value *= np.float32(1.2 / np.sqrt(shape[1]))
            parameter.copy_(torch.from_numpy(value))
    out.mkdir(parents=True, exist_ok=True)
    model.to(getattr(torch, golden.dtype)).save_pretrained(out)
    if golden.name == "llama":  # keep one configuration as transformers 4 wrote it
        old = {
            "model_type": "llama",
            "hidden_act": "silu",
            "rope_scaling": None,
            "torch_dtype": "float32",
        }
        config = {"architectures": ["LlamaForCausalLM"], **old, **values}
        (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    tokens = rng.integers(0, 320, TOKENS).tolist()
    stored = type(model).from_pretrained(out, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        logits = stored.eval()(torch.tensor([tokens])).logits[0].numpy()
    np.save(out / "logits.npy", logits.astype(np.float32))
    (out / "tokens.json").write_text(json.dumps(tokens) + "\n")


def arithmetic_class(build: Path) -> str:
    """Return fused or unfused, by the table of instruction sets and the directory's name."""
    name = build.name.split("-")[0]
    arch = next((a for a in isas.CROSS if f"-{a}" in build.name), "x86_64")
    row = next(isa for isa in isas.load(arch) if isa.name == name)
    return "fused" if row.fused else "unfused"


def logits_hash(build: Path, model: Path, tokens: Sequence[int]) -> str:
    """SHA-256 of the file that --dump-logits writes."""
    with tempfile.TemporaryDirectory() as scratch:
        dump = Path(scratch) / "logits.f32"
        listed = ",".join(map(str, tokens))
        output(build / "ml_run", model, "--tokens", listed, "--dump-logits", dump)
        return hashlib.sha256(dump.read_bytes()).hexdigest()


def hashes(builds: Sequence[Path]) -> None:
    """Write hashes.json of every golden model: {wtype: {class: sha256}}."""
    sys.path.insert(0, str(ROOT / "tools"))
    import convert

    for directory in sorted(p.parent for p in GOLDEN.glob("*/config.json")):
        tokens = json.loads((directory / "tokens.json").read_text())
        found: dict[str, dict[str, str]] = {wtype: {} for wtype in WTYPES}
        with tempfile.TemporaryDirectory() as scratch:
            for wtype in WTYPES:
                model = Path(scratch) / f"{wtype}.mlb"
                if convert.main(["hf", str(directory), str(model), "--wtype", wtype]) != 0:
                    raise ReleaseError(f"{directory}: cannot convert it as {wtype}")
                for build in builds:
                    found[wtype][arithmetic_class(build)] = logits_hash(build, model, tokens)
        text = json.dumps(found, indent=2, sort_keys=True) + "\n"
        (directory / "hashes.json").write_text(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Write what the options ask for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hashes", nargs="+", type=Path, metavar="BUILD", help="write hashes.json")
    args = parser.parse_args(argv)
    if args.hashes:
        return exit_code(lambda: hashes([build.resolve() for build in args.hashes]))
    for golden in GOLDENS:
        make(golden, GOLDEN / golden.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
