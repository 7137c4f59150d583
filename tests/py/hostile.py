# SPDX-License-Identifier: MIT
"""Hostile .mlb files: what the Python and the C reader must both refuse, and what both accept.

Every case is made from a small valid model by one change.  The frame around a changed header is
otherwise right, so that the change itself is what a reader has to notice.

    PYTHONPATH=tools:tests/py python3 -m hostile DIRECTORY     # writes the corpus there
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import random
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import hostile_sizes
from hostile_base import ARCHS, RAW, Case, Parts, build, frame, small_model, take_apart
from mlb import envelope
from mlb.shape import LAYER_LISTS

WRONG_TYPES = ("null", "true", '"1"', "[]", "{}", "[1]", '""')
NOT_JSON = ("NaN", "Infinity", "-Infinity", "01", "+1", ".5", "1.", "0x10", "'1'", "1,,", "--1", "")
INTEGERS = (
    *("-1", "0", "1", "2", "3", "31", "33", "65535", "65536", "65537", "16777216", "16777217"),
    *map(str, (2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), 10**22)),
    *("9" * 400, "-0", "1.0", "1e0", "1e5", "0.5", "1e999", "-1e-999"),
)
NUMBERS = (
    *("-1", "0", "-0.0", "1e-30", "1e-22", "1e-23", "1e22", "1e23", "9e37", "1e38", "1e39"),
    *("0.1234567890123456", "0.123456789012345", "1234567890123456789", "1" + "0" * 22),
    *("1e999", "1e-999", "1" * 400, "0." + "0" * 300 + "1", "100.5", "1.5"),
)


def places(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Return the path to every value in a header; of the tensors only a few."""
    yield at
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*at, key))
    elif isinstance(value, list):
        chosen = range(len(value)) if len(value) < 8 else (0, 1, 3, len(value) - 1)
        for i in chosen:
            yield from places(value[i], (*at, i))


def replaced(value: Any, at: tuple[str | int, ...], new: object) -> Any:
    """Return a header with another value at this place; it shares what did not change."""
    if not at:
        return new
    changed = copy.copy(value)
    changed[at[0]] = replaced(value[at[0]], at[1:], new)
    return changed


def value_at(header: dict[str, Any], at: tuple[str | int, ...]) -> object:
    """Return the value at this place."""
    value: Any = header
    for step in at:
        value = value[step]
    return value


def json_type(value: object) -> str:
    """Return the JSON type of a parsed value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


def value_cases(parts: Parts, under: str = "") -> Iterator[Case]:
    """Every value of the header (under a key) replaced by values of every kind, one at a time."""
    for at in places(parts.header):
        if not at or (under and at[0] != under):
            continue
        name = ".".join(map(str, at))
        was = json_type(value_at(parts.header, at))
        several_types = at == ("chat",) or (at[0] == "provenance" and len(at) > 1)
        numbers = dict.fromkeys((*INTEGERS, *NUMBERS)) if was == "number" else ("0", "-1", "1.5")
        for i, raw in enumerate((*numbers, *WRONG_TYPES)):
            data = build(replaced(parts.header, at, RAW), parts.data, raw)
            refused = None if several_types or json_type(json.loads(raw)) == was else True
            yield Case(f"value-{name}-{i}", data, refused)
        for i, raw in enumerate(NOT_JSON if at[0] in {"chat", "stop_ids", "sampling"} else ()):
            data = build(replaced(parts.header, at, RAW), parts.data, raw)
            yield Case(f"syntax-{name}-{i}", data, None if raw == "" else True)


def key_cases(parts: Parts) -> Iterator[Case]:
    """Keys missing, added, doubled and spelled otherwise."""
    for at in places(parts.header):
        value = value_at(parts.header, at)
        if not isinstance(value, dict):
            continue
        where = ".".join(map(str, at)) or "top"
        for key in value:
            optional = at in (("sampling",), ("provenance",))
            rest = {k: v for k, v in value.items() if k != key}
            if at or key not in ("data_bytes", "file_bytes"):
                header = replaced(parts.header, at, rest)
                yield Case(f"missing-{where}-{key}", build(header, parts.data), not optional)
            twice = json.dumps(value, sort_keys=True, separators=(",", ":"))
            twice = twice[:-1] + f',"{key}":{json.dumps(value[key])}}}'
            if at:
                file = build(replaced(parts.header, at, RAW), parts.data, twice)
                yield Case(f"twice-{where}-{key}", file)
            spelled = {f"\\u{ord(key[0]):04x}{key[1:]}": value[key], **rest}
            raw = json.dumps(spelled, separators=(",", ":")).replace("\\\\u", "\\u")
            if at:
                file = build(replaced(parts.header, at, RAW), parts.data, raw)
                yield Case(f"escaped-{where}-{key}", file, refused=False)
        extra = {**value, "unknown": 1}
        header = replaced(parts.header, at, extra)
        yield Case(f"extra-{where}", build(header, parts.data), at != ("provenance",))
    doubled = frame(file_text(parts)[:-1] + b',"format":"mlb"}', parts.data)
    yield Case("twice-top-format", doubled)
    yield Case(
        "extra-x", build({**parts.header, "x_note": [1, {"a": None}]}, parts.data), refused=False
    )


def file_text(parts: Parts) -> bytes:
    """Return the header's JSON as the writer wrote it."""
    return json.dumps(parts.header, sort_keys=True, separators=(",", ":")).encode()


def frame_cases(file: bytes, parts: Parts) -> Iterator[Case]:
    """Magic, version, header length, padding, truncation, trailing bytes."""
    text = file_text(parts)
    data_at = len(file) - len(parts.data)
    yield Case("valid", file, refused=False)
    for n in range(data_at + 1):
        yield Case(f"truncated-{n}", file[:n])
    for n in (1, 2, 63, 64, len(parts.data) - 1):
        yield Case(f"truncated-minus-{n}", file[:-n])
        yield Case(f"trailing-{n}", file + bytes(n))
    yield Case("trailing-one", file + b"\1")
    for n in range(8):
        yield Case(f"magic-{n}", file[:n] + bytes([file[n] ^ 0x20]) + file[n + 1 :])
    for version in (0, 2, 3, 2**31, 2**32 - 1):
        yield Case(f"version-{version}", frame(text, parts.data, version=version))
    yield Case("version-2-no-json", frame(b"\xff" * 100, parts.data, version=2))
    yield Case("version-2-no-object", frame(b"[1]", parts.data, version=2))
    real = len(text)
    for n in (0, 1, 2, real - 1, real + 1, 2**20 - 1, 2**20, 2**20 + 1, 2**31, 2**32 - 1):
        yield Case(f"header-bytes-{n}", file[:12] + struct.pack("<I", n) + file[16:])
    if 16 + real < data_at:
        yield Case("gap", frame(text, parts.data, gap=1))
    for newer in ("0.1.1", "1.0.0", "99999.0.0", "100000.0.0", "1.0", "1.0.0.0", "a.b.c", "0.0.0"):
        header = {**parts.header, "min_version": newer}
        yield Case(f"min-version-{newer}", build(header, parts.data), newer != "0.0.0")
    for kind in ("mlt", "pk"):
        yield Case(f"magic-of-{kind}", frame(text, parts.data, magic=envelope.MAGIC[kind]))


def json_cases(parts: Parts) -> Iterator[Case]:
    """Headers that are no JSON, or no strict JSON, or strange but right."""
    text = file_text(parts)
    good = {
        "longest": text.ljust(envelope.HEADER_CAP - 2),  # file_bytes gets two more digits
        "spaces": b" \t\r\n" + text + b"\n ",
        "escapes": text.replace(b'"small"', b'"sm\\u0061\\ud83d\\ude00ll"'),
        "utf8": text.replace(b'"small"', '"sm\u00e5ll \U0001f600 \x7f"'.encode()),
    }
    bad = {
        "bom": b"\xef\xbb\xbf" + text,
        "two-values": text + b"{}",
        "trailing-comma": text[:-1] + b",}",
        "comment": b"/**/" + text,
        "nul-after": text + b"\0",
        "root-array": b"[" + text + b"]",
        "root-string": b'"' + b"a" * 200 + b'"',
        "root-number": b"17",
        "root-null": b"null",
        "empty-object": b"{}",
        "blank": b" " * 64,
        "latin1": text.replace(b'"small"', b'"sm\xe5ll"'),
        "overlong": text.replace(b'"small"', b'"\xc0\x80"'),
        "raw-surrogate": text.replace(b'"small"', b'"\xed\xa0\x80"'),
        "escaped-surrogate": text.replace(b'"small"', b'"\\ud800"'),
        "reversed-surrogates": text.replace(b'"small"', b'"\\ude00\\ud83d"'),
        "half-pair": text.replace(b'"small"', b'"\\ud83d\\u0041"'),
        "two-high-surrogates": text.replace(b'"small"', b'"\\ud83d\\ud83d"'),
        "overlong-3": text.replace(b'"small"', b'"\xe0\x80\xaf"'),
        "overlong-4": text.replace(b'"small"', b'"\xf0\x80\x80\xaf"'),
        "beyond-unicode": text.replace(b'"small"', b'"\xf4\x90\x80\x80"'),
        "too-long": text.ljust(envelope.HEADER_CAP - 1),  # file_bytes gets two more digits
        "surrogate-key": text.replace(b'"small"', b'"small","x_\\ud800":1'),
        "bad-escape": text.replace(b'"small"', b'"\\x41"'),
        "newline": text.replace(b'"small"', b'"a\nb"'),
        "nul-name": text.replace(b'"small"', b'"\\u0000"'),
        "long-name": text.replace(b'"small"', b'"' + b"n" * 128 + b'"'),
        "long-name-utf8": text.replace(b'"small"', b'"' + b"\xc3\xa9" * 64 + b'"'),
        "digest-upper": text.replace(parts.header["data_sha256"].encode(), b"A" * 64),
        "digest-short": text.replace(parts.header["data_sha256"].encode(), b"a" * 63),
        "digest-long": text.replace(parts.header["data_sha256"].encode(), b"a" * 65),
        "digest-number": text.replace(f'"{parts.header["data_sha256"]}"'.encode(), b"1" * 64),
        "deep": b"[" * 100000,
        "deep-closed": b'{"x_":' + b"[" * 50000 + b"]" * 50000 + b"}",
        "many-keys": b"{" + b",".join(b'"%d":0' % i for i in range(80000)) + b"}",
        "many-equal-keys": b"{" + b",".join([b'"a":0'] * 100000) + b"}",
        "many-values": b"[" + b",".join([b"0"] * 500000) + b"]",
        "control-key": text[:-1] + b',"\\u001b[31m\\n":1}',
    }
    # The replacement changes the length, so the sizes have to follow.
    for name, raw in good.items():
        yield Case(f"json-{name}", resized(raw, parts.data), refused=False)
    for name, raw in bad.items():
        yield Case(f"json-{name}", resized(raw, parts.data))
    for depth in (62, 63, 64, 65):
        nested = text[:-1] + b',"x_":' + b"[" * depth + b"]" * depth + b"}"
        yield Case(f"json-depth-{depth}", resized(nested, parts.data), depth > 63)
    for other in ("n" * 127, "", "\u00e9"):
        file = build({**parts.header, "name": other}, parts.data)
        yield Case(f"name-{len(other)}", file, refused=False)


def resized(text: bytes, data: bytes) -> bytes:
    """Frame a header's text with its file_bytes put right, if it has one."""
    for _ in range(4):
        file = frame(text, data)
        head, mark, rest = text.partition(b'"file_bytes":')
        digits = len(rest) - len(rest.lstrip(b"0123456789"))
        if not mark or not digits:
            return file
        text = head + mark + str(len(file)).encode() + rest[digits:]
    return file


def tensor_cases(parts: Parts) -> Iterator[Case]:
    """Tables that describe other tensors than there are."""
    table = parts.header["tensors"]

    def with_table(name: str, changed: object, data: bytes = parts.data) -> Case:
        return Case(f"tensors-{name}", build({**parts.header, "tensors": changed}, data))

    yield with_table("none", [])
    yield with_table("one-less", table[:-1])
    yield with_table("one-more", [*table, table[-1]])
    for i in range(len(table)):
        gone = [*table[:i], *table[i + 1 :]]
        yield with_table(f"without-{i}", gone)
        if i:
            swapped = [*table[: i - 1], table[i], table[i - 1], *table[i + 1 :]]
            yield with_table(f"swapped-{i}", swapped)
            overlap = {**table[i], "offset": table[i - 1]["offset"]}
            yield with_table(f"overlap-{i}", [*table[:i], overlap, *table[i + 1 :]])
            yield with_table(
                f"hole-{i}",
                [*table[:i], *({**t, "offset": t["offset"] + 64} for t in table[i:])],
                parts.data[: table[i]["offset"]] + bytes(64) + parts.data[table[i]["offset"] :],
            )
        for type_ in ("f32", "q8_0", "q8_0f", "q4_0", "q4_0f", "f16", "q5_0", "Q8_0", ""):
            if type_ != table[i]["type"]:
                changed = {**table[i], "type": type_}
                yield with_table(f"type-{i}-{type_}", [*table[:i], changed, *table[i + 1 :]])
        shape = table[i]["shape"]
        for j, other in enumerate(([], [*shape, 1], [*shape[::-1], 1], [shape[0] + 1, *shape[1:]])):
            changed = {**table[i], "shape": other}
            yield with_table(f"shape-{i}-{j}", [*table[:i], changed, *table[i + 1 :]])
        end, after = table[i]["offset"] + table[i]["bytes"], -(-table[i]["offset"] // 64)
        if i + 1 < len(table) and end < table[i + 1]["offset"]:
            dirty = parts.data[:end] + b"\1" + parts.data[end + 1 :]
            yield with_table(f"dirty-{i}-{after}", table, dirty)
    yield with_table("data-short", table, parts.data[:-1])
    yield with_table("data-long", table, parts.data + b"\0")
    yield with_table("no-data", table, b"")


def id_cases(parts: Parts) -> Iterator[Case]:
    """Arrays of ids and layers that are too long, out of range or out of order."""
    ids = {"many": [0] * 17, "beyond": [8], "negative": [-1], "float": [1.5], "nested": [[1]]}
    for name, value in ids.items():
        yield Case(f"stop-ids-{name}", build({**parts.header, "stop_ids": value}, parts.data))
    for name, value in {"sixteen": [7] * 16, "none": []}.items():
        yield Case(
            f"stop-ids-{name}",
            build({**parts.header, "stop_ids": value}, parts.data),
            refused=False,
        )
    lists = {"twice": [0, 0], "descending": [1, 0], "beyond": [2], "none": [], "negative": [-1]}
    needed = {"local_layers", "linear_layers"}  # and empty in a model that has no window, ...
    for key in LAYER_LISTS:
        for name, value in lists.items():
            header = replaced(parts.header, ("arch", key), value)
            there = key in needed and parts.header["arch"][key] != []
            yield Case(f"{key}-{name}", build(header, parts.data), bool(value) or there)
        header = replaced(parts.header, ("arch", key), list(range(65536)))
        yield Case(f"{key}-many", build(header, parts.data))
        header = replaced(header, ("arch", "n_layers"), 65536)
        yield Case(f"{key}-all-of-many", build(header, parts.data))


def foreign_cases(file: bytes) -> Iterator[Case]:
    """Files that are something else altogether."""
    page = b"<!DOCTYPE html><html><body>Not Found</body></html>"
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"0" * 64 + b"\nsize 9\n"
    files = {
        "empty": b"",
        "one-byte": b"\x89",
        "one-other-byte": b"x",
        "html": page,
        "html-bom": b"\xef\xbb\xbf\r\n\t " + page,
        "xml": b'<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>',
        "blanks": b" " * 100,
        "lfs": pointer,
        "gguf": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
        "safetensors": struct.pack("<Q", len(header)) + header + bytes(4),
        "first-format": b"MLB1" + bytes(200),
        "zip": b"PK\x03\x04" + bytes(60),
        "gzip": b"\x1f\x8b\x08\0" + bytes(60),
        "xz": b"\xfd7zXZ\0" + bytes(60),
        "zstd": b"\x28\xb5\x2f\xfd" + bytes(60),
        "bzip2": b"BZh91AY&SY" + bytes(60),
        "pickle": b"\x80\x02}q\0.",
        "pickle-4": b"\x80\x04\x95" + bytes(60),
        "json": b'{"model_type":"llama"}',
        "text": b"hello, this is a text file\n",
        "zeros": bytes(4096),
        "lf": file.replace(b"\r\n", b"\n"),
        "crlf": file.replace(b"\n", b"\r\n"),
        "seven-bit": bytes(b & 0x7F for b in file),
        "utf8": file.decode("latin-1").encode("utf-8"),
        "utf8-replaced": file.decode("utf-8", "replace").encode("utf-8"),
    }
    for name, data in files.items():
        yield Case(f"foreign-{name}", data)


def random_cases(file: bytes, count: int, seed: int) -> Iterator[Case]:
    """Random bytes changed, removed and inserted, mostly in the header."""
    rng = random.Random(seed)
    for i in range(count):
        changed = bytearray(file)
        for _ in range(rng.choice((1, 1, 1, 2, 5))):
            at = rng.randrange(len(file) if rng.random() < 0.1 else 2048)
            action = rng.randrange(4)
            if action == 0:
                changed[at] ^= 1 << rng.randrange(8)
            elif action == 1:
                changed[at] = rng.choice(b'0123456789-.eE"{}[],:\\ \0\xff')
            elif action == 2:
                del changed[at : at + rng.choice((1, 2, 8, 64))]
            else:
                changed[at:at] = rng.choice((b"0", b'"', b"-", b"[", b"\\u0000", b"9" * 20))
        yield Case(f"random-{i}", bytes(changed), refused=None)


def cases() -> Iterator[Case]:
    """Return the whole corpus."""
    for prefix, arch in ARCHS.items():
        file = small_model(arch)
        parts = take_apart(file)
        groups = [key_cases(parts), tensor_cases(parts), id_cases(parts)]
        if prefix == "llama":
            groups += [frame_cases(file, parts), json_cases(parts), value_cases(parts)]
            groups += [foreign_cases(file), hostile_sizes.cases(file, parts)]
        else:
            groups.append(random_cases(file, 1000, seed=17))
        if prefix == "qwen":  # whose linear layers have sizes
            groups.append(value_cases(parts, "arch"))
        for case in itertools.chain.from_iterable(groups):
            yield dataclasses.replace(case, name=f"{prefix}-{case.name}")


def main(argv: Sequence[str] | None = None) -> int:
    """Write the corpus to a directory."""
    (directory,) = map(Path, sys.argv[1:] if argv is None else argv)
    directory.mkdir(parents=True, exist_ok=True)
    for case in cases():
        case.write(directory)
    return 0


if __name__ == "__main__":
    sys.exit(main())
