# SPDX-License-Identifier: MIT
"""Measure Krafla and llama.cpp side by side: same machine, same run, same weight formats.

    .venv/bin/python scripts/compare_llamacpp.py --rounds 5 --json RESULT.json
    .venv/bin/python scripts/compare_llamacpp.py --from RESULT.json --update docs/comparison.md
    .venv/bin/python scripts/compare_llamacpp.py --from RESULT.json --plot docs/comparison.svg

The first makes the models, builds both programs at every level (scripts/peers.py; ours as it is
released), alternates them round by round and prints the ratios of the medians, the share of this
machine's limits that ml_bench saw in the same run, and the ratios to ik_llama.cpp. The file is
written after every round. The others do not measure: they report and draw what a file holds.

Two models: the shape of Qwen2.5-0.5B with random weights, and, but for the slowest peers, the real
SmolLM2-135M-Instruct (scripts/fetch_models.py). Prefill is 128 tokens, decode 128 or fewer, both
from an empty context, and with AVX-512 once more after 2048 tokens.
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

import bench_compare
import fetch_models
import gguf_to_hf
import isas
import peers
import plot_comparison
from krafla_release import build
from krafla_release.project import ROOT, ReleaseError, output

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

MODELS = ROOT / "build" / "compare"
FORMATS = ("q4_0", "q8_0")
TESTS = ("prefill", "decode")
QWEN, SMOLLM = "Qwen2.5-0.5B shape", "SmolLM2-135M"
PREFILL_TOKENS = 128
DEPTH, DEPTH_DECODE_TOKENS = 2048, 64
# At depth: our type of the KV cache, and the peer's; its default is f16, ours f32.
CACHES = {"f32": "f16", "q8": "q8_0"}
# Between them --update writes.
MARKS = ("<!-- compare_llamacpp: begin -->", "<!-- compare_llamacpp: end -->")


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


def real_models(fmt: str) -> tuple[Path, Path]:
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
        quantize = peers.program(peers.LEVELS["avx2"], "llama-quantize")
        output(quantize, "--allow-requantize", "--pure", original, part, fmt.upper())
        part.replace(theirs)
    return ours, theirs


# ---- measuring ----------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Case:
    """What is run against what; the fields are those of a row of the JSON."""

    model: str
    format: str
    level: str
    threads: int
    depth: int
    kv: str
    decode: int  # tokens

    def tokens(self, test: str) -> int:
        """Return how many tokens a test has."""
        return PREFILL_TOKENS if test == "prefill" else self.decode

    def name(self, test: str) -> str:
        """Return what a table calls the test."""
        place = f" at {self.depth}, {self.kv} cache" if self.depth else ""
        return f"{test} {self.tokens(test)}{place}"


@dataclasses.dataclass
class Samples:
    """All rounds of one test of one case: tokens per second, and percent of the limit."""

    ours: list[float] = dataclasses.field(default_factory=list)
    theirs: list[float] = dataclasses.field(default_factory=list)
    percent: list[float] = dataclasses.field(default_factory=list)

    @property
    def ratio(self) -> float:
        """Return the ratio of the medians."""
        return statistics.median(self.ours) / statistics.median(self.theirs)


Results = dict[Case, dict[str, Samples]]


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Everything that a file holds."""

    peer: str  # the distribution: "llama_cpp_python-0.3.36"
    cpu: str
    date: str
    results: Results


def row_of(level: str) -> isas.Isa:
    """Return our row of a level."""
    rows = [isa for isa in isas.load(build.host_arch(), built=True) if isa.name == level]
    if not rows:
        raise ReleaseError(f"runtime/kernels/isas.txt: {level} has no kernels on this machine")
    return rows[0]


def measure_ours(case: Case, model: Path) -> dict[str, tuple[float, float]]:
    """Return (tokens per second, percent of the limit) of each test: one ml_bench process."""
    words: list[str | Path | int] = [build.build_dir(row_of(case.level)) / "ml_bench", model]
    words += ["-n", case.decode, "--prefill", PREFILL_TOKENS, "--depth", case.depth]
    words += ["--kv", case.kv, "-t", case.threads, "-r", 1, "--json"]
    cell = json.loads(output(*map(str, words)))["results"][0]
    return {
        "prefill": (cell["prefill"]["median"], cell["prefill"]["percent_of_peak"]),
        "decode": (cell["decode"]["median"], cell["decode"]["percent_of_read"]),
    }


def measure_theirs(case: Case, model: Path) -> dict[str, float]:
    """Return tokens per second of each test: one llama-bench process."""
    level = peers.LEVELS[case.level]
    words: list[str | Path | int] = [peers.program(level), "-m", model, "-t", case.threads]
    words += ["-r", 1, "-p", PREFILL_TOKENS, "-n", case.decode, "-d", case.depth, "-o", "json"]
    words += ["-ctk", CACHES[case.kv], "-ctv", CACHES[case.kv]]
    words += ["--no-warmup"] if level.slow else []
    done = json.loads(output(*map(str, words)))
    return {"prefill" if row["n_prompt"] else "decode": float(row["avg_ts"]) for row in done}


def collect_cases(
    levels: Sequence[str], threads: Sequence[int], depths: Sequence[int]
) -> list[Case]:
    """Return the rows: every level and format from an empty context; the fastest at depth."""
    cases = []
    for level in map(peers.LEVELS.__getitem__, levels):
        for fmt in FORMATS:
            for model in (QWEN,) if level.slow else (QWEN, SMOLLM):
                cases += [
                    Case(model, fmt, level.name, count, 0, "f32", level.decode)
                    for count in threads
                    if 0 in depths
                ]
        if level.name == "avx512vnni" and DEPTH in depths:
            cases += [
                Case(QWEN, "q4_0", level.name, count, DEPTH, kv, DEPTH_DECODE_TOKENS)
                for kv in CACHES
                for count in threads
            ]
    return cases


def build_all(cases: Sequence[Case]) -> dict[tuple[str, str], tuple[Path, Path]]:
    """Build both programs of every level and return (our file, theirs) by model and format."""
    MODELS.mkdir(parents=True, exist_ok=True)
    for level in dict.fromkeys(case.level for case in cases):
        peers.program(peers.LEVELS[level])
        row = row_of(level)
        build.make(row, str((build.build_dir(row) / "ml_bench").relative_to(ROOT)))
    made = {QWEN: random_models, SMOLLM: real_models}
    wanted = dict.fromkeys((case.model, case.format) for case in cases)
    return {(model, fmt): made[model](fmt) for model, fmt in wanted}


def measure_round(
    number: int, results: Results, files: dict[tuple[str, str], tuple[Path, Path]]
) -> None:
    """Measure every case once; who begins changes from round to round."""
    for case, tests in results.items():
        ours, theirs = files[case.model, case.format]
        if number % 2:
            peer = measure_theirs(case, theirs)
            mine = measure_ours(case, ours)
        else:
            mine = measure_ours(case, ours)
            peer = measure_theirs(case, theirs)
        for test, samples in tests.items():
            samples.ours.append(mine[test][0])
            samples.percent.append(mine[test][1])
            samples.theirs.append(peer[test])


# ---- the file -----------------------------------------------------------------------------------


def write(path: Path, comparison: Comparison) -> None:
    """Write a comparison as JSON, one row per line."""
    rows = [
        json.dumps(dataclasses.asdict(case) | {"test": test} | dataclasses.asdict(samples))
        for case, tests in comparison.results.items()
        for test, samples in tests.items()
    ]
    head = {"peer": comparison.peer, "cpu": comparison.cpu, "date": comparison.date}
    text = json.dumps(head)[:-1] + ', "rows": [\n' + ",\n".join(rows) + "\n]}\n"
    path.write_text(text, encoding="utf-8")


def text_of(value: object, among: Collection[str] | None = None) -> str:
    """Return a name of a file, if it is one line and among those that are known."""
    if not isinstance(value, str) or not value.isprintable() or (among and value not in among):
        raise ValueError(f"{value!a} is no name that is written there")
    return value


def count_of(value: object) -> int:
    """Return a count of a file."""
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"{value!a} is no count")
    return value


def samples_of(row: dict[str, list[float]]) -> Samples:
    """Return what was measured: as many numbers of each, all with a ratio."""
    lists = [row[field.name] for field in dataclasses.fields(Samples)]
    for values in lists:
        if not isinstance(values, list) or len(values) != len(lists[0]):
            raise ValueError("not as many samples of each")
        for value in values:
            if not bench_compare.is_plausible(value):
                raise ValueError(f"{value!a} is no sample")
    return Samples(*lists)


def case_of(row: dict[str, object]) -> Case:
    """Return which case a row is of."""
    return Case(
        model=text_of(row["model"]),
        format=text_of(row["format"], FORMATS),
        level=text_of(row["level"], peers.LEVELS),
        threads=count_of(row["threads"]),
        depth=count_of(row["depth"]),
        kv=text_of(row["kv"], CACHES),
        decode=count_of(row["decode"]),
    )


def read(path: Path) -> Comparison:
    """Read what write() has written."""
    results: Results = {}
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        for row in document["rows"]:
            test = text_of(row["test"], TESTS)
            results.setdefault(case_of(row), {})[test] = samples_of(row)
        peer, cpu, date = (text_of(document[name]) for name in ("peer", "cpu", "date"))
        return Comparison(peer, cpu, date, results)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ReleaseError(f"{path}: not a file of compare_llamacpp.py --json: {error}") from None


# ---- the report ---------------------------------------------------------------------------------


def lines_of(results: Results) -> Iterator[tuple[Case, str, Samples]]:
    """Yield every test that has been measured."""
    for case, tests in results.items():
        for test, samples in tests.items():
            if samples.ours:
                yield case, test, samples


def table(results: Results) -> Iterator[str]:
    """Yield the Markdown table: medians of both, their ratio, and our share of the limit."""
    yield "| model | format | build | threads | test | Krafla tok/s | llama.cpp | ratio | limit |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for case, test, samples in lines_of(results):
        ours, theirs = statistics.median(samples.ours), statistics.median(samples.theirs)
        share = statistics.median(samples.percent)
        wall = "peak" if test == "prefill" else "memory"
        yield (
            f"| {case.model} | {case.format.upper()} | {case.level} | {case.threads} "
            f"| {case.name(test)} | {ours:.1f} | {theirs:.1f} | {samples.ratio:.2f} "
            f"| {share:.0f}% of {wall} |"
        )


def ik_table(results: Results) -> Iterator[str]:
    """Yield the table of ratios to ik_llama.cpp: ours to llama.cpp over its own to llama.cpp."""
    yield "| format | build | threads | test | to llama.cpp | ik_llama.cpp's | to ik_llama.cpp |"
    yield "|---|---|---|---|---|---|---|"
    for case, test, samples in lines_of(results):
        theirs = peers.ik_ratio(case.level, case.format, test, case.threads)
        if case.model == QWEN and not case.depth and theirs:
            yield (
                f"| {case.format.upper()} | {case.level} | {case.threads} | {case.name(test)} "
                f"| {samples.ratio:.2f} | {theirs:.2f} | {samples.ratio / theirs:.2f} |"
            )


def report(comparison: Comparison) -> str:
    """Return the table, and that of ik_llama.cpp where it says something, with what they are."""
    results = comparison.results
    rounds = max((len(samples.ours) for _, _, samples in lines_of(results)), default=0)
    where = f"{comparison.cpu}, {comparison.date}; llama.cpp of {comparison.peer}"
    text = f"Medians of {rounds} interleaved rounds on {where}:\n\n" + "\n".join(table(results))
    head, rule, *lines = ik_table(results)
    if lines:
        text += f"\n\nBy way of {peers.IK_SOURCE}:\n\n" + "\n".join([head, rule, *lines])
    return text


def update(page: Path, text: str) -> None:
    """Put the text between the two marks of a page."""
    begin, end = MARKS
    head, found, rest = page.read_text(encoding="utf-8").partition(begin)
    if not found or end not in rest:
        raise ReleaseError(f"{page}: no lines {begin} and {end}, between which the tables belong")
    tail = rest[rest.index(end) :]
    page.write_text(f"{head}{begin}\n{text}\n{tail}", encoding="utf-8")


def bars(results: Results) -> list[plot_comparison.Bar]:
    """Return what the chart shows: one thread, the random model, from an empty context."""
    shown = [
        plot_comparison.Bar(
            case.level,
            case.format,
            test,
            samples.ratio,
            peers.ik_ratio(case.level, case.format, test, case.threads),
        )
        for case, test, samples in lines_of(results)
        if case.model == QWEN and case.threads == 1 and not case.depth
    ]
    if {bar.test for bar in shown} != set(TESTS):
        raise ReleaseError(f"nothing to draw: one thread on the {QWEN} was not measured")
    return shown


def measure(args: argparse.Namespace) -> Comparison:
    """Build, then measure round by round."""
    cases = collect_cases(args.levels, args.threads, args.depths)
    files = build_all(cases)
    words = ["--kernels", "--only", "rmsnorm*", "-r", "1", "--json"]  # names the machine
    head = json.loads(output(build.build_dir(row_of(cases[0].level)) / "ml_bench", *words))
    results = {case: {test: Samples() for test in TESTS} for case in cases}
    comparison = Comparison(peers.version(), head["cpu"], head["date"][:10], results)
    for number in range(args.rounds):
        print(f"round {number + 1} of {args.rounds}", file=sys.stderr)
        measure_round(number, results, files)
        if args.json:
            write(args.json, comparison)
    return comparison


def main(argv: Sequence[str] | None = None) -> int:
    """Run the comparison; 0 if the tables were printed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5, help="samples of every cell (default 5)")
    parser.add_argument("--levels", nargs="+", choices=peers.LEVELS, default=list(peers.LEVELS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--depths", nargs="+", type=int, choices=[0, DEPTH], default=[0, DEPTH])
    parser.add_argument("--json", type=Path, help="write every sample to this file")
    parser.add_argument("--from", dest="source", type=Path, help="report this file, do not measure")
    parser.add_argument("--update", type=Path, help="renew the tables of this Markdown page")
    parser.add_argument("--plot", type=Path, help="draw one thread's ratios as this SVG")
    args = parser.parse_args(argv)
    if args.rounds < 1 or min(args.threads) < 1:
        parser.error("--rounds and --threads are at least 1")
    if 0 not in args.depths and "avx512vnni" not in args.levels:
        parser.error("only avx512vnni is measured at depth")
    if args.json and not args.json.parent.is_dir():
        parser.error(f"--json: there is no folder {args.json.parent}")

    try:
        comparison = read(args.source) if args.source else measure(args)
        print(report(comparison))
        if args.update:
            update(args.update, report(comparison))
        if args.plot:
            plot_comparison.draw(args.plot, bars(comparison.results))
    except (ReleaseError, gguf_to_hf.GgufError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {error.filename or 'output'}: {error.strerror}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
