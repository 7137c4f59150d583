# SPDX-License-Identifier: MIT
"""The tokenizer of a GGUF is that of the tokenizer.json it was made from.

.venv/bin/python -m pytest tests/py/test_gguf_tokenizer.py
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from pathlib import Path
from typing import Any

import gguf
import pytest
from tokenizers import Tokenizer as Library

import convert
from made_gguf import Json, add_field, write_gguf
from mlb import gguf_tokenizer, tokenizer
from mlb.checkpoint import CheckpointError
from mlb.gguf import Gguf, read_gguf
from mlb.tokenizer_pipeline import SPACE

DATA = Path(__file__).resolve().parent.parent / "data"
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
BYTE_LEVEL = {
    "gpt2": "gpt-2",
    "digits": "smollm",
    "llama3": "llama-bpe",
    "qwen2": "qwen2",
    "qwen3_5": "qwen35",
}
KEY = "tokenizer.ggml."


def tokenizer_json(name: str) -> Json:
    """A small tokenizer without what a GGUF cannot say: the space that added tokens take."""
    root: Json = json.loads((DATA / "tokenizers" / f"{name}.json").read_text(encoding="utf-8"))
    for token in root["added_tokens"]:
        token.update(dict.fromkeys(("lstrip", "rstrip", "single_word", "normalized"), False))
    return root


def fields_of(root: Json, pre: str) -> Json:
    """The fields that llama.cpp's converter makes of a tokenizer.json."""
    spm = pre == "default"
    spellings = {i: text for text, i in root["model"]["vocab"].items()}
    added = {token["id"]: token for token in root["added_tokens"]}
    tokens, types = [], []
    for i in range(max([*spellings, *added]) + 1):
        if i in added:
            tokens.append(added[i]["content"])
            types.append(CONTROL if added[i]["special"] else USER_DEFINED)
        else:
            tokens.append(spellings.get(i, f"[PAD{i}]"))
            types.append(NORMAL if i in spellings else UNUSED)
        if spm and tokens[-1].startswith("<0x"):
            types[-1] = BYTE
    merges = [" ".join(m) if isinstance(m, list) else m for m in root["model"]["merges"]]
    found = {
        "model": "llama" if spm else "gpt2",
        "pre": pre,
        "tokens": tokens,
        "token_type": types,
        "bos_token_id": next((i for i, t in enumerate(tokens) if t == "<s>"), 0),
        "eos_token_id": 1,
    }
    if spm:
        found["scores"] = [-float(i) for i in range(len(tokens))]
    else:
        found["merges"] = merges
    return {KEY + key: value for key, value in found.items()}


def written(path: Path, fields: Json) -> Gguf:
    """A file with these fields and no tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, value in fields.items():
        add_field(writer, key, value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return read_gguf(path)


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_a_byte_level_tokenizer_equals_its_tokenizer_json(tmp_path: Path, name: str) -> None:
    root = tokenizer_json(name)
    fields = fields_of(root, BYTE_LEVEL[name])
    found = gguf_tokenizer.read(written(tmp_path / "m.gguf", fields), None)
    want = tokenizer.from_json(root, tokenizer.Beside(), {})
    # llama.cpp has merges for all pieces of Qwen3.5.
    assert found.pipeline == dataclasses.replace(want.pipeline, ignore_merges=name == "llama3")
    assert found.tokens == want.tokens
    assert found.merges.tolist() == want.merges.tolist()
    assert found.add_bos == (name == "llama3")
    assert (found.bos, found.eos) == (fields[f"{KEY}bos_token_id"], 1)


def test_add_bos_token_of_the_file_counts(tmp_path: Path) -> None:
    fields = fields_of(tokenizer_json("gpt2"), "gpt-2")
    for flag in (True, False):
        file = written(tmp_path / f"{flag}.gguf", fields | {f"{KEY}add_bos_token": flag})
        assert gguf_tokenizer.read(file, None).add_bos is flag


def test_rows_without_a_token_are_empty(tmp_path: Path) -> None:
    root = tokenizer_json("gpt2")
    root["added_tokens"] = root["added_tokens"][:2]
    fields = fields_of(root, "gpt-2")
    n = len(fields[f"{KEY}tokens"])
    fields[f"{KEY}tokens"] += [f"[PAD{n}]", "", f"[PAD{n + 2}]"]
    fields[f"{KEY}token_type"] += [USER_DEFINED, NORMAL, UNUSED]
    assert len(gguf_tokenizer.read(written(tmp_path / "m.gguf", fields), None).tokens) == n
    fields[f"{KEY}tokens"] += ["<\uff5cafter\uff5c>"]
    fields[f"{KEY}token_type"] += [CONTROL]
    tokens = gguf_tokenizer.read(written(tmp_path / "m.gguf", fields), None).tokens
    assert [token.text for token in tokens[n:]] == [b"", b"", b"", "<\uff5cafter\uff5c>".encode()]
    assert not any(token.flags for token in tokens[n : n + 3])


# ---- SentencePiece -------------------------------------------------------------------------------


def by_scores(text: str, ids: dict[str, int], scores: list[float]) -> list[int]:
    """SentencePiece's BPE as it is defined: the best-scored neighbours first, the leftmost of them.

    A character without a token becomes its bytes.
    """
    parts = list(text)
    while True:
        pairs = [(a + b, i) for i, (a, b) in enumerate(itertools.pairwise(parts))]
        known = [(scores[ids[both]], -i) for both, i in pairs if both in ids]
        if not known:
            break
        at = -max(known)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    found = []
    for part in parts:
        bytes_ = [ids[f"<0x{byte:02X}>"] for byte in part.encode()]
        found += [ids[part]] if part in ids else bytes_
    return found


@pytest.mark.parametrize("prefix", [True, False])
def test_merges_follow_from_the_scores(tmp_path: Path, prefix: bool) -> None:  # noqa: FBT001
    root = tokenizer_json("llama")
    root["added_tokens"] = root["added_tokens"][:3]
    fields = fields_of(root, "default") | {f"{KEY}add_space_prefix": prefix}
    tokens, rng = fields[f"{KEY}tokens"], random.Random(3)
    order = rng.sample(range(len(tokens)), len(tokens))  # scores need not follow the ids
    fields[f"{KEY}scores"] = scores = [-float(place) for place in order]
    made = gguf_tokenizer.tokenizer_json(
        gguf_tokenizer.Vocabulary(written(tmp_path / "m.gguf", fields))
    )
    library = Library.from_str(json.dumps(made))
    model = {t: i for i, t in enumerate(tokens) if fields[f"{KEY}token_type"][i] == NORMAL}
    bytes_ = {t: i for i, t in enumerate(tokens) if fields[f"{KEY}token_type"][i] == BYTE}
    letters = ["ka", "ra", "the", "ing", " ", "  ", "o", "n", "e", "s", "\u0451", "\u6c34", "\n"]
    for _ in range(300):
        text = "".join(rng.choices(letters, k=rng.randint(1, 12)))
        spelled = (SPACE if prefix else "") + text.replace(" ", SPACE)
        got = library.encode(text, add_special_tokens=False).ids
        assert got == by_scores(spelled, model | bytes_, scores), text


def test_runs_of_spaces_are_spelled_as_in_tokenizer_json(tmp_path: Path) -> None:
    root = tokenizer_json("gemma")
    fields = fields_of(root, "default") | {f"{KEY}add_space_prefix": False}
    fields[f"{KEY}tokens"] += [" " * 9, " " * 10, "<a b>"]
    fields[f"{KEY}token_type"] += [USER_DEFINED] * 3
    fields[f"{KEY}scores"] += [-1000.0] * 3
    file = written(tmp_path / "m.gguf", fields)
    made = gguf_tokenizer.tokenizer_json(gguf_tokenizer.Vocabulary(file))
    assert [t["content"] for t in made["added_tokens"]][-3:] == [SPACE * 9, SPACE * 10, "<a b>"]
    assert made["model"]["merges"][0] == [SPACE * 9, SPACE]
    merged = ["".join(pair) for pair in made["model"]["merges"]]
    added = {token["content"] for token in made["added_tokens"]}
    assert merged == sorted(merged, key=lambda text: text not in added)
    found = gguf_tokenizer.read(file, None)
    assert (found.pipeline.kind, found.pipeline.prefix) == ("bpe_spm", "none")
    assert (found.pipeline.drop_space, found.add_bos) == (False, True)


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"model": "bert"}, 'model: expected one of gpt2, llama, found "bert"'),
        ({"model": 7}, "model: expected a value of type str"),
        ({"pre": "tekken"}, "pre: expected one of gpt-2, smollm"),
        ({"tokens": [1, 2]}, "tokens"),
        ({"tokens": ["a", "a"], "token_type": [1, 1]}, 'tokens 0 and 1 are both "a"'),
        ({"tokens": ["\u4e2d"], "token_type": [1]}, "is not spelled in bytes"),
        ({"tokens": ["a" * 2000], "token_type": [1], "merges": ["a a"]}, "more than 1024 bytes"),
        ({"token_type": [1]}, "token_type: expected 711 finite numbers, found 1"),
        ({"token_type": [9] * 711}, "token_type: 9 of token 0 is unknown"),
        ({"merges": [["k", "a"]]}, "merges is no list of strings"),
        ({"merges": [[["k"]]]}, "merges is no list of strings"),
        ({"merges": ["a"]}, 'merge "a" is not supported'),
        ({"merges": ["a \u0120nothing"]}, "is not in the vocabulary"),
        ({"merges": ["k a", "k a"]}, "is there twice"),
        ({"add_eos_token": True}, "add_eos_token: expected false, found true"),
        ({"add_bos_token": 1}, "add_bos_token: expected a value of type bool"),
    ],
    ids=lambda value: "" if isinstance(value, str) else next(iter(value)),
)
def test_what_would_encode_otherwise_is_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], named: str
) -> None:
    fields = fields_of(tokenizer_json("gpt2"), "gpt-2")
    fields |= {KEY + key: value for key, value in changed.items()}
    file = written(tmp_path / "m.gguf", fields)
    with pytest.raises(CheckpointError) as caught:
        gguf_tokenizer.read(file, None)
    line = str(caught.value)
    assert named in line
    assert line.startswith(f"{tmp_path / 'm.gguf'}: ")
    assert "\n" not in line


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("scores", None, "scores: expected 914 finite numbers, found 0"),
        ("scores", [-1.0] * 913, "scores: expected 914 finite numbers, found 913"),
        ("scores", ["1"] * 914, "scores: expected 914 finite numbers, found 0"),
        ("scores", [float("nan")] * 914, "scores: expected 914 finite numbers, found 0"),
        ("token_type", None, "token_type: expected 914 finite numbers, found 0"),
        ("token_type", "1", "token_type: expected 914 finite numbers, found 0"),
    ],
    ids=["absent", "short", "texts", "nan", "no-types", "type-text"],
)
def test_numbers_of_tokens_that_are_missing_or_none_are_refused(
    tmp_path: Path, key: str, value: Any, named: str
) -> None:
    """All 0, they would give other merges and no added tokens."""
    fields = fields_of(tokenizer_json("llama"), "default")
    del fields[KEY + key]
    if value is not None:
        fields[KEY + key] = value
    with pytest.raises(CheckpointError) as caught:
        gguf_tokenizer.read(written(tmp_path / "m.gguf", fields), None)
    assert named in str(caught.value)


def test_a_model_with_an_unknown_tokenizer_is_converted_without_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {f"{KEY}model": "rwkv", f"{KEY}eos_token_id": 2}
    source = write_gguf(DATA / "golden" / "llama", tmp_path / "m.gguf", more=more)
    out, tok = tmp_path / "m.mlb", tmp_path / "m.mlt"
    assert convert.main(["gguf", str(source), str(out), "--tokenizer", str(tok)]) == 1
    assert "tokenizer.ggml.model: expected one of gpt2, llama" in capsys.readouterr().err
    assert not out.exists()
    assert convert.main(["gguf", str(source), str(out)]) == 0


def test_the_option_writes_both_files(tmp_path: Path) -> None:
    more = fields_of(tokenizer_json("digits"), "smollm")
    source = write_gguf(DATA / "golden" / "llama", tmp_path / "m.gguf", more=more)
    out, tok = tmp_path / "m.mlb", tmp_path / "m.mlt"
    assert convert.main(["gguf", str(source), str(out), "--tokenizer", str(tok)]) == 0
    want = gguf_tokenizer.read(read_gguf(source), None)
    tokenizer.write(tmp_path / "want.mlt", want)
    assert tok.read_bytes() == (tmp_path / "want.mlt").read_bytes()


def test_the_chat_template_is_recognised(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
    )
    file = written(tmp_path / "m.gguf", {"tokenizer.chat_template": template})
    assert gguf_tokenizer.recognised(file).name == "chatml"
    assert gguf_tokenizer.recognised(written(tmp_path / "n.gguf", {})).name is None
