"""Display lists of the lanes of a spec explorer, with their samples."""

from __future__ import annotations

import torch
from rlnb_widgets import SpecExplorer
from rlnb_widgets._core.display import Display
from rlnb_widgets.spec_explorer.scene import draw_lane

from rlnb.data import Binary, Bounded, Categorical, Composite, OneHot, Unbounded


def _lanes() -> tuple[Display, dict[str, float]]:
    """Lanes of each kind, one below the other."""
    masked = torch.tensor([True, False, True])
    explorer = SpecExplorer(
        Composite(
            closed=Bounded(-1, 1, shape=(1,)), half=Bounded(0, torch.inf, shape=(1,)), open=Unbounded(1),
            choices=Categorical(3, mask=masked), cells=OneHot(3, mask=masked), bits=Binary(4),
        )
    )  # fmt: skip
    display, y = Display(200), 4.0
    for row in explorer.model.rows[1:]:
        samples = explorer._samples[row.path]
        for lane, levels in zip(row.cell.domain.lanes, samples.levels, strict=True):
            draw_lane(display, lane, levels, (20, y, 500, 24))
            y += 32
    return display, {}


#: Name to a function that returns a display list and its parameters.
SCENES = {"lanes of a spec": _lanes}
