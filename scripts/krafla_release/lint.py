# SPDX-License-Identifier: MIT
"""Check the form of every source file: C, Python, shell, workflows, data, spelling, layout.

    PYTHONPATH=scripts .venv/bin/python -m krafla_release.lint

Every check runs, whatever the others find; those named on the command line alone, if there are any.
Shell scripts that are made from templates are checked as users get them.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from krafla_release import archives, installer, package
from krafla_release.project import ROOT, ReleaseError, exit_code, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PYTHON = sys.executable
BIN = Path(PYTHON).parent  # pip puts programs beside the Python that it installs for
WORKFLOWS = ".github/workflows/*.yml"
SHEBANG = b"#!/bin/sh"


def found(*patterns: str) -> list[str]:
    """Return the files of the checkout that match; each pattern must match one."""
    files = []
    for pattern in patterns:
        matching = sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(pattern))
        if not matching:
            raise ReleaseError(f"lint: nothing matches {pattern}")
        files += matching
    return files


def check_c() -> None:
    """Check C with clang-format."""
    sources = found("runtime/**/*.[ch]", "tests/**/*.[ch]")
    run("clang-format-14", "--dry-run", "--Werror", *sources)


def check_python() -> None:
    """Check Python with ruff."""
    run(PYTHON, "-m", "ruff", "check", ".")
    run(PYTHON, "-m", "ruff", "format", "--check", ".")


def check_shell() -> None:
    """Check shell scripts with shellcheck, the launchers and install.sh as users get them."""
    run("shellcheck", ".ci/run", *found("scripts/*.sh", "packaging/deb/prerm"))
    with tempfile.TemporaryDirectory(prefix="krafla-lint-") as place:
        made = [installer.package(Path(place))]
        for archive in archives.load():
            for member in package.members_of(archive, read=lambda _: b""):
                if member.data.startswith(SHEBANG):
                    made.append(Path(place, f"{archive.name}-{member.path}"))
                    made[-1].write_bytes(member.data)
        run("shellcheck", *made)


def check_container() -> None:
    """Check the container file with hadolint."""
    run(BIN / "hadolint", "packaging/Containerfile")


def check_workflows() -> None:
    """Check workflows with actionlint, zizmor and their schemas, and what dependabot reads."""
    run(BIN / "actionlint")
    run(BIN / "zizmor", "--quiet", "--offline", "--persona=pedantic", ".github")
    check_schema("vendor.github-workflows", *found(WORKFLOWS))
    check_schema("custom.github-workflows-require-timeout", *plain_workflows())
    check_schema("vendor.dependabot", ".github/dependabot.yml")


def plain_workflows() -> list[str]:
    """Return the workflows whose jobs all have steps: a call of another workflow has no timeout."""
    return [path for path in found(WORKFLOWS) if "uses: ./" not in (ROOT / path).read_text()]


def check_data() -> None:
    """Check CITATION.cff, whose faults would cost the DOI, and the catalog of models."""
    check_schema("vendor.citation-file-format", "CITATION.cff")
    words = ["--schemafile", "scripts/hf_models.schema.json", "scripts/hf_models.json"]
    run(PYTHON, "-m", "check_jsonschema", *words)


def check_schema(name: str, *files: str) -> None:
    """Check files by a schema that check-jsonschema has with it: nothing is fetched."""
    run(PYTHON, "-m", "check_jsonschema", "--builtin-schema", name, *files)


def check_spelling() -> None:
    """Check spelling with codespell."""
    run(PYTHON, "-m", "codespell_lib")


def check_layout() -> None:
    """Check the layout of the tree with our own lint."""
    run(PYTHON, "scripts/lint_layout.py")


CHECKS: dict[str, Callable[[], None]] = {
    "c": check_c,
    "python": check_python,
    "shell": check_shell,
    "container": check_container,
    "workflows": check_workflows,
    "data": check_data,
    "spelling": check_spelling,
    "layout": check_layout,
}


def check(names: Sequence[str]) -> None:
    """Run the named checks, or all, and fail at the end if any failed."""
    failed = []
    for name in names or CHECKS:
        code = exit_code(CHECKS[name])
        failed += [name] if code else []
    if failed:
        raise ReleaseError(f"lint failed: {', '.join(failed)}")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the checks."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("check", nargs="*", help=f"of {' '.join(CHECKS)}; default: all of them")
    args = parser.parse_args(argv)
    unknown = [name for name in args.check if name not in CHECKS]
    if unknown:
        parser.error(f"no check {unknown[0]}; there are: {' '.join(CHECKS)}")
    return exit_code(lambda: check(args.check))


if __name__ == "__main__":
    sys.exit(main())
