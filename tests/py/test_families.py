# SPDX-License-Identifier: MIT
"""Each model family's table: what config.json may say, and which tensor is which.

.venv/bin/python -m pytest tests/py/test_families.py
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import make_golden
from golden_models import FULL, GOLDENS, LINEAR, SLIDING, Golden
from mlb import arch, shape
from mlb.arch import common
from mlb.arch.common import Plan, Source, check_tensors, check_tied, left_out
from mlb.arch.config import Config
from mlb.checkpoint import Checkpoint, CheckpointError, open_safetensors

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
CONFIGS = GOLDEN.parent / "configs"
NAMES = tuple(golden.name for golden in GOLDENS)
GONE = object()  # as a value: the key is taken out


def config_of(name: str, **changes: Any) -> Config:
    """Return a golden configuration with other keys; those of a text_config are given in one."""
    values = json.loads((GOLDEN / name / "config.json").read_text())
    text = changes.pop("text", {})
    for target, new in ((values, changes), (values.get("text_config", {}), text)):
        target.update(new)
        for key in [key for key, value in target.items() if value is GONE]:
            del target[key]
    return Config(values, "config.json")


def plan_of(name: str, **changes: Any) -> Plan:
    return arch.plan(config_of(name, **changes))


def refusal(name: str, **changes: Any) -> str:
    with pytest.raises(CheckpointError) as caught:
        plan_of(name, **changes)
    line = str(caught.value)
    assert line.startswith("config.json: ")
    assert "\n" not in line
    return line


# ---- config.json -------------------------------------------------------------------------------


def test_every_model_type_has_two_golden_models_and_a_family_in_the_format() -> None:
    types: list[str] = []
    for name in NAMES:
        values = json.loads((GOLDEN / name / "config.json").read_text())
        types.append(values["model_type"])
        assert plan_of(name).arch.family in shape.FAMILIES
    assert {kind for kind in arch.FAMILIES if types.count(kind) < 2} == {"qwen3_5_text"}
    assert types.count("qwen3_5_text") + types.count("qwen3_5") == 3
    families = {name.removesuffix("_text") for name in arch.FAMILIES}
    assert families == set(shape.FAMILIES)


def test_each_family_has_a_file_of_its_own() -> None:
    directory = Path(common.__file__).parent
    for family in shape.FAMILIES:
        assert (directory / f"{family}.py").is_file()


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_key_is_refused_wherever_it_is(name: str) -> None:
    assert "unknown key 'new_maths' = 7" in refusal(name, new_maths=7)
    if "text_config" in config_of(name).values:
        line = refusal(name, text={"new_maths": 7})
        assert line.startswith("config.json: text_config: unknown key 'new_maths' = 7")


@pytest.mark.parametrize("name", NAMES)
def test_a_quantized_checkpoint_is_refused_by_its_method(name: str) -> None:
    for method in ("fp8", "gptq", "awq"):
        line = refusal(name, quantization_config={"quant_method": method})
        assert f"quantized already ({method!r}) are not supported: convert the F32" in line
    if "text_config" in config_of(name).values:
        assert "('awq')" in refusal(name, text={"quantization_config": {"quant_method": "awq"}})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"model_type": "mixtral"}, "'mixtral' is a mixture of experts, which is not supported"),
        ({"model_type": "qwen3_moe"}, "'qwen3_moe' is a mixture of experts"),
        ({"num_experts": 8}, "'llama' is a mixture of experts"),
        ({"n_routed_experts": 8}, "'llama' is a mixture of experts"),
        ({"model_type": "phi3"}, "'phi3' is not supported: supported are gemma2, gemma3, gemma3_t"),
        ({"model_type": 3}, "model_type 3 is not supported"),
        ({"model_type": None}, "model_type: expected a value"),
    ],
)
def test_other_architectures_are_refused_by_name(changes: dict[str, Any], named: str) -> None:
    assert named in refusal("llama", **changes)


def test_no_experts_are_no_mixture() -> None:
    assert "unknown key 'num_experts'" in refusal("llama", num_experts=0)


@pytest.mark.parametrize("name", ["llama", "mistral", "qwen3", "qwen3_5_text", "smollm3", "gemma2"])
def test_biases_are_refused_by_name(name: str) -> None:
    assert "attention_bias = True is not supported" in refusal(name, attention_bias=True)
    if not name.startswith("gemma"):
        assert "mlp_bias = True is not supported" in refusal(name, mlp_bias=True)


@pytest.mark.parametrize("name", NAMES)
def test_sizes_that_are_none_are_refused(name: str) -> None:
    wrapped = "text_config" in config_of(name).values
    for key in ("hidden_size", "num_attention_heads", "vocab_size", "max_position_embeddings"):
        for value in (0, -1, 1.5, "32", True, [32], 1 << 40):
            changes = {"text": {key: value}} if wrapped else {key: value}
            assert f"{key}: expected a positive integer" in refusal(name, **changes)
    layers = {"num_hidden_layers": 4097}
    line = refusal(name, **({"text": layers} if wrapped else layers))
    assert "num_hidden_layers: expected a positive integer up to 4096, found 4097" in line


def local(name: str, **changes: Any) -> tuple[int, tuple[int, ...]]:
    found = plan_of(name, **changes).arch
    return found.window, found.local_layers


def test_every_layer_of_mistral_has_the_window_unless_it_is_null() -> None:
    assert local("mistral") == (9, (0, 1))
    assert local("mistral", sliding_window=None) == (0, ())
    assert local("mistral", sliding_window=GONE) == (4096, (0, 1))
    assert local("mistral", layer_types=[SLIDING] * 2) == (9, (0, 1))
    assert "layer_types: expected sliding_attention in every layer" in refusal(
        "mistral", layer_types=[SLIDING, FULL]
    )
    for wrong in (0, -1, True, "9", 1.0):
        assert "sliding_window: expected a positive" in refusal("mistral", sliding_window=wrong)


def test_qwen2_has_a_window_from_max_window_layers_on_or_by_layer_types() -> None:
    usual: dict[str, Any] = {"layer_types": GONE}
    assert local("qwen2") == (11, (1, 2))
    assert local("qwen2", **usual) == (11, (1, 2))
    assert local("qwen2", **usual, max_window_layers=0) == (11, (0, 1, 2))
    assert local("qwen2", **usual, max_window_layers=GONE) == (0, ())  # 28 by default
    assert local("qwen2", **usual, use_sliding_window=False) == (0, ())
    assert local("qwen2", **usual, sliding_window=None) == (0, ())
    assert local("qwen2", layer_types=[SLIDING, FULL, FULL]) == (11, (0,))
    line = refusal("qwen2", layer_types=[SLIDING] * 3, use_sliding_window=False)
    assert "sliding_window: expected the window of the layers" in line
    assert "layer_types: expected 3 of" in refusal("qwen2", layer_types=[FULL] * 2)
    assert "layer_types: expected 3 of" in refusal("qwen2", layer_types=[LINEAR] * 3)
    assert "layer_types: expected 3 of" in refusal("qwen2", layer_types=[[]] * 3)
    assert "max_window_layers: expected a number" in refusal("qwen2", max_window_layers=-1)


def test_qwen2_has_biases_on_q_k_and_v_only() -> None:
    plan = plan_of("qwen2")
    assert plan.arch.qkv_bias
    biases = {name for name, source in plan.sources.items() if source.name.endswith(".bias")}
    assert biases == {f"layers.{n}.b{x}" for n in range(3) for x in "qkv"}
    turned = {name for name in biases if plan.sources[name].head_dim}
    assert turned == {f"layers.{n}.b{x}" for n in range(3) for x in "qk"}


def test_qwen3_has_heads_of_128_unless_it_says_so() -> None:
    assert plan_of("qwen3").arch.head_dim == 40
    assert plan_of("qwen3", head_dim=GONE).arch.head_dim == 128
    assert plan_of("qwen2", head_dim=GONE).arch.head_dim == 8


def test_smollm3_leaves_rope_out_by_list_or_interval() -> None:
    def without(**changes: Any) -> tuple[int, ...]:
        return plan_of("smollm3", **changes).arch.no_rope_layers

    unlisted: dict[str, Any] = {"no_rope_layers": GONE}
    assert without() == (3,)
    assert without(**unlisted) == (3,)
    assert without(**unlisted, no_rope_layer_interval=2) == (1, 3)
    assert without(no_rope_layers=[0, 1, 1, 1, 0, 0, 0]) == (0, 4)  # longer is fine
    for wrong in ([1, 1, 1, 0], [1, 1, 1, 1, 2], "11101", [1, 1, 1, 1, None], [1, 1, 1, 1, 0.0]):
        assert "no_rope_layers: expected 5 of 0 and 1" in refusal("smollm3", no_rope_layers=wrong)
    assert local("smollm3_local") == (13, (1,))
    assert local("smollm3_local", layer_types=GONE) == (13, (1,))
    assert local("smollm3_local", layer_types=GONE, use_sliding_window=False) == (0, ())


def test_gemma_2_has_a_window_in_every_other_layer_and_two_caps() -> None:
    assert local("gemma2", layer_types=GONE) == (7, (0, 2))
    found = plan_of("gemma2").arch
    assert (found.attn_cap, found.logit_cap) == (2.0, 3.0)
    gone: dict[str, Any] = {"attn_logit_softcapping": GONE, "final_logit_softcapping": GONE}
    found = plan_of("gemma2", **gone).arch
    assert (found.attn_cap, found.logit_cap) == (50.0, 30.0)
    null: dict[str, Any] = dict.fromkeys(gone)
    found = plan_of("gemma2", **null).arch
    assert (found.attn_cap, found.logit_cap) == (0.0, 0.0)
    for wrong in (0, -5.0, "30", True):
        assert "expected a number above 0" in refusal("gemma2", final_logit_softcapping=wrong)
    assert plan_of("gemma2").arch.attn_scale == float(np.float32(20**-0.5))


def test_gemma_3_never_caps_scores() -> None:
    assert "attn_logit_softcapping = 50.0" in refusal("gemma3", attn_logit_softcapping=50.0)
    line = refusal("gemma3_image", text={"final_logit_softcapping": 30.0})
    assert "final_logit_softcapping = 30.0" in line


def test_gemma_3_scales_rope_in_full_layers_only_in_either_spelling() -> None:
    newer = plan_of("gemma3_linear")
    older = plan_of(
        "gemma3_linear",
        rope_parameters=GONE,
        rope_theta=1e6,
        rope_local_base_freq=5000.0,
        rope_scaling={"rope_type": "linear", "factor": 8.0},
    )
    for name in ("rope_freq", "rope_freq_local"):
        assert np.array_equal(newer.constants[name], older.constants[name])
    assert newer.constants["rope_freq"][0] == 1 / 8
    assert newer.constants["rope_freq_local"][0] == 1
    yarn = plan_of("gemma3_image_untied").arch
    assert (yarn.local_rope, yarn.rope_scale) == (True, float(np.float32(1.1386294)))
    flat = {"rope_type": "linear", "factor": 8.0}
    assert "rope_parameters: expected an object of full" in refusal("gemma3", rope_parameters=flat)
    scaled = {SLIDING: {"rope_type": "yarn", "factor": 4.0}}
    line = refusal("gemma3", rope_parameters=scaled)
    assert "rope_parameters: expected no attention factor in sliding_attention" in line


YARN_SCALE = float(np.float32(0.1 * np.log(4) + 1))
# tests/data/configs has the keys of published checkpoints; this is what follows from them.
PUBLISHED: dict[str, dict[str, Any]] = {
    "TinyLlama-1.1B": {"head_dim": 64, "rope_scale": 1.0, "max_seq": 2048},
    "Llama-3.2-1B": {"max_seq": 131072, "tied": True},
    "Mistral-7B-v0.1": {"window": 4096, "local_layers": tuple(range(32))},
    "Qwen2.5-7B-with-yarn": {"window": 0, "qkv_bias": True, "rope_scale": YARN_SCALE},
    "Qwen3-0.6B": {"head_dim": 128, "qk_norm": True, "window": 0},
    "Qwen3.5-27B": {"rotary_dim": 64, "linear_v_heads": 48, "conv_taps": 4, "tied": False},
    "SmolLM3-3B": {"no_rope_layers": tuple(range(3, 36, 4)), "tied": True},
    "gemma-2-2b-it": {"attn_cap": 50.0, "logit_cap": 30.0, "window": 4096, "tied": True},
    "gemma-3-1b-it": {"local_rope": True, "window": 512, "attn_cap": 0.0, "logit_cap": 0.0},
    "gemma-3-4b-it": {  # says little: the rest are the defaults of its class
        "n_heads": 8,
        "n_kv_heads": 4,
        "head_dim": 256,
        "vocab": 262208,
        "max_seq": 131072,
        "window": 1024,
        "local_layers": tuple(n for n in range(34) if (n + 1) % 6),
        "tied": True,
        "attn_scale": 1 / 16,
    },
}


def test_every_published_configuration_is_checked() -> None:
    assert {path.stem for path in CONFIGS.glob("*.json")} == set(PUBLISHED)


@pytest.mark.parametrize(("name", "follows"), PUBLISHED.items(), ids=PUBLISHED)
def test_the_configurations_that_people_have_are_understood(
    name: str, follows: dict[str, Any]
) -> None:
    values = json.loads((CONFIGS / f"{name}.json").read_text())
    found = arch.plan(Config(values, "config.json")).arch
    assert {key: getattr(found, key) for key in follows} == follows
    shape.check_arch("config.json", found)


def test_the_outer_word_on_tied_embeddings_counts_then_the_inner_one() -> None:
    def tied(outer: Any, inner: Any) -> bool:
        changes = {"tie_word_embeddings": outer, "text": {"tie_word_embeddings": inner}}
        return plan_of("qwen3_5", **changes).arch.tied

    assert tied(outer=True, inner=False)
    assert not tied(outer=False, inner=True)
    assert tied(outer=GONE, inner=True)
    assert not tied(outer=GONE, inner=GONE)  # as transformers' class has it; Gemma's has true
    both: dict[str, Any] = {
        "tie_word_embeddings": GONE,
        "text": {"tie_word_embeddings": GONE},
    }
    assert plan_of("gemma3_image", **both).arch.tied
    assert "tie_word_embeddings: expected true or false" in refusal(
        "qwen3_5", tie_word_embeddings="yes"
    )


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"text_config": GONE}, "text_config: expected a value, it is missing"),
        ({"text_config": [1]}, "text_config: expected an object"),
        ({"text": {"model_type": "qwen3"}}, "text_config: model_type: expected qwen3_5_text"),
        ({"text": {"attn_output_gate": False}}, "attn_output_gate = False is not supported"),
        ({"text": {"output_gate_type": "sigmoid"}}, "output_gate_type = 'sigmoid'"),
        ({"text": {"mlp_only_layers": [1]}}, "mlp_only_layers = [1] is not supported"),
        ({"text": {"layer_types": [SLIDING] * 4}}, "expected 4 of linear_attention or full_"),
        ({"text": {"linear_conv_kernel_dim": 9}}, "linear_conv_kernel_dim: expected a positive"),
        ({"text": {"linear_num_value_heads": 0}}, "linear_num_value_heads: expected a positive"),
        ({"text": {"num_experts": 4}}, "text_config: unknown key 'num_experts'"),
    ],
)
def test_what_qwen3_5_would_compute_differently_is_refused(
    changes: dict[str, Any], named: str
) -> None:
    assert named in refusal("qwen3_5", **changes)


def test_qwen3_5_has_three_linear_layers_before_each_full_one() -> None:
    found = plan_of("qwen3_5", text={"layer_types": GONE}).arch
    assert found.linear_layers == (0, 1, 2)
    half = plan_of("qwen3_5", text={"layer_types": GONE, "full_attention_interval": 2}).arch
    assert half.linear_layers == (0, 2)
    assert (found.rotary_dim, found.head_dim, found.attn_gate) == (4, 16, True)
    full = plan_of("qwen3_5", text={"layer_types": [FULL] * 4}).arch
    assert (full.linear_layers, full.linear_k_heads, full.conv_taps) == ((), 0, 0)
    shape.check_arch("here", full)


# ---- tensors -----------------------------------------------------------------------------------


def shapes_of(name: str, rename: Mapping[str, str] | None = None) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a golden checkpoint, with other beginnings of names."""
    out = {}
    for tensor, size in open_safetensors(GOLDEN / name).shapes.items():
        changed = tensor
        for old, new in (rename or {}).items():
            if tensor.startswith(old):
                changed = new + tensor.removeprefix(old)
                break
        out[changed] = size
    return out


@pytest.mark.parametrize(
    "prefix", ["model.", "", "model.language_model.", "language_model.model.", "language_model."]
)
@pytest.mark.parametrize("head", ["lm_head.", "language_model.lm_head."])
def test_a_language_model_is_found_under_every_name_that_was_in_use(prefix: str, head: str) -> None:
    rename = {"model.": prefix, "lm_head.": head}
    plan = check_tensors(plan_of("llama"), shapes_of("llama", rename), "here")
    assert plan.sources["layers.1.wq"].name == f"{prefix}layers.1.self_attn.q_proj.weight"
    assert plan.sources["classifier"].name == f"{head}weight"


def test_both_spellings_of_an_image_text_checkpoint_are_the_same_model() -> None:
    """Newer files have model.language_model., older ones language_model.model."""
    names = list(shapes_of("gemma3_image"))
    now = "model.language_model." if "model.language_model.norm.weight" in names else None
    now = now or "language_model.model."
    other = ({"model.language_model.", "language_model.model."} - {now}).pop()
    changed = shapes_of("gemma3_image", {now: other})
    assert changed != shapes_of("gemma3_image")
    plan = check_tensors(plan_of("gemma3_image"), changed, "here")
    assert plan.sources["embed"].name == f"{other}embed_tokens.weight"


def refused_tensors(name: str, shapes: dict[str, tuple[int, ...]]) -> str:
    with pytest.raises(CheckpointError) as caught:
        check_tensors(plan_of(name), shapes, "here")
    return str(caught.value)


def test_a_missing_tensor_is_named_with_the_nearest_three() -> None:
    shapes = shapes_of("llama")
    del shapes["model.layers.1.mlp.up_proj.weight"]
    line = refused_tensors("llama", shapes)
    assert line.startswith("here: tensor 'model.layers.1.mlp.up_proj.weight' is missing: download")
    near = line.partition("the nearest names in it are ")[2].split(", ")
    assert len(near) == 3
    assert "'model.layers.0.mlp.up_proj.weight'" in near
    assert "embed_tokens.weight' is missing" in refused_tensors("llama", {"wte": (320, 32)})


def test_a_classifier_that_is_neither_there_nor_tied_is_an_error() -> None:
    shapes = shapes_of("llama")
    del shapes["lm_head.weight"]
    line = refused_tensors("llama", shapes)
    assert "'lm_head.weight' is missing, and tie_word_embeddings is not true" in line


def test_biases_where_a_family_has_none_are_refused_by_name() -> None:
    shapes = {**shapes_of("llama"), "model.layers.0.mlp.up_proj.bias": (96,)}
    line = refused_tensors("llama", shapes)
    assert "unknown tensor 'model.layers.0.mlp.up_proj.bias'" in line
    assert "supported on Qwen2's q, k and v projections only" in line
    shapes = {**shapes_of("qwen2"), "model.layers.0.self_attn.o_proj.bias": (32,)}
    assert "o_proj.bias" in refused_tensors("qwen2", shapes)


def test_parts_of_larger_models_are_counted_and_left_out() -> None:
    plan = check_tensors(plan_of("qwen3_5"), shapes_of("qwen3_5"), "here")
    counts = left_out(plan, shapes_of("qwen3_5"))
    assert counts == {"vision tower": 21, "multi-token prediction head": 1}
    plan = check_tensors(plan_of("gemma3_image"), shapes_of("gemma3_image"), "here")
    assert left_out(plan, shapes_of("gemma3_image")) == {"vision tower": 23}
    assert left_out(plan_of("llama"), shapes_of("llama")) == {}
    # What a text model has no part in is not left out but refused.
    shapes = {**shapes_of("llama"), "mtp.fc.weight": (2, 4), "model.visual.x": (1,)}
    assert "unknown tensor 'model.visual.x' and 1 more" in refused_tensors("llama", shapes)


@dataclasses.dataclass(frozen=True)
class Made(Checkpoint):
    """A checkpoint in memory."""

    tensors: Mapping[str, Any]

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every tensor."""
        return {name: values.shape for name, values in self.tensors.items()}

    def read(self, name: str, row0: int = 0, row1: int | None = None) -> common.F32:
        """Rows of a tensor."""
        rows: common.F32 = self.tensors[name][row0:row1]
        return rows


def made(**tensors: Any) -> Made:
    return Made({}, {name: np.asarray(x, dtype=np.float32) for name, x in tensors.items()})


def test_a_head_turns_in_its_first_rows_and_its_gate_not_at_all() -> None:
    """Two heads of six rows, queries and gates in turn; four of each query's rows rotate."""
    both = np.arange(24, dtype=np.float32)[:, None]  # q 0-5, gate 6-11, q 12-17, gate 18-23
    checkpoint = made(q_proj=both)
    query = Source("q_proj", head_dim=6, turned=4, parts=2)
    gate = dataclasses.replace(query, turned=0, part=1)
    turned = [0, 2, 1, 3, 4, 5]
    assert common.load(query, checkpoint)[:, 0].tolist() == [*turned, *(12 + i for i in turned)]
    assert common.load(gate, checkpoint)[:, 0].tolist() == [*range(6, 12), *range(18, 24)]
    assert query.stored_shape((12, 1)) == (24, 1)
    for row0, row1 in ((0, 3), (5, 7), (6, 12), (11, 12), (3, 3)):
        rows = common.load(query, checkpoint, row0, row1)
        assert np.array_equal(rows, common.load(query, checkpoint)[row0:row1])


def test_a_convolution_is_stored_tap_by_tap() -> None:
    checkpoint = made(conv=[[[1, 2, 3]], [[4, 5, 6]]])  # two channels, three taps
    source = Source("conv", taps=3)
    assert common.load(source, checkpoint).tolist() == [1, 4, 2, 5, 3, 6]
    assert source.stored_shape((6,)) == (2, 1, 3)


def test_a_decay_rate_is_the_exponential_of_what_is_stored() -> None:
    source = Source("a", exponential=True)
    assert np.allclose(common.load(source, made(a=[0.0, 1.0, -3.0])), np.exp([0.0, 1.0, -3.0]))
    with pytest.raises(CheckpointError, match="'a': its exponential is too large"):
        common.load(source, made(a=[0.0, 1e3]))
    with pytest.raises(CheckpointError, match=r"'a': 1 of 2 weights are NaN"):
        common.load(source, made(a=[0.0, np.nan]))


def test_only_the_norms_that_multiply_by_1_plus_w_get_the_1() -> None:
    plan = plan_of("qwen3_5")
    one = {name for name, source in plan.sources.items() if source.add_one}
    norms = {name for name in plan.sources if name.endswith("norm")}
    assert norms - one == {f"layers.{n}.delta_norm" for n in (0, 1, 2)}
    assert one <= norms
    assert not any(source.add_one for source in plan_of("qwen3").sources.values())
    gemma = plan_of("gemma2").sources
    assert {name for name, s in gemma.items() if s.add_one} == {
        name for name in gemma if name.endswith("norm")
    }


def test_a_tied_model_with_another_classifier_is_refused() -> None:
    plan = plan_of("llama_gqa")
    embed = plan.sources["embed"].name
    table = np.arange(12).reshape(4, 3)
    check_tied(plan, made(**{embed: table}), "here")
    check_tied(plan, made(**{embed: table, "lm_head.weight": table}), "here")
    for other in (table + 1, table[:3], table.T):
        with pytest.raises(CheckpointError, match="tie_word_embeddings is true, but 'lm_head"):
            check_tied(plan, made(**{embed: table, "lm_head.weight": other}), "here")


@pytest.mark.parametrize("golden", GOLDENS, ids=NAMES)
def test_the_golden_checkpoint_is_the_configuration_of_the_list(
    golden: Golden,
) -> None:
    """Nobody changed one without the other."""
    pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    kind = getattr(transformers, golden.model).config_class
    want = make_golden.configuration(kind, golden).to_dict()
    got = kind.from_pretrained(GOLDEN / golden.name).to_dict()
    loose = {"architectures", "dtype", "transformers_version", "_name_or_path"}
    for values in (want, got):
        for part in (values, values.get("text_config", {}), values.get("vision_config", {})):
            for key in loose & set(part):
                del part[key]
    assert got == want
