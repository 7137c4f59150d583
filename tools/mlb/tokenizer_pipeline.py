# SPDX-License-Identifier: MIT
"""How a tokenizer.json prepares text, in the words of an .mlt header (docs/format-mlt.md).

Every step is either one that the runtime does exactly as the `tokenizers` library, or refused by
name.

    PYTHONPATH=tools python3 -c 'from mlb import tokenizer_pipeline as p; print(p.LLAMA3_REGEX)'
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from mlb import envelope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    Fields = Mapping[str, Sequence[Any] | None]

Json = dict[str, Any]

SPACE = "\u2581"  # how SentencePiece spells a space
FLAG = (False, True)


class TokenizerError(Exception):
    """One line: what in which file is not supported, and what to do."""


@dataclasses.dataclass(frozen=True)
class Pipeline:
    """How text becomes pieces and ids become text, as the .mlt header says it."""

    kind: str
    pretok: str
    prefix: str
    drop_space: bool
    nfc: bool = False
    ignore_merges: bool = False


# ---- strict reading ------------------------------------------------------------------------------


def shown(value: object) -> str:
    """A value for a message, not longer than an expression that splits text."""
    return envelope.shown(value, 200)


def refusal(what: str, value: object) -> TokenizerError:
    """The error that names what is not supported."""
    return TokenizerError(f"{what} {shown(value)} is not supported")


def fields(what: str, value: object, known: Fields, *, whole: bool = False) -> Json:
    """Check that an object has only known fields with values from the given lists (None: any).

    whole: it has all of them.
    """
    if not isinstance(value, dict):
        raise TokenizerError(f"{what}: expected an object, found {shown(value)}")
    if whole and not known.keys() <= value.keys():
        raise refusal(what, value)
    for key, found in value.items():
        if key not in known:
            raise refusal(f"{what}: field {shown(key)} with value", found)
        allowed = known[key]
        if allowed is not None and not any(type(found) is type(a) and found == a for a in allowed):
            raise refusal(f"{what}: {key} =", found)
    return value


def _type(step: object) -> str:
    return str(step.get("type")) if isinstance(step, dict) else "null"


def _steps(what: str, step: object, key: str) -> list[object]:
    """The members of a Sequence, a single step as a list of one, null as none."""
    if step is None:
        return []
    if _type(step) != "Sequence":
        return [step]
    members = fields(what, step, {"type": None, key: None}).get(key)
    if not isinstance(members, list):
        raise TokenizerError(f"{what}: Sequence without {key}")
    return members


def _normalizers(root: Json) -> list[object]:
    return _steps("normalizer", root.get("normalizer"), "normalizers")


def _pre_tokenizers(root: Json) -> list[object]:
    return _steps("pre_tokenizer", root.get("pre_tokenizer"), "pretokenizers")


# ---- byte-level BPE ------------------------------------------------------------------------------

# As a decoder or post-processor, where these have no effect.
BYTE_LEVEL: Fields = {
    "type": None,
    "add_prefix_space": FLAG,
    "trim_offsets": FLAG,
    "use_regex": FLAG,
}

GPT2_REGEX = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2_REGEX = LLAMA3_REGEX.replace("{1,3}", "")
QWEN3_5_REGEX = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}"
    r"| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
# The expressions as they stand in the files of the models.  Nothing but these very texts is taken:
# the possessive ones of other models (?+, ++, \s*[\r\n]) split line ends otherwise.
SPLIT_REGEX = {
    LLAMA3_REGEX: "llama3",  # Llama 3, 3.1, 3.2
    QWEN2_REGEX: "qwen2",  # Qwen2, Qwen2.5, Qwen3
    QWEN3_5_REGEX: "qwen3_5",  # Qwen3.5, Qwen3.6
}


def _byte_level(step: object, *, use_regex: bool) -> None:
    """Check the step that spells bytes; without its regex if a Split went before."""
    known: Fields = {
        "type": None,
        "add_prefix_space": [False],
        "trim_offsets": FLAG,
        "use_regex": [use_regex],
    }
    found = fields("pre_tokenizer ByteLevel", step, known)
    if not use_regex and "use_regex" not in found:  # which then means true
        raise refusal("pre_tokenizer Split with ByteLevel", step)


def _byte_pretok(steps: Sequence[object]) -> str:
    """The .mlt name of a byte-level pre-tokenizer."""
    names = [_type(s) for s in steps]
    if names == ["Split", "ByteLevel"]:
        known: Fields = {
            "type": None,
            "pattern": [{"Regex": regex} for regex in SPLIT_REGEX],
            "behavior": ["Isolated"],
            "invert": [False],
        }
        split = fields("pre_tokenizer Split", steps[0], known, whole=True)
        _byte_level(steps[1], use_regex=False)
        return SPLIT_REGEX[split["pattern"]["Regex"]]
    if names == ["Digits", "ByteLevel"]:
        digits = {"type": None, "individual_digits": [True]}
        fields("pre_tokenizer Digits", steps[0], digits, whole=True)
        _byte_level(steps[1], use_regex=True)
        return "gpt2_digits"
    if names == ["ByteLevel"]:
        _byte_level(steps[0], use_regex=True)
        return "gpt2"
    raise refusal("pre_tokenizer", list(steps))


def _byte_nfc(root: Json) -> bool:
    """Tell whether text is normalized to NFC; no other normalizer is known."""
    steps = _normalizers(root)
    for step in steps:
        if _type(step) != "NFC":
            raise refusal("normalizer", step)
        fields("normalizer NFC", step, {"type": None})
    return bool(steps)


def _byte_decoder(root: Json) -> None:
    steps = _steps("decoder", root.get("decoder"), "decoders")
    if [_type(s) for s in steps] != ["ByteLevel"]:
        raise refusal("decoder", root.get("decoder"))
    fields("decoder ByteLevel", steps[0], BYTE_LEVEL)


# ---- SentencePiece-style BPE ---------------------------------------------------------------------


def _spm_normalizer(root: Json) -> tuple[str, ...]:
    """The names of the normalizing steps, all of them checked."""
    names = []
    for step in _normalizers(root):
        name = _type(step)
        if name == "Prepend":
            fields("normalizer Prepend", step, {"type": None, "prepend": [SPACE]}, whole=True)
        elif name == "Replace":
            space = {"type": None, "pattern": [{"String": " "}], "content": [SPACE]}
            fields("normalizer Replace", step, space, whole=True)
        else:
            raise refusal("normalizer", step)
        names.append(name)
    return tuple(names)


def _metaspace(step: object) -> str:
    """The .mlt prefix rule of a Metaspace pre-tokenizer."""
    known = {"type": None, "replacement": [SPACE], "prepend_scheme": None, "split": [False]}
    found = fields("pre_tokenizer Metaspace", step, known, whole=True)
    rules = {"always": "unless_space", "first": "first_unless_space"}
    scheme = found["prepend_scheme"]
    if not isinstance(scheme, str) or scheme not in rules:
        raise refusal("pre_tokenizer", step)
    return rules[scheme]


def _spm_prefix(root: Json) -> str:
    """The .mlt prefix rule; checks that the pre-tokenizer leaves the text in one piece."""
    normal = _spm_normalizer(root)
    steps = _pre_tokenizers(root)
    if not normal and [_type(s) for s in steps] == ["Metaspace"]:
        return _metaspace(steps[0])
    prefix = {("Replace",): "none", ("Prepend", "Replace"): "always"}.get(normal)
    if prefix is None:
        raise refusal("normalizer", root.get("normalizer"))
    for step in steps:  # Gemma's, which finds no space left to split at
        known: Fields = {
            "type": ["Split"],
            "pattern": [{"String": " "}],
            "behavior": None,
            "invert": [False],
        }
        fields("pre_tokenizer", step, known, whole=True)
    return prefix


def _spm_drop_space(root: Json) -> bool:
    """Check the decoder; tell whether it drops a space at the start."""
    steps = _steps("decoder", root.get("decoder"), "decoders")
    names = [_type(s) for s in steps]
    if names not in (
        ["Replace", "ByteFallback", "Fuse"],
        ["Replace", "ByteFallback", "Fuse", "Strip"],
    ):
        raise refusal("decoder", root.get("decoder"))
    back = {"type": None, "pattern": [{"String": SPACE}], "content": [" "]}
    fields("decoder Replace", steps[0], back, whole=True)
    fields("decoder ByteFallback", steps[1], {"type": None})
    fields("decoder Fuse", steps[2], {"type": None})
    if len(steps) == 4:
        strip = {"type": None, "content": [" "], "start": [1], "stop": [0]}
        fields("decoder Strip", steps[3], strip, whole=True)
    return len(steps) == 4


# ---- the whole -----------------------------------------------------------------------------------


def model_of(root: Json) -> Json:
    """The model, checked to be a BPE without options that the runtime lacks."""
    model = root.get("model")
    name = model.get("type", "BPE") if isinstance(model, dict) else model
    if name != "BPE":
        raise refusal("model type", name)
    found = fields(
        "model",
        model,
        {
            "type": None,
            "dropout": [None, 0, 0.0],
            "unk_token": None,
            "continuing_subword_prefix": [None, ""],
            "end_of_word_suffix": [None, ""],
            "fuse_unk": FLAG,
            "byte_fallback": FLAG,
            "ignore_merges": FLAG,
            "vocab": None,
            "merges": None,
        },
    )
    if not isinstance(found.get("unk_token", ""), (str, type(None))):
        raise refusal("model: unk_token =", found["unk_token"])
    return found


def pipeline_of(root: Json, model: Json) -> Pipeline:
    """Which of the kinds that the runtime has a tokenizer is; an error if it is none of them."""
    whole_pieces = bool(model.get("ignore_merges"))
    if model.get("byte_fallback"):
        if whole_pieces:
            raise refusal("byte_fallback with ignore_merges =", value=True)
        return Pipeline("bpe_spm", "none", _spm_prefix(root), _spm_drop_space(root))
    nfc = _byte_nfc(root)
    pretok = _byte_pretok(_pre_tokenizers(root))
    _byte_decoder(root)
    return Pipeline(
        kind="bpe_byte",
        pretok=pretok,
        prefix="none",
        drop_space=False,
        nfc=nfc,
        ignore_merges=whole_pieces,
    )


def _template_bos(step: object) -> int | None:
    """The id that a TemplateProcessing puts before a text; None if it adds nothing."""
    known = {"type": None, "single": None, "pair": None, "special_tokens": None}
    found = fields("post_processor TemplateProcessing", step, known)
    match found.get("single"):
        case [{"Sequence": {"id": "A"}}]:
            return None
        case [{"SpecialToken": {"id": str(name)}}, {"Sequence": {"id": "A"}}]:
            pass
        case other:
            raise refusal("post_processor TemplateProcessing: single =", other)
    tokens = found.get("special_tokens")
    token = tokens.get(name) if isinstance(tokens, dict) else None
    match token:
        case {"ids": [int(i)]} if type(i) is int and i >= 0:
            return i
    raise refusal("post_processor TemplateProcessing: special token", name)


def post_processor_bos(root: Json) -> int | None:
    """The id that the post-processor puts before a text; None if it adds nothing."""
    bos = None
    for step in _steps("post_processor", root.get("post_processor"), "processors"):
        name = _type(step)
        if name == "TemplateProcessing" and bos is None:
            bos = _template_bos(step)
        elif name == "ByteLevel":  # which only trims offsets
            fields("post_processor ByteLevel", step, BYTE_LEVEL)
        else:
            raise refusal("post_processor", step)
    return bos
