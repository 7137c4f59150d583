# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say of the wheel: its libraries, its tag and where the project lives.

    PYTHONPATH=scripts python3 -m krafla_release.wheel linux-x86_64

hatchling loads this file.  A wheel that another program asks for, as `pip install -e .` does, has
no libraries.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.wheel import WheelBuilderConfig
from hatchling.metadata.plugin.interface import MetadataHookInterface

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

VARIABLE = "KRAFLA_WHEEL"  # set by krafla_release.wheel: build data in JSON


class Libraries(BuildHookInterface[WheelBuilderConfig]):
    """Put the libraries in, and name the platform that they are for."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002  (hatchling's)
        """Change the build data."""
        build_data.update(json.loads(os.environ.get(VARIABLE, "{}")))


class Links(MetadataHookInterface):
    """Take the project's addresses from project.toml."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Change the metadata."""
        facts = tomllib.loads((Path(self.root) / "packaging" / "project.toml").read_text())
        source = f"https://github.com/{facts['repository']}"
        metadata["urls"] = {
            "Documentation": facts["site"],
            "Source": source,
            "Changelog": f"{source}/blob/main/CHANGELOG.md",
            "Issues": f"{source}/issues",
        }
