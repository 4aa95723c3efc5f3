"""Validation of an environment's inputs and outputs: batch sizes, actions, shapes and dtypes, missing entries."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import entry, raw_entries, shallow_copy
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.categorical import OneHot
from rlnb.data.specs.violations import violations
from rlnb.data.ted.keys import DONE, NestedKey, as_tuple, split_keys
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs import errors
from rlnb.envs.partial_reset import FittedMask, Masks

if TYPE_CHECKING:
    from rlnb.envs.base import EnvBase

Array = TypeVar("Array", torch.Tensor, np.ndarray)

# Inputs -----------------------------------------------------------------------------------------------------------


def check_open(env: EnvBase, what: str) -> None:
    """Raise RuntimeError if the env is closed. A reset opens it again, if the backend can start again."""
    if env.is_closed:
        if what != "reset":
            raise RuntimeError(
                f"{what} was called on a closed {type(env).__name__}. Fix: td = env.reset(), which starts it again."
            )
        env.is_closed = False


def check_unlocked(tensordict: TensorDictBase, what: str) -> None:
    """Raise RuntimeError if a TensorDict, the input of the method ``what``, is locked."""
    if tensordict.is_locked:
        given = 'td.exclude("next")' if what == "step" else "td.clone()"  # a "next" in shared memory would prevail
        raise RuntimeError(
            f"{what} writes to the TensorDict that it is given, and this one is locked. Fix: env.{what}({given})."
        )


def check_not_over(env: EnvBase, tensordict: TensorDictBase) -> None:
    """Raise RuntimeError if all envs are done. In a batch, some may go on while others wait for their reset."""
    done = entry(tensordict, DONE)
    if done is None or env.allow_done_after_reset or env._clear_signal.is_known(done):
        return
    if bool(done.all()):
        whose = "all of whose episodes are" if env.batch_size else "whose episode is"
        raise RuntimeError(
            f"step was called on a {type(env).__name__} {whose} over: 'done' is True, so there is no next state. Fix: "
            "td = env.maybe_reset(td) before the step, or env.step_and_maybe_reset(td), which resets by itself."
        )


def check_batch_size(env: EnvBase, tensordict: TensorDictBase, what: str) -> None:
    """Check that the input of the method ``what`` is a TensorDict of the env's batch size.

    A stateless env takes any leading dimensions in front of its batch size.
    """
    if type(tensordict) is not TensorDict and not isinstance(tensordict, TensorDictBase):
        raise TypeError(errors.no_tensordict(what, tensordict))
    got, want = tensordict.batch_size, env._batch_size
    if got == want or (not env.batch_locked and got[len(got) - len(want) :] == want):
        return
    text = f"{what} got a TensorDict of batch size {tuple(got)}; the batch size of {type(env).__name__} is "
    text += f"{tuple(want)}. "
    wrong = [i for i, (a, b) in enumerate(zip(got, want, strict=False)) if a != b]
    if len(got) == len(want) + 1 and got[:-1] == want:
        text += "It has one dimension too many at the end: is it a rollout? One step of it is td[..., t]."
    elif len(got) == len(want) and wrong:
        text += f"Dimension {wrong[0]} is {got[wrong[0]]} and must be {want[wrong[0]]}."
    else:
        text += "Start from what env.reset() returns."
    raise RuntimeError(text)


def check_actions(env: EnvBase, tensordict: TensorDictBase) -> TensorDictBase:
    """Check the actions in the input of a step. Return it, or a copy whose actions were fitted to their specs."""
    if "actions" not in env._cache:
        env._cache["actions"] = [(key, spec, spec.shape, spec.dtype) for key, spec in action_leaves(env)]
    given = tensordict
    for key, spec, shape, dtype in env._cache["actions"]:
        if -1 in shape:  # agents with actions of different shapes: no single tensor holds them
            if not has_entry(tensordict, as_tuple(key)):
                raise KeyError(errors.no_action(key, tensordict))
            continue
        action = entry(tensordict, key)
        if action is None:
            raise KeyError(errors.no_action(key, tensordict))
        if not env.batch_locked:
            shape = torch.Size((*tensordict.batch_size, *shape[env.ndim :]))
        if type(action) is not torch.Tensor or action.dtype is not dtype or action.shape != shape:
            fitted = fit_action(key, spec, action, shape)
            if fitted is not action:
                given = (shallow_copy(tensordict) if given is tensordict else given).set(key, fitted)
    return given


def action_leaves(env: EnvBase) -> list[tuple[NestedKey, TensorSpec]]:
    """List the keys and specs of an env's actions, those at the root first."""
    if "action_leaves" not in env._cache:
        spec = env.full_action_spec
        env._cache["action_leaves"] = [(key, spec[key]) for key in env.action_keys]
    return env._cache["action_leaves"]


def fit_action(key: NestedKey, spec: TensorSpec, action: Any, shape: torch.Size) -> torch.Tensor:
    """Reshape or cast an action to its spec where that loses nothing, or raise ValueError (shape) or TypeError (dtype).

    Dimensions of size 1 may be missing. A dtype that cannot be cast implicitly is cast if all values are whole numbers,
    such as those of a one-hot vector in float32.
    """
    if not isinstance(action, torch.Tensor):
        kind = type(getattr(action, "data", action)).__name__
        raise TypeError(
            f"The action {key!r} must be a tensor of dtype {spec.dtype} and is a {kind}. "
            f"Fix: env.action_spec.encode(action)."
        )
    if action.shape != shape:
        if action.ndim >= len(shape) or fit_shape(action, shape) is action:
            raise ValueError(
                f"The action {key!r} must have shape {tuple(shape)} and has {tuple(action.shape)}. "
                f"{_shape_fix(spec, action, shape)}"
            )
        action = action.reshape(shape)
    if action.dtype != spec.dtype and spec.dtype is not None and not torch.can_cast(action.dtype, spec.dtype):
        cast = action.to(spec.dtype)
        if not torch.equal(cast.to(action.dtype), action):
            fix = "action.long()." if spec.domain == "discrete" else f"action.to({spec.dtype})."
            if isinstance(spec, OneHot):
                fix = "if these are scores, env.action_spec.encode(scores.argmax(-1)) is the best action."
            raise TypeError(
                f"The action {key!r} must have dtype {spec.dtype} and has {action.dtype}, which would cut the numbers "
                f"off. Fix: {fix}"
            )
        return cast
    return action


def _shape_fix(spec: TensorSpec, action: torch.Tensor, shape: torch.Size) -> str:
    """Suggest what to do about an action of the wrong shape."""
    integer = not action.dtype.is_floating_point
    if isinstance(spec, OneHot) and integer and action.shape in (shape[:-1], (*shape[:-1], 1)):
        return (
            f"An index was given where a one-hot vector of {spec.space.n} is expected. "
            "Fix: env.action_spec.encode(index), or make the env with categorical_action_encoding=True."
        )
    n = getattr(spec.space, "n", None)
    if not isinstance(spec, OneHot) and isinstance(n, int) and action.shape == (*shape, n):
        return (
            f"A one-hot vector was given where an index (0 to {n - 1}) is expected. "
            "Fix: action.argmax(-1), or make the env without categorical_action_encoding=True."
        )
    if action.shape == (*shape, 1):
        return "It has one dimension too many at the end. Fix: action.squeeze(-1)."
    if action.shape[1:] == shape:
        return "It has one dimension too many: is it a whole batch? Fix: action[0]."
    if shape[1:] == action.shape:
        return f"The dimension of size {shape[0]} is missing. Fix: action.unsqueeze(0)."
    return "See env.action_spec."


# Outputs ----------------------------------------------------------------------------------------------------------


def check_is_new(env: EnvBase, result: Any, given: TensorDictBase | None, method: str) -> None:
    """Check that ``_reset`` or ``_step`` (``method``) returned a new TensorDict of the env's batch size."""
    name = f"{type(env).__name__}.{method}"
    if type(result) is not TensorDict and not isinstance(result, TensorDictBase):
        raise TypeError(f"{name} must return a TensorDict and returned a {type(result).__name__}.")
    if result is given:
        raise TypeError(
            f"{name} returned the TensorDict that it was given. It must return a new one, with the data at its root; "
            'the env puts it where it belongs (under "next" for a step). '
            "Fix: return TensorDict({...}, self.batch_size)."
        )
    if result.batch_size != env._batch_size and env.batch_locked:
        raise RuntimeError(
            f"{name} returned a TensorDict of batch size {tuple(result.batch_size)}, and it must be "
            f"{tuple(env._batch_size)}. Fix: TensorDict({{...}}, batch_size={list(env._batch_size)})."
        )


def is_complete(env: EnvBase, data: TensorDictBase, call: str) -> bool:
    """Whether the output of a "reset" or "step" (``call``) has all entries, and an earlier one was checked."""
    if call in env._unchecked or env._run_type_checks or env._misfit:
        return False
    return has_all_entries(env, data, call)


def has_all_entries(env: EnvBase, data: TensorDictBase, call: str) -> bool:
    """Whether the output of a "reset" or "step" (``call``) has all entries that the specs name."""
    if call not in env._cache:
        rewards = env.reward_keys if call == "step" else ()
        names, below = split_keys((*env.observation_keys, *rewards, *env.done_keys))
        env._cache[call] = frozenset(names), {name: tuple(paths) for name, paths in below.items()}
    names, below = env._cache[call]
    if type(data) is not TensorDict:
        # The rows of a lazy stack may differ in shape, so only the names can be read.
        found = set(leaf_keys(data))
        return found >= names and all((name, *p) in found for name, ps in below.items() for p in ps)
    if not names.issubset(raw_entries(data)):
        return False
    return not below or all(has_entry(data, (name, *p)) for name, ps in below.items() for p in ps)


def has_entry(data: Any, path: tuple[str, ...]) -> bool:
    """Whether data has an entry, even one that no tensor holds because the rows of a lazy stack differ in shape."""
    for name in path[:-1]:
        data = entry(data, name)
        if not isinstance(data, TensorDictBase):
            return False
    return path[-1] in raw_entries(data) if type(data) is TensorDict else path[-1] in set(data.keys())


def fit_data(env: EnvBase, data: TensorDictBase, call: str) -> None:
    """Convert rewards and end signals that differ from their specs only in dimensions of size 1 or in dtype, in place.

    The first conversion warns. Observations are never converted.
    """
    if type(data) is not TensorDict:
        return
    ends = list(env.full_done_spec.items(True, True))
    rewards = list(env.full_reward_spec.items(True, True)) if call == "step" else []
    for i, (key, spec) in enumerate([*ends, *rewards]):
        value = data.get(key, None) if has_entry(data, as_tuple(key)) else None
        if type(value) is not torch.Tensor:
            continue
        shape = spec.shape if env.batch_locked else torch.Size((*data.batch_size, *spec.shape[env.ndim :]))
        fitted = fit_shape(value, shape)
        # check_env_specs reports dtypes; with checks switched off, they stay as they are.
        if env._checks_data and env._run_type_checks is not False:
            fitted = _cast(fitted, spec.dtype, is_end=i < len(ends))
        if fitted is value:
            continue
        data.set(key, fitted)
        env._misfit = True
        if value.shape != fitted.shape:
            got, want = f"shape {tuple(value.shape)}", f"shape {tuple(fitted.shape)}"
            fix = f"value.reshape({tuple(fitted.shape)})"
        else:
            got, want, fix = f"dtype {value.dtype}", f"dtype {fitted.dtype}", f"value.to({fitted.dtype})"
        warn_once(
            env,
            f"{call} {key!r}",
            f"{type(env).__name__}._{call} returned {key!r} with {got}, and its spec has {want}: it is converted, "
            f"at every step. Fix: return {fix}.",
        )


def _cast(value: torch.Tensor, dtype: torch.dtype | None, is_end: bool) -> torch.Tensor:
    """Cast a reward or end signal where the meaning is clear; elsewhere leave it to :func:`check_data` to complain."""
    if dtype is None or value.dtype is dtype:
        return value
    if is_end:
        return value != 0 if dtype is torch.bool else value
    floats = value.dtype.is_floating_point and dtype.is_floating_point
    return value.to(dtype) if floats or torch.can_cast(value.dtype, dtype) else value


def warn_once(env: EnvBase, about: str, text: str) -> None:
    """Warn, unless this env has warned about the same thing before."""
    if about not in env._warned_about:
        env._warned_about.add(about)
        warnings.warn(text, UserWarning, stacklevel=4)


def check_specs(env: EnvBase, call: str) -> None:
    """Check the specs themselves before the first data is compared with them."""
    if call in env._unchecked and env._run_type_checks is not False:
        env.assert_distinct_keys()


def check_data(env: EnvBase, data: TensorDictBase, call: str) -> None:
    """Compare the output of a "reset" or "step" with the specs: the first one, and any that lacks an entry.

    The RuntimeError lists all keys, types, shapes and dtypes that are wrong.
    """
    if not env._checks_data:
        return
    if env._run_type_checks is False:
        env._unchecked.discard(call)
        return
    first = call in env._unchecked
    if not first and not env._run_type_checks and (call == "reset" or has_all_entries(env, data, call)):
        return
    kinds = {"missing", "type", "shape", "dtype"}
    specs = [env.observation_spec, env.full_done_spec]
    if call == "step":
        specs.append(env.full_reward_spec)
    else:
        kinds.remove("missing")  # a reset may leave entries out
    found = [violation for spec in specs for violation in violations(spec, data) if violation.kind in kinds]
    if found:
        rows = "\n".join(f"  - {violation}" for violation in found)
        raise RuntimeError(
            f"The data of {type(env).__name__}'s {'first ' * first}{call} does not fit its specs:\n{rows}\n"
            "rlnb.envs.utils.check_env_specs(env) reports all problems and proposes specs that fit; "
            "run_type_checks=False disables this check."
        )
    env._unchecked.discard(call)


def check_not_done(env: EnvBase, data: TensorDictBase, masks: Masks) -> None:
    """Raise RuntimeError if an env that was reset, or any if there are no masks, is done right after its reset."""
    for key in env.done_keys:
        path = as_tuple(key)
        done = data.get(key, None)
        if path[-1] != DONE or done is None:
            continue
        if masks:
            mask = masks.get(path[:-1], masks.get(()))
            if mask is None:  # only other levels were reset
                continue
            done = done & FittedMask(mask, env.batch_dims).spread(done)
        if bool(done.any()):
            raise RuntimeError(
                f"{type(env).__name__} is done right after its reset ({key!r} is True), so it could never take a step. "
                "If that is meant, make the env with allow_done_after_reset=True."
            )


def fit_shape(value: Array, shape: tuple[int, ...]) -> Array:
    """Reshape a tensor or array whose shape differs only in dimensions of size 1; return any other as it is.

    Example:
        >>> fit_shape(torch.zeros(4), torch.Size([4, 1])).shape
        torch.Size([4, 1])
        >>> fit_shape(torch.zeros(3), torch.Size([4, 1])).shape
        torch.Size([3])
    """
    if value.shape == shape or [n for n in value.shape if n != 1] != [n for n in shape if n != 1]:
        return value
    return value.reshape(shape)
