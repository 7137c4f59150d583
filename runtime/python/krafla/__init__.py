# SPDX-License-Identifier: MIT
"""Run Llama-family language models on the CPU, through libkrafla.

    import krafla
    with krafla.Model.open("m.mlb") as m, krafla.Tokenizer.open("t.mlt") as t, m.session() as s:
        for token in s.generate(t.encode("Once upon a time"), max_tokens=32):
            print(t.decode([token], previous=0), end="", flush=True)

The C header krafla.h says what each call promises; these classes add ownership (context managers,
finalizers), exceptions and Python's own types, and nothing else.  The library is chosen when it is
first needed: KRAFLA_LIB names a file, KRAFLA_ISA a build, else the fastest that this CPU can run.
"""

from krafla._errors import (
    KraflaArgumentError,
    KraflaClosedError,
    KraflaContextError,
    KraflaCpuError,
    KraflaError,
    KraflaFormatError,
    KraflaIOError,
    KraflaMemoryError,
    KraflaNumericError,
)
from krafla._model import Model, ModelInfo, Profile, Session
from krafla._sampler import Sampler
from krafla._select import default_threads, isa, version
from krafla._text import Chat, Tokenizer

__all__ = [
    "Chat",
    "KraflaArgumentError",
    "KraflaClosedError",
    "KraflaContextError",
    "KraflaCpuError",
    "KraflaError",
    "KraflaFormatError",
    "KraflaIOError",
    "KraflaMemoryError",
    "KraflaNumericError",
    "Model",
    "ModelInfo",
    "Profile",
    "Sampler",
    "Session",
    "Tokenizer",
    "default_threads",
    "isa",
    "version",
]
