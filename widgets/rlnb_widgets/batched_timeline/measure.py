"""Measurement of a batched env: some traced steps, and the failure of a worker if one fails."""

from __future__ import annotations

from typing import Any

from rlnb_widgets._core.text import path_text
from rlnb_widgets.batched_timeline.failure import failure_of
from rlnb_widgets.batched_timeline.model import BatchRun, batch_run

_MOST_KEYS, _WARM_UP = 4, 3


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
