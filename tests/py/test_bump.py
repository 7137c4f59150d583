# SPDX-License-Identifier: MIT
"""Raising the version in a small checkout, and the rule that a change must not break.

.venv/bin/python -m pytest tests/py/test_bump.py
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mlb
from krafla_release import (
    assets,
    bump,
    changelog,
    checksums,
    citation,
    docs_tables,
    installer,
    project,
    versions,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = (
    "CHANGELOG.md",
    "CITATION.cff",
    "docs/changelog.md",
    "packaging/project.toml",
    "runtime/core/ml.h",
    "tools/mlb/__init__.py",
)
TODAY = changelog.today().isoformat()
LOG = "# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n"
RELEASED = LOG.replace("## Unreleased", f"## 0.2.0 — {TODAY}")
GIT = ("git", "-c", "user.name=T", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")


@dataclasses.dataclass(frozen=True)
class Checkout:
    """The places of the version, and the scripts, in a directory of their own."""

    root: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run bump there."""
        return subprocess.run(
            [sys.executable, "-m", "krafla_release.bump", *words],
            cwd=self.root,
            env={"PYTHONPATH": str(self.root / "scripts"), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    def commit(self) -> None:
        """Commit everything."""
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "x"]):
            subprocess.run([*GIT, *words], cwd=self.root, check=True)

    def texts(self) -> dict[str, str]:
        """Return what the files say."""
        return {name: (self.root / name).read_text(encoding="utf-8") for name in FILES}

    def write(self, name: str, old: str, new: str) -> None:
        """Change a file in one place."""
        path = self.root / name
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def bumped(self, version: str = "0.2.0") -> None:
        """Raise the version."""
        done = self.run("--version", version, "--write")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """Return a checkout of version 0.1.0 with something unreleased, committed."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(project.ROOT / name, tmp_path / name)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(project.ROOT / "scripts", tmp_path / "scripts", ignore=ignored)
    (tmp_path / ".gitignore").write_text("__pycache__\nbuild\n")
    made = Checkout(tmp_path)
    for name, pattern in (
        ("runtime/core/ml.h", bump.ML_VERSION),
        ("tools/mlb/__init__.py", bump.COPIED),
    ):
        found = pattern.search(made.texts()[name])
        assert found
        made.write(name, found[0], found[0].replace(found[1], "0.1.0"))
    (tmp_path / "CHANGELOG.md").write_text(LOG, encoding="utf-8")
    cff = re.sub(r"^date-released: .*\n", "", made.texts()["CITATION.cff"], flags=re.MULTILINE)
    cff = citation.VERSION.sub('version: "0.1.0"', cff)
    (tmp_path / "CITATION.cff").write_text(cff, encoding="utf-8")
    page = docs_tables.with_changelog(made.texts()["docs/changelog.md"], LOG)
    (tmp_path / "docs/changelog.md").write_text(page, encoding="utf-8")
    made.commit()
    return made


def test_a_bump_is_shown_and_not_written(checkout: Checkout) -> None:
    before = checkout.texts()
    done = checkout.run("--version", "0.2.0")
    assert done.returncode == 0
    assert '-#define ML_VERSION "0.1.0"\n+#define ML_VERSION "0.2.0"\n' in done.stdout
    assert f"-## Unreleased\n+## 0.2.0 — {TODAY}\n" in done.stdout
    assert done.stdout.count("--- a/") == 5
    assert "nothing is written" in done.stdout
    assert checkout.texts() == before


def test_the_shown_diff_is_what_is_written(checkout: Checkout) -> None:
    diff = checkout.run("--version", "0.2.0").stdout.rpartition("nothing is written")[0]
    checkout.bumped()
    written = checkout.texts()
    subprocess.run(["git", "checkout", "-q", "."], cwd=checkout.root, check=True)
    subprocess.run(["git", "apply", "-"], cwd=checkout.root, input=diff, text=True, check=True)
    assert checkout.texts() == written


def test_a_bump_changes_every_place(checkout: Checkout) -> None:
    checkout.bumped()
    texts = checkout.texts()
    assert '#define ML_VERSION "0.2.0"' in texts["runtime/core/ml.h"]
    assert 'VERSION = "0.2.0"  # the same' in texts["tools/mlb/__init__.py"]
    assert texts["CHANGELOG.md"] == RELEASED
    assert f'version: "0.2.0"\ndate-released: "{TODAY}"\n' in texts["CITATION.cff"]
    assert f"## 0.2.0 — {TODAY}" in texts["docs/changelog.md"]
    assert checkout.run("--check", "--base", "HEAD").returncode == 0


def test_a_second_bump_changes_nothing(checkout: Checkout) -> None:
    checkout.bumped()
    before = checkout.texts()
    done = checkout.run("--version", "0.2.0", "--write")
    assert "nothing to change" in done.stdout
    assert checkout.texts() == before


def test_the_next_bump_replaces_the_date(checkout: Checkout) -> None:
    checkout.bumped()
    checkout.write("CITATION.cff", TODAY, "2026-01-02")
    checkout.write("CHANGELOG.md", f"## 0.2.0 — {TODAY}", "## 0.2.0 — 2026-01-02")
    checkout.write("CHANGELOG.md", "# Changelog\n", LOG.replace("A thing", "Another"))
    checkout.bumped("0.10.0")
    assert checkout.texts()["CITATION.cff"].count("date-released") == 1
    assert f'version: "0.10.0"\ndate-released: "{TODAY}"\n' in checkout.texts()["CITATION.cff"]
    assert "## 0.2.0 — 2026-01-02" in checkout.texts()["docs/changelog.md"]
    assert checkout.run("--check", "--base", "HEAD").returncode == 0


def test_the_first_release_may_be_the_version_that_is_there(checkout: Checkout) -> None:
    checkout.bumped("0.1.0")
    assert f"## 0.1.0 — {TODAY}" in checkout.texts()["CHANGELOG.md"]
    assert checkout.run("--check", "--base", "HEAD").returncode == 0


@pytest.mark.parametrize("name", [name for name in FILES if "toml" not in name])
def test_a_bump_that_was_cut_short_is_completed(checkout: Checkout, name: str) -> None:
    before = checkout.texts()[name]
    checkout.bumped()
    written = checkout.texts()
    (checkout.root / name).write_text(before, encoding="utf-8")
    assert checkout.run("--check", "--base", "HEAD").returncode == 3
    checkout.bumped()
    assert checkout.texts() == written


def test_no_bump_goes_back(checkout: Checkout) -> None:
    done = checkout.run("--version", "0.0.9")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "error: 0.0.9 is below 0.1.0, the version of the sources\n"
    checkout.bumped("0.3.0")
    checkout.write("runtime/core/ml.h", "0.3.0", "0.1.0")
    done = checkout.run("--version", "0.2.0")
    assert "0.2.0 is below 0.3.0, the newest version of CHANGELOG.md" in done.stderr


def test_there_is_no_bump_without_a_change(checkout: Checkout) -> None:
    checkout.bumped()
    done = checkout.run("--version", "0.3.0", "--write")
    assert done.returncode == 3
    assert "CHANGELOG.md has no ## Unreleased" in done.stderr
    assert '"0.2.0"' in checkout.texts()["runtime/core/ml.h"]


@pytest.mark.parametrize("words", [["--version", "v0.2.0"], [], ["--check", "--write"]])
def test_wrong_usage_is_2(checkout: Checkout, words: list[str]) -> None:
    done = checkout.run(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_between_two_releases_everything_agrees(checkout: Checkout) -> None:
    for words in (["--check"], ["--check", "--base", "HEAD"]):
        done = checkout.run(*words)
        assert (done.returncode, done.stderr) == (0, "")


def test_a_raised_version_needs_its_section(checkout: Checkout) -> None:
    checkout.write("runtime/core/ml.h", '"0.1.0"', '"0.2.0"')
    checkout.write("tools/mlb/__init__.py", '"0.1.0"', '"0.2.0"')
    checkout.write("CITATION.cff", 'version: "0.1.0"', 'version: "0.2.0"')
    done = checkout.run("--check", "--base", "HEAD")
    assert done.returncode == 3
    assert "CHANGELOG.md has no section '## 0.2.0 — YYYY-MM-DD'" in done.stderr
    checkout.write("CHANGELOG.md", LOG, f"{LOG}\n## 0.1.0 — 2026-01-01\n\n### Added\n\n- It.\n")
    done = checkout.run("--check")  # the last commit of main has no base
    assert "CHANGELOG.md has no section '## 0.2.0 — YYYY-MM-DD'" in done.stderr
    checkout.write("CHANGELOG.md", "## Unreleased", f"## 0.2.0 — {TODAY}")
    done = checkout.run("--check", "--base", "HEAD")
    assert f'want date-released: "{TODAY}", as in CHANGELOG.md' in done.stderr
    assert "docs/changelog.md is stale: python3 scripts/sync_docs.py" in done.stderr


def test_a_version_below_the_base_fails(checkout: Checkout) -> None:
    checkout.bumped()
    checkout.commit()
    for name in ("runtime/core/ml.h", "tools/mlb/__init__.py", "CITATION.cff"):
        checkout.write(name, '"0.2.0"', '"0.1.0"')
    done = checkout.run("--check", "--base", "HEAD")
    assert "CHANGELOG.md has 0.2.0, but ML_VERSION is 0.1.0" in done.stderr
    (checkout.root / "CHANGELOG.md").write_text(LOG, encoding="utf-8")
    done = checkout.run("--check", "--base", "HEAD")
    assert "ML_VERSION is 0.1.0, below 0.2.0 at HEAD" in done.stderr
    assert done.returncode == 3


@pytest.mark.parametrize("base", ["nowhere", "--output=x", "HEAD:README.md"])
def test_a_base_that_is_none_is_one_line(checkout: Checkout, base: str) -> None:
    done = checkout.run("--check", f"--base={base}")
    assert done.returncode == 3
    assert done.stderr.count("\n") == 1
    assert not (checkout.root / "x").exists()


@pytest.mark.parametrize(
    ("name", "old", "new", "what"),
    [
        ("tools/mlb/__init__.py", '"0.1.0"', '"0.1.1"', "tools/mlb/__init__.py says 0.1.1, not"),
        ("CITATION.cff", 'version: "0.1.0"', "version: 0.1.0", 'want version: "0.1.0"'),
        ("CITATION.cff", "message:", "massage:", "'message' is a required property"),
        ("CITATION.cff", "license: MIT", "license: mit", "$.license"),
        ("CITATION.cff", "license: MIT", "license: [MIT]", "Zenodo takes no list"),
        ("CITATION.cff", "title: Krafla", "title: Krafla: a runtime", "CITATION.cff"),
        ("CITATION.cff", "type: software", "type: software\ndoi: 10.5281/zenodo.1", "see identif"),
        ("CITATION.cff", "10.5281/zenodo.", "10.5281/zenodo.9", "want the concept DOI"),
        ("CITATION.cff", "repository-code:", "repository:", "want repository-code"),
        ("CHANGELOG.md", "### Added", "### Removed", "CHANGELOG.md:5: want ### Added"),
        ("docs/changelog.md", "A thing", "A think", "docs/changelog.md is stale"),
    ],
)
def test_what_does_not_agree_is_named(
    checkout: Checkout, name: str, old: str, new: str, what: str
) -> None:
    checkout.write(name, old, new)
    done = checkout.run("--check")
    assert done.returncode == 3
    assert what in done.stderr
    assert "Traceback" not in done.stderr


def test_a_second_file_of_metadata_is_refused(checkout: Checkout) -> None:
    (checkout.root / ".zenodo.json").write_text("{}")
    assert ".zenodo.json hides CITATION.cff" in checkout.run("--check").stderr


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[bump.Change]:
    """Return changes of two files in another checkout."""
    monkeypatch.setattr(bump, "ROOT", tmp_path)
    for name in ("a", "b"):
        (tmp_path / name).write_text("old\n")
    (tmp_path / "b").chmod(0o755)
    return [bump.Change(Path(name), "old\n", f"new {name}\n") for name in ("a", "b")]


def test_all_files_are_written_with_their_modes(two: list[bump.Change], tmp_path: Path) -> None:
    bump.write(two)
    assert [(tmp_path / name).read_text() for name in "ab"] == ["new a\n", "new b\n"]
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in "ab"] == [0o644, 0o755]
    assert list((tmp_path / "build").iterdir()) == []


@pytest.mark.parametrize("error", [OSError("full"), KeyboardInterrupt()], ids=["error", "ctrl-c"])
def test_none_is_written_if_one_cannot_be(
    two: list[bump.Change], tmp_path: Path, error: BaseException
) -> None:
    def replace(source: Path, target: Path) -> None:
        if target.name == "b":
            raise error
        source.replace(target)

    with pytest.raises(type(error)):
        bump.write(two, replace)
    assert [(tmp_path / name).read_text() for name in "ab"] == ["old\n", "old\n"]
    assert list((tmp_path / "build").iterdir()) == []


def test_a_file_that_changed_after_the_diff_is_left_alone(
    two: list[bump.Change], tmp_path: Path
) -> None:
    (tmp_path / "b").write_text("mine\n")
    with pytest.raises(project.PreflightError, match="b has changed meanwhile"):
        bump.write(two)
    assert (tmp_path / "a").read_text() == "old\n"


def test_the_version_is_the_same_everywhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert bump.main(["--check"]) == 0, capsys.readouterr().err
    assert project.version() == mlb.VERSION == str(versions.current())
    cff = (project.ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert citation.VERSION.findall(cff) == [mlb.VERSION]


def test_no_other_source_holds_the_version() -> None:
    words = [
        "git",
        "grep",
        "-lF",
        f'"{mlb.VERSION}"',
        "--",
        "*.py",
        "*.c",
        "*.h",
        "*.toml",
        "*.cff",
    ]
    done = subprocess.run(words, cwd=project.ROOT, capture_output=True, text=True, check=True)
    homes = {"runtime/core/ml.h", "tools/mlb/__init__.py", "CITATION.cff"}
    found = {name for name in done.stdout.split() if not name.startswith("tests/")}
    # The first version that reads the files of today is a fact of its own.
    assert found - {"tools/mlb/envelope.py"} == homes


def test_every_file_of_a_release_bears_the_version() -> None:
    named = set(assets.expected()) - {installer.FILE_NAME, checksums.FILE_NAME}
    assert len(named) == 11
    assert all(re.search(rf"[-_]{re.escape(mlb.VERSION)}[-_.]", name) for name in named), named


def test_the_metadata_of_the_package_have_the_version() -> None:
    settings = tomllib.loads((project.ROOT / "pyproject.toml").read_text("utf-8"))
    source = settings["tool"]["hatch"]["version"]
    found = re.search(source["pattern"], (project.ROOT / source["path"]).read_text("utf-8"))
    assert found
    assert found["version"] == mlb.VERSION
    assert "version" in settings["project"]["dynamic"]


def test_built_programs_say_the_version(build_dir: Path) -> None:
    for program in docs_tables.PROGRAMS:
        said = subprocess.run(
            [build_dir / program, "--version"], capture_output=True, text=True, check=True
        )
        assert said.stdout.startswith(f"{program} {mlb.VERSION}, ")
