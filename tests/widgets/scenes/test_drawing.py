"""Arrows and arcs of rigid parts have the length and the direction of their number."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rlnb_widgets.scenes import Part
from rlnb_widgets.scenes.drawing import arc_parts, arc_poses, arrow_parts, arrow_poses

SWEEP, LENGTH = math.radians(120), 60.0
signed = st.floats(0.2, 1).flatmap(lambda v: st.sampled_from([v, -v]))


def corners(part: Part, pose: np.ndarray) -> np.ndarray:
    """Return where the corners of a part's only mark are at a pose, [K, 2]."""
    (mark,) = part.marks
    if mark["kind"] == "rect":
        local = np.array([(x, mark["y"] + h) for h in (0, mark["h"]) for x in (mark["x"], mark["x2"])])
    else:
        local = np.array(mark["points"])
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    return local @ np.array([[cos, sin], [-sin, cos]]) + pose[:2]


@given(signed)
def test_an_arc_covers_its_angle_without_gaps_and_its_head_points_on(value: float) -> None:
    start = 0.3
    parts = arc_parts(40.0, SWEEP)
    poses = [p[0] for p in arc_poses(np.array([value]), 100.0, 50.0, start, SWEEP)]
    *bands, clockwise, anticlockwise = zip(parts, poses, strict=True)
    head, absent = (clockwise, anticlockwise) if value > 0 else (anticlockwise, clockwise)
    assert np.isnan(absent[1]).all()

    def along(part: Part, pose: np.ndarray) -> np.ndarray:
        # Angles from the start in the direction of the value, so that both directions read alike.
        away = corners(part, pose) - (100.0, 50.0)
        return np.angle(np.exp(1j * (np.arctan2(away[:, 1], away[:, 0]) - start))) * np.sign(value)

    reach = sorted((along(*band).min(), along(*band).max()) for band in bands)
    end = abs(value) * SWEEP
    assert reach[0][0] == pytest.approx(0, abs=0.03)
    assert max(high for _, high in reach) == pytest.approx(end, abs=0.03)
    assert all(low <= before[1] for before, (low, _) in pairwise(reach))
    tip = along(*head)
    assert tip.min() == pytest.approx(end, abs=0.01)
    assert tip.max() > end + 0.2


@given(signed, st.floats(-3, 3))
def test_an_arrow_covers_its_length_without_gaps(value: float, angle: float) -> None:
    poses = [p[0] for p in arrow_poses(np.array([value]), 100.0, 50.0, angle, LENGTH)]
    *shaft, head = zip(arrow_parts(LENGTH), poses, strict=True)
    direction = np.array([math.cos(angle), math.sin(angle)]) * math.copysign(1, value)

    def reach(part: Part, pose: np.ndarray) -> tuple[float, float]:
        along = (corners(part, pose) - (100.0, 50.0)) @ direction
        return float(along.min()), float(along.max())

    pieces = sorted(reach(*piece) for piece in shaft)
    low, high = reach(*head)
    assert pieces[0][0] == pytest.approx(0, abs=1e-3)
    assert all(a <= before[1] + 1e-3 for before, (a, _) in zip(pieces, [*pieces[1:], (low, high)], strict=True))
    assert high == pytest.approx(abs(value) * (LENGTH - 15) + 15, abs=1e-3)


@pytest.mark.parametrize("value", [0.0, math.nan])
def test_nothing_to_show_shows_nothing(value: float) -> None:
    for poses in (
        arc_poses(np.array([value]), 0.0, 0.0, 0.0, SWEEP),
        arrow_poses(np.array([value]), 0.0, 0.0, 0.0, LENGTH),
    ):
        assert np.isnan(poses).all()


@pytest.mark.parametrize("value", [0.05, -0.05])
def test_a_small_number_is_a_head_alone(value: float) -> None:
    arc = arc_poses(np.array([value]), 0.0, 0.0, 0.0, SWEEP)
    arrow = arrow_poses(np.array([value]), 0.0, 0.0, 0.0, LENGTH)
    assert np.isnan(arc[:6]).all()
    assert np.isfinite(arc[6:]).all(axis=-1).sum() == 1
    assert np.isnan(arrow[:-1]).all()
    assert np.isfinite(arrow[-1]).all()
