"""Scene of CliffWalking: four rows of twelve cells with the cliff between start and goal."""

from __future__ import annotations

from rlnb_widgets.scenes.grid import DOWN, LEFT, RIGHT, UP, GridWorld


class CliffWalking(GridWorld):
    """Draws CliffWalking from its state index.

    Example:
        >>> import numpy as np
        >>> CliffWalking().pose(np.array([36]), actions=np.array([0])).caption_at(0)
        'agent at row 3, column 0 (start), going up'
    """

    def __init__(self) -> None:
        """Lay out the one map that there is."""
        rows = ("F" * 12, "F" * 12, "F" * 12, "S" + "C" * 10 + "G")
        super().__init__("CliffWalking", rows, (UP, RIGHT, DOWN, LEFT), ("up", "right", "down", "left"), "ground", 40)
