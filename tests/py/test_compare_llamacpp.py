# SPDX-License-Identifier: MIT
"""compare_llamacpp: what is measured, what the tables and the chart make of it.

.venv/bin/python -m pytest tests/py/test_compare_llamacpp.py
"""

from __future__ import annotations

from pathlib import Path

import pytest

import compare_llamacpp as compare
import isas
import peers
from krafla_release import project


def results_of(cases: list[compare.Case]) -> compare.Results:
    """Our speed is twice the peer's in the median, though not in the mean."""
    return {
        case: {
            test: compare.Samples([90.0, 100.0, 400.0], [50.0, 30.0, 60.0], [90.0, 96.0, 97.0])
            for test in compare.TESTS
        }
        for case in cases
    }


def comparison_of(results: compare.Results) -> compare.Comparison:
    return compare.Comparison("llama_cpp_python-0.3.36", "AMD EPYC", "2026-11-30", results)


@pytest.fixture
def results() -> compare.Results:
    return results_of(compare.collect_cases(list(peers.LEVELS), [1, 2], [0, compare.DEPTH]))


def test_the_levels_are_builds_that_the_archive_ships() -> None:
    shipped = {isa.name for isa in isas.load("x86_64", ship=True)}
    assert set(peers.LEVELS) <= shipped
    assert {level for level, *_ in peers.IK_SPEEDS} <= set(peers.LEVELS)


def test_a_peer_gets_no_extension_above_its_level() -> None:
    assert peers.LEVELS["avx512vnni"].flags == ["-DGGML_NATIVE=ON"]
    sse41, sse2 = peers.LEVELS["sse41"].flags, peers.LEVELS["sse2"].flags
    assert [flag for flag in sse41 if flag.endswith("=ON")] == ["-DGGML_SSE42=ON"]
    assert [flag for flag in sse2 if flag.endswith("=ON")] == []
    assert len(sse2) == 1 + len(peers.EXTENSIONS)


def test_slow_peers_get_one_model_and_depth_is_for_the_fastest(results: compare.Results) -> None:
    assert {case.model for case in results if case.level == "sse2"} == {compare.QWEN}
    assert {case.model for case in results if case.level == "avx2"} == {
        compare.QWEN,
        compare.SMOLLM,
    }
    deep = [(case.level, case.format, case.kv, case.threads) for case in results if case.depth]
    assert deep == [
        ("avx512vnni", "q4_0", kv, threads) for kv in ("f32", "q8") for threads in (1, 2)
    ]


def test_the_ratio_is_that_of_the_medians() -> None:
    case = compare.Case(compare.QWEN, "q4_0", "avx2", 1, 0, "f32", 128)
    lines = list(compare.table(results_of([case])))
    row = "| Qwen2.5-0.5B shape | Q4_0 | avx2 | 1 |"
    assert lines[2:] == [
        f"{row} prefill 128 | 100.0 | 50.0 | 2.00 | 96% of peak |",
        f"{row} decode 128 | 100.0 | 50.0 | 2.00 | 96% of memory |",
    ]


def test_ik_llama_cpp_enters_by_its_ratio_to_llama_cpp(results: compare.Results) -> None:
    lines = list(compare.ik_table(results))[2:]
    assert len(lines) == len(peers.IK_SPEEDS)
    assert lines[0] == "| Q4_0 | avx512vnni | 1 | prefill 128 | 2.00 | 1.41 | 1.42 |"


def test_a_file_gives_back_what_was_measured(tmp_path: Path, results: compare.Results) -> None:
    compare.write(tmp_path / "r.json", comparison_of(results))
    assert compare.read(tmp_path / "r.json") == comparison_of(results)


def test_another_file_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "other.json").write_text('{"rows": [{}]}')
    assert compare.main(["--from", str(tmp_path / "other.json")]) == 1
    assert f"{tmp_path / 'other.json'}: not a file of" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("90.0", "NaN"),
        ("50.0", "0"),
        ("50.0", "1" + "0" * 400),
        ("90.0", "null"),
        ("[90.0, 96.0, 97.0]", "[]"),
        ("[50.0, 30.0, 60.0]", "50.0"),
        ('"q4_0"', '"q5_0"'),
        ('"q4_0"', "4"),
        ('"decode"', '"encode"'),
        ('"level": "avx2"', '"level": "\\u001b[31m"'),
        ('"threads": 1', '"threads": []'),
        ("AMD EPYC", "AMD\\nEPYC"),
        ("{", "[" * 100_000),
    ],
    ids=lambda value: value[:20],
)
def test_a_damaged_file_is_refused_by_name(
    tmp_path: Path,
    results: compare.Results,
    capsys: pytest.CaptureFixture[str],
    good: str,
    bad: str,
) -> None:
    source = tmp_path / "r.json"
    compare.write(source, comparison_of(results))
    text = source.read_text()
    assert good in text
    source.write_text(text.replace(good, bad))
    assert compare.main(["--from", str(source), "--plot", str(tmp_path / "r.svg")]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"error: {source}: not a file of")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [["--update", "none/page.md"], ["--plot", "none/r.svg"], ["--update", "."]],
    ids=" ".join,
)
def test_what_cannot_be_written_is_named(
    tmp_path: Path,
    results: compare.Results,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    compare.write(Path("r.json"), comparison_of(results))
    assert compare.main(["--from", "r.json", *words]) == 1
    assert capsys.readouterr().err.startswith(f"error: {words[1]}: ")


def test_no_chart_is_drawn_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "r.json"
    compare.write(source, comparison_of(results_of([])))
    assert compare.main(["--from", str(source), "--plot", str(tmp_path / "r.svg")]) == 1
    assert capsys.readouterr().err.startswith("error: nothing to draw")


def test_the_chart_is_the_same_every_time(
    tmp_path: Path, results: compare.Results, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "r.json"
    compare.write(source, comparison_of(results))
    pictures = [tmp_path / "1.svg", tmp_path / "2.svg"]
    for picture in pictures:
        assert compare.main(["--from", str(source), "--plot", str(picture)]) == 0
    assert "Medians of 3 interleaved rounds on AMD EPYC" in capsys.readouterr().out
    first, second = (picture.read_bytes() for picture in pictures)
    assert first == second
    assert b"dc:date" not in first
    for level in peers.LEVELS:
        assert first.count(f">{level}</text>".encode()) == 2


def test_a_page_gets_the_tables_between_its_marks(
    tmp_path: Path, results: compare.Results, capsys: pytest.CaptureFixture[str]
) -> None:
    source, page = tmp_path / "r.json", tmp_path / "page.md"
    compare.write(source, comparison_of(results))
    begin, end = compare.MARKS
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    for _ in range(2):  # again changes nothing
        assert compare.main(["--from", str(source), "--update", str(page)]) == 0
        text = compare.report(comparison_of(results))
        assert page.read_text() == f"before\n{begin}\n{text}\n{end}\nafter\n"
    page.write_text("no marks\n")
    assert compare.main(["--from", str(source), "--update", str(page)]) == 1
    assert "between which the tables belong" in capsys.readouterr().err


def test_who_begins_changes_from_round_to_round(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def ours(*_: object) -> dict[str, tuple[float, float]]:
        order.append("ours")
        return dict.fromkeys(compare.TESTS, (2.0, 90.0))

    def theirs(*_: object) -> dict[str, float]:
        order.append("theirs")
        return dict.fromkeys(compare.TESTS, 1.0)

    monkeypatch.setattr(compare, "measure_ours", ours)
    monkeypatch.setattr(compare, "measure_theirs", theirs)
    case = compare.Case(compare.QWEN, "q4_0", "avx2", 1, 0, "f32", 128)
    results = {case: {test: compare.Samples() for test in compare.TESTS}}
    for number in range(2):
        compare.measure_round(number, results, {(case.model, case.format): (Path(), Path())})
    assert order == ["ours", "theirs", "theirs", "ours"]
    assert results[case]["decode"] == compare.Samples([2.0, 2.0], [1.0, 1.0], [90.0, 90.0])


def test_the_chart_has_one_thread_of_the_random_model(results: compare.Results) -> None:
    shown = [(bar.level, bar.format, bar.test) for bar in compare.bars(results)]
    assert len(shown) == len(set(shown)) == len(peers.LEVELS) * 2 * 2


def test_the_page_in_docs_has_the_tables_of_the_file_beside_it() -> None:
    page = project.ROOT / "docs" / "comparison.md"
    text = compare.report(compare.read(page.with_suffix(".json")))
    begin, end = compare.MARKS
    assert f"{begin}\n{text}\n{end}\n" in page.read_text()
