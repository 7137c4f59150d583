# SPDX-License-Identifier: MIT
"""Write, read and verify SHA256SUMS, the file that `sha256sum -c` understands.

PYTHONPATH=scripts python3 -m krafla_release.checksums dist/v0.1.0
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release.project import VerificationError, exit_code, write_atomically

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FILE_NAME = "SHA256SUMS"
CHUNK = 1 << 20
LINE = re.compile(r"([0-9a-f]{64})  ([A-Za-z0-9][A-Za-z0-9._-]{0,199})")


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def text_of(sums: dict[str, str]) -> str:
    """Return the text for digests by file name, in the order given."""
    text = "".join(f"{digest}  {name}\n" for name, digest in sums.items())
    parse(text)
    return text


def parse(text: str, place: str = FILE_NAME) -> dict[str, str]:
    """Return the digests by file name; any other line than ours is refused."""
    sums: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        found = LINE.fullmatch(line)
        if not found:
            raise VerificationError(f"{place}:{number}: no line of the form 'SHA-256  file name'")
        if found[2] in sums:
            raise VerificationError(f"{place}:{number}: {found[2]} stands there twice")
        sums[found[2]] = found[1]
    return sums


def write(directory: Path, names: Iterable[str]) -> Path:
    """Write SHA256SUMS of files in a directory, in the order given."""
    path = directory / FILE_NAME
    sums = {name: digest_of(directory / name) for name in names}
    write_atomically(path, text_of(sums).encode())
    return path


def read(directory: Path) -> dict[str, str]:
    """Return what SHA256SUMS of a directory says."""
    path = directory / FILE_NAME
    try:
        return parse(path.read_text(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise VerificationError(f"{path}: {error}") from None


def verify(directory: Path) -> dict[str, str]:
    """Fail unless every file that SHA256SUMS lists is there as listed; return the digests."""
    sums = read(directory)
    for name, want in sums.items():
        path = directory / name
        if not path.is_file():
            raise VerificationError(f"{path} is missing")
        if digest_of(path) != want:
            raise VerificationError(f"{path} is not the file that {FILE_NAME} lists")
    return sums


def main(argv: Sequence[str] | None = None) -> int:
    """Verify the files of one directory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=Path, help="where SHA256SUMS is, beside its files")
    args = parser.parse_args(argv)

    def work() -> None:
        for name in verify(args.directory):
            print(f"{name}: OK")

    return exit_code(work)


if __name__ == "__main__":
    sys.exit(main())
