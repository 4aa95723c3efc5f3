"""Drawings of the positions of a match: one scene, with poses of its parts for each frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb_widgets._core.text import key_text
from rlnb_widgets.game.model import Match
from rlnb_widgets.scenes.scene import Scene


@dataclass(frozen=True, eq=False)
class MatchDrawing:
    """The drawing of a match."""

    scene: Scene | None  #: the scene; None if there is no drawing
    first: int  #: the first frame that is new since your last action
    places: tuple[str, ...]  #: for each action with a place in the drawing, what is there, in words
    note: str  #: a note about the drawing, or the reason why there is none


def picture(match: Match, spec: Any, since: int) -> MatchDrawing:
    """Draw the ``since`` steps since your last action with a scene; ``spec`` is None if there is no drawing."""
    name = type(match.env).__name__
    if spec is None:
        return MatchDrawing(None, 0, (), f"There is no drawing for {name}; add one with register_scene.")
    roots = match.roots[-since - 1 :]
    reads = tuple(getattr(spec, "reads", ())) or ("observation",)
    rows = [_read(root, reads) for root in roots]
    if any(row is None for row in rows):
        needs = " and ".join(key_text(key) for key in reads)
        return MatchDrawing(None, 0, (), f"The drawing needs {needs}, which {name} does not have.")
    try:
        scene = spec.pose(np.stack(rows))  # type: ignore[arg-type]
    except ValueError as error:
        return MatchDrawing(None, 0, (), f"{name} cannot be drawn: {error}")
    places = tuple(spec.words(rows[-1])) if hasattr(spec, "targets") else ()
    return MatchDrawing(scene, min(1, since), places, str(getattr(spec, "note", "")))


def _read(root: TensorDictBase, keys: tuple[str, ...]) -> np.ndarray | None:
    found = [root.get(key, None) for key in keys]
    if not all(isinstance(value, torch.Tensor) for value in found):
        return None
    arrays = [value.detach().cpu().numpy() for value in found]
    return arrays[0] if len(arrays) == 1 else np.stack([array.reshape(()) for array in arrays])
