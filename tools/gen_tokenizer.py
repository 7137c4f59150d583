# SPDX-License-Identifier: MIT
"""Write a tokenizer with made-up tokens, for random test models.

    python3 tools/gen_tokenizer.py --vocab 1000 --out tokenizer.bin
    python3 tools/gen_tokenizer.py --kind qwen2 --vocab 151936 --out qwen2.mlt

The kind llama2c is a llama2.c tokenizer.bin: ids 0 to 2 are <unk>, BOS and EOS, the next 256 the
bytes, then printable ASCII, then pieces made of earlier ones.  The other kinds prepare text like
the tokenizers of these models and have their turn tokens; they are written as an .mlt or, if the
name ends with .json, as a tokenizer.json.  The same arguments give the same file.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import random
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlb import VERSION, envelope, tokenizer, tokenizer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

LLAMA2C = "llama2c"
LLAMA2C_FIRST = 3 + 256  # <unk>, BOS, EOS and the bytes
MAX_VOCAB = 1 << 19
MAX_PART = 8  # bytes of a piece that longer ones are made of
LETTERS = [bytes([c]) for c in range(0x20, 0x7F)]  # printable ASCII


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the tokenizers of a family have; pretok "none" means SentencePiece."""

    pretok: str
    special: tuple[str, ...]
    eos: str
    bos: str | None = None  # put before a text
    text: tuple[str, ...] = ()  # added tokens that are not special
    nfc: bool = False
    ignore_merges: bool = False
    prefix: bool = False  # SentencePiece: a space goes before a text


CHATML = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
THINK = ("<think>", "</think>")
GEMMA = ("<pad>", "<eos>", "<bos>", "<unk>", "<start_of_turn>", "<end_of_turn>")
LLAMA3 = (
    *("<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>"),
    "<|eot_id|>",
)
KINDS = {
    "llama": Kind("none", ("<unk>", "<s>", "</s>"), "</s>", "<s>", prefix=True),
    "gemma": Kind("none", GEMMA, "<eos>", "<bos>"),
    "gpt2": Kind("gpt2", CHATML[:1], CHATML[0]),
    "smollm": Kind("gpt2_digits", CHATML, CHATML[2]),
    "llama3": Kind("llama3", LLAMA3, LLAMA3[1], LLAMA3[0], ignore_merges=True),
    "qwen2": Kind("qwen2", CHATML, CHATML[2], text=THINK, nfc=True),
    "qwen3_5": Kind("qwen3_5", CHATML, CHATML[2], text=THINK, nfc=True),
}


@dataclasses.dataclass(frozen=True)
class Piece:
    """A token, and the two earlier ones it is made of."""

    text: bytes
    parts: tuple[bytes, bytes] | None = None


def pieces(count: int, seed: int) -> list[Piece]:
    """Return `count` different pieces: printable ASCII, then pairs of earlier pieces."""
    rng = random.Random(seed)
    found = [Piece(letter) for letter in LETTERS[:count]]
    seen = {piece.text for piece in found}
    parts = [p.text for p in found if p.text.isalpha() or p.text == b" "]
    while len(found) < count:
        left, right = rng.choice(parts), rng.choice(parts)
        joined = left + right
        if joined in seen or b" " in right:  # like SentencePiece, a space only at the start
            continue
        seen.add(joined)
        found.append(Piece(joined, (left, right)))
        if len(joined) <= MAX_PART:
            parts.append(joined)
    return found


def llama2c(vocab: int, seed: int) -> bytes:
    """Return the bytes of a tokenizer.bin; later pieces have lower scores."""
    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % b for b in range(256))]
    records = [(t, 0.0) for t in tokens]
    made = pieces(vocab - LLAMA2C_FIRST, seed)
    records += [(piece.text, float(-i)) for i, piece in enumerate(made)]
    out = struct.pack("<i", max(len(t) for t, _ in records))
    return out + b"".join(struct.pack("<fi", score, len(t)) + t for t, score in records)


def base_tokens(kind: Kind) -> list[str]:
    """Return the tokens before those made of others: bytes and what comes before them."""
    if kind.pretok == "none":
        return [*kind.special, *tokenizer.BYTE_TOKENS]
    return sorted(tokenizer.ALPHABET)


def smallest(name: str) -> int:
    """Return the least number of tokens of a kind."""
    if name == LLAMA2C:
        return LLAMA2C_FIRST
    return len(base_tokens(KINDS[name])) + len(added_tokens(KINDS[name]))


def added_tokens(kind: Kind) -> list[str]:
    """Return the added tokens that come after all others."""
    return [*([] if kind.pretok == "none" else kind.special), *kind.text]


def spelled(text: bytes, kind: Kind) -> str:
    """Return how a tokenizer.json spells a piece."""
    if kind.pretok == "none":
        return text.decode("ascii").replace(" ", tokenizer.SPACE)
    return "".join(SPELLING[b] for b in text)


SPELLING = {b: c for c, b in tokenizer.ALPHABET.items()}


def contents(kind: Kind, vocab: int, seed: int) -> dict[str, Any]:
    """Return the object of a tokenizer.json."""
    base, last = base_tokens(kind), added_tokens(kind)
    # SentencePiece has the characters besides the bytes; elsewhere they are the same tokens
    known = 0 if kind.pretok == "none" else len(LETTERS)
    made = pieces(vocab - len(base) - len(last) + known, seed)[known:]
    names = [*base, *(spelled(piece.text, kind) for piece in made), *last]
    ids = {name: i for i, name in enumerate(names)}
    merges = [[spelled(part, kind) for part in piece.parts] for piece in made if piece.parts]
    spm = kind.pretok == "none"
    parts = (
        tokenizer_json.spm_parts(prefix=kind.prefix)
        if spm
        else tokenizer_json.byte_parts(kind.pretok, nfc=kind.nfc)
    )
    return {
        "version": "1.0",
        "added_tokens": [
            tokenizer_json.added_token(ids[name], name, special=name in kind.special)
            for name in sorted({*kind.special, *kind.text}, key=ids.__getitem__)
        ],
        **parts,
        "post_processor": tokenizer_json.begin_with(kind.bos, ids[kind.bos]) if kind.bos else None,
        "model": {
            "type": "BPE",
            "byte_fallback": spm,
            "ignore_merges": kind.ignore_merges,
            "vocab": {name: ids[name] for name in names[: vocab - len(last)]},
            "merges": merges,
        },
    }


def write(path: Path, name: str, vocab: int, seed: int) -> None:
    """Write one file."""
    if name == LLAMA2C:
        with envelope.atomic(path) as file:
            file.write(llama2c(vocab, seed))
        return
    root = contents(KINDS[name], vocab, seed)
    if path.suffix == ".json":
        with envelope.atomic(path) as file:
            file.write(json.dumps(root).encode("ascii"))
        return
    beside = tokenizer.Beside(config={"eos_token": KINDS[name].eos})
    made = tokenizer.from_json(root, beside, {"converter": f"gen_tokenizer.py {VERSION}"})
    tokenizer.write(path, made)


def main(argv: Sequence[str] | None = None) -> int:
    """Write one file; 0: written, 1: failed, 2: wrong usage."""
    summary = __doc__.splitlines()[0]
    parser = argparse.ArgumentParser(prog="gen_tokenizer.py", description=summary)
    kinds = (LLAMA2C, *KINDS)
    parser.add_argument("--kind", choices=kinds, default=LLAMA2C, help=f"default {LLAMA2C}")
    parser.add_argument("--vocab", type=int, default=512, help="number of tokens; default 512")
    parser.add_argument("--out", type=Path, required=True, help="file to write")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    args = parser.parse_args(argv)
    least = smallest(args.kind)
    if not least <= args.vocab <= MAX_VOCAB:
        parser.error(f"--vocab: expected {least} to {MAX_VOCAB}, found {args.vocab}")
    try:
        write(args.out, args.kind, args.vocab, args.seed)
    except OSError as e:
        print(f"error: {envelope.write_failure(args.out, e)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
