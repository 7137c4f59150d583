# SPDX-License-Identifier: MIT
"""From logits to the next token.

    sampler = krafla.Sampler(model.vocab, temperature=0.8, seed=7)

A sampler belongs to no model; it only has to know the length of the logits.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from krafla._errors import KraflaArgumentError
from krafla._handle import Handle
from krafla._select import check, ffi, library

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from krafla._model import Model
    from krafla._text import Tokenizer


class Sampler(Handle):
    """The steps from logits to a token are listed in krafla.h; same seed, same tokens."""

    def __init__(
        self,
        vocab: int,
        *,
        model: Model | None = None,
        tokenizer: Tokenizer | None = None,
        logit_bias: Mapping[int, float] | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        top_k: int | None = None,
        repeat_penalty: float | None = None,
        presence_penalty: float | None = None,
        frequency_penalty: float | None = None,
        repeat_last_n: int | None = None,
        seed: int | None = None,
    ) -> None:
        """Make a sampler for logits of this length; without a temperature it is greedy.

        What is not given is as krafla_sampler_defaults() says, or as the model recommends if there
        is one.  With a tokenizer only its tokens are chosen.
        """
        lib = library()
        options = ffi.new("krafla_sampler_options *")
        lib.krafla_sampler_defaults(options)
        if model is not None:
            with model._use() as m:  # noqa: SLF001  (our own class)
                lib.krafla_model_sampling(m, options)
        numbers = {
            "temperature": temperature,
            "top_p": top_p,
            "min_p": min_p,
            "top_k": top_k,
            "repeat_penalty": repeat_penalty,
            "presence_penalty": presence_penalty,
            "frequency_penalty": frequency_penalty,
            "repeat_last_n": repeat_last_n,
            "seed": seed,
        }
        for name, value in numbers.items():
            if value is not None:
                setattr(options, name, value)
        biases = ffi.new("krafla_logit_bias[]", list((logit_bias or {}).items()))
        options.logit_bias, options.n_logit_bias = biases, len(biases)
        out = ffi.new("krafla_sampler **")
        err = ffi.new("krafla_error *")
        borrowed: contextlib.AbstractContextManager[Any] = contextlib.nullcontext(ffi.NULL)
        if tokenizer is not None:
            borrowed = tokenizer._use()  # noqa: SLF001  (our own class)
        with borrowed as options.tokenizer:
            check(lib.krafla_sampler_create(out, vocab, options, err), err)
        super().__init__(out[0], lib.krafla_sampler_free)
        self.vocab = vocab

    def next(self, logits: NDArray[np.float32], history: Sequence[int] = ()) -> int:
        """Return the token that follows history."""
        if logits.dtype != "float32" or logits.ndim != 1 or len(logits) < self.vocab:
            raise KraflaArgumentError(
                f"logits are {logits.dtype}{list(logits.shape)}, expected float32[{self.vocab}]"
            )
        contiguous = logits if logits.flags.c_contiguous else logits.copy()
        array = ffi.new("int32_t[]", list(history))
        return self._next(ffi.from_buffer("float[]", contiguous), array, len(array))

    def _next(self, logits: Any, history: Any, n: int) -> int:
        out = ffi.new("int32_t *")
        err = ffi.new("krafla_error *")
        with self._use() as s:
            check(library().krafla_sampler_next(s, logits, history, n, out, err), err)
        return int(out[0])
