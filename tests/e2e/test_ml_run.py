# SPDX-License-Identifier: MIT
"""ml_run as its user meets it: options, exit codes, what goes to stdout and what to stderr.

make ISA=avx2 e2e
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import convert
import gen_random
from made import plain_tokenizer, random_model
from mlb.envelope import CONTROL

if TYPE_CHECKING:
    from tests.conftest import Krafla, NotRun

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "golden"
VOCAB = 512
TOKENS = "1,300,7,411,20"
STATISTICS = (
    r"positions: \d+, tok/s: \d+\.\d, threads: \d+, isa: \w+, packed: \d+, kv: (f32|f16|q8)"
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a random model."""
    return random_model(tmp_path_factory.mktemp("model") / "rand.mlb", VOCAB)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a llama2.c tokenizer for it."""
    return plain_tokenizer(tmp_path_factory.mktemp("tokenizer") / "tok.bin", VOCAB)


def ids_of(done: subprocess.CompletedProcess[bytes]) -> list[int]:
    """Return the ids of a successful run without a tokenizer."""
    assert done.returncode == 0, done.stderr
    return [int(word) for word in done.stdout.split()]


def test_a_tokenizer_of_another_model_is_warned_of(
    krafla: Krafla, model: Path, tokenizer: Path, tmp_path: Path
) -> None:
    other = plain_tokenizer(tmp_path / "other.bin", VOCAB + 65)
    done = krafla("ml_run", model, "-z", other, "--tokens", TOKENS, "-n", "7")
    assert done.returncode == 0
    warned = f"warning: {other} has 577 tokens, but {model} only 512 rows for them: "
    assert warned.encode() in done.stderr
    own = krafla("ml_run", model, "-z", tokenizer, "--tokens", TOKENS, "-n", "7")
    assert b"warning" not in own.stderr


def test_ids_in_ids_out_for_every_position(krafla: Krafla, model: Path) -> None:
    done = krafla("ml_run", model, "--tokens", TOKENS, "-n", "12", "-t", "1")
    ids = ids_of(done)
    assert ids[:5] == [1, 300, 7, 411, 20]
    assert len(ids) == 12 + 1  # the token that follows the last position too
    assert all(0 <= i < VOCAB for i in ids)
    assert done.stdout.endswith(b"\n")
    lines = done.stderr.decode().splitlines()
    assert len(lines) == 2
    assert re.fullmatch(r"prefill: 5 tokens in \d+ ms \(\d+\.\d tok/s\)", lines[0])
    assert re.fullmatch(STATISTICS, lines[1])
    assert lines[1].startswith("positions: 12, ")


def test_one_prompt_token_has_no_prefill_line(krafla: Krafla, model: Path) -> None:
    lines = krafla("ml_run", model, "--tokens", "1", "-n", "4", "-t", "1").stderr.decode()
    assert re.fullmatch(STATISTICS + "\n", lines)


def test_without_t_the_thread_count_has_a_reason(krafla: Krafla, model: Path) -> None:
    first = krafla("ml_run", model, "--tokens", "1", "-n", "2").stderr.decode().splitlines()[0]
    assert re.fullmatch(r"threads: \d+ \(.+\)", first)


def test_n_is_64_by_default_and_capped_at_ctx(krafla: Krafla, model: Path) -> None:
    assert len(ids_of(krafla("ml_run", model, "--tokens", "1"))) == 64 + 1
    assert len(ids_of(krafla("ml_run", model, "--tokens", "1", "--ctx", "9", "-n", "50"))) == 9 + 1


def test_eos_stops_before_the_token(krafla: Krafla, model: Path) -> None:
    ids = ids_of(krafla("ml_run", model, "--tokens", TOKENS, "-n", "30"))
    stop = ids[8]
    cut = ids.index(stop, 5)
    got = ids_of(krafla("ml_run", model, "--tokens", TOKENS, "-n", "30", "--eos", str(stop)))
    assert ids[:cut] == got


def test_the_seed_decides_and_top_k_1_is_greedy(krafla: Krafla, model: Path) -> None:
    def run(*more: str) -> list[int]:
        return ids_of(krafla("ml_run", model, "--tokens", TOKENS, "-n", "20", *more))

    assert run("-T", "5", "-s", "3") == run("-T", "5", "-s", "3")
    assert run("-T", "5", "-s", "3") != run("-T", "5", "-s", "4")
    assert run("-T", "5", "--top-k", "1") == run()
    assert run("--repeat-penalty", "3") != run()
    assert run("--repeat-penalty", "3", "--repeat-last-n", "0") == run()


def test_every_sampling_option_changes_what_is_chosen(krafla: Krafla, model: Path) -> None:
    def run(*more: str) -> list[int]:
        return ids_of(krafla("ml_run", model, "--tokens", TOKENS, "-n", "60", *more))

    greedy = run()
    warm = run("-T", "2", "-p", "1")
    assert run("-T", "2", "-p", "1", "--min-p", "0.3") != warm
    assert run("-T", "2", "-p", "1", "--min-p", "1") == greedy
    for penalty in ("--presence-penalty", "--frequency-penalty"):
        assert run(penalty, "2", "--repeat-last-n", "1000") != greedy
        assert run(penalty, "-0.5", "-T", "2", "-p", "1") != warm
        assert run(penalty, "2", "--repeat-last-n", "0") == greedy
    never = run("--logit-bias", f"{greedy[5]}=-100,{greedy[6]}=-100")
    assert not {greedy[5], greedy[6]} & set(never[5:])
    assert set(run("--logit-bias", "77=100")[5:]) == {77}


def recommending_model(directory: Path, **generation: object) -> Path:
    """Convert a golden model whose generation_config.json says this."""
    source = shutil.copytree(GOLDEN / "llama", directory / "checkpoint")
    (source / "generation_config.json").write_text(json.dumps(generation))
    path = directory / "m.mlb"
    assert convert.main(["hf", str(source), str(path), "--wtype", "q8"]) == 0
    return path


def test_sampling_model_takes_what_the_model_recommends(krafla: Krafla, tmp_path: Path) -> None:
    config = {"do_sample": True, "top_k": 20, "min_p": 0.01, "repetition_penalty": 1.3}
    path = recommending_model(tmp_path, **config)

    def run(*more: str) -> tuple[list[int], list[str]]:
        done = krafla("ml_run", path, "--tokens", "1,300,7", "-n", "90", "-t", "1", *more)
        lines = done.stderr.decode().splitlines()
        return ids_of(done), [line for line in lines if line.startswith("sampling: ")]

    ids, lines = run("--sampling", "model")
    assert lines == ["sampling: temperature 1, top-k 20, top-p 0, min-p 0.01, repeat penalty 1.3"]
    numbers = ("-T", "1", "--top-k", "20", "--min-p", "0.01", "--repeat-penalty", "1.3", "-p", "0")
    assert ids == run(*numbers, "--repeat-last-n", "1000")[0]
    assert ids != run(*numbers)[0]  # 64 tokens back, not all
    other, lines = run("--sampling", "model", "-T", "0.5", "--top-k", "0", "-p", "0.8")
    assert lines == [
        "sampling: temperature 0.5, top-k 0, top-p 0.8, min-p 0.01, repeat penalty 1.3"
    ]
    assert other != ids
    greedy, lines = run()
    assert lines == []
    assert greedy == run("--sampling", "greedy")[0]


def test_a_model_that_recommends_nothing_is_greedy(krafla: Krafla, model: Path) -> None:
    args = ("ml_run", model, "--tokens", TOKENS, "-n", "20", "-t", "1")
    done = krafla(*args, "--sampling", "model")
    assert ids_of(done) == ids_of(krafla(*args))
    line = "sampling: temperature 0 (always the most likely token), top-k 0, top-p 0, min-p 0, "
    assert line in done.stderr.decode()


def test_text_is_the_prompt_and_what_follows(krafla: Krafla, model: Path, tokenizer: Path) -> None:
    prompt = "Once upon a \u00e9t\u00e9"
    args = (model, "-z", tokenizer, "-i", prompt, "-n", "40", "-t", "1")
    done = krafla("ml_run", *args, "--show-prompt")
    assert done.returncode == 0
    assert done.stdout.decode().startswith(prompt)
    shown = re.search(r"^prompt: (\d+) tokens:((?: \d+)+)$", done.stderr.decode(), re.MULTILINE)
    assert shown
    ids = shown[2].split()
    assert ids[0] == "1"
    assert int(shown[1]) == len(ids)
    # Without a tokenizer the same ids follow; ml_tok turns them into the same text.
    raw = ids_of(krafla("ml_run", model, "--tokens", ",".join(ids), "-n", "40"))
    stops = [i for i, token in enumerate(raw) if token in {1, 2} and i > 0]
    words = " ".join(map(str, raw[: min(stops, default=len(raw))]))
    text = krafla("ml_tok", tokenizer, "--decode", input=words.encode()).stdout
    assert (
        text.decode("utf-8", "replace")
        .rstrip("\n")
        .endswith(done.stdout.decode().removesuffix("\n"))
    )


def test_output_is_whole_characters_whatever_the_model_says(
    krafla: Krafla, model: Path, tokenizer: Path
) -> None:
    for seed in range(5):
        more = ("-n", "120", "-T", "9", "-p", "1", "-s", str(seed), "-t", "1")
        done = krafla("ml_run", model, "-z", tokenizer, "--tokens", "1", *more)
        assert done.returncode == 0
        done.stdout.decode("utf-8")  # strict: raises on half a character
    emoji = ",".join(str(3 + b) for b in "\U0001f999".encode())
    done = krafla("ml_run", model, "-z", tokenizer, "--tokens", f"1,{emoji},300", "-n", "6")
    assert "\U0001f999" in done.stdout.decode()
    half = ",".join(str(3 + b) for b in "\U0001f999".encode()[:2])
    done = krafla("ml_run", model, "-z", tokenizer, "--tokens", f"1,{half},300", "-n", "4")
    assert "\ufffd" in done.stdout.decode()


def test_dump_logits_is_the_same_for_every_batch(
    krafla: Krafla, model: Path, tmp_path: Path
) -> None:
    dumps = []
    for batch in ("1", "3", "128"):
        path = tmp_path / f"{batch}.f32"
        done = krafla(
            "ml_run", model, "--tokens", TOKENS, "--dump-logits", path, "--batch", batch, "-t", "1"
        )
        assert (done.returncode, done.stdout) == (0, b"")
        assert re.search(STATISTICS, done.stderr.decode())
        dumps.append(path.read_bytes())
    assert len(dumps[0]) == 5 * VOCAB * 4
    assert dumps[0] == dumps[1] == dumps[2]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.f32", "128.f32", "3.f32"]


def test_a_failed_dump_leaves_nothing(krafla: Krafla, model: Path, tmp_path: Path) -> None:
    args = ("ml_run", model, "--tokens", TOKENS, "--dump-logits")
    done = krafla(*args, tmp_path / "none" / "l.f32")
    assert done.returncode == 1
    assert re.search(rb"error: cannot create .*/none/l.f32.tmp: No such file", done.stderr)
    (tmp_path / "folder").mkdir()
    done = krafla(*args, tmp_path / "folder")
    assert done.returncode == 1
    assert b"error: cannot replace" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_dump_does_not_touch_a_file_it_did_not_make(
    krafla: Krafla, model: Path, tmp_path: Path
) -> None:
    other = tmp_path / "l.f32.tmp"
    other.write_bytes(b"precious")
    done = krafla("ml_run", model, "--tokens", "1", "--dump-logits", tmp_path / "l.f32")
    assert done.returncode == 1
    assert b"l.f32.tmp: File exists\n" in done.stderr
    assert other.read_bytes() == b"precious"


def test_profile_shares_add_up(krafla: Krafla, model: Path) -> None:
    done = krafla("ml_run", model, "--tokens", TOKENS, "-n", "40", "--profile")
    line = re.search(r"^profile: (.*) of \d+ ms$", done.stderr.decode(), re.MULTILINE)
    assert line
    stages = dict(part.rsplit(" ", 1) for part in line[1].split(", "))
    assert list(stages) == ["qkv", "attention", "wo", "ffn", "classifier", "other"]
    assert abs(sum(float(share.rstrip("%")) for share in stages.values()) - 100) < 1


@pytest.mark.parametrize("kv", ["f32", "f16", "q8"])
def test_the_kv_type_is_reported(krafla: Krafla, model: Path, kv: str) -> None:
    done = krafla("ml_run", model, "--tokens", TOKENS, "-n", "8", "--kv", kv)
    assert done.stderr.decode().endswith(f"kv: {kv}\n")


def test_a_q8_cache_refuses_heads_above_512(krafla: Krafla, tmp_path: Path) -> None:
    """Sums of 512 products are what fits into 32 bits."""
    path = tmp_path / "wide.mlb"
    shape = ("--dim", "32", "--heads", "1", "--kv-heads", "1", "--head-dim", "544", "--layers", "1")
    made = ("--out", str(path), "--wtype", "q8", "--hidden", "32", "--vocab", str(VOCAB), *shape)
    assert gen_random.main(made) == 0
    done = krafla("ml_run", path, "--tokens", TOKENS, "-n", "8", "--kv", "q8")
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "error: a q8 KV cache holds heads of up to 512 elements, this model's have 544: "
        "use --kv f16\n"
    )
    assert krafla("ml_run", path, "--tokens", TOKENS, "-n", "8", "--kv", "f16").returncode == 0


# Arguments after the model, and what the one line on stderr must say.  TOK is the tokenizer.
USAGE = [
    (["--tokens", "1", "--kv=q4"], r"option --kv is \"q4\", expected one of f32, f16, q8"),
    (["--tokens", "1", "--topk", "3"], r"there is no option --topk; did you mean --top-k\?"),
    (["--tokens", "1", "--frobnicate"], r"there is no option --frobnicate \("),
    (["--tokens", "1", "-n", "4x"], r"option -n is \"4x\", expected an integer from 1 to"),
    (["--tokens", "1", "-n", "0"], r"option -n is \"0\""),
    (["--tokens", "1", "-n", " 4"], r"option -n is \" 4\""),
    (["--tokens", "1", "-n", "99999999999999999999"], r"option -n is \"9+\""),
    (["--tokens", "1", "-n"], r"option -n needs a value"),
    (["--tokens", "1", "-T", "nan"], r"option -T is \"nan\", expected a number from 0 to 100"),
    (["--tokens", "1", "-T", "0x1"], r"option -T is \"0x1\""),
    (["--tokens", "1", "-T", "1,5"], r"option -T is \"1,5\""),
    (["--tokens", "1", "-p", "1.01"], r"option -p is \"1.01\", expected a number from 0 to 1"),
    (["--tokens", "1", "-s", "-1"], r"option -s is \"-1\", expected an integer from 0 to 18446"),
    (["--tokens", "1", "-s", "18446744073709551616"], r"option -s"),
    (["--tokens", "1", "-t", "65"], r"option -t is \"65\", expected an integer from 1 to 64"),
    (["--tokens", "1", "--batch", "129"], r"option --batch is \"129\""),
    (["--tokens", "1", "--no-pack=yes"], r"option --no-pack takes no value"),
    (["--tokens", "1", "--no-pack", "--pack-cache"], r"exclude each other"),
    (["--tokens", "1", "--min-p", "1.5"], r"option --min-p is \"1.5\", expected a number from 0"),
    (["--tokens", "1", "--presence-penalty", "-3"], r"option --presence-penalty is \"-3\""),
    (
        ["--tokens", "1", "--sampling", "x"],
        r"option --sampling is \"x\", expected one of greedy, m",
    ),
    (["--tokens", "1", "--logit-bias", "512=1"], r"item 1 is \"512=1\", .* an id from 0 to 511"),
    (["--tokens", "1", "--logit-bias", "5=1,6=101"], r"item 2 is \"6=101\", .* -100 to 100"),
    (["--tokens", "1", "--logit-bias", "5=nan"], r"item 1 is \"5=nan\", expected ID=BIAS"),
    (["--tokens", "1", "--logit-bias", "5,6=1"], r"item 1 is \"5\", expected ID=BIAS"),
    (["--tokens", "1", "--logit-bias", "5=1,"], r"item 2 is \"\", expected ID=BIAS"),
    (["--tokens", "1", "extra"], r"\"extra\" is one word too many"),
    (["--tokens", "1", "--ctx", "257"], r"--ctx is 257, but the model has at most 256"),
    (["--tokens", "1", "--eos", "512"], r"--eos is 512, but the model has the ids 0 to 511"),
    (["--tokens", "1,512"], r"--tokens: item 2 is \"512\", expected an id from 0 to 511"),
    (["--tokens", "1,,2"], r"--tokens: item 2 is \"\""),
    (["--tokens", ""], r"--tokens: item 1 is \"\""),
    (["--tokens", "1,2,3,4,5", "-n", "4"], r"the prompt has 5 tokens, but -n 4 .*: raise -n"),
    (["--tokens", "1,2,3,4,5", "--ctx", "4"], r"the prompt has 5 tokens.*: raise --ctx"),
    (["--tokens", "1,2,3", "--ctx", "2", "--dump-logits", "x"], r"3 ids, the context 2: raise"),
    (["--tokens", "1", "-i", "x"], r"-i and --tokens both give a prompt"),
    (["-i", "x"], r"-i needs a tokenizer: add -z FILE"),
    (["--chat", "llama2"], r"--chat needs a tokenizer"),
    (["--chat", "llama9", "-z", "TOK"], r"there is no chat template \"llama9\""),
    (["--chat", "llama2", "-z", "TOK", "--tokens", "1"], r"drop --tokens"),
    (["--chat", "auto", "-z", "TOK"], r"names a chat template: .* chatml, gemma, llama2, "),
    (["--chat", "gemma", "-z", "TOK"], r"gemma needs the token <end_of_turn>"),
    (["--system", "x", "--tokens", "1"], r"--system needs --chat"),
    (["--dump-logits", "x", "-z", "TOK", "-i", "a"], r"--dump-logits needs the positions"),
    (["-z", "TOK"], r"nothing to do: add --chat TEMPLATE, -i TEXT or --tokens LIST"),
]


@pytest.mark.parametrize(("args", "message"), USAGE, ids=[" ".join(a) for a, _ in USAGE])
def test_usage_errors_are_one_line_and_exit_code_2(
    krafla: Krafla, model: Path, tokenizer: Path, *, args: list[str], message: str
) -> None:
    words = [str(tokenizer) if word == "TOK" else word for word in args]
    threads = [] if "-t" in args else ["-t", "1"]
    done = krafla("ml_run", model, *threads, *words, cwd=model.parent)
    stderr = done.stderr.decode()
    assert done.returncode == 2, stderr
    assert re.search(message, stderr)
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert done.stdout == b""
    assert list(model.parent.iterdir()) == [model]


@pytest.mark.parametrize("word", ["a\nb", "\x1b[2J", "\x9b2J"], ids=["line", "C0", "C1"])
def test_words_of_the_user_do_not_command_the_terminal(
    word: str, krafla: Krafla, model: Path
) -> None:
    for args in (["-n", word], [word, word], ["-i", "x", "-z", word]):
        done = krafla("ml_run", model, *args)
        assert done.returncode in {1, 2}
        (line,) = done.stderr.decode().split("\n")[:-1]
        assert line.startswith("error: ")
        assert not CONTROL.search(line)


def test_no_model_is_a_usage_error(krafla: Krafla) -> None:
    done = krafla("ml_run")
    assert done.returncode == 2
    assert b"no model: usage is ml_run MODEL.mlb [options]" in done.stderr


def test_files_that_are_no_models_exit_with_1(krafla: Krafla, model: Path, tmp_path: Path) -> None:
    (tmp_path / "page.mlb").write_text("<!DOCTYPE html>\n<html></html>\n")
    (tmp_path / "cut.mlb").write_bytes(model.read_bytes()[:-100])
    for name in ("none.mlb", "page.mlb", "cut.mlb", "."):
        done = krafla("ml_run", tmp_path / name, "--tokens", "1")
        assert done.returncode == 1, name
        assert done.stderr.startswith(b"error: ")
        assert done.stderr.count(b"\n") == 1


def test_a_tokenizer_of_another_model_is_named(krafla: Krafla, tmp_path: Path) -> None:
    small = random_model(tmp_path / "small.mlb", 320)
    big = plain_tokenizer(tmp_path / "big.bin", VOCAB)
    done = krafla("ml_run", small, "-z", big, "-i", "zebra quilts and Xylophones")
    assert done.returncode == 1
    assert re.search(
        rb"error: token \d+ of the prompt is outside the model's vocabulary of 320 tokens "
        rb"\(the tokenizer has 512\)",
        done.stderr,
    )


def test_padding_of_the_vocabulary_is_never_chosen(krafla: Krafla, tmp_path: Path) -> None:
    padded = random_model(tmp_path / "padded.mlb", VOCAB)
    small = plain_tokenizer(tmp_path / "small.bin", 300)
    more = ("-n", "200", "-T", "50", "-p", "1", "-t", "1")
    free = ids_of(krafla("ml_run", padded, "--tokens", "1", *more))
    assert max(free) >= 300
    done = krafla("ml_run", padded, "-z", small, "--tokens", "1", *more)
    assert done.returncode == 0
    done = krafla("ml_run", padded, "-z", small, "--tokens", "1", "--logit-bias", "300=100", *more)
    assert done.returncode == 2
    assert b'item 1 is "300=100", expected ID=BIAS with an id from 0 to 299' in done.stderr


def test_help_names_what_the_guide_names(krafla: Krafla) -> None:
    done = krafla("ml_run", "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    page = done.stdout.decode()
    options = set(re.findall(r"^  (--?[\w-]+)", page, re.MULTILINE))
    guide = Path(__file__).resolve().parents[2] / "docs" / "user-guide.md"
    section = guide.read_text(encoding="utf-8").split("### Options of ml_run")[1].split("\n#")[0]
    # The page of the guide needs no line on how to get this one.
    assert options - {"--help"} == set(re.findall(r"^\| `(--?[\w-]+)", section, re.MULTILINE))
    assert max(map(len, page.splitlines())) <= 100


def test_version_names_the_build(krafla: Krafla, build_dir: Path) -> None:
    done = krafla("ml_run", "--version")
    isa = build_dir.name.split("-")[0]
    assert re.fullmatch(rf"ml_run \d+\.\d+\.\d+, isa: {isa}\n", done.stdout.decode())


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_page_that_cannot_be_written_is_an_error(
    option: str, build_dir: Path, emulator: list[str]
) -> None:
    command: list[str | Path] = [*emulator, build_dir / "ml_run", option]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 1
    assert done.stderr == b"error: cannot write to stdout: No space left on device\n"


def test_probe_says_nothing(krafla: Krafla) -> None:
    done = krafla("ml_run", "--probe")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


NEEDS = "no-such-feature"


@pytest.mark.parametrize(
    ("lists", "code"),
    [(["", NEEDS], 10), ([NEEDS, "", ""], 11), ([NEEDS] * 4 + [""], 14), ([NEEDS, f" {NEEDS}"], 3)],
    ids=["first", "second", "fifth", "none"],
)
def test_probe_of_lists_names_the_first_that_this_cpu_has(
    krafla: Krafla, lists: list[str], code: int
) -> None:
    done = krafla("ml_run", "--probe", *lists)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_probe_of_more_lists_than_there_are_codes_is_none(krafla: Krafla) -> None:
    assert krafla("ml_run", "--probe", *[NEEDS] * 90, "").returncode == 3
    assert krafla("ml_run", "--probe", *[NEEDS] * 89, "").returncode == 99


def test_a_cpu_without_the_instructions_is_exit_code_3(
    build_dir: Path, emulator: list[str], not_run: NotRun
) -> None:
    isa = build_dir.name.split("-")[0]
    if emulator or isa in {"sse2", "scalar", "scalar_fused"} or os.uname().machine != "x86_64":
        not_run("every emulated CPU of this architecture can run this build")
    if build_dir.name.endswith("-asan"):
        not_run("the emulator does not run the address sanitizer")
    oldest: list[str | Path] = [
        "qemu-x86_64",
        "-cpu",
        "core2duo-v1,-ssse3,-sse3",
        build_dir / "ml_run",
    ]
    try:
        done = subprocess.run([*oldest, "--help"], capture_output=True, check=False)
    except FileNotFoundError:
        not_run("qemu-x86_64 is not installed")
    assert done.returncode == 3
    assert re.fullmatch(rf"error: CPU lacks \S+ required by ISA={isa}\n", done.stderr.decode())
    for asked in (["--probe"], ["--probe", ""]):
        quiet = subprocess.run([*oldest, *asked], capture_output=True, check=False)
        assert (quiet.returncode, quiet.stdout, quiet.stderr) == (3, b"", b"")


@pytest.mark.parametrize("target", ["closed pipe", "full disk"])
def test_output_that_cannot_be_written_is_an_error(
    build_dir: Path, emulator: list[str], model: Path, target: str
) -> None:
    if target == "full disk":
        out = os.open("/dev/full", os.O_WRONLY)
    else:
        end, out = os.pipe()
        os.close(end)
    try:
        command: list[str | Path] = [
            *emulator,
            build_dir / "ml_run",
            model,
            "--tokens",
            "1",
            "-n",
            "20",
        ]
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(out)
    reason = b"No space left on device" if target == "full disk" else b"Broken pipe"
    assert done.returncode == 1
    assert b"error: cannot write the output: " + reason in done.stderr
