# SPDX-License-Identifier: MIT
"""Versions of Krafla: three numbers, strictly X.Y.Z, in their order.

PYTHONPATH=scripts python3 -c 'from krafla_release import versions; print(versions.current().tag)'
"""

from __future__ import annotations

import dataclasses
import re

from krafla_release import project

# No leading zeros, and no number that anything along the way could take for something else.
FORM = re.compile(r"(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")


class VersionError(project.ReleaseError):
    """What should be a version is none."""

    code = 2


@dataclasses.dataclass(frozen=True, order=True)
class Version:
    """One version; compares by its numbers, so that 0.10.0 is later than 0.9.0."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        """Return X.Y.Z."""
        return f"{self.major}.{self.minor}.{self.patch}"

    @property
    def tag(self) -> str:
        """The name of its tag and of its release on GitHub."""
        return f"v{self}"


def parse(text: str) -> Version:
    """Return the version that is written X.Y.Z and in no other way."""
    found = FORM.fullmatch(text)
    if not found:
        raise VersionError(f"{text!r} is no version: want X.Y.Z, as in 0.2.0, without v or zeros")
    return Version(*map(int, found.groups()))


def current() -> Version:
    """Return the version of the sources, ML_VERSION."""
    return parse(project.version())
