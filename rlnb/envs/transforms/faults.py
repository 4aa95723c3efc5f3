"""What transforms say when something is wrong: each text names what was expected, what came, and the fix."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tensordict import TensorDictBase

from rlnb.data.specs.keys import SpecKeyError, unknown_key
from rlnb.data.ted.keys import NestedKey
from rlnb.data.ted.leaves import leaf_keys


class SpecTypeError(TypeError, ValueError):
    """A spec of the wrong class; a ValueError too, as in TorchRL."""


def _name(what: Any) -> str:
    return type(what).__name__


def held_already(transform: Any, holder: Any) -> str:
    """Say that a transform cannot be in two places."""
    return (
        f"This {_name(transform)} is already in a {_name(holder)}: a transform belongs to one env, for it may keep the "
        "state of that env. Fix: use transform.clone(), which shares its buffers, or make a new one."
    )


def no_transform(what: Any) -> str:
    """Say that something cannot transform anything."""
    text = "A transform is a Transform or a function of a TensorDict, and got "
    if isinstance(what, (list, tuple)):
        return f"{text}a {_name(what)}. Fix: Compose(*transforms)."
    if isinstance(what, type):
        return f"{text}the class {what.__name__}. Fix: {what.__name__}(...)."
    return f"{text}a {_name(what)}. Fix: TransformedEnv(env, StepCounter()), or TransformedEnv(env, lambda td: td)."


def no_base_env(what: Any) -> str:
    """Say that something is no env."""
    return (
        f"TransformedEnv takes an env of rlnb and got a {_name(what)}. "
        "Fix: TransformedEnv(GymEnv('CartPole-v1'), transform), or GymWrapper(env) around one of Gymnasium."
    )


def key_type(name: str, key: Any) -> str:
    """Say that something is no key."""
    return f"{name} must be keys, each a string or a tuple of strings, and has {key!r} of type {_name(key)}."


def unequal_keys(transform: Any, first: str, n_first: int, second: str, n_second: int) -> str:
    """Say that keys do not pair up."""
    return (
        f"{_name(transform)} got {n_first} {first} and {n_second} {second}: they belong together one by one. "
        "A nested key is one key: write [('nested', 'reward')] for a list of one."
    )


def missing_key(transform: Any, key: NestedKey, data: TensorDictBase, at_reset: bool) -> SpecKeyError:
    """Say that an entry is not there."""
    error = unknown_key(key, leaf_keys(data), f"the data that {_name(transform)} reads")
    hint = (
        " If only steps give it: transform.set_missing_tolerance(True)."
        if at_reset
        else " The keys are those that the transforms before this one leave."
    )
    return SpecKeyError(f"{error}{hint}")


def no_inverse(transform: Any) -> str:
    """Say that a transform cannot be undone."""
    return (
        f"{_name(transform)} has in_keys_inv={transform.in_keys_inv}, and no inverse. "
        "Fix: leave in_keys_inv out, or write _inv_apply_transform."
    )


def no_forward(transform: Any) -> str:
    """Say that a transform does not say what it does to a value."""
    return (
        f"{_name(transform)} has in_keys={transform.in_keys}, and does not say what to do with them. "
        "Fix: write _apply_transform, which changes one value, or _call, which changes the data of a step."
    )


def returned(transform: Any, result: Any) -> str:
    """Say that a transform did not return a TensorDict."""
    text = f"{transform!r} must return a TensorDict and returned a {_name(result)}. "
    return text + "Fix: return the TensorDict that it was given, with its changes."


def overwrites(transform: Any, keys: Iterable[NestedKey], specs: dict[str, Any]) -> str:
    """Say that a transform would write over what the env has."""
    places = [(key, next(name for name, spec in specs.items() if key in spec).removeprefix("full_")) for key in keys]
    names = ", ".join(f"{key!r} (in {place})" for key, place in places)
    return (
        f"{_name(transform)} writes {names}, which the env has already and which is none of its in_keys: one would "
        "overwrite the other. Fix: give it another out_key, or rename the env's entry first with RenameTransform."
    )


def no_composite(transform: Any, method: str, result: Any) -> str:
    """Say that a method did not return a spec of several entries."""
    return (
        f"{_name(transform)}.{method} must return the Composite that it was given, with its changes, and returned a "
        f"{_name(result)}."
    )


#: What a report on specs adds where they follow from others.
SPECS_FOLLOW = (
    ".\nThose of a TransformedEnv follow from its base env and its transforms. A transform says in "
    "_apply_to_spec(self, spec)\nwhat it does to the spec of a value, and adds entries in "
    "transform_observation_spec(self, observation_spec)"
)


def spec_set(name: str) -> str:
    """Say that the specs of a TransformedEnv follow from others."""
    public = name.removeprefix("full_")
    return (
        f"The {public} of a TransformedEnv follows from its base env and its transforms, and cannot be set. Fix: set "
        f"env.base_env.{public}, or append a transform that changes it."
    )


def no_attribute(env: Any, base_env: Any, name: str) -> str:
    """Say that neither an env nor what it wraps has an attribute."""
    return f"Neither {_name(env)} nor the {_name(base_env)} in it has an attribute {name!r}."


def index_range(index: int, length: int) -> str:
    """Say that there is no such place in a chain."""
    return f"insert_transform takes an index from {-length} to {length} for {length} transforms, and got {index}."


def no_member(chain: Any, index: int) -> str:
    """Say that a chain has no transform of that index."""
    length = len(chain)
    if not length:
        return f"This {_name(chain)} is empty, and has no transform [{index}]."
    count = "1 transform" if length == 1 else f"{length} transforms"
    return f"This {_name(chain)} has {count}, with indices from {-length} to {length - 1}, and no [{index}]."


def no_cache_specs(what: Any) -> str:
    """Say that the argument after the transform is not another transform."""
    text = f"TransformedEnv takes one transform, then cache_specs, True or False, and got a {_name(what)} for it."
    return f"{text} Fix: TransformedEnv(env, Compose(transform, ...))." if callable(what) else text


def needs_env(transform: Any, what: str) -> str:
    """Say that a transform works in an env alone."""
    return f"{_name(transform)} {what}, so it works in an env only. Fix: TransformedEnv(env, {_name(transform)}(...))."


def no_auto_reset_env(env: Any) -> str:
    """Say that an AutoResetTransform is in an env that resets its base env at every end."""
    base = _name(env.base_env)
    return (
        f"An AutoResetTransform is for an AutoResetEnv, and was put into a {_name(env)}, which would reset the {base} "
        f"once more than it does by itself. Fix: AutoResetEnv(env, AutoResetTransform()), or {base}(..., "
        "auto_reset=True)."
    )


def auto_reset_first(members: list[Any]) -> str:
    """Say that an AutoResetEnv has its AutoResetTransform not in front, or not exactly one."""
    return (
        "An AutoResetEnv has one AutoResetTransform, in front of all others, and this would be "
        f"{list(map(_name, members))}: what comes before it would not see where episodes begin. "
        "Fix: AutoResetEnv(env).append_transform(transform), for one after the other."
    )


def auto_reset_of_batch(env: Any) -> str:
    """Say that it is the envs of a batch that reset themselves."""
    name = _name(env)
    return (
        f"It is each env of a {name} that resets itself, and not the {name}. "
        f"Fix: {name}(n, make, auto_reset=True), or {name}(n, lambda: AutoResetEnv(make()))."
    )


def auto_reset_of_transformed(env: Any) -> str:
    """Say that the transforms of an env do not restart when its base env does."""
    chain = list(env.transform) if hasattr(env.transform, "transforms") else [env.transform]
    if hasattr(env, "auto_reset_replace"):
        return "This env resets itself already: it was made with auto_reset=True, or is an AutoResetEnv."
    return (
        f"An env that resets itself is the innermost one, and this is a {_name(env)} with {list(map(_name, chain))}, "
        "which are not told when the env in it restarts. Fix: TransformedEnv(AutoResetEnv(env), transform)."
    )


def buffer_only(transform: Any, what: str) -> str:
    """Say that a transform is for buffers alone."""
    return (
        f"{_name(transform)} {what}, so it works in a buffer only. Fix: "
        f"buffer.append_transform({_name(transform)}(...))."
    )


def float_rewards(transform: Any, dtype: Any) -> str:
    """Say that rewards must be floating-point numbers."""
    return (
        f"{_name(transform)} needs rewards that are floating-point numbers, and theirs is {dtype}. Fix: put "
        f"DTypeCastTransform({dtype}, torch.float32, in_keys=['reward']) before it."
    )
