# SPDX-License-Identifier: MIT
"""Say what a file is that is not what its name promises, and what to do about it.

PYTHONPATH=tools python3 -c 'from mlb.foreign import foreign; print(foreign(b"GGUF", 4))'
"""

from __future__ import annotations

import re

HEAD_BYTES = 512  # of a file are enough
ENDINGS = (".safetensors", ".bin", ".pth", ".pt", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx")

_PICKLE = "a PyTorch (pickle) file, which is never loaded: save it as safetensors"
_STARTS: tuple[tuple[bytes, str], ...] = (
    (b"GGUF", "a GGUF file: convert it with 'tools/convert.py gguf'"),
    (b"PK\x03\x04", _PICKLE),
    *((bytes([0x80, version]), _PICKLE) for version in range(2, 6)),
    (b"\x89HDF", "a TensorFlow (HDF5) file: save it as safetensors"),
    (b"\x1f\x8b", "compressed with gzip: unpack it first"),
    (b"BZh", "compressed with bzip2: unpack it first"),
    (b"\xfd7zXZ", "compressed with xz: unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive: unpack it first"),
    (b"\x89MLB", "an .mlb file, which is converted already"),
    (b"\x89MLT", "an .mlt tokenizer, which is converted already"),
)
_TEXT_BYTES = bytes(range(0x20, 0x7F)) + b"\t\r\n"


def foreign(head: bytes, size: int) -> str | None:
    """What a file of `size` bytes that begins with `head` is, for "... is ..."; None: unknown.

    Ask only about a file that is not what it should be: the first bytes of a file that begins with
    a length or a size can be any.
    """
    if head.startswith(b"version https://git-lfs"):
        real = re.search(rb"^size (\d{1,20})$", head, re.MULTILINE)
        of = f" of {size} bytes for a file of {real[1].decode()}" if real else ""
        return f"a Git LFS pointer{of}, not the file itself: run 'git lfs pull'"
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        return "a web page, not a download: fetch the file itself"
    for start, what in _STARTS:
        if head.startswith(start):
            return what
    if head[257:262] == b"ustar":
        return "a tar archive: unpack it first"
    if size and not head.strip(b"\0"):
        return "empty but for zero bytes, an unfinished download: download it again"
    if len(head) >= 8 and not head[:64].strip(_TEXT_BYTES):
        begin = head[:32].decode("ascii").strip()
        return (
            f"a text that begins with {begin!r}, perhaps an error of the server: download it again"
        )
    return None
