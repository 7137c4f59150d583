# SPDX-License-Identifier: MIT
"""Write a llama2.c tokenizer.bin with made-up tokens, for random test models.

    python3 tools/gen_tokenizer.py --vocab 1000 --out tokenizer.bin

Ids 0 to 2 are <unk>, BOS and EOS, the next 256 the bytes, then printable ASCII, then pieces made
of earlier ones.  The same arguments give the same file.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mlb import envelope

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST_PIECE = 3 + 256  # <unk>, BOS, EOS and the bytes
MAX_VOCAB = 65536
MAX_PIECE = 16  # bytes


def pieces(count: int, seed: int) -> list[bytes]:
    """Return `count` different pieces: printable ASCII, then pairs of earlier pieces."""
    rng = random.Random(seed)
    found = [bytes([c]) for c in range(0x20, 0x7F)][:count]
    seen = set(found)
    letters = [p for p in found if p.isalpha() or p == b" "]
    while len(found) < count:
        left, right = rng.choice(letters), rng.choice(letters)
        joined = left + right
        # like SentencePiece, a space only at the start of a piece
        if joined in seen or b" " in right or len(joined) > MAX_PIECE:
            continue
        seen.add(joined)
        found.append(joined)
        letters.append(joined)
    return found


def tokenizer(vocab: int, seed: int) -> bytes:
    """Return the bytes of a tokenizer.bin; later pieces have lower scores."""
    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % b for b in range(256))]
    records = [(t, 0.0) for t in tokens]
    records += [(t, float(-i)) for i, t in enumerate(pieces(vocab - FIRST_PIECE, seed))]
    out = struct.pack("<i", max(len(t) for t, _ in records))
    return out + b"".join(struct.pack("<fi", score, len(t)) + t for t, score in records)


def main(argv: Sequence[str] | None = None) -> int:
    """Write one file; 0: written, 1: failed, 2: wrong usage."""
    summary = __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="gen_tokenizer.py", description=summary)
    parser.add_argument("--vocab", type=int, default=512, help="number of tokens; default 512")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    args = parser.parse_args(argv)
    if not FIRST_PIECE <= args.vocab <= MAX_VOCAB:
        parser.error(f"--vocab: expected {FIRST_PIECE} to {MAX_VOCAB}, found {args.vocab}")
    try:
        with envelope.atomic(args.out) as file:
            file.write(tokenizer(args.vocab, args.seed))
    except OSError as e:
        print(f"error: {envelope.write_failure(args.out, e)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
