# SPDX-License-Identifier: MIT
"""What every model family's table is made of: names, tensor sources, the plan."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mlb import quant
from mlb.arch.config import REQUIRED, more
from mlb.checkpoint import Checkpoint, CheckpointError
from mlb.shape import MAX_VOCAB, MAX_WIDTH, Arch, expected_tensors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from mlb.arch.config import Config
    from mlb.arch.rope import Rope

F32 = npt.NDArray[np.float32]

SLICE = 1 << 21  # weights that are in memory as float32 at once, or one head's rows
MAX_LAYERS = 4096  # far more than any model has: a plan for more would take its time and memory
NAMES_COMPARED = 10000  # with the name of a missing tensor


@dataclasses.dataclass(frozen=True)
class Source:
    """Where one tensor of ours comes from, and what is done to it on the way."""

    name: str  # the tensor in the checkpoint
    head_dim: int = 0  # > 0: rows come in heads, and go from rotate-half to interleaved pairs
    turned: int | None = None  # rows of each head that do; None: all
    parts: int = 1  # of each head in the checkpoint, one after the other, ...
    part: int = 0  # ... of which this is one
    taps: int = 0  # > 0: a convolution [channels, 1, taps], which becomes [taps][channels]
    add_one: bool = False  # a norm that multiplies by 1 + w
    exponential: bool = False  # e to the power of what is stored

    def stored_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in the checkpoint of a tensor that has this shape in the file."""
        if self.taps:
            return (shape[0] // self.taps, 1, self.taps)
        return (shape[0] * self.parts, *shape[1:])


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a checkpoint becomes a model file."""

    arch: Arch
    sources: Mapping[str, Source]  # by our tensor name
    constants: Mapping[str, F32]  # tensors that are computed: the RoPE frequencies
    ignored: frozenset[str]  # checkpoint tensors that are known and not needed
    left_out: Mapping[str, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    # parts of a larger model: their name, and how their tensors' names begin


def interleave(head_dim: int) -> npt.NDArray[np.intp]:
    """Row order in a head that puts pair i at 2i, 2i+1; rotate-half has it at i, i + head_dim/2."""
    return np.arange(head_dim).reshape(2, head_dim // 2).T.reshape(-1)


# ---- names of tensors ----------------------------------------------------------------------------

# Our name of a layer's tensor -> Hugging Face's, below model.layers.N.
ATTENTION = {
    "wq": "self_attn.q_proj.weight",
    "wk": "self_attn.k_proj.weight",
    "wv": "self_attn.v_proj.weight",
    "wo": "self_attn.o_proj.weight",
}
BIASES = {
    "bq": "self_attn.q_proj.bias",
    "bk": "self_attn.k_proj.bias",
    "bv": "self_attn.v_proj.bias",
}
QK_NORMS = {"q_norm": "self_attn.q_norm.weight", "k_norm": "self_attn.k_norm.weight"}
MLP = {
    "gate": "mlp.gate_proj.weight",
    "up": "mlp.up_proj.weight",
    "down": "mlp.down_proj.weight",
}
NORMS = {"attn_norm": "input_layernorm.weight", "ffn_norm": "post_attention_layernorm.weight"}
FOUR_NORMS = {  # before and after each block
    "attn_norm": "input_layernorm.weight",
    "attn_post_norm": "post_attention_layernorm.weight",
    "ffn_norm": "pre_feedforward_layernorm.weight",
    "ffn_post_norm": "post_feedforward_layernorm.weight",
}
TURNED = ("wq", "wk", "bq", "bk", "q_norm", "k_norm")
BODY, HEAD = "model.", "lm_head.weight"
# What stands for them in text models, bare ones, and the language models of image-text models.
BODIES = (BODY, "", "model.language_model.", "language_model.model.", "language_model.")
HEADS = (HEAD, "language_model.lm_head.weight", "model.lm_head.weight")


# ---- what most families share --------------------------------------------------------------------


def decoder(config: Config, family: str, defaults: Mapping[str, Any]) -> Arch:
    """The sizes; defaults are what transformers takes for a key that is not there."""
    refuse_quantized(config)

    def size(key: str, default: Any = REQUIRED, most: int = MAX_WIDTH) -> int:
        return config.integer(key, defaults.get(key, default), most)

    dim, heads = size("hidden_size"), size("num_attention_heads")
    head_dim = size("head_dim", dim // heads or 1)
    return Arch(
        family=family,
        dim=dim,
        hidden_dim=size("intermediate_size"),
        n_layers=size("num_hidden_layers", most=MAX_LAYERS),
        n_heads=heads,
        n_kv_heads=size("num_key_value_heads", heads),
        head_dim=head_dim,
        vocab=size("vocab_size", most=MAX_VOCAB),
        max_seq=size("max_position_embeddings", most=MAX_VOCAB),
        rotary_dim=head_dim,
        norm_eps=config.number("rms_norm_eps", 1e-6),
        attn_scale=float(np.float32(head_dim**-0.5)),
        tied=config.flag("tie_word_embeddings", default=defaults["tie_word_embeddings"]),
    )


def refuse_quantized(config: Config) -> None:
    """Refuse a checkpoint that somebody quantized."""
    quantized = config.get("quantization_config", None)
    if quantized is not None:
        method = quantized.get("quant_method") if isinstance(quantized, dict) else quantized
        raise CheckpointError(
            f"{config.where}: quantization_config: checkpoints that are quantized already "
            f"({method!r}) are not supported: convert the F32, F16 or BF16 original"
        )


def silu_without_biases(config: Config) -> None:
    """Refuse the other activations, and biases."""
    config.must_be("hidden_act", "silu")
    config.must_be_off("attention_bias")
    config.must_be_off("mlp_bias")


SLIDING, FULL = "sliding_attention", "full_attention"


def layer_types(
    config: Config, default: Sequence[str], kinds: tuple[str, ...] = (SLIDING, FULL)
) -> tuple[str, ...]:
    """The kind of each layer."""
    found = config.get("layer_types", list(default))
    if not isinstance(found, list) or len(found) != len(default) or not set_of(found, kinds):
        raise config.fail("layer_types", f"{len(default)} of {' or '.join(kinds)}")
    return tuple(found)


def set_of(values: Sequence[object], known: Sequence[str]) -> bool:
    """Return whether every value is one of the known words."""
    return all(isinstance(value, str) and value in known for value in values)


def with_window(config: Config, arch: Arch, kinds: Sequence[str], window: int | None) -> Arch:
    """The architecture with a sliding window in the layers whose kind says so."""
    local = tuple(n for n, kind in enumerate(kinds) if kind == SLIDING)
    if not local:
        return arch
    if window is None:
        raise config.fail(
            "sliding_window", "the window of the layers that layer_types says have one"
        )
    return dataclasses.replace(arch, window=window, local_layers=local)


def sliding_window(config: Config, default: int | None) -> int | None:
    """The positions a local layer sees; null: all."""
    if config.nullable("sliding_window", default) is None:
        return None
    return config.integer("sliding_window", default, most=MAX_VOCAB)


def used_window(config: Config, default: int | None) -> int | None:
    """The same where use_sliding_window has to turn it on."""
    window = sliding_window(config, default)
    return window if config.flag("use_sliding_window", default=False) else None


def make_plan(
    arch: Arch,
    layers: Sequence[Mapping[str, str]],
    wide: Rope,
    local: Rope | None = None,
    *,
    add_one: bool = False,
) -> Plan:
    """The plan of a decoder with these tensors in each layer; local: RoPE of its local layers.

    add_one: norms multiply by 1 + w.
    """
    arch = dataclasses.replace(
        arch,
        rotary_dim=2 * len(wide.frequencies),
        rope_scale=wide.scale,
        local_rope=local is not None,
    )
    sources = {
        "embed": Source(f"{BODY}embed_tokens.weight"),
        "out_norm": Source(f"{BODY}norm.weight", add_one=add_one),
    }
    for n, names in enumerate(layers):
        for ours, theirs in names.items():
            sources[f"layers.{n}.{ours}"] = Source(
                f"{BODY}layers.{n}.{theirs}",
                head_dim=arch.head_dim if ours in TURNED else 0,
                turned=arch.rotary_dim if ours in TURNED else None,
                add_one=add_one and ours.endswith("norm"),
            )
    ignored = {f"{BODY}layers.{n}.self_attn.rotary_emb.inv_freq" for n in range(arch.n_layers)}
    if arch.tied:
        ignored.add(HEAD)  # written by some tools: the embedding once more
    else:
        sources["classifier"] = Source(HEAD)
    constants = {"rope_freq": wide.frequencies}
    if local is not None:
        constants["rope_freq_local"] = local.frequencies
    return Plan(arch, sources, constants, frozenset(ignored))


def text_model(config: Config, model_type: str, harmless: Sequence[str], *, tied: bool) -> Config:
    """The text_config of an image-text model, with its say on tied embeddings (default: tied)."""
    refuse_quantized(config)
    for key in ("vision_config", *harmless):
        config.get(key, None)
    values = config.get("text_config")
    if not isinstance(values, dict):
        raise config.fail("text_config", "an object")
    inner = config.inside("text_config", values)
    if inner.get("model_type", model_type) != model_type:
        raise inner.fail("model_type", model_type)
    said = [c for c in (config, inner) if c.get("tie_word_embeddings", None) is not None]
    flag = said[0].flag("tie_word_embeddings", default=tied) if said else tied
    return config.inside("text_config", {**values, "tie_word_embeddings": flag})


# ---- a plan and its checkpoint -------------------------------------------------------------------


def check_tensors(plan: Plan, shapes: Mapping[str, tuple[int, ...]], where: str) -> Plan:
    """Return the plan with the checkpoint's names.

    Every tensor it needs is there, with the right shape, and nothing else is.
    """
    plan = _located(plan, shapes)
    used: set[str] = set()
    for name, _, shape in expected_tensors(plan.arch):
        if name in plan.constants:
            continue
        source = plan.sources[name]
        used.add(source.name)
        if source.name not in shapes:
            raise CheckpointError(f"{where}: {_missing(name, source.name, shapes)}")
        if shapes[source.name] != source.stored_shape(shape):
            raise CheckpointError(
                f"{where}: tensor {source.name!r}: expected shape "
                f"{list(source.stored_shape(shape))} by the configuration, found "
                f"{list(shapes[source.name])}"
            )
    unknown = sorted(set(shapes) - used - plan.ignored - set(_left_out(plan, shapes)))
    if unknown:
        raise CheckpointError(
            f"{where}: unknown tensor {unknown[0]!r}{more(unknown)}{_why(unknown)}"
        )
    return plan


def check_tied(plan: Plan, checkpoint: Checkpoint, where: str) -> None:
    """If there is a classifier although the embedding is one, it is the embedding once more."""
    head = next((name for name in HEADS if name in checkpoint.shapes), None)
    if head is None or not plan.arch.tied:
        return
    embed, shape = plan.sources["embed"].name, checkpoint.shapes[head]
    same = shape == checkpoint.shapes[embed]
    step = max(1, SLICE // plan.arch.dim)
    for row in range(0, shape[0] if same else 0, step):
        end = min(shape[0], row + step)
        classifier, embedding = (checkpoint.read(name, row, end) for name in (head, embed))
        same = same and np.array_equal(classifier, embedding)
    if not same:
        raise CheckpointError(
            f"{where}: tie_word_embeddings is true, but {head!r} is not {embed!r}: if this model "
            "was trained with both, put false into config.json"
        )


def left_out(plan: Plan, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, int]:
    """The parts of a larger model that are in the checkpoint and not in the file: their tensors."""
    found = list(_left_out(plan, shapes).values())
    return {what: found.count(what) for what in plan.left_out if what in found}


def _left_out(plan: Plan, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, str]:
    return {
        name: what
        for name in shapes
        for what, begins in plan.left_out.items()
        if name.removeprefix(BODY).startswith(begins)
    }


def _located(plan: Plan, shapes: Mapping[str, tuple[int, ...]]) -> Plan:
    """Return the plan with the name that the checkpoint has for the model's body and its head."""
    embed = plan.sources["embed"].name.removeprefix(BODY)
    body = next((body for body in BODIES if body + embed in shapes), BODY)
    head = next((head for head in HEADS if head in shapes), HEAD)

    def renamed(name: str) -> str:
        if name == HEAD:
            return head
        return body + name.removeprefix(BODY) if name.startswith(BODY) else name

    sources = {
        ours: dataclasses.replace(source, name=renamed(source.name))
        for ours, source in plan.sources.items()
    }
    return dataclasses.replace(plan, sources=sources, ignored=frozenset(map(renamed, plan.ignored)))


def _missing(ours: str, name: str, shapes: Mapping[str, tuple[int, ...]]) -> str:
    hint = ", and tie_word_embeddings is not true" if ours == "classifier" else ""
    some = list(itertools.islice(shapes, NAMES_COMPARED))
    near = [repr(other) for other in difflib.get_close_matches(name, some, 3)]
    like = f"; the nearest names in it are {', '.join(near)}" if near else ""
    return f"tensor {name!r} is missing{hint}: download it again{like}"


def _why(unknown: Sequence[str]) -> str:
    if any(name.endswith(".bias") for name in unknown):
        return ": biases are supported on Qwen2's q, k and v projections only"
    return ": this model is not supported"


def load(source: Source, checkpoint: Checkpoint, row0: int = 0, row1: int | None = None) -> F32:
    """Rows [row0, row1) of one of our tensors, as float32 and in our order."""
    last = checkpoint.shapes[source.name][0] // source.parts if row1 is None else row1
    values: F32 = _rows(source, partial(checkpoint.read, source.name), row0, last)
    if source.taps:
        channels = values.reshape(-1, source.taps)  # [channels, taps]
        values = channels.T.reshape(-1)
    if not np.isfinite(values).all():
        raise _not_finite(source.name, checkpoint)
    if source.exponential:
        with np.errstate(over="ignore"):
            values = np.exp(values)
        if not np.isfinite(values).all():
            raise CheckpointError(
                f"tensor {source.name!r}: its exponential is too large: the checkpoint is damaged"
            )
    return values + np.float32(1) if source.add_one else values


def _not_finite(name: str, checkpoint: Checkpoint) -> CheckpointError:
    """The error for a tensor with weights that are no numbers: how many, and where they begin."""
    rows, *rest = checkpoint.shapes[name]
    width = math.prod(rest)
    step = max(1, SLICE // width)
    bad, first = 0, -1
    for row in range(0, rows, step):
        wrong = ~np.isfinite(checkpoint.read(name, row, min(rows, row + step)))
        if first < 0 and wrong.any():
            first = row + int(np.argmax(wrong.reshape(len(wrong), -1).any(axis=1)))
        bad += int(np.count_nonzero(wrong))
    return CheckpointError(
        f"tensor {name!r}: {bad} of {rows * width} weights are NaN or infinite, the first in row "
        f"{first}: the checkpoint is damaged"
    )


def load_blocks(
    source: Source, checkpoint: Checkpoint, rows: tuple[int, int], kind: str, rule: str
) -> quant.Blocks:
    """Rows [first, end) of a matrix of ours: quantized, or as they are stored if that is `kind`."""
    if checkpoint.keeps(source.name, kind):
        return _rows(source, partial(checkpoint.blocks, source.name, kind), *rows)
    try:
        return quant.quantize(load(source, checkpoint, *rows), kind, rule)
    except quant.QuantError as error:
        raise CheckpointError(f"tensor {source.name!r}: {error}") from None


def _rows(
    source: Source, read: Callable[[int, int], npt.NDArray[Any]], row0: int, row1: int
) -> npt.NDArray[Any]:
    """Rows [row0, row1) in our order, of whatever the checkpoint's rows are read as.

    Where they come in heads, whole heads are read, and their part is taken, turned and cut.
    """
    head = source.head_dim
    if not head:
        return read(row0, row1)
    first, end = row0 // head, -(-row1 // head)
    stored = head * source.parts
    whole = read(first * stored, end * stored)
    turned = head if source.turned is None else source.turned
    order = np.concatenate([interleave(turned), np.arange(turned, head)])
    # [heads, parts, head, k] -> [heads, head, k]
    values = whole.reshape(-1, source.parts, head, *whole.shape[1:])[:, source.part, order]
    return values.reshape(-1, *whole.shape[1:])[row0 - first * head : row1 - first * head]
