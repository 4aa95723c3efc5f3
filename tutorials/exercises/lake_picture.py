"""A picture of a place on a frozen lake, with an arrow for each move that a mask allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from rlnb_widgets._core.svg import image_tag
from rlnb_widgets.scenes import Scene, scene_svg
from rlnb_widgets.scenes.grid import ANGLES, FrozenLake, direction_mark

MOVES = ("left", "down", "right", "up")
_WIDTH = 220


@dataclass(frozen=True, repr=False)
class LakePicture:
    """An agent on a lake, and arrows.

    Args:
        lake: a string of S, F, H and G for each row.
        row: where the agent stands.
        column: where the agent stands.
        mask: which of the moves in `MOVES` get an arrow.

    Example:
        >>> LakePicture(["SF", "HG"], 0, 1, [True, True, False, False])
        agent at row 0, column 1; arrows: left, down
    """

    lake: Sequence[str]
    row: int
    column: int
    mask: Sequence[bool] = ()

    def __repr__(self) -> str:
        arrows = ", ".join(self._allowed())
        return f"agent at row {self.row}, column {self.column}" + (f"; arrows: {arrows}" if arrows else "")

    def _allowed(self) -> list[str]:
        return [move for move, allowed in zip(MOVES, self.mask, strict=False) if allowed]

    def _repr_html_(self) -> str:
        world = FrozenLake(self.lake)
        bare = world.pose(np.array([self.row * world.columns + self.column]))
        x, y, _ = bare.poses[0, 0]
        marks = tuple(replace(direction_mark(world.cell), name=move) for move in self._allowed())
        poses = np.array([[bare.poses[0, 0], *((x, y, ANGLES[move]) for move in self._allowed())]])
        scene = Scene(bare.width, bare.height, bare.background, (bare.parts[0], *marks), poses, lambda _: repr(self))
        return image_tag(scene_svg(scene, 0, _WIDTH), repr(self))
