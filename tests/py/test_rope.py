# SPDX-License-Identifier: MIT
"""RoPE frequencies: transformers' own for every scaling, and every spelling of config.json.

.venv/bin/python -m pytest tests/py/test_rope.py
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from mlb.arch import rope
from mlb.arch.config import Config
from mlb.checkpoint import CheckpointError

LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
SCALINGS: dict[str, dict[str, Any]] = {
    "none": {"rope_type": "default"},
    "linear": {"rope_type": "linear", "factor": 8.0},
    "llama-3.1": {**LLAMA3, "factor": 8.0},
    "llama-3.2": LLAMA3,
    "qwen-yarn": YARN,
    "yarn-not-truncated": {**YARN, "truncate": False},
    "yarn-betas": {**YARN, "beta_fast": 16, "beta_slow": 2.0},
    "yarn-attention-factor": {**YARN, "attention_factor": 0.75},
    "yarn-mscale": {**YARN, "mscale": 0.707, "mscale_all_dim": 1.0},
    "yarn-mscale-alone": {**YARN, "mscale": 0.707},
    "yarn-zero-mscale": {**YARN, "mscale": 0, "mscale_all_dim": 0},
    "yarn-shrinking": {**YARN, "factor": 0.5},
    "yarn-short": {**YARN, "original_max_position_embeddings": 2},
    "partial": {"rope_type": "default", "partial_rotary_factor": 0.25},
    "partial-yarn": {**YARN, "partial_rotary_factor": 0.25},
}


def read(values: dict[str, Any], **options: Any) -> rope.Rope:
    """Read the RoPE of a configuration and see that nothing is left over."""
    config = Config(values, "config.json")
    found = rope.read(config, 128, 131072, **options)
    config.finish()
    return found


def refusal(values: dict[str, Any], **options: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        read(values, **options)
    return str(caught.value)


@pytest.mark.parametrize("theta", [10000.0, 500000.0, 1e7])
@pytest.mark.parametrize("scaling", SCALINGS.values(), ids=SCALINGS)
def test_frequencies_are_those_of_transformers(scaling: dict[str, Any], theta: float) -> None:
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    utils = pytest.importorskip("transformers.modeling_rope_utils")
    parameters = {**scaling, "rope_theta": theta}
    partial = "partial_rotary_factor" in scaling
    kind = transformers.Qwen3_5TextConfig if partial else transformers.LlamaConfig
    config = kind(
        head_dim=128, max_position_embeddings=131072, rope_parameters=copy.deepcopy(parameters)
    )
    if scaling["rope_type"] != "default":
        want, scale = utils.ROPE_INIT_FUNCTIONS[scaling["rope_type"]](config)
    elif partial:
        module = transformers.models.qwen3_5.modeling_qwen3_5.Qwen3_5TextRotaryEmbedding
        want, scale = module.compute_default_rope_parameters(config)
    else:
        module = transformers.models.llama.modeling_llama.LlamaRotaryEmbedding
        want, scale = module.compute_default_rope_parameters(config)
    got = read({"rope_parameters": parameters}, partial=0.5 if partial else 1.0)
    assert got.frequencies.shape == tuple(want.shape)
    np.testing.assert_allclose(got.frequencies, want.numpy(), rtol=5e-7)
    assert np.float32(got.scale) == np.float32(scale)


SPELLINGS: dict[str, dict[str, Any]] = {
    "rope_scaling": {"rope_theta": 5e5, "rope_scaling": LLAMA3},
    "type": {
        "rope_theta": 5e5,
        "rope_scaling": {("type" if k == "rope_type" else k): v for k, v in LLAMA3.items()},
    },
    "both-types": {"rope_theta": 5e5, "rope_scaling": {**LLAMA3, "type": "llama3"}},
    "rope_parameters": {"rope_parameters": {**LLAMA3, "rope_theta": 5e5}},
    "theta-outside": {"rope_theta": 5e5, "rope_parameters": LLAMA3},
    "both-objects": {
        "rope_theta": 5e5,
        "rope_scaling": LLAMA3,
        "rope_parameters": {**LLAMA3, "rope_theta": 5e5},
    },
    "null-beside-it": {"rope_theta": 5e5, "rope_scaling": LLAMA3, "rope_parameters": None},
}


@pytest.mark.parametrize("values", SPELLINGS.values(), ids=SPELLINGS)
def test_every_spelling_means_the_same(values: dict[str, Any]) -> None:
    want = read({"rope_parameters": {**LLAMA3, "rope_theta": 5e5}})
    got = read(values)
    assert np.array_equal(got.frequencies, want.frequencies)
    assert (got.frequencies != rope.default(5e5, 128)).any()


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"rope_scaling": None},
        {"rope_parameters": None},
        {"rope_parameters": {}},
        {"rope_scaling": {"type": "default"}},
        {"rope_theta": None, "rope_parameters": {"rope_type": "default", "rope_theta": None}},
    ],
)
def test_null_and_absent_are_no_scaling(values: dict[str, Any]) -> None:
    got = read(values, theta=5e5)
    assert np.array_equal(got.frequencies, rope.default(5e5, 128))
    assert got.scale == 1.0


def test_a_text_has_one_position_whatever_mrope_says() -> None:
    values = {"rope_parameters": {"mrope_section": [11, 11, 10], "mrope_interleaved": True}}
    assert np.array_equal(read(values, mrope=True).frequencies, rope.default(1e4, 128))
    assert "unknown key 'mrope_interleaved'" in refusal(values)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "dynamic": ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "type 'dynamic'"),
    "longrope": ({"rope_parameters": {"rope_type": "longrope"}}, "type 'longrope'"),
    "su": ({"rope_scaling": {"type": "su"}}, "type 'su'"),
    "mrope": ({"rope_scaling": {"type": "mrope"}}, "type 'mrope'"),
    "proportional": ({"rope_scaling": {"rope_type": "proportional"}}, "type 'proportional'"),
    "no-word": ({"rope_scaling": {"rope_type": 3}}, "type 3"),
    "list-type": ({"rope_scaling": {"rope_type": []}}, "type []"),
    "two-types": ({"rope_scaling": {**LLAMA3, "type": "yarn"}}, "type = 'yarn'"),
    "unknown-key": ({"rope_scaling": {**YARN, "short_factor": [1]}}, "unknown key 'short_factor'"),
    "string": ({"rope_scaling": "yarn"}, "rope_scaling: expected an object"),
    "per-layer-type": (
        {"rope_parameters": {"full_attention": LLAMA3}},
        "unknown key 'full_attention'",
    ),
    "disagree": (
        {"rope_scaling": YARN, "rope_parameters": {**YARN, "factor": 8.0}},
        "disagree: factor is 4.0 and 8.0",
    ),
    "no-factor": ({"rope_scaling": {"type": "linear"}}, "factor: expected a value, it is missing"),
    "null-factor": ({"rope_scaling": {"type": "linear", "factor": None}}, "factor: expected a val"),
    "zero-factor": ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor: expected a number"),
    "tiny-factor": (
        {"rope_scaling": {"type": "linear", "factor": 1e-300}},
        "factor: expected a number",
    ),
    "low-above-high": (
        {"rope_scaling": {**LLAMA3, "high_freq_factor": 1.0}},
        "high_freq_factor: expected more than low_freq_factor 1",
    ),
    "old-length": (
        {"rope_scaling": {**YARN, "original_max_position_embeddings": 1.5}},
        "original_max_position_embeddings: expected a positive integer",
    ),
    "truncate": ({"rope_scaling": {**YARN, "truncate": 1}}, "truncate: expected true or false"),
    "partial": ({"partial_rotary_factor": 0.5}, "partial_rotary_factor = 0.5 is not supported"),
    "theta": ({"rope_theta": 1.0}, "RoPE base: expected more than 1"),
    "theta-nan": ({"rope_theta": float("nan")}, "rope_theta: expected a number above 0"),
}


@pytest.mark.parametrize(("values", "named"), REFUSED.values(), ids=REFUSED)
def test_everything_else_is_refused_by_name(values: dict[str, Any], named: str) -> None:
    line = refusal(values)
    assert named in line, line
    assert line.startswith("config.json: ")
    assert "\n" not in line


@pytest.mark.parametrize("factor", [0.001, 1.5, 0.2])
def test_a_part_of_a_head_is_an_even_number_of_its_elements(factor: float) -> None:
    values = {"rope_parameters": {"partial_rotary_factor": factor}}
    assert "expected an even number from 2 to head_dim" in refusal(values, partial=0.25)
