# SPDX-License-Identifier: MIT
"""The krafla package: what it adds to krafla.h, which is ownership, exceptions and Python's types.

.venv/bin/python -m pytest tests/py/test_krafla_package.py
"""

from __future__ import annotations

import dataclasses
import gc
import inspect
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import cffi
import numpy as np
import pytest

import krafla
from krafla import _select
from made import plain_tokenizer, random_model

VOCAB = 512
PROMPT = [1, 300, 7, 411, 20, 300, 99]
PACKAGE = Path(krafla.__file__).parent

pytestmark = pytest.mark.usefixtures("use_library")


@pytest.fixture(scope="module")
def model_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random model."""
    return random_model(tmp_path_factory.mktemp("model") / "rand.mlb", VOCAB)


@pytest.fixture
def model(model_path: Path) -> krafla.Model:
    """Return it, open."""
    return krafla.Model.open(model_path)


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter of its own."""
    names = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **environment}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=names, check=False
    )


def test_the_header_is_the_cdef() -> None:
    ffi = cffi.FFI()
    ffi.cdef(_select.declarations())
    assert ffi.sizeof("krafla_error") == 512
    lib = _select.library()
    header = (PACKAGE.parent.parent / "include" / "krafla.h").read_text(encoding="utf-8")
    assert _select.declarations() in header
    missing = [name for name in dir(lib) if getattr(lib, name, None) is None]
    assert missing == []


def test_every_status_has_its_exception() -> None:
    _select.library()
    statuses = set(_select.ffi.typeof("krafla_status").elements)
    assert statuses - {0} == set(krafla._errors.BY_STATUS)
    assert len(set(krafla._errors.BY_STATUS.values())) == len(statuses) - 1


@pytest.mark.parametrize(
    ("mirror", "struct"),
    [(krafla.ModelInfo, "krafla_model_info"), (krafla.Profile, "krafla_profile")],
)
def test_data_classes_have_the_members_of_their_structs(mirror: type, struct: str) -> None:
    _select.library()
    members = [name for name, _ in _select.ffi.typeof(struct).fields if name != "struct_size"]
    assert [field.name for field in dataclasses.fields(mirror)] == members


@pytest.mark.parametrize(
    ("function", "struct", "renamed"),
    [
        (krafla.Model.open, "krafla_model_options", {"progress_arg": "progress"}),
        (krafla.Model.session, "krafla_session_options", {"kv_type": "kv"}),
    ],
)
def test_options_have_their_keywords(
    function: Callable[..., object], struct: str, renamed: dict[str, str]
) -> None:
    _select.library()
    members = [name for name, _ in _select.ffi.typeof(struct).fields if name != "struct_size"]
    names = {renamed.get(name, name.removeprefix("n_")) for name in members}
    parameters = inspect.signature(function).parameters.values()
    assert {p.name for p in parameters if p.kind is p.KEYWORD_ONLY} == names


def test_progress_ends_with_all_of_the_work(model_path: Path) -> None:
    told: list[tuple[int, int]] = []
    krafla.Model.open(model_path, progress=lambda done, total: told.append((done, total))).close()
    assert told
    assert told[-1][0] == told[-1][1] > 0
    assert told == sorted(told)


def test_what_progress_raises_comes_out_of_open(model_path: Path) -> None:
    def stop(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        krafla.Model.open(model_path, progress=stop)


def test_generation_is_greedy_decoding(model: krafla.Model) -> None:
    with model.session(ctx=32) as session, model.session(ctx=32) as other:
        got = list(session.generate(PROMPT, max_tokens=8))
        want = list(PROMPT)
        for _ in range(8):
            other.sync(want)
            want.append(int(other.logits().argmax()))
        assert want[len(PROMPT) :] == got
        assert len(session) == len(PROMPT) + 7


def test_generation_ends_at_a_stop_token_and_at_the_context(model: krafla.Model) -> None:
    with model.session(ctx=12) as session:
        whole = list(session.generate(PROMPT))
        assert len(whole) == 12 - len(PROMPT) + 1
        stop = whole[3]
        assert whole[: whole.index(stop)] == list(session.generate(PROMPT, stop=[stop]))
        with pytest.raises(krafla.KraflaContextError):
            list(session.generate([1] * 13))


def test_a_sampler_gives_the_same_tokens_for_the_same_seed(model: krafla.Model) -> None:
    def sample(seed: int) -> list[int]:
        with model.session() as session, krafla.Sampler(VOCAB, temperature=2, seed=seed) as sampler:
            return list(session.generate(PROMPT, sampler, max_tokens=16))

    assert sample(5) == sample(5)
    assert sample(5) != sample(6)


def test_logits_are_a_read_only_view_of_the_session(model: krafla.Model) -> None:
    session = model.session()
    session.sync(PROMPT)
    logits = session.logits()
    before = logits.copy()
    assert logits.shape == (VOCAB,)
    assert logits.dtype == np.float32
    with pytest.raises(ValueError, match="read-only"):
        logits[0] = 1.0
    session.sync([2, 3])
    assert not np.array_equal(before, logits)  # the same memory, new values


def test_a_view_keeps_the_memory_of_a_closed_session(model_path: Path) -> None:
    model = krafla.Model.open(model_path)
    session = model.session()
    session.sync(PROMPT)
    logits = session.logits()
    before = logits.copy()
    keepers = weakref.ref(model._keeper), weakref.ref(session._keeper)
    model.close()
    assert session.closed
    assert keepers[0]() is not None
    np.testing.assert_array_equal(before, logits)
    del logits
    gc.collect()
    assert [keeper() for keeper in keepers] == [None, None]


def test_logits_at_every_position(model: krafla.Model) -> None:
    with model.session(all_logits=True) as session, model.session() as one_by_one:
        session.sync(PROMPT)
        for position in range(len(PROMPT)):
            one_by_one.sync(PROMPT[: position + 1])
            np.testing.assert_array_equal(one_by_one.logits(), session.logits_at(position))
        for position in (len(PROMPT), -1):
            with pytest.raises(krafla.KraflaArgumentError):
                session.logits_at(position)


def test_an_empty_session_has_no_logits(model: krafla.Model) -> None:
    with model.session() as session, pytest.raises(krafla.KraflaArgumentError, match="empty"):
        session.logits()


def test_closed_objects_say_so(model: krafla.Model, tmp_path: Path) -> None:
    session = model.session()
    model.close()
    assert session.closed
    tokenizer = krafla.Tokenizer.open(plain_tokenizer(tmp_path / "tok.bin", VOCAB))
    tokenizer.close()
    tokenizer.close()
    for call in (lambda: session.sync([1]), model.session, lambda: tokenizer.encode("a")):
        with pytest.raises(krafla.KraflaClosedError, match=r"this \w+ is closed"):
            call()


def test_garbage_is_freed_after_what_borrows_from_it(model_path: Path) -> None:
    model = krafla.Model.open(model_path)
    session = model.session()
    session.sync(PROMPT)
    keepers = weakref.ref(model._keeper), weakref.ref(session._keeper)
    del model
    gc.collect()
    assert keepers[0]() is not None
    session.sync([*PROMPT, 5])
    del session
    gc.collect()
    assert [keeper() for keeper in keepers] == [None, None]


def test_leaving_everything_open_at_exit_is_fine(model_path: Path) -> None:
    code = (
        "import krafla, sys\n"
        "m = krafla.Model.open(sys.argv[1] if len(sys.argv) > 1 else MODEL)\n"
        "s = m.session(); s.sync([1, 2, 3]); g = s.generate([1, 2]); print(next(g) >= 0)\n"
    )
    done = run_python(f"MODEL = {str(model_path)!r}\n{code}")
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")


def test_sessions_of_one_model_run_in_parallel_threads(model: krafla.Model) -> None:
    with model.session(threads=1) as session:
        want = list(session.generate(PROMPT, max_tokens=20))
    results: list[list[int]] = []

    def work() -> None:
        with model.session(threads=1) as mine:
            results.append(list(mine.generate(PROMPT, max_tokens=20)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [want] * 4


def test_text_round_trips(tmp_path: Path) -> None:
    with krafla.Tokenizer.open(plain_tokenizer(tmp_path / "tok.bin", VOCAB)) as tokenizer:
        text = "Hello \u00e9t\u00e9 \U0001f999"
        ids = tokenizer.encode(text)
        assert len(tokenizer) == VOCAB
        assert ids[0] == tokenizer.bos
        assert ids[1:] == tokenizer.encode(text, bos=False)
        assert text == tokenizer.decode(ids[1:])
        pieces, previous = b"", None
        for i in ids[1:]:
            pieces += tokenizer.decode_bytes([i], previous=previous)
            previous = i
        assert text.encode() == pieces
        assert [tokenizer.is_special(i) for i in (*ids[:2], -1, VOCAB)] == [True] + [False] * 3


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda p: krafla.Model.open(p / "none.mlb"), krafla.KraflaIOError, "none.mlb"),
        (lambda p: krafla.Model.open(p / "html"), krafla.KraflaFormatError, "HTML"),
        (lambda p: krafla.Model.open(p, pack="x"), krafla.KraflaArgumentError, "memory, none"),
        (lambda _: krafla.Sampler(0), krafla.KraflaArgumentError, "vocab is 0"),
        (lambda _: krafla.Sampler(9, top_p=2), krafla.KraflaArgumentError, "top_p is 2"),
        (lambda p: krafla.Tokenizer.open(p / "a\0b"), krafla.KraflaArgumentError, "zero character"),
    ],
    ids=["missing", "html", "pack", "vocab", "top_p", "path"],
)
def test_errors_are_exceptions_of_their_kind(
    call: object, error: type[Exception], message: str, tmp_path: Path
) -> None:
    (tmp_path / "html").write_text("<!DOCTYPE html><html></html>")
    assert callable(call)
    with pytest.raises(error, match=message):
        call(tmp_path)


def test_bad_arguments_are_refused(model: krafla.Model) -> None:
    with pytest.raises(krafla.KraflaArgumentError, match="kv is 'q4'"):
        model.session(kv="q4")
    with model.session() as session:
        for tokens in ([], [VOCAB], [-1]):
            with pytest.raises(krafla.KraflaArgumentError):
                session.sync(tokens)
    sampler = krafla.Sampler(VOCAB)
    with pytest.raises(krafla.KraflaArgumentError, match=r"float64\[512\]"):
        sampler.next(np.zeros(VOCAB))  # type: ignore[arg-type]  # float64: the mistake
    with pytest.raises(krafla.KraflaNumericError):
        sampler.next(np.full(VOCAB, np.nan, dtype=np.float32))


def test_the_library_is_chosen_by_name(use_library: Path) -> None:
    code = "import krafla; print(krafla.isa())"
    isa = use_library.parent.name.split("-")[0]
    assert run_python(code).stdout.strip() == isa
    assert run_python(code, KRAFLA_LIB="", KRAFLA_ISA=isa).stdout.strip() == isa
    refused = run_python(code, KRAFLA_LIB="", KRAFLA_ISA="sse9")
    assert refused.returncode == 1
    assert "KraflaCpuError: no libkrafla was found: build one with make" in refused.stderr
    refused = run_python(code, KRAFLA_LIB=__file__)
    assert "invalid ELF header" in refused.stderr


def test_a_library_that_is_missing_is_named_each_time() -> None:
    code = """
import krafla
for _ in range(2):
    try:
        krafla.isa()
    except krafla.KraflaCpuError as error:
        print(error)
"""
    said = run_python(code, KRAFLA_LIB="", KRAFLA_ISA="sse9").stdout.splitlines()
    assert [line.split(":")[0] for line in said] == ["no libkrafla was found"] * 2
