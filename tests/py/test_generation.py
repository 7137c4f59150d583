# SPDX-License-Identifier: MIT
"""What the converter takes from generation_config.json, config.json and tokenizer.json.

.venv/bin/python -m pytest tests/py/test_generation.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlb.checkpoint import CheckpointError
from mlb.generation import recommended, stop_ids, unreadable_tokens

LLAMA3 = {"do_sample": True, "temperature": 0.6, "top_p": 0.9}
QWEN3 = {**LLAMA3, "top_k": 20, "top_p": 0.95}
QWEN25 = {"do_sample": True, "repetition_penalty": 1.05, "temperature": 0.7, "top_p": 0.8}
GEMMA3 = {"do_sample": True, "cache_implementation": "hybrid", "top_k": 64, "top_p": 0.95}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        (LLAMA3, {"temperature": 0.6, "top_p": 0.9}),
        (QWEN3, {"temperature": 0.6, "top_p": 0.95, "top_k": 20}),
        (QWEN25, {"temperature": 0.7, "top_p": 0.8, "repeat_penalty": 1.05}),
        (GEMMA3, {"temperature": 1.0, "top_k": 64, "top_p": 0.95}),
        ({**QWEN3, "do_sample": False}, {"temperature": 0.0, "top_p": 0.95, "top_k": 20}),
        ({"temperature": 0.6, "min_p": 0.05}, {"temperature": 0.6, "min_p": 0.05}),
        ({"temperature": None, "top_k": None, "do_sample": None}, {}),
        ({"temperature": 1, "top_p": 1, "top_k": 0}, {"temperature": 1, "top_p": 1, "top_k": 0}),
        ({"temperature": 0.6000000238418579}, {"temperature": 0.6}),
        ({"min_p": 1e-30, "temperature": 5e-324}, {"min_p": 0.0, "temperature": 0.0}),
    ],
)
def test_numbers_mean_what_they_mean_to_transformers(
    values: dict[str, Any], found: dict[str, float]
) -> None:
    assert recommended(values, "g.json") == (found, [])


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("temperature", -1, "number from 0 to 100"),
        ("temperature", 101.0, "number from 0 to 100"),
        ("temperature", "0.7", "number from 0 to 100"),
        ("temperature", True, "number from 0 to 100"),
        ("temperature", 10**400, "number from 0 to 100"),
        ("top_p", 1.5, "number from 0 to 1"),
        ("top_p", 0.0, "number from 0 to 1"),
        ("min_p", [0.1], "number from 0 to 1"),
        ("top_k", -1, "whole number from 0 to 1.67772e+07"),
        ("top_k", 50.0, "whole number from 0 to 1.67772e+07"),
        ("repetition_penalty", 0.0, "number from 0.01 to 100"),
    ],
)
def test_numbers_out_of_range_are_left_out_with_a_warning(
    key: str, value: object, expected: str
) -> None:
    found, warnings = recommended({"do_sample": True, key: value}, "g.json")
    assert found == {"temperature": 1.0}
    assert warnings == [f"g.json: {key} is {value!r}, expected a {expected}: left out"]


def test_every_end_of_both_files_stops_once() -> None:
    sources: list[tuple[str, dict[str, Any]]] = [
        ("generation", {"eos_token_id": [128001, 128008, 128009]}),
        ("config", {"eos_token_id": 128009}),
        ("text", {"eos_token_id": [1, 106]}),
        ("nothing", {"eos_token_id": None}),
    ]
    assert stop_ids(sources, 128256) == ((128001, 128008, 128009, 1, 106), [])


@pytest.mark.parametrize("wrong", [320, -1, "2", 2.0, True, [3]])
def test_an_end_that_is_no_token_is_left_out_with_a_warning(wrong: object) -> None:
    found, warnings = stop_ids([("g.json", {"eos_token_id": [2, wrong]})], 320)
    assert found == (2,)
    assert warnings == [
        f"g.json: eos_token_id {wrong!r} is not a token of a model of 320: left out"
    ]


def test_more_ends_than_a_file_holds_are_refused() -> None:
    assert len(stop_ids([("g", {"eos_token_id": [*range(16), *range(16)]})], 320)[0]) == 16
    with pytest.raises(CheckpointError, match="g and c: 17 different eos_token_id, a model file"):
        stop_ids([("g", {"eos_token_id": [*range(16)]}), ("c", {"eos_token_id": 99})], 320)


def tokenizer(directory: Path, vocab: object, added: object) -> Path:
    spec = {"model": {"vocab": vocab}, "added_tokens": added}
    (directory / "tokenizer.json").write_text(json.dumps(spec))
    return directory


def test_tokens_without_a_row_are_named(tmp_path: Path) -> None:
    assert unreadable_tokens(tmp_path, 4) == []
    vocab = {"a": 0, "b": 1, "c": 2, "d": 3}
    image = [{"id": 4, "content": "<image>"}, {"id": 2, "content": "c"}]
    assert unreadable_tokens(tokenizer(tmp_path, vocab, image[1:]), 4) == []
    (warning,) = unreadable_tokens(tokenizer(tmp_path, vocab, image), 4)
    assert warning.endswith(
        "the model's 4 rows end before 4 '<image>': a prompt that holds such a token is refused"
    )
    (warning,) = unreadable_tokens(tokenizer(tmp_path, {str(i): i for i in range(30)}, []), 20)
    assert "before 20 '20', 21 '21', 22 '22', " in warning
    assert "27 '27' and 2 more:" in warning


@pytest.mark.parametrize(
    ("vocab", "added"), [(None, None), ([["a", 0.0]], {}), ({"a": "1"}, [7, {"id": [1]}])]
)
def test_another_tokenizer_says_nothing_of_rows(
    tmp_path: Path, vocab: object, added: object
) -> None:
    assert unreadable_tokens(tokenizer(tmp_path, vocab, added), 1) == []


def test_a_damaged_tokenizer_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    (warning,) = unreadable_tokens(tmp_path, 4)
    assert "Git LFS pointer" in warning
