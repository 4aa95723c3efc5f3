"""The live timeline: a widget that measures batched envs, or shows their traces."""

from __future__ import annotations

import operator
from pathlib import Path
from typing import Any

import traitlets

from rlnb_widgets._core.display_svg import Part, stacked
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.svg import Svg, image_tag
from rlnb_widgets._core.text import path_text, shorten
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.batched_timeline.failure import failure_of
from rlnb_widgets.batched_timeline.model import BatchRun, TimelineModel, batch_run, timeline_model
from rlnb_widgets.batched_timeline.payload import timeline_payload
from rlnb_widgets.batched_timeline.scene import TimelineScene
from rlnb_widgets.batched_timeline.text import (
    timeline_explanation,
    timeline_headline,
    timeline_insight,
    timeline_text,
)

_HERE = Path(__file__).parent
_MOST_KEYS, _WARM_UP = 4, 3


class BatchedEnvTimeline(TimeTraits, Visualizer):
    """Shows what each env of a batch did and when, as measured on this machine.

    There is a lane for the main process and one for each env: running its step, running its reset, writing its row,
    waiting. Several batches are shown one below the other on one time scale. At the playhead are the step in detail,
    the rows of the batch with their writers and times, and the rows that a ``"_reset"`` mask reset. The lane of a
    failed worker is marked, and its traceback is shown below.

    Keys: space plays, the arrows move by one step, Page Up and Page Down by ten, Home and End to the ends, ``n`` and
    ``p`` to the next and previous step with a reset, ``+``, ``-`` and ``0`` zoom the step.

    Times differ from run to run, and so do the pictures; the text contains none.

    Args:
        batch: A :class:`~rlnb.envs.SerialEnv` or :class:`~rlnb.envs.ParallelEnv` to measure: it is reset, and stepped
            ``steps`` times after a few steps to warm up. Or the trace of ``with env.tracing() as trace:``.
        steps: Number of steps to measure.
        policy: Policy of the measured steps, as for ``env.rollout``. None: random actions.
        error: The error of a failed worker, from ``except WorkerError as error``, to show with the trace or alone.
        t: First position of the playhead. None: the last step before a failure, else the first one before a reset.
        **batches: More batches to compare, by name: ``serial=..., parallel=...``.

    Attributes:
        model: The plain values that are shown, a `TimelineModel`.

    Raises:
        TypeError: If an argument is neither a batched env nor a trace, or there is nothing to show.
        ValueError: If a trace is empty, or ``steps`` is not positive.

    Example:
        >>> from rlnb.envs import GymEnv, SerialEnv
        >>> env = SerialEnv(2, lambda: GymEnv("CartPole-v1", max_episode_steps=4))
        >>> _ = env.set_seed(0)
        >>> BatchedEnvTimeline(env, steps=10)
        BatchedEnvTimeline: SerialEnv, 2 envs, 10 steps, 3 resets
          reset after step
            env 0  3, 7
            env 1  3, 7
          the times, measured on this machine, are in the picture
    """

    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(_HERE / "live.css")

    _head = traitlets.Dict().tag(sync=True)
    _turns = traitlets.Bytes().tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        batch: Any = None,
        *,
        steps: int = 40,
        policy: Any = None,
        error: BaseException | None = None,
        t: int | None = None,
        **batches: Any,
    ) -> None:
        named = ({} if batch is None else {_label_of(batch): batch}) | batches
        _check(named, error, steps)
        runs = _runs(named, error, operator.index(steps), policy)
        self.model: TimelineModel = timeline_model(runs)
        self._scene = TimelineScene(self.model)
        head, turns = timeline_payload(self._scene)
        super().__init__(
            length=self.model.length, t=self.model.opening if t is None else t, fps=4.0, _head=head, _turns=turns,
            _label=f"BatchedEnvTimeline: {timeline_headline(self.model)}",
        )  # fmt: skip

    def _text(self) -> str:
        return timeline_text(self.model)

    def _svg(self) -> Svg:
        scene, title = self._scene, f"BatchedEnvTimeline: {timeline_headline(self.model)}"
        parts: list[Part] = []
        if scene.runs:
            here = f"Step {self.t}, from its start:"
            parts += [
                scene.summary(),
                timeline_insight(self.model),
                scene.legend(),
                scene.overview(),
                here,
                scene.detail(),
            ]
        resets = scene.resets()
        parts += [resets] if resets is not None else []
        parts += [scene.failure(run) for run in self.model.runs if run.failure]
        return stacked(title, timeline_explanation(self.model), parts, scene.params(self.t))

    def _explain(self) -> str:
        return timeline_explanation(self.model)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        data, meta = super()._repr_mimebundle_(**kwargs)
        # The picture shows measured times, so it differs each time; the attribute tells tools that compare outputs.
        html = image_tag(str(self._svg()), self._alt()).replace("<img ", '<img data-measured="1" ', 1)
        return {**data, "text/html": html}, meta


def _is_batch(value: Any) -> bool:
    from rlnb.envs.batched.batched_env import BatchedEnvBase

    return isinstance(value, BatchedEnvBase)


def _is_trace(value: Any) -> bool:
    from rlnb.envs.batched.trace import BatchTrace

    return isinstance(value, BatchTrace)


def _label_of(value: Any) -> str:
    return str(value.name) if _is_trace(value) else type(value).__name__


def _check(named: dict[str, Any], error: BaseException | None, steps: int) -> None:
    for label, value in named.items():
        if not _is_batch(value) and not _is_trace(value):
            raise TypeError(
                f"BatchedEnvTimeline shows a SerialEnv or ParallelEnv, or what `with env.tracing() as trace:` gave, "
                f"and {label} is of type {type(value).__name__}. Its other arguments are steps, policy, error and t. "
                "Fix: BatchedEnvTimeline(SerialEnv(4, lambda: GymEnv('CartPole-v1')))."
            )
    if not named and error is None:
        raise TypeError("BatchedEnvTimeline has nothing to show. Fix: BatchedEnvTimeline(env), or error=error.")
    if error is not None and not isinstance(error, BaseException):
        raise TypeError(f"error must be the error of `except WorkerError as error`, got a {type(error).__name__}.")
    if isinstance(steps, bool) or not hasattr(steps, "__index__") or steps < 1:
        raise ValueError(f"steps, the number of steps to measure, must be a positive integer, got {steps!r}.")


def _runs(named: dict[str, Any], error: BaseException | None, steps: int, policy: Any) -> list[BatchRun]:
    if not named:
        from rlnb.envs.batched.trace import BatchTrace

        assert error is not None
        alone = failure_of(error)
        # The error names the number of envs, if it names a worker.
        return [batch_run("batch", BatchTrace("ParallelEnv", alone.of or 1), failure=alone)]
    runs = []
    for label, value in named.items():
        failed = error if error is not None and label == list(named)[-1] else None
        if _is_batch(value):
            runs.append(measured(shorten(label, 40), value, steps, policy, failed))
        else:
            done = sum(turn.what == "step" for turn in value.turns)
            failure = None if failed is None else failure_of(failed, done)
            runs.append(batch_run(shorten(label, 40), value, failure=failure))
    return runs


def measured(label: str, env: Any, steps: int, policy: Any, error: BaseException | None = None) -> BatchRun:
    """Step a batch and record what each env does when.

    Starting the envs and a few warm-up steps are not recorded. An env that was not running is closed again. If a worker
    fails, the trace up to then is kept; ``error`` is shown if no other one occurs.
    """
    from rlnb.envs.batched.worker_pool import WorkerError

    was_closed, entries = env.is_closed, {}
    failure = None if error is None else failure_of(error)
    try:
        with env.tracing() as trace:
            try:
                entries = entries_of(env)
                # Work done once, such as finding a backend's format of actions, must not count as time of a step.
                env.rollout(_WARM_UP, policy, break_when_any_done=False)
                trace.turns.clear()
                env.rollout(steps, policy, break_when_any_done=False)
            except (WorkerError, TimeoutError) as found:
                failure = failure_of(found, sum(turn.what == "step" for turn in trace.turns))
    finally:
        if was_closed:
            env.close()
    return batch_run(label, trace, failure=failure, entries=entries)


def entries_of(env: Any) -> dict[str, tuple[str, ...]]:
    """Return keys of the data by who writes them: the learner (``"action"``), steps (``"next"``) or resets."""

    def names(*keys: Any) -> tuple[str, ...]:
        found = [path_text(key if isinstance(key, tuple) else (key,)) for group in keys for key in group]
        more = len(found) - _MOST_KEYS
        return tuple(found) if more <= 0 else (*found[:_MOST_KEYS], f"{more} more")

    return {
        "action": names(env.action_keys),
        "next": names(env.observation_keys, env.reward_keys, env.done_keys),
        "root": names(env.observation_keys, env.done_keys),
    }
