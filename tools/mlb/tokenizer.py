# SPDX-License-Identifier: MIT
"""From a Hugging Face tokenizer.json to the contents of an .mlt file (docs/format-mlt.md).

Every field of tokenizer.json is either understood or refused by name: a tokenizer that would
encode differently is worse than none.

    python3 tools/convert_tokenizer.py tokenizer.json tokenizer.mlt
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlb import VERSION, chat, envelope
from mlb.checkpoint import read_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    Fields = Mapping[str, Sequence[Any] | None]

U32 = npt.NDArray[np.uint32]
Json = dict[str, Any]

SPACE = "\u2581"  # how SentencePiece spells a space
MAX_TOKENS = 1 << 24
MAX_MERGES = 1 << 24
MAX_TOKEN_BYTES = 1024
MAX_TEXT = 64 << 20
MAX_JSON = 1 << 26  # real ones have up to 40 MB

# Bits of a token's flags; runtime/core/mlt.h has the same, a test compares them.
ADDED, SPECIAL, LSTRIP, RSTRIP, WORD, NORMALIZED, BYTE, MODEL = (1 << i for i in range(8))


class TokenizerError(Exception):
    """One line: what in which file is not supported, and what to do."""


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """How text becomes pieces and ids become text, as the .mlt header says it."""

    kind: str
    pretok: str
    prefix: str
    drop_space: bool


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


# ---- strict reading of tokenizer.json ------------------------------------------------------------


def _shown(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 200 else text[:200] + "..."


def _refuse(what: str, value: object) -> TokenizerError:
    return TokenizerError(f"{what} {_shown(value)} is not supported")


def _fields(what: str, value: object, known: Fields) -> Json:
    """Check that an object has only known fields with values from the given lists (None: any)."""
    if not isinstance(value, dict):
        raise TokenizerError(f"{what}: expected an object, found {_shown(value)}")
    for key, found in value.items():
        if key not in known:
            raise _refuse(f"{what}: field {_shown(key)} with value", found)
        allowed = known[key]
        if allowed is not None and not any(found is a or found == a for a in allowed):
            raise _refuse(f"{what}: {key} =", found)
    return value


def _type(step: object) -> str:
    return str(step.get("type")) if isinstance(step, dict) else "null"


def _steps(what: str, step: object, key: str) -> list[object]:
    """The members of a Sequence, a single step as a list of one, null as none."""
    if step is None:
        return []
    if _type(step) != "Sequence":
        return [step]
    members = _fields(what, step, {"type": None, key: None}).get(key)
    if not isinstance(members, list):
        raise TokenizerError(f"{what}: Sequence without {key}")
    return members


FLAG = (False, True)
REPLACE_SPACE: Fields = {
    "type": None,
    "pattern": [{"String": " "}],
    "content": [SPACE],
}


def _normalizer(root: Json) -> list[str]:
    """The names of the normalizing steps, all of them checked."""
    names = []
    for step in _steps("normalizer", root.get("normalizer"), "normalizers"):
        name = _type(step)
        if name == "Prepend":
            _fields("normalizer Prepend", step, {"type": None, "prepend": [SPACE]})
        elif name == "Replace":
            _fields("normalizer Replace", step, REPLACE_SPACE)
        else:
            raise _refuse("normalizer", step)
        names.append(name)
    return names


def _byte_level(what: str, step: object) -> None:
    _fields(
        what,
        step,
        {"type": None, "add_prefix_space": [False], "trim_offsets": FLAG, "use_regex": [True]},
    )


def _byte_pretok(steps: Sequence[object]) -> str:
    """The .mlt name of a byte-level pre-tokenizer."""
    names = [_type(s) for s in steps]
    if names == ["Digits", "ByteLevel"]:
        known = {"type": None, "individual_digits": [True]}
        _fields("pre_tokenizer Digits", steps[0], known)
        _byte_level("pre_tokenizer ByteLevel", steps[1])
        return "gpt2_digits"
    if names == ["ByteLevel"]:
        _byte_level("pre_tokenizer ByteLevel", steps[0])
        return "gpt2"
    raise _refuse("pre_tokenizer", list(steps))


def _metaspace(step: object) -> str:
    """The .mlt prefix rule of a Metaspace pre-tokenizer."""
    known = {"type": None, "replacement": [SPACE], "prepend_scheme": None, "split": [False]}
    fields = _fields("pre_tokenizer Metaspace", step, known)
    rules = {"always": "unless_space", "first": "first_unless_space"}
    scheme = fields.get("prepend_scheme")
    if "split" not in fields or not isinstance(scheme, str) or scheme not in rules:
        raise _refuse("pre_tokenizer", step)
    return rules[scheme]


def _spm_prefix(root: Json) -> str:
    """The .mlt prefix rule; checks that the pre-tokenizer leaves the text in one piece."""
    normal = _normalizer(root)
    steps = _steps("pre_tokenizer", root.get("pre_tokenizer"), "pretokenizers")
    if not normal and [_type(s) for s in steps] == ["Metaspace"]:
        return _metaspace(steps[0])
    prefix = {("Replace",): "none", ("Prepend", "Replace"): "always"}.get(tuple(normal))
    if prefix is None:
        raise _refuse("normalizer", root.get("normalizer"))
    for step in steps:  # Gemma's, which finds no space left to split at
        known: Fields = {
            "type": ["Split"],
            "pattern": [{"String": " "}],
            "behavior": None,
            "invert": FLAG,
        }
        _fields("pre_tokenizer", step, known)
    return prefix


def _spm_drop_space(root: Json) -> bool:
    """Check the decoder; tell whether it drops a space at the start."""
    steps = _steps("decoder", root.get("decoder"), "decoders")
    names = [_type(s) for s in steps]
    if names not in (
        ["Replace", "ByteFallback", "Fuse"],
        ["Replace", "ByteFallback", "Fuse", "Strip"],
    ):
        raise _refuse("decoder", root.get("decoder"))
    back = {"type": None, "pattern": [{"String": SPACE}], "content": [" "]}
    _fields("decoder Replace", steps[0], back)
    _fields("decoder ByteFallback", steps[1], {"type": None})
    _fields("decoder Fuse", steps[2], {"type": None})
    if len(steps) == 4:
        strip = {"type": None, "content": [" "], "start": [1], "stop": [0]}
        _fields("decoder Strip", steps[3], strip)
    return len(steps) == 4


def _byte_decoder(root: Json) -> None:
    flags = dict.fromkeys(("add_prefix_space", "trim_offsets", "use_regex"), FLAG)
    known: Fields = {"type": ["ByteLevel"], **flags}
    _fields("decoder", root.get("decoder"), known)


def _model(root: Json) -> Json:
    """The model, with the options that change nothing removed."""
    model = root.get("model")
    name = model.get("type", "BPE") if isinstance(model, dict) else model
    if name != "BPE":
        raise _refuse("model type", name)
    return _fields(
        "model",
        model,
        {
            "type": None,
            "dropout": [None, 0.0],
            "unk_token": None,
            "continuing_subword_prefix": [None, ""],
            "end_of_word_suffix": [None, ""],
            "fuse_unk": FLAG,
            "byte_fallback": FLAG,
            "ignore_merges": [False],
            "vocab": None,
            "merges": None,
        },
    )


def _pipeline(root: Json, model: Json) -> Pipeline:
    if model.get("byte_fallback"):
        return Pipeline("bpe_spm", "none", _spm_prefix(root), _spm_drop_space(root))
    if root.get("normalizer") is not None:
        raise _refuse("normalizer", root["normalizer"])
    steps = _steps("pre_tokenizer", root.get("pre_tokenizer"), "pretokenizers")
    pretok = _byte_pretok(steps)
    _byte_decoder(root)
    return Pipeline("bpe_byte", pretok, "none", drop_space=False)


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
        raise TokenizerError(f"token {_shown(spelling)} is not valid Unicode") from None


def _model_token(spelling: str, kind: str) -> Token:
    if kind == "bpe_spm":
        if spelling in BYTE_TOKENS:
            return Token(bytes([BYTE_TOKENS[spelling]]), MODEL | BYTE)
        if re.fullmatch("<0x[0-9A-Fa-f]{2}>", spelling):  # decoded as a byte, but never encoded
            raise _refuse("byte token in small letters", spelling)
        return Token(_utf8(spelling), MODEL)
    try:
        text = bytes(ALPHABET[c] for c in spelling)
    except KeyError:
        raise TokenizerError(f"token {_shown(spelling)} is not spelled in bytes") from None
    return Token(text, MODEL | (BYTE if len(text) == 1 else 0))


def _is_id(value: object) -> bool:
    return type(value) is int and 0 <= value < MAX_TOKENS


def _added(root: Json) -> dict[int, Json]:
    known = {"id": None, "content": None, "single_word": FLAG, "lstrip": FLAG, "rstrip": FLAG}
    found: dict[int, Json] = {}
    entries = root.get("added_tokens") or []
    if not isinstance(entries, list):
        raise TokenizerError(f"added_tokens: expected a list, found {_shown(entries)}")
    for entry in entries:
        token = _fields("added token", entry, {**known, "normalized": FLAG, "special": FLAG})
        if not _is_id(token.get("id")) or not isinstance(token.get("content"), str):
            raise _refuse("added token", token)
        if token["id"] in found or not token["content"]:
            raise TokenizerError(f"added token {_shown(token)} is empty or a second of its id")
        found[token["id"]] = token
    return found


def _added_flags(token: Json) -> int:
    bits = {
        "special": SPECIAL,
        "lstrip": LSTRIP,
        "rstrip": RSTRIP,
        "single_word": WORD,
        "normalized": NORMALIZED,
    }
    return ADDED | sum(bit for name, bit in bits.items() if token.get(name))


def _added_text(token: Json, pipeline: Pipeline) -> bytes:
    """How an added token is spelled where it is looked for: like the library, normalized."""
    content: str = token["content"]
    if token.get("normalized") and pipeline.prefix in ("none", "always"):
        space = SPACE if pipeline.kind == "bpe_spm" else " "
        content = content.replace(" ", space)
        content = space + content if pipeline.prefix == "always" else content
    return _utf8(content)


def _tokens(root: Json, vocab: Mapping[str, int], pipeline: Pipeline) -> list[Token]:
    """The tokens by id; an id that nothing has is an empty token without flags."""
    added = _added(root)
    size = max([*vocab.values(), *added, 0]) + 1
    if size > MAX_TOKENS or size > 2 * (len(vocab) + len(added)):
        raise TokenizerError(f"{size} token ids; at most {MAX_TOKENS}, and at least half in use")
    tokens = [Token(b"", 0)] * size
    spelled = dict.fromkeys(range(size), "")
    for spelling, i in vocab.items():
        if i < 0 or spelled[i] or not spelling:
            raise TokenizerError(f"token {_shown(spelling)}: id {i} is negative or taken")
        spelled[i] = spelling
    for i, spelling in spelled.items():
        token = added.get(i)
        if token and spelling and spelling != token["content"]:
            raise TokenizerError(f"id {i} is {_shown(spelling)} and {_shown(token['content'])}")
        if token:
            flags = _added_flags(token) | (MODEL if spelling else 0)
            text = _added_text(token, pipeline)
            one_byte = pipeline.kind == "bpe_byte" and spelling and len(text) == 1
            tokens[i] = Token(text, flags | (BYTE if one_byte and not flags & SPECIAL else 0))
        elif spelling:
            tokens[i] = _model_token(spelling, pipeline.kind)
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
                raise _refuse("merge", merge)


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
                f"merge {_shown([left, right])}: {_shown(e.args[0])} is not in the vocabulary"
            ) from None
        if tokens[result].flags & (SPECIAL | BYTE):
            raise TokenizerError(f"merge {_shown([left, right])} gives a special or byte token")
        if pair in found:
            raise TokenizerError(f"merge {_shown([left, right])} is there twice")
        found[pair] = result
    triples = [(left, right, result) for (left, right), result in found.items()]
    return np.array(triples, dtype=np.uint32).reshape(-1, 3)


# ---- begin and end of a text ---------------------------------------------------------------------


def _template_bos(step: object) -> int | None:
    """The id that a TemplateProcessing puts before a text; None if it adds nothing."""
    known = {"type": None, "single": None, "pair": None, "special_tokens": None}
    fields = _fields("post_processor TemplateProcessing", step, known)
    match fields.get("single"):
        case [{"Sequence": {"id": "A"}}]:
            return None
        case [{"SpecialToken": {"id": str(name)}}, {"Sequence": {"id": "A"}}]:
            pass
        case other:
            raise _refuse("post_processor TemplateProcessing: single =", other)
    tokens = fields.get("special_tokens")
    token = tokens.get(name) if isinstance(tokens, dict) else None
    match token:
        case {"ids": [int(i)]}:
            return i
    raise _refuse("post_processor TemplateProcessing: special token", name)


def _post_processor_bos(root: Json) -> int | None:
    bos = None
    for step in _steps("post_processor", root.get("post_processor"), "processors"):
        name = _type(step)
        if name == "TemplateProcessing" and bos is None:
            bos = _template_bos(step)
        elif name != "ByteLevel":  # which only trims offsets
            raise _refuse("post_processor", step)
    return bos


def _beside(path: Path) -> Json:
    """The object in a file beside tokenizer.json; empty if there is no such file."""
    return read_json(path) if path.exists() else {}


def _named_id(config: Json, key: str, ids: Mapping[str, int]) -> int | None:
    """The id of tokenizer_config's bos_token or eos_token, a string or {"content": ...}."""
    value = config.get(key)
    text = value.get("content") if isinstance(value, dict) else value
    if text is None:
        return None
    if not isinstance(text, str) or text not in ids:
        raise TokenizerError(f"tokenizer_config.json: {key} {_shown(text)} is not a token")
    return ids[text]


def _generation_id(config: Json, key: str, size: int) -> int | None:
    value = config.get(key)
    first = value[0] if isinstance(value, list) and value else value
    return first if type(first) is int and 0 <= first < size else None


def _check_config_tokens(config: Json, ids: Mapping[str, int]) -> None:
    """Refuse special tokens that only tokenizer_config.json knows: text would not become them."""
    tokens = config.get("added_tokens_decoder") or {}
    if not isinstance(tokens, dict):
        raise _refuse("tokenizer_config.json: added_tokens_decoder =", tokens)
    for i, token in tokens.items():
        content = token.get("content") if isinstance(token, dict) else None
        if str(ids.get(str(content))) != i:
            raise TokenizerError(
                f"tokenizer_config.json has token {i} {_shown(content)}, tokenizer.json does not"
            )


def read(path: Path, chat_name: str | None = None) -> Tokenizer:
    """Read tokenizer.json and what lies beside it."""
    root = read_json(path, MAX_JSON)
    known = ("version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer")
    _fields(
        "tokenizer.json",
        root,
        dict.fromkeys((*known, "post_processor", "decoder", "model"), None),
    )
    model = _model(root)
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not all(type(i) is int for i in vocab.values()):
        raise TokenizerError("model: vocab is no object of ids")
    pipeline = _pipeline(root, model)
    tokens = _tokens(root, vocab, pipeline)
    have = sum(1 for t in tokens if t.flags & BYTE)
    if pipeline.kind == "bpe_spm" and have != 256:
        raise TokenizerError(f"byte_fallback with {have} of 256 byte tokens is not supported")
    if pipeline.kind == "bpe_byte" and have != 256 and model.get("unk_token"):
        raise _refuse(f"unk_token with {have} of 256 byte tokens:", model["unk_token"])

    config = _beside(path.parent / "tokenizer_config.json")
    generation = _beside(path.parent / "generation_config.json")
    ids = vocab | {t["content"]: i for i, t in _added(root).items()}
    _check_config_tokens(config, ids)
    added_bos = _post_processor_bos(root)
    candidates = (
        (added_bos, _named_id(config, "bos_token", ids)),
        (_named_id(config, "eos_token", ids), None),
    )
    bos, eos = (next((i for i in pair if i is not None), None) for pair in candidates)
    size = len(tokens)
    return Tokenizer(
        pipeline=pipeline,
        tokens=tuple(tokens),
        merges=_merges(model, vocab, tokens),
        add_bos=added_bos is not None,
        bos=_generation_id(generation, "bos_token_id", size) if bos is None else bos,
        eos=_generation_id(generation, "eos_token_id", size) if eos is None else eos,
        chat=chat_name or chat.detect_beside(path.parent),
        provenance={
            "converter": f"convert_tokenizer.py {VERSION}",
            "tokenizer_json_sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
        },
    )


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
