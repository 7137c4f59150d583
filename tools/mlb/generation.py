# SPDX-License-Identifier: MIT
"""What the files beside the weights say about replies: where they end, how tokens are drawn.

    PYTHONPATH=tools python3 -c 'from mlb.generation import recommended; \
        print(recommended({"do_sample": True, "top_k": 20}, "generation_config.json"))'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mlb.checkpoint import CheckpointError, read_json, some
from mlb.format import MAX_STOP_IDS, SAMPLING
from mlb.shape import MAX_VOCAB
from mlb.tokenizer import MAX_JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

# Our key -> that of generation_config.json, whose values mean the same.
KEYS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repeat_penalty": "repetition_penalty",
}
LEAST = 1e-6  # what is below counts as 0


def recommended(values: Mapping[str, Any], where: str) -> tuple[dict[str, float], list[str]]:
    """The sampling numbers of a generation_config.json, and what is wrong with others.

    Without sampling transformers takes the most likely token: that is temperature 0.  With it and
    without a temperature, that is 1.
    """
    found: dict[str, float] = {}
    warnings: list[str] = []
    for ours, theirs in KEYS.items():
        value = values.get(theirs)
        if value is None:
            continue
        low, high = SAMPLING.get(ours, (0, MAX_VOCAB))
        number = _number(value, whole=ours == "top_k")
        # A top_p of 0 would keep one token there, and all of them here.
        if number is None or not low <= number <= high or (ours == "top_p" and number == 0):
            kind = "whole number" if ours == "top_k" else "number"
            warnings.append(
                f"{where}: {theirs} is {value!r}, expected a {kind} from {low:g} to {high:g}: "
                "left out"
            )
            continue
        found[ours] = number
    if values.get("do_sample") is False:
        found["temperature"] = 0.0
    elif values.get("do_sample") is True:
        found.setdefault("temperature", 1.0)
    return found, warnings


def _number(value: object, *, whole: bool) -> float | None:
    """The number in the shortest decimal of its float32, as the file's header has it."""
    if type(value) is int and (whole or abs(value) < 1 << 24):
        return value
    if whole or type(value) is not float:
        return None
    short = float(str(np.float32(value)))
    return 0.0 if abs(short) < LEAST else short


def stop_ids(
    sources: Sequence[tuple[str, Mapping[str, Any]]], vocab: int
) -> tuple[tuple[int, ...], list[str]]:
    """Every eos_token_id of these configurations, by their names, and what is wrong with others."""
    found: dict[int, None] = {}
    warnings: list[str] = []
    for where, values in sources:
        ids = values.get("eos_token_id")
        for i in ids if isinstance(ids, list) else [ids]:
            if type(i) is int and 0 <= i < vocab:
                found[i] = None
            elif i is not None:
                warnings.append(
                    f"{where}: eos_token_id {i!r} is not a token of a model of {vocab}: left out"
                )
    if len(found) > MAX_STOP_IDS:
        names = " and ".join(where for where, _ in sources)
        raise CheckpointError(
            f"{names}: {len(found)} different eos_token_id, a model file holds {MAX_STOP_IDS}: "
            "leave only those at which a reply ends"
        )
    return tuple(found), warnings


def unreadable_tokens(directory: Path, rows: int) -> list[str]:
    """Warn of tokens for which the model has no row, if tokenizer.json is there."""
    path = directory / "tokenizer.json"
    if not path.exists():
        return []
    try:
        beyond = sorted(i for i in _token_ids(read_json(path, MAX_JSON)) if i[0] >= rows)
    except CheckpointError as error:
        return [str(error)]
    if not beyond:
        return []
    listed = some([f"{i} {text!r}" for i, text in beyond])
    lacking = f"{path}: the model's {rows} rows end before {listed}"
    return [f"{lacking}: a prompt that holds such a token is refused"]


def _token_ids(spec: Mapping[str, Any]) -> Iterable[tuple[int, str]]:
    """The ids and texts of a tokenizer.json, as far as it is one."""
    model, added = spec.get("model"), spec.get("added_tokens")
    vocab = model.get("vocab") if isinstance(model, dict) else None
    listed: Sequence[Any] = added if isinstance(added, list) else []
    pairs = [(t.get("id"), t.get("content")) for t in listed if isinstance(t, dict)]
    if isinstance(vocab, dict):
        pairs += [(i, text) for text, i in vocab.items()]
    unique = {i: text for i, text in pairs if type(i) is int and isinstance(text, str)}
    return unique.items()
