"""Spec properties of environments: declaring, validating and inferring them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, overload

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, NestedKey, as_key, as_tuple, by_depth

INPUT_SPECS = ("full_action_spec", "full_state_spec")
OUTPUT_SPECS = ("full_observation_spec", "full_reward_spec", "full_done_spec")

# Properties -------------------------------------------------------------------------------------------------------


Value = TypeVar("Value")


class TypedProperty(property, Generic[Value]):
    """A ``property`` with a type for the checker, for properties that functions make."""

    if TYPE_CHECKING:

        @overload
        def __get__(self, env: None, owner: type | None = None) -> Self: ...
        @overload
        def __get__(self, env: Any, owner: type | None = None) -> Value: ...
        def __get__(self, env: Any, owner: type | None = None) -> Any:
            """Return the property itself on a class, and the value on an env."""


def composite_property(name: str, default_key: str, doc: str) -> TypedProperty[Composite]:
    """Make the property of an env that holds one of its five composites, locked unless its specs are unlocked."""
    return TypedProperty(lambda env: env._specs[name], _setter(name, default_key), doc=doc)


def leaf_property(name: str, default_key: str, doc: str) -> TypedProperty[TensorSpec]:
    """Make the property that is the only leaf of one of an env's composites, or the composite if it has several."""
    cached = f"{name}_leaf"

    def read(env: Any) -> TensorSpec:
        spec, known = env._specs[name], env._cache.get(cached)
        if known is None or known[0] is not spec:
            keys = list(spec.keys(True, True))
            known = env._cache[cached] = spec, spec[keys[0]] if len(keys) == 1 else spec
        return known[1]

    return TypedProperty(read, _setter(name, default_key), doc=doc)


def _setter(name: str, default_key: str) -> Callable[[Any, TensorSpec], None]:
    return lambda env, spec: env._set_spec(name, spec, default_key)


def unbatched(name: str) -> TypedProperty[Any]:
    """Make the property that is a spec without the batch dimensions. Setting it expands the spec to the batch size."""

    def read(env: Any) -> Any:
        spec = getattr(env, name)
        return spec[(0,) * env.batch_dims] if env.batch_dims else spec

    def write(env: Any, spec: TensorSpec) -> None:
        setattr(env, name, spec.expand(*env.batch_size, *spec.shape))

    return TypedProperty(read, write, doc=f"``{name}`` without the batch dimensions.")


def spec_keys(name: str, doc: str) -> TypedProperty[list[NestedKey]]:
    """Make the property that lists the keys of one of an env's composites, in a new list for each caller."""
    return TypedProperty(lambda env: env._keys(name), doc=doc)


def only_key(what: str, doc: str) -> TypedProperty[NestedKey]:
    """Make the property that is the key of an env's only action, reward or "done", or raises KeyError."""

    def read(env: Any) -> NestedKey:
        keys = getattr(env, f"{what}_keys")
        if what == "done":
            keys = [key for key in keys if as_tuple(key)[-1] == DONE]
        if len(keys) != 1:
            raise KeyError(
                f"env.{what}_key is the key of the only {what}, and this env has {len(keys)}: {keys}. "
                f"Use env.{what}_keys."
            )
        return keys[0]

    return TypedProperty(read, doc=doc)


class ForgetfulCache(dict[str, Any]):
    """Cache of an env whose specs may change in place: reads back what was just written, and reports no key."""

    def __contains__(self, key: object) -> bool:
        return False

    def get(self, key: str, default: Any = None) -> Any:
        """Report no key."""
        return default


# Assignment -------------------------------------------------------------------------------------------------------


def assign_spec(env: Any, name: str, spec: TensorSpec, default_key: str) -> None:
    """Replace one of an env's five composites, such as "full_reward_spec". Nothing changes if the spec does not fit."""
    if not isinstance(spec, TensorSpec):
        raise TypeError(
            f"{name.removeprefix('full_')} must be a TensorSpec and is a {type(spec).__name__}. "
            f"Wrap it, for example: env.{name.removeprefix('full_')} = Unbounded(shape=(3,))."
        )
    if "_modules" not in env.__dict__:  # before super().__init__(): kept until the batch size is known
        env.__dict__.setdefault("_early_specs", {})[name] = spec, default_key
        return
    fitted = fitted_spec(name, spec, default_key, env)
    env._specs[name] = fitted.lock_() if env.is_spec_locked else fitted
    env._unchecked = {"reset", "step"}
    env.empty_cache()


def open_specs(env: Any) -> None:
    """Let the specs of an env be edited in place. Nothing derived from them is cached from now on."""
    env._specs_open, env._cache = True, ForgetfulCache()


def close_specs(env: Any) -> None:
    """Validate and lock specs that may have been edited in place."""
    if env.is_spec_locked:
        return
    specs = {name: fitted_spec(name, spec, "", env) for name, spec in env._specs.items()}
    env._specs = {name: spec.lock_() for name, spec in specs.items()}
    env._specs_open, env._cache = False, {}
    env.__dict__.pop("_default_specs", None)
    env._unchecked = {"reset", "step"}


def set_default_specs(env: Any) -> None:
    """Give an env one reward of shape ``[*batch_size, 1]``, "done" and "terminated"."""
    shape = (*env._batch_size, 1)
    env.reward_spec = Unbounded(shape=shape, device=env._device)
    env.done_spec = Categorical(2, shape=shape, dtype=torch.bool, device=env._device)
    env._default_specs = env._specs["full_reward_spec"], env._specs["full_done_spec"]


def set_batch_size(env: Any, size: torch.Size) -> None:
    """Set the batch size of an env while its ``__init__`` runs and it has only the default specs."""
    if "_modules" not in env.__dict__:  # before super().__init__()
        env.__dict__["_early_batch_size"] = size
        return
    if size == env._batch_size:
        return
    own = [spec for spec in env._specs.values() if not spec.is_empty()]
    if env.is_spec_locked or any(all(spec is not default for default in env._default_specs) for spec in own):
        raise RuntimeError(
            f"The batch size of {type(env).__name__} is {tuple(env._batch_size)}, and its specs have it already. "
            "Fix: super().__init__(batch_size=...), or set it before the specs."
        )
    env._batch_size = size
    env._specs = {name: Composite(shape=size, device=env._device) for name in env._specs}
    set_default_specs(env)


def set_device(env: Any, device: torch.device | None) -> None:
    """Set the device of an env while its ``__init__`` runs."""
    if "_modules" not in env.__dict__:  # before super().__init__()
        env.__dict__["_early_device"] = device
        return
    if device == env._device:
        return
    if env.is_spec_locked or device is None:
        raise RuntimeError(f"device cannot be set on a {type(env).__name__}. Fix: env = env.to({str(device)!r}).")
    env._device = device
    for name, spec in env._specs.items():
        env._specs[name] = spec.to(device)
    env._default_specs = env._specs["full_reward_spec"], env._specs["full_done_spec"]


def fitted_spec(name: str, spec: TensorSpec, default_key: str, env: Any) -> Composite:
    """Make one of an env's five composites, such as "full_reward_spec", from a spec that was assigned to it.

    A leaf becomes the entry ``default_key``. The result is a copy with the env's batch size and device. Every level of
    "full_done_spec" has "done" and "terminated".
    """
    public, batch_size = name.removeprefix("full_"), env.batch_size
    if tuple(spec.shape[: len(batch_size)]) != tuple(batch_size):
        lead = ", ".join(map(str, (*batch_size, *spec.shape)))
        raise ValueError(
            f"{public} has shape {tuple(spec.shape)}, and the env's batch size is {tuple(batch_size)}: "
            f"the shape of a spec starts with the batch size. "
            f"Fix: give it shape=({lead}{',' if ',' not in lead else ''}), or call spec.expand({lead})."
        )
    if not isinstance(spec, Composite):
        spec = Composite({default_key: spec}, shape=batch_size)
    spec = spec.clone().unlock_()
    if spec.shape != batch_size:  # more leading dimensions, which all entries share
        spec.shape = batch_size
    if name in ("full_reward_spec", "full_done_spec"):
        for key, leaf in spec.items(True, True):
            if leaf is not None and len(leaf.shape) == 0:
                raise RuntimeError(
                    f"The entry {key!r} of {public} has shape (), and rewards and end signals have at least one "
                    f"dimension. Fix: {type(leaf).__name__.replace('Continuous', '')}(..., shape=(1,))."
                )
    if env._device is not None:
        spec = spec.to(env._device)
    return with_twins(spec) if name == "full_done_spec" else spec


def with_twins(spec: Composite) -> Composite:
    """Give every level of a done spec that has an end signal both "done" and "terminated", in place."""
    present = list(map(as_tuple, spec.keys(True, True)))
    levels = {path[:-1]: path for path in present if path[-1] in END_KEYS}
    for level, path in levels.items():
        for name in (DONE, TERMINATED):
            if (*level, name) not in present:
                spec[as_key((*level, name))] = spec[as_key(path)].clone()
    return spec


def check_distinct_keys(specs: Mapping[str, Composite]) -> None:
    """Raise if two of an env's five composites claim the same entry, or if an entry has a reserved name."""
    for key in by_depth(specs["full_done_spec"].keys(True, True)):
        if as_tuple(key)[-1] not in END_KEYS:
            raise ValueError(
                f"done_spec has an entry {key!r}, and the key of an end signal ends with one of {END_KEYS}. "
                "Fix: rename it, or put it into observation_spec."
            )
    homes: dict[tuple[str, ...], str] = {}
    for name, spec in specs.items():
        public = name.removeprefix("full_")
        for key in map(as_tuple, spec.keys(True, True)):
            if key[0] == "next" or key[-1] == "_reset":
                raise ValueError(
                    f"{public} has an entry {as_key(key)!r}, and 'next' and '_reset' are the names of places that "
                    "every env has. Fix: give the entry another name."
                )
            # A stateless env reads at the root what it wrote under "next": state and observation may share entries.
            shared = {homes.get(key), public} == {"state_spec", "observation_spec"}
            if key in homes and not shared:
                raise ValueError(
                    f"The entry {as_key(key)!r} is in {homes[key]} and in {public}: one would overwrite the other. "
                    "Fix: give one of them another name."
                )
            homes[key] = public


# Inference --------------------------------------------------------------------------------------------------------


def infer_specs(
    acted: Any, after: Any, batch_size: torch.Size, named: Mapping[str, NestedKey | list[NestedKey] | None]
) -> dict[str, Composite]:
    """Infer the specs of an env, by the name of the property, from the data of one reset and one step.

    All leaves are unbounded; booleans are categorical. ``named`` has the keys of each spec, None for every end signal.
    All other entries make up "state_spec".
    """
    paths = {as_tuple(key): value for data in (acted, after) for key, value in data.items(True, True)}
    members = {
        name: {as_tuple(key) for key in (keys if isinstance(keys, list) else [keys])}
        for name, keys in named.items()
        if keys is not None
    }
    missing = sorted(set().union(*(found for name, found in members.items() if name != "done_spec")) - paths.keys())
    if missing:
        raise KeyError(
            f"auto_specs_ reads {as_key(missing[0])!r}, and the data has {sorted(map(as_key, paths), key=str)}."
        )
    members.setdefault("done_spec", {path for path in paths if path[-1] in END_KEYS})
    members["state_spec"] = paths.keys() - set().union(*members.values())
    specs = {}
    for name, found in members.items():
        if found or name == "state_spec":
            specs[name] = Composite(shape=batch_size)
            for path in sorted(found):
                specs[name][as_key(path)] = _spec_like(torch.as_tensor(paths[path]))
    return specs


def _spec_like(value: torch.Tensor) -> TensorSpec:
    if value.dtype is torch.bool:
        return Categorical(2, shape=value.shape, dtype=torch.bool)
    return Unbounded(shape=value.shape, dtype=value.dtype)
