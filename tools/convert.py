# SPDX-License-Identifier: MIT
"""Convert a checkpoint to an .mlb model file.

    python3 tools/convert.py hf ./SmolLM2-135M-Instruct model.mlb --wtype q8
    python3 tools/convert.py llama2c stories42M.bin stories.mlb --wtype q4
    python3 tools/convert.py gguf model.gguf model.mlb --tokenizer model.mlt

What the runtime could not compute is refused by name.  The file is written beside its final name
and gets that name only after it was read back and the first layers computed the same logits from
it as from the checkpoint.  The same checkpoint gives the same file on every machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import os
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import mlb  # first: it says what to do if numpy is missing

# isort: split
import numpy as np

from mlb import arch, gguf_tokenizer, quant, tokenizer
from mlb.arch import llama2c
from mlb.arch.common import SLICE, Plan, check_tensors, check_tied, left_out, load, load_blocks
from mlb.arch.config import Config
from mlb.chat import Recognised, recognise_beside
from mlb.chat_templates import NAMES as CHATS
from mlb.checkpoint import (
    Checkpoint,
    CheckpointError,
    check_directory,
    open_llama2c,
    open_safetensors,
    read_json,
    some,
)
from mlb.envelope import AGAIN, FormatError, check_target, one_line, write_failure
from mlb.format import (
    TensorSource,
    read_model,
    write_model,
)
from mlb.generation import recommended, stop_ids, unreadable_tokens
from mlb.gguf import read_gguf
from mlb.gguf_families import generation_of
from mlb.gguf_model import open_gguf, settle_types
from mlb.reference import CheckpointWeights, FileWeights, Float, forward
from mlb.shape import always_q8, check_arch, expected_tensors, tensor_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

CLASSES = ("emb", "cls", "qk", "v", "o", "up", "down")  # of matrices, for --q8
CLASS_OF = {
    "embed": "emb",
    "classifier": "cls",
    "wq": "qk",
    "wk": "qk",
    "wv": "v",
    "wg": "qk",
    "wqkv": "v",
    "wz": "qk",
    "wb": "qk",
    "wa": "qk",
    "wo": "o",
    "gate": "up",
    "up": "up",
    "down": "down",
}
CHECK_TOKENS = 4
CHECK_VOCAB = 4096
CHECK_BOUND = 1e-3  # of the largest logit; the two sides differ only in the order of sums


@dataclasses.dataclass(frozen=True)
class Job:
    """Everything that decides the bytes of the file."""

    plan: Plan
    checkpoint: Checkpoint
    types: Mapping[str, str]  # of each matrix, by our name
    rule: str
    name: str
    source: str
    chat: str | None = None
    stop_ids: tuple[int, ...] = ()
    sampling: Mapping[str, float] = dataclasses.field(default_factory=dict)
    tokenizer: tokenizer.Tokenizer | None = None  # to be written beside it


class Progress:
    """Percent, tensor and remaining time on a terminal; nothing elsewhere."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self.start = time.monotonic()
        self.shown = sys.stderr.isatty()

    def step(self, name: str, size: int) -> None:
        """Count `size` bytes of tensor `name` as written."""
        self.done += size
        if self.shown:
            spent = time.monotonic() - self.start
            left = spent * (self.total - self.done) / self.done
            text = f"{100 * self.done // self.total:3d}%  {name:28}  {left:.0f} s left"
            print(f"\r{text:60}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Leave the line."""
        if self.shown:
            print(f"\r{'':60}\r", end="", file=sys.stderr, flush=True)


def matrix_types(plan: Plan, wtype: str, q8: Sequence[str], scales: str) -> dict[str, str]:
    """Choose the type of every matrix; a tied embedding is also the classifier."""
    suffix = "f" if scales == "f32" else ""
    types: dict[str, str] = {}
    for name, kind, _ in expected_tensors(plan.arch):
        if kind != "matrix":
            continue
        wanted = {CLASS_OF[name.rpartition(".")[2]]}
        if name == "embed" and plan.arch.tied:
            wanted.add("cls")
        eight = wtype == "q8" or always_q8(name) or wanted & set(q8)
        types[name] = ("q8_0" if eight else "q4_0") + suffix
    return types


def tensor_sources(job: Job, progress: Progress) -> Iterator[TensorSource]:
    """Yield the file's tensors, each of which reads and quantizes when its turn comes."""
    for name, kind, shape in expected_tensors(job.plan.arch):
        if kind == "f32":
            yield TensorSource(name, "f32", shape, partial(_vector, job, name))
        else:
            produce = partial(_matrix, job, name, shape, progress)
            yield TensorSource(name, job.types[name], shape, produce)


def _vector(job: Job, name: str) -> bytes:
    if name in job.plan.constants:
        return job.plan.constants[name].astype("<f4").tobytes()
    return load(job.plan.sources[name], job.checkpoint).astype("<f4").tobytes()


def _matrix(
    job: Job, name: str, shape: tuple[int, ...], progress: Progress
) -> Iterator[quant.Blocks]:
    rows, k = shape
    source, kind = job.plan.sources[name], job.types[name]
    step = max(1, SLICE // k)
    if source.head_dim:
        step = max(1, step // source.head_dim) * source.head_dim
    for row in range(0, rows, step):
        part = (row, min(rows, row + step))
        blocks = load_blocks(source, job.checkpoint, part, kind, job.rule)
        yield blocks
        progress.step(name, blocks.nbytes)


def data_bytes(job: Job) -> int:
    """Bytes of all tensors."""
    return sum(
        tensor_bytes(job.types.get(name, "f32"), shape)
        for name, _, shape in expected_tensors(job.plan.arch)
    )


def needs_rule(job: Job) -> bool:
    """Whether a matrix is quantized to Q4, not taken over."""
    return any(
        kind.startswith("q4") and not job.checkpoint.keeps(job.plan.sources[name].name, kind)
        for name, kind in job.types.items()
    )


def write(job: Job, out: Path) -> str:
    """Write the file and return the SHA-256 of its data."""
    progress = Progress(data_bytes(job))
    try:
        return write_model(
            out,
            job.plan.arch,
            name=job.name,
            chat=job.chat,
            stop_ids=job.stop_ids,
            sampling=job.sampling,
            provenance={
                "converter": f"krafla {mlb.VERSION}",
                "source": job.source,
                "revision": None,
                "q4_rule": job.rule if needs_rule(job) else None,
                "imatrix_sha256": None,
            },
            tensors=tensor_sources(job, progress),
        )
    finally:
        progress.end()


def self_check(job: Job, written: Path) -> None:
    """Compare logits from the file with logits from the checkpoint's own layout.

    The first layer of each kind and the first rows of the classifier are enough to notice a wrong
    tensor, order, permutation or constant.
    """
    shape = job.plan.arch
    special = (shape.local_layers, shape.no_rope_layers, shape.linear_layers)
    kinds = {tuple(n in of for of in special): n for n in reversed(range(shape.n_layers))}
    layers = sorted(kinds.values())
    vocab = min(shape.vocab, CHECK_VOCAB)
    tokens = [(i * 7919 + 13) % shape.vocab for i in range(CHECK_TOKENS)]
    turned = any(source.head_dim for source in job.plan.sources.values())
    theirs = forward(
        shape,
        CheckpointWeights(job.plan, job.checkpoint, job.types, job.rule, original=True),
        tokens,
        Float(rotate_half=turned),
        layers=layers,
        vocab=vocab,
    )
    model = read_model(written)
    ours = forward(model.arch, FileWeights(model), tokens, Float(), layers=layers, vocab=vocab)
    largest = float(np.abs(theirs).max())
    error = float(np.abs(ours - theirs).max())
    if not math.isfinite(largest):
        raise FormatError(
            f"{job.source}: self-check failed: the first layers compute NaN or infinity: "
            "the weights are damaged"
        )
    if not error <= CHECK_BOUND * largest:
        raise FormatError(
            f"{job.source}: self-check failed: logits of the written file differ by {error:g} of "
            f"{largest:g} from the checkpoint's: please report this model"
        )


def convert(job: Job, out: Path) -> str:
    """Write, check, and only then give the file its name."""
    check_target(out)
    needed, free = data_bytes(job), shutil.disk_usage(out.parent).free
    if needed > free:
        raise FormatError(
            f"{out}: needs {needed >> 20} MiB, {free >> 20} MiB are free in {out.parent.resolve()}"
        )
    unchecked = out.with_name(f".{out.name}.{os.getpid()}.unchecked")
    try:
        digest = write(job, unchecked)
        self_check(job, unchecked)
        unchecked.replace(out)
    finally:
        unchecked.unlink(missing_ok=True)
    return digest


# ---- the checkpoints --------------------------------------------------------------------------


def say(kind: str, messages: Iterable[str]) -> None:
    """Print notes or warnings."""
    for message in messages:
        print(one_line(f"{kind}: {message}"), file=sys.stderr)


def huggingface_job(args: argparse.Namespace) -> Job:
    """Plan the conversion of a Hugging Face directory."""
    directory: Path = args.source
    check_directory(directory)
    config, beside = directory / "config.json", directory / "generation_config.json"
    values = read_json(config)
    generation = read_json(beside) if beside.exists() else {}
    plan = arch.plan(Config(values, str(config)))
    checkpoint = open_safetensors(directory)
    if checkpoint.ignored:
        say("ignored", [some(checkpoint.ignored)])
    say("warning", checkpoint.warnings)
    job = make_job(args, plan, checkpoint, directory.resolve().name)
    sources = [(str(beside), generation), (str(config), values)]
    if isinstance(values.get("text_config"), dict):
        sources.append((f"{config}: text_config", values["text_config"]))
    ends, no_ends = stop_ids(sources, plan.arch.vocab)
    numbers, no_numbers = recommended(generation, str(beside))
    say("warning", [*no_ends, *no_numbers, *unreadable_tokens(directory, plan.arch.vocab)])
    return dataclasses.replace(
        job,
        chat=job.chat or recognised_chat(directory, recognise_beside(directory)),
        stop_ids=ends,
        sampling=numbers,
    )


def recognised_chat(where: Path, template: Recognised) -> str | None:
    """The name of a checkpoint's chat template; says so if it has one that is none of ours."""
    if template.note:
        say("note", [f"{where}: {template.note}"])
    return template.name


def llama2c_job(args: argparse.Namespace) -> Job:
    """Plan the conversion of a llama2.c file."""
    checkpoint = open_llama2c(args.source)
    job = make_job(args, llama2c.plan(checkpoint), checkpoint, args.source.stem)
    return dataclasses.replace(job, stop_ids=(1, 2) if job.plan.arch.vocab > 2 else ())


def gguf_job(args: argparse.Namespace) -> Job:
    """Plan the conversion of a GGUF file; the types that are ours stay as they are."""
    gguf = read_gguf(args.source)
    taken = [args.source]
    for target in (args.out, args.tokenizer):
        if target and any(p == target or (target.exists() and target.samefile(p)) for p in taken):
            raise FormatError(f"{target}: is named twice: give another name")
        taken.append(args.out)
    plan, checkpoint = open_gguf(gguf)
    job = make_job(args, plan, checkpoint, args.source.stem)
    types, notes = settle_types(job.plan, checkpoint, job.types)
    for note in notes:
        print(one_line(note), file=sys.stderr)
    chat = job.chat or recognised_chat(args.source, gguf_tokenizer.recognised(gguf))
    numbers, no_numbers = recommended(generation_of(gguf), str(args.source))
    say("warning", no_numbers)
    if args.tokenizer:
        check_target(args.tokenizer)
        own = gguf_tokenizer.read(gguf, chat)
    return dataclasses.replace(
        job,
        types=types,
        chat=chat,
        stop_ids=gguf_tokenizer.end_ids(gguf, plan.arch.vocab),
        sampling=numbers,
        tokenizer=own if args.tokenizer else None,
    )


def make_job(args: argparse.Namespace, plan: Plan, checkpoint: Checkpoint, name: str) -> Job:
    """Apply the options to a plan and compare it with what the checkpoint holds."""
    if args.max_seq:
        if args.max_seq > plan.arch.max_seq:
            raise CheckpointError(
                f"--max-seq {args.max_seq}: this model was made for {plan.arch.max_seq} positions"
            )
        plan = dataclasses.replace(plan, arch=dataclasses.replace(plan.arch, max_seq=args.max_seq))
    try:
        check_arch(args.source, plan.arch)
    except FormatError as error:
        raise CheckpointError(str(error).removesuffix(f"; {AGAIN}")) from None
    plan = check_tensors(plan, checkpoint.shapes, str(args.source))
    check_tied(plan, checkpoint, str(args.source))
    parts = left_out(plan, checkpoint.shapes)
    say("note", (f"{part}: {tensors} tensors are left out" for part, tensors in parts.items()))
    rule = args.q4_rule or ("round" if plan.arch.family.startswith("gemma") else "fit")
    return Job(
        plan,
        checkpoint,
        matrix_types(plan, args.wtype, args.q8, args.scales),
        rule,
        name=one_line(args.name or name),
        source=one_line(args.source.resolve().name),
        chat=args.chat,
    )


JOBS = {"hf": huggingface_job, "llama2c": llama2c_job, "gguf": gguf_job}


def matrix_classes(text: str) -> tuple[str, ...]:
    """Parse the list of --q8."""
    names = tuple(text.split(","))
    unknown = [name for name in names if name not in CLASSES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {','.join(CLASSES)}")
    return names


def positive(text: str) -> int:
    """Parse a positive integer."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= 1 << 24:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {1 << 24}")
    return int(text)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that all kinds of checkpoints have."""
    parser.add_argument(
        "--max-seq",
        type=positive,
        metavar="N",
        help="record a shorter longest context than the model's own",
    )
    parser.add_argument(
        "--scales",
        choices=("f16", "f32"),
        default="f16",
        help="type of the block scales (default: f16); f32 costs half a bit per weight",
    )
    parser.add_argument(
        "--q4-rule",
        choices=("fit", "round"),
        help="how Q4_0 chooses scales: by least squares (default), or plain rounding (default "
        "for Gemma)",
    )
    parser.add_argument(
        "--q8",
        type=matrix_classes,
        default=(),
        metavar="LIST",
        help=f"with q4: classes of matrices to keep in Q8_0, from {','.join(CLASSES)}",
    )
    parser.add_argument("--name", help="the model's name (default: that of the source)")
    parser.add_argument(
        "--chat",
        choices=CHATS,
        metavar="NAME",
        help=f"chat template to record (default: the one the checkpoint's own equals): "
        f"{', '.join(CHATS)}",
    )


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(dest="kind", required=True)
    for kind, what in (
        ("hf", "a Hugging Face directory: config.json and *.safetensors"),
        ("llama2c", "a llama2.c .bin file"),
        ("gguf", "a GGUF file; its Q8_0 and Q4_0 tensors are taken over as they are"),
    ):
        sub = kinds.add_parser(kind, help=what)
        sub.add_argument("source", type=Path, help=what)
        sub.add_argument("out", type=Path, help="the .mlb file to write")
        if kind == "gguf":
            sub.add_argument(
                "--wtype",
                choices=("q8", "q4"),
                default="q8",
                help="format of tensors that are neither Q8_0 nor Q4_0 (default: q8)",
            )
            sub.add_argument(
                "--tokenizer", type=Path, metavar="OUT.mlt", help="write its tokenizer, too"
            )
        else:
            sub.add_argument(
                "--wtype",
                choices=("q8", "q4"),
                required=True,
                help="Q8_0 (8.5 bits per weight, close to the original) or Q4_0 (4.5, smaller and "
                "faster, loses some quality)",
            )
        add_options(sub)
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """Convert; exit code 0, 1 on an error, 2 on wrong usage, 130 on Ctrl-C."""
    args = parse(argv)
    target: Path = args.out
    try:
        with np.errstate(all="ignore"):  # what is no finite number is looked for and named
            job = JOBS[args.kind](args)
            started = time.monotonic()
            convert(job, args.out)
            seconds = time.monotonic() - started
        if job.tokenizer is not None:
            target = args.tokenizer
            tokenizer.write(target, job.tokenizer)
    except (CheckpointError, FormatError, tokenizer.TokenizerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"error: {write_failure(target, error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: nothing was written", file=sys.stderr)
        return 130
    size = args.out.stat().st_size
    print(f"{args.out}: {size / (1 << 20):.1f} MiB in {seconds:.1f} s, self-check passed")
    if job.tokenizer is not None:
        print(f"{args.tokenizer}: {job.tokenizer.summary()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
