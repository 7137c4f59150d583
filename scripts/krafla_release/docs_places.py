# SPDX-License-Identifier: MIT
"""Prepare the places where readers of the docs type: each as the docs say that it is.

    python3 scripts/fetch_models.py     # then the places have a real model

checkout: this source tree.  scratch: the same, where new files do no harm.  archive: an unpacked
archive with a model, a tokenizer and checkpoints beside.  downloads: the files of a release, which
a server on the loopback interface serves.  windows: the unpacked zip, for Wine.
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

from krafla_release import (
    archives,
    deb,
    docs_pages,
    installer,
    package,
    project,
    quickstart,
    smoke,
    wheel,
)
from krafla_release.project import ROOT, ReleaseError

if TYPE_CHECKING:
    from collections.abc import Iterator

# The first whose pattern is found in a command decides.
PROGRAMS = r"\bml_\w+|python3 tools/(convert|convert_tokenizer|perplexity)\."
WHERE = (
    ("checkout", r"build/[\w-]+/|^make "),
    ("downloads", r"install\.sh|SHA256SUMS|\.deb\b|\.whl\b"),
    ("archive", PROGRAMS),
    (
        "checkout",
        r"^(cmake|nox|invoke|scripts/|\.venv/bin/(nox|invoke|pytest)|PYTHONPATH=scripts )",
    ),
    ("scratch", r""),
)
STORIES = "stories42M.bin"
CHECKPOINT = "SmolLM2-135M-Instruct"
GGUF = ROOT / "models" / f"{quickstart.NAME}.gguf"
# A llama2.c checkpoint: seven int32 of its header (dim, hidden, layers, heads, kv heads, vocab,
# positions), then its float32 values, here 1/64 of everything.
LLAMA2C = (32, 64, 2, 4, 2, 64, 16)


def of(text: str, language: str = docs_pages.SHELL) -> str:
    """Return the name of the place for a command."""
    if language == docs_pages.PROGRAM:
        return "archive"
    if language == docs_pages.BATCH:
        return "windows"
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
    def models(self) -> dict[str, Path]:
        """The real model and what it is made of, under the names that the docs use."""
        if not quickstart.CHECKPOINT.is_dir() or not GGUF.is_file():
            raise MissingModelError("python3 scripts/fetch_models.py was not run")
        model, tokenizer = quickstart.convert(ROOT / "tools")
        stories = self._directory / STORIES
        stories.write_bytes(llama2c())
        return {
            "model.mlb": model,
            "tokenizer.mlt": tokenizer,
            CHECKPOINT: quickstart.CHECKPOINT,
            f"{CHECKPOINT}-Q8_0.gguf": GGUF,
            STORIES: stories,
        }

    def with_models(self, place: Path) -> Path:
        """Return a place that has the models, also after a command has written over them."""
        for name, path in self.models.items():
            mine = place / name
            if path.is_dir():
                if not mine.exists():
                    mine.symlink_to(path)
            elif not mine.is_file() or mine.stat().st_mtime != path.stat().st_mtime:
                shutil.copy2(path, mine)
        return place

    def unpack(self, name: str) -> Path:
        """Return where an archive of this source is unpacked."""
        archive = archives.find(name)
        package.package(archive, self._directory)
        return smoke.unpack(archive, self._directory, self._directory)

    @functools.cached_property
    def unpacked(self) -> Path:
        """The archive of this machine, unpacked."""
        return self.unpack(package.default_archive())

    @functools.cached_property
    def unzipped(self) -> Path:
        """The archive for Windows, unpacked."""
        return self.unpack("windows-x86_64")

    @property
    def archive(self) -> Path:
        """The unpacked archive with the models beside, as new for each command."""
        return self.with_models(self.unpacked)

    @property
    def windows(self) -> Path:
        """The same of the archive for Windows."""
        return self.with_models(self.unzipped)

    @functools.cached_property
    def downloads(self) -> Path:
        """What a user has fetched of a release."""
        place = self._directory / "downloads"
        archive = archives.find(package.default_archive())
        files = [package.path_of(archive, self.unpacked.parent)]
        files += [make(archive, self._directory) for make in (wheel.package, deb.package)]
        installer.publish(place, project.version(), files)
        return place

    @functools.cached_property
    def address(self) -> str:
        """Where the downloads are served."""
        return self._server.enter_context(installer.serve(self.downloads))

    def environment(self) -> dict[str, str]:
        """Return the environment of a reader who has the programs and Python in PATH."""
        own = ("KRAFLA_", "GITHUB_")  # a maintainer's choices and token
        kept = {name: value for name, value in os.environ.items() if not name.startswith(own)}
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
