"""The live training monitor: a widget that a training loop feeds, and that the page draws while the cell runs."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import traitlets
from tensordict import TensorDictBase

from rlnb.record.loggers.common import Logger
from rlnb_widgets._core.display import Columns
from rlnb_widgets._core.display_svg import Part, legend_payload, stacked
from rlnb_widgets._core.environments import check_env
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.packing import deflated
from rlnb_widgets._core.svg import Svg, image_tag
from rlnb_widgets._core.text import shorten
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.rollout_player import frames_payload, player_model, steps_shape
from rlnb_widgets.training_monitor.inputs import check_name, check_step, logged_number, value_map
from rlnb_widgets.training_monitor.logs import read_log
from rlnb_widgets.training_monitor.model import (
    MonitorModel,
    Pace,
    Progress,
    Shown,
    ValueMap,
    curve_model,
    insight,
    pace_words,
    progress_words,
)
from rlnb_widgets.training_monitor.returns import EpisodeReturns
from rlnb_widgets.training_monitor.scene import (
    UNREAD,
    curve_displays,
    curve_legend,
    curve_words,
    film_display,
    map_display,
    map_width,
    progress_display,
)
from rlnb_widgets.training_monitor.series import MOST_BUCKETS, Series
from rlnb_widgets.training_monitor.text import episode_words, monitor_explanation, monitor_headline, monitor_text

_HERE = Path(__file__).parent
#: Seconds between two updates of the page, at least.
_EVERY = 0.25
#: How many times the seconds of CPU of an update the training has before the next one, and how many times its seconds
#: it waits at most, or two seconds. On a busy machine the clock runs on while the training does not.
_SHARE, _PATIENCE, _LONGEST = 200.0, 50.0, 2.0
#: Seconds between two lines of a script that runs in a terminal; the rate is that of these seconds.
_LINE, _RECENT = 2.0, 10.0
_MOST_SHOWN_BYTES = 2_000_000
#: What a saved notebook has room for.
_MOST_STATIC, _STATIC_BUCKETS = 6, 80
T = TypeVar("T")


class TrainingMonitor(TimeTraits, Visualizer):
    """Shows a training while its cell runs: curves of what is logged, rate and time left, and the agent at work.

    As a context manager it shows itself at once. Interrupting the kernel ends the block and nothing else: the monitor
    says where the training stopped, and the agent keeps what it has learned. An error ends the block as usual.

    A curve has its values as a thin line, and their moving mean as a thick one. All values are kept; what is drawn is
    bounded, so that a long training costs no more than a short one. The page is updated at most four times a second.

    Without a notebook it draws nothing, and a terminal gets a line every two seconds.

    Args:
        total: Number of frames or iterations to come. None: that of the collector or the range in :meth:`watch`.
        unit: What is counted. None: ``"frames"`` for batches of data, ``"iterations"`` for anything else.
        curves: Names of the first curves, in their order. Others are added when they are first logged.
        goals: Values to reach, by the name of the curve, drawn as dashed lines.

    Attributes:
        stopped: Whether an interrupt ended the last block.
        frames: Number of frames or iterations so far.
        rate: Frames per second: of the last ten seconds while it runs, of the whole training afterwards.
        model: The plain values that are shown, a `MonitorModel`.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If ``total`` is not positive.

    Example:
        >>> from rlnb.collectors import Collector
        >>> from rlnb.envs import GymEnv
        >>> env = GymEnv("CartPole-v1", max_episode_steps=8)
        >>> _ = env.set_seed(0)
        >>> collector = Collector(env, frames_per_batch=16, total_frames=64)
        >>> monitor = TrainingMonitor(curves=["return"])
        >>> with monitor:
        ...     for batch in monitor.watch(collector):
        ...         monitor.log(epsilon=1 - collector.frames / 64)
        >>> monitor
        TrainingMonitor: 64 of 64 frames, finished
          return   8 values  last 8  best 8    ▄▄▄▄▄▄▄▄
          epsilon  4 values  last 0            █▆▃▁
          return: 8 all the time.
        >>> monitor["epsilon"][1].tolist()
        [0.75, 0.5, 0.25, 0.0]
    """

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(_HERE / "live.css")

    _head = traitlets.Dict().tag(sync=True)
    _columns = traitlets.Bytes().tag(sync=True)
    _legend: traitlets.List[list[str]] = traitlets.List().tag(sync=True)  # apart from the head: it seldom changes
    _shows = traitlets.Dict().tag(sync=True)
    _poses = traitlets.Bytes().tag(sync=True)
    _pictures = traitlets.Bytes().tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        total: int | None = None,
        unit: str | None = None,
        curves: Sequence[str] = (),
        goals: Mapping[str, float] | None = None,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        self._total, self._unit = _total(total), _unit(unit)
        self._goals = {check_name(name): logged_number(name, goal) for name, goal in dict(goals or {}).items()}
        if isinstance(curves, str):
            raise TypeError(f'curves must be a list of names, got the text {curves!r}. Fix: curves=["{curves}"].')
        self._series: dict[str, Series] = {check_name(name): Series() for name in (*curves, *self._goals)}
        self._state, self._error = "waiting", ""
        self._frames, self._counts = 0, False
        self._returns = EpisodeReturns()
        self._hparams: dict[str, str] = {}
        #: Rollouts that are not drawn yet, and those that are, by name.
        self._waiting: dict[str, tuple[TensorDictBase, Any, int]] = {}
        self._shown: dict[str, Shown] = {}
        self._map: ValueMap | None = None
        self._begun, self._elapsed = math.nan, 0.0
        self._marks: list[tuple[float, int]] = []
        self._due, self._latest, self._cpu_due, self._next_line = 0.0, 0.0, 0.0, 0.0
        self._output: _Output | None = None
        self._inside = False
        super().__init__(fps=30.0, _label="TrainingMonitor")
        self.refresh()

    # What a training loop calls ----------------------------------------------------------------------------------

    def __enter__(self) -> TrainingMonitor:
        self._inside = True
        self._begin()
        self._output = _Output.of(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._inside = False
        interrupted = kind is not None and issubclass(kind, KeyboardInterrupt)
        if interrupted:
            self._end("stopped")
        elif error is not None:
            self._end("failed", f"{type(error).__name__}: {error}".partition("\n")[0])
        else:
            self._end("finished")
        return interrupted

    def watch(self, iterable: Iterable[T]) -> Iterator[T]:
        """Yield from a collector, or from anything else, and count.

        Batches of a collector are counted in frames, and the returns of the episodes that end in them become the curve
        ``"return"``; other items count as iterations.

        Args:
            iterable: A collector, a range, or any iterable.

        Yields:
            Its items.
        """
        length = getattr(iterable, "total_frames", None)
        if length is None and isinstance(iterable, Sized):
            length = len(iterable)
        if self._total is None and isinstance(length, int) and length > 0:
            self._total = length
        self._begin()

        def counted(item: T) -> T:
            self._count(item, iterable)
            self.tick()
            return item

        yield from map(counted, iterable)
        if not self._inside:
            self._end("finished")

    def log(self, values: Mapping[str, Any] | None = None, /, *, step: float | None = None, **named: Any) -> None:
        """Log numbers, each into the curve of its name.

        Args:
            values: Numbers by name, for names that are no Python names.
            step: Where they belong. None: the frames so far, or the number of values before without :meth:`watch`.
            **named: Numbers, or tensors or arrays with one element, by name.

        Raises:
            TypeError: If a value is not a number. Nothing is logged then.
            ValueError: If the step is not finite.
        """
        given = {**values, **named} if values else named
        known = self._series
        found = {n if n in known else check_name(n): logged_number(n, value) for n, value in given.items()}
        place = None if step is None else check_step(step)
        at = self._frames if place is None and self._counts else place
        for name, value in found.items():
            series = known.get(name)
            if series is None:
                series = known[name] = Series()
            series.append(len(series) if at is None else at, value)
        if self._state == "waiting":
            self._begin()
        if place is not None and not self._counts:
            self._frames = max(self._frames, int(place))
        self.tick()

    def log_scalar(self, name: str, value: Any, step: int | None = None) -> None:
        """Log one number, as a logger does; see :meth:`log`."""
        self.log({name: value}, step=step)

    def log_metrics(
        self, metrics: Mapping[str, Any] | TensorDictBase, step: int | None = None, *, keys_sep: str = "/"
    ) -> dict[str, Any]:
        """Log several numbers of one step, which may be nested, as a logger does."""
        return Logger.log_metrics(self, metrics, step, keys_sep=keys_sep)

    def log_hparams(self, cfg: Mapping[str, Any]) -> None:
        """Keep the hyperparameters, for :meth:`explain`."""
        self._hparams |= {str(name): shorten(str(value), 60) for name, value in cfg.items()}

    def log_video(self, name: str, video: Any, step: int | None = None, **kwargs: Any) -> None:
        """Refuse a video: the monitor draws rollouts.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            f"A TrainingMonitor keeps no videos, and got {name!r}. Fix: monitor.show_episode(rollout, env), or "
            "CSVLogger(...).log_video(name, video)."
        )

    def show_episode(self, rollout: TensorDictBase, env: Any = None) -> None:
        """Show a rollout as the latest episode, in place of the one before.

        Args:
            rollout: TensorDict ``[T]`` in the TED format; of a batch ``[*B, T]`` the first env is shown.
            env: The env that draws it, or its id; see :class:`~rlnb_widgets.RolloutPlayer`.

        Raises:
            TypeError: If the rollout is not a TensorDict, or ``env`` is not an env.
            ValueError: If the rollout is empty or has no time dimension.
        """
        self._show("latest episode", rollout, env)

    def snapshot(self, name: str, rollout: TensorDictBase, env: Any = None) -> None:
        """Show a rollout beside the others under its own name, such as ``"before"``; see :meth:`show_episode`."""
        self._show(check_name(name), rollout, env)

    def show_values(
        self,
        values: Any,
        shape: tuple[int, int] | None = None,
        actions: Any = None,
        *,
        blocked: Any = None,
        goal: Any = None,
        arrows: Sequence[str] = ("left", "down", "right", "up"),
    ) -> None:
        """Show the values of a grid's states, and the greedy actions as arrows.

        Args:
            values: Value of each state, ``[rows * columns]`` or ``[rows, columns]``; NaN leaves a state empty.
            shape: Rows and columns. None: the shape of ``values``.
            actions: Index of the greedy action of each state, in the same shape; negative for none.
            blocked: States that cannot be entered: indices, or a mask in the shape of ``values``.
            goal: Goals, likewise.
            arrows: Direction of each action. Default: that of FrozenLake and GridWorldEnv.

        Raises:
            ValueError: If the shapes do not match, or a state or an action does not exist.
        """
        self._map = value_map(values, shape, actions, blocked, goal, arrows)
        self._show_now()

    # What it knows -----------------------------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """Whether an interrupt ended the last block."""
        return self._state == "stopped"

    @property
    def frames(self) -> int:
        """Number of frames or iterations so far."""
        return self._frames

    @property
    def rate(self) -> float:
        """Frames per second; NaN before anything was counted."""
        return self._pace().rate

    def __getitem__(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return steps and values ``[n]`` of a curve."""
        if name not in self._series:
            known = ", ".join(map(repr, self._series)) or "nothing yet"
            raise KeyError(f"The monitor has no curve {name!r}; it has {known}.")
        self._read_returns()
        return self._series[name].read()

    def __contains__(self, name: object) -> bool:
        return name in self._series

    @property
    def model(self) -> MonitorModel:
        """The plain values that are shown."""
        return self._modelled(MOST_BUCKETS)

    def _modelled(self, most: int) -> MonitorModel:
        self._draw_rollouts()
        self._read_returns()
        curves = tuple(curve_model(name, series, self._goals.get(name), most) for name, series in self._series.items())
        progress = Progress(self._state, self._frames, self._total, self._unit or "frames", self._error)
        return MonitorModel(progress, curves, tuple(self._shown.values()), self._map, self._hparams)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> TrainingMonitor:
        """Return a monitor with the curves of a finished run.

        Args:
            path: Folder that a :class:`~rlnb.record.loggers.CSVLogger` wrote (``logger.folder``), one of its CSV
                files, or a folder with TensorBoard's event files.

        Raises:
            FileNotFoundError: If there is no log.
            ValueError: If a CSV file has other lines than a step and a value.
            ImportError: If there are event files and the package ``tensorboard`` is not installed.

        Example:
            >>> import tempfile
            >>> from rlnb.record.loggers import CSVLogger
            >>> logger = CSVLogger("run", log_dir=tempfile.mkdtemp())
            >>> for step in range(5):
            ...     logger.log_scalar("return", 10 * step, step=100 * step)
            >>> TrainingMonitor.read(logger.folder)
            TrainingMonitor: a finished run, 400 steps
              return  5 values  last 40  best 40    ▁▃▅▆█
              return: went from 0 to 40 in 5 values; best 40.
        """
        monitor = cls(unit="steps")
        for name, (steps, values) in read_log(path).items():
            monitor._series.setdefault(name, Series()).extend(steps, values)
            monitor._frames = max(monitor._frames, int(np.nanmax(steps, initial=0)))
        monitor._state = "log"
        monitor.refresh()
        return monitor

    # Counting and time -------------------------------------------------------------------------------------------

    def _count(self, item: Any, source: Any) -> None:
        before = self._frames
        if isinstance(item, TensorDictBase) and item.ndim:
            self._unit = self._unit or "frames"
            self._frames = before + self._returns.add(item, before)
            if "return" not in self._series and self._returns.begun:
                self._series["return"] = Series()
        elif item is None and isinstance(frames := getattr(source, "frames", None), int):
            # A collector that writes its batches into a buffer yields None.
            self._unit, self._frames = self._unit or "frames", frames
        else:
            self._unit, self._frames = self._unit or "iterations", before + 1
        self._counts = True

    def _begin(self) -> None:
        if self._state == "running":
            return
        self._state, self._error = "running", ""
        self._begun = time.perf_counter()
        self._marks = [(self._begun, self._frames)]
        self._due = self._latest = self._next_line = 0.0

    def _end(self, state: str, error: str = "") -> None:
        if math.isfinite(self._begun):
            self._elapsed += time.perf_counter() - self._begun
        self._begun, self._state, self._error = math.nan, state, shorten(error, 200)
        self._due = 0.0
        self._renew()
        if self._output is None and _terminal():
            print(f"\r{self._line()}\x1b[K", file=sys.stderr, flush=True)

    def tick(self) -> None:
        """Update the page if it is time to; :meth:`log` and :meth:`watch` call this themselves."""
        now = time.perf_counter()
        if now < self._due:
            return
        if self._state != "running":
            self._renew()
            self._due = time.perf_counter() + _EVERY
            return
        if self._output is None:
            self._due = now + _EVERY
            if now >= self._next_line and _terminal():
                self._next_line = now + _LINE
                self._mark(now)
                print(f"\r{self._line()}\x1b[K", end="", file=sys.stderr, flush=True)
            return
        if now < self._latest and time.process_time() < self._cpu_due:
            self._due = now + _EVERY / 5
            return
        cpu = time.process_time()
        self._mark(now)
        self.refresh()
        done, cpu_done = time.perf_counter(), time.process_time()
        self._due, self._latest = done + _EVERY, done + max(_LONGEST, _PATIENCE * (done - now))
        self._cpu_due = cpu_done + _SHARE * (cpu_done - cpu)

    def _show_now(self) -> None:
        """Show what was given: with the next update while the training runs, otherwise at once."""
        if self._state == "running":
            self.tick()
        else:
            self._renew()

    def _renew(self) -> None:
        """Update the page, and the output of this cell too: the saved notebook keeps what it showed last."""
        if self._output is None or not self._output.update(self):
            self.refresh()

    def _mark(self, now: float) -> None:
        self._marks.append((now, self._frames))
        while len(self._marks) > 2 and now - self._marks[1][0] > _RECENT:
            del self._marks[0]

    def _pace(self) -> Pace:
        running = self._state == "running"
        now = time.perf_counter()
        elapsed = self._elapsed + (now - self._begun if running else 0.0)
        since, done = (self._marks[0] if self._marks else (now, self._frames)) if running else (now - elapsed, 0)
        span, frames = now - since, self._frames - done
        rate = frames / span if span > 0 and frames > 0 else math.nan
        left = (self._total - self._frames) / rate if self._total is not None and rate > 0 else math.nan
        return Pace(rate, elapsed, max(left, 0.0) if math.isfinite(left) else left)

    def _pace_words(self) -> str:
        if self._state in ("log", "waiting"):
            return ""
        return pace_words(self._pace(), self._unit or "frames", self._state == "running")

    def _line(self) -> str:
        self._read_returns()
        progress = Progress(self._state, self._frames, self._total, self._unit or "frames", self._error)
        last = [f"{name} {series.last:.4g}" for name, series in list(self._series.items())[:3] if len(series)]
        return shorten(" | ".join(filter(None, [progress_words(progress), self._pace_words(), *last])), 110)

    # Drawing -----------------------------------------------------------------------------------------------------

    def _show(self, name: str, rollout: Any, env: Any) -> None:
        steps_shape(rollout)
        check_env(env)
        # A collector may overwrite its batches, and the next episode of an env its tensors.
        self._waiting[name] = rollout.detach().clone(), env, self._frames
        self._show_now()

    def _read_returns(self) -> None:
        steps, values = self._returns.read()
        if len(steps):
            self._series["return"].extend(steps, values)

    def _draw_rollouts(self) -> None:
        for name in list(self._waiting):
            rollout, env, frames = self._waiting[name]
            player = player_model(rollout, env, strips=[], envs=0, max_bytes=_MOST_SHOWN_BYTES)
            self._shown[name] = Shown(name, frames, player)
            del self._waiting[name]

    def refresh(self) -> None:
        """Bring the page up to date now."""
        fresh = bool(self._waiting)
        model = self.model
        columns = Columns()
        panels = curve_displays(model, columns)
        grid = model.value_map
        head: dict[str, Any] = {
            "state": model.progress.state,
            "words": progress_words(model.progress),
            "pace": self._pace_words(),
            "bar": progress_display(model.progress).payload(),
            "frames": model.progress.frames,
            "total": model.progress.total,
            "curves": [
                {
                    "name": curve.name,
                    "list": panel.payload(),
                    "label": f"{curve.name}: {curve_words(curve) or 'no values'}",
                }
                for curve, panel in zip(model.curves, panels, strict=True)
            ],
            "insight": insight(model.curves),
            "map": None
            if grid is None
            else {
                "list": map_display(grid, columns).payload(),
                "width": map_width(grid),
            },
        }
        head["columns"], blob = columns.payload()
        with self.hold_sync():
            self._head, self._columns = head, blob
            self._legend = legend_payload(curve_legend(model.curves))
            if fresh:
                self.length = max(one.player.length for one in model.shown)
                self._shows, self._poses, self._pictures = _shows(model.shown, model.progress.unit)

    def _update_page(self) -> None:
        self.refresh()

    def _text(self) -> str:
        return monitor_text(self.model)

    def _explain(self) -> str:
        return monitor_explanation(self.model)

    def _svg(self) -> Svg:
        return self._picture(self._pace_words())

    def _picture(self, pace: str) -> Svg:
        model = self._modelled(_STATIC_BUCKETS)
        parts: list[Part] = [*([pace] if pace else []), progress_display(model.progress)]
        parts += [words] if (words := insight(model.curves)) else []
        parts += curve_displays(model, Columns())
        parts += [legend] if (legend := curve_legend(model.curves)) else []
        if (film := film_display(model.shown[:_MOST_STATIC])) is not None:
            parts.append(film)
        if model.value_map is not None:
            parts.append(map_display(model.value_map, Columns()))
        return stacked(f"TrainingMonitor: {monitor_headline(model)}", monitor_explanation(model), parts, UNREAD)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        self.refresh()
        # The base class would draw the picture once more, with the times in it.
        bundle: Any = super(Visualizer, self)._repr_mimebundle_(**kwargs)
        data, meta = bundle if isinstance(bundle, tuple) else (bundle or {}, {})
        text = repr(self)
        html = image_tag(str(self._picture("")), text.partition("\n")[0])
        if pace := self._pace_words():
            svg = Svg(760, 22, title="pace")
            svg.text(12, 15, pace, "muted")
            html = f"{image_tag(str(svg), 'pace of the training, as measured', measured=True)}\n{html}"
        return {**data, "text/plain": text, "text/html": html}, meta


# A training that takes a logger takes a monitor; it cannot inherit, since widgets have a metaclass of their own.
Logger.register(TrainingMonitor)


def _shows(shown: Sequence[Shown], unit: str) -> tuple[dict[str, Any], bytes, bytes]:
    """Return the rollouts for the page: what describes them, the deflated bytes of their poses, and their pictures."""
    found, poses, pictures = [], b"", b""
    for one in shown:
        head, poses_after, images = frames_payload(one.player.frames, poses)
        found.append({
            "name": one.name, "words": episode_words(one), "after": f"at {one.frames:,} {unit}",
            "labels": ["env 0"], "steps": one.player.length,
            "extra": one.player.frames.extra.tolist(), "frames": head, "pictures": [len(pictures), len(images)],
        })  # fmt: skip
        poses, pictures = poses_after + bytes(-len(poses_after) % 8), pictures + images
    return {"rollouts": found}, deflated(poses), pictures


class _Output:
    """The output of a notebook's cell that shows a monitor."""

    def __init__(self, shell: Any, handle: Any) -> None:
        self._shell, self._handle, self._cell = shell, handle, shell.execution_count

    @classmethod
    def of(cls, monitor: TrainingMonitor) -> _Output | None:
        """Display a monitor, or return None without a notebook."""
        ipython = sys.modules.get("IPython")
        shell = None if ipython is None else ipython.get_ipython()
        if ipython is None or shell is None or not hasattr(shell, "kernel"):
            return None
        return cls(shell, ipython.display.display(monitor, display_id=True))

    def update(self, monitor: TrainingMonitor) -> bool:
        """Replace what the output shows, while its cell runs: what a cell shows must not depend on later ones.

        Returns:
            Whether it did, for which the monitor is refreshed.
        """
        if self._shell.execution_count != self._cell:
            return False
        self._handle.update(monitor)
        return True


def _terminal() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


def _total(total: Any) -> int | None:
    if total is None:
        return None
    if isinstance(total, bool) or not hasattr(total, "__index__"):
        raise TypeError(
            f"total, the number of frames to come, must be an integer, got {type(total).__name__}. "
            "Fix: TrainingMonitor(total=50_000)."
        )
    if total < 1:
        raise ValueError(f"total, the number of frames to come, must be positive, got {total}. Fix: leave it out.")
    return int(total)


def _unit(unit: Any) -> str | None:
    if unit is not None and (not isinstance(unit, str) or not unit):
        raise TypeError(f'unit, what is counted, must be a word such as "frames", got {unit!r}.')
    return unit
