"""Visualizers of reinforcement-learning data: each is a text, a static SVG and a live widget.

Importing this package is cheap: a visualizer's module is loaded when its name is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlnb_widgets._core.flipbook import Flipbook
    from rlnb_widgets._core.link import Link, link
    from rlnb_widgets._core.side_by_side import SideBySide, side_by_side
    from rlnb_widgets._core.timeline import Timeline
    from rlnb_widgets._core.visualizer import Visualizer
    from rlnb_widgets.batched_timeline import BatchedEnvTimeline
    from rlnb_widgets.buffer_explorer import BufferExplorer
    from rlnb_widgets.game import Game, play
    from rlnb_widgets.rollout_player import RolloutPlayer
    from rlnb_widgets.short_tracebacks import explain_errors
    from rlnb_widgets.spec_explorer import SpecExplorer
    from rlnb_widgets.ted_explorer import TEDExplorer
    from rlnb_widgets.training_monitor import TrainingMonitor
    from rlnb_widgets.transform_inspector import TransformInspector
    from rlnb_widgets.tree_explorer import TreeExplorer

_HOMES = {
    "BatchedEnvTimeline": "batched_timeline",
    "BufferExplorer": "buffer_explorer",
    "Flipbook": "_core.flipbook",
    "Game": "game",
    "Link": "_core.link",
    "RolloutPlayer": "rollout_player",
    "SideBySide": "_core.side_by_side",
    "SpecExplorer": "spec_explorer",
    "TEDExplorer": "ted_explorer",
    "Timeline": "_core.timeline",
    "TrainingMonitor": "training_monitor",
    "TransformInspector": "transform_inspector",
    "TreeExplorer": "tree_explorer",
    "Visualizer": "_core.visualizer",
    "explain_errors": "short_tracebacks",
    "link": "_core.link",
    "play": "game",
    "side_by_side": "_core.side_by_side",
}

__all__ = [
    "BatchedEnvTimeline", "BufferExplorer", "Flipbook", "Game", "Link", "RolloutPlayer", "SideBySide", "SpecExplorer",
    "TEDExplorer", "Timeline", "TrainingMonitor", "TransformInspector", "TreeExplorer", "Visualizer", "explain_errors",
    "link", "play", "side_by_side",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}.")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
