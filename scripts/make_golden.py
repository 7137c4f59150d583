# SPDX-License-Identifier: MIT
"""Make the checkpoints of tests/data/golden with transformers, and hashes of the runtime's logits.

    python3 scripts/make_golden.py            # what is not there; needs torch and transformers
    python3 scripts/make_golden.py --all
    python3 scripts/make_golden.py --hashes build/scalar build/scalar_fused

golden_models.py says what they are.  The last command is run when the runtime's arithmetic changes
on purpose; the tests compare every build with what it wrote.  `nox -s golden` does all of it again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

import isas
from golden_models import COMMON, GOLDENS, Golden
from krafla_release.project import ROOT, ReleaseError, exit_code, output

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = ROOT / "tests" / "data" / "golden"
TOKENS = 64
WTYPES = ("q8", "q4")
ZERO_CENTRED = ("Gemma", "Qwen3_5")  # their norms multiply by 1 + w


def make(golden: Golden, out: Path) -> None:
    """Write a checkpoint, tokens, and the logits transformers computes from the stored weights."""
    import torch
    import transformers

    kind = getattr(transformers, golden.model)
    model = kind(configuration(kind.config_class, golden))
    rng = np.random.default_rng(golden.seed)
    with torch.no_grad():
        for name, parameter in sorted(model.named_parameters()):
            value = random_values(rng, golden.model, name, tuple(parameter.shape))
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
        config = {"architectures": ["LlamaForCausalLM"], **old, **COMMON, **golden.config}
        (out / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
    if golden.name == "qwen3_5":
        add_prediction_head(out / "model.safetensors")
    vocab = model.config.get_text_config().vocab_size
    tokens = rng.integers(0, vocab, TOKENS).tolist()
    keep_or_save(out / "logits.npy", transformers_logits(out, tokens))
    (out / "tokens.json").write_text(json.dumps(tokens) + "\n")


def keep_or_save(path: Path, logits: npt.NDArray[np.float32]) -> None:
    """Write the file, unless what it holds differs by rounding only, as between two CPUs."""
    if path.exists():
        kept = np.load(path)
        if kept.shape == logits.shape and np.abs(kept - logits).max() < 1e-5 * np.abs(kept).max():
            return
    np.save(path, logits)


def configuration(kind: Any, golden: Golden) -> Any:
    """Return the configuration object; an image-text model has those of its parts in it."""
    if golden.text is None:
        return kind(**{**COMMON, **golden.config})
    return kind(**golden.config, text_config={**COMMON, **golden.text})


def random_values(
    rng: np.random.Generator, model: str, name: str, shape: tuple[int, ...]
) -> npt.NDArray[np.float32]:
    """Return weights that keep a model's vectors near unit size, and biases that matter."""
    value = rng.standard_normal(shape).astype(np.float32)
    if len(shape) > 1:
        return value * np.float32(1.2 / np.sqrt(np.prod(shape[1:])))
    if name.endswith(("bias", "A_log")):
        return np.float32(0.5) * value
    zero_centred = model.startswith(ZERO_CENTRED) and not name.endswith("linear_attn.norm.weight")
    return np.float32(0.2) * value + np.float32(not zero_centred)


def add_prediction_head(path: Path) -> None:
    """Give a checkpoint what transformers drops: a tensor of a multi-token prediction head."""
    import torch
    from safetensors.torch import load_file, save_file

    tensors = load_file(path)
    tensors["mtp.fc.weight"] = torch.ones(2, 4, dtype=torch.bfloat16)
    save_file(tensors, path, metadata={"format": "pt"})


def transformers_logits(directory: Path, tokens: Sequence[int]) -> npt.NDArray[np.float32]:
    """Return the logits [tokens, vocab] that transformers computes in float32."""
    import torch
    import transformers

    (name,) = json.loads((directory / "config.json").read_text())["architectures"]
    kind = getattr(transformers, name)
    model = kind.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        logits = model.eval()(torch.tensor([list(tokens)])).logits[0].numpy()
    return np.asarray(logits, dtype=np.float32)


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
    parser.add_argument("--all", action="store_true", help="make those again that are there")
    parser.add_argument("--hashes", nargs="+", type=Path, metavar="BUILD", help="write hashes.json")
    args = parser.parse_args(argv)
    if args.hashes:
        return exit_code(lambda: hashes([build.resolve() for build in args.hashes]))
    for golden in GOLDENS:
        if args.all or not (GOLDEN / golden.name / "logits.npy").exists():
            make(golden, GOLDEN / golden.name)
    return 0


if __name__ == "__main__":
    sys.exit(main())
