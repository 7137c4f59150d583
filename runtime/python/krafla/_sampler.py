# SPDX-License-Identifier: MIT
"""From logits to the next token.

    sampler = krafla.Sampler(model.vocab, temperature=0.8, seed=7)

A sampler belongs to no model; it only has to know the length of the logits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from krafla._errors import KraflaArgumentError
from krafla._handle import Handle
from krafla._select import check, ffi, library

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class Sampler(Handle):
    """Penalty, then greedy or temperature, top-k, top-p and a draw; same seed, same tokens."""

    def __init__(
        self,
        vocab: int,
        *,
        temperature: float = 0.0,
        top_p: float = 0.9,
        top_k: int = 0,
        repeat_penalty: float = 1.0,
        repeat_last_n: int = 64,
        seed: int = 1,
    ) -> None:
        """Make a sampler for logits of this length; temperature 0 is greedy."""
        lib = library()
        options = ffi.new("krafla_sampler_options *")
        lib.krafla_sampler_defaults(options)
        options.temperature = temperature
        options.top_p = top_p
        options.top_k = top_k
        options.repeat_penalty = repeat_penalty
        options.repeat_last_n = repeat_last_n
        options.seed = seed
        out = ffi.new("krafla_sampler **")
        err = ffi.new("krafla_error *")
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
