# SPDX-License-Identifier: MIT
"""Write a model of random weights, to test and to measure shapes for which there are no real ones.

    python3 tools/gen_random.py --wtype q8 --layers 8 --vocab 1000 --out random.mlb

Blocks are random integers with scales that keep every layer's output near unit size, so logits are
finite at any depth.  The same options give the same file.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import mlb
from mlb import quant
from mlb.arch import rope
from mlb.envelope import AGAIN, FormatError, write_failure
from mlb.format import TensorSource, write_model
from mlb.shape import FAMILIES, Arch, always_q8, check_arch, expected_tensors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SLICE = 1 << 22  # weights made at once
WINDOW = 512  # of local layers

# Random bytes to integers with mean 0, so that no direction is favoured: -128 becomes 0, and a
# nibble's -8 likewise.
Q8_BYTES = np.array([b if b != 128 else 0 for b in range(256)], dtype=np.uint8)
Q4_BYTES = np.array([(b & 15 or 8) | (b >> 4 or 8) << 4 for b in range(256)], dtype=np.uint8)


@dataclasses.dataclass(frozen=True)
class Maker:
    """Makes tensors; each has a random stream of its own, so its bytes do not depend on others."""

    wtype: str
    seed: int
    arch: Arch

    def source(self, index: int, name: str, kind: str, shape: tuple[int, ...]) -> TensorSource:
        """Describe one tensor."""
        if kind == "f32":
            return TensorSource(name, "f32", shape, lambda: self.vector(index, name, shape[0]))
        wtype = self.wtype.replace("q4", "q8") if always_q8(name) else self.wtype
        return TensorSource(name, wtype, shape, lambda: self.matrix(index, wtype, shape))

    def vector(self, index: int, name: str, n: int) -> bytes:
        """The RoPE frequencies, a norm near 1, or what else a layer has."""
        if name.startswith("rope_freq"):
            base = 1e6 if self.arch.local_rope and name == "rope_freq" else 1e4
            return rope.default(base, 2 * n).astype("<f4").tobytes()
        rng = np.random.default_rng([self.seed, index])
        normal = rng.standard_normal(n, dtype=np.float32)
        kind = name.rpartition(".")[2]
        if kind in ("bq", "bk", "bv"):
            values = np.float32(0.5) * normal
        elif kind == "conv":
            values = normal / np.float32(math.sqrt(self.arch.conv_taps))
        elif kind == "dt_bias":  # softplus of it is about 0.1, so that half of a state is left
            values = normal - np.float32(2)  # after some ten tokens
        elif kind == "decay_rate":
            values = np.float32(0.1) + np.abs(normal)
        else:
            values = 1 + np.float32(0.1) * normal
        return values.astype("<f4").tobytes()

    def matrix(self, index: int, wtype: str, shape: tuple[int, ...]) -> Iterator[quant.Blocks]:
        """Rows of random blocks whose weights have a variance of about 1 / k."""
        rows, k = shape
        rng = np.random.default_rng([self.seed, index])
        step = max(1, SLICE // k)
        for row in range(0, rows, step):
            n = min(step, rows - row)
            yield random_blocks(rng, wtype, n * (k // quant.BLOCK), k)


def random_blocks(rng: np.random.Generator, wtype: str, n: int, k: int) -> quant.Blocks:
    """Return n random blocks of rows of k weights."""
    out = np.empty(n, dtype=quant.DTYPES[wtype])
    q = out.dtype["q"].shape[0]
    random = np.frombuffer(rng.bytes(n * q), dtype=np.uint8).reshape(n, q)
    if wtype.startswith("q8"):
        out["q"] = Q8_BYTES[random].view(np.int8)
        spread = 73.6  # standard deviation of the integers
    else:
        out["q"] = Q4_BYTES[random]
        spread = 4.2
    scale = rng.random(n, dtype=np.float32) + np.float32(0.5)
    out["d"] = scale / np.float32(spread * math.sqrt(k))
    return out


def architecture(args: argparse.Namespace) -> Arch:
    """Fill in what the options leave out."""
    heads = max(1, args.dim // 64) if args.heads is None else args.heads
    head_dim = args.dim // max(1, heads) if args.head_dim is None else args.head_dim
    arch = Arch(
        family=args.arch,
        dim=args.dim,
        hidden_dim=3 * args.dim if args.hidden is None else args.hidden,
        n_layers=args.layers,
        n_heads=heads,
        n_kv_heads=heads if args.kv_heads is None else args.kv_heads,
        head_dim=head_dim,
        vocab=args.vocab,
        max_seq=args.max_seq,
        rotary_dim=head_dim,
        norm_eps=1e-5,
        attn_scale=float(np.float32(head_dim**-0.5)) if head_dim > 0 else 1.0,
        tied=not args.untied,
    )
    return dataclasses.replace(arch, **specialities(arch))


def specialities(arch: Arch) -> dict[str, Any]:
    """Return what distinguishes a family from Llama, on a model of this size."""
    every = tuple(range(arch.n_layers))

    def local(layers: Sequence[int]) -> dict[str, Any]:
        return {"window": WINDOW if layers else 0, "local_layers": tuple(layers)}

    gemma: dict[str, Any] = {
        "norm_eps": 1e-6,
        "embed_scale": float(np.float32(max(1, arch.dim) ** 0.5)),
        "activation": "gelu_tanh",
        "post_norms": True,
    }
    five_of_six = [n for n in every if (n + 1) % 6]
    families: dict[str, dict[str, Any]] = {
        "llama": {},
        "mistral": local(every),
        "qwen2": {"qkv_bias": True},
        "qwen3": {"qk_norm": True},
        "qwen3_5": gated_delta(arch) | {"qk_norm": True, "attn_gate": True},
        "smollm3": {"no_rope_layers": every[3::4]},
        "gemma2": gemma | local(every[0::2]) | {"attn_cap": 50.0, "logit_cap": 30.0},
        "gemma3": gemma | local(five_of_six) | {"qk_norm": True, "local_rope": bool(five_of_six)},
    }
    return families[arch.family]


def gated_delta(arch: Arch) -> dict[str, Any]:
    """Return a linear layer's sizes: as many heads as attention has, and as wide."""
    linear = tuple(n for n in range(arch.n_layers) if (n + 1) % 4)
    found: dict[str, Any] = {"rotary_dim": max(2, arch.head_dim // 8 * 2), "linear_layers": linear}
    if linear:
        found |= {
            "linear_k_heads": arch.n_kv_heads,
            "linear_v_heads": arch.n_heads,
            "linear_k_dim": arch.head_dim,
            "linear_v_dim": arch.head_dim,
            "conv_taps": 4,
        }
    return found


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the .mlb file to write")
    parser.add_argument("--wtype", choices=("q8", "q4"), required=True, help="weight format")
    parser.add_argument("--scales", choices=("f16", "f32"), default="f16", help="of the blocks")
    parser.add_argument("--arch", choices=FAMILIES, default="llama", help="default llama")
    parser.add_argument("--dim", type=int, default=256, help="default 256")
    parser.add_argument("--layers", type=int, default=4, help="default 4")
    parser.add_argument("--hidden", type=int, help="default 3 dim")
    parser.add_argument("--heads", type=int, help="default dim / 64")
    parser.add_argument("--kv-heads", type=int, help="default: as many as heads")
    parser.add_argument("--head-dim", type=int, help="default dim / heads")
    parser.add_argument("--vocab", type=int, default=512, help="default 512")
    parser.add_argument("--max-seq", type=int, default=2048, help="default 2048")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument("--untied", action="store_true", help="a classifier of its own")
    args = parser.parse_args(argv)
    if not 0 <= args.seed < 2**63:
        parser.error(f"argument --seed: expected an integer from 0 to {2**63 - 1}")
    return args


def main(argv: Sequence[str] | None = None) -> int:
    """Write the file; exit code 0, 1 on an error, 2 on wrong usage."""
    args = parse(argv)
    wtype = f"{args.wtype}_0{'f' if args.scales == 'f32' else ''}"
    try:
        arch = architecture(args)
        check_arch("options", arch)
        maker = Maker(wtype, args.seed, arch)
        write_model(
            args.out,
            arch,
            name=f"random-{args.seed}",
            chat=None,
            stop_ids=(),
            sampling={},
            provenance={"converter": f"krafla {mlb.VERSION}", "source": "gen_random.py"},
            tensors=(maker.source(i, *want) for i, want in enumerate(expected_tensors(arch))),
        )
    except FormatError as error:
        print(f"error: {str(error).removesuffix(f'; {AGAIN}')}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {write_failure(args.out, error)}", file=sys.stderr)
        return 1
    print(f"{args.out}: {args.out.stat().st_size / (1 << 20):.1f} MiB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
