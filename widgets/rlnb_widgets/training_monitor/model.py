"""What the monitor shows, as plain values: progress, curves, a value map and rollouts of the agent."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rlnb_widgets._core.measures import short_number
from rlnb_widgets._core.text import duration, short_rate, shorten
from rlnb_widgets.rollout_player import PlayerModel
from rlnb_widgets.training_monitor.series import MOST_BUCKETS, Buckets, Series, at_most
from rlnb_widgets.training_monitor.trend import trend_words

#: States of a training.
STATES = ("waiting", "running", "finished", "stopped", "failed", "log")
_LOWER = re.compile(r"loss|error|regret|cost", re.IGNORECASE)
_HIGHER = re.compile(r"return|reward|score|success|accuracy|won|wins", re.IGNORECASE)
_FEWEST_SMOOTHED = 10


@dataclass(frozen=True, eq=False)
class CurveModel:
    """One curve: a bounded number of points, however many values were logged."""

    name: str  #: name of the series
    count: int = 0  #: number of values
    steps: np.ndarray = field(default_factory=lambda: np.empty(0))  #: steps of the points ``[m]``
    values: np.ndarray = field(default_factory=lambda: np.empty(0))  #: points, NaN where the line breaks ``[m]``
    smooth_steps: np.ndarray = field(default_factory=lambda: np.empty(0))  #: steps of the moving mean ``[k]``
    smooth: np.ndarray = field(default_factory=lambda: np.empty(0))  #: moving mean ``[k]``
    window: int = 0  #: number of values that it is the mean of; 0 without one
    missing: np.ndarray = field(default_factory=lambda: np.empty(0))  #: steps at which values are not finite ``[j]``
    missing_count: int = 0  #: number of values that are not finite
    first_step: float = 0.0  #: step of the first value
    last_step: float = 0.0  #: step of the last value
    last: float = math.nan  #: last value
    low: float = math.nan  #: lowest finite value
    high: float = math.nan  #: highest finite value
    goal: float | None = None  #: value to reach
    trend: str = ""  #: what the series did, in words

    @property
    def best(self) -> float | None:
        """The lowest value of a loss, the highest of a return; None for other series."""
        if _LOWER.search(self.name):
            return self.low
        return self.high if _HIGHER.search(self.name) else None


@dataclass(frozen=True)
class Progress:
    """How far the training is, without times."""

    state: str  #: one of `STATES`
    frames: int  #: frames or iterations so far
    total: int | None  #: how many there will be, if known
    unit: str  #: what is counted, such as ``"frames"``
    error: str = ""  #: the error of a failed training


@dataclass(frozen=True)
class Pace:
    """Times measured on this machine."""

    rate: float  #: frames per second; NaN if nothing was measured
    elapsed: float  #: seconds so far
    left: float  #: seconds to go; NaN if not known


@dataclass(frozen=True, eq=False)
class ValueMap:
    """Values and greedy actions of the states of a grid."""

    rows: int  #: rows of the grid
    columns: int  #: columns of the grid
    values: np.ndarray  #: value of each state, NaN where there is none ``[rows * columns]``
    #: direction of the greedy action of each state, ``""`` without one
    arrows: tuple[str, ...]
    blocked: frozenset[int] = frozenset()  #: states that cannot be entered
    goal: frozenset[int] = frozenset()  #: goals


@dataclass(frozen=True, eq=False)
class Shown:
    """A rollout of the agent."""

    name: str  #: such as ``"before"``
    frames: int  #: frames of training when it was shown
    player: PlayerModel  #: the rollout


@dataclass(frozen=True, eq=False)
class MonitorModel:
    """All that the monitor shows, but for the measured times."""

    progress: Progress
    curves: tuple[CurveModel, ...]
    shown: tuple[Shown, ...] = ()
    value_map: ValueMap | None = None
    hparams: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def curve_model(name: str, series: Series, goal: float | None = None, most: int = MOST_BUCKETS) -> CurveModel:
    """Summarize a series as a curve of at most ``most`` buckets, each drawn as its lowest and its highest value.

    Example:
        >>> series = Series()
        >>> for step, value in enumerate([3.0, 1.0, float("nan"), 2.0]):
        ...     series.append(step, value)
        >>> curve = curve_model("loss", series)
        >>> curve.steps.tolist(), curve.values.tolist(), curve.best, curve.missing_count
        ([0.0, 1.0, 2.0, 3.0], [3.0, 1.0, nan, 2.0], 1.0, 1)
    """
    if not len(series):
        return CurveModel(name, goal=goal)
    buckets = at_most(series.buckets(), most)
    steps, values = _points(buckets)
    window, smooth_steps, smooth = _smoothed(buckets, values)
    some = buckets.count > 0
    return CurveModel(
        name, len(series), steps, values, smooth_steps, smooth, window,
        missing=buckets.start[buckets.missing > 0], missing_count=int(buckets.missing.sum()),
        first_step=float(buckets.start[0]), last_step=float(buckets.end[-1]), last=float(series.last),
        low=float(buckets.low[some].min()) if some.any() else math.nan,
        high=float(buckets.high[some].max()) if some.any() else math.nan, goal=goal,
        trend=trend_words(series.buckets()),
    )  # fmt: skip


def _points(buckets: Buckets) -> tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest point of each bucket in order, and NaN where there is none."""
    if buckets.width == 1:
        return buckets.start, buckets.low
    low_first = buckets.low_at <= buckets.high_at
    steps = np.stack([np.minimum(buckets.low_at, buckets.high_at), np.maximum(buckets.low_at, buckets.high_at)], -1)
    values = np.where(
        low_first[:, None], np.stack([buckets.low, buckets.high], -1), np.stack([buckets.high, buckets.low], -1)
    )
    # A bucket whose values are all equal is one point.
    kept = np.stack([np.ones(len(buckets), dtype=bool), steps[:, 0] != steps[:, 1]], -1)
    return steps[kept], values[kept]


def _smoothed(buckets: Buckets, values: np.ndarray) -> tuple[int, np.ndarray, np.ndarray]:
    """Return the number of values, steps and values of a trailing mean; nothing for a line that is smooth already."""
    nothing = 0, np.empty(0), np.empty(0)
    count = np.cumsum(np.append(0, buckets.count))
    drawn = values[np.isfinite(values)]
    if count[-1] < _FEWEST_SMOOTHED or not np.abs(np.diff(drawn)).sum() > 3 * np.ptp(drawn):
        return nothing
    wide = max(-(-5 // buckets.width), len(buckets) // 20)
    total = np.cumsum(np.append(0.0, buckets.total))
    ends = np.arange(1, len(buckets) + 1)
    starts = np.maximum(ends - wide, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = (total[ends] - total[starts]) / (count[ends] - count[starts])
    return wide * buckets.width, buckets.end, means


def insight(curves: Sequence[CurveModel]) -> str:
    """Say what the return did, or the first series that has values."""
    found = sorted((curve for curve in curves if curve.trend), key=lambda curve: not _HIGHER.search(curve.name))
    return f"{shorten(found[0].name, 32)}: {trend_of(found[0])}." if found else ""


def trend_of(curve: CurveModel) -> str:
    """Say what a series did, and its best value if there is one."""
    best = curve.best if curve.low < curve.high else None
    return curve.trend if best is None else f"{curve.trend}; best {short_number(best)}"


def progress_words(progress: Progress) -> str:
    """Say how far the training is, without times.

    Example:
        >>> progress_words(Progress("stopped", 12_000, 50_000, "frames"))
        'stopped at 12,000 of 50,000 frames; what was learned is intact'
        >>> progress_words(Progress("finished", 50_000, 50_000, "frames"))
        '50,000 of 50,000 frames, finished'
    """
    unit = progress.unit.removesuffix("s") if progress.frames == 1 and progress.total is None else progress.unit
    far = f"{progress.frames:,}{'' if progress.total is None else f' of {progress.total:,}'} {unit}"
    match progress.state:
        case "stopped":
            return f"stopped at {far}; what was learned is intact"
        case "failed":
            return f"failed at {far}: {progress.error}"
        case "finished":
            return f"{far}, finished"
        case "log":
            return f"a finished run, {far}"
        case "waiting":
            return f"not started, {far}" if progress.total is not None else "not started"
    return far


def pace_words(pace: Pace, unit: str, running: bool) -> str:
    """Say how fast the training is, as measured.

    Example:
        >>> pace_words(Pace(1234.5, 20.0, 95.0), "frames", True), pace_words(Pace(1234.5, 20.0, 0.0), "frames", False)
        ('1,230 frames/s, 1 min 35 s left', '1,230 frames/s, took 20 s')
    """
    words = []
    if math.isfinite(pace.rate) and pace.rate > 0:
        words.append(f"{short_rate(pace.rate)} {unit}/s")
    if running and math.isfinite(pace.left):
        words.append(f"{clock(pace.left)} left")
    elif not running and pace.elapsed > 0:
        words.append(f"took {clock(pace.elapsed)}")
    return ", ".join(words)


def clock(seconds: float) -> str:
    """Format a time span for people who wait.

    Example:
        >>> [clock(s) for s in (0.25, 42, 95, 3 * 3600 + 120)]
        ['250 ms', '42 s', '1 min 35 s', '3 h 2 min']
    """
    if seconds < 1:
        return duration(seconds * 1e6)
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
