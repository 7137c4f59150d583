# SPDX-License-Identifier: MIT
"""Prepare the places where readers of the docs type: each as the docs say that it is.

    python3 scripts/fetch_models.py     # then the places have a real model

checkout: this source tree.  scratch: the same, where new files do no harm.  archive: an unpacked
archive with a model, a tokenizer and checkpoints beside.  downloads: the files of a release, which
a server on the loopback interface serves.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import archives, installer, package, project, quickstart, wheel
from krafla_release.project import ROOT, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The first whose pattern is found in a command decides; data in the order of narrowness.
WHERE = (
    ("downloads", r"install\.sh|SHA256SUMS|\.deb\b|\.whl\b"),
    (
        "archive",
        r"\bml_(run|bench|tok)\b(?!/)|python3 tools/(convert|convert_tokenizer|perplexity)\.",
    ),
    (
        "checkout",
        r"^(make|cmake|nox|invoke|scripts/|\.venv/bin/(nox|invoke|pytest)|PYTHONPATH=scripts )",
    ),
    ("scratch", r""),
)
FROM_SOURCE = re.compile(r"build/[\w-]+/|^make ")
CHECKPOINT = "SmolLM2-135M-Instruct"
GGUF = ROOT / "models" / f"{quickstart.NAME}.gguf"
# A llama2.c checkpoint: seven int32 of its header (dim, hidden, layers, heads, kv heads, vocab,
# positions), then its float32 values, here 1/64 of everything.
LLAMA2C = (32, 64, 2, 4, 2, 64, 16)


def of(text: str, language: str = "sh") -> str:
    """Return the name of the place for a command."""
    if language == "python":
        return "archive"
    if FROM_SOURCE.search(text):
        return "checkout"
    return next(name for name, pattern in WHERE if re.search(pattern, text))


class Places:
    """The places, each made when it is first needed, below one directory."""

    def __init__(self, directory: Path, server: contextlib.ExitStack) -> None:
        self._directory = directory
        self._server = server

    @functools.cached_property
    def checkout(self) -> Path:
        """This source tree."""
        return ROOT

    @functools.cached_property
    def scratch(self) -> Path:
        """Everything of the source tree by links, but for docs, which commands may write."""
        place = self._directory / "scratch"
        place.mkdir()
        for path in ROOT.iterdir():
            if path.name not in ("docs", ".git"):
                (place / path.name).symlink_to(path)
        shutil.copytree(ROOT / "docs", place / "docs")
        return place

    @functools.cached_property
    def packed(self) -> Path:
        """The archive of this machine, packed anew."""
        return package.package(archives.find(package.default_archive()), self._directory)

    @functools.cached_property
    def models(self) -> Path:
        """The real model under the names that the docs use, by links."""
        if not quickstart.CHECKPOINT.is_dir() or not GGUF.is_file():
            raise MissingModelError("python3 scripts/fetch_models.py was not run")
        place = self._directory / "models"
        place.mkdir()
        model, tokenizer = quickstart.convert(ROOT / "tools")
        for name, path in {
            "model.mlb": model,
            "tokenizer.mlt": tokenizer,
            CHECKPOINT: quickstart.CHECKPOINT,
            f"{CHECKPOINT}-Q8_0.gguf": GGUF,
        }.items():
            (place / name).symlink_to(path)
        (place / "stories42M.bin").write_bytes(llama2c())
        return place

    @functools.cached_property
    def unpacked(self) -> Path:
        """The unpacked archive."""
        project.unpack(self.packed, self._directory)
        return self._directory / package.file_name(archives.find(package.default_archive()))

    @property
    def archive(self) -> Path:
        """The unpacked archive with the models beside, as new for each command."""
        for path in self.models.iterdir():
            link = self.unpacked / path.name
            link.unlink(missing_ok=True)
            link.symlink_to(path)
        return self.unpacked

    @functools.cached_property
    def downloads(self) -> Path:
        """What a user has fetched of a release."""
        place = self._directory / "downloads"
        archive = archives.find(package.default_archive())
        files = [self.packed, wheel.package(archive, self._directory)]
        installer.publish(place, project.version(), files)
        return place

    @functools.cached_property
    def address(self) -> str:
        """Where the downloads are served."""
        return self._server.enter_context(installer.serve(self.downloads))

    def environment(self) -> dict[str, str]:
        """Return the environment of a reader who has the programs and Python in PATH."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KRAFLA_")}
        path = [str(Path(sys.executable).parent), kept["PATH"]]
        if "unpacked" in self.__dict__:
            path.insert(0, str(self.unpacked))
        return kept | {"PATH": os.pathsep.join(path)}


class MissingModelError(ReleaseError):
    """There is no real model on this machine."""


def llama2c() -> bytes:
    """Return a small llama2.c checkpoint."""
    import numpy as np

    dim, hidden, layers, heads, kv_heads, vocab, positions = LLAMA2C
    head = dim // heads
    layer = 2 * dim + 2 * dim * dim + 2 * dim * head * kv_heads + 3 * dim * hidden
    values = vocab * dim + layers * layer + dim + positions * head
    header = np.array(LLAMA2C, dtype="<i4").tobytes()
    return header + np.full(values, 1 / 64, dtype="<f4").tobytes()


@contextlib.contextmanager
def places(directory: Path) -> Iterator[Places]:
    """Yield the places; their server ends with them."""
    with contextlib.ExitStack() as server:
        yield Places(directory, server)
