# SPDX-License-Identifier: MIT
"""ml_tok from the outside: ids, text, bytes, exit codes.

make ISA=avx2 e2e
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

import convert_tokenizer
import gen_tokenizer

if TYPE_CHECKING:
    from tests.conftest import Krafla

LARGE = 1_000_000
DATA = Path(__file__).resolve().parent.parent / "data" / "tokenizers"


class Convert(Protocol):
    """Return the .mlt file of one of the small tokenizers."""

    def __call__(self, name: str) -> Path:
        """Convert it, once."""
        ...


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Convert:
    """Return a function that converts a tokenizer of DATA."""
    folder = tmp_path_factory.mktemp("ml_tok")

    def convert(name: str) -> Path:
        path = folder / f"{name}.mlt"
        if not path.exists():
            assert convert_tokenizer.main([str(DATA / f"{name}.json"), str(path)]) == 0
        return path

    return convert


@pytest.fixture(scope="module")
def gpt2(converted: Convert) -> Path:
    """Return a byte-level tokenizer."""
    return converted("gpt2")


@pytest.fixture(scope="module")
def llama(converted: Convert) -> Path:
    """Return a SentencePiece-style tokenizer that adds BOS."""
    return converted("llama")


@pytest.fixture(scope="module")
def qwen(converted: Convert) -> Path:
    """Return a byte-level tokenizer that normalizes to NFC."""
    return converted("qwen3_5")


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


def test_text_is_normalized_where_the_tokenizer_says_so(krafla: Krafla, qwen: Path) -> None:
    text, apart = "r\u00e9sum\u00e9 \uac01", "re\u0301sume\u0301 \u1100\u1161\u11a8"
    composed = krafla("ml_tok", qwen, input=text.encode()).stdout
    assert krafla("ml_tok", qwen, input=apart.encode()).stdout == composed
    assert krafla("ml_tok", qwen, "--decode", input=composed).stdout == text.encode()


def test_special_tokens_become_their_own_ids(krafla: Krafla, qwen: Path) -> None:
    special = "<|endless|>"
    ids = krafla("ml_tok", qwen, input=f"a{special}b".encode()).stdout.split()
    assert len(ids) == 3
    assert krafla("ml_tok", qwen, "--decode", input=ids[1]).stdout == special.encode()


# A megabyte each, a tenth of it in an emulator.  Anything quadratic would take hours, and a stack
# frame for each byte would not fit; ml_tok needs a tenth of the first of these 100 seconds.
@pytest.mark.parametrize("kind", ["gpt2", "llama", "gemma", "llama3", "qwen3_5"])
@pytest.mark.parametrize(
    "unit",
    [
        *("a", " ", "\n", "'", "1", "\u4e2d", "\u0301", "\u0301\u0316", "\u1100\u1161"),
        *("ab'", "!\n", " a", "<left> ", "<right> ", "kara", "<|endless|"),
    ],
    ids=ascii,
)
def test_a_megabyte_needs_little_time_and_stack(
    build_dir: Path, emulator: list[str], converted: Convert, kind: str, unit: str
) -> None:
    size = LARGE // 10 if emulator else LARGE
    limits = "ulimit -t 100" if emulator else "ulimit -s 256; ulimit -t 100"
    command = [*emulator, str(build_dir / "ml_tok"), str(converted(kind))]
    done = subprocess.run(
        ["sh", "-c", f'{limits}; exec "$@"', "sh", *command],
        input=(unit * (size // len(unit.encode()))).encode(),
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(done.stdout.split()) > 10


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


@pytest.mark.parametrize(
    "case",
    [
        (b'"nfc":false', b'"nfc":true ', b"bpe_spm has no nfc and no ignore_merges"),
        (b'"ignore_merges":false', b'"ignore_merges":true ', b"bpe_spm has no nfc and no"),
        (b'"nfc":false', b'"nfc":0    ', b"nfc"),
        (b'"nfc":false', b'"x_c":false', b"nfc"),
        (b'"pretok":"none"', b'"pretok":"gpt5"', b'pretok is "gpt5"'),
        (b'"pretok":"none"', b'"pretok":"gpt2"', b"kind and pretok do not go together"),
    ],
    ids=lambda case: case[1].decode().strip(),
)
def test_a_header_that_makes_no_sense_is_refused(
    krafla: Krafla, llama: Path, tmp_path: Path, case: tuple[bytes, bytes, bytes]
) -> None:
    old, new, message = case
    path = tmp_path / "t.mlt"
    raw = llama.read_bytes()
    assert raw.count(old) == 1
    path.write_bytes(raw.replace(old, new))
    done = krafla("ml_tok", path, input=b"a")
    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (1, b"", 1)
    assert message in done.stderr
