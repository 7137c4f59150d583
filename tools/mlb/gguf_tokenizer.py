# SPDX-License-Identifier: MIT
"""The tokenizer of a GGUF file, as the tokenizer.json that it was made from.

So that it becomes an .mlt by the same checks as every other (mlb/tokenizer).  Byte-level BPE has
its merges in the file; SentencePiece has scores, from which they follow.

    python3 tools/convert.py gguf model.gguf model.mlb --tokenizer model.mlt
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from mlb import VERSION, tokenizer
from mlb.chat import Recognised, recognise
from mlb.checkpoint import CheckpointError
from mlb.envelope import one_line
from mlb.tokenizer import MAX_TOKEN_BYTES, SPACE, Beside, Token, Tokenizer, TokenizerError
from mlb.tokenizer_json import added_token, begin_with, byte_parts, spm_parts
from mlb.tokenizer_pipeline import shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mlb.gguf import Gguf

Json = dict[str, Any]

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # tokenizer.ggml.token_type
TYPES = range(NORMAL, BYTE + 1)
MODELS = ("gpt2", "llama")
PLACEHOLDER = "[PAD{}]"  # how llama.cpp spells a row without a token
TEMPLATE_TOKENS = {
    "bos_token": "bos",
    "eos_token": "eos",
    "unk_token": "unknown",
    "pad_token": "padding",
}
END_KEYS = ("eos", "eot", "eom")  # tokens at which a reply ends: of text, turn and message


@dataclasses.dataclass(frozen=True)
class Split:
    """How a byte-level tokenizer prepares text."""

    pretok: str
    nfc: bool = False
    ignore_merges: bool = False
    add_bos: bool = False  # unless the file says otherwise


LLAMA3 = Split("llama3", ignore_merges=True, add_bos=True)
QWEN2 = Split("qwen2", nfc=True)
# By tokenizer.ggml.pre.  That Qwen's text is normalized to NFC first is not in the file.
SPLITS: Mapping[str, Split] = {
    "gpt-2": Split("gpt2"),
    "smollm": Split("gpt2_digits"),
    "llama-bpe": LLAMA3,
    "llama3": LLAMA3,
    "llama-v3": LLAMA3,
    "qwen2": QWEN2,
    "deepseek-r1-qwen": QWEN2,
    "qwen35": Split("qwen3_5", nfc=True),
}


class Vocabulary:
    """The fields tokenizer.ggml.*, checked one against the other."""

    def __init__(self, gguf: Gguf) -> None:
        self.fields = gguf.fields
        self.model = self.get("model", str, "")
        if self.model not in MODELS:
            raise self.fail("model", self.model, f"one of {', '.join(MODELS)}")
        self.tokens = self.strings("tokens")
        if not self.tokens:
            raise TokenizerError("tokenizer.ggml.tokens is empty or missing")
        self.types = self.numbers("token_type")
        for i, kind in enumerate(self.types):
            if kind not in TYPES:
                raise TokenizerError(f"tokenizer.ggml.token_type: {kind} of token {i} is unknown")
            if len(self.tokens[i]) > MAX_TOKEN_BYTES:
                raise TokenizerError(f"token {i} has more than {MAX_TOKEN_BYTES} bytes")
            absent = ("", PLACEHOLDER.format(i))
            if self.tokens[i] in absent:  # whatever its type says
                self.types[i] = UNUSED

    def fail(self, key: str, found: object, expected: str) -> TokenizerError:
        """The error for a field."""
        return TokenizerError(
            f"tokenizer.ggml.{key}: expected {expected}, found {shown(found)}: this tokenizer is "
            "not supported: convert the model's tokenizer.json instead"
        )

    def get(self, key: str, kind: type, default: Any) -> Any:
        """A field of this type."""
        value = self.fields.get(f"tokenizer.ggml.{key}", default)
        if type(value) is not kind:
            raise self.fail(key, str(value)[:100], f"a value of type {kind.__name__}")
        return value

    def strings(self, key: str) -> list[str]:
        """A list of strings, empty if it is not there."""
        found: list[str] = self.get(key, list, [])
        if not all(isinstance(text, str) for text in found):
            raise TokenizerError(f"tokenizer.ggml.{key} is no list of strings")
        return found

    def numbers(self, key: str) -> list[Any]:
        """A number for each token."""
        values = self.fields.get(f"tokenizer.ggml.{key}")
        found = values[np.isfinite(values)] if isinstance(values, np.ndarray) else np.empty(0)
        if len(found) != len(self.tokens):
            raise self.fail(key, len(found), f"{len(self.tokens)} finite numbers")
        return found.tolist()

    def id(self, key: str) -> int | None:
        """The id of BOS, EOS and the like."""
        value = self.fields.get(f"tokenizer.ggml.{key}_token_id")
        return value if type(value) is int and 0 <= value < len(self.tokens) else None


def _added(vocab: Vocabulary) -> list[Json]:
    """The tokens that are matched as a whole; the file does not say what space they take."""
    return [
        added_token(i, _content(vocab, i), special=kind != USER_DEFINED)
        for i, kind in enumerate(vocab.types)
        if kind in (CONTROL, USER_DEFINED, UNKNOWN)
    ]


def _content(vocab: Vocabulary, i: int) -> str:
    """A token's spelling; llama.cpp writes Gemma's runs of the space sign as runs of spaces."""
    text = vocab.tokens[i]
    spaces = vocab.model == "llama" and vocab.types[i] == USER_DEFINED and not text.strip(" ")
    return text.replace(" ", SPACE) if spaces else text


def _spellings(vocab: Vocabulary) -> dict[str, int]:
    """The vocabulary of the model.

    The added tokens at the end of a byte-level one are left to be numbered after it, as they may
    not be spelled in bytes.  For that, rows without a token that lie before them need a spelling.
    """
    numbered = vocab.model == "gpt2"
    last = max((i for i, kind in enumerate(vocab.types) if kind != UNUSED), default=-1)
    model = (i for i, kind in enumerate(vocab.types[: last + 1]) if kind in (NORMAL, UNUSED))
    end = max(model, default=-1) + 1 if numbered else last + 1
    found: dict[str, int] = {}
    for i, kind in enumerate(vocab.types[:end]):
        if kind == UNUSED and not numbered:
            continue
        text = PLACEHOLDER.format(i) if kind == UNUSED else _content(vocab, i)
        if text in found:
            raise TokenizerError(f"tokens {found[text]} and {i} are both {shown(text)}")
        found[text] = i
    return found


def merges_of_scores(
    spellings: Mapping[str, int], types: Sequence[int], scores: Sequence[float]
) -> list[tuple[str, str]]:
    """The merges that SentencePiece's scores come to, as the Hugging Face converters order them.

    The best score goes first, of equal ones the longest left part, then the longest right one.  The
    scores of user-defined tokens are lost (-1000); they go before all others, which have at most 0.
    """
    found: list[tuple[float, int, int, str, str]] = []
    for text, i in spellings.items():
        if types[i] not in (NORMAL, USER_DEFINED):
            continue
        score = 0.0 if types[i] == USER_DEFINED else scores[i]
        cuts = ((text[:cut], text[cut:]) for cut in range(1, len(text)))
        pairs = [(a, b) for a, b in cuts if a in spellings and b in spellings]
        pairs.sort(key=lambda pair: (spellings[pair[0]], spellings[pair[1]]))
        found += [(score, len(a), len(b), a, b) for a, b in pairs]
    found.sort(key=lambda item: item[:3], reverse=True)
    return [(a, b) for *_, a, b in found]


def _byte_json(vocab: Vocabulary) -> Json:
    """The parts of tokenizer.json that are a byte-level BPE's."""
    name = vocab.get("pre", str, "")
    if name not in SPLITS:
        raise vocab.fail("pre", name, f"one of {', '.join(SPLITS)}")
    split = SPLITS[name]
    model = {"vocab": _spellings(vocab), "merges": vocab.strings("merges")}
    return {
        **byte_parts(split.pretok, nfc=split.nfc),
        "post_processor": _bos_template(vocab, default=split.add_bos),
        "model": {"type": "BPE", "ignore_merges": split.ignore_merges, **model},
    }


def _spm_json(vocab: Vocabulary) -> Json:
    """The parts of tokenizer.json that are a SentencePiece BPE's."""
    if vocab.get("pre", str, "default") != "default":
        raise vocab.fail("pre", vocab.get("pre", str, ""), "default")
    prefix = vocab.get("add_space_prefix", bool, default=True)
    spellings = _spellings(vocab)
    merges = merges_of_scores(spellings, vocab.types, vocab.numbers("scores"))
    return {
        **spm_parts(prefix=prefix),
        "post_processor": _bos_template(vocab, default=True),
        "model": {
            "type": "BPE",
            "unk_token": None,
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": spellings,
            "merges": [list(pair) for pair in merges],
        },
    }


def _bos_template(vocab: Vocabulary, *, default: bool) -> Json | None:
    if vocab.get("add_eos_token", bool, default=False):
        raise vocab.fail("add_eos_token", found=True, expected="false")
    bos = vocab.id("bos")
    if bos is None or not vocab.get("add_bos_token", bool, default=default):
        return None
    return begin_with(vocab.tokens[bos], bos)


def tokenizer_json(vocab: Vocabulary) -> Json:
    """The tokenizer.json of a vocabulary; without the rows that have no token."""
    own = _byte_json(vocab) if vocab.model == "gpt2" else _spm_json(vocab)
    return {"version": "1.0", "added_tokens": _added(vocab), **own}


def end_ids(gguf: Gguf, vocab: int) -> tuple[int, ...]:
    """The tokens below `vocab` at which a reply ends, whatever the tokenizer is."""
    found = [gguf.fields.get(f"tokenizer.ggml.{key}_token_id") for key in END_KEYS]
    return tuple(dict.fromkeys(i for i in found if type(i) is int and 0 <= i < vocab))


def read(gguf: Gguf, chat_name: str | None) -> Tokenizer:
    """The tokenizer of a file, checked like every other."""
    provenance = {"converter": f"convert.py {VERSION}", "source": one_line(gguf.path.name)}
    try:
        vocab = Vocabulary(gguf)
        ids = {f"{key}_token_id": vocab.id(key) for key in ("bos", "eos")}
        made = tokenizer.from_json(tokenizer_json(vocab), Beside(generation=ids), provenance)
    except TokenizerError as error:
        raise CheckpointError(f"{gguf.path}: {error}") from None
    pairs = zip(made.tokens, vocab.types, strict=False)
    tokens = tuple(Token(b"", 0) if kind == UNUSED else token for token, kind in pairs)
    return dataclasses.replace(made, tokens=tokens, chat=chat_name)


def recognised(gguf: Gguf) -> Recognised:
    """Which of our chat templates the file's own is."""
    template = gguf.fields.get("tokenizer.chat_template")
    if not isinstance(template, str):
        return Recognised(None)
    tokens = gguf.fields.get("tokenizer.ggml.tokens", [])
    texts: dict[str, str] = {}
    for name, key in TEMPLATE_TOKENS.items():
        i = gguf.fields.get(f"tokenizer.ggml.{key}_token_id")
        if type(i) is int and 0 <= i < len(tokens):
            texts[name] = str(tokens[i])
    return recognise(template, texts)
