# SPDX-License-Identifier: MIT
"""Perplexity of a text under a model, as the runtime computes it.

    B=build/avx2; python3 tools/perplexity.py $B/ml_run m.mlb m.mlt text.txt --ml-tok $B/ml_tok

The text is cut into windows of --ctx positions that do not overlap; each starts afresh, with the
BOS first if the tokenizer adds one, and every later token of it is scored.  --llama-cpp measures as
llama.cpp's llama-perplexity does: the BOS replaces a window's first token, and only the second half
is scored.  Perplexities are comparable only between files of one model on one text.
"""

from __future__ import annotations

import argparse
import math
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from collections.abc import Sequence

F64 = npt.NDArray[np.float64]

ROWS = 16  # rows of logits that are in memory at once


class PerplexityError(Exception):
    """One line: what went wrong and what to do."""


def encode(ml_tok: Path, tokenizer: Path, text: bytes) -> list[int]:
    """The ids ml_tok prints for a text."""
    done = subprocess.run([ml_tok, tokenizer], input=text, capture_output=True, check=False)
    if done.returncode:
        raise PerplexityError(f"{ml_tok}: {done.stderr.decode(errors='replace').strip()}")
    return [int(word) for word in done.stdout.split()]


def windows(
    ids: Sequence[int], bos: Sequence[int], ctx: int, *, llama_cpp: bool
) -> list[list[int]]:
    """Cut a text, given as ids without BOS; an incomplete last window is left out."""
    step = ctx if llama_cpp else ctx - len(bos)
    skip = len(bos) if llama_cpp else 0
    whole = range(0, len(ids) - step + 1, step)
    return [[*bos, *ids[at + skip : at + step]] for at in whole]


def log_probabilities(logits: npt.NDArray[np.float32], targets: Sequence[int]) -> F64:
    """Natural log of the probability of targets[i] under logits[i]."""
    out = np.empty(len(targets), dtype=np.float64)
    for at in range(0, len(targets), ROWS):
        rows = np.asarray(logits[at : at + ROWS], dtype=np.float64)
        top = rows.max(axis=1, keepdims=True)
        total = top[:, 0] + np.log(np.exp(rows - top).sum(axis=1))
        out[at : at + ROWS] = rows[np.arange(len(rows)), targets[at : at + ROWS]] - total
    return out


def score(
    ml_run: Path, model: Path, window: Sequence[int], first: int, extra: Sequence[str]
) -> F64:
    """Log probabilities of window[first + 1:]."""
    with tempfile.TemporaryDirectory(prefix="krafla-") as scratch:
        dump = Path(scratch) / "logits.f32"
        command: list[str | Path] = [ml_run, model, "--tokens", ",".join(map(str, window))]
        command += ["--ctx", str(len(window)), "--dump-logits", dump, *extra]
        done = subprocess.run(command, capture_output=True, check=False)
        if done.returncode:
            raise PerplexityError(f"{ml_run}: {done.stderr.decode(errors='replace').strip()}")
        values = np.memmap(dump, dtype="<f4", mode="r")
        if len(values) % len(window):
            raise PerplexityError(
                f"{ml_run}: wrote {len(values)} logits for {len(window)} positions"
            )
        logits = values.reshape(len(window), -1)
        return log_probabilities(logits[first:-1], window[first + 1 :])


def measure(args: argparse.Namespace) -> int:
    """Score the windows one after the other and print what came out."""
    text = args.text.read_bytes()
    bos = encode(args.ml_tok, args.tokenizer, b"")
    ids = encode(args.ml_tok, args.tokenizer, text)[len(bos) :]
    chosen = windows(ids, bos, args.ctx, llama_cpp=args.llama_cpp)[: args.chunks]
    if not chosen:
        raise PerplexityError(
            f"{args.text}: {len(ids)} tokens do not fill a window of {args.ctx}: "
            "use a longer text or a smaller --ctx"
        )
    if len(chosen) < args.chunks:
        print(f"note: the text fills {len(chosen)} of {args.chunks} windows", file=sys.stderr)
    first = args.ctx // 2 if args.llama_cpp else 0
    scored = np.empty(0, dtype=np.float64)
    for number, window in enumerate(chosen, start=1):
        part = score(args.ml_run, args.model, window, first, shlex.split(args.extra))
        scored = np.concatenate([scored, part])
        print(f"window {number}/{len(chosen)}: {math.exp(-scored.mean()):.4f}", file=sys.stderr)
    value = math.exp(-scored.mean())
    error = value * scored.std(ddof=1) / math.sqrt(len(scored))
    print(
        f"perplexity: {value:.4f} +- {error:.4f}, {len(scored)} tokens, "
        f"{len(chosen)} windows of {args.ctx}"
    )
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """Parse the command line and measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("ml_run", type=Path, help="the ml_run program of a build")
    parser.add_argument("model", type=Path, help="the .mlb file")
    parser.add_argument("tokenizer", type=Path, help="its .mlt or tokenizer.bin")
    parser.add_argument("text", type=Path, help="a text file")
    parser.add_argument("--ml-tok", type=Path, required=True, help="the ml_tok program of a build")
    parser.add_argument("--ctx", type=int, default=512, help="positions of a window (default 512)")
    parser.add_argument("--chunks", type=int, default=4, help="windows to score (default 4)")
    parser.add_argument("--llama-cpp", action="store_true", help="measure as llama.cpp does")
    parser.add_argument("--extra", default="", help='more options for ml_run, as in "--kv q8 -t 4"')
    args = parser.parse_args(argv)
    if args.ctx < 8 or args.chunks < 1:
        parser.error("--ctx is at least 8, --chunks at least 1")
    try:
        return measure(args)
    except (PerplexityError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
