# SPDX-License-Identifier: MIT
"""fetch_tokenizers.py: what it takes out of packages, and how it rebuilds what is not there.

.venv/bin/python -m pytest tests/py/test_fetch_tokenizers.py
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
from typing import TYPE_CHECKING

import pytest

import fetch_models
import fetch_tokenizers
from krafla_release.project import ReleaseError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

FILES = {"package/models/tokenizer.json": b"{}", "package/models/tokenizer_config.json": b"[]"}


def fake_npm(files: Mapping[str, bytes]) -> Callable[..., str]:
    """Return a stand-in for npm that leaves a package with these files."""

    def output(*words: str, cwd: Path) -> str:
        assert words[:2] == ("npm", "pack")
        with tarfile.open(cwd / "package.tgz", "w:gz") as archive:
            for name, data in files.items():
                entry = tarfile.TarInfo(name)
                entry.size = len(data)
                archive.addfile(entry, io.BytesIO(data))
        return ""

    return output


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return where tokenizers go, with one package to fetch them from."""
    monkeypatch.setattr(fetch_tokenizers, "ROOT", tmp_path)
    monkeypatch.setattr(fetch_tokenizers, "TOKENIZERS", tmp_path / "tokenizers")
    members = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    package = fetch_tokenizers.Package("some@1.0", members)
    monkeypatch.setattr(fetch_tokenizers, "PUBLISHED", {"some": package})
    return tmp_path / "tokenizers"


def test_a_tokenizer_is_fetched_once(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fetch_models, "output", fake_npm(FILES))
    assert fetch_tokenizers.main(["some"]) == 0
    found = {path.name: path.read_bytes() for path in (place / "some").iterdir()}
    assert found == {"tokenizer.json": b"{}", "tokenizer_config.json": b"[]"}
    monkeypatch.setattr(fetch_models, "output", None)
    capsys.readouterr()
    assert fetch_tokenizers.main(["some"]) == 0
    assert capsys.readouterr().out == "some: is there\n"


def test_a_package_that_changed_leaves_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = {name: data + b" " for name, data in FILES.items()}
    monkeypatch.setattr(fetch_models, "output", fake_npm(changed))
    assert fetch_tokenizers.main(["some"]) == 1
    assert "the package changed, do not use it" in capsys.readouterr().err
    assert list(place.iterdir()) == []


def test_an_unknown_tokenizer_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        fetch_tokenizers.main(["gpt-5"])
    assert caught.value.code == 2
    assert "unknown tokenizer gpt-5; known: mistral, " in capsys.readouterr().err


def test_ranked_tokens_become_the_merges_that_make_them() -> None:
    texts = [b"a", b"b", b"c", b"ab", b"abc", b"bc", b"cab", b"aaaa"]
    ranks = {text: rank for rank, text in enumerate(texts)}
    merges = fetch_tokenizers.merges_of_ranks(ranks)
    # "aaaa" has no halves that are tokens: it is only found whole
    assert merges == [("a", "b"), ("ab", "c"), ("b", "c"), ("c", "ab")]


def test_a_token_that_its_merges_cannot_make_has_all_its_halves() -> None:
    texts = [b"a", b"b", b"c", b"d", b"bc", b"ab", b"cd", b"abcd", b"abc"]
    ranks = {text: rank for rank, text in enumerate(texts)}
    merges = fetch_tokenizers.merges_of_ranks(ranks)
    # the bytes of "abcd" become a bc d, so that only its halves are left to make it
    assert merges[3:5] == [("ab", "cd"), ("abc", "d")]


def test_constants_are_read_out_of_a_script_without_running_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fetch_tokenizers, "TOKENIZERS", tmp_path / "tokenizers")
    tokens = ["<unk>", "<s>", "</s>", "a", "b", "ab", "é"]
    merges = b"".join(i.to_bytes(2, "little") for i in (3, 4))
    lines = {"llama_vocab_base64": "\n".join(tokens).encode(), "llama_merges_binary": merges}
    script = "".join(
        f'const {name} = "{base64.b64encode(data).decode()}";\n' for name, data in lines.items()
    )
    digest = hashlib.sha256(script.encode()).hexdigest()
    package = fetch_tokenizers.Package("some@1.0", {"package/llama-tokenizer.js": digest})
    monkeypatch.setattr(fetch_tokenizers, "LLAMA2", package)
    npm = fake_npm({"package/llama-tokenizer.js": script.encode()})
    monkeypatch.setattr(fetch_models, "output", npm)
    sister = tmp_path / "tokenizers" / "mistral"
    sister.mkdir(parents=True)
    (sister / "tokenizer.json").write_text('{"model": {"vocab": {}, "merges": []}}')
    (sister / "tokenizer_config.json").write_text("{}")
    (tmp_path / "work").mkdir()
    fetch_tokenizers.build_llama2(tmp_path / "made", tmp_path / "work")
    made = json.loads((tmp_path / "made" / "tokenizer.json").read_text())["model"]
    assert made == {"vocab": {t: i for i, t in enumerate(tokens)}, "merges": [["a", "b"]]}
    with pytest.raises(ReleaseError, match="no constant missing"):
        fetch_tokenizers.js_constant(script, "missing")
