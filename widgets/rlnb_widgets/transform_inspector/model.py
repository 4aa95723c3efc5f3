"""Model of a chain: its boxes with their keys, and the specs below and above each box."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from rlnb.data.ted.keys import as_tuple
from rlnb.envs.base import EnvBase
from rlnb.envs.batched.batched_env import BatchedEnvBase
from rlnb.envs.transforms.transform import Transform
from rlnb.envs.transforms.transformed_env import TransformedEnv
from rlnb_widgets._core.dims import dims_text
from rlnb_widgets._core.spec_domain import domain_of
from rlnb_widgets._core.spec_entries import SpecEntry, spec_entries
from rlnb_widgets._core.text import key_text, object_text, shorten, visible, without_addresses
from rlnb_widgets.transform_inspector.probe import Log, flat, probed
from rlnb_widgets.transform_inspector.schema import Box, Change, ChangeKind, InspectorModel, Moment

MAX_MOMENTS = 24
MAX_ERROR = 600
MAX_KEY = 60

Path = tuple[str, ...]
Specs = dict[Path, SpecEntry]


def inspector_model(env: TransformedEnv, seed: int | None = None) -> InspectorModel:
    """Describe the chain of an env, without running it.

    Raises:
        TypeError: If ``env`` is not a TransformedEnv.

    Example:
        >>> from rlnb.envs import CartPoleEnv, StepCounter
        >>> model = inspector_model(TransformedEnv(CartPoleEnv(), StepCounter()))
        >>> [(box.name, box.code, box.writes) for box in model.boxes]
        [('StepCounter', 'env.transform', ('"step_count"',))]
    """
    if not isinstance(env, TransformedEnv):
        raise TypeError(_no_chain(env))
    boxes, given, taken = transform_boxes(env)
    base = env.base_env
    return InspectorModel(type(base).__name__, shorten(object_text(base), 80), boxes, given, taken, seed=seed)


def with_moment(model: InspectorModel, moment: Moment) -> InspectorModel:
    """Add a reset or step, and drop the oldest ones if there are many."""
    return dataclasses.replace(model, moments=(*model.moments, moment)[-MAX_MOMENTS:])


def assert_inspectable(env: Any) -> None:
    """Raise ``TypeError`` if an argument is neither an env nor a function that may make one.

    Transforms and the class itself are callable too.
    """
    if isinstance(env, Transform) or env is TransformedEnv or not (isinstance(env, EnvBase) or callable(env)):
        raise TypeError(_no_chain(env))


def _no_chain(env: Any) -> str:
    got = f"the class {env.__name__}" if isinstance(env, type) else f"a {type(env).__name__}"
    text = f"TransformInspector takes a TransformedEnv, or a function that makes one, got {got}."
    if isinstance(env, BatchedEnvBase):
        return (
            f"{text} Transforms of the envs in it are not seen from here. Fix: TransformInspector(make_env), with the "
            "function that makes one of them."
        )
    if isinstance(env, EnvBase):
        return f"{text} It has no transforms. Fix: TransformInspector(TransformedEnv(env, transform))."
    if isinstance(env, Transform) and env._env() is not None:
        return f"{text} It is in an env. Fix: TransformInspector(env)."
    return f"{text} Fix: TransformInspector(TransformedEnv(base_env, transform))."


def transform_boxes(env: TransformedEnv) -> tuple[tuple[Box, ...], tuple[Change, ...], tuple[Change, ...]]:
    """Return the boxes of an env, and the specs of the outputs and of the inputs of its base env.

    Specs are those that clones of the transforms compute over the same base env, as ``transform.parent`` does. The env
    is not changed.
    """
    members = flat(env.transform)
    log, error = Log(), ""
    try:
        clones = [member.clone() for member, _ in members]
        TransformedEnv(env.base_env, probed(clones, log, env.transform.invertible), auto_unwrap=False)
    except Exception as raised:
        error = error_text(raised)
    given, taken = _stages(log.output, len(members)), _stages(log.input, len(members))
    stopped = min(max(log.output, default=-1), max(log.input, default=-1)) if error else None
    boxes = tuple(
        _box(member, code, (given[i], given[i + 1]), (taken[i], taken[i + 1]), error if i == stopped else "")
        for i, (member, code) in enumerate(members)
    )
    return boxes, _same(given[0]), _same(taken[0])


def error_text(error: BaseException) -> str:
    """Format an error as bounded text, without addresses."""
    text = without_addresses(str(error)).strip()
    said = f"{type(error).__name__}: {text}" if text else type(error).__name__
    return said if len(said) <= MAX_ERROR else said[: MAX_ERROR - 1] + "…"


def path_key(path: Iterable[str]) -> str:
    """Format a key as one would type it, truncated and on one line.

    Example:
        >>> path_key(["reward"]), path_key(["agents", "reward"])
        ('"reward"', '("agents", "reward")')
    """
    return visible(key_text(tuple(path)), MAX_KEY)


def _stages(noted: dict[int, Any], count: int) -> list[Specs]:
    return [_leaves(noted[i]) if i in noted else {} for i in range(count + 1)]


def _leaves(specs: Any) -> Specs:
    # The first key is the group, such as "full_reward_spec", which the data does not have.
    return {entry.path[1:]: entry for entry in spec_entries(specs) if not entry.node and len(entry.path) > 1}


def _box(member: Transform, code: str, given: tuple[Specs, Specs], taken: tuple[Specs, Specs], error: str) -> Box:
    output, input_ = (() if error else _changes(*sides) for sides in (given, taken))
    made = [change.key for change in output if change.kind in ("new", "changed")]
    return Box(
        name=type(member).__name__,
        code=code,
        settings=shorten(object_text(member), 80),
        reads=_keys(member.in_keys),
        writes=tuple(dict.fromkeys([*_keys(member.out_keys), *made])),
        inverse_reads=_keys(member.out_keys_inv),
        inverse_writes=_keys(member.in_keys_inv),
        invertible=bool(member.invertible),
        output=output,
        input=input_,
        error=error,
    )


def _keys(keys: Iterable[Any]) -> tuple[str, ...]:
    return tuple(path_key(as_tuple(key)) for key in keys)


def _changes(below: Specs, above: Specs) -> tuple[Change, ...]:
    found = []
    for path in dict.fromkeys((*below, *above)):
        before, after = below.get(path), above.get(path)
        texts = ["" if entry is None else _brief(entry) for entry in (before, after)]
        kind: ChangeKind = "same"
        if before is None:
            kind = "new"
        elif after is None:
            kind = "removed"
        elif texts[0] != texts[1] or before.spec != after.spec:
            kind = "changed"
        found.append(Change(path_key(path), kind, *texts))
    return tuple(found)


def _same(specs: Specs) -> tuple[Change, ...]:
    return tuple(Change(path_key(path), "same", _brief(entry), _brief(entry)) for path, entry in specs.items())


def _brief(entry: SpecEntry) -> str:
    spec = entry.spec
    if spec is None:
        return "no spec"
    dtype = str(getattr(spec, "dtype", None) or type(spec).__name__).removeprefix("torch.")
    return f"{dtype} {dims_text(entry.dims)}, {shorten(visible(domain_of(spec).text, 200), 44)}"
