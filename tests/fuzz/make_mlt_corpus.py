# SPDX-License-Identifier: MIT
"""Write the corpus of fuzz_mlt: a small tokenizer of each kind, whole and broken.

.venv/bin/python tests/fuzz/make_mlt_corpus.py
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np

CORPUS = Path(__file__).resolve().parent / "corpus" / "fuzz_mlt"
sys.path.insert(0, str(CORPUS.parents[3] / "tools"))

from mlb import tokenizer  # noqa: E402  (needs the path above)
from mlb.tokenizer import (  # noqa: E402  (as above)
    ADDED,
    BYTE,
    LSTRIP,
    MODEL,
    NORMALIZED,
    RSTRIP,
    SPECIAL,
    WORD,
)

SPACE = tokenizer.SPACE.encode()
EXTRA = (
    tokenizer.Token(b"<s>", ADDED | SPECIAL | MODEL),
    tokenizer.Token(b"<x>", ADDED | LSTRIP | RSTRIP),
    tokenizer.Token(b"world", ADDED | WORD),
    tokenizer.Token(SPACE + b"a", ADDED | NORMALIZED),
    tokenizer.Token(b"", 0),
)


def small(
    kind: str, pretok: str, prefix: str, *, nfc: bool, ignore_merges: bool
) -> tokenizer.Tokenizer:
    """Return a tokenizer of this kind with a handful of merges."""
    tokens = [tokenizer.Token(bytes([b]), MODEL | BYTE) for b in range(256)]
    letters = {bytes([b]): b for b in range(256)}
    if kind == "bpe_spm":
        for text in (SPACE, b"a", b"b", b"l", b"o", "世".encode()):
            letters[text] = len(tokens)
            tokens.append(tokenizer.Token(text, MODEL))
    merges = []
    for left, right in ((b"a", b"b"), (b"l", b"l"), (b"ll", b"o"), (SPACE, b"ab"), (b"b", b"b")):
        if left in letters and right in letters:
            merges.append((letters[left], letters[right], len(tokens)))
            letters[left + right] = len(tokens)
            tokens.append(tokenizer.Token(left + right, MODEL))
    return tokenizer.Tokenizer(
        pipeline=tokenizer.Pipeline(
            kind, pretok, prefix, kind == "bpe_spm", nfc=nfc, ignore_merges=ignore_merges
        ),
        tokens=(*tokens, *EXTRA),
        merges=np.array(merges, dtype=np.uint32),
        add_bos=True,
        bos=len(tokens),
        eos=None,
        chat="zephyr",
        provenance={"converter": "make_mlt_corpus.py"},
    )


def llama2c() -> bytes:
    """Return a small tokenizer.bin."""
    tokens = [b"<x>"] * 3 + [b"<0xXX>"] * 256 + [b" ", b"a", b"b", b"ab", b" ab"]
    records = (struct.pack("<fi", -float(i), len(t)) + t for i, t in enumerate(tokens))
    return struct.pack("<i", 6) + b"".join(records)


def main() -> int:
    """Write every file."""
    CORPUS.mkdir(parents=True, exist_ok=True)
    for kind, pretok, prefix in (
        ("bpe_byte", "gpt2", "none"),
        ("bpe_byte", "gpt2_digits", "none"),
        ("bpe_byte", "llama3", "none"),
        ("bpe_byte", "qwen2", "none"),
        ("bpe_byte", "qwen3_5", "none"),
        ("bpe_spm", "none", "none"),
        ("bpe_spm", "none", "always"),
        ("bpe_spm", "none", "unless_space"),
        ("bpe_spm", "none", "first_unless_space"),
    ):
        path = CORPUS / f"{kind}-{pretok}-{prefix}.mlt"
        nfc, ignore_merges = pretok.startswith("qwen"), pretok in ("llama3", "qwen3_5")
        tokenizer.write(path, small(kind, pretok, prefix, nfc=nfc, ignore_merges=ignore_merges))
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 0x40
        path.with_suffix(".broken").write_bytes(raw)
    (CORPUS / "llama2c.bin").write_bytes(llama2c())
    (CORPUS / "llama2c.broken").write_bytes(llama2c()[:-3])
    return 0


if __name__ == "__main__":
    sys.exit(main())
