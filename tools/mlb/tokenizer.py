# SPDX-License-Identifier: MIT
"""From a Hugging Face tokenizer.json to the contents of an .mlt file (docs/format-mlt.md).

Every field of tokenizer.json is either understood or refused by name: a tokenizer that would
encode differently is worse than none.

    python3 tools/convert_tokenizer.py tokenizer.json tokenizer.mlt
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mlb import VERSION, chat, envelope
from mlb.checkpoint import json_of_file, read_json, read_text
from mlb.tokenizer_pipeline import (
    FLAG,
    SPACE,
    Json,
    Pipeline,
    TokenizerError,
    fields,
    model_of,
    pipeline_of,
    post_processor_bos,
    refusal,
    shown,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = ["SPACE", "Pipeline", "Token", "Tokenizer", "TokenizerError", "read", "write"]

U32 = npt.NDArray[np.uint32]

# The version of the `tokenizers` library that the runtime was compared with.
COMPARED_WITH = "0.23.3"
MAX_TOKENS = 1 << 24
MAX_MERGES = 1 << 24
MAX_TOKEN_BYTES = 1024
MAX_TEXT = 64 << 20
MAX_JSON = 1 << 26  # real ones have up to 40 MB

# Bits of a token's flags; runtime/core/mlt.h has the same, a test compares them.
ADDED, SPECIAL, LSTRIP, RSTRIP, WORD, NORMALIZED, BYTE, MODEL = (1 << i for i in range(8))


@dataclasses.dataclass(frozen=True)
class Token:
    """One entry of the vocabulary."""

    text: bytes
    flags: int


@dataclasses.dataclass(frozen=True)
class Tokenizer:
    """Everything an .mlt file holds."""

    pipeline: Pipeline
    tokens: tuple[Token, ...]
    merges: U32  # [merges, 3]: left, right, result
    add_bos: bool
    bos: int | None
    eos: int | None
    chat: str | None
    provenance: Mapping[str, str | int | None]
    warnings: tuple[str, ...] = ()  # what a user should know; not part of the file

    def summary(self) -> str:
        """What the converters print when the file is written."""
        named = {"bos": self.bos, "eos": self.eos, "chat": self.chat}
        bos, eos, chat_name = (
            f"{name} {'none' if value is None else value}" for name, value in named.items()
        )
        return (
            f"{self.pipeline.kind}, {len(self.tokens)} tokens, {len(self.merges)} merges, "
            f"{bos}{' (added)' if self.add_bos else ''}, {eos}, {chat_name}"
        )


@dataclasses.dataclass(frozen=True)
class Beside:
    """The files that lie beside a tokenizer.json; empty where there is none."""

    config: Json = dataclasses.field(default_factory=dict)  # tokenizer_config.json
    generation: Json = dataclasses.field(default_factory=dict)  # generation_config.json
    model: Json = dataclasses.field(default_factory=dict)  # config.json


# ---- vocabulary ----------------------------------------------------------------------------------


def byte_alphabet() -> dict[str, int]:
    """The characters by which byte-level tokenizers spell bytes."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    rest = (b for b in range(256) if b not in plain)
    return {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}


ALPHABET = byte_alphabet()
BYTE_TOKENS = {f"<0x{b:02X}>": b for b in range(256)}


def _utf8(spelling: str) -> bytes:
    """The bytes of a token; JSON can hold halves of characters that have none."""
    try:
        return spelling.encode()
    except UnicodeEncodeError:
        raise TokenizerError(f"token {shown(spelling)} is not valid Unicode") from None


def _spm_token(spelling: str, vocab: Mapping[str, int]) -> Token:
    if spelling in BYTE_TOKENS:
        return Token(bytes([BYTE_TOKENS[spelling]]), MODEL | BYTE)
    if re.fullmatch("<0x[0-9A-Fa-f]{2}>", spelling):  # decoded as a byte, but never encoded
        raise refusal("byte token in small letters", spelling)
    text = _utf8(spelling)
    # Gemma 1 and 2 have a tab in the place of <0x09>, which no other character needs.
    alone = len(text) == 1 and f"<0x{text[0]:02X}>" not in vocab
    return Token(text, MODEL | (BYTE if alone else 0))


def _byte_token(spelling: str) -> Token:
    try:
        text = bytes(ALPHABET[c] for c in spelling)
    except KeyError:
        raise TokenizerError(f"token {shown(spelling)} is not spelled in bytes") from None
    return Token(text, MODEL | (BYTE if len(text) == 1 else 0))


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < MAX_TOKENS


def _added(root: Json) -> dict[int, Json]:
    known = {"id": None, "content": None, "single_word": FLAG, "lstrip": FLAG, "rstrip": FLAG}
    found: dict[int, Json] = {}
    entries = root.get("added_tokens", [])
    if not isinstance(entries, list):
        raise TokenizerError(f"added_tokens: expected a list, found {shown(entries)}")
    for entry in entries:
        token = fields("added token", entry, {**known, "normalized": FLAG, "special": FLAG})
        if not _is_id(token.get("id")) or not isinstance(token.get("content"), str):
            raise refusal("added token", token)
        if token["id"] in found or not token["content"]:
            raise TokenizerError(f"added token {shown(token)} is empty or a second of its id")
        found[token["id"]] = token
    return found


def _check_added_ids(added: Mapping[int, Json], vocab: Mapping[str, int]) -> None:
    """Refuse ids that the library, which counts for itself, would not give."""
    given: dict[str, int] = {}
    free = len(vocab)
    for i, token in added.items():
        content = token["content"]
        expected = given.get(content, vocab.get(content, free))
        if i != expected:
            raise TokenizerError(
                f"added token {shown(content)} has id {i}; the `tokenizers` library makes it "
                f"{expected}: number the added tokens without gaps"
            )
        given[content] = i
        free = max(free, i + 1)


def _added_flags(token: Json) -> int:
    bits = {
        "special": SPECIAL,
        "lstrip": LSTRIP,
        "rstrip": RSTRIP,
        "single_word": WORD,
        "normalized": NORMALIZED,
    }
    return ADDED | sum(bit for name, bit in bits.items() if token.get(name))


def _newer_mark(char: str) -> bool:
    """Tell whether NFC does to a character what it did not in every version of Unicode."""
    newer = unicodedata.ucd_3_2_0.category(char) == "Cn"
    return newer and bool(unicodedata.combining(char) or unicodedata.decomposition(char))


def _added_text(token: Json, pipeline: Pipeline) -> bytes:
    """How an added token is spelled where it is looked for: like the library, normalized."""
    content: str = token["content"]
    if token.get("normalized") and pipeline.kind == "bpe_spm":
        if pipeline.prefix in ("none", "always"):
            content = content.replace(" ", SPACE)
        if pipeline.prefix == "always":
            content = SPACE + content
    if token.get("normalized") and pipeline.nfc:
        if any(map(_newer_mark, content)):
            raise refusal("normalized added token with marks newer than Unicode 3.2:", content)
        content = unicodedata.normalize("NFC", content)
    return _utf8(content)


def _model_token(spelling: str, kind: str, vocab: Mapping[str, int]) -> Token:
    return _spm_token(spelling, vocab) if kind == "bpe_spm" else _byte_token(spelling)


def _tokens(added: Mapping[int, Json], vocab: Mapping[str, int], pipeline: Pipeline) -> list[Token]:
    """The tokens by id; an id that nothing has is an empty token without flags."""
    size = max([*vocab.values(), *added, 0]) + 1
    if size > MAX_TOKENS or size > 2 * (len(vocab) + len(added)):
        raise TokenizerError(f"{size} token ids; at most {MAX_TOKENS}, and at least half in use")
    tokens = [Token(b"", 0)] * size
    spelled = dict.fromkeys(range(size), "")
    for spelling, i in vocab.items():
        if i < 0 or spelled[i] or not spelling:
            raise TokenizerError(f"token {shown(spelling)}: id {i} is negative or taken")
        spelled[i] = spelling
    for i, spelling in spelled.items():
        token = added.get(i)
        if token and spelling and spelling != token["content"]:
            raise TokenizerError(f"id {i} is {shown(spelling)} and {shown(token['content'])}")
        if token:
            flags = _added_flags(token) | (MODEL if spelling else 0)
            text = _added_text(token, pipeline)
            if spelling and _model_token(spelling, pipeline.kind, vocab).text != text:
                raise refusal("added token that the vocabulary spells otherwise:", spelling)
            one_byte = pipeline.kind == "bpe_byte" and spelling and len(text) == 1
            tokens[i] = Token(text, flags | (BYTE if one_byte and not flags & SPECIAL else 0))
        elif spelling:
            tokens[i] = _model_token(spelling, pipeline.kind, vocab)
        if len(tokens[i].text) > MAX_TOKEN_BYTES:
            raise TokenizerError(f"token {i} has more than {MAX_TOKEN_BYTES} bytes")
    return tokens


def _pairs(merges: Sequence[object]) -> Iterator[tuple[str, str]]:
    """The merges, which older files write as "left right" and newer ones as two strings."""
    for merge in merges:
        pair = merge.split(" ") if isinstance(merge, str) else merge
        match pair:
            case [str(left), str(right)]:
                yield left, right
            case _:
                raise refusal("merge", merge)


def _merges(model: Json, vocab: Mapping[str, int], tokens: Sequence[Token]) -> U32:
    merges = model.get("merges")
    if not isinstance(merges, list) or len(merges) > MAX_MERGES:
        raise TokenizerError(f"model: merges is no list of at most {MAX_MERGES}")
    found: dict[tuple[int, int], int] = {}
    for left, right in _pairs(merges):
        try:
            pair, result = (vocab[left], vocab[right]), vocab[left + right]
        except KeyError as e:
            raise TokenizerError(
                f"merge {shown([left, right])}: {shown(e.args[0])} is not in the vocabulary"
            ) from None
        if tokens[result].flags & (SPECIAL | BYTE):
            raise TokenizerError(f"merge {shown([left, right])} gives a special or byte token")
        if pair in found:
            raise TokenizerError(f"merge {shown([left, right])} is there twice")
        found[pair] = result
    triples = [(left, right, result) for (left, right), result in found.items()]
    return np.array(triples, dtype=np.uint32).reshape(-1, 3)


# ---- begin and end of a text ---------------------------------------------------------------------


def _named_id(config: Json, key: str, ids: Mapping[str, int]) -> int | None:
    """The id of tokenizer_config's bos_token or eos_token, a string or {"content": ...}."""
    value = config.get(key)
    text = value.get("content") if isinstance(value, dict) else value
    if text is None:
        return None
    if not isinstance(text, str) or text not in ids:
        raise TokenizerError(f"tokenizer_config.json: {key} {shown(text)} is not a token")
    return ids[text]


def _config_id(config: Json, key: str, size: int) -> int | None:
    """The id, or the first of several, in generation_config.json or config.json."""
    value = config.get(key)
    first = value[0] if isinstance(value, list) and value else value
    return first if type(first) is int and 0 <= first < size else None


def _marker(beside: Beside, name: str, ids: Mapping[str, int], size: int) -> int | None:
    """The id of BOS or EOS by the first of the files that has one."""
    text_model = beside.model.get("text_config")
    places = [beside.generation, beside.model]
    if isinstance(text_model, dict):
        places.append(text_model)
    named = _named_id(beside.config, f"{name}_token", ids)
    found = [named, *(_config_id(place, f"{name}_token_id", size) for place in places)]
    return next((i for i in found if i is not None), None)


def _config_tokens(config: Json, tokens: Sequence[Token], ids: Mapping[str, int]) -> Iterator[str]:
    """Warn of added tokens that only tokenizer_config.json knows: text does not become them."""
    known = config.get("added_tokens_decoder") or {}
    if not isinstance(known, dict):
        raise refusal("tokenizer_config.json: added_tokens_decoder =", known)
    for i, token in known.items():
        content = token.get("content") if isinstance(token, dict) else None
        if not isinstance(content, str) or not re.fullmatch("[0-9]{1,8}", i):
            raise refusal(f"tokenizer_config.json: added_tokens_decoder {shown(i)} =", token)
        taken = int(i) < len(tokens) and tokens[int(i)].text
        if (content in ids and ids[content] != int(i)) or (content not in ids and taken):
            raise TokenizerError(
                f"tokenizer_config.json: token {i} {shown(content)} is another in tokenizer.json"
            )
        if content not in ids:
            yield (
                f"tokenizer_config.json has token {i} {shown(content)}, tokenizer.json does not: "
                "it is encoded as ordinary text"
            )


def _config_warnings(root: Json, config: Json, *, add_bos: bool) -> Iterator[str]:
    """Warn where a file says what has no effect here."""
    for key in ("add_bos_token", "add_eos_token", "legacy"):
        if type(config.get(key, False)) not in (bool, type(None)):
            raise refusal(f"tokenizer_config.json: {key} =", config[key])
    if type(config.get("add_bos_token")) is bool and config["add_bos_token"] != add_bos:
        yield (
            f"tokenizer_config.json says add_bos_token {shown(config['add_bos_token'])}, the "
            f"post-processor of tokenizer.json, which counts, {shown(add_bos)}"
        )
    if config.get("add_eos_token"):
        yield "tokenizer_config.json says add_eos_token: EOS is never put after a text"
    for key in ("truncation", "padding"):
        if root.get(key) is not None:
            yield f"tokenizer.json: {key} has no effect: a text is encoded whole"


def from_json(root: Json, beside: Beside, provenance: Mapping[str, str]) -> Tokenizer:
    """Convert the contents of a tokenizer.json and of what lies beside it."""
    parts = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "model", "added_tokens")
    any_value = dict.fromkeys((*parts, "truncation", "padding"), None)
    fields("tokenizer.json", root, {"version": ["1.0"], **any_value})
    model = model_of(root)
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not all(type(i) is int for i in vocab.values()):
        raise TokenizerError("model: vocab is no object of ids")
    pipeline = pipeline_of(root, model)
    added = _added(root)
    tokens = _tokens(added, vocab, pipeline)
    have = sum(1 for t in tokens if t.flags & BYTE)
    if pipeline.kind == "bpe_spm" and have != 256:
        raise TokenizerError(f"byte_fallback with {have} of 256 byte tokens is not supported")
    if pipeline.kind == "bpe_byte" and have != 256 and model.get("unk_token"):
        raise refusal(f"unk_token with {have} of 256 byte tokens:", model["unk_token"])

    _check_added_ids(added, vocab)
    ids = vocab | {t["content"]: i for i, t in added.items()}
    added_bos = post_processor_bos(root)
    if added_bos is not None and added_bos >= len(tokens):
        raise refusal("post_processor: BOS", added_bos)
    bos = _marker(beside, "bos", ids, len(tokens))
    add_bos = added_bos is not None
    return Tokenizer(
        pipeline=pipeline,
        tokens=tuple(tokens),
        merges=_merges(model, vocab, tokens),
        add_bos=add_bos,
        bos=added_bos if add_bos else bos,
        eos=_marker(beside, "eos", ids, len(tokens)),
        chat=None,
        provenance=provenance,
        warnings=(
            *_config_tokens(beside.config, tokens, ids),
            *_config_warnings(root, beside.config, add_bos=add_bos),
        ),
    )


def read(path: Path, chat_name: str | None = None) -> Tokenizer:
    """Read tokenizer.json and what lies beside it."""
    text = read_text(path, MAX_JSON)
    names = ("tokenizer_config.json", "generation_config.json", "config.json")
    files = (path.parent / name for name in names)
    beside = Beside(*(read_json(file) if file.exists() else {} for file in files))
    provenance = {
        "converter": f"convert_tokenizer.py {VERSION}",
        "tokenizer_json_sha256": hashlib.sha256(text).hexdigest(),
        "tokenizers": COMPARED_WITH,
    }
    found = from_json(json_of_file(text, path), beside, provenance)
    if chat_name:
        return dataclasses.replace(found, chat=chat_name)
    template = chat.recognise_beside(path.parent)
    notes = (template.note,) if template.note else ()
    return dataclasses.replace(found, chat=template.name, warnings=(*found.warnings, *notes))


# ---- writing -------------------------------------------------------------------------------------


def sections(t: Tokenizer) -> list[bytes]:
    """The data of an .mlt file: offsets, merges, flags and text, each padded to 64 bytes."""
    lengths = np.fromiter((len(token.text) for token in t.tokens), np.int64, len(t.tokens))
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype("<u4")
    parts = [
        offsets.tobytes(),
        t.merges.astype("<u4").tobytes(),
        bytes(token.flags for token in t.tokens),
        b"".join(token.text for token in t.tokens),
    ]
    padded = [p.ljust(-(-len(p) // envelope.ALIGN) * envelope.ALIGN, b"\0") for p in parts[:-1]]
    return [*padded, parts[-1]]


def write(path: Path, t: Tokenizer) -> None:
    """Write an .mlt file, atomically and deterministically."""
    data = sections(t)
    if len(data[-1]) > MAX_TEXT:
        raise TokenizerError(f"tokens of {len(data[-1])} bytes; at most {MAX_TEXT}")
    header = {
        **dataclasses.asdict(t.pipeline),
        "add_bos": t.add_bos,
        "bos_id": t.bos,
        "chat": t.chat,
        "eos_id": t.eos,
        "merges": len(t.merges),
        "provenance": dict(t.provenance),
        "text_bytes": len(data[-1]),
        "vocab": len(t.tokens),
    }
    total = sum(len(part) for part in data)
    envelope.write(path, "mlt", header, data, total)
