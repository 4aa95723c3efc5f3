"""Positions of nodes as drawings, or as text if there is no drawing, with labels of the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.map.tree.node import Tree
from rlnb.data.ted.keys import as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.search.mcts import MCTS
from rlnb_widgets._core.text import key_text, number, shorten
from rlnb_widgets.scenes.registry import find_scene
from rlnb_widgets.scenes.scene import Scene

_MOST_PAIRS, _MOST_NUMBERS, _LONGEST = 16, 16, 160

#: Maps nodes to their observations, a TensorDict each; None for a node without one.
Observe = Callable[[Sequence[int]], list[Any]]
#: Maps a node to its Tree.
NodeAt = Callable[[int], Tree]


def observer(given: MCTS | Tree, index: int, node_at: NodeAt) -> Observe:
    """Return a function that reads the observations of nodes, by their numbers in the model."""
    if isinstance(given, MCTS):
        states, game = given.nodes.states, given.game
        return lambda nodes: list(game.observe(states[index, np.asarray(nodes, dtype=np.int64)]).unbind(0))
    return lambda nodes: [node_at(node).node_data for node in nodes]


def labeller(labels: Callable[[Tree], str] | None, node_at: NodeAt) -> Callable[[int], str] | None:
    """Convert a function that labels Trees to one that labels nodes."""
    return None if labels is None else lambda node: str(labels(node_at(node)))


class PositionDrawer:
    """Draws and describes nodes. ``note`` says what to know about the drawings, or why there are none.

    A node is drawn after its parent, which shows the last move. ``scene`` is None without drawings.
    """

    def __init__(self, observe: Observe, env: Any, parent: np.ndarray, label: Callable[[int], str] | None) -> None:
        self._observe, self._parent, self._label = observe, parent, label
        self._spec = None if env is None else find_scene(env)
        self.scene: Scene | None = None
        self.note = ""
        if self._spec is not None:
            try:
                self.scene = self._posed([0])
                self.note = str(getattr(self._spec, "note", ""))
            except Exception as error:  # the drawing of a user's env may raise anything
                self.note = _cannot_draw(error)

    def _reads(self) -> tuple[str, ...]:
        return tuple(getattr(self._spec, "reads", ())) or ("observation",)

    def _posed(self, nodes: Sequence[int]) -> Scene:
        """Draw nodes after their parents: two frames per node; the second one shows the node."""
        before = [max(int(self._parent[node]), 0) for node in nodes]
        both = [node for pair in zip(before, nodes, strict=True) for node in pair]
        found = self._observe(both)
        rows = []
        for data in found:
            values = [None if data is None else data.get(key, None) for key in self._reads()]
            missing = [key for key, value in zip(self._reads(), values, strict=True) if not torch.is_tensor(value)]
            if missing:
                raise ValueError(
                    f"the drawing needs {' and '.join(map(key_text, missing))}, which the nodes do not have."
                )
            arrays = [value.detach().cpu().numpy() for value in values if value is not None]
            rows.append(arrays[0] if len(arrays) == 1 else np.stack([array.reshape(()) for array in arrays]))
        assert self._spec is not None
        return self._spec.pose(np.stack(rows))

    def describe(self, nodes: Sequence[int]) -> dict[str, dict[str, Any]]:
        """Describe nodes for the page, by number as text.

        ``frame`` holds the poses of the parts of ``scene``, or None; ``caption`` the drawing in words; ``pairs`` names
        and texts of the observations without a drawing.
        """
        if not nodes:
            return {}
        frames, captions = self._frames(nodes)
        pairs: list[list[list[str]]] = [[] for _ in nodes]
        if self.scene is None or frames[0] is None:
            pairs = [_pairs(data) for data in self._observe(nodes)]
        return {
            str(node): {"frame": frame, "caption": caption, "pairs": pair, "label": self._labelled(node)}
            for node, frame, caption, pair in zip(nodes, frames, captions, pairs, strict=True)
        }

    def _frames(self, nodes: Sequence[int]) -> tuple[list[Any], list[str]]:
        if self.scene is None:
            return [None] * len(nodes), [""] * len(nodes)
        try:
            scene = self._posed(nodes)
        except Exception as error:  # shown in place of the drawing, as above
            return [None] * len(nodes), [_cannot_draw(error)] * len(nodes)
        return scene.poses_as_lists(slice(1, None, 2)), [scene.caption_at(2 * i + 1) for i in range(len(nodes))]

    def _labelled(self, node: int) -> str:
        if self._label is None:
            return ""
        try:
            return shorten(str(self._label(node)), _LONGEST)
        except Exception as error:  # a user's function may raise anything; show it as the label
            return f"labels failed: {type(error).__name__}: {shorten(str(error), 80)}"

    def drawing(self, node: int) -> Scene | None:
        """Draw one node, in the last frame; return None if it cannot be drawn."""
        if self.scene is None:
            return None
        try:
            return self._posed([node])
        except Exception:  # as in _frames
            return None


def _cannot_draw(error: Exception) -> str:
    return f"The position cannot be shown: {error}"


def _pairs(data: TensorDictBase | None) -> list[list[str]]:
    """Return keys and values of a TensorDict as text."""
    if data is None:
        return []
    pairs = []
    for key in leaf_keys(data)[:_MOST_PAIRS]:
        pairs.append([key_text(as_key(as_tuple(key))), _value_text(data.get(key))])
    return pairs


def _value_text(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return shorten(str(value), _LONGEST)
    if value.numel() > _MOST_NUMBERS:
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    flat = value.detach().cpu().reshape(-1).tolist()
    return ", ".join(number(x) if isinstance(x, (bool, int, float)) else str(x) for x in flat)
