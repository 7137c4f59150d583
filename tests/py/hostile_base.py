# SPDX-License-Identifier: MIT
"""What hostile .mlb files are made from: small valid models, and the frame of a file.

PYTHONPATH=tools:tests/py python3 -c "import hostile_base as h; print(len(h.small_model(h.LLAMA)))"
"""

from __future__ import annotations

import dataclasses
import json
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mlb import envelope, quant
from mlb.format import TensorSource, write_model
from mlb.shape import Arch, expected_tensors

RAW = "@raw@"  # stands for a piece of JSON text that json.dumps would not write


@dataclasses.dataclass(frozen=True)
class Case:
    """One file: `data`, and zeros up to `size` without taking disk space."""

    name: str
    data: bytes
    refused: bool | None = True  # None: the readers must agree, whatever they say
    size: int = 0

    def write(self, directory: Path) -> Path:
        """Write the file and return its path."""
        path = directory / self.name
        with path.open("wb") as file:
            file.write(self.data)
            if self.size:
                file.truncate(self.size)
        return path


@dataclasses.dataclass(frozen=True)
class Parts:
    """A valid file taken apart."""

    header: dict[str, Any]
    data: bytes


LLAMA = Arch(
    family="llama",
    dim=32,
    hidden_dim=64,
    n_layers=2,
    n_heads=4,
    n_kv_heads=2,
    head_dim=8,
    vocab=8,
    max_seq=64,
    rotary_dim=8,
    norm_eps=1e-5,
    attn_scale=0.353553,
    tied=True,
)
GEMMA = dataclasses.replace(
    LLAMA,
    family="gemma3",
    embed_scale=5.65685,
    activation="gelu_tanh",
    window=16,
    local_layers=(0,),
    local_rope=True,
    tied=False,
    qk_norm=True,
    post_norms=True,
    attn_cap=50.0,
)
QWEN = dataclasses.replace(
    LLAMA,
    family="qwen3_5",
    rotary_dim=4,
    rope_scale=1.25,
    qk_norm=True,
    attn_gate=True,
    linear_layers=(0,),
    linear_k_heads=2,
    linear_v_heads=4,
    linear_k_dim=4,
    linear_v_dim=8,
    conv_taps=4,
)
SMOL = dataclasses.replace(LLAMA, family="smollm3", qkv_bias=True, no_rope_layers=(1,))
ARCHS = {"llama": LLAMA, "gemma": GEMMA, "qwen": QWEN, "smol": SMOL}


def small_model(arch: Arch, seed: int = 1) -> bytes:
    """Return a valid model file with random weights of mixed types."""
    rng = np.random.default_rng(seed)
    sources = []
    for want in expected_tensors(arch):
        values = rng.standard_normal(want.shape).astype(np.float32)
        if want.kind == "f32":
            sources.append(TensorSource(want.name, "f32", want.shape, values.tobytes))
            continue
        kind = "q4_0" if want.name.endswith((".gate", ".up")) else "q8_0"
        blocks = quant.quantize(values, kind)
        sources.append(TensorSource(want.name, kind, want.shape, blocks.tobytes))
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "small.mlb"
        write_model(
            path,
            arch,
            name="small",
            chat="zephyr",
            stop_ids=[2, 7],
            sampling={
                "temperature": 0.6,
                "top_k": 20,
                "top_p": 0.95,
                "min_p": 0.05,
                "repeat_penalty": 1.1,
            },
            provenance={"converter": "hostile.py", "revision": None, "seed": seed},
            tensors=sources,
        )
        return path.read_bytes()


def take_apart(file: bytes) -> Parts:
    """Split a valid file into header and data."""
    (length,) = struct.unpack_from("<I", file, 12)
    header = json.loads(file[16 : 16 + length])
    return Parts(header, file[len(file) - header["data_bytes"] :])


def frame(raw: bytes, data: bytes, *, version: int = 1, magic: bytes = b"", gap: int = 0) -> bytes:
    """Put magic, version, a header as it is, padding (filled with `gap`) and data together."""
    start = (magic or envelope.MAGIC["mlb"]) + struct.pack("<II", version, len(raw)) + raw
    return start.ljust(-(-len(start) // 64) * 64, bytes([gap])) + data


def build(header: dict[str, Any], data: bytes, raw: str = "") -> bytes:
    """Frame a header, with file_bytes and data_bytes right and `raw` where the header says RAW."""
    header = {**header}
    if header.get("data_bytes") != RAW:
        header["data_bytes"] = len(data)
    for _ in range(4):  # file_bytes counts its own digits
        text = json.dumps(header, sort_keys=True, separators=(",", ":"))
        encoded = text.replace(f'"{RAW}"', raw).encode("utf-8", "surrogatepass")
        file = frame(encoded, data)
        if header.get("file_bytes") in (RAW, len(file)):
            break
        header["file_bytes"] = len(file)
    return file
