"""What a node stands for: its board as a drawing, or what was observed there as text, and a label of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data import Tree
from rlnb.data.ted.keys import as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.search import MCTS
from rlnb_widgets._core.text import key_text, number, shorten
from rlnb_widgets.scenes import Scene, find_scene
from rlnb_widgets.tree_explorer import faults

__all__ = ["Positions", "labeller", "observer", "poses_as_json"]

_MOST_PAIRS, _MOST_NUMBERS, _LONGEST = 16, 16, 160

#: From nodes to their observations, a TensorDict each; None where a node has none.
Observe = Callable[[Sequence[int]], list[Any]]
#: From a node to the Tree that it is.
NodeAt = Callable[[int], Tree]


def observer(given: MCTS | Tree, index: int, node_at: NodeAt) -> Observe:
    """Make what reads the observations of the nodes, numbered as the model numbers them.

    Args:
        given: what is shown.
        index: which root of a search.
        node_at: from a node to a Tree.
    """
    if isinstance(given, MCTS):
        states, game = given.nodes.states, given.game
        return lambda nodes: list(game.observe(states[index, np.asarray(nodes, dtype=np.int64)]).unbind(0))
    return lambda nodes: [node_at(node).node_data for node in nodes]


def labeller(labels: Callable[[Tree], str] | None, node_at: NodeAt) -> Callable[[int], str] | None:
    """Make what labels nodes, from what labels Trees."""
    return None if labels is None else lambda node: str(labels(node_at(node)))


class Positions:
    """Draws and describes nodes.

    Args:
        observe: reads their observations.
        env: what they are observations of: an env, its id, or None.
        parent: of each node, ``[n]``; what was moved last is seen beside the position before.
        label: from a node to text, or None.

    Attributes:
        scene: what never moves in the drawings; None if there are none.
        note: what must be known of the drawing, or why there is none.
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
            except Exception as error:  # whatever a drawing of somebody else's raises
                self.note = faults.no_board(str(error))

    def _reads(self) -> tuple[str, ...]:
        return tuple(getattr(self._spec, "reads", ())) or ("observation",)

    def _posed(self, nodes: Sequence[int]) -> Scene:
        """Draw nodes, each after the node before it: two frames a node, of which the second shows it."""
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
        """Describe nodes for the page.

        Args:
            nodes: which.

        Returns:
            By number: ``frame``, poses of the parts of :attr:`scene` or None; ``caption``, the drawing in words;
            ``pairs``, names and texts of what was observed where there is no drawing; ``label``, the user's.
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
        except Exception as error:  # one position that cannot be drawn is told, and not raised
            return [None] * len(nodes), [faults.no_board(str(error))] * len(nodes)
        return poses_as_json(scene.poses[1::2]), [scene.caption_at(2 * i + 1) for i in range(len(nodes))]

    def _labelled(self, node: int) -> str:
        if self._label is None:
            return ""
        try:
            return shorten(str(self._label(node)), _LONGEST)
        except Exception as error:  # the user's function; the picture must not fail with it
            return f"labels failed: {type(error).__name__}: {shorten(str(error), 80)}"

    def drawing(self, node: int) -> Scene | None:
        """Draw one node; the last frame shows it. None if it cannot be drawn."""
        if self.scene is None:
            return None
        try:
            return self._posed([node])
        except Exception:  # as in _frames
            return None


def _pairs(data: TensorDictBase | None) -> list[list[str]]:
    """Names and texts of what a TensorDict holds."""
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


def poses_as_json(poses: np.ndarray) -> list[list[list[float] | None]]:
    """Write poses as JSON can hold them: None for a part that is hidden.

    Args:
        poses: ``[frames, parts, 3]``.
    """
    return [
        [None if any(v != v for v in pose) else [round(v, 2) for v in pose] for pose in frame]
        for frame in poses.tolist()
    ]
