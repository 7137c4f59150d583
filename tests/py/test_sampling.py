# SPDX-License-Identifier: MIT
"""The sampler against transformers' logits processors, and which ids it never chooses.

.venv/bin/python -m pytest tests/py/test_sampling.py

What may be chosen must be the same set; how often it is chosen must fit the probabilities
(chi-square).  The order of the processors is that of transformers' own generate().
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import convert_tokenizer
import krafla
from conversion import GOLDEN, converted
from made import TOKENIZERS, random_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    F32 = npt.NDArray[np.float32]

pytestmark = pytest.mark.usefixtures("use_library")

VOCAB = 1000
DRAWS = 20000
HISTORY = [5, 7, 7, 7, 5, 901, 44, 44, 3, 8, 12, 7]

# Options of ours; `peaked` logits have few likely tokens, others many.
CASES: dict[str, tuple[bool, dict[str, Any]]] = {
    "plain": (False, {"temperature": 1.0, "top_p": 0.0}),
    "temperature": (True, {"temperature": 0.6, "top_p": 0.0}),
    "hot": (False, {"temperature": 1.7, "top_p": 0.0}),
    "top_k": (False, {"temperature": 1.0, "top_p": 0.0, "top_k": 40}),
    "top_p": (True, {"temperature": 0.8, "top_p": 0.9}),
    "top_p_flat": (False, {"temperature": 1.2, "top_p": 0.95}),
    "top_p_small": (True, {"temperature": 1.0, "top_p": 0.01}),
    "top_k_top_p": (False, {"temperature": 0.9, "top_p": 0.8, "top_k": 25}),
    "min_p": (False, {"temperature": 1.1, "top_p": 0.0, "min_p": 0.05}),
    "min_p_one": (True, {"temperature": 1.0, "top_p": 0.0, "min_p": 1.0}),
    "all_three": (False, {"temperature": 1.3, "top_p": 0.7, "top_k": 60, "min_p": 0.2}),
    "repeat": (True, {"temperature": 1.0, "top_p": 0.9, "repeat_penalty": 1.3}),
    "repeat_reward": (False, {"temperature": 0.7, "top_p": 0.9, "repeat_penalty": 0.8}),
    "bias": (False, {"temperature": 1.0, "top_p": 0.9, "logit_bias": {7: 6.5, 44: -100.0}}),
    "bias_repeat": (
        True,
        {
            "temperature": 0.9,
            "top_p": 0.95,
            "min_p": 0.02,
            "repeat_penalty": 1.2,
            "logit_bias": {7: 9.0, 8: 7.0, 500: 8.0},
        },
    ),
}


def made_logits(*, peaked: bool) -> F32:
    """Logits without ties."""
    rng = np.random.default_rng(11)
    logits = rng.standard_normal(VOCAB) * (3.0 if peaked else 1.5)
    logits[HISTORY] += 2.0
    return logits.astype(np.float32)


def processors(options: dict[str, Any]) -> Any:
    """Transformers' processors for these options, put in order by transformers itself."""
    transformers = pytest.importorskip("transformers")
    config = transformers.GenerationConfig(
        do_sample=True,
        temperature=options["temperature"],
        top_k=options.get("top_k", 0),
        top_p=options["top_p"] or 1.0,
        min_p=options.get("min_p"),
        repetition_penalty=options.get("repeat_penalty", 1.0),
        sequence_bias={(i,): b for i, b in options.get("logit_bias", {}).items()} or None,
    )
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(
            vocab_size=VOCAB,
            hidden_size=8,
            intermediate_size=8,
            num_hidden_layers=1,
            num_attention_heads=1,
        )
    )
    config, _ = model._prepare_generation_config(config)
    return model._get_logits_processor(generation_config=config, input_ids_seq_length=len(HISTORY))


def theirs(options: dict[str, Any], logits: F32) -> npt.NDArray[np.float64]:
    """The probabilities from which transformers would draw."""
    torch = pytest.importorskip("torch")
    scores = processors(options)(torch.tensor([HISTORY]), torch.from_numpy(logits.copy())[None])
    return cast("npt.NDArray[np.float64]", torch.softmax(scores[0].double(), -1).numpy())


def penalized(
    logits: F32, history: Sequence[int], *, presence: float, frequency: float
) -> npt.NDArray[np.float64]:
    """The definition in OpenAI's documentation, over all of the history."""
    counts = np.bincount(history, minlength=len(logits))
    off: npt.NDArray[np.float64] = counts * frequency + (counts > 0) * presence
    return logits.astype(np.float64) - off


def chi_square(counts: npt.NDArray[np.int64], wanted: npt.NDArray[np.float64]) -> float:
    """How many standard deviations Pearson's statistic lies above its mean.

    Tokens that are expected fewer than 8 times are taken together.
    """
    expected: npt.NDArray[np.float64] = wanted * counts.sum()
    common = expected >= 8
    expected = np.append(expected[common], expected[~common].sum())
    found = np.append(counts[common], counts[~common].sum())
    if expected[-1] < 8:
        expected, found = expected[:-1], found[:-1]
    freedom = max(1, len(expected) - 1)
    statistic = ((found - expected) ** 2 / expected).sum()
    return float((statistic - freedom) / (2 * freedom) ** 0.5)


def draw(logits: F32, **options: Any) -> npt.NDArray[np.int64]:
    """How often each token is drawn."""
    with krafla.Sampler(len(logits), seed=3, repeat_last_n=1 << 20, **options) as sampler:
        ids = [sampler.next(logits, HISTORY) for _ in range(DRAWS)]
    return np.bincount(ids, minlength=len(logits))


@pytest.mark.parametrize("name", CASES)
def test_what_is_drawn_is_what_transformers_would_draw(name: str) -> None:
    peaked, options = CASES[name]
    logits = made_logits(peaked=peaked)
    want = theirs(options, logits)
    counts = draw(logits, **options)
    assert not counts[want == 0].any()
    assert counts[want * DRAWS > 20].all()
    assert chi_square(counts, want) < 5


def test_penalties_are_those_of_their_definition() -> None:
    logits = made_logits(peaked=True)
    scores = penalized(logits, HISTORY, presence=0.7, frequency=0.5)
    want = np.exp(scores - scores.max())
    counts = draw(logits, temperature=1.0, top_p=0.0, presence_penalty=0.7, frequency_penalty=0.5)
    assert chi_square(counts, want / want.sum()) < 5


def test_a_chi_square_notices_another_temperature() -> None:
    """The test above can fail."""
    logits = made_logits(peaked=False)
    _, options = CASES["top_p"]
    want = theirs(options, logits)
    assert chi_square(draw(logits, **(options | {"temperature": 0.86})), want) > 5


def tokenizer_with_hole(directory: Path) -> tuple[Path, int]:
    """An .mlt with an id in the middle that has no token."""
    spec = json.loads((TOKENIZERS / "gpt2.json").read_text(encoding="utf-8"))
    left, right = spec["model"]["merges"].pop(-5)
    hole = int(spec["model"]["vocab"].pop(left + right))
    spec["added_tokens"] = []  # their ids would have to follow the number of the others
    source = directory / "tokenizer.json"
    source.write_text(json.dumps(spec), encoding="utf-8")
    assert convert_tokenizer.main([str(source), str(directory / "t.mlt")]) == 0
    return directory / "t.mlt", hole


def test_ids_without_a_token_are_never_chosen(tmp_path: Path) -> None:
    path, hole = tokenizer_with_hole(tmp_path)
    with krafla.Tokenizer.open(path) as tokenizer:
        rows = len(tokenizer) + 40  # the model's, padded
        logits = np.zeros(rows, dtype=np.float32)
        logits[len(tokenizer) :] = 9.0
        logits[hole] = 9.0
        logits[-1] = np.nan  # nobody looks there
        for bias in ({}, {hole: 100.0}):
            with krafla.Sampler(
                rows, tokenizer=tokenizer, temperature=50.0, top_p=0.0, logit_bias=bias
            ) as sampler:
                ids = {sampler.next(logits) for _ in range(20 * len(tokenizer))}
            assert ids == set(range(len(tokenizer))) - {hole}
        with krafla.Sampler(rows, tokenizer=tokenizer) as greedy:
            assert greedy.next(logits) == 0
        message = f"the id {len(tokenizer)} is not from 0 to {len(tokenizer) - 1}"
        with pytest.raises(krafla.KraflaArgumentError, match=message):
            krafla.Sampler(rows, tokenizer=tokenizer, logit_bias={len(tokenizer): 1.0})


def test_what_a_model_recommends_is_where_a_sampler_starts(tmp_path: Path) -> None:
    source = shutil.copytree(GOLDEN / "llama", tmp_path / "checkpoint")
    config = {"do_sample": True, "top_k": 30, "min_p": 0.02, "repetition_penalty": 1.4}
    (source / "generation_config.json").write_text(json.dumps(config))
    converted(source, tmp_path / "m.mlb")
    with krafla.Model.open(tmp_path / "m.mlb") as model:
        logits = made_logits(peaked=True)[: model.vocab]
        history = [*range(200), *[1] * 64]  # the penalty looks at all of it

        def draws(**options: Any) -> list[int]:
            with krafla.Sampler(model.vocab, **options) as sampler:
                return [sampler.next(logits, history) for _ in range(100)]

        numbers = {"temperature": 1.0, "top_k": 30, "top_p": 0.0, "min_p": 0.02}
        same = {**numbers, "repeat_penalty": 1.4, "repeat_last_n": 1000}
        assert draws(model=model) == draws(**same)
        assert draws(model=model, temperature=0.3) == draws(**{**same, "temperature": 0.3})
        assert draws(**same) != draws(**{**same, "repeat_last_n": 64})


def test_a_model_that_recommends_nothing_is_greedy(tmp_path: Path) -> None:
    path = random_model(tmp_path / "m.mlb", VOCAB)
    logits = made_logits(peaked=False)
    with krafla.Model.open(path) as model, krafla.Sampler(VOCAB, model=model) as sampler:
        assert sampler.next(logits) == logits.argmax()
