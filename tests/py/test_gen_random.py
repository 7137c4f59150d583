# SPDX-License-Identifier: MIT
"""Random models: finite, repeatable, and sensitive to their input.

.venv/bin/python -m pytest tests/py/test_gen_random.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gen_random
from mlb import quant, reference
from mlb.format import Model, read_model
from mlb.shape import FAMILIES, always_q8

SMALL = ["--dim", "64", "--heads", "2", "--layers", "12", "--vocab", "100"]


@pytest.mark.parametrize("wtype", ["q8", "q4"])
@pytest.mark.parametrize("family", FAMILIES)
def test_logits_are_finite_and_depend_on_every_earlier_token(
    tmp_path: Path, wtype: str, family: str
) -> None:
    path = tmp_path / "m.mlb"
    assert gen_random.main(["--out", str(path), "--wtype", wtype, "--arch", family, *SMALL]) == 0
    model = read_model(path)
    weights = reference.FileWeights(model)
    one, two = (
        reference.forward(model.arch, weights, tokens, reference.Float())
        for tokens in ([5, 6, 7, 8], [9, 6, 7, 8])
    )
    assert np.isfinite(one).all()
    assert 0.3 < one.std() < 15
    assert np.abs(one - two).max(axis=1).min() > 0.01 * one.std()


def test_the_same_options_give_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        out = str(tmp_path / name)
        assert gen_random.main(["--out", out, "--wtype", "q8", "--seed", seed, *SMALL]) == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b != c


def test_integers_have_mean_zero_and_never_reach_minus_128(tmp_path: Path) -> None:
    for wtype, least in (("q8", -127), ("q4", -7)):
        out = tmp_path / f"{wtype}.mlb"
        assert gen_random.main(["--out", str(out), "--wtype", wtype, "--dim", "256"]) == 0
        q = quant.integers(read_model(out).tensors["layers.0.gate"].values)
        assert q.min() == least
        assert abs(float(q.mean(dtype=np.float64))) < 0.02 * float(q.std(dtype=np.float64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dim", "250"], "dim is 250, expected a multiple of 32"),
        (["--dim", "64", "--heads", "3"], "n_heads * head_dim is 63"),
        (["--layers", "0"], "n_layers"),
        (["--heads", "4", "--kv-heads", "3"], "n_heads 4 is not a multiple of n_kv_heads 3"),
    ],
)
def test_shapes_that_the_format_does_not_allow_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    out = tmp_path / "m.mlb"
    assert gen_random.main(["--out", str(out), "--wtype", "q8", *options]) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def written(path: Path, *options: str) -> Model:
    assert gen_random.main(["--out", str(path), "--wtype", "q8", *options]) == 0
    return read_model(path)


def test_gemma_has_a_window_in_all_but_every_sixth_layer(tmp_path: Path) -> None:
    model = written(tmp_path / "m.mlb", "--arch", "gemma3", *SMALL)
    assert model.arch.local_layers == (0, 1, 2, 3, 4, 6, 7, 8, 9, 10)
    assert (model.arch.window, model.arch.local_rope, model.arch.qk_norm) == (512, True, True)
    last = -(2 / 32) * 15  # the exponent of the last of 16 pairs
    for name, base in (("rope_freq", 1e6), ("rope_freq_local", 1e4)):
        assert np.isclose(model.tensors[name].values[-1], base**last, rtol=1e-5)


def test_llama_has_no_window_and_one_rope_base(tmp_path: Path) -> None:
    model = written(tmp_path / "m.mlb", *SMALL)
    assert (model.arch.family, model.arch.window, model.arch.local_layers) == ("llama", 0, ())
    assert np.isclose(model.tensors["rope_freq"].values[-1], 1e4 ** -(30 / 32), rtol=1e-5)
    assert np.isclose(model.arch.attn_scale, 32**-0.5)


EVERY = tuple(range(12))
SPECIAL: dict[str, dict[str, object]] = {
    "mistral": {"window": 512, "local_layers": EVERY},
    "qwen2": {"qkv_bias": True, "window": 0},
    "qwen3": {"qk_norm": True, "qkv_bias": False},
    "qwen3_5": {
        "linear_layers": tuple(n for n in EVERY if n % 4 != 3),
        "linear_v_heads": 2,
        "linear_v_dim": 32,
        "conv_taps": 4,
        "rotary_dim": 8,
        "attn_gate": True,
        "qk_norm": True,
    },
    "smollm3": {"no_rope_layers": (3, 7, 11), "window": 0},
    "gemma2": {
        "window": 512,
        "local_layers": EVERY[::2],
        "local_rope": False,
        "attn_cap": 50.0,
        "logit_cap": 30.0,
        "post_norms": True,
        "qk_norm": False,
    },
}


@pytest.mark.parametrize(("family", "special"), SPECIAL.items(), ids=SPECIAL)
def test_every_family_has_what_distinguishes_it(
    tmp_path: Path, family: str, special: dict[str, object]
) -> None:
    arch = written(tmp_path / "m.mlb", "--arch", family, *SMALL).arch
    assert {key: getattr(arch, key) for key in special} == special


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", ["1", "2", "4"])
def test_a_model_of_few_layers_is_one_too(tmp_path: Path, family: str, layers: str) -> None:
    arch = written(tmp_path / "m.mlb", "--arch", family, *SMALL, "--layers", layers).arch
    assert (arch.family, arch.n_layers) == (family, int(layers))


def test_what_must_be_q8_is_in_a_q4_model(tmp_path: Path) -> None:
    path = tmp_path / "m.mlb"
    made = ["--out", str(path), "--wtype", "q4", "--arch", "qwen3_5", "--scales", "f32", *SMALL]
    assert gen_random.main(made) == 0
    for name, tensor in read_model(path).tensors.items():
        wanted = "f32" if tensor.type == "f32" else "q8_0f" if always_q8(name) else "q4_0f"
        assert (name, tensor.type) == (name, wanted)


def test_a_state_forgets_between_half_and_nothing_in_ten_tokens(tmp_path: Path) -> None:
    tensors = written(tmp_path / "m.mlb", "--arch", "qwen3_5", *SMALL).tensors
    left = [
        np.exp(-tensors[f"layers.{n}.decay_rate"].values * np.log1p(np.exp(bias.values))) ** 10
        for n in EVERY
        if (bias := tensors.get(f"layers.{n}.dt_bias")) is not None
    ]
    assert 0.05 < float(np.median(left)) < 0.95


@pytest.mark.parametrize("untied", [False, True], ids=["tied", "untied"])
def test_untied_gives_a_classifier_of_its_own(tmp_path: Path, *, untied: bool) -> None:
    model = written(tmp_path / "m.mlb", *SMALL, *(["--untied"] if untied else []))
    assert ("classifier" in model.tensors) == untied


def test_scales_are_positive_and_norms_near_one(tmp_path: Path) -> None:
    model = written(tmp_path / "m.mlb", *SMALL)
    scale = model.tensors["layers.3.wq"].values["d"].astype(np.float64) * 73.6 * 8
    assert 0.5 <= round(float(scale.min()), 2) < 0.6
    assert 1.4 < round(float(scale.max()), 2) <= 1.5
    norm = model.tensors["layers.3.attn_norm"].values
    assert abs(float(norm.mean()) - 1) < 0.1
    assert 0.05 < float(norm.std()) < 0.2


def test_rows_do_not_depend_on_how_many_are_made_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gen_random, "SLICE", 64 * 30)  # 100 rows in steps of 30
    model = written(tmp_path / "m.mlb", *SMALL)
    assert model.tensors["embed"].values.shape == (100, 2)


@pytest.mark.parametrize("option", ["--heads", "--kv-heads", "--head-dim", "--hidden"])
@pytest.mark.parametrize("value", ["0", "-1"])
def test_a_shape_of_nothing_is_refused(
    tmp_path: Path, option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gen_random.main(["--out", str(tmp_path / "m.mlb"), "--wtype", "q8", option, value]) == 1
    assert capsys.readouterr().err.startswith("error: options: ")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("seed", ["-1", str(2**63), "9" * 200])
def test_a_seed_that_is_none_is_wrong_usage(tmp_path: Path, seed: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        gen_random.main(["--out", str(tmp_path / "m.mlb"), "--wtype", "q8", "--seed", seed])
