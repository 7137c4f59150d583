# SPDX-License-Identifier: MIT
"""The perplexity tool: its windows, and its figure against one computed from the reference.

.venv/bin/python -m pytest tests/py/test_perplexity.py
"""

from __future__ import annotations

import stat
import sys
from pathlib import Path

import numpy as np
import pytest

import perplexity


def test_windows_do_not_overlap_and_each_starts_with_bos() -> None:
    ids = list(range(100, 110))
    assert perplexity.windows(ids, [1], 4, llama_cpp=False) == [
        [1, 100, 101, 102],
        [1, 103, 104, 105],
        [1, 106, 107, 108],
    ]
    assert perplexity.windows(ids, [], 4, llama_cpp=False) == [ids[:4], ids[4:8]]


def test_llama_cpp_windows_lose_their_first_token_to_bos() -> None:
    ids = list(range(100, 110))
    want = [[1, 101, 102, 103], [1, 105, 106, 107]]
    assert perplexity.windows(ids, [1], 4, llama_cpp=True) == want


def test_log_probabilities_are_those_of_a_softmax() -> None:
    logits = np.random.default_rng(1).normal(size=(40, 30)).astype(np.float32) * 20
    targets = [(3 * i) % 30 for i in range(40)]
    p = np.exp(logits.astype(np.float64))
    want = np.log(p[np.arange(40), targets] / p.sum(axis=1))
    assert np.allclose(perplexity.log_probabilities(logits, targets), want)


ML_TOK = """
import sys
text = sys.stdin.buffer.read()
print(1, *text)
"""

ML_RUN = """
import sys
import numpy as np
args = sys.argv[1:]
tokens = [int(t) for t in args[args.index("--tokens") + 1].split(",")]
assert int(args[args.index("--ctx") + 1]) == len(tokens)
if "--fail" in args:
    sys.exit("error: no such model")
logits = np.zeros((len(tokens), 256), dtype="<f4")
logits[:, 97] = np.log(255)
logits.tofile(args[args.index("--dump-logits") + 1])
"""


@pytest.fixture
def programs(tmp_path: Path) -> list[str]:
    """Return arguments that name stand-ins: bytes as tokens, and half of all hope on "a"."""
    for name, code in (("ml_tok", ML_TOK), ("ml_run", ML_RUN)):
        path = tmp_path / name
        path.write_text(f"#!{sys.executable}\n{code}")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    text = tmp_path / "text"
    text.write_text("ab" * 60)
    run, tok = str(tmp_path / "ml_run"), str(tmp_path / "ml_tok")
    return [run, "model.mlb", "tok.mlt", str(text), "--ml-tok", tok]


def test_the_figure_is_the_inverse_mean_probability(
    programs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert perplexity.main([*programs, "--ctx", "41", "--chunks", "3"]) == 0
    # 60 a of probability 1/2 and 60 b of 1/510: sqrt(2 * 510) = 31.9374
    assert capsys.readouterr().out.startswith("perplexity: 31.9374 +- ")


def test_llama_cpp_mode_scores_the_second_half(
    programs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert perplexity.main([*programs, "--ctx", "40", "--chunks", "2", "--llama-cpp"]) == 0
    # of 40 tokens those at 21..39 are scored: 10 b and 9 a
    want = 2 ** (9 / 19) * 510 ** (10 / 19)
    out = capsys.readouterr().out
    assert out.startswith(f"perplexity: {want:.4f} +- ")
    assert "38 tokens, 2 windows of 40" in out


def test_options_pass_through_and_errors_come_back(
    programs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert perplexity.main([*programs, "--ctx", "16", "--extra=--fail"]) == 1
    assert "error: no such model" in capsys.readouterr().err


def test_a_text_that_is_too_short_is_named(
    programs: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert perplexity.main([*programs, "--ctx", "512"]) == 1
    assert "120 tokens do not fill a window of 512" in capsys.readouterr().err


def test_a_tokenizer_that_fails_is_an_error(
    programs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ml_tok").write_text("#!/bin/sh\necho 'error: no such tokenizer' >&2\nexit 1\n")
    assert perplexity.main([*programs, "--ctx", "16"]) == 1
    assert "ml_tok: error: no such tokenizer" in capsys.readouterr().err


def test_logits_that_are_not_whole_rows_are_refused(
    programs: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = ML_RUN.replace("logits.tofile", "logits.ravel()[1:].tofile")
    (tmp_path / "ml_run").write_text(f"#!{sys.executable}\n{code}")
    assert perplexity.main([*programs, "--ctx", "16"]) == 1
    assert "wrote 4095 logits for 16 positions" in capsys.readouterr().err


@pytest.mark.parametrize(("chunks", "noted"), [("3", False), ("4", True)], ids=["enough", "fewer"])
def test_fewer_windows_than_asked_for_are_noted(
    programs: list[str], capsys: pytest.CaptureFixture[str], chunks: str, *, noted: bool
) -> None:
    assert perplexity.main([*programs, "--ctx", "41", "--chunks", chunks]) == 0
    err = capsys.readouterr().err
    assert ("note: the text fills 3 of 4 windows\n" in err, "note:" in err) == (noted, noted)
