"""Where the ends of a line lie in its picture, and what is written there."""

from __future__ import annotations

import numpy as np

from rlnb_widgets._core.text import number
from rlnb_widgets.spec_explorer.samples import positions
from rlnb_widgets.spec_explorer.schema import Lane


def ends_of(lane: Lane) -> tuple[float | None, float | None]:
    """Return where a line begins and ends in its picture: 0 is left, 1 is right, None is open.

    Args:
        lane: a lane of kind ``"line"``.

    Example:
        >>> ends_of(Lane("line", low=0.0, view=(0.0, 5.5)))
        (0.0, None)
    """
    ends = (lane.low, lane.high)
    left, right = (None if end is None else float(positions(lane, np.array(float(end)))) for end in ends)
    return left, right


def end_texts(lane: Lane) -> tuple[str, str]:
    """Return what is written at the two ends; infinities at open ones.

    Example:
        >>> end_texts(Lane("line", low=0.0))
        ('0', 'inf')
    """
    if lane.whole and lane.low is None and lane.high is None:
        return number(lane.view[0]), number(lane.view[1])
    low, high = (None if end is None else int(end) if lane.whole else end for end in (lane.low, lane.high))
    return "-inf" if low is None else number(low), "inf" if high is None else number(high)


def zero_of(lane: Lane) -> float | None:
    """Return where 0 lies inside the picture of a line, None where it does not, or is an end."""
    at = float(positions(lane, np.array(0.0)))
    return at if 0.02 < at < 0.98 else None


def legal_of(lane: Lane) -> float:
    """Return the legal number of a line that is nearest to 0."""
    low, high = -np.inf if lane.low is None else lane.low, np.inf if lane.high is None else lane.high
    return min(max(0, low), high)
