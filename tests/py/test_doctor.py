# SPDX-License-Identifier: MIT
"""The doctor names what is missing and what installs it, and never shows a token.

.venv/bin/python -m pytest tests/py/test_doctor.py
"""

from __future__ import annotations

import sys
from importlib import metadata

import pytest

import isas
from krafla_release import doctor


@pytest.mark.parametrize(
    ("extra", "package", "remedy"),
    [
        ("quickstart", "tokenizers", "scripts/bootstrap.sh"),
        ("release", "requests", "scripts/bootstrap.sh --for-release"),
        ("dev", "pytest", "scripts/bootstrap.sh --for-check"),
    ],
)
def test_doctor_names_a_missing_package_and_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, extra: str, package: str, remedy: str
) -> None:
    def version(name: str) -> str:
        if name == package:
            raise metadata.PackageNotFoundError
        return doctor.pins(extra)[name]

    monkeypatch.setattr(metadata, "version", version)
    assert doctor.extra_line(extra).split(None, 1) == [extra, f"{package} is missing: {remedy}"]


def test_doctor_names_a_package_of_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "version", lambda name: doctor.pins("models")[name] + "+cpu")
    assert doctor.extra_line("models").endswith("everything is there")
    monkeypatch.setattr(metadata, "version", lambda _: "0.1")
    assert f"torch is 0.1, not {doctor.pins('models')['torch']}" in doctor.extra_line("models")


def test_doctor_knows_every_extra_and_takes_the_pin_of_this_python() -> None:
    assert set(doctor.EXTRAS) == {"quickstart", "release", "dev", "models"}
    assert "numpy" in doctor.pins("quickstart")
    assert ("tomli" in doctor.pins("quickstart")) == (sys.version_info < (3, 11))


def test_doctor_says_that_there_is_a_token_and_not_which(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_secret")
    assert doctor.main([]) == 0
    said = capsys.readouterr().out
    assert "is set\n" in said
    assert "ghp_secret" not in said
    monkeypatch.delenv("GITHUB_TOKEN")
    assert "only --dry-run works" in "".join(doctor.release_lines())


def test_doctor_lists_planned_rows_only_if_there_are_any(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "first_line", lambda _: "1.0")  # asking every tool takes seconds
    doctor.main([])
    assert "planned" not in capsys.readouterr().out
    monkeypatch.setattr(isas.Isa, "built", property(lambda isa: isa.name != "sve"))
    doctor.main([])
    assert "planned: in isas.txt, but without kernels\n  sve\n" in capsys.readouterr().out
