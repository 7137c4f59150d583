# SPDX-License-Identifier: MIT
"""Models and sessions: token ids to logits, and on to more tokens.

    with krafla.Model.open("model.mlb") as model, model.session(ctx=512) as session:
        session.sync([1, 450, 3681])
        print(session.logits().argmax())

Calls release the interpreter lock while C computes.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from krafla._errors import KraflaArgumentError
from krafla._handle import Handle, Keeper
from krafla._sampler import Sampler
from krafla._select import check, ffi, library, text
from krafla._text import c_string

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from typing_extensions import Self

PACK = {"memory": 0, "none": 1, "cache": 2}
KV_TYPES = {"f32": 0, "f16": 1, "q8": 2}


@dataclasses.dataclass(frozen=True)
class ModelInfo:
    """The shape of a model; packed is the rows per panel its weights were repacked to, or 0.

    file_bytes is the file's size, weight_bytes what is read to decode one token.
    """

    vocab: int
    dim: int
    hidden_dim: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    max_seq: int
    packed: int
    file_bytes: int
    weight_bytes: int


@dataclasses.dataclass(frozen=True)
class Profile:
    """Seconds of forward pass per stage since the session was created."""

    qkv: float
    attention: float
    wo: float
    ffn: float
    classifier: float
    other: float


def choice(value: str, values: dict[str, int], what: str) -> int:
    """Return the number of a named choice."""
    if value not in values:
        raise KraflaArgumentError(f"{what} is {value!r}, expected one of {', '.join(values)}")
    return values[value]


def progress_callback(progress: Callable[[int, int], None], raised: list[BaseException]) -> Any:
    """Return progress as C calls it; the first exception goes to `raised` and ends the calls."""

    def tell(_arg: Any, done: int, total: int) -> None:
        if raised:
            return
        try:
            progress(done, total)
        except BaseException as e:  # noqa: BLE001  (no exception can pass through C)
            raised.append(e)

    return ffi.callback("void(void *, uint64_t, uint64_t)", tell)


class Model(Handle):
    """An immutable model file, loaded once and shared by its sessions."""

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        pack: str = "memory",
        threads: int = 0,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Load a model; pack is memory, none or cache, threads are for packing (0: automatic).

        progress is called now and then with the bytes done and those of the whole work.  What it
        raises, Ctrl-C too, ends the call when the model is loaded.
        """
        lib = library()
        options = ffi.new("krafla_model_options *")
        lib.krafla_model_defaults(options)
        options.pack = choice(pack, PACK, "pack")
        options.n_threads = threads
        raised: list[BaseException] = []
        if progress is not None:
            callback = progress_callback(progress, raised)  # must live until open returns
            options.progress = callback
        out = ffi.new("krafla_model **")
        err = ffi.new("krafla_error *")
        check(lib.krafla_model_open(out, c_string(str(path), "the path"), options, err), err)
        model = cls(out[0], lib.krafla_model_close)
        if raised:
            model.close()
            raise raised[0]
        return model

    @property
    def info(self) -> ModelInfo:
        """The shape of the model."""
        info = ffi.new("krafla_model_info *")
        info.struct_size = ffi.sizeof("krafla_model_info")
        with self._use() as m:
            library().krafla_model_describe(m, info)
        names = [field.name for field in dataclasses.fields(ModelInfo)]
        return ModelInfo(**{name: int(getattr(info, name)) for name in names})

    @property
    def vocab(self) -> int:
        """The number of tokens, which is the length of the logits."""
        return self.info.vocab

    @property
    def name(self) -> str:
        """The model's name."""
        with self._use() as m:
            return text(library().krafla_model_name(m))

    @property
    def chat(self) -> str:
        """The name of its chat template, "" if the file names none."""
        with self._use() as m:
            return text(library().krafla_model_chat(m))

    @property
    def stop_ids(self) -> list[int]:
        """The ids that end a reply by the model's own configuration."""
        ids = ffi.new("const int32_t **")
        with self._use() as m:
            n = library().krafla_model_stop_ids(m, ids)
            return [int(ids[0][i]) for i in range(n)]

    def session(
        self,
        *,
        ctx: int = 0,
        threads: int = 0,
        batch: int = 128,
        kv: str = "f32",
        all_logits: bool = False,
        profile: bool = False,
        snapshot_mib: int = 256,
    ) -> Session:
        """Start an empty timeline; ctx 0 is the model's longest, at most 4096 positions.

        snapshot_mib is the most memory for copies of the state of a model with linear layers,
        from which a changed timeline goes on; 0: none.
        """
        return Session(
            self,
            ctx=ctx,
            threads=threads,
            batch=batch,
            kv=kv,
            all_logits=all_logits,
            profile=profile,
            snapshot_mib=snapshot_mib,
        )


class Window:
    """Floats of a C object as numpy sees them; keeps that object's memory alive."""

    def __init__(self, keeper: Keeper, pointer: Any, n: int) -> None:
        self._keeper = keeper
        self.__array_interface__ = {
            "version": 3,
            "typestr": "=f4",
            "shape": (n,),
            "data": (int(ffi.cast("uintptr_t", pointer)), True),  # True: read-only
        }


class Session(Handle):
    """One timeline of tokens with its KV cache and logits."""

    def __init__(
        self,
        model: Model,
        *,
        ctx: int,
        threads: int,
        batch: int,
        kv: str,
        all_logits: bool,
        profile: bool,
        snapshot_mib: int,
    ) -> None:
        """Use Model.session()."""
        lib = library()
        options = ffi.new("krafla_session_options *")
        lib.krafla_session_defaults(options)
        options.n_ctx = ctx
        options.n_threads = threads
        options.n_batch = batch
        options.kv_type = choice(kv, KV_TYPES, "kv")
        options.all_logits = all_logits
        options.profile = profile
        options.snapshot_mib = snapshot_mib
        out = ffi.new("krafla_session **")
        err = ffi.new("krafla_error *")
        with model._use() as m:  # noqa: SLF001  (our own class)
            check(lib.krafla_session_create(out, m, options, err), err)
            super().__init__(out[0], lib.krafla_session_free, model)
        self._vocab = model.vocab

    def __len__(self) -> int:
        """Return the number of evaluated positions."""
        with self._use() as s:
            return int(library().krafla_session_length(s))

    @property
    def evaluated(self) -> int:
        """The tokens that the last sync() evaluated; the others were kept."""
        with self._use() as s:
            return int(library().krafla_session_evaluated(s))

    @property
    def context(self) -> int:
        """The positions the KV cache holds."""
        with self._use() as s:
            return int(library().krafla_session_context(s))

    @property
    def threads(self) -> int:
        """The number of threads it computes with."""
        with self._use() as s:
            return int(library().krafla_session_threads(s))

    def sync(self, tokens: Sequence[int]) -> None:
        """Make the timeline exactly these tokens; the common prefix is not evaluated again."""
        array = ffi.new("int32_t[]", list(tokens))
        self._sync(array, len(array))

    def _sync(self, array: Any, n: int) -> None:
        err = ffi.new("krafla_error *")
        with self._use() as s:
            check(library().krafla_session_sync(s, array, n, err), err)

    def logits(self) -> NDArray[np.float32]:
        """Return the logits after the last token, [vocab]: a read-only view of its memory.

        Its values are those of the last sync(): copy() it to keep them.  The memory lives as long
        as the view does, also when the session is closed.
        """
        with self._use() as s:
            pointer = library().krafla_session_logits(s)
            if pointer == ffi.NULL or len(self) == 0:
                raise KraflaArgumentError("the session is empty: sync() some tokens first")
            return self._view(pointer)

    def logits_at(self, position: int) -> NDArray[np.float32]:
        """Return the logits after a position of the last step of the last sync, [vocab].

        A read-only view like logits(), whose values last until the next call on this session.
        """
        out = ffi.new("const float **")
        err = ffi.new("krafla_error *")
        if position < 0:
            raise KraflaArgumentError(f"position is {position}, expected 0 or more")
        with self._use() as s:
            check(library().krafla_session_logits_at(s, position, out, err), err)
            return self._view(out[0])

    def _view(self, pointer: Any) -> NDArray[np.float32]:
        import numpy as np

        assert self._keeper is not None
        return np.asarray(Window(self._keeper, pointer, self._vocab))

    @property
    def profile(self) -> Profile:
        """Seconds per stage; needs session(profile=True)."""
        out = ffi.new("krafla_profile *")
        with self._use() as s:
            library().krafla_session_profile(s, out)
        names = [field.name for field in dataclasses.fields(Profile)]
        return Profile(**{name: float(getattr(out, name)) for name in names})

    def generate(
        self,
        tokens: Sequence[int],
        sampler: Sampler | None = None,
        *,
        max_tokens: int | None = None,
        stop: Collection[int] = (),
    ) -> Iterator[int]:
        """Yield the tokens that follow, until one of `stop`, max_tokens or the end of the context.

        The stop token is not yielded.  Without a sampler the most likely token is taken.  A token
        is evaluated when the next one is asked for, so one may leave the loop at any time.
        """
        context = self.context
        history = ffi.new("int32_t[]", context + 1)  # the last token may remain unevaluated
        prompt = list(tokens)
        n = len(prompt)
        if n <= context:
            history[0:n] = prompt
            self._sync(history, n)
        else:
            self.sync(prompt)
        chooser = sampler or Sampler(self._vocab)
        made = 0
        while max_tokens is None or made < max_tokens:
            with self._use() as s:
                logits = library().krafla_session_logits(s)
                token = chooser._next(logits, history, n)  # noqa: SLF001  (our own class)
            if token in stop:
                return
            yield token
            history[n] = token
            n += 1
            made += 1
            if n > context or made == max_tokens:
                return
            self._sync(history, n)
