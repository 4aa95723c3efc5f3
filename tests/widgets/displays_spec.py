"""Display lists of the domains of a spec, with their samples: in the static view, and in the page small and large."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from rlnb_widgets import SpecExplorer
from rlnb_widgets._core.display import Columns, Display
from rlnb_widgets._core.spec_domain import Lane
from rlnb_widgets.spec_explorer.scene import Column, domain_display, draw_lane, large_display, rows_display

from rlnb.data import Binary, Bounded, Categorical, Composite, MultiOneHot, OneHot, Unbounded

Made = tuple[Display, dict[str, float]]


def _explorer() -> SpecExplorer:
    masked = torch.tensor([True, False, True])
    return SpecExplorer(
        Composite(
            closed=Bounded(-1, 1, shape=(1,)), half=Bounded(0, torch.inf, shape=(1,)), open=Unbounded(1),
            choices=Categorical(3, mask=masked), cells=OneHot(3, mask=masked), bits=Binary(4), many=OneHot(60),
            parts=MultiOneHot([2, 3]),
        )
    )  # fmt: skip


def _lanes() -> Made:
    """Lanes of each kind, one below the other."""
    explorer = _explorer()
    display, y = Display(560), 4.0
    for row in explorer.model.rows[1:]:
        for lane, levels in zip(row.cell.domain.lanes, explorer._samples[row.path].levels, strict=True):
            with display.moved(y), display.frame(20, 160):
                draw_lane(display, lane, display.columns.add(np.array(levels)), 50, 20)
            y += 60
    return display, {}


def _of_page(key: str, draw: Callable[[Lane, Column, Columns], Display]) -> Callable[[], Made]:
    """The picture of the first lane of an entry as the page draws it, with samples and tried values."""

    def made() -> Made:
        explorer = _explorer()
        lane = explorer.model.row(key).cell.domain.lanes[0]
        tried = {"legal": [0.5], "illegal": [1.03 if lane.kind == "line" else 1.5]}
        arrays = {"levels": explorer._samples[key,].levels[0], **tried}
        columns = Columns()
        display = draw(lane, lambda name: columns.add(np.array(arrays[name])), columns)
        return display, dict(zip(("low", "high"), lane.view, strict=True))

    return made


KEYS = ("closed", "half", "open", "choices", "cells", "bits", "many")
#: Name to a function that returns a display list and its parameters.
SCENES: dict[str, Callable[[], Made]] = {
    "lanes of a spec": _lanes,
    "rows of a spec": lambda: (rows_display(_explorer().model, _explorer()._samples), {}),
    **{f"domain of {key}, small": _of_page(key, domain_display) for key in KEYS},
    **{f"domain of {key}, large": _of_page(key, lambda lane, *given: large_display(lane, 96, *given)) for key in KEYS},
}
