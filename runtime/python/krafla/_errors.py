# SPDX-License-Identifier: MIT
"""One exception class per krafla_status, so that a caller catches what it can handle.

    try: krafla.Model.open("missing.mlb")
    except krafla.KraflaIOError as error: print(error)

All of them are KraflaError.
"""

from __future__ import annotations


class KraflaError(Exception):
    """A call failed; the message says what, where, expected, found and what to do."""


class KraflaIOError(KraflaError):
    """A file could not be read, mapped or written."""


class KraflaFormatError(KraflaError):
    """The file is not what its name promises."""


class KraflaMemoryError(KraflaError):
    """There is not enough memory."""


class KraflaArgumentError(KraflaError, ValueError):
    """An argument is outside of what the call accepts."""


class KraflaCpuError(KraflaError):
    """This CPU lacks the instruction set of every library there is, or none was found."""


class KraflaContextError(KraflaError):
    """No room is left in the context."""


class KraflaNumericError(KraflaError):
    """The model computed NaN or infinity."""


class KraflaClosedError(KraflaError, ValueError):
    """The object has been closed."""


BY_STATUS: dict[int, type[KraflaError]] = {
    1: KraflaIOError,
    2: KraflaFormatError,
    3: KraflaMemoryError,
    4: KraflaArgumentError,
    5: KraflaCpuError,
    6: KraflaContextError,
    7: KraflaNumericError,
}
