# SPDX-License-Identifier: MIT
"""One answer: the logits depend on the model and the tokens, and on nothing else.

    KRAFLA_BUILD=build/avx2-pt .venv/bin/python -m pytest tests/e2e/test_one_answer.py

For each golden model: threads x batches x ways to hold the weights, against the hash of the build's
arithmetic class.  A longer random model crosses segments of attention and a sliding window.
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


@pytest.mark.parametrize(("arch", "kv"), [("llama", "f32"), ("gemma3", "f16"), ("llama", "q8")])
def test_a_long_timeline_has_one_answer(krafla: Krafla, tmp_path: Path, arch: str, kv: str) -> None:
    """Past the window of gemma3's local layers, and so wide and long that one token is shared out.

    700 positions are two segments; from 2^18 multiplications on, a step is more than one thread's.
    """
    model = tmp_path / "model.mlb"
    shape = ("--dim", "192", "--heads", "6", "--layers", "2", "--hidden", "704", "--vocab", "101")
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
