"""Rollouts: the loop that turns an env and a policy into episode data (TED)."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDict, TensorDictBase, lazy_stack

from rlnb.data.ted.keys import DONE, TRUNCATED, as_key, as_tuple
from rlnb.data.ted.leaves import is_branch, leaf_keys
from rlnb.envs import faults
from rlnb.envs.policies import make_policy
from rlnb.envs.rows import collect_rows, fills_rows

if TYPE_CHECKING:
    from rlnb.envs.base import EnvBase


def rollout(
    env: EnvBase,
    max_steps: int,
    policy: Any,
    callback: Callable[..., Any] | None,
    *,
    auto_reset: bool,
    auto_cast_to_device: bool,
    break_when_any_done: bool | None,
    break_when_all_done: bool | None,
    return_contiguous: bool,
    tensordict: TensorDictBase | None,
    set_truncated: bool,
    out: TensorDictBase | None,
    trust_policy: bool,
) -> TensorDictBase:
    """Collect steps; see :meth:`rlnb.envs.EnvBase.rollout`, which documents the arguments."""
    stop = _stop_rule(break_when_any_done, break_when_all_done)
    _check_arguments(env, max_steps, auto_reset, tensordict, set_truncated)
    act = make_policy(env, policy, trust_policy, auto_cast_to_device)
    report = _make_callback(env, callback)
    start = None if tensordict is None else tensordict.exclude("next")
    data = env.reset(start) if auto_reset or start is None else env.maybe_reset(start)
    result: TensorDictBase
    if return_contiguous and tensordict is None and fills_rows(env, act):
        result = collect_rows(env, act, data, max_steps, report, keep_going=stop != "any")
    else:
        steps = _collect(env, act, data, max_steps, report, stop)
        names: list[Any] = [None] * env.batch_dims + ["time"]
        if return_contiguous:
            result = stack_steps(steps, env.batch_dims, names)
        else:
            result = lazy_stack(steps, env.batch_dims)
            result.names = names
    if set_truncated:
        for key in env.done_keys:
            if as_tuple(key)[-1] in (DONE, TRUNCATED):
                result.get(as_key(("next", *as_tuple(key))))[(slice(None),) * env.batch_dims + (-1,)] = True
    return result if out is None else out.update_(result)


def _collect(
    env: EnvBase,
    act: Callable[[TensorDictBase], TensorDictBase],
    data: TensorDictBase,
    max_steps: int,
    report: Callable[[TensorDictBase], Any] | None,
    stop: str,
) -> list[TensorDictBase]:
    """Step any env: a TensorDict a step."""
    steps: list[TensorDictBase] = []
    ended: torch.Tensor | None = None
    done_key = next(key for key in env.done_keys if as_tuple(key)[-1] == DONE)
    before = set(leaf_keys(data))
    while True:
        data = act(data)
        if not steps:
            missing = [key for key in env.action_keys if data.get(key, None) is None]
            if missing:
                raise faults.policy_wrote_no_action(act, missing, before, data)
        data = env.step(data)
        steps.append(data)
        if report is not None:
            report(data)
        if len(steps) == max_steps:
            return steps
        done = data.get(as_key(("next", *as_tuple(done_key))))
        if stop == "any":
            if bool(done.any()):
                return steps
            data = env._step_mdp(data)
            continue
        if stop == "all":
            ended = done if ended is None else ended | done
            if bool(ended.all()):
                return steps
        data = env.maybe_reset(env._step_mdp(data))


def stack_steps(steps: list[TensorDictBase], dim: int, names: list[Any] | None = None) -> TensorDict:
    """Stack steps along a new dimension, leaf by leaf.

    Stacking a leaf at a time is many times faster than stacking TensorDicts, and keeps gradients.

    Args:
        steps: TensorDicts of one batch size.
        dim: where the new dimension goes.
        names: of the dimensions of the result.

    Returns:
        A TensorDict with the entries that all the steps have.

    Raises:
        RuntimeError: if an entry changes its shape from step to step.
    """
    entries: dict[str, Any] = {}
    for name, first in steps[0].items():
        values = [step.get(name, None) for step in steps]
        if any(value is None for value in values):
            continue
        if is_branch(first):
            entries[name] = stack_steps(values, dim)
        elif isinstance(first, torch.Tensor):
            entries[name] = _stack_leaf(name, values, dim)
        else:
            entries[name] = lazy_stack(values, dim)
    batch = list(steps[0].batch_size)
    batch.insert(dim, len(steps))
    return TensorDict(entries, batch, device=steps[0].device, names=names)


def _stack_leaf(name: str, values: list[torch.Tensor], dim: int) -> torch.Tensor:
    try:
        return torch.stack(values, dim)
    except RuntimeError as error:
        odd = next((t for t, value in enumerate(values) if value.shape != values[0].shape), None)
        if odd is None:
            raise
        raise RuntimeError(
            f"The entry {name!r} has shape {tuple(values[0].shape)} at step 0 and {tuple(values[odd].shape)} at step "
            f"{odd}, so the steps do not fit into one tensor. Fix: rollout(..., return_contiguous=False)."
        ) from error


def _stop_rule(any_done: bool | None, all_done: bool | None) -> str:
    if any_done and all_done:
        raise ValueError(
            "break_when_any_done=True and break_when_all_done=True contradict each other: "
            "stop at the first env that is done, or when the last one is? Give one of them."
        )
    if all_done:
        return "all"
    return "never" if any_done is False else "any"


def _check_arguments(
    env: EnvBase, max_steps: int, auto_reset: bool, tensordict: TensorDictBase | None, set_truncated: bool
) -> None:
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ValueError(f"max_steps must be a positive integer and is {max_steps!r}.")
    if not auto_reset and tensordict is None:
        raise ValueError(
            "auto_reset=False goes on from a TensorDict, and none was given. "
            "Fix: env.rollout(n, auto_reset=False, tensordict=td), where td is env.reset() or "
            "step_mdp(previous[..., -1])."
        )
    if set_truncated and not any(as_tuple(key)[-1] == TRUNCATED for key in env.done_keys):
        raise RuntimeError(
            f"set_truncated=True marks the last step as truncated, and {type(env).__name__} has no 'truncated' "
            "signal. Fix: env.add_truncated_keys()."
        )


def _make_callback(env: EnvBase, callback: Callable[..., Any] | None) -> Callable[[TensorDictBase], Any] | None:
    """Accept callbacks of the step alone and of the env and the step."""
    if callback is None:
        return None
    try:
        kinds = [p.kind for p in inspect.signature(callback).parameters.values() if p.default is p.empty]
    except (TypeError, ValueError):  # some builtins have no signature
        kinds = []
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if sum(kind in positional for kind in kinds) < 2:
        return callback
    return lambda step: callback(env, step)
