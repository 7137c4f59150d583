# SPDX-License-Identifier: MIT
"""The pages that come from data: tables between markers, made from --help, isas.txt, the catalog.

.venv/bin/python -m pytest tests/py/test_sync_docs.py
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import convert
import isas
import sync_docs
from krafla_release import archives, changelog, docs_tables, project, versions
from krafla_release.project import PreflightError
from mlb import chat_templates, envelope

SCHEMA = project.ROOT / "scripts" / "hf_models.schema.json"


def test_no_page_is_stale(build_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (build_dir / "ml_run").is_file()
    assert sync_docs.main(["--check"]) == 0, capsys.readouterr()


def test_every_packaged_program_and_tool_has_its_table() -> None:
    assert set(docs_tables.PROGRAMS) == set(archives.programs())
    tools = {
        Path(member.path).name
        for member in archives.plain_files()
        if re.fullmatch(r"tools/\w+\.py", member.path)
    }
    assert set(docs_tables.TOOLS) == tools


HELP = """\
prog - does something.

usage: prog [options]

Examples:
  prog -x        not an option

options:
  -z FILE              A file. Needed for -i and
                       for output | and *more*.
  --repeat-penalty F
                       A long one.
  --kv {a,b}           as in "--kv a -t 4", from -1 to half-way
  --help               Print this page.
  --version

exit codes: 0 success
"""


def test_options_are_read_from_help() -> None:
    assert list(docs_tables.options(HELP)) == [
        ("-z FILE", "A file. Needed for -i and for output | and *more*."),
        ("--repeat-penalty F", "A long one."),
        ("--kv {a,b}", 'as in "--kv a -t 4", from -1 to half-way'),
        ("--version", ""),
    ]


def test_options_become_a_table() -> None:
    assert docs_tables.options_table({"": HELP}).splitlines() == [
        "| option | meaning |",
        "|---|---|",
        r"| `-z FILE` | A file. Needed for `-i` and for output \| and \*more\*. |",
        "| `--repeat-penalty F` | A long one. |",
        "| `--kv {a,b}` | as in `--kv a -t 4`, from -1 to half-way |",
        "| `--version` |  |",
    ]


def test_options_of_subcommands_say_where_they_differ() -> None:
    helps = {name: f"\noptions:\n  --all N   every\n  --w W   {name}\n" for name in ("a", "b")}
    helps["c"] = helps["b"].replace("--w W   b", "--only C   here")
    assert docs_tables.options_table(helps).splitlines()[2:] == [
        "| `--all N` | every |",
        "| `--w W` | `a`: a; `b`: b |",
        "| `--only C` | `c`: here |",
    ]


def test_help_without_options_is_refused() -> None:
    with pytest.raises(PreflightError, match="options:"):
        list(docs_tables.options("usage: x\n"))


def made(name: str) -> str | None:
    """Make table a; there is nothing for b."""
    return "new" if name == "a" else None


def test_a_table_is_filled_between_its_markers() -> None:
    text = (
        "x\n<!-- table:a -->\nold\n\n<!-- /table -->\ny\n<!-- table:b -->\nkept\n<!-- /table -->\n"
    )
    filled = docs_tables.filled(text, "p.md", made)
    assert filled == text.replace("\nold\n\n", "\n\nnew\n\n")
    assert docs_tables.filled(filled, "p.md", made) == filled


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x\n<!-- /table -->\n", "p.md:2: <!-- /table --> ends no table"),
        ("<!-- table:a -->\n", "p.md: <!-- table:a --> has no <!-- /table -->"),
        (
            "<!-- table:a -->\n<!-- table:b -->\n<!-- /table -->\n",
            "p.md:2: <!-- table:a --> before this has no end",
        ),
    ],
)
def test_markers_that_do_not_pair_are_refused(text: str, what: str) -> None:
    with pytest.raises(PreflightError) as caught:
        docs_tables.filled(text, "p.md", made)
    assert str(caught.value) == what


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return docs of two pages, for two tables, one of which cannot be made here."""

    def missing() -> str:
        raise docs_tables.NotMadeError("nothing is built: make it")

    tables = {"a": lambda: "new", "b": missing}
    monkeypatch.setattr(docs_tables, "tables", lambda: tables)
    monkeypatch.setattr(sync_docs, "ROOT", tmp_path)
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "one.md").write_text("<!-- table:a -->\n<!-- /table -->\n")
    (docs / "two.md").write_text("<!-- table:b -->\nold\n<!-- /table -->\n")
    (docs / "none.md").write_text("# Nothing\n")
    pages = docs_tables.pages
    monkeypatch.setattr(docs_tables, "pages", lambda: pages(docs))
    return docs


def test_what_can_be_made_is_written_and_the_rest_is_said(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sync_docs.main(["--check"]) == 3
    said = capsys.readouterr()
    assert "docs/one.md: stale" in said.out
    assert "+new" in said.out
    assert "1 stale pages: python3 scripts/sync_docs.py" in said.err
    assert (site / "one.md").read_text() == "<!-- table:a -->\n<!-- /table -->\n"

    assert sync_docs.main([]) == 3
    said = capsys.readouterr()
    assert said.out.splitlines() == [
        "docs/one.md: refreshed",
        "not refreshed: docs/two.md: b: nothing is built: make it",
    ]
    assert (site / "one.md").read_text() == "<!-- table:a -->\n\nnew\n\n<!-- /table -->\n"
    assert "old" in (site / "two.md").read_text()
    assert sorted(path.name for path in site.iterdir()) == ["none.md", "one.md", "two.md"]


@pytest.mark.parametrize(
    ("page", "what"),
    [
        ("<!-- table:c -->\n<!-- /table -->\n", "docs/none.md: no table c; there are: a, b"),
        ("<!-- table:b -->\n<!-- /table -->\n", "docs/two.md: table b is in docs/none.md already"),
    ],
)
def test_an_unknown_or_second_table_is_refused(
    site: Path, page: str, what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "none.md").write_text(page)
    assert sync_docs.main([]) == 3
    assert capsys.readouterr().err == f"error: {what}\n"


def test_a_table_that_no_page_shows_is_refused(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (site / "two.md").unlink()
    assert sync_docs.main([]) == 3
    assert "no page in docs shows <!-- table:b -->" in capsys.readouterr().err


def program(path: Path, text: str, age: float) -> Path:
    """Write a script that stands for a built program of an age in seconds."""
    path.parent.mkdir(parents=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    os.utime(path, (1000 - age, 1000 - age))
    return path


def test_the_newest_program_that_runs_here_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs_tables, "ROOT", tmp_path)
    source = tmp_path / "runtime" / "cli" / "ml_x.c"
    source.parent.mkdir(parents=True)
    source.write_text("")
    os.utime(source, (900, 900))
    with pytest.raises(docs_tables.NotMadeError, match=r"ml_x is not built: make ISA=scalar"):
        docs_tables.built_program("ml_x")
    program(tmp_path / "build/old/ml_x", "#!/bin/sh\n", 200)
    with pytest.raises(docs_tables.NotMadeError, match=r"ml_x is older than runtime/cli/ml_x\.c"):
        docs_tables.built_program("ml_x")
    wanted = program(tmp_path / "build/good/ml_x", "#!/bin/sh\n", 50)
    program(tmp_path / "build/refuses/ml_x", "#!/bin/sh\nexit 3\n", 20)
    program(tmp_path / "build/foreign/ml_x", "\x7fELF of another world", 10)
    assert docs_tables.built_program("ml_x") == wanted


def test_without_numpy_the_tools_are_not_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs_tables, "ROOT", tmp_path)
    bare = program(tmp_path / "bin/python", "#!/bin/sh\nexit 1\n", 0)
    monkeypatch.setattr(sys, "executable", str(bare))
    docs_tables.python_with_numpy.cache_clear()
    with pytest.raises(docs_tables.NotMadeError, match="python3-numpy"):
        docs_tables.python_with_numpy()
    good = program(tmp_path / ".venv/bin/python", "#!/bin/sh\n", 0)
    assert docs_tables.python_with_numpy() == str(good)
    docs_tables.python_with_numpy.cache_clear()


def test_a_program_that_fails_is_not_taken_for_its_help(tmp_path: Path) -> None:
    path = program(tmp_path / "x/prog", "#!/bin/sh\necho broken >&2\nexit 1\n", 0)
    with pytest.raises(docs_tables.NotMadeError, match="prog --help: broken"):
        docs_tables.help_of([str(path)])


def test_sync_docs_runs_by_python_alone(tmp_path: Path) -> None:
    """As a contributor has it: -s and -S leave out everything that was installed."""
    for name in ("scripts", "docs", "tools"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(project.ROOT / name, tmp_path / name, ignore=ignored)
    for name in ("CHANGELOG.md", "runtime/kernels/isas.txt", "runtime/kernels/runs_on.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project.ROOT / name, tmp_path / name)
    for isa in isas.load(built=True):
        (tmp_path / "runtime/kernels" / isa.name).mkdir(exist_ok=True)
        (tmp_path / "runtime/kernels" / isa.name / "isa.h").touch()
    for name in docs_tables.PROGRAMS:
        (tmp_path / "runtime/cli").mkdir(exist_ok=True)
        (tmp_path / f"runtime/cli/{name}.c").touch()
    log = tmp_path / "CHANGELOG.md"
    text = log.read_text(encoding="utf-8").replace("- ", "- Really: ", 1)
    log.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-s", "-S", "scripts/sync_docs.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "docs/changelog.md: refreshed" in done.stdout, done.stderr
    assert "not refreshed: docs/user-guide.md: options:ml_run: ml_run is not built" in done.stdout
    assert "- Really: " in (tmp_path / "docs/changelog.md").read_text(encoding="utf-8")
    assert done.returncode == 3


def test_the_changelog_page_has_every_version() -> None:
    body = "\n\n### Added\n\n- A.\n"
    log = f"# Changelog\n\n## 0.2.0 — 2026-01-02{body}\n## 0.1.0 — 2026-01-01{body}"
    page = docs_tables.CHANGELOG_PAGE.read_text(encoding="utf-8")
    assert log.removeprefix("# Changelog\n") in docs_tables.with_changelog(page, log)
    with pytest.raises(changelog.ChangelogError):
        docs_tables.with_changelog(page, log.replace("—", "-"))


def test_every_instruction_set_says_where_it_runs() -> None:
    assert set(docs_tables.runs_on()) == {isa.name for isa in isas.load()}


@pytest.mark.parametrize("line", ["avx2", "avx2 |", "| x", "a | b\na | c"])
def test_a_wrong_line_of_runs_on_is_named(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs_tables, "RUNS_ON", tmp_path / "runs_on.txt")
    (tmp_path / "runs_on.txt").write_text(f"# comment\n\n{line}\n")
    with pytest.raises(PreflightError, match=r"runs_on\.txt:[34]: want 'name"):
        docs_tables.runs_on()


def test_an_instruction_set_in_one_list_alone_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs_tables, "runs_on", lambda: {"avx9": "nothing"})
    with pytest.raises(PreflightError, match="want it in both"):
        docs_tables.isa_table()


def parameters(model: dict[str, Any]) -> float:
    """Return the size of a model of the catalog."""
    text = str(model["parameters"])
    return float(text[:-1]) * {"M": 1e6, "B": 1e9}[text[-1]]


def test_the_catalog_has_fifteen_models_smallest_first() -> None:
    models = docs_tables.catalog()
    assert len(models) == 15
    assert [parameters(model) for model in models] == sorted(map(parameters, models))
    for key in ("name", "source"):
        assert len({model[key] for model in models}) == 15
    for model in models:
        assert model["source"].partition("/")[2].startswith(model["name"])
        assert versions.parse(envelope.MIN_VERSION) <= versions.parse(model["min_krafla"])
        assert versions.parse(model["min_krafla"]) <= versions.current()


def check_catalog(path: Path) -> subprocess.CompletedProcess[str]:
    """Check a catalog by its schema, as the lint does."""
    words = [sys.executable, "-m", "check_jsonschema", "--schemafile", str(SCHEMA), str(path)]
    return subprocess.run(words, capture_output=True, text=True, check=False)


def test_the_catalog_fits_its_schema_and_a_wrong_one_does_not(tmp_path: Path) -> None:
    done = check_catalog(docs_tables.CATALOG)
    assert done.returncode == 0, done.stdout
    data = json.loads(docs_tables.CATALOG.read_text(encoding="utf-8"))
    wrong: dict[str, Any] = {
        "source": "https://huggingface.co/x",
        "chat": "alpaca",
        "license": "MIT",
        "parameters": "135",
        "mixed": ["w"],
        "min_krafla": "1",
        "perplexity": 1.0,
    }
    for number, (key, value) in enumerate(wrong.items()):
        data["models"][number] |= {key: value}
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(data))
    done = check_catalog(path)
    assert done.returncode == 1
    for number in range(len(wrong)):
        assert f"$.models[{number}]" in done.stdout


def test_the_schema_knows_our_templates_and_matrices() -> None:
    model = json.loads(SCHEMA.read_text(encoding="utf-8"))["$defs"]["model"]["properties"]
    assert model["chat"]["enum"] == sorted(chat_templates.NAMES)
    assert model["mixed"]["items"]["enum"] == list(convert.CLASSES)
