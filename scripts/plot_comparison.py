# SPDX-License-Identifier: MIT
"""Draw the chart of docs/comparison.md: how many times llama.cpp's speed, by instruction set.

    .venv/bin/python scripts/compare_llamacpp.py --from RESULT.json --plot docs/comparison.svg

The same numbers give the same bytes: no date, no random ids, text as text.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

COLORS = {"q4_0": "#3b6ea5", "q8_0": "#d08a3c"}  # readable on white and on black
INK, MARKER = "#808080", "#ffffff"
BAR_HEIGHT = 0.38


@dataclasses.dataclass(frozen=True)
class Bar:
    """One ratio to llama.cpp, and ik_llama.cpp's where there is one."""

    level: str
    format: str
    test: str
    ratio: float
    ik: float | None


def draw_panel(axes: Axes, title: str, bars: Sequence[Bar]) -> None:
    """Draw one test: levels from top to bottom, a bar per format, 1 is llama.cpp."""
    levels = list(dict.fromkeys(bar.level for bar in bars))
    for bar in bars:
        offset = BAR_HEIGHT / 2 * (1 if bar.format == "q8_0" else -1)
        place = levels.index(bar.level) + offset
        axes.barh(place, bar.ratio - 1, BAR_HEIGHT, left=1, color=COLORS[bar.format])
        axes.text(bar.ratio * 1.04, place, f"{bar.ratio:.1f}", va="center", color=INK, fontsize=8)
        if bar.ik:
            axes.plot(bar.ik, place, "D", color=MARKER, markeredgecolor=INK, markersize=4)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xlim(0.9, 1.5 * max(bar.ratio for bar in bars))
    axes.set_xticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axes.minorticks_off()
    axes.set_yticks(range(len(levels)), levels)
    axes.invert_yaxis()
    axes.set_title(title, fontsize=10, color=INK)
    axes.tick_params(colors=INK, labelsize=9)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def draw(path: Path, bars: Sequence[Bar]) -> None:
    """Write the chart of one thread's prefill and decode."""
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    style = {"svg.hashsalt": "krafla", "svg.fonttype": "none", "font.family": "sans-serif"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(8, 3.4), layout="constrained")
        for axes, test in zip(figure.subplots(1, 2), ("decode", "prefill"), strict=True):
            title = f"{test}, times llama.cpp"
            draw_panel(axes, title, [bar for bar in bars if bar.test == test])
        keys: list[Patch | Line2D] = [
            Patch(color=color, label=name.upper()) for name, color in COLORS.items()
        ]
        label = "ik_llama.cpp"
        diamond = Line2D([], [], marker="D", markersize=4, linestyle="", color=MARKER, label=label)
        diamond.set_markeredgecolor(INK)
        keys.append(diamond)
        figure.legend(
            handles=keys, loc="outside lower center", ncols=3, frameon=False, labelcolor=INK
        )
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})
