# SPDX-License-Identifier: MIT
"""Tokenizers and chat templates: from text and messages to token ids, and back.

    with krafla.Tokenizer.open("tokenizer.mlt") as t: print(t.decode(t.encode("Hello, world")))

Both borrow nothing from a model: they can be used without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from krafla._errors import KraflaArgumentError
from krafla._handle import Handle
from krafla._select import check, ffi, library, text

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from typing_extensions import Self


def c_string(value: str, what: str) -> bytes:
    """Return the UTF-8 of a str that C will read up to its first zero byte."""
    if "\0" in value:
        raise KraflaArgumentError(f"{what} holds a zero character")
    return value.encode("utf-8")


def collect_ids(call: Callable[[Any, int, Any, Any], int], room: int = 0) -> list[int]:
    """Return the ids of a call with the measuring rule: (ids, cap, n_ids, err) -> status.

    room: how many are likely to be enough; then one call is.
    """
    err = ffi.new("krafla_error *")
    n = ffi.new("size_t *", room)
    while True:
        room = n[0]
        ids = ffi.new("int32_t[]", room)
        check(call(ids, room, n, err), err)
        if n[0] <= room:
            return list(ids[0 : n[0]])


class Tokenizer(Handle):
    """Text to ids and back, from an .mlt file or a llama2.c tokenizer.bin."""

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read and check the file."""
        lib = library()
        out = ffi.new("krafla_tokenizer **")
        err = ffi.new("krafla_error *")
        check(lib.krafla_tokenizer_open(out, c_string(str(path), "the path"), err), err)
        return cls(out[0], lib.krafla_tokenizer_close)

    def __len__(self) -> int:
        """Return the number of tokens."""
        with self._use() as t:
            return int(library().krafla_tokenizer_vocab(t))

    @property
    def bos(self) -> int | None:
        """The id that begins a text, if there is one."""
        with self._use() as t:
            return optional(library().krafla_tokenizer_bos(t))

    @property
    def eos(self) -> int | None:
        """The id that ends a text, if there is one."""
        with self._use() as t:
            return optional(library().krafla_tokenizer_eos(t))

    @property
    def chat(self) -> str:
        """Name of the chat template recorded at conversion, "" if none."""
        with self._use() as t:
            return text(library().krafla_tokenizer_chat(t))

    def find(self, spelling: str) -> int | None:
        """Return the id of the token spelled exactly so."""
        with self._use() as t:
            return optional(library().krafla_tokenizer_find(t, c_string(spelling, "the token")))

    def is_special(self, token: int) -> bool:
        """Tell whether text never becomes this token unless encode is asked for special ones."""
        with self._use() as t:
            return bool(library().krafla_tokenizer_is_special(t, token))

    def encode(self, data: str | bytes, *, bos: bool = True, special: bool = False) -> list[int]:
        """Return the ids of a text; bos: begin with BOS if this tokenizer adds one.

        special: text that spells a special token becomes that token.
        """
        raw = data.encode("utf-8") if isinstance(data, str) else data
        lib = library()
        flags = (lib.KRAFLA_ENCODE_BOS if bos else 0) | (
            lib.KRAFLA_ENCODE_SPECIAL if special else 0
        )
        with self._use() as t:
            return collect_ids(
                lambda ids, cap, n, err: int(
                    lib.krafla_tokenizer_encode(t, raw, len(raw), flags, ids, cap, n, err)
                ),
                len(raw) + 16,
            )

    def decode_bytes(self, ids: Sequence[int], *, previous: int | None = None) -> bytes:
        """Return the bytes of ids as they follow the token `previous`; None: they begin a text."""
        lib = library()
        err = ffi.new("krafla_error *")
        n = ffi.new("size_t *")
        array = ffi.new("int32_t[]", list(ids))
        before = -1 if previous is None else previous
        with self._use() as t:
            call = lib.krafla_tokenizer_decode
            check(call(t, before, array, len(array), ffi.NULL, 0, n, err), err)
            out = ffi.new("char[]", n[0])
            check(call(t, before, array, len(array), out, n[0], n, err), err)
            return bytes(ffi.buffer(out, n[0]))

    def decode(self, ids: Sequence[int], *, previous: int | None = None) -> str:
        """Return the text of ids; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids, previous=previous).decode("utf-8", "replace")


def optional(token: int) -> int | None:
    """Return None for the -1 of the C interface."""
    return int(token) if token >= 0 else None


class Chat(Handle):
    """Messages to ids, by one of the named templates."""

    def __init__(self, tokenizer: Tokenizer, name: str = "auto") -> None:
        """Choose a template; "auto" is the one that the tokenizer's file records."""
        chosen = tokenizer.chat if name == "auto" else name
        if not chosen:
            raise KraflaArgumentError(
                f"the tokenizer records no chat template, name one of {', '.join(self.names())}"
            )
        lib = library()
        out = ffi.new("krafla_chat **")
        err = ffi.new("krafla_error *")
        with tokenizer._use() as t:  # noqa: SLF001  (our own class)
            check(lib.krafla_chat_create(out, t, c_string(chosen, "the name"), err), err)
            super().__init__(out[0], lib.krafla_chat_free, tokenizer)
        self.name = chosen

    @staticmethod
    def names() -> list[str]:
        """Return the names of all templates."""
        lib = library()
        names: list[str] = []
        while (name := lib.krafla_chat_name(len(names))) != ffi.NULL:
            names.append(text(name))
        return names

    @property
    def stop_ids(self) -> list[int]:
        """The ids with which the template itself ends a reply."""
        ids = ffi.new("const int32_t **")
        with self._use() as c:
            n = library().krafla_chat_stop_ids(c, ids)
            return [int(ids[0][i]) for i in range(n)]

    def turn(
        self,
        user: str,
        *,
        system: str | None = None,
        first: bool = True,
        stopped: bool = False,
    ) -> list[int]:
        """Return the ids that continue the timeline with one message, up to the reply.

        first: the timeline is empty.  stopped: the last reply's stop token is part of it.
        system None is the template's own default.
        """
        lib = library()
        raw = c_string(user, "the message")
        raw_system = ffi.NULL if system is None else c_string(system, "the system text")
        with self._use() as c:
            return collect_ids(
                lambda ids, cap, n, err: int(
                    lib.krafla_chat_turn(c, first, stopped, raw_system, raw, ids, cap, n, err)
                )
            )

    def encode(self, messages: Iterable[Mapping[str, str]]) -> list[int]:
        """Return the ids of a whole conversation, up to where the reply starts.

        A message has a "role" ("system" or "developer", "user", "assistant") and a "content".
        """
        lib = library()
        texts: list[Any] = []
        for i, message in enumerate(messages, 1):
            for key in ("role", "content"):
                if not isinstance(message.get(key), str):
                    raise KraflaArgumentError(f"message {i} has no {key} that is text")
                raw = c_string(message[key], f"message {i}")
                texts.append(ffi.new("char[]", raw))
        n = len(texts) // 2
        array = ffi.new("krafla_message[]", n)
        for i in range(n):
            array[i].role, array[i].content = texts[2 * i : 2 * i + 2]
        with self._use() as c:
            return collect_ids(
                lambda ids, cap, n_ids, err: int(
                    lib.krafla_chat_encode(c, array, n, ids, cap, n_ids, err)
                )
            )
