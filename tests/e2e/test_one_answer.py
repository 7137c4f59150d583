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
    from collections.abc import Iterable, Sequence

    from tests.conftest import Krafla, NotRun

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


def every_way(*, few: bool) -> list[tuple[str, ...]]:
    """Return the options of every run, the two with a pack cache in order.

    few: for an emulator, each of them once; how threads and batches meet is no matter of kernels.
    """
    ways: Iterable[tuple[tuple[str, ...], str, str]] = itertools.product(KEPT, THREADS, BATCHES)
    if few:
        ways = zip(KEPT, THREADS, (*BATCHES, BATCHES[-1]), strict=True)
    return [("-t", threads, "--batch", batch, *kept) for kept, threads, batch in ways]


def tokens_of(name: str) -> list[int]:
    tokens: list[int] = json.loads((GOLDEN / name / "tokens.json").read_text())
    return tokens


@pytest.fixture
def model(tmp_path: Path, name: str, wtype: str) -> Path:
    """Return a golden model, converted."""
    path = tmp_path / "model.mlb"
    assert convert.main(["hf", str(GOLDEN / name), str(path), "--wtype", wtype]) == 0
    return path


@pytest.fixture
def want(build_dir: Path, name: str, wtype: str) -> str:
    """Return the hash of its logits in the build's class."""
    hashes = json.loads((GOLDEN / name / "hashes.json").read_text())
    return str(hashes[wtype][make_golden.arithmetic_class(build_dir)])


@pytest.mark.parametrize("wtype", ["q8", "q4"])
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_model_has_one_answer(
    krafla: Krafla, emulator: list[str], model: Path, name: str, want: str
) -> None:
    got = {
        options: logits_hash(krafla, model.with_name("logits"), model, tokens_of(name), *options)
        for options in every_way(few=bool(emulator))
    }
    assert {options: digest for options, digest in got.items() if digest != want} == {}
    assert len(list(model.parent.glob("model.pk*"))) == 1


@pytest.mark.parametrize("kv", ["f16", "q8"])
@pytest.mark.parametrize("wtype", ["q8"])
@pytest.mark.parametrize("name", NAMES)
def test_a_golden_model_has_one_answer_with_a_smaller_cache(
    krafla: Krafla, model: Path, name: str, kv: str
) -> None:
    dump, tokens = model.with_name("logits"), tokens_of(name)
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
EMULATED = (("llama", "q8"), ("qwen3_5", "f32"), ("gemma3", "f16"))  # minutes each, and all kinds


@pytest.fixture
def long_model(emulator: list[str], not_run: NotRun, tmp_path: Path, arch: str, kv: str) -> Path:
    """Return a random model so wide that one token is shared out."""
    if emulator and (arch, kv) not in EMULATED:
        not_run("an emulator takes minutes")
    path = tmp_path / "model.mlb"
    layers = "4" if arch in {"qwen3_5", "smollm3"} else "2"  # their fourth layer is special
    shape = f"--layers {layers} --dim 192 --hidden 704 --heads 6 --kv-heads 2 --head-dim 32"
    options = f"--wtype q8 --arch {arch} {shape} --vocab 101"
    assert gen_random.main(["--out", str(path), *options.split()]) == 0
    return path


@pytest.mark.parametrize(("arch", "kv"), LONG)
def test_a_long_timeline_has_one_answer(krafla: Krafla, long_model: Path, kv: str) -> None:
    """Past the window of local layers; 700 positions are two segments.

    From 2^18 multiplications on, a step is more than one thread's.
    """
    tokens = [(i * i + 7 * i) % 101 for i in range(700)]
    dump = long_model.with_name("logits")
    ways = (("-t", "1"), ("-t", "3", "--batch", "1", "--no-pack"), ("-t", "7", "--batch", "100"))
    got = {logits_hash(krafla, dump, long_model, tokens, "--kv", kv, *options) for options in ways}
    assert len(got) == 1
