# SPDX-License-Identifier: MIT
"""Model families: each module turns a checkpoint's configuration into a Plan.

To add one, write arch/<family>.py with plan(config), a line in FAMILIES, and a name in shape.py.

    PYTHONPATH=tools python3 -c "from mlb import arch; print(*arch.FAMILIES)"
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlb.arch import gemma2, gemma3, llama, mistral, qwen2, qwen3, qwen3_5, smollm3
from mlb.checkpoint import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mlb.arch.common import Plan
    from mlb.arch.config import Config

FAMILIES: Mapping[str, Callable[[Config], Plan]] = {  # by model_type
    "gemma2": gemma2.plan,
    "gemma3": gemma3.image_text_plan,
    "gemma3_text": gemma3.plan,
    "llama": llama.plan,
    "mistral": mistral.plan,
    "qwen2": qwen2.plan,
    "qwen3": qwen3.plan,
    "qwen3_5": qwen3_5.image_text_plan,
    "qwen3_5_text": qwen3_5.plan,
    "smollm3": smollm3.plan,
}
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")
SUPPORTED = f"supported are {', '.join(FAMILIES)}"


def plan(config: Config) -> Plan:
    """The plan for this config.json."""
    model_type = config.get("model_type")
    experts = any(config.values.get(key) for key in EXPERTS)
    if experts or any(word in str(model_type).lower() for word in ("moe", "mixtral")):
        raise CheckpointError(
            f"{config.where}: model_type {model_type!r} is a mixture of experts, which is not "
            f"supported: {SUPPORTED}, dense models all"
        )
    if not isinstance(model_type, str) or model_type not in FAMILIES:
        raise CheckpointError(
            f"{config.where}: model_type {model_type!r} is not supported: {SUPPORTED}"
        )
    made = FAMILIES[model_type](config)
    config.finish()
    return made
