# SPDX-License-Identifier: MIT
"""Model families: each module turns a checkpoint's configuration into a Plan.

To add one, write arch/<family>.py with plan(config) and a line in FAMILIES.

    PYTHONPATH=tools python3 -c "from mlb import arch; print(*arch.FAMILIES)"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlb.arch import gemma3, llama
from mlb.checkpoint import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlb.arch.common import Config, Plan

FAMILIES: Mapping[str, Callable[[Config], Plan]] = {
    "llama": llama.plan,
    "gemma3_text": gemma3.plan,
}


def plan(config: Config) -> Plan:
    """The plan for this config.json."""
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise CheckpointError(
            f"{config.where}: model_type {model_type!r} is not supported: expected "
            f"{' or '.join(sorted(FAMILIES))}"
        )
    config.must_be("quantization_config")
    made = FAMILIES[model_type](config)
    config.finish()
    return made
