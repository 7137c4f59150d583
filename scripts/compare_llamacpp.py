# SPDX-License-Identifier: MIT
"""Measure Krafla and llama.cpp side by side: same machine, same run, same weight formats.

    python3 scripts/compare_llamacpp.py --rounds 5 --json build/compare.json

Builds llama.cpp from the newest llama-cpp-python source distribution (once, under build/peers),
makes the models, then alternates the programs round by round and prints the ratio of the medians.
Two models: the shape of Qwen2.5-0.5B with random weights, and the real SmolLM2-135M-Instruct
(scripts/fetch_models.py). Prefill is 128 tokens from an empty context; decode is 128 tokens after
those 128. Takes about 10 minutes for the peer's builds and 2 minutes per round on 2 cores.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import fetch_models
import gguf_to_hf
import isas
from krafla_release import build
from krafla_release.project import ROOT, ReleaseError, output, unpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PEERS = ROOT / "build" / "peers"
MODELS = ROOT / "build" / "compare"
FORMATS = ("q4_0", "q8_0")
TOKENS = 128

# The flags that bring llama.cpp to the level of one of our instruction sets.
LEVELS: dict[str, tuple[str, ...]] = {
    "avx512vnni": ("-DGGML_NATIVE=ON",),
    "avx2": (
        "-DGGML_NATIVE=OFF",
        "-DGGML_SSE42=ON",
        "-DGGML_AVX=ON",
        "-DGGML_AVX2=ON",
        "-DGGML_FMA=ON",
        "-DGGML_F16C=ON",
        "-DGGML_BMI2=ON",
    ),
}


@dataclasses.dataclass(frozen=True)
class Shape:
    """A Llama architecture whose weights are random: speed does not depend on their values."""

    dim: int
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    vocab: int


QWEN25_05B = Shape(dim=896, hidden=4864, layers=24, heads=14, kv_heads=2, vocab=151936)


# ---- the peer -----------------------------------------------------------------------------------


def peer_source() -> Path:
    """Return the llama.cpp tree of the newest llama-cpp-python source distribution."""
    found = sorted(PEERS.glob("llama_cpp_python-*/vendor/llama.cpp"))
    if found:
        return found[-1]
    PEERS.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip"]
    output(*pip, "install", "-q", "scikit-build-core")
    options = ["-q", "--no-deps", "--no-binary=llama-cpp-python", "--no-build-isolation"]
    output(*pip, "download", *options, "-d", PEERS, "llama-cpp-python")
    unpack(next(PEERS.glob("llama_cpp_python-*.tar.gz")), PEERS)
    return next(PEERS.glob("llama_cpp_python-*/vendor/llama.cpp"))


def peer_build(level: str) -> Path:
    """Build llama-bench and llama-quantize for one level and return their directory."""
    directory = PEERS / level
    if not (directory / "bin" / "llama-bench").exists():
        options = ["LLAMA_CURL", "LLAMA_BUILD_TESTS", "LLAMA_BUILD_EXAMPLES"]
        options += ["LLAMA_BUILD_SERVER", "BUILD_SHARED_LIBS"]
        flags = [f"-D{name}=OFF" for name in options] + list(LEVELS[level])
        release = "-DCMAKE_BUILD_TYPE=Release"
        output("cmake", "-S", peer_source(), "-B", directory, release, *flags)
        targets = ["llama-bench", "llama-quantize"]
        output("cmake", "--build", directory, "--target", *targets, "-j", "2")
    return directory / "bin"


# ---- the models ---------------------------------------------------------------------------------


def random_tensors(shape: Shape) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield (GGUF name, shape) of every tensor of a Llama model with a tied classifier."""
    head_dim = shape.dim // shape.heads
    kv_dim = shape.kv_heads * head_dim
    yield "token_embd.weight", (shape.vocab, shape.dim)
    yield "output_norm.weight", (shape.dim,)
    for layer in range(shape.layers):
        prefix = f"blk.{layer}."
        yield prefix + "attn_norm.weight", (shape.dim,)
        yield prefix + "attn_q.weight", (shape.dim, shape.dim)
        yield prefix + "attn_k.weight", (kv_dim, shape.dim)
        yield prefix + "attn_v.weight", (kv_dim, shape.dim)
        yield prefix + "attn_output.weight", (shape.dim, shape.dim)
        yield prefix + "ffn_norm.weight", (shape.dim,)
        yield prefix + "ffn_gate.weight", (shape.hidden, shape.dim)
        yield prefix + "ffn_up.weight", (shape.hidden, shape.dim)
        yield prefix + "ffn_down.weight", (shape.dim, shape.hidden)


def random_blocks(rng: np.random.Generator, shape: tuple[int, ...], fmt: str) -> np.ndarray:
    """Random quantized rows in GGML's own block layout: uint8 [rows, bytes of a row]."""
    rows, cols = shape
    payload = {"q4_0": 16, "q8_0": 32}[fmt]
    blocks = np.empty((rows, cols // 32, 2 + payload), np.uint8)
    scale = rng.uniform(0.5, 1.0, (rows, cols // 32)) * (0.1 / math.sqrt(cols))
    blocks[..., :2] = scale.astype("<f2")[..., None].view(np.uint8)
    blocks[..., 2:] = rng.integers(0, 256, (rows, cols // 32, payload), np.uint8)
    return blocks.reshape(rows, -1)


def write_random_gguf(path: Path, shape: Shape, fmt: str) -> None:
    """Write the peer's copy of the random model, without a tokenizer."""
    import gguf

    kind = {"q4_0": gguf.GGMLQuantizationType.Q4_0, "q8_0": gguf.GGMLQuantizationType.Q8_0}[fmt]
    writer = gguf.GGUFWriter(path.with_suffix(".tmp"), "llama")
    writer.add_vocab_size(shape.vocab)
    writer.add_context_length(4096)
    writer.add_embedding_length(shape.dim)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.hidden)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    writer.add_rope_dimension_count(shape.dim // shape.heads)
    writer.add_tokenizer_model("no_vocab")
    rng = np.random.default_rng(1)
    for name, dims in random_tensors(shape):
        if len(dims) == 1:
            writer.add_tensor(name, np.ones(dims, np.float32))
        else:
            writer.add_tensor(name, random_blocks(rng, dims, fmt), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    path.with_suffix(".tmp").rename(path)


def random_models(fmt: str) -> tuple[Path, Path]:
    """Return (our file, the peer's file) of the Qwen2.5-0.5B shape."""
    ours, theirs = MODELS / f"qwen2.5-0.5b-{fmt}.mlb", MODELS / f"qwen2.5-0.5b-{fmt}.gguf"
    shape = QWEN25_05B
    if not ours.exists():
        arguments = {
            "--out": ours,
            "--wtype": fmt[:2],
            "--dim": shape.dim,
            "--hidden": shape.hidden,
            "--layers": shape.layers,
            "--heads": shape.heads,
            "--kv-heads": shape.kv_heads,
            "--vocab": shape.vocab,
            "--max-seq": 4096,
        }
        words = [str(word) for pair in arguments.items() for word in pair]
        output(sys.executable, ROOT / "tools" / "gen_random.py", *words)
    if not theirs.exists():
        write_random_gguf(theirs, shape, fmt)
    return ours, theirs


def real_models(fmt: str, quantize: Path) -> tuple[Path, Path]:
    """Return (our file, the peer's file) of SmolLM2-135M-Instruct."""
    ours, theirs = MODELS / f"smollm2-135m-{fmt}.mlb", MODELS / f"smollm2-135m-{fmt}.gguf"
    source = ROOT / "models" / "smollm2-135m-instruct"
    fetch_models.fetch(source.name)
    if not ours.exists():
        convert = ROOT / "tools" / "convert.py"
        output(sys.executable, convert, "hf", source, ours, "--wtype", fmt[:2])
    if not theirs.exists():
        original = MODELS / "smollm2-135m-original.gguf"
        if not original.exists():
            part = original.with_suffix(".tmp")
            fetch_models.write_gguf(fetch_models.SOURCES[source.name], part, MODELS)
            part.replace(original)
        part = theirs.with_suffix(".tmp")
        output(quantize, "--allow-requantize", "--pure", original, part, fmt.upper())
        part.replace(theirs)
    return ours, theirs


# ---- measuring ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of the table: what is run against what."""

    model: str
    fmt: str
    level: str
    threads: int
    ours: Path
    theirs: Path


def row_of(level: str) -> isas.Isa:
    """Return our row of a level."""
    return next(isa for isa in isas.load(build.host_arch()) if isa.name == level)


def measure_ours(case: Case) -> dict[str, float]:
    """Tokens per second of one ml_bench process."""
    program = build.build_dir(row_of(case.level)) / "ml_bench"
    words = [program, case.ours, "-n", TOKENS, "-t", case.threads, "-r", 1, "--json"]
    done = json.loads(output(*map(str, words)))
    return {name: float(done[name]["median"]) for name in ("prefill", "decode")}


def measure_theirs(case: Case) -> dict[str, float]:
    """Tokens per second of two llama-bench processes: prefill, and decode at the same depth."""
    program = PEERS / case.level / "bin" / "llama-bench"
    common = ["-m", case.theirs, "-t", case.threads, "-r", 1, "-o", "json"]
    result = {}
    for name, words in (
        ("prefill", ["-p", TOKENS, "-n", 0]),
        ("decode", ["-p", 0, "-n", TOKENS, "-d", TOKENS]),
    ):
        done = json.loads(output(*map(str, [program, *common, *words])))
        result[name] = float(done[0]["avg_ts"])
    return result


def table(samples: dict[Case, dict[str, list[tuple[float, float]]]]) -> Iterator[str]:
    """Yield the lines of the Markdown table: medians of both, and their ratio."""
    yield "| model | format | build | threads | test | Krafla tok/s | llama.cpp tok/s | ratio |"
    yield "|---|---|---|---|---|---|---|---|"
    for case, tests in samples.items():
        for test, pairs in tests.items():
            ours = statistics.median(pair[0] for pair in pairs)
            theirs = statistics.median(pair[1] for pair in pairs)
            yield (
                f"| {case.model} | {case.fmt.upper()} | {case.level} | {case.threads} "
                f"| {test} {TOKENS} | {ours:.1f} | {theirs:.1f} | {ours / theirs:.2f} |"
            )


def collect_cases(levels: Sequence[str], threads: Sequence[int]) -> list[Case]:
    """Build everything and return the rows."""
    MODELS.mkdir(parents=True, exist_ok=True)
    for level in levels:
        peer_build(level)
        build.make(row_of(level), "all")
    quantize = PEERS / levels[0] / "bin" / "llama-quantize"
    cases = []
    for fmt in FORMATS:
        for model, (ours, theirs) in (
            ("Qwen2.5-0.5B shape", random_models(fmt)),
            ("SmolLM2-135M", real_models(fmt, quantize)),
        ):
            cases += [
                Case(model, fmt, level, count, ours, theirs)
                for level in levels
                for count in threads
            ]
    return cases


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; 0 if the table was printed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="samples of every cell (default 5)")
    parser.add_argument("--levels", nargs="+", choices=LEVELS, default=list(LEVELS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--json", type=Path, help="also write every sample to this file")
    args = parser.parse_args(argv)
    if args.rounds < 1 or min(args.threads) < 1:
        parser.error("--rounds and --threads are at least 1")

    try:
        cases = collect_cases(args.levels, args.threads)
        samples: dict[Case, dict[str, list[tuple[float, float]]]] = {
            case: {"prefill": [], "decode": []} for case in cases
        }
        for _ in range(args.rounds):
            for case in cases:
                ours, theirs = measure_ours(case), measure_theirs(case)
                for test in ours:
                    samples[case][test].append((ours[test], theirs[test]))
    except (ReleaseError, gguf_to_hf.GgufError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if args.json:
        rows = [
            {"case": dataclasses.asdict(case), "samples": tests} for case, tests in samples.items()
        ]
        args.json.write_text(json.dumps(rows, default=str, indent=1))
    print(f"{len(next(iter(samples.values()))['prefill'])} interleaved rounds, medians")
    for line in table(samples):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
