# SPDX-License-Identifier: MIT
"""A GGUF file as a checkpoint and a plan: its tensors in the layout of the original checkpoint.

llama.cpp made heads interleaved in some families (which is our order, so they stay), added the 1 to
norms (as we do), and dealt Qwen3.5's value heads out over the key heads, which is undone here.
Whole rows and whole blocks move, so blocks of Q8_0 and Q4_0 are taken over without rounding.

    python3 tools/convert.py gguf model.gguf model.mlb
"""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mlb import arch, quant
from mlb.arch.common import Plan
from mlb.arch.config import Config
from mlb.checkpoint import Checkpoint, CheckpointError
from mlb.gguf_families import ROPE_FACTORS, WHOLE, config_of, family_of
from mlb.shape import Arch, always_q8, check_arch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlb.gguf import Gguf, GgufTensor

F32 = npt.NDArray[np.float32]
Order = npt.NDArray[np.intp]

OURS = {"Q8_0": "q8_0", "Q4_0": "q4_0"}  # types whose blocks are ours, byte for byte
FLOATS = ("F32", "F16", "BF16")  # quantizing these loses no more than quantizing must
SPARE_LAYERS = 8  # of multi-token prediction, after the model's own


@dataclasses.dataclass(frozen=True)
class View:
    """One tensor, put back into the order and shape of the original checkpoint."""

    tensor: GgufTensor
    shape: tuple[int, ...]
    rows: Order | None = None  # the file's row for each of the checkpoint's
    columns: Order | None = None  # the file's column for each of the checkpoint's
    negated: bool = False

    def blocks_of_row(self) -> Order | None:
        """The file's block for each of a row's; None if a block's columns do not stay together."""
        if self.columns is None:
            return np.arange(self.tensor.shape[1] // quant.BLOCK)
        blocks = self.columns.reshape(-1, quant.BLOCK)
        first = blocks[:, 0]
        together = np.array_equal(blocks, first[:, None] + np.arange(quant.BLOCK))
        return first // quant.BLOCK if together and not np.any(first % quant.BLOCK) else None

    def ranges(self, row0: int, row1: int) -> tuple[list[tuple[int, int]], Order]:
        """The ranges of the file's rows that hold rows [row0, row1), and their places therein."""
        if self.rows is None:
            return [(row0, row1)], np.arange(row1 - row0)
        wanted = self.rows[row0:row1]
        order = np.sort(wanted)
        runs = np.split(order, np.flatnonzero(np.diff(order) != 1) + 1)
        return [(int(run[0]), int(run[-1]) + 1) for run in runs], np.searchsorted(order, wanted)


@dataclasses.dataclass(frozen=True)
class GgufCheckpoint(Checkpoint):
    """The tensors of a file by the file's names, in the layout of the original checkpoint."""

    gguf: Gguf
    views: Mapping[str, View]

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """The shape of every tensor, by name."""
        return {name: view.shape for name, view in self.views.items()}

    def read(self, name: str, row0: int = 0, row1: int | None = None) -> F32:
        """Rows [row0, row1) of a tensor as float32."""
        view = self.views[name]
        last = view.shape[0] if row1 is None else row1
        if len(view.tensor.shape) == 1:  # vectors are short: they are read whole
            vector = self.gguf.values(view.tensor)
            values = (vector if view.rows is None else vector[view.rows])[row0:last]
        else:
            ranges, places = view.ranges(row0, last)
            values = np.concatenate([self.gguf.values(view.tensor, *r) for r in ranges])[places]
        if view.columns is not None:
            values = values[:, view.columns]
        values = values.reshape(last - row0, *view.shape[1:])
        return -values if view.negated else values

    def keeps(self, name: str, kind: str) -> bool:
        """Whether a matrix is stored in the blocks of `kind`; wider scales change nothing."""
        return kind.removesuffix("f") == self.stored_as(name)

    def blocks(self, name: str, kind: str, row0: int, row1: int) -> quant.Blocks:
        """Rows [row0, row1) of a matrix that is kept, as its blocks [rows, k/32]."""
        view = self.views[name]
        ranges, places = view.ranges(row0, row1)
        raw = b"".join(self.gguf.read(view.tensor, *r) for r in ranges)
        stored = np.frombuffer(raw, quant.DTYPES[kind.removesuffix("f")])
        width = view.tensor.shape[1] // quant.BLOCK
        found = stored.reshape(-1, width)[places][:, view.blocks_of_row()]  # [rows, k/32]
        where = f"{self.gguf.path}: tensor {name!r}"
        if not np.isfinite(found["d"]).all():
            raise CheckpointError(f"{where}: scales are NaN or infinite: the file is damaged")
        if kind.startswith("q8") and (found["q"] == -128).any():
            raise CheckpointError(
                f"{where}: holds -128, and blocks go from -127 to 127: quantize the model again "
                "with llama-quantize"
            )
        return found.astype(quant.DTYPES[kind])

    def stored_as(self, name: str) -> str | None:
        """The type as which a matrix can be taken over, block for block."""
        view = self.views[name]
        kind = OURS.get(view.tensor.type.name)
        return kind if kind and view.blocks_of_row() is not None else None


# ---- the plan ------------------------------------------------------------------------------------


def open_gguf(gguf: Gguf) -> tuple[Plan, GgufCheckpoint]:
    """The plan of a file, and the file as its checkpoint."""
    name, family = family_of(gguf)
    made = arch.plan(Config(config_of(gguf), str(gguf.path)))
    shape = made.arch
    scale = gguf.fields.get(f"{name}.attention.scale")
    if scale:
        shape = dataclasses.replace(shape, attn_scale=scale)
    check_arch(gguf.path, shape)
    sources, views = {}, {}
    for ours, source in made.sources.items():
        theirs = _name(shape, family.layer, ours)
        sources[ours] = dataclasses.replace(
            source,
            name=theirs,
            head_dim=source.head_dim if family.turned else 0,
            add_one=False,
            exponential=False,
        )
        if theirs in gguf.tensors:
            gguf.check_type(gguf.tensors[theirs])
            views[theirs] = _view(shape, ours, gguf.tensors[theirs])
    others = {name: View(t, t.shape) for name, t in gguf.tensors.items() if name not in views}
    extra = tuple(f"blk.{shape.n_layers + n}." for n in range(SPARE_LAYERS))
    plan = Plan(
        shape,
        sources,
        _with_factors(gguf, made.constants),
        frozenset([ROPE_FACTORS]),
        {"multi-token prediction head": extra} if shape.linear_layers else {},
    )
    return plan, GgufCheckpoint({}, gguf, views | others)


def _name(shape: Arch, layer_names: Mapping[str, str], ours: str) -> str:
    """The file's name of a tensor of ours."""
    if ours in WHOLE:
        return WHOLE[ours]
    _, layer, part = ours.split(".")
    if part == "wo" and int(layer) in shape.linear_layers:
        return f"blk.{layer}.ssm_out.weight"
    return f"blk.{layer}.{layer_names[part]}"


def _view(shape: Arch, ours: str, tensor: GgufTensor) -> View:
    """Undo what llama.cpp did to a tensor."""
    _, layer, part = ours.split(".") if "." in ours else ("", "-1", "")
    if int(layer) not in shape.linear_layers:
        return View(tensor, tensor.shape)
    if part == "conv" and tensor.shape == (shape.channels, shape.conv_taps):
        return View(tensor, (shape.channels, 1, shape.conv_taps), _channels(shape))
    if part == "wqkv" and tensor.shape[0] == shape.channels:
        return View(tensor, tensor.shape, _channels(shape))
    if part == "wz" and tensor.shape[0] == shape.linear_v:
        return View(tensor, tensor.shape, _dealt(shape, shape.linear_v_dim))
    if part == "wo" and tensor.shape[1:] == (shape.linear_v,):
        return View(tensor, tensor.shape, columns=_dealt(shape, shape.linear_v_dim))
    if part in ("wb", "wa", "dt_bias", "decay_rate") and tensor.shape[0] == shape.linear_v_heads:
        return View(tensor, tensor.shape, _dealt(shape, 1), negated=part == "decay_rate")
    return View(tensor, tensor.shape)  # where the shape is wrong, the plan's check says so


def _dealt(shape: Arch, width: int) -> Order:
    """Where the file has each value head of the checkpoint, `width` rows each.

    The checkpoint's are in groups, one for each key head; the file has the first of each group,
    then the second of each, and so on.
    """
    groups, each = shape.linear_k_heads, shape.linear_v_heads // shape.linear_k_heads
    file = np.arange(shape.linear_v_heads * width).reshape(each, groups, width)
    return file.swapaxes(0, 1).reshape(-1)  # [groups, each, width]


def _channels(shape: Arch) -> Order:
    """Where the file has each query, key and value: only values are dealt out."""
    keys = 2 * shape.linear_k
    return np.concatenate([np.arange(keys), keys + _dealt(shape, shape.linear_v_dim)])


def _with_factors(gguf: Gguf, constants: Mapping[str, F32]) -> dict[str, F32]:
    """The RoPE frequencies, divided by the file's factors: what llama3's scaling comes to."""
    found = dict(constants)
    tensor = gguf.tensors.get(ROPE_FACTORS)
    if tensor is not None:
        factors = gguf.values(tensor)
        if factors.shape != found["rope_freq"].shape or not np.all(
            (factors > 0) & np.isfinite(factors)
        ):
            raise CheckpointError(
                f"{gguf.path}: tensor {ROPE_FACTORS!r}: expected "
                f"{len(found['rope_freq'])} positive factors: the file is damaged"
            )
        found["rope_freq"] = found["rope_freq"] / factors
    return found


# ---- the types -----------------------------------------------------------------------------------


def settle_types(
    plan: Plan, checkpoint: GgufCheckpoint, wanted: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The type of each matrix, and what to tell the user: those of the file where we have them.

    wanted are the types of the matrices that must be quantized; they also say the type of scales.
    """
    types: dict[str, str] = {}
    for name, kind in wanted.items():
        stored = checkpoint.stored_as(plan.sources[name].name)
        kept = stored is not None and not (stored == "q4_0" and always_q8(name))
        types[name] = stored + kind[4:] if stored and kept else kind
    pairs = [(f"layers.{n}.gate", f"layers.{n}.up") for n in range(plan.arch.n_layers)]
    unequal = [pair for pair in pairs if types[pair[0]] != types[pair[1]]]
    for name in (name for pair in unequal for name in pair):
        types[name] = "q8_0" + types[name][4:]
    return types, _notes(plan, checkpoint, types, len(unequal))


def _notes(
    plan: Plan, checkpoint: GgufCheckpoint, types: Mapping[str, str], unequal: int
) -> list[str]:
    again: collections.Counter[str] = collections.Counter()
    for name, kind in types.items():
        view = checkpoint.views[plan.sources[name].name]
        stored = view.tensor.type.name
        if stored not in FLOATS and not checkpoint.keeps(view.tensor.name, kind):
            again[f"{stored} as {kind}"] += 1
    notes = []
    if unequal:
        notes.append(
            f"note: {unequal} layers have gate and up of different types, which .mlb has not: "
            "both become Q8_0"
        )
    if again:
        listed = ", ".join(f"{count} of {what}" for what, count in sorted(again.items()))
        notes.append(
            f"warning: quantized for a second time, which costs accuracy: {listed}: files of "
            "Q8_0 and Q4_0 are taken over without loss"
        )
    return notes
