# SPDX-License-Identifier: MIT
"""What every object over a C pointer shares: one owner, one lock, one way to close.

    with krafla.Tokenizer.open("tokenizer.mlt") as tokenizer: ...

Knows nothing of what the C objects are for.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from typing import TYPE_CHECKING, Any

from krafla._errors import KraflaClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from typing_extensions import Self


def release(free: Callable[[Any], None], pointer: Any, owner: Keeper | None) -> None:
    """Free a C object whose owner has lived until now."""
    del owner
    free(pointer)


class Keeper:
    """The lifetime of a C object: freed when the last one who holds this lets go.

    Held by the Handle until it is closed, by what borrows from the object (a session holds its
    model's), and by arrays that look into its memory.
    """

    def __init__(
        self, pointer: Any, free: Callable[[Any], None], owner: Keeper | None = None
    ) -> None:
        self.pointer = pointer
        weakref.finalize(self, release, free, pointer, owner)


class Handle:
    """Own a C object: freed by close(), by leaving `with`, or when it is garbage.

    What borrows from it (a session from its model, a chat from its tokenizer) is closed first.
    The lock makes each object usable from any thread, one call at a time.
    """

    def __init__(
        self, pointer: Any, free: Callable[[Any], None], owner: Handle | None = None
    ) -> None:
        self._lock = threading.RLock()
        self._borrowers: weakref.WeakSet[Handle] = weakref.WeakSet()
        above = owner._keeper if owner else None  # noqa: SLF001  (our own class)
        self._keeper: Keeper | None = Keeper(pointer, free, above)
        if owner is not None:
            owner._borrowers.add(self)  # noqa: SLF001  (our own class)

    @property
    def closed(self) -> bool:
        """Whether close() has been called."""
        return self._keeper is None

    @contextlib.contextmanager
    def _use(self) -> Iterator[Any]:
        """Give out the pointer for the length of one call."""
        with self._lock:
            if self._keeper is None:
                raise KraflaClosedError(f"this {type(self).__name__} is closed")
            yield self._keeper.pointer

    def close(self) -> None:
        """Free the C object as soon as no array looks into it; closing twice is fine."""
        with self._lock:
            for borrower in list(self._borrowers):
                borrower.close()
            self._keeper = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
