"""Scene of FrozenLake: ice, holes, start and goal of its map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rlnb_widgets.scenes.grid import DOWN, LEFT, RIGHT, UP, GridWorld

#: Gymnasium's maps by name.
MAPS: dict[str, tuple[str, ...]] = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": ("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF", "FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
}


class FrozenLake(GridWorld):
    """Draws FrozenLake from its state index, on the map of its env, or on Gymnasium's map ``map_name``.

    Example:
        >>> import numpy as np
        >>> FrozenLake().pose(np.array([5])).caption_at(0)
        'agent at row 1, column 1 (hole)'
    """

    def __init__(self, rows: Sequence[str] | None = None, map_name: str = "4x4") -> None:
        """Lay out the map."""
        self.note = ""
        if rows is None:
            rows = MAPS[map_name]
            self.note = f"The default {map_name} map is assumed; pass the env itself to draw its own map."
        super().__init__("FrozenLake", rows, (LEFT, DOWN, RIGHT, UP), ("left", "down", "right", "up"), floor="ice")

    def for_env(self, env: Any) -> FrozenLake:
        """Return the scene with the map of `env`: its own ``desc``, or the map that it was made with."""
        desc = getattr(getattr(env, "unwrapped", env), "desc", None)
        kwargs = getattr(getattr(env, "spec", None), "kwargs", None) or {}
        if desc is None:
            desc = kwargs.get("desc")
        if desc is None:
            return FrozenLake(MAPS[kwargs["map_name"]]) if kwargs.get("map_name") in MAPS else self
        if isinstance(desc[0], (str, bytes)):
            return FrozenLake([r.decode() if isinstance(r, bytes) else r for r in desc])
        return FrozenLake(["".join(row) for row in np.asarray(desc).astype(str)])
