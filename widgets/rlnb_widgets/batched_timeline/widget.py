"""The live timeline: a widget that measures batched envs, or shows their traces."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import traitlets

from rlnb_widgets._core.display_svg import Part, stacked
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.packing import AS_JSON, deflated
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.text import path_text, shorten
from rlnb_widgets._core.timeline import TimeTraits
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.batched_timeline.collector_model import (
    CollectorRun,
    CollectorsModel,
    collector_run,
    collectors_model,
)
from rlnb_widgets.batched_timeline.collector_scene import CollectorScene
from rlnb_widgets.batched_timeline.collector_text import (
    collectors_explanation,
    collectors_headline,
    collectors_insight,
    collectors_text,
)
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
_STEPS, _BATCHES = 40, 10


class _Words(NamedTuple):
    """The texts of a timeline: functions of its model."""

    headline: Callable[[Any], str]
    text: Callable[[Any], str]
    explanation: Callable[[Any], str]
    insight: Callable[[Any], str]


_OF_ENVS = _Words(timeline_headline, timeline_text, timeline_explanation, timeline_insight)
_OF_COLLECTORS = _Words(collectors_headline, collectors_text, collectors_explanation, collectors_insight)


class BatchedEnvTimeline(TimeTraits, Visualizer):
    """Shows what each env of a batch, or each worker of a collector, did and when, as measured on this machine.

    Of a batch of envs there is a lane for the main process and one for each env: running its step, running its reset,
    writing its row, waiting. At the playhead are the step in detail, the rows of the batch with their writers and
    times, and the rows that a ``"_reset"`` mask reset.

    Of a collector there is a lane for the learner, which waits for a batch, takes it and learns, and one for each
    worker, which collects and waits. A strip has the age of each batch: how many versions older the weights that made
    it are than the learner's when it gets the batch. At the playhead are the batch in detail, from its first step until
    the learner has learned from it, and the versions of the batches around it.

    Several of them are shown one below the other on one time scale. The lane of a failed worker is marked, and its
    traceback is shown below.

    Keys: space plays, the arrows move by one step or batch, Page Up and Page Down by ten, Home and End to the ends,
    ``n`` and ``p`` to the next and previous step with a reset, ``+``, ``-`` and ``0`` zoom the step.

    Times differ from run to run, and so do the pictures; the text contains none.

    Args:
        batch: A :class:`~rlnb.envs.SerialEnv` or :class:`~rlnb.envs.ParallelEnv` to measure: it is reset, and stepped
            ``steps`` times after a few steps to warm up. Or a :class:`~rlnb.collectors.Collector` or
            :class:`~rlnb.collectors.MultiCollector`, which collects ``steps`` batches after a few to warm up. Or the
            trace of ``with env.tracing() as trace:`` or ``with collector.tracing() as trace:``.
        steps: Number of steps, or of batches of a collector, to measure. None: 40 steps, or 10 batches.
        policy: Policy of the measured steps, as for ``env.rollout``. None: random actions. A collector has its own.
        learner: Called with each batch of a collector, as the learner; the weights of the policy are updated after it.
            None: it does nothing.
        error: The error of a failed worker, from ``except WorkerError as error``, to show with the trace or alone.
        t: First position of the playhead. None: the last step before a failure, else the first one before a reset. Of
            collectors: the last batch before a failure, else one in the middle.
        **batches: More batches, or collectors, to compare, by name: ``serial=..., parallel=...``.

    Attributes:
        model: The plain values that are shown, a `TimelineModel` or a `CollectorsModel`.

    Raises:
        TypeError: If an argument is neither a batched env, nor a collector, nor a trace, if there are envs and
            collectors, or if there is nothing to show.
        ValueError: If a trace is empty, or ``steps`` is not positive.

    Example:
        >>> from rlnb.collectors import Collector
        >>> from rlnb.envs import GymEnv, SerialEnv
        >>> env = SerialEnv(2, lambda: GymEnv("CartPole-v1", max_episode_steps=4))
        >>> _ = env.set_seed(0)
        >>> BatchedEnvTimeline(env, steps=10)
        BatchedEnvTimeline: SerialEnv, 2 envs, 10 steps, 3 resets
          reset after step
            env 0  3, 7
            env 1  3, 7
          the times, measured on this machine, are in the picture
        >>> BatchedEnvTimeline(Collector(env, frames_per_batch=20), steps=4)
        BatchedEnvTimeline: Collector, 1 worker, 4 batches, 4 updates of the weights
          the times and ages, measured on this machine, are in the picture
    """

    _measured = True
    _esm = bundle_js(_HERE / "live.js")
    _css = bundle_css(_HERE / "live.css")

    _head = traitlets.Dict().tag(**AS_JSON)
    _turns = traitlets.Bytes().tag(sync=True)
    _label = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        batch: Any = None,
        *,
        steps: int | None = None,
        policy: Any = None,
        learner: Callable[[Any], Any] | None = None,
        error: BaseException | None = None,
        t: int | None = None,
        **batches: Any,
    ) -> None:
        named = ({} if batch is None else {_label_of(batch): batch}) | batches
        _check(named, error, steps)
        self.model: TimelineModel | CollectorsModel
        self._scene: TimelineScene | CollectorScene
        if any(map(_is_of_collector, named.values())):
            _check_for_collectors(policy, learner)
            count = _BATCHES if steps is None else operator.index(steps)
            self.model = collectors_model(_collector_runs(named, error, count, learner))
            self._scene, self._words = CollectorScene(self.model), _OF_COLLECTORS
        else:
            _check_for_envs(learner)
            self.model = timeline_model(_runs(named, error, _STEPS if steps is None else operator.index(steps), policy))
            self._scene, self._words = TimelineScene(self.model), _OF_ENVS
        head, turns = timeline_payload(self._scene, self._words.insight(self.model))
        super().__init__(
            length=self.model.length, t=self.model.opening if t is None else t, fps=4.0,
            _head=head, _turns=deflated(turns),
            _label=f"BatchedEnvTimeline: {self._words.headline(self.model)}",
        )  # fmt: skip

    def _text(self) -> str:
        return self._words.text(self.model)

    def _svg(self) -> Svg:
        scene: Any = self._scene
        title = f"BatchedEnvTimeline: {self._words.headline(self.model)}"
        parts: list[Part] = []
        if scene.runs:
            here = scene.heading(self.t)
            insight = self._words.insight(self.model)
            parts += [scene.summary(), insight, scene.legend(), scene.overview(), here, scene.detail()]
        resets = scene.resets()
        parts += [resets] if resets is not None else []
        parts += [scene.failure(run.label, run.failure) for run in self.model.runs if run.failure]
        return stacked(title, self._words.explanation(self.model), parts, scene.params(self.t))

    def _explain(self) -> str:
        return self._words.explanation(self.model)


def _is_batch(value: Any) -> bool:
    from rlnb.envs.batched.batched_env import BatchedEnvBase

    return isinstance(value, BatchedEnvBase)


def _is_trace(value: Any) -> bool:
    from rlnb.envs.batched.trace import BatchTrace

    return isinstance(value, BatchTrace)


def _is_collector(value: Any) -> bool:
    from rlnb.collectors.collector import Collector
    from rlnb.collectors.multi import MultiCollector

    return isinstance(value, (Collector, MultiCollector))


def _is_of_collector(value: Any) -> bool:
    from rlnb.collectors.trace import CollectorTrace

    return isinstance(value, CollectorTrace) or _is_collector(value)


def _label_of(value: Any) -> str:
    is_trace = _is_trace(value) or (_is_of_collector(value) and not _is_collector(value))
    return str(value.name) if is_trace else type(value).__name__


def _check(named: dict[str, Any], error: BaseException | None, steps: int | None) -> None:
    for label, value in named.items():
        if not _is_batch(value) and not _is_trace(value) and not _is_of_collector(value):
            raise TypeError(
                "BatchedEnvTimeline shows a SerialEnv or ParallelEnv, a collector, or what `with env.tracing() as "
                f"trace:` gave, and {label} is of type {type(value).__name__}. Its other arguments are steps, policy, "
                "learner, error and t. Fix: BatchedEnvTimeline(SerialEnv(4, lambda: GymEnv('CartPole-v1')))."
            )
    collectors = [label for label, value in named.items() if _is_of_collector(value)]
    if 0 < len(collectors) < len(named):
        envs = [label for label in named if label not in collectors]
        raise TypeError(
            f"BatchedEnvTimeline compares batches of envs, or collectors, got both: envs {envs} and collectors "
            f"{collectors}. Fix: one timeline for each."
        )
    if not named and error is None:
        raise TypeError("BatchedEnvTimeline has nothing to show. Fix: BatchedEnvTimeline(env), or error=error.")
    if error is not None and not isinstance(error, BaseException):
        raise TypeError(f"error must be the error of `except WorkerError as error`, got a {type(error).__name__}.")
    if steps is not None and (isinstance(steps, bool) or not hasattr(steps, "__index__") or steps < 1):
        raise ValueError(f"steps, the number of steps to measure, must be a positive integer, got {steps!r}.")


def _check_for_envs(learner: Any) -> None:
    if learner is not None:
        raise TypeError(
            "learner is called with the batches of a collector, and a batch of envs has none. "
            "Fix: BatchedEnvTimeline(collector, learner=learner)."
        )


def _check_for_collectors(policy: Any, learner: Any) -> None:
    if policy is not None:
        raise TypeError(
            "policy chooses the actions of a batch of envs, and a collector has its own. "
            "Fix: Collector(env, policy, frames_per_batch=100)."
        )
    if learner is not None and not callable(learner):
        raise TypeError(
            f"learner must be a function of a batch, got a {type(learner).__name__}. Fix: learner=lambda batch: None."
        )


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


def _collector_runs(
    named: dict[str, Any], error: BaseException | None, batches: int, learner: Callable[[Any], Any] | None
) -> list[CollectorRun]:
    runs = []
    for label, value in named.items():
        failed = error if error is not None and label == list(named)[-1] else None
        name = shorten(label, 40)
        if _is_collector(value):
            runs.append(measured_collector(name, value, batches, learner, failed))
        else:
            done = sum(call.got > 0 for call in value.calls)
            runs.append(collector_run(name, value, failure=None if failed is None else failure_of(failed, done)))
    return runs


def measured_collector(
    label: str, collector: Any, batches: int, learner: Callable[[Any], Any] | None, error: BaseException | None = None
) -> CollectorRun:
    """Collect batches and record what the workers and the learner do when.

    Starting the workers and a few batches to warm up are not recorded. Workers that were not running are ended again.
    If a worker fails, the trace up to then is kept; ``error`` is shown if no other one occurs.
    """
    from rlnb.envs.batched.worker_pool import WorkerError

    workers = getattr(collector, "num_workers", 1)
    was_shut_down = not collector.stats().get("workers_alive", 1)
    failure = None if error is None else failure_of(error)
    try:
        with collector.tracing() as trace:
            try:
                _learn(collector, workers + 1, None)
                # Batches that the workers collect meanwhile are part of what is measured.
                with collector.tracing() as trace:
                    _learn(collector, batches, learner)
            except (WorkerError, TimeoutError) as found:
                failure = failure_of(found, sum(call.got > 0 for call in trace.calls))
    finally:
        if was_shut_down:
            collector.shutdown()
    return collector_run(label, trace, failure=failure)


def _learn(collector: Any, batches: int, learner: Callable[[Any], Any] | None) -> None:
    for _ in range(batches):
        batch = collector.next()
        if learner is not None:
            learner(batch)
        if collector.policy is None or hasattr(collector.policy, "state_dict"):
            collector.update_policy_weights_()
        else:
            collector.increment_version()


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
