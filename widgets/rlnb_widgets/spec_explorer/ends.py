"""Labels of lanes, and the positions of their ends."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.spec_domain import Lane, allowed_text, interval_text
from rlnb_widgets._core.text import plural
from rlnb_widgets.spec_explorer.samples import positions


def ends_of(lane: Lane) -> tuple[float | None, float | None]:
    """Return both ends of a line in its picture: 0 is left, 1 is right, None is open.

    Example:
        >>> ends_of(Lane("line", low=0.0, view=(0.0, 5.5)))
        (0.0, None)
    """
    ends = (lane.low, lane.high)
    left, right = (None if end is None else float(positions(lane, np.array(float(end)))) for end in ends)
    return left, right


def lane_text(lane: Lane) -> str:
    """Return the legal values of the components of a lane.

    Example:
        >>> lane_text(Lane("line", low=0.0)), lane_text(Lane("choices", n=3, start=1)), lane_text(Lane("cells", n=2))
        ('[0, inf)', '{1, 2, 3}', 'one-hot of 2')
    """
    if lane.kind == "line":
        low, high = -np.inf if lane.low is None else lane.low, np.inf if lane.high is None else lane.high
        return interval_text(*(lane.view if lane.whole else (low, high)), lane.whole)
    if lane.kind == "bits":
        return f"{{0, 1}} in each of {plural(lane.n, 'place')}"
    whole = f"one-hot of {lane.n}" if lane.kind == "cells" else ""
    if lane.barred:
        return ": ".join(filter(None, (whole, allowed_text(lane.n, lane.start, [lane.barred]))))
    return whole or interval_text(lane.start, lane.start + lane.n - 1, whole=True)


def legal_of(lane: Lane) -> float:
    """Return the legal number of a line that is nearest to 0."""
    low, high = -np.inf if lane.low is None else lane.low, np.inf if lane.high is None else lane.high
    return min(max(0, low), high)
