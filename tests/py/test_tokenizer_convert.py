# SPDX-License-Identifier: MIT
"""convert_tokenizer.py: what it records, and what it refuses by name.

.venv/bin/python -m pytest tests/py/test_tokenizer_convert.py
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tokenizers

import convert_tokenizer
import make_unicode_tables
from mlb import envelope, tokenizer
from mlb.tokenizer_pipeline import GPT2_REGEX, SPLIT_REGEX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROOT = Path(__file__).resolve().parent.parent.parent
DATA = ROOT / "tests" / "data" / "tokenizers"
Json = dict[str, Any]


def load(name: str) -> Json:
    spec: Json = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    return spec


def convert(directory: Path, spec: Json, *args: str, **beside: Json) -> Json | int:
    """Convert a tokenizer with the given files beside it; its header, or the exit code."""
    (directory / "tokenizer.json").write_text(json.dumps(spec), encoding="utf-8")
    for name, value in beside.items():
        (directory / f"{name}.json").write_text(json.dumps(value), encoding="utf-8")
    output = directory / "out.mlt"
    code = convert_tokenizer.main([str(directory / "tokenizer.json"), str(output), *args])
    assert output.exists() == (code == 0)
    return code or envelope.read(output, "mlt").header


def changed(name: str, change: Callable[[Json], object]) -> Json:
    spec = copy.deepcopy(load(name))
    change(spec)
    return spec


# Splits line ends otherwise than Llama 3's: as it stands in other models' files.
POSSESSIVE = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)


def split_of(spec: Json) -> Json:
    step: Json = spec["pre_tokenizer"]["pretokenizers"][0]
    return step


REFUSED: dict[str, tuple[str, Callable[[Json], object]]] = {
    "WordPiece": ("gpt2", lambda s: s["model"].update(type="WordPiece")),
    "Unigram": ("llama", lambda s: s["model"].update(type="Unigram")),
    "NFC": ("llama", lambda s: s.update(normalizer={"type": "NFC"})),
    "NFD": ("gpt2", lambda s: s.update(normalizer={"type": "NFD"})),
    "Lowercase": (
        "gpt2",
        lambda s: s.update(
            normalizer={"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Lowercase"}]}
        ),
    ),
    "StripAccents": ("llama", lambda s: s.update(normalizer={"type": "StripAccents"})),
    "NFKC": ("llama", lambda s: s["normalizer"]["normalizers"].append({"type": "NFKC"})),
    "Whitespace": ("gpt2", lambda s: s.update(pre_tokenizer={"type": "Whitespace"})),
    "Regex": (
        "gpt2",
        lambda s: s.update(
            pre_tokenizer={
                "type": "Sequence",
                "pretokenizers": [
                    {"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Isolated"},
                    s["pre_tokenizer"],
                ],
            }
        ),
    ),
    "add_prefix_space": ("gpt2", lambda s: s["pre_tokenizer"].update(add_prefix_space=True)),
    "?+": ("llama3", lambda s: split_of(s).update(pattern={"Regex": POSSESSIVE})),
    'pattern = {"String"': ("llama3", lambda s: split_of(s).update(pattern={"String": " "})),
    'behavior = "Removed"': ("qwen2", lambda s: split_of(s).update(behavior="Removed")),
    "invert = true": ("qwen3_5", lambda s: split_of(s).update(invert=True)),
    "use_regex = true": (
        "qwen2",
        lambda s: s["pre_tokenizer"]["pretokenizers"][1].update(use_regex=True),
    ),
    "Split with ByteLevel": (
        "qwen2",
        lambda s: s["pre_tokenizer"]["pretokenizers"][1].pop("use_regex"),
    ),
    "BertPreTokenizer": ("gpt2", lambda s: s.update(pre_tokenizer={"type": "BertPreTokenizer"})),
    "pre_tokenizer: invert = true": ("gemma", lambda s: s["pre_tokenizer"].update(invert=True)),
    "individual_digits": (
        "digits",
        lambda s: s["pre_tokenizer"]["pretokenizers"][0].update(individual_digits=False),
    ),
    "split": ("metaspace_first", lambda s: s["pre_tokenizer"].update(split=True)),
    "prepend_scheme": ("metaspace_first", lambda s: s["pre_tokenizer"].update(prepend_scheme="x")),
    'prepend_scheme": ["first"]': (
        "metaspace_first",
        lambda s: s["pre_tokenizer"].update(prepend_scheme=["first"]),
    ),
    "ignore_merges": ("llama", lambda s: s["model"].update(ignore_merges=True)),
    "dropout": ("gpt2", lambda s: s["model"].update(dropout=0.1)),
    "end_of_word_suffix": ("gpt2", lambda s: s["model"].update(end_of_word_suffix="</w>")),
    "WordPiece decoder": ("gpt2", lambda s: s.update(decoder={"type": "WordPiece decoder"})),
    "Strip": ("llama", lambda s: s["decoder"]["decoders"][3].update(type="Strip", start=2)),
    "BertProcessing": ("gpt2", lambda s: s.update(post_processor={"type": "BertProcessing"})),
    "</s>": (
        "llama",
        lambda s: s["post_processor"]["single"].append({"SpecialToken": {"id": "</s>"}}),
    ),
    "has id 900; the `tokenizers` library makes it 711": (
        "gpt2",
        lambda s: s["added_tokens"].append(s["added_tokens"][0] | {"id": 900, "content": "<x>"}),
    ),
    "has id 711; the `tokenizers` library makes it 700": (
        "gpt2",
        lambda s: s["added_tokens"].append(s["added_tokens"][0] | {"id": 711}),
    ),
    "that the vocabulary spells otherwise": (
        "gpt2",
        lambda s: s["added_tokens"].insert(
            0, s["added_tokens"][0] | {"id": s["model"]["vocab"]["Ġthe"], "content": "Ġthe"}
        ),
    ),
    "newer than Unicode 3.2": (
        "qwen2",
        lambda s: s["added_tokens"][-1].update(content="a\u1ab0\u0323", normalized=True),
    ),
    "WordLevel": ("gpt2", lambda s: s["model"].update(type="WordLevel")),
    "surprise": ("gpt2", lambda s: s.update(surprise=1)),
    "novel": ("gpt2", lambda s: s["added_tokens"][0].update(novel=True)),
    "255 of 256": ("llama", lambda s: s["model"]["vocab"].pop("<0x80>")),
    "is not in the vocabulary": ("gpt2", lambda s: s["model"]["merges"].append(["x", "ĠĠĠĠx"])),
    "is there twice": ("gpt2", lambda s: s["model"]["merges"].append(s["model"]["merges"][0])),
    "is not spelled in bytes": ("gpt2", lambda s: s["model"]["vocab"].update({"世": 711})),
    "token ids": ("gpt2", lambda s: s["model"]["vocab"].update({"xyzzy": 1 << 24})),
    "added_tokens: expected a list": ("gpt2", lambda s: s.update(added_tokens=5)),
    "normalizer Prepend: prepend =": (
        "llama",
        lambda s: s["normalizer"]["normalizers"][0].update(prepend="x"),
    ),
    "model: vocab is no object of ids": ("gpt2", lambda s: s["model"]["vocab"].update(x="y")),
    "decoder 5": ("gpt2", lambda s: s.update(decoder=5)),
    'decoder {"add_prefix_space"': ("gpt2", lambda s: s["decoder"].pop("type")),
    'pre_tokenizer {"type": "Split"': ("gemma", lambda s: s["pre_tokenizer"].pop("pattern")),
    "unk_token = 5": ("gpt2", lambda s: s["model"].update(unk_token=5)),
    'version = "2.0"': ("gpt2", lambda s: s.update(version="2.0")),
    "added token": ("gpt2", lambda s: s["added_tokens"][0].update(id=True)),
    "is not valid Unicode": ("llama", lambda s: s["model"]["vocab"].update({"\ud800": 999})),
    "byte token in small letters": ("llama", lambda s: s["model"]["vocab"].update({"<0xab>": 999})),
    "is negative or taken": ("gpt2", lambda s: s["model"]["vocab"].update({"xyzzy": 3})),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_would_encode_differently_is_refused_by_name(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, change = REFUSED[what]
    assert convert(tmp_path, load(name)) != 1
    (tmp_path / "out.mlt").unlink()
    assert convert(tmp_path, changed(name, change)) == 1
    error = capsys.readouterr().err
    assert what in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", "{", "\ufeff{}", "[" * 100_000, '{"model": 1}'])
def test_broken_json_is_an_error_and_no_traceback(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "tokenizer.json"
    source.write_text(text, encoding="utf-8")
    assert convert_tokenizer.main([str(source), str(tmp_path / "out.mlt")]) == 1
    assert capsys.readouterr().err.startswith("error: ")


def test_a_gguf_file_in_the_place_of_tokenizer_json_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "m.gguf"
    source.write_bytes(b"GGUF\3\0\0\0" + bytes(100))
    assert convert_tokenizer.main([str(source), str(tmp_path / "out.mlt")]) == 1
    remedy = "is a GGUF file: convert it with 'tools/convert.py gguf'"
    assert capsys.readouterr().err == f"error: {source}: {remedy}\n"


def test_the_last_line_says_what_there_is_and_what_there_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "tokenizer.json", tmp_path / "out.mlt"
    source.write_bytes((DATA / "gpt2.json").read_bytes())
    assert convert_tokenizer.main([str(source), str(out)]) == 0
    printed = capsys.readouterr().out
    assert re.fullmatch(
        rf"{out}: bpe_byte, \d+ tokens, \d+ merges, bos none, eos none, chat none\n", printed
    )
    (tmp_path / "tokenizer_config.json").write_text('{"eos_token": "<|end|>"}')
    assert convert_tokenizer.main([str(source), str(out), "--chat", "chatml"]) == 0
    assert re.search(r"bos none, eos \d+, chat chatml\n", capsys.readouterr().out)


ODD: tuple[object, ...] = (None, True, -1, 10**30, "\ud800", "a\nb", [], ["x", "y"], {"": 0})


def places(value: object, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths to all parts of a JSON value, of long ones only to the first and last few."""
    yield path
    items: list[tuple[Any, object]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for key, part in items if len(items) < 12 else (*items[:1], *items[-1:]):
        yield from places(part, *path, key)


def with_part(value: Any, path: Sequence[str | int], part: object) -> Any:
    """Return a copy of a JSON value with another part."""
    if not path:
        return part
    copied = copy.copy(value)
    copied[path[0]] = with_part(value[path[0]], path[1:], part)
    return copied


@pytest.mark.parametrize("name", ["llama", "qwen2"])
def test_an_odd_value_anywhere_is_an_error_of_one_line_or_does_no_harm(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = load(name)
    codes = []
    for path in places(spec):
        for odd in ODD:
            source = tmp_path / "tokenizer.json"
            source.write_text(json.dumps(with_part(spec, path, odd)), encoding="utf-8")
            codes.append(convert_tokenizer.main([str(source), str(tmp_path / "out.mlt")]))
            error = capsys.readouterr().err
            assert codes[-1] == 0 or (error.startswith("error: ") and error.count("\n") == 1), path
    assert codes.count(1) > 200


def test_a_missing_file_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert_tokenizer.main([str(tmp_path / "no.json"), str(tmp_path / "out.mlt")]) == 1
    assert "no.json: No such file" in capsys.readouterr().err


def test_the_header_says_how_to_encode(tmp_path: Path) -> None:
    header = convert(tmp_path, load("llama"))
    assert isinstance(header, dict)
    assert header["kind"] == "bpe_spm"
    assert header["prefix"] == "always"
    assert header["drop_space"] is True
    assert (header["add_bos"], header["bos_id"], header["eos_id"]) == (True, 1, None)
    assert header["chat"] is None


KINDS = {
    "llama3": ("llama3", False, True),
    "qwen2": ("qwen2", True, False),
    "qwen3_5": ("qwen3_5", True, True),
    "gpt2": ("gpt2", False, False),
    "digits": ("gpt2_digits", False, False),
    "gemma2": ("none", False, False),
}


@pytest.mark.parametrize("name", KINDS)
def test_the_header_has_what_each_kind_needs(name: str, tmp_path: Path) -> None:
    header = convert(tmp_path, load(name))
    assert isinstance(header, dict)
    assert (header["pretok"], header["nfc"], header["ignore_merges"]) == KINDS[name]


def test_the_file_says_what_it_was_made_of_and_compared_with(tmp_path: Path) -> None:
    header = convert(tmp_path, load("gpt2"))
    assert isinstance(header, dict)
    raw = (tmp_path / "tokenizer.json").read_bytes()
    assert header["provenance"]["tokenizer_json_sha256"] == hashlib.sha256(raw).hexdigest()
    assert header["provenance"]["tokenizers"] == tokenizers.__version__


def test_a_sequence_of_one_step_is_that_step(tmp_path: Path) -> None:
    spec = load("qwen2")
    expected = convert(tmp_path, spec)
    assert isinstance(expected, dict)
    spec["normalizer"] = {"type": "Sequence", "normalizers": [spec["normalizer"]]}
    spec["decoder"] = {"type": "Sequence", "decoders": [spec["decoder"]]}
    spec["post_processor"] = {"type": "Sequence", "processors": [spec["post_processor"]]}
    header = convert(tmp_path, spec)
    assert isinstance(header, dict)
    assert expected | {"provenance": None} == header | {"provenance": None}


def test_the_expressions_are_those_of_the_documentation() -> None:
    text = (ROOT / "docs" / "format-mlt.md").read_text(encoding="utf-8")
    for regex, name in [*SPLIT_REGEX.items(), (GPT2_REGEX, "gpt2")]:
        cell = regex.replace("|", r"\|")
        assert f'| `"{name}"` | `{cell}` |' in text


def test_bos_eos_and_chat_come_from_the_files_beside_it(tmp_path: Path) -> None:
    template = (ROOT / "tests" / "data" / "templates" / "openhermes-2.5.jinja").read_text()
    config = {"bos_token": "<|end|>", "eos_token": {"content": "<tool>"}, "chat_template": template}
    spec = load("gpt2")
    header = convert(tmp_path, spec, tokenizer_config=config)
    ids = {t["content"]: t["id"] for t in spec["added_tokens"]}
    assert isinstance(header, dict)
    assert (header["bos_id"], header["eos_id"]) == (ids["<|end|>"], ids["<tool>"])
    assert header["add_bos"] is False
    assert header["chat"] == "chatml"


def test_config_json_gives_the_ids_that_nothing_else_does(tmp_path: Path) -> None:
    ids = {"bos_token_id": 5, "text_config": {"eos_token_id": [6, 7]}}
    header = convert(tmp_path, load("gpt2"), config=ids)
    assert isinstance(header, dict)
    assert (header["bos_id"], header["eos_id"]) == (5, 6)


def test_generation_config_gives_the_ids_that_the_tokenizer_config_does_not(tmp_path: Path) -> None:
    header = convert(tmp_path, load("gpt2"), generation_config={"eos_token_id": [7, 8]})
    assert isinstance(header, dict)
    assert (header["bos_id"], header["eos_id"]) == (None, 7)


def test_the_command_line_names_the_chat_template(tmp_path: Path) -> None:
    header = convert(tmp_path, load("gpt2"), "--chat", "zephyr")
    assert isinstance(header, dict)
    assert header["chat"] == "zephyr"


WARNED: dict[str, tuple[Json, Json]] = {
    '711 "<extra>"': ({"added_tokens_decoder": {"711": {"content": "<extra>"}}}, {}),
    "add_bos_token true": ({"add_bos_token": True}, {}),
    "add_eos_token": ({"add_eos_token": True}, {}),
    "truncation": ({}, {"truncation": {"max_length": 512}}),
    "padding": ({}, {"padding": {"pad_id": 0}}),
}


@pytest.mark.parametrize("what", WARNED)
def test_what_has_no_effect_is_said_in_a_warning(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, change = WARNED[what]
    header = convert(tmp_path, load("gpt2") | change, tokenizer_config=config)
    assert isinstance(header, dict)
    error = capsys.readouterr().err
    assert error.startswith("warning: ")
    assert what in error
    assert error.count("\n") == 1


def test_what_agrees_needs_no_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = load("llama")
    tokens = {str(t["id"]): t for t in spec["added_tokens"]}
    config = {"add_bos_token": True, "add_eos_token": False, "legacy": False}
    convert(tmp_path, spec, tokenizer_config=config | {"added_tokens_decoder": tokens})
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "config",
    [
        {"bos_token": [1]},
        {"eos_token": {"content": {}}},
        {"added_tokens_decoder": [1]},
        {"added_tokens_decoder": {"x": {"content": "<|end|>"}}},
        {"added_tokens_decoder": {"0": None}},
        {"added_tokens_decoder": {"5": {"content": "<extra>"}}},
        {"added_tokens_decoder": {"5": {"content": "<|end|>"}}},
        {"legacy": "yes"},
    ],
    ids=[
        *("list", "object", "list of tokens", "no id", "no token"),
        *("a taken id", "another id", "legacy"),
    ],
)
def test_a_config_that_makes_no_sense_is_an_error_and_no_traceback(
    config: Json, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert convert(tmp_path, load("gpt2"), tokenizer_config=config) == 1
    assert "tokenizer_config.json" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["tokenizer", "tokenizer_config", "generation_config"])
def test_a_key_that_occurs_twice_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    convert(tmp_path, load("gpt2"))
    (tmp_path / f"{name}.json").write_text('{"model": {}, "model": {}}')
    words = [str(tmp_path / "tokenizer.json"), str(tmp_path / "twice.mlt")]
    assert convert_tokenizer.main(words) == 1
    assert f"{name}.json: the key 'model' appears twice" in capsys.readouterr().err


def test_merges_written_as_one_string_give_the_same_file(tmp_path: Path) -> None:
    spec = load("gpt2")
    convert(tmp_path, spec)
    expected = envelope.read(tmp_path / "out.mlt", "mlt").data.tobytes()
    spec["model"]["merges"] = [" ".join(m) for m in spec["model"]["merges"]]
    convert(tmp_path, spec)
    assert expected == envelope.read(tmp_path / "out.mlt", "mlt").data.tobytes()


def test_converting_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    outputs = [tmp_path / "a.mlt", tmp_path / "b.mlt"]
    for output in outputs:
        assert convert_tokenizer.main([str(DATA / "gemma.json"), str(output)]) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_the_flags_are_those_of_the_c_header() -> None:
    text = (ROOT / "runtime" / "core" / "mlt.h").read_text(encoding="ascii")
    flags = {name: int(value) for name, value in re.findall(r"KR_TOKEN_([A-Z]+) = (\d+)", text)}
    assert len(flags) == 8
    assert flags == {name: getattr(tokenizer, name) for name in flags}


def test_the_unicode_tables_are_what_their_script_makes(capsys: pytest.CaptureFixture[str]) -> None:
    assert make_unicode_tables.main(["--check"]) == 0, capsys.readouterr().err
