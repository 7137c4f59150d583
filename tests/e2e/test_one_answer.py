# SPDX-License-Identifier: MIT
"""One answer: the logits depend on the model and the tokens, and on nothing else.

    KRAFLA_BUILD=build/avx2-pt .venv/bin/python -m pytest tests/e2e/test_one_answer.py

For each golden model: threads x batches x ways to hold the weights, against the hash of the build's
arithmetic class; smaller caches are compared among themselves.  A longer random model per family
crosses segments of attention and a sliding window.  What a session held before: test_prefix.py.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import convert
import gen_random
import make_golden

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conftest import Krafla

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
NAMES = sorted(path.parent.name for path in GOLDEN.glob("*/config.json"))
THREADS = ("1", "2", "3", "7")
BATCHES = ("1", "5", "128")
KEPT = ((), ("--no-pack",), ("--pack-cache",), ("--pack-cache",))  # the cache: written, then read


def logits_hash(
    krafla: Krafla, out: Path, model: Path, tokens: Sequence[int], *options: str
) -> str:
    """Return the SHA-256 of what --dump-logits writes."""
    listed = ",".join(map(str, tokens))
    done = krafla("ml_run", model, "--tokens", listed, "--dump-logits", out, *options)
    assert done.returncode == 0, done.stderr
    return hashlib.sha256(out.read_bytes()).hexdigest()


def every_way() -> list[tuple[str, ...]]:
    """Return the options of every run, the two with a pack cache in order."""
    return [
        ("-t", threads, "--batch", batch, *kept)
        for kept, threads, batch in itertools.product(KEPT, THREADS, BATCHES)
    ]


@pytest.mark.parametrize("wtype", ["q8", "q4"])
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_model_has_one_answer(
    krafla: Krafla, build_dir: Path, tmp_path: Path, name: str, wtype: str
) -> None:
    model = tmp_path / "model.mlb"
    assert convert.main(["hf", str(GOLDEN / name), str(model), "--wtype", wtype]) == 0
    tokens = json.loads((GOLDEN / name / "tokens.json").read_text())
    hashes = json.loads((GOLDEN / name / "hashes.json").read_text())
    want = hashes[wtype][make_golden.arithmetic_class(build_dir)]
    got = {
        options: logits_hash(krafla, tmp_path / "logits", model, tokens, *options)
        for options in every_way()
    }
    assert {options: digest for options, digest in got.items() if digest != want} == {}
    assert len(list(tmp_path.glob("model.pk*"))) == 1


@pytest.mark.parametrize("kv", ["f16", "q8"])
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_model_has_one_answer_with_a_smaller_cache(
    krafla: Krafla, tmp_path: Path, name: str, kv: str
) -> None:
    model = tmp_path / "model.mlb"
    assert convert.main(["hf", str(GOLDEN / name), str(model), "--wtype", "q8"]) == 0
    tokens = json.loads((GOLDEN / name / "tokens.json").read_text())
    dump = tmp_path / "logits"
    ways = (("-t", "1"), ("-t", "2", "--batch", "1"), ("-t", "3", "--batch", "5", "--no-pack"))
    got = {logits_hash(krafla, dump, model, tokens, "--kv", kv, *options) for options in ways}
    assert len(got) == 1


LONG = (
    ("llama", "f32"),
    ("llama", "q8"),
    ("mistral", "q8"),
    ("qwen2", "f16"),
    ("qwen3", "f32"),
    ("qwen3_5", "f32"),
    ("qwen3_5", "q8"),
    ("smollm3", "f16"),
    ("gemma2", "q8"),
    ("gemma3", "f16"),
)


@pytest.mark.parametrize(("arch", "kv"), LONG)
def test_a_long_timeline_has_one_answer(krafla: Krafla, tmp_path: Path, arch: str, kv: str) -> None:
    """Past the window of local layers, and so wide and long that one token is shared out.

    700 positions are two segments; from 2^18 multiplications on, a step is more than one thread's.
    """
    model = tmp_path / "model.mlb"
    layers = "4" if arch in {"qwen3_5", "smollm3"} else "2"  # their fourth layer is special
    shape = (
        "--dim",
        "192",
        "--heads",
        "6",
        "--layers",
        layers,
        "--hidden",
        "704",
        "--vocab",
        "101",
    )
    made = ("--out", str(model), "--arch", arch, "--wtype", "q8", *shape)
    assert gen_random.main([*made, "--kv-heads", "2", "--head-dim", "32"]) == 0
    tokens = [(i * i + 7 * i) % 101 for i in range(700)]
    ways = (
        ("-t", "1"),
        ("-t", "3", "--batch", "1", "--no-pack"),
        ("-t", "7", "--batch", "100"),
    )
    got = {
        logits_hash(krafla, tmp_path / "logits", model, tokens, "--kv", kv, *options)
        for options in ways
    }
    assert len(got) == 1
