"""Sum tree of the static SVG: nodes as wide as their sums, and the path to the largest priority."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import number
from rlnb_widgets.buffer_explorer.schema import Moment

_LEVELS, _TALL, _LEFT = 6, 19.0, 12.0


def levels_of(sums: np.ndarray) -> list[np.ndarray]:
    """Return the levels of a binary sum tree over its leaves, ``[n]``; the root comes first.

    Example:
        >>> [level.tolist() for level in levels_of(np.array([1.0, 2.0, 3.0]))]
        [[6.0], [3.0, 3.0], [1.0, 2.0, 3.0]]
    """
    levels = [np.asarray(sums, np.float64)]
    while len(levels[0]) > 1:
        levels.insert(0, np.add.reduceat(levels[0], np.arange(0, len(levels[0]), 2)))
    return levels


def tree_height(moment: Moment) -> float:
    """Return the height of the tree."""
    if moment.priorities is None or not moment.priorities.total > 0:
        return 0.0
    return 36.0 + _TALL * len(levels_of(moment.priorities.sums.T.ravel())[:_LEVELS])


def draw_tree(svg: Svg, moment: Moment, y: float, width: float) -> None:
    """Draw the upper levels from ``y`` down."""
    if not tree_height(moment) or moment.priorities is None:
        return
    leaves = moment.priorities.sums.T.ravel()
    levels = levels_of(leaves)
    aim = int(leaves.argmax())
    svg.text(12, y + 12, "sum tree", bold=True, size=10.5)
    words = "each node is the sum of the two below it, and as wide; marked is the way to the largest priority"
    svg.text(72, y + 12, words, fill="muted", size=10)
    scale = (width - 2 * _LEFT) / max(float(levels[0][0]), 1e-300)
    for depth, level in enumerate(levels[:_LEVELS]):
        top = y + 20 + depth * _TALL
        ends = np.concatenate([[0.0], np.cumsum(level)]) * scale
        path = aim >> (len(levels) - 1 - depth)
        for i, value in enumerate(level.tolist()):
            w = ends[i + 1] - ends[i]
            if w < 0.3:
                continue
            svg.rect(_LEFT + ends[i], top, w - min(1.0, w / 4), _TALL - 2, fill="c4" if i == path else "panel", rx=2)
            if w > 38:
                role = "paper" if i == path else "ink"
                text = number(value, 3)
                svg.text(_LEFT + ends[i] + w / 2, top + 12.5, text, size=10, anchor="middle", fill=role)
