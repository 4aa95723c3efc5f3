"""Validation of an env against its specs: a short rollout is checked, and all problems are reported at once."""

from __future__ import annotations

import contextlib
import copy
from typing import Any, Literal, NamedTuple

import torch
from tensordict import LazyStackedTensorDict, TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.violations import Violation, format_key, violations
from rlnb.data.ted.keys import DONE, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.base import EnvBase
from rlnb.envs.partial_reset import deciding, end_masks, overwrite
from rlnb.envs.randomness import get_rng_state, set_rng_state

_STEPS = 3
_VARYING = ("missing", "extra", "shape")  # kinds of problems with an entry that varies from step to step


class Problem(NamedTuple):
    """A problem of an env, and when it was first seen: at "reset", "step 1", "action"."""

    when: str
    violation: Violation


def check_env_specs(
    env: EnvBase,
    return_contiguous: bool | None = None,
    check_dtype: bool = True,
    seed: int | None = None,
    tensordict: TensorDictBase | None = None,
    break_when_any_done: bool | Literal["both"] | None = None,
) -> None:
    """Compare what an env does with its specs.

    The data of a reset and a few random steps is compared with the specs: keys, shapes, dtypes, devices and values.
    "done" must be the union of "terminated" and "truncated". Torch's generator is restored, and so is the seed that
    the env uses at its next reset.

    Args:
        env: the env; it is reset.
        return_contiguous: of the rollout that is tried at the end. ``None``: whatever the env's specs allow.
        check_dtype: whether to report wrong dtypes.
        seed: seeds the env first.
        tensordict: passed to each reset.
        break_when_any_done: of the rollout at the end: ``True`` (the default), ``False``, or "both" for one of each.

    Raises:
        TypeError: If ``env`` is not an env.
        AssertionError: If anything is wrong, with a row for each problem and code for specs that fit the data.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> check_env_specs(GymEnv("CartPole-v1"))
    """
    if not isinstance(env, EnvBase):
        what = f"the class {env.__name__}" if isinstance(env, type) else f"a {type(env).__name__}"
        raise TypeError(
            f"check_env_specs checks an env of rlnb and got {what}. "
            "Fix: check_env_specs(GymEnv('CartPole-v1')), or GymWrapper(env) around one of Gymnasium."
        )
    torch_state, own_state = get_rng_state(env.device), copy.deepcopy(env._random_state)
    pending = getattr(env, "_seed", None)
    env._checks_data = False
    try:
        if seed is not None:
            env.set_seed(seed)
        problems, seen = _look(env, tensordict)
        if not check_dtype:
            problems = [problem for problem in problems if problem.violation.kind != "dtype"]
        if problems:
            raise AssertionError(_report(env, problems, seen))
        if return_contiguous is None:
            return_contiguous = not any(-1 in spec.shape for spec in env.output_spec.values(True, True) if spec)
        for stop in (True, False) if break_when_any_done == "both" else (break_when_any_done,):
            start = None if tensordict is None else tensordict.clone()
            env.rollout(_STEPS, return_contiguous=return_contiguous, tensordict=start, break_when_any_done=stop)
    finally:
        env._checks_data = True
        env._random_state = own_state
        set_rng_state(torch_state, env.device)
        if pending is not None:
            env._set_seed(pending)


def _look(env: EnvBase, start: TensorDictBase | None) -> tuple[list[Problem], list[TensorDictBase]]:
    """Reset and step. Return each problem once, and the data of the reset and of every step."""
    env.assert_distinct_keys()
    problems: dict[Any, Problem] = {}

    def note(when: str, found: list[Violation]) -> None:
        for violation in found:
            problems.setdefault((violation.key, violation.kind, when == "action"), Problem(when, violation))

    data = env.reset(None if start is None else start.clone())
    seen = [data.copy()]
    before = [data.clone()]
    note("reset", _compare(env, [env.observation_spec, env.full_done_spec], data))
    note("reset", violations(env.full_state_spec, data.select(*env.state_keys, strict=False)))
    for step in range(1, _STEPS + 1):
        data = env.rand_action(data)
        note("action", violations(env.full_action_spec, data.select(*env.action_keys)))
        data = env.step(data)
        after = data.get("next")
        note(f"step {step}", _overwritten(seen, before))
        seen.append(after.copy())
        before.append(after.clone())
        specs = [env.observation_spec, env.full_done_spec, env.full_reward_spec]
        found = _compare(env, specs, after)
        if _has_placeholders(env):
            # Placeholders for the last observations of episodes may have illegal values: only their form is checked.
            legal = _compare(env, specs, _without_placeholders(env, after))
            found = [v for v in found if v.kind != "domain"] + [v for v in legal if v.kind == "domain"]
        note(f"step {step}", found + _union(env, after))
        data = env.maybe_reset(env._step_mdp(data))
    return list(problems.values()), seen


def _overwritten(seen: list[TensorDictBase], before: list[TensorDictBase]) -> list[Violation]:
    """Find data that was returned earlier and that a step overwrote, so that a rollout would repeat its last step."""
    found = []
    for t, (now, then) in enumerate(zip(seen, before, strict=True)):
        for key in leaf_keys(now):
            for new, old in zip(_values([now], key), _values([then], key), strict=True):
                if bool(((new == old) | ((new != new) & (old != old))).all()):  # NaN stays NaN
                    continue
                when = f"step {t}" if t else "reset"
                fix = "The env returned its own memory, and wrote to it later. Return a copy: value.clone()."
                found.append(Violation(as_tuple(key), "domain", f"what it was at {when}", "overwritten", fix=fix))
    return found


def _has_placeholders(env: EnvBase) -> bool:
    """Whether the env, or one inside it, resets itself and replaces the last observations of episodes."""
    replaced = getattr(env, "auto_reset_replace", False)
    return any(replaced) if isinstance(replaced, list) else replaced is True


def _without_placeholders(env: EnvBase, data: TensorDictBase) -> TensorDictBase:
    """Replace the observations of episodes that ended by legal ones."""
    legal = data.copy()
    overwrite(legal, env.observation_spec.rand(), deciding(end_masks(env, data)), env.ndim)
    return legal


def _compare(env: EnvBase, specs: list[Composite], data: TensorDictBase) -> list[Violation]:
    """Compare data with the union of several composites and of the state, whose entries may be missing."""
    whole = Composite(shape=env.batch_size)
    for spec in (env.full_state_spec, *specs):  # if an entry is a state and an observation, the latter counts
        whole.update(spec)
    needed = {as_tuple(key) for spec in specs for key in spec.keys(True, True)}
    optional = {as_tuple(key) for key in env.full_state_spec.keys(True, True)} - needed
    return [v for v in violations(whole, data) if v.kind != "missing" or v.key not in optional]


def _union(env: EnvBase, data: TensorDictBase) -> list[Violation]:
    """Check ``done == terminated | truncated`` at every level."""
    found = []
    for group in env.done_keys_groups:
        level = as_tuple(group[0])[:-1]
        done, terminated, truncated = (data.get(as_key((*level, k)), None) for k in (DONE, TERMINATED, TRUNCATED))
        if done is None or terminated is None:
            continue
        union = terminated if truncated is None else terminated | truncated
        if union.shape == done.shape and not torch.equal(union, done):
            at = tuple((union != done).nonzero()[0].tolist())
            names = "terminated" if truncated is None else "terminated | truncated"
            found.append(
                Violation(
                    (*level, DONE),
                    "domain",
                    f"{names}, which is {bool(union[at])}",
                    f"{bool(done[at])} at index {at}",
                    at,
                    bool(done[at]),
                    "done is the union of the end signals: return terminated and truncated, and leave done out.",
                )
            )
    return found


# Entries that vary -------------------------------------------------------------------------------------------------


def varying_entries(seen: list[TensorDictBase]) -> dict[tuple[str, ...], str]:
    """Find the entries whose presence or shape varies, and why that is wrong or how a spec describes it, by key.

    ``seen`` is the data of a reset and of the steps that followed.

    Example:
        >>> from tensordict import TensorDict
        >>> steps = [TensorDict({"a": torch.zeros(n)}) for n in (1, 2, 2)]
        >>> varying_entries(steps)[("a",)]
        'Its shape is (1,) at reset and (2,) at step 1: use -1 for sizes that vary, shape=(-1,).'
    """
    keys = [set(map(as_tuple, leaf_keys(data))) for data in seen]
    found: dict[tuple[str, ...], str] = {}
    for key in sorted(set().union(*keys)):
        steps = {f"step {t}": key in keys[t] for t in range(1, len(seen))}  # a reset may leave entries out
        if len(set(steps.values())) > 1:
            there = next(when for when, present in steps.items() if present)
            gone = next(when for when, present in steps.items() if not present)
            found[key] = (
                f"It is there at {there} and not at {gone}: no spec describes an entry that comes and goes, and the "
                "steps of a rollout would not fit together. Return it at every step, with -1 in its shape if its size "
                "varies."
            )
            continue
        shapes = [(t, shape) for t, data in enumerate(seen) if key in keys[t] for shape in _shapes(data, as_key(key))]
        reason = _shape_reason(shapes)
        if reason:
            found[key] = reason
    return found


def _shapes(data: Any, key: Any) -> list[tuple[int, ...]]:
    """The shapes of an entry: one, or one for each row of a lazy stack."""
    if isinstance(data, LazyStackedTensorDict):
        n, at = len(data.tensordicts), data.stack_dim
        return [(*s[:at], n, *s[at:]) for row in data.tensordicts for s in _shapes(row, key)]
    value = data.get(key, None)
    return [tuple(value.shape)] if isinstance(value, torch.Tensor) else []


def _shape_reason(shapes: list[tuple[int, tuple[int, ...]]]) -> str | None:
    """Explain how shapes, each with the number of its step (0 for the reset), differ from the first."""

    def seen_at(t: int) -> str:
        return f"step {t}" if t else "reset"

    first_t, first = shapes[0] if shapes else (0, ())
    other = next(((t, shape) for t, shape in shapes if len(shape) != len(first)), None)
    if other is not None:
        return (
            f"It has {len(first)} dimensions at {seen_at(first_t)} and {len(other[1])} at {seen_at(other[0])}: -1 in a "
            "spec stands for any size, not for any number of dimensions. Always return the same number of dimensions, "
            "some of size 1 if need be."
        )
    other = next(((t, shape) for t, shape in shapes if shape != first), None)
    if other is None:
        return None
    spec = tuple(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*(s for _, s in shapes), strict=True))
    return (
        f"Its shape is {first} at {seen_at(first_t)} and {other[1]} at {seen_at(other[0])}: use -1 for sizes that "
        f"vary, shape={spec}."
    )


# The report -------------------------------------------------------------------------------------------------------


def _report(env: EnvBase, problems: list[Problem], seen: list[TensorDictBase]) -> str:
    count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
    rows = [("seen at", "entry", "problem", "expected", "got")]
    rows += [(p.when, format_key(v.key), v.kind, v.expected, v.got) for p in problems for v in [p.violation]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = "\n".join("  " + "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
    varying = varying_entries(seen)
    about = [(v, varying.get(v.key) if v.kind in _VARYING else None) for v in (p.violation for p in problems)]
    fixes = dict.fromkeys(f"  - {format_key(v.key)}: {why or v.fix}" for v, why in about if why or v.fix)
    parts = [f"{type(env).__name__} does not keep to its specs: {count}.", table]
    if fixes:
        parts.append("What to do:\n" + "\n".join(fixes))
    code = _proposal(env, [p for p in problems if p.violation.key not in varying], seen)
    if code:
        wrong = "Or, if the data is right and the specs are wrong, specs that fit what was seen"
        parts.append(f"{wrong}{env._specs_follow}:\n{code}")
    return "\n\n".join(parts)


def _proposal(env: EnvBase, problems: list[Problem], seen: list[TensorDictBase]) -> str:
    """Write code for specs that fit the data, for each of the env's composites that does not."""
    wrong = {
        v.key
        for p in problems
        for v in [p.violation]
        # a "done" that is not the union of the others is not a problem of the specs
        if p.when != "action" and not (v.kind == "domain" and v.key[-1] == DONE)
    }
    known = {as_tuple(k) for spec in env._specs.values() for k in spec.keys(True, True)}
    blocks = []
    signals = {key for key in wrong if key[-1] == TRUNCATED and key not in known}
    if signals:
        blocks.append("  env.add_truncated_keys()")
    for name in ("observation", "state", "reward", "done"):
        spec: Composite = getattr(env, f"full_{name}_spec")
        keys = [as_tuple(key) for key in spec.keys(True, True)]
        if name == "observation":
            keys += sorted(wrong - known - signals)
        if not wrong.intersection(keys):
            continue
        lines, inferred = [], []
        for key in map(as_key, keys):
            values = _values(seen, key)
            if as_tuple(key) not in wrong or _fits(spec.get(key, None), values):
                lines.append(f"    {key!r}: env.full_{name}_spec[{key!r}],")
            elif len({(value.shape, value.dtype) for value in values}) == 1:  # one spec could fit all of them
                inferred.append(f"    {key!r}: {_infer(values, spec.get(key, None))},")
                lines.append(inferred[-1])
        if not inferred:
            continue
        if env._specs_follow:
            blocks += [f"  in the {name}_spec, {line.strip(' ,')}" for line in inferred]
            continue
        body = "\n".join(["  " + line for line in lines])
        blocks.append(f"  env.{name}_spec = Composite({{\n{body}\n  }}, shape={tuple(env.batch_size)})")
    return "\n".join(blocks)


def _values(seen: list[TensorDictBase], key: NestedKey) -> list[torch.Tensor]:
    """The tensors of an entry, without those of a lazy stack whose shapes differ."""
    found = []
    for data in seen:
        with contextlib.suppress(RuntimeError):
            found.append(data.get(key, None))
    return [value for value in found if isinstance(value, torch.Tensor)]


def _fits(spec: TensorSpec | None, values: list[torch.Tensor]) -> bool:
    """Whether a spec fits: of an entry that is observation and state, only one of the two specs may be wrong."""
    if spec is None or not values:
        return False
    return all(value.shape == spec.shape and spec.is_in(value) for value in values)


def _infer(values: list[torch.Tensor], spec: TensorSpec | None) -> str:
    """Write code for the spec of an entry, keeping what still holds of the old spec."""
    shape, dtype = tuple(values[-1].shape), values[-1].dtype
    if dtype == torch.bool:
        return f"Categorical(2, shape={shape}, dtype={dtype})"
    numbers = torch.cat([value.flatten() for value in values])
    finite = numbers.numel() > 0 and bool(torch.isfinite(numbers).all())
    if isinstance(spec, Categorical) and finite and not dtype.is_floating_point and int(numbers.min()) >= 0:
        return f"Categorical({max(int(numbers.max()) + 1, spec.n)}, shape={shape}, dtype={dtype})"
    if isinstance(spec, Bounded) and finite and dtype == spec.dtype:
        low = min(spec.space.low.min().item(), numbers.min().item())
        high = max(spec.space.high.max().item(), numbers.max().item())
        return f"Bounded({low:.6g}, {high:.6g}, shape={shape}, dtype={dtype})"
    return f"Unbounded(shape={shape}, dtype={dtype})"
