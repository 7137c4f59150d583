# SPDX-License-Identifier: MIT
"""The commands of the docs are found, executed and compared; none is left out."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from krafla_release import docs_commands, docs_pages, docs_places
from krafla_release.docs_commands import Row, is_offer, matches
from krafla_release.docs_pages import BEGIN, Command, in_blocks, in_sentences
from krafla_release.project import ROOT, ReleaseError


class Here(docs_places.Places):
    """Every place is one empty directory."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, contextlib.ExitStack())
        for name in ("checkout", "scratch", "downloads", "unpacked"):
            self.__dict__[name] = directory
        self.__dict__["models"] = {}


def texts(page: str) -> list[str]:
    return [command.text for command in [*in_blocks("page", page), *in_sentences("page", page)]]


def run(page: str, tmp_path: Path, rows: dict[str, Row] | None = None) -> docs_commands.Report:
    found = [*in_blocks("page.md", page), *in_sentences("page.md", page)]
    return docs_commands.check(found, rows or {}, Here(tmp_path), quick=True)


def test_a_line_of_a_block_is_a_command_without_its_comment() -> None:
    assert texts("```sh\nmake a  # it\n\n# all of it\nprintf '# b'\n```\n") == [
        "make a",
        "printf '# b'",
    ]


def test_a_backslash_joins_lines_and_the_command_stands_where_it_begins() -> None:
    first, second = in_blocks("page", "```sh\nmake a \\\n    b\nmake c\n```\n")
    assert (first.text, first.line, second.line) == ("make a b", 2, 4)


def test_a_block_in_a_list_is_read_without_its_indent() -> None:
    assert texts("1. First:\n\n    ```sh\n    make a\n    ```\n") == ["make a"]


def test_what_follows_a_block_is_what_its_last_command_prints() -> None:
    page = "```sh\nmake a\nmake b\n```\n\n```text\nb\n```\n\nAnd\n\n```text\nno\n```\n"
    assert [command.shown for command in in_blocks("page", page)] == [None, "b"]
    apart = "```sh\nmake a\n```\n\nelsewhere:\n\n```text\nb\n```\n"
    assert [command.shown for command in in_blocks("page", apart)] == [None]


def test_a_command_in_a_sentence_or_a_table_is_found_also_across_lines() -> None:
    page = "Say `make\ncheck`, or `nox`.\n\n| `scripts/a.sh --b \\| sh` | `./ml_run --help` |\n"
    assert texts(page) == ["make check", "scripts/a.sh --b | sh", "./ml_run --help"]


@pytest.mark.parametrize("span", ["make ISA=<isa> lib", "make [all|test]", "ml_run ...", "ml_run"])
def test_a_span_with_blanks_or_a_bare_name_is_no_command(span: str) -> None:
    assert texts(f"Say `{span}`.") == []


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("a\n\n```\nmake a\n```\n", "page:3: a block in 'no language'"),
        ("```ruby\nputs\n```\n", "page:1: a block in 'ruby'"),
        ("```sh\nmake a\n", "page:1: this block has no end"),
        ("```text\nout\nmake a\n```\n", "page:3: a command in a block of text: make a"),
    ],
    ids=["no language", "unknown language", "no end", "hidden command"],
)
def test_a_block_that_could_hide_a_command_is_refused_with_its_line(
    page: str, message: str
) -> None:
    with pytest.raises(ReleaseError) as caught:
        list(in_blocks("page", page))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a", True),
        ("a", "b", False),
        ("a", "a b", False),
        ("ml_run ..., isa: sse2", "ml_run 0.1.0, isa: sse2\n", True),
        ("1...\n9", "1 2\n3\n9", True),
        ("(a+)", "(a+)", True),
    ],
)
def test_output_is_compared_whole_but_for_dots(shown: str, printed: str, same: bool) -> None:  # noqa: FBT001
    assert matches(shown, printed) is same


def test_a_command_is_executed_as_it_stands_and_compared(tmp_path: Path) -> None:
    page = "```sh\necho one >file\ncat file\n```\n\n```text\none\n```\n"
    report = run(page, tmp_path)
    assert (report.faults, report.counts["executed"]) == ([], 2)
    assert (tmp_path / "file").read_text() == "one\n"


def test_a_command_that_fails_is_named_with_its_line_and_its_words(tmp_path: Path) -> None:
    (fault,) = run("text\n\n```sh\necho why >&2; exit 3\n```\n", tmp_path).faults
    assert fault.startswith("page.md:4: echo why >&2; exit 3: ended with code 3:\nwhy")


def test_output_that_differs_is_a_fault(tmp_path: Path) -> None:
    (fault,) = run("```sh\necho one\n```\n\n```text\ntwo\n```\n", tmp_path).faults
    assert "the page shows\ntwo\nit printed\none" in fault


def test_a_python_block_is_executed_and_compared(tmp_path: Path) -> None:
    page = "```python\nprint(1 + 1)\n```\n\n```text\n{}\n```\n"
    assert run(page.format(2), tmp_path).faults == []
    assert len(run(page.format(3), tmp_path).faults) == 1


def test_what_stands_in_is_executed_and_not_compared(tmp_path: Path) -> None:
    rows = {"make a": Row("make a", "reason", instead=("touch done",))}
    report = run("```sh\nmake a\n```\n\n```text\nanything\n```\n", tmp_path, rows)
    assert (report.faults, report.counts["executed by others"]) == ([], 1)
    assert (tmp_path / "done").is_file()


def test_a_slow_command_is_counted_by_the_quick_run_and_executed_by_the_full(
    tmp_path: Path,
) -> None:
    found = [Command("page.md", 1, "touch done")]
    rows = {"touch done": Row("touch done", "reason", slow=True)}
    for quick in (True, False):
        report = docs_commands.check(found, rows, Here(tmp_path), quick=quick)
        assert (report.counts["left to the full run"], (tmp_path / "done").exists()) == (
            int(quick),
            not quick,
        )


def test_a_program_that_is_new_is_a_command_of_the_archive() -> None:
    for text in ("ml_server model.mlb --port 8080", "./ml_server model.mlb"):
        assert [c.text for c in docs_pages.in_sentences("page.md", f"Type `{text}`.")] == [text]
        assert docs_places.of(text) == "archive"


def test_a_command_of_the_docs_sees_neither_a_token_nor_a_users_choice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("GITHUB_TOKEN", "GITHUB_API_URL", "KRAFLA_ISA"):
        monkeypatch.setenv(name, "of this machine")
    with docs_places.places(tmp_path) as places:
        assert "of this machine" not in places.environment().values()


def test_a_damaged_table_is_named_with_its_line(tmp_path: Path) -> None:
    table = tmp_path / "commands.toml"
    table.write_text("[[command]]\ntext = make\n")
    with pytest.raises(ReleaseError, match=r"commands\.toml: .*line 2"):
        docs_commands.table(table)


def test_sessions_and_tasks_must_exist_with_their_options() -> None:
    offered = docs_commands.Sessions()
    assert offered.fault("nox -s lint types") is None
    assert (
        offered.fault(".venv/bin/nox -s lint frobnicate") == "noxfile.py has no session frobnicate"
    )
    assert offered.fault("invoke build --arch x86_64") is None
    assert offered.fault(".venv/bin/invoke build --frob 1") == "there is no option --frob"
    assert offered.fault("invoke frobnicate") == "tasks.py has no task frobnicate"
    assert not is_offer("nox -l")


def test_every_page_can_be_read_and_every_row_of_the_table_is_of_a_page() -> None:
    commands, rows = docs_pages.commands(), docs_commands.table()
    assert docs_commands.unlisted(rows, commands) == []
    assert len(commands) > 80
    for row in rows.values():
        assert row.because
        assert row.slow or row.instead or row.session, row.text


def test_commands_of_the_readme_are_all_found() -> None:
    page = (ROOT / "README.md").read_text()
    found = texts(page)
    for line in page.splitlines():
        if BEGIN.match(line):
            assert any(line.startswith(command) for command in found), line


def test_the_table_refuses_a_command_that_is_listed_twice(tmp_path: Path) -> None:
    path = tmp_path / "commands.toml"
    path.write_text('[[command]]\ntext = "a"\nbecause = "b"\n' * 2)
    with pytest.raises(ReleaseError, match="'a' is listed twice"):
        docs_commands.table(path)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("make ISA=avx2 build/avx2/ml_bench && build/avx2/ml_bench --kernels", "checkout"),
        (".venv/bin/nox -l", "checkout"),
        ("printf 'a' | ./ml_tok tokenizer.mlt", "archive"),
        ("python3 tools/convert.py --help", "archive"),
        ("python3 tools/gen_random.py --out random.mlb", "scratch"),
        ("sha256sum -c SHA256SUMS", "downloads"),
        ("curl -fsSL {address}/install.sh | sh && .local/bin/ml_run --version", "downloads"),
    ],
)
def test_a_command_is_executed_where_its_reader_is(text: str, place: str) -> None:
    assert docs_places.of(text) == place
    assert docs_places.of(text, docs_pages.BATCH) == "windows"
