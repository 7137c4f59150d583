# SPDX-License-Identifier: MIT
"""The common frame of .mlb and .mlt files: magic, version, JSON header, padding, data.

Reads as strictly as runtime/core/envelope.c and writes atomically: under a temporary name in the
same directory, synced, then renamed.  What the header says about the data is the business of the
kind's own module.  The format is described in docs/format-mlb.md.

    PYTHONPATH=tools python3 -m mlb.envelope model.mlb   # print the header, verify the SHA-256
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import hashlib
import json
import os
import re
import stat
import struct
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np
import numpy.typing as npt

from mlb import VERSION

U8 = npt.NDArray[np.uint8]
Buffer = bytes | bytearray | memoryview | npt.NDArray[Any]

FILE_VERSION = 1
FIXED_BYTES = 16  # magic, version, header bytes
HEADER_CAP = 1 << 20
ALIGN = 64
MAX_DEPTH = 64
MAX_DIGITS = 15  # 10^15 < 2^53, and
MAX_POWER = 22  # 10^22 is exact as a double: digits * 10^power rounds once
MIN_VERSION = "0.1.0"  # the first Krafla that reads FILE_VERSION 1
COMMON_KEYS = ("format", "data_bytes", "data_sha256", "file_bytes", "min_version")
AGAIN = "download or convert it again"

MAGIC = {
    kind: b"\x89ML" + letter + b"\r\n\x1a\n"
    for kind, letter in (("mlb", b"B"), ("mlt", b"T"), ("pk", b"P"))
}
KINDS = {
    "mlb": "a Krafla model (.mlb)",
    "mlt": "a Krafla tokenizer (.mlt)",
    "pk": "a Krafla pack cache",
}

CONVERT = "convert the checkpoint with tools/convert.py"
# What other files begin with, what they are and what to do; runtime/core/envelope.c has the same.
SIGNS: tuple[tuple[bytes, str, str], ...] = (
    (
        b"version https://git-lfs",
        "a Git LFS pointer",
        "run 'git lfs pull' or download the file itself",
    ),
    (b"GGUF", "a GGUF file", "convert it with tools/convert.py gguf"),
    (
        b"MLB1",
        "a file of Krafla's first format",
        "convert the checkpoint again with tools/convert.py",
    ),
    (b"PK\x03\x04", "a zip archive or a PyTorch checkpoint", f"unpack it, or {CONVERT}"),
    (b"\x1f\x8b", "a gzip file", "unpack it"),
    (b"\xfd7zXZ", "an xz file", "unpack it"),
    (b"\x28\xb5\x2f\xfd", "a zstd file", "unpack it"),
    (b"BZh", "a bzip2 file", "unpack it"),
    (b"\x80\x02", "a pickled PyTorch checkpoint", CONVERT),
    (b"\x80\x03", "a pickled PyTorch checkpoint", CONVERT),
    (b"\x80\x04", "a pickled PyTorch checkpoint", CONVERT),
    (b"\x80\x05", "a pickled PyTorch checkpoint", CONVERT),
    (b"\x89ML", "a Krafla file damaged by a transfer as text", "transfer it again, as binary"),
    (b"\x09ML", "a Krafla file damaged by a transfer as text", "transfer it again, as binary"),
    (b"\xc2\x89ML", "a Krafla file damaged by a transfer as text", "transfer it again, as binary"),
    (
        b"\xef\xbf\xbdML",
        "a Krafla file damaged by a transfer as text",
        "transfer it again, as binary",
    ),
    (b"{", "a JSON file", "name the converted file"),
    (
        b"\0\0\0\0\0\0\0\0",
        "a file that begins with zeros",
        "the download is not complete: download it again",
    ),
)


# What could start a new line, move the cursor or reorder or hide text; core/error.c has the same.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
MESSAGE_HEAD, MESSAGE_TAIL = 300, 700  # characters kept of a message that is too long


def one_line(text: str) -> str:
    """Return text from outside as a message may show it; too long, it loses its middle."""
    if len(text) > MESSAGE_HEAD + MESSAGE_TAIL:
        text = f"{text[:MESSAGE_HEAD]}...{text[-MESSAGE_TAIL:]}"
    return CONTROL.sub("?", text).encode("utf-8", "replace").decode("utf-8")


class FormatError(Exception):
    """One line: which file, what was expected, what was found, what to do.  Exit code 1."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


@dataclasses.dataclass(frozen=True)
class Unreadable:
    """A JSON number that is too long to be exact; valid only where nothing reads it."""

    text: str


@dataclasses.dataclass(frozen=True)
class Envelope:
    """A checked frame: its header, and its data mapped read-only."""

    path: Path
    header: dict[str, Any]
    data: U8


# ---- reading -------------------------------------------------------------------------------------


def read(path: Path, kind: str) -> Envelope:
    """Open `path` as a file of this kind ("mlb", "mlt") and check its frame."""
    try:
        info = path.stat()
        if stat.S_ISDIR(info.st_mode):
            raise FormatError(f"{path}: is a directory, expected a file; name the file in it")
        if not stat.S_ISREG(info.st_mode):
            raise FormatError(
                f"{path}: is not a regular file, so it cannot be mapped; copy it to a disk first"
            )
        with path.open("rb") as file:
            start = file.read(FIXED_BYTES + HEADER_CAP + ALIGN)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise FormatError(
            f"{path}: cannot open: {getattr(error, 'strerror', None) or error}"
        ) from None
    if not start:
        raise FormatError(f"{path}: the file is empty; download it again")
    header, offset = _frame(path, kind, start, info.st_size)
    count = info.st_size - offset
    data = np.memmap(path, np.uint8, "r", offset, (count,)) if count else np.empty(0, np.uint8)
    return Envelope(path, header, data)


def _frame(path: Path, kind: str, start: bytes, size: int) -> tuple[dict[str, Any], int]:
    """Check everything before the data; return the header and the data's offset in the file."""
    magic = MAGIC[kind]
    if start[:8] != magic[: min(8, size)]:
        raise FormatError(f"{path}: is {_identify(start)}")
    if size < FIXED_BYTES:
        raise FormatError(f"{path}: only {size} bytes of {KINDS[kind]}; download it again")
    version, header_bytes = struct.unpack_from("<II", start, 8)
    if not 2 <= header_bytes <= HEADER_CAP:
        raise FormatError(
            f"{path}: header of {header_bytes} bytes, expected 2 to {HEADER_CAP}; {AGAIN}"
        )
    offset = -(-(FIXED_BYTES + header_bytes) // ALIGN) * ALIGN
    if size < offset:
        raise FormatError(
            f"{path}: truncated: {size} bytes, the header alone needs {offset}; download it again"
        )
    if version < FILE_VERSION:
        raise FormatError(f"{path}: file version {version}, expected {FILE_VERSION}; {AGAIN}")
    try:
        header = parse_json(start[FIXED_BYTES : FIXED_BYTES + header_bytes], str(path))
    except FormatError:
        if version > FILE_VERSION:
            raise _too_new(path, version, None) from None
        raise
    _check_version(path, version, header)
    _check_common(path, kind, header)
    _check_sizes(path, header, offset, size)
    if any(start[FIXED_BYTES + header_bytes : offset]):
        raise FormatError(f"{path}: bytes between header and data are not zero; {AGAIN}")
    return header, offset


def _identify(start: bytes) -> str:
    """Say what a file with a wrong magic is, and what to do."""
    for kind, magic in MAGIC.items():
        if start[:8] == magic:
            return f"{KINDS[kind]}, not what is expected here; check the order of the file names"
    text = start.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if text.startswith(b"<"):
        return "an HTML or XML page; download the file itself, not the page about it"
    if len(start) > 8 and start[4:8] == b"\0\0\0\0" and start[8:9] == b"{":
        return f"a safetensors checkpoint; {CONVERT}"
    for sign, what, remedy in SIGNS:
        if start.startswith(sign):
            return f"{what}; {remedy}"
    return f"no Krafla file: begins with {start[:8].hex(' ')}; check the file name"


def _too_new(path: Path, version: int, needs: str | None) -> FormatError:
    if needs:
        return FormatError(
            f"{path}: needs Krafla {needs} or later, this is {VERSION}; get a newer release"
        )
    return FormatError(
        f"{path}: file version {version}, this Krafla reads {FILE_VERSION}; get a newer release"
    )


def _version_of(text: object) -> tuple[int, ...] | None:
    if isinstance(text, str) and re.fullmatch(r"[0-9]{1,5}\.[0-9]{1,5}\.[0-9]{1,5}", text):
        return tuple(map(int, text.split(".")))
    return None


def _check_version(path: Path, version: int, header: Mapping[str, Any]) -> None:
    """Refuse a file made for a later Krafla, before anything in it can look wrong."""
    text = header.get("min_version")
    needs = _version_of(text)
    if version > FILE_VERSION:
        raise _too_new(path, version, text if needs else None)
    if needs is None:
        raise FormatError(f'{path}: min_version: expected "X.Y.Z", found {shown(text)}; {AGAIN}')
    if needs > (_version_of(VERSION) or ()):
        raise _too_new(path, version, str(text))


def _check_common(path: Path, kind: str, header: Mapping[str, Any]) -> None:
    """Check the keys that every kind has, except the sizes."""
    for key in COMMON_KEYS:
        if key not in header:
            raise FormatError(f'{path}: "{key}" is missing; {AGAIN}')
    if header["format"] != kind:
        raise FormatError(
            f'{path}: format: expected "{kind}", found {shown(header["format"])}; {AGAIN}'
        )
    digest = header["data_sha256"]
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise FormatError(
            f"{path}: data_sha256: expected 64 hex digits, found {shown(digest)}; {AGAIN}"
        )


def _check_sizes(path: Path, header: Mapping[str, Any], offset: int, size: int) -> None:
    """Compare what the header promises with what there is."""
    for key in ("data_bytes", "file_bytes"):
        integer(path, key, header[key], 0, (1 << 63) - 1)
    promised: int = header["file_bytes"]
    if promised - offset != header["data_bytes"]:
        raise FormatError(
            f"{path}: file_bytes is {promised}, expected {offset} plus data_bytes "
            f"{header['data_bytes']}; {AGAIN}"
        )
    if size < promised:
        raise FormatError(f"{path}: truncated: {size} of {promised} bytes; download it again")
    if size > promised:
        raise FormatError(f"{path}: {size - promised} bytes after the end of the data; {AGAIN}")


def shown(value: object, most: int = 40) -> str:
    """Return the value as it may appear in a message: JSON, at most so many characters of it."""
    text = json.dumps(value, default=_text_of)
    return text if len(text) <= most else text[:most] + "..."


def _text_of(value: object) -> str:
    """How json.dumps shows what JSON itself has no type for."""
    return value.text if isinstance(value, Unreadable) else str(value)


def integer(where: object, what: str, value: object, low: int, high: int) -> int:
    """Return the value if it is an integer in [low, high]."""
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        expected = f"an integer from {low} to {high}" if low < high else str(low)
        raise FormatError(f"{where}: {what}: expected {expected}, found {shown(value)}; {AGAIN}")
    return value


def only(where: object, what: str, value: object, keys: Sequence[str]) -> dict[str, Any]:
    """Return the value if it is an object that has no key but these; "x_*" allows a prefix."""
    if not isinstance(value, dict):
        raise FormatError(f"{where}: {what}: expected an object, found {shown(value)}; {AGAIN}")
    prefixes = tuple(key[:-1] for key in keys if key.endswith("*"))
    for key in value:
        if key not in keys and not (prefixes and key.startswith(prefixes)):
            raise FormatError(
                f"{where}: {what}: unknown key {shown(key)}; get a newer Krafla or {AGAIN}"
            )
    return value


# ---- JSON ----------------------------------------------------------------------------------------


def parse_json(raw: bytes, where: str) -> dict[str, Any]:
    """Parse an object as strictly as runtime/core/json.c: UTF-8, no duplicates, 64 levels."""
    try:
        text = raw.decode("utf-8")
        _check_depth(text)
        value = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_exact_int,
            parse_float=_exact_float,
        )
        # A lone surrogate cannot be encoded.
        json.dumps(value, ensure_ascii=False, default=_text_of).encode("utf-8")
    except (
        ValueError,
        RecursionError,
    ) as error:  # UnicodeError and JSONDecodeError are ValueErrors
        reason = re.sub(r"[^ -~]+", "?", str(error))
        raise FormatError(f"{where}: header is not valid JSON: {reason[:200]}; {AGAIN}") from None
    if not isinstance(value, dict):
        raise FormatError(f"{where}: header is not a JSON object; {AGAIN}")
    return value


def _check_depth(text: str) -> None:
    depth = 0
    for bracket in re.findall(r"[\[\]{}]", re.sub(r'"(?:[^"\\]|\\.)*"', "", text, flags=re.DOTALL)):
        depth += 1 if bracket in "[{" else -1
        if depth > MAX_DEPTH:
            raise ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = collections.Counter(key for key, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"key {shown(twice)} occurs twice")
    return found


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _exact_int(text: str) -> int | float | Unreadable:
    return int(text) if len(text) <= 20 else _exact_float(text)


def exact_decimal(text: str) -> bool:
    """Tell whether text is digits * 10^power with at most 15 digits and |power| <= 22."""
    match = re.fullmatch(r"-?([0-9]+)(?:\.([0-9]+))?(?:[eE]([+-]?[0-9]+))?", text)
    if not match:
        return False
    whole, fraction, exponent = match[1], match[2] or "", match[3] or "0"
    digits = (whole + fraction).lstrip("0")
    significant = digits.rstrip("0")
    if not significant:
        return True
    if len(significant) > MAX_DIGITS or len(exponent) > 9:
        return False
    return abs(int(exponent) - len(fraction) + len(digits) - len(significant)) <= MAX_POWER


def _exact_float(text: str) -> float | Unreadable:
    return float(text) if exact_decimal(text) else Unreadable(text)


# ---- writing -------------------------------------------------------------------------------------


def write(
    path: Path, kind: str, header: Mapping[str, Any], chunks: Iterable[Buffer], data_bytes: int
) -> str:
    """Write a file of this kind and return the SHA-256 of its data.

    `chunks` are consumed one at a time and must add up to data_bytes.  Whatever happens, `path` is
    afterwards either the complete new file or what it was before.
    """
    full = {
        **header,
        "format": kind,
        "data_bytes": data_bytes,
        "data_sha256": "0" * 64,
        "min_version": MIN_VERSION,
    }
    raw = _sized_header(full, data_bytes)
    offset = -(-(FIXED_BYTES + len(raw)) // ALIGN) * ALIGN
    digest = hashlib.sha256()
    total = 0
    with atomic(path) as file:
        file.write(
            (MAGIC[kind] + struct.pack("<II", FILE_VERSION, len(raw)) + raw).ljust(offset, b"\0")
        )
        for chunk in chunks:
            view = octets(chunk)
            digest.update(view)
            file.write(view)
            total += len(view)
        if total != data_bytes:
            raise FormatError(
                f"{path}: {total} bytes of data were produced, {data_bytes} announced"
            )
        full["data_sha256"] = digest.hexdigest()
        file.seek(FIXED_BYTES)
        file.write(_sized_header(full, data_bytes))
    return digest.hexdigest()


def octets(chunk: Buffer) -> memoryview:
    """Return the bytes of a chunk without copying them."""
    if isinstance(chunk, np.ndarray):
        return np.ascontiguousarray(chunk).reshape(-1).view(np.uint8).data
    return memoryview(chunk).cast("B")


def _sized_header(header: dict[str, Any], data_bytes: int) -> bytes:
    """The header as JSON, with file_bytes, whose digits count themselves."""
    header["file_bytes"] = 0
    while True:
        raw = dump(header)
        file_bytes = -(-(FIXED_BYTES + len(raw)) // ALIGN) * ALIGN + data_bytes
        if header["file_bytes"] == file_bytes:
            break
        header["file_bytes"] = file_bytes
    if len(raw) > HEADER_CAP:
        raise FormatError(f"header of {len(raw)} bytes, the format allows {HEADER_CAP}")
    return raw


def dump(value: object) -> bytes:
    """Return the value as the bytes of a header."""
    text = json.dumps(
        plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode("utf-8")


def plain(value: object) -> object:
    """Return the value as JSON data; floats become the shortest decimal of their float32."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        short = float(str(np.float32(value)))
        if not exact_decimal(repr(short)):
            raise FormatError(f"{value!r} cannot be written: not a number of moderate size")
        return short
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item) for item in value]
    raise FormatError(f"{type(value).__name__} cannot be written to a header")


def write_failure(path: Path, error: OSError) -> str:
    """Say in one line why a file could not be written, and what to do about it."""
    full = ": free some space" if error.errno == errno.ENOSPC else ""
    return one_line(f"{path}: {error.strerror}{full}")


def check_target(path: Path) -> None:
    """Refuse to replace what is not a regular file: a device, a pipe or a link would be gone."""
    if not path.name:
        raise FormatError(f"{path}: is not the name of a file: give another name")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise FormatError(f"{path}: is there and is not a regular file: give another name")


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[IO[bytes]]:
    """A file that becomes `path` when the block ends well, and disappears when it does not."""
    check_target(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if (
        os.name == "posix"
    ):  # elsewhere a directory cannot be opened, and the rename is durable anyway
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the header of a file and verify its data."""
    args = list(sys.argv[1:] if argv is None else argv)
    if len(args) != 1:
        print("usage: python3 -m mlb.envelope FILE", file=sys.stderr)
        return 2
    try:
        path = Path(args[0])
        magic = b""
        with contextlib.suppress(OSError), path.open("rb") as file:
            magic = file.read(8)
        envelope = read(path, next((kind for kind in MAGIC if MAGIC[kind] == magic), "mlb"))
        if hashlib.sha256(octets(envelope.data)).hexdigest() != envelope.header["data_sha256"]:
            raise FormatError(f"{path}: the data's SHA-256 differs from the header's; {AGAIN}")
    except FormatError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(json.dumps(envelope.header, indent=2, ensure_ascii=False, default=_text_of))
    return 0


if __name__ == "__main__":
    sys.exit(main())
