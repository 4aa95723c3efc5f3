"""Rollouts: the loop that steps an env with a policy and collects episode data (TED)."""

from __future__ import annotations

import inspect
import itertools
import operator
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase, lazy_stack

from rlnb._tensordict import shallow_copy
from rlnb.data.specs.normalize import as_device
from rlnb.data.ted.keys import DONE, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import errors
from rlnb.envs.policies import make_policy
from rlnb.envs.rows import collect_rows, fills_rows
from rlnb.envs.stacking import stack_steps

if TYPE_CHECKING:
    from rlnb.envs.base import EnvBase


def rollout(
    env: EnvBase,
    max_steps: int,
    policy: Callable[..., Any] | None = None,
    callback: Callable[..., Any] | None = None,
    *,
    actions: Iterable[Any] | None = None,
    auto_reset: bool = True,
    auto_cast_to_device: bool = False,
    break_when_any_done: bool | None = None,
    break_when_all_done: bool | None = None,
    return_contiguous: bool | None = True,
    tensordict: TensorDictBase | None = None,
    set_truncated: bool = False,
    out: TensorDictBase | None = None,
    trust_policy: bool = False,
    storing_device: torch.device | str | int | None = None,
    set_state: bool | None = None,
) -> TensorDictBase:
    """Collect up to ``max_steps`` steps. This is the method ``EnvBase.rollout``.

    Args:
        env: the env.
        max_steps: the maximum number of steps.
        policy: chooses the action. ``None``: random actions. A TensorDictModule, or a function whose first
            argument is called ``td``, ``tensordict``, ``td_in``, ``tensordict_in`` or ``data`` or is annotated as
            a TensorDict: takes and returns the TensorDict. Any other callable: takes the observations in the order
            of ``observation_spec`` and returns the action.
        callback: called after each step with the step's TensorDict, or with the env and that TensorDict.
        actions: the actions to take in place of a policy's, one per step: a tensor of shape ``[time, *batch_size,
            ...]``, or tensors, numbers or (for several actions) TensorDicts. The rollout ends with them.
        auto_reset: start with a reset. ``False`` goes on from ``tensordict``.
        auto_cast_to_device: move the policy's input to the policy's device, and its output back.
        break_when_any_done: stop as soon as an env is done (the default). ``False`` resets envs that are done and
            goes on.
        break_when_all_done: go on, with resets, until each env has been done once.
        return_contiguous: ``False`` returns a LazyStackedTensorDict. ``None`` means ``True``.
        tensordict: where to go on from, or what to pass to the reset.
        set_truncated: mark the last step as truncated.
        out: a TensorDict of the rollout's size to write the result to.
        trust_policy: treat any callable as one that reads and writes a TensorDict.
        storing_device: device that steps are moved to as they are collected. Default: they stay where they are.
        set_state: passed to :meth:`~rlnb.envs.EnvBase.reset`.

    Returns:
        The steps in the TED format, of shape ``[*batch_size, time]``, the last dimension named "time".

    Raises:
        TypeError: If the policy is not callable, for example because it and ``max_steps`` are swapped.
        ValueError: If ``max_steps`` is not positive, ``auto_reset=False`` is given without a TensorDict, both a
            policy and actions are given, or the two break conditions contradict each other.
        KeyError: If the policy writes no action.
        RuntimeError: As for :meth:`~rlnb.envs.EnvBase.reset` and :meth:`~rlnb.envs.EnvBase.step`, or if
            ``set_truncated`` is True and the env has no "truncated" signal.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> env = GymEnv("CartPole-v1")
        >>> env.rollout(100, break_when_any_done=False).batch_size
        torch.Size([100])
    """
    contiguous = return_contiguous is not False
    stop = _stop_rule(break_when_any_done, break_when_all_done)
    max_steps = _check_arguments(env, max_steps, policy, auto_reset, tensordict, set_truncated)
    if actions is None:
        act = make_policy(env, policy, trust_policy, auto_cast_to_device)
    else:
        act, max_steps = _given_actions(env, actions, policy, max_steps)
    report = _make_callback(env, callback)
    start = None if tensordict is None else tensordict.exclude("next")
    options: dict[str, Any] = {} if set_state is None else {"set_state": set_state}
    data = env.reset(start, **options) if auto_reset or start is None else env.maybe_reset(start)
    by_rows = contiguous and tensordict is None and report is None and storing_device is None
    store = None if storing_device is None else as_device(storing_device)
    result = collect(env, act, data, max_steps, stop, report, contiguous, set_truncated, by_rows, store)
    return result if out is None else _write_out(out, result)


def collect(
    env: EnvBase,
    act: Callable[[TensorDictBase], TensorDictBase],
    data: TensorDictBase,
    max_steps: int,
    stop: str = "never",
    report: Callable[[TensorDictBase], Any] | None = None,
    contiguous: bool = True,
    set_truncated: bool = False,
    by_rows: bool = True,
    store: torch.device | None = None,
) -> TensorDictBase:
    """Collect steps of batch size ``[*batch, time]``, starting from the present state of the env.

    Args:
        env: the env.
        act: the policy, as :func:`~rlnb.envs.policies.make_policy` makes it.
        data: the root of the first step: the output of a reset, or of ``step_mdp``.
        max_steps: the maximum number of steps.
        stop: "never"; "any": as soon as any env is done; "all": when all envs have been done, resetting those that are
            done earlier.
        report: called after each step.
        contiguous: see ``return_contiguous`` of :func:`rollout`.
        set_truncated: see :func:`rollout`.
        by_rows: fill rows if the env and the policy allow it; see :mod:`rlnb.envs.rows`.
        store: device that each step is moved to.
    """
    env._assert_open("step")
    # For a single env "any" and "all" are the same.
    by_rows = by_rows and (stop != "all" or not env.batch_size) and data.get("_step", None) is None
    if by_rows and fills_rows(env, act):
        result: TensorDictBase = collect_rows(env, act, data, max_steps, keep_going=stop == "never")
        if set_truncated:
            truncate_last(env, result[..., -1].get("next"))
        return result
    dim = data.batch_dims  # a stateless env takes any batch size
    steps = _collect(env, act, data, max_steps, report, stop, store)
    if set_truncated:
        truncate_last(env, steps[-1].get("next"))
    names: list[Any] = [None] * dim + ["time"]
    if contiguous:
        return stack_steps(steps, dim, names)
    result = lazy_stack(steps, dim)
    result.names = names
    return result


def _collect(
    env: EnvBase,
    act: Callable[[TensorDictBase], TensorDictBase],
    data: TensorDictBase,
    max_steps: int,
    report: Callable[[TensorDictBase], Any] | None,
    stop: str,
    store: torch.device | None,
) -> list[TensorDictBase]:
    """Step any env, with one TensorDict per step."""
    steps: list[TensorDictBase] = []
    ended: list[torch.Tensor] | None = None
    done_keys = [as_key(("next", *as_tuple(key))) for key in _deciding_done_keys(env)]
    before = set(leaf_keys(data))
    while True:
        acted = act(data)
        if acted is None:  # it wrote to what it was given
            acted = data
            if not steps and any(not _has(data, key) for key in env.action_keys):
                raise errors.policy_returned(act, None)
        if not steps:
            _check_policy(env, act, before, acted)
        data = env.step(acted if acted is data else _with_seen(data, acted))
        steps.append(data if store is None else data.to(store))
        if report is not None:
            report(data)
        if len(steps) == max_steps:
            return steps
        if stop == "never":
            data = env.maybe_reset(env._step_mdp(data))
            continue
        done = [data.get(key) for key in done_keys]
        if stop == "any":
            if any(bool(flags.any()) for flags in done):
                return steps
            data = env._step_mdp(data)
            continue
        ended = done if ended is None else [a | b for a, b in zip(ended, done, strict=True)]
        if all(bool(flags.all()) for flags in ended):
            return steps
        data = env.maybe_reset(env._step_mdp(data))


def _given_actions(
    env: EnvBase, actions: Iterable[Any], policy: Any, max_steps: int
) -> tuple[Callable[[TensorDictBase], TensorDictBase], int]:
    """Make a policy that plays given actions, and count them."""
    if policy is not None:
        raise ValueError("rollout takes a policy or actions, and got both. Fix: leave one of them out.")
    rows = list(itertools.islice(actions, max_steps))
    if not rows:
        raise ValueError("rollout(actions=...) got no actions. Fix: give one for each step.")
    left = iter(rows)

    def play(tensordict: TensorDictBase) -> TensorDictBase:
        action = next(left)
        if isinstance(action, (TensorDictBase, dict)):
            return tensordict.update(action)
        spec = env.full_action_spec[env.action_key]
        tensor = action if isinstance(action, torch.Tensor) else torch.as_tensor(action, device=env.device)
        return tensordict.set(env.action_key, spec.encode(tensor) if tensor.shape != spec.shape else tensor)

    return play, len(rows)


def _deciding_done_keys(env: EnvBase) -> list[NestedKey]:
    """The "done" at the root if there is one, else those of all levels."""
    keys = [key for key in env.done_keys if as_tuple(key)[-1] == DONE]
    return [DONE] if DONE in keys else keys


def _check_policy(env: EnvBase, act: Any, before: set[Any], acted: Any) -> None:
    if not isinstance(acted, TensorDictBase):
        raise errors.policy_returned(act, acted)
    missing = [key for key in env.action_keys if not _has(acted, key)]
    if missing:
        raise errors.policy_wrote_no_action(act, missing, before, acted)


def _with_seen(data: TensorDictBase, acted: TensorDictBase) -> TensorDictBase:
    """Add the policy's input to its output, because a policy may return its action in a new TensorDict."""
    return shallow_copy(data).update(acted) if acted.batch_size == data.batch_size else acted


def _has(data: TensorDictBase, key: NestedKey) -> bool:
    try:
        return data.get(key, None) is not None
    except RuntimeError:  # rows of different shapes, which do not stack
        return True


def truncate_last(env: EnvBase, last: TensorDictBase) -> None:
    """Mark the last step, given its "next", as truncated: in place, because the data may be part of a larger block."""
    for key in env.done_keys:
        if as_tuple(key)[-1] in (DONE, TRUNCATED):
            last.get(key).fill_(True)


def _write_out(out: TensorDictBase, result: TensorDictBase) -> TensorDictBase:
    if out.batch_size != result.batch_size:
        raise ValueError(
            f"out has batch size {tuple(out.batch_size)}, and the rollout has {tuple(result.batch_size)}: it is "
            "written to only if they are the same. The rollout may be shorter than max_steps if an env is done; "
            "break_when_any_done=False makes its length certain."
        )
    return out.update(result, inplace=True)


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
    env: EnvBase, max_steps: int, policy: Any, auto_reset: bool, tensordict: TensorDictBase | None, set_truncated: bool
) -> int:
    if callable(max_steps):
        name = errors.policy_name(max_steps)
        raise TypeError(
            f"rollout takes max_steps first and the policy second, and got the policy {name} for max_steps. "
            f"Fix: env.rollout({policy if isinstance(policy, int) else 100}, policy)."
        )
    if isinstance(max_steps, bool) or not hasattr(max_steps, "__index__") or max_steps < 1:
        raise ValueError(f"max_steps must be a positive integer and is {max_steps!r}.")
    if tensordict is not None and not isinstance(tensordict, TensorDictBase):
        raise TypeError(errors.no_tensordict("rollout(tensordict=...)", tensordict))
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
    return operator.index(max_steps)


def _make_callback(env: EnvBase, callback: Callable[..., Any] | None) -> Callable[[TensorDictBase], Any] | None:
    """Accept callbacks that take the step, or the env and the step."""
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
