"""What environments say when something is wrong: each text names what was expected, what came, and the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase

from rlnb.data import Composite, OneHot, TensorSpec, violations
from rlnb.data.ted.keys import DONE, NestedKey, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.partial_reset import FittedMask, Masks

if TYPE_CHECKING:
    from rlnb.envs.specs import EnvSpecs


def closed(env: Any, what: str) -> str:
    """Say that a closed env was used."""
    return f"{what} was called on a closed {type(env).__name__}. Fix: td = env.reset(), which starts it again."


def not_reset(env: Any) -> str:
    """Say that an env was stepped before its first reset."""
    return (
        f"step was called before reset: {env!r} has no state to step from. "
        "Fix: td = env.reset(), then write an action into td, then env.step(td)."
    )


def locked(what: str) -> str:
    """Say that a TensorDict that is to be written to is locked."""
    return f"{what} writes to the TensorDict that it is given, and this one is locked. Fix: env.{what}(td.clone())."


def over(env: EnvSpecs) -> str:
    """Say that an episode that is over was stepped."""
    whose = "all of whose episodes are" if env.batch_size else "whose episode is"
    return (
        f"step was called on a {type(env).__name__} {whose} over: 'done' is True, so there is no next state. Fix: "
        "td = env.maybe_reset(td) before the step, or env.step_and_maybe_reset(td), which resets by itself."
    )


def batch_size(env: EnvSpecs, got: torch.Size, what: str) -> str:
    """Say that an input has another batch size than the env."""
    want = tuple(env.batch_size)
    text = f"{what} got a TensorDict of batch size {tuple(got)}; the batch size of {type(env).__name__} is {want}. "
    if len(got) == len(want) + 1 and tuple(got[:-1]) == want:
        return text + "It has one dimension too many at the end: is it a rollout? One step of it is td[..., t]."
    wrong = [i for i, (a, b) in enumerate(zip(got, want, strict=False)) if a != b]
    if len(got) == len(want) and wrong:
        return text + f"Dimension {wrong[0]} is {got[wrong[0]]} and must be {want[wrong[0]]}."
    return text + "Start from what env.reset() returns."


def not_new(env: Any, result: Any, method: str) -> str:
    """Say that a subclass's private method did not return a new TensorDict."""
    name = f"{type(env).__name__}.{method}"
    if isinstance(result, TensorDictBase):
        return (
            f"{name} returned the TensorDict that it was given. It must return a new one, with the data at its root; "
            'it comes to its place (under "next" for a step) by itself. Fix: return TensorDict({...}, self.batch_size).'
        )
    return f"{name} must return a TensorDict and returned a {type(result).__name__}."


def no_action(key: NestedKey, tensordict: TensorDictBase) -> str:
    """Say that a step has no action."""
    keys = sorted(map(str, tensordict.keys()))
    return (
        f"step needs the action {key!r}, and the TensorDict has {keys}. "
        f"Fix: td = env.rand_action(td), or td[{key!r}] = ..., before env.step(td)."
    )


def no_tensordict(what: str, given: Any) -> str:
    """Say that something else was given where a TensorDict is expected."""
    article = "an" if type(given).__name__[0] in "aeioAEIO" else "a"
    text = f"{what} takes a TensorDict and got {article} {type(given).__name__}. "
    if isinstance(given, dict):
        return text + "Fix: TensorDict(your_dict, batch_size=[])."
    if what == "step":
        return text + "An action is an entry of it. Fix: td = env.reset(); td['action'] = ...; td = env.step(td)."
    return text + "See env.reset()."


def result_batch_size(env: Any, result: TensorDictBase, want: torch.Size, method: str) -> str:
    """Say that a subclass's private method returned another batch size than it must."""
    return (
        f"{type(env).__name__}.{method} returned a TensorDict of batch size {tuple(result.batch_size)}, and it must be "
        f"{tuple(want)}. Fix: TensorDict({{...}}, batch_size={list(want)})."
    )


def policy_name(policy: Any) -> str:
    """Call a policy what its author does."""
    return type(policy).__name__ if isinstance(policy, torch.nn.Module) else getattr(policy, "__name__", repr(policy))


def policy_returned(policy: Any, result: Any) -> TypeError:
    """Say that a policy over TensorDicts returned something else."""
    if result is None:
        return TypeError(
            f"The policy {policy_name(policy)} returned None and wrote no action. Likely cause: it lacks a return. "
            "Fix: return td, after td['action'] = ...; a function of the observation returns the action."
        )
    return TypeError(
        f"The policy {policy_name(policy)} takes a TensorDict and must return one, and it returned a "
        f"{type(result).__name__}. Fix: return the TensorDict that it wrote the action to."
    )


def policy_wrote_no_action(policy: Any, missing: list[NestedKey], before: set[Any], after: TensorDictBase) -> KeyError:
    """Say that a policy did not write the action."""
    wrote = [key for key in leaf_keys(after) if key not in before]
    said = f"it wrote {wrote}" if wrote else "it wrote nothing new"
    keys = list(missing)
    return KeyError(
        f"The policy {policy_name(policy)} wrote no action: the env reads {keys}, and {said}. "
        f"Fix: let the policy write {keys[0]!r}, for example TensorDictModule(net, ['observation'], [{keys[0]!r}])."
    )


def policy_reads_nothing(policy: Any, missing: list[NestedKey], data: TensorDictBase) -> KeyError:
    """Say that what a policy reads is not in the data."""
    keys = sorted(map(str, leaf_keys(data)))
    return KeyError(
        f"The policy {policy_name(policy)} reads {missing}, and the data it was given has {keys}. "
        "Fix: name the entries of the data in the policy's in_keys."
    )


def check_action(key: NestedKey, spec: TensorSpec, action: Any, shape: torch.Size) -> torch.Tensor:
    """Fit an action to its spec, or refuse it.

    Args:
        key: of the action.
        spec: of the action.
        action: what the policy wrote.
        shape: the shape it must have; a dimension of size 1 may be missing.

    Returns:
        The action. It is cast where its dtype is not the spec's and cannot be cast implicitly, but its values are whole
        numbers, as those of a one-hot vector in float32.

    Raises:
        ValueError: If the shape is wrong.
        TypeError: If it is not a tensor, or a cast would change its values.
    """
    if not isinstance(action, torch.Tensor):
        kind = type(getattr(action, "data", action)).__name__
        raise TypeError(
            f"The action {key!r} must be a tensor of dtype {spec.dtype} and is a {kind}. "
            f"Fix: env.action_spec.encode(action)."
        )
    if action.shape != shape:
        if action.ndim >= len(shape) or same_but_ones(action, shape) is action:
            raise ValueError(_action_shape(key, spec, action, shape))
        action = action.reshape(shape)
    if action.dtype != spec.dtype and spec.dtype is not None and not torch.can_cast(action.dtype, spec.dtype):
        cast = action.to(spec.dtype)
        if not torch.equal(cast.to(action.dtype), action):
            raise TypeError(
                f"The action {key!r} must have dtype {spec.dtype} and has {action.dtype}, which would cut the numbers "
                f"off. Fix: {_dtype_fix(spec)}"
            )
        return cast
    return action


def same_but_ones(value: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Reshape a tensor where only dimensions of size 1 differ.

    Args:
        value: the tensor.
        shape: the shape that it should have.

    Returns:
        A view of that shape; ``value`` itself if it has the shape already, or differs in more.

    Example:
        >>> same_but_ones(torch.zeros(4), torch.Size([4, 1])).shape
        torch.Size([4, 1])
        >>> same_but_ones(torch.zeros(3), torch.Size([4, 1])).shape
        torch.Size([3])
    """
    if value.shape == shape or [n for n in value.shape if n != 1] != [n for n in shape if n != 1]:
        return value
    return value.reshape(shape)


def misfit(env: Any, key: NestedKey, value: torch.Tensor, fitted: torch.Tensor, moment: str) -> str:
    """Say that a reward or an end signal was converted."""
    name = f"{type(env).__name__}._{moment}"
    if value.shape != fitted.shape:
        got, want = f"shape {tuple(value.shape)}", f"shape {tuple(fitted.shape)}"
        fix = f"value.reshape({tuple(fitted.shape)})"
    else:
        got, want, fix = f"dtype {value.dtype}", f"dtype {fitted.dtype}", f"value.to({fitted.dtype})"
    return (
        f"{name} returned {key!r} with {got}, and its spec has {want}: it is converted, at every step. "
        f"Fix: return {fix}."
    )


def no_end(env: Any, keys: list[NestedKey]) -> str:
    """Say that a step gave no end signal."""
    return (
        f"{type(env).__name__}._step returned none of {keys}: they are read as False. "
        f"Fix: return {keys[0]!r} with every step, torch.zeros((*self.batch_size, 1), dtype=torch.bool) if none ends."
    )


def _dtype_fix(spec: TensorSpec) -> str:
    if isinstance(spec, OneHot):
        return "if these are scores, env.action_spec.encode(scores.argmax(-1)) is the best action."
    return "action.long()." if spec.domain == "discrete" else f"action.to({spec.dtype})."


def _action_shape(key: NestedKey, spec: TensorSpec, action: torch.Tensor, shape: torch.Size) -> str:
    text = f"The action {key!r} must have shape {tuple(shape)} and has {tuple(action.shape)}. "
    integer = not action.dtype.is_floating_point
    if isinstance(spec, OneHot) and integer and action.shape in (shape[:-1], (*shape[:-1], 1)):
        return text + (
            f"An index was given where a one-hot vector of {spec.space.n} is expected. "
            "Fix: env.action_spec.encode(index), or make the env with categorical_action_encoding=True."
        )
    n = getattr(spec.space, "n", None)
    if not isinstance(spec, OneHot) and isinstance(n, int) and action.shape == (*shape, n):
        return text + (
            f"A one-hot vector was given where an index (0 to {n - 1}) is expected. "
            "Fix: action.argmax(-1), or make the env without categorical_action_encoding=True."
        )
    if action.shape == (*shape, 1):
        return text + "It has one dimension too many at the end. Fix: action.squeeze(-1)."
    if action.shape[1:] == shape:
        return text + "It has one dimension too many: is it a whole batch? Fix: action[0]."
    if shape[1:] == action.shape:
        return text + f"The dimension of size {shape[0]} is missing. Fix: action.unsqueeze(0)."
    return text + "See env.action_spec."


def assert_not_done(env: EnvSpecs, data: TensorDictBase, masks: Masks) -> None:
    """Refuse an env that is done right after its reset.

    Args:
        env: the env.
        data: the output of the reset.
        masks: which envs were reset; empty for all.

    Raises:
        RuntimeError: if one of the envs that were reset is done.
    """
    for key in env.done_keys:
        path = as_tuple(key)
        done = data.get(key, None)
        if path[-1] != DONE or done is None:
            continue
        if masks:
            mask = masks.get(path[:-1], masks.get(()))
            if mask is None:  # only what lies on other levels was reset
                continue
            done = done & FittedMask(mask, env.batch_dims).spread(done)
        if bool(done.any()):
            raise RuntimeError(
                f"{type(env).__name__} is done right after its reset ({key!r} is True), so it could never take a step. "
                "If that is meant, make the env with allow_done_after_reset=True."
            )


def check_data(env: EnvSpecs, specs: list[Composite], data: TensorDictBase, moment: str) -> None:
    """Compare data with the specs that it must fit, in all but the values.

    Args:
        env: the env.
        specs: the composites whose entries must be in the data.
        data: the output of a reset or step.
        moment: "first reset", "step" and the like.

    Raises:
        RuntimeError: with everything that is wrong.
    """
    found = [v for spec in specs for v in violations(spec, data) if v.kind in ("missing", "type", "shape", "dtype")]
    if moment.endswith("reset"):
        found = [v for v in found if v.kind != "missing"]
    if found:
        rows = "\n".join(f"  - {violation}" for violation in found)
        raise RuntimeError(
            f"The data of {type(env).__name__}'s {moment} does not fit its specs:\n{rows}\n"
            "rlnb.envs.utils.check_env_specs(env) tells all about it, and proposes specs that fit; "
            "run_type_checks=False switches this check off."
        )
