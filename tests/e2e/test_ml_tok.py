# SPDX-License-Identifier: MIT
"""ml_tok from the outside: ids, text, bytes, exit codes.

make ISA=avx2 e2e
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import convert_tokenizer
import gen_tokenizer

if TYPE_CHECKING:
    from tests.conftest import Krafla

DATA = Path(__file__).resolve().parent.parent / "data" / "tokenizers"


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a byte-level tokenizer."""
    path = tmp_path_factory.mktemp("ml_tok") / "gpt2.mlt"
    assert convert_tokenizer.main([str(DATA / "gpt2.json"), str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a SentencePiece-style tokenizer that adds BOS."""
    path = tmp_path_factory.mktemp("ml_tok") / "llama.mlt"
    assert convert_tokenizer.main([str(DATA / "llama.json"), str(path)]) == 0
    return path


def test_text_in_ids_out_and_back(krafla: Krafla, gpt2: Path) -> None:
    text = "Hello, world\n\u4f60\u597d".encode()
    ids = krafla("ml_tok", gpt2, input=text)
    assert (ids.returncode, ids.stderr) == (0, b"")
    assert ids.stdout.endswith(b"\n")
    assert all(word.isdigit() for word in ids.stdout[:-1].split(b" "))
    back = krafla("ml_tok", gpt2, "--decode", input=ids.stdout)
    assert (back.returncode, back.stdout, back.stderr) == (0, text, b"")


def test_bos_comes_first_and_special_tokens_count(krafla: Krafla, llama: Path) -> None:
    ids = krafla("ml_tok", llama, input=b"ka</s>").stdout.split()
    assert ids[0] == b"1"
    assert ids[-1] == b"2"
    assert krafla("ml_tok", llama, input=b"").stdout == b"1\n"


def test_every_byte_survives(krafla: Krafla, gpt2: Path) -> None:
    data = bytes(range(256)) * 3
    ids = krafla("ml_tok", gpt2, input=data).stdout
    assert krafla("ml_tok", gpt2, "--decode", input=ids).stdout == data


def test_a_llama2c_file_is_read_as_it_is(krafla: Krafla, tmp_path: Path) -> None:
    path = tmp_path / "tok.bin"
    assert gen_tokenizer.main(["--vocab", "512", "--out", str(path)]) == 0
    ids = krafla("ml_tok", path, input=b"Hello").stdout
    assert ids.split()[0] == b"1"
    assert krafla("ml_tok", path, "--decode", input=ids.split(b" ", 1)[1]).stdout == b"Hello"


def test_ids_may_be_separated_by_commas_and_lines(krafla: Krafla, gpt2: Path) -> None:
    spaces = krafla("ml_tok", gpt2, "--decode", input=b"40 41 42")
    assert len(spaces.stdout) == 3
    assert krafla("ml_tok", gpt2, "--decode", input=b" 40,41,\r\n42\n").stdout == spaces.stdout


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (b"1 x 2", b'"x" is no token id'),
        (b"1 -2", b'"-2" is no token id'),
        (b"99999999999", b'"99999999999" is no token id'),
        (b"5000", b'"5000" is no token id: expected 0 to 710'),
        (b"1\x002", b"is no token id"),
    ],
    ids=repr,
)
def test_what_is_no_id_is_an_error(krafla: Krafla, gpt2: Path, ids: bytes, message: bytes) -> None:
    done = krafla("ml_tok", gpt2, "--decode", input=ids)
    assert done.returncode == 1
    assert done.stdout == b""
    assert done.stderr.startswith(b"error: ")
    assert message in done.stderr
    assert done.stderr.count(b"\n") == 1


def test_a_missing_tokenizer_is_named(krafla: Krafla, tmp_path: Path) -> None:
    done = krafla("ml_tok", tmp_path / "no.mlt")
    assert done.returncode == 1
    assert b"no.mlt" in done.stderr


@pytest.mark.parametrize("args", [[], ["a.mlt", "b.mlt"], ["a.mlt", "--nonsense"]], ids=str)
def test_wrong_usage_exits_with_2(krafla: Krafla, args: list[str]) -> None:
    done = krafla("ml_tok", *args)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"error: ")


def test_help_shows_the_two_directions(krafla: Krafla) -> None:
    done = krafla("ml_tok", "--help")
    assert done.returncode == 0
    assert b"--decode" in done.stdout
    assert b"ml_tok tokenizer.mlt" in done.stdout
