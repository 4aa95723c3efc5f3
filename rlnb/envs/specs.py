"""What an environment takes and gives: its specs, and the keys that follow from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch

from rlnb.data import Categorical, Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple, by_depth
from rlnb.envs.unbatched import UnbatchedSpecs

_INPUT = ("full_action_spec", "full_state_spec")
_OUTPUT = ("full_observation_spec", "full_reward_spec", "full_done_spec")


class EnvSpecs(UnbatchedSpecs, torch.nn.Module):
    """The spec and key properties of an environment; the base of :class:`~rlnb.envs.EnvBase`.

    Specs are kept as two locked composites, ``input_spec`` and ``output_spec``. A spec is set as a leaf (it gets the
    customary key) or as a composite, and must start with the batch size of the env.

    Args:
        device: where the data of the env lives; None for no statement.
        batch_size: how many envs are batched together.
    """

    #: For reports: why specs cannot be set, and what to do instead; empty where they can.
    _specs_follow = ""

    def __init__(self, device: torch.device | None, batch_size: torch.Size) -> None:
        super().__init__()
        self._device = device
        self._batch_size = batch_size
        self._cache: dict[str, Any] = {}
        self._unchecked: set[str] = set()
        self._specs = {name: Composite(shape=batch_size, device=device) for name in (*_INPUT, *_OUTPUT)}
        if "_specs" in self.__dict__:  # envs that compute their specs from others have nothing to set
            self._open_specs()
            self._set_default_specs()
        for name, (spec, default_key) in self.__dict__.pop("_early_specs", {}).items():
            self._set_spec(name, spec, default_key)

    def __getattr__(self, name: str) -> Any:
        if name in ("_specs", "_batch_size", "_device"):
            raise RuntimeError(
                f"{type(self).__name__}.__init__ reads what the base class of all environments makes. Fix: call "
                "super().__init__(batch_size=..., device=...) first."
            )
        if name == "render":
            raise AttributeError(
                f"{type(self).__name__} has no render method, so there are no frames of it. Fix: render an env of "
                'Gymnasium, GymEnv("CartPole-v1", render_mode="rgb_array").'
            )
        return super().__getattr__(name)

    def _set_default_specs(self) -> None:
        """One reward of shape ``[*batch, 1]``, and "done" and "terminated"."""
        shape = (*self._batch_size, 1)
        self.reward_spec = Unbounded(shape=shape, device=self._device)
        self.done_spec = Categorical(2, shape=shape, dtype=torch.bool, device=self._device)
        self._default_specs = self._specs["full_reward_spec"], self._specs["full_done_spec"]

    # Locking ------------------------------------------------------------------------------------------------------

    @property
    def is_spec_locked(self) -> bool:
        """Whether the specs can only be replaced, and not edited in place. False while ``__init__`` runs."""
        return not self.__dict__.get("_specs_open", False)

    def set_spec_lock_(self, mode: bool = True) -> Self:
        """Lock or unlock the specs. Unlocked specs can be edited in place, ``env.full_done_spec["truncated"] = ...``.

        While they are unlocked, nothing that follows from them is remembered, so steps are slow.

        Args:
            mode: True (the default) locks them.

        Returns:
            The env.

        Example:
            >>> from rlnb.data import Unbounded
            >>> from rlnb.envs import PendulumEnv
            >>> env = PendulumEnv().set_spec_lock_(False)
            >>> env.observation_spec["wind"] = Unbounded(shape=())
            >>> "wind" in env.set_spec_lock_().observation_keys
            True
        """
        if mode:
            self._close_specs()
        else:
            self._specs = {name: spec.clone().unlock_() for name, spec in self._specs.items()}
            self._open_specs()
        return self

    def _open_specs(self) -> None:
        self._specs_open, self._cache = True, ForgetfulCache()

    def _close_specs(self) -> None:
        """Check and lock specs that were edited in place."""
        if self.is_spec_locked:
            return
        specs = {name: self._fitted_spec(name, spec) for name, spec in self._specs.items()}
        self._specs = {name: spec.lock_() for name, spec in specs.items()}
        self._specs_open, self._cache = False, {}
        self.__dict__.pop("_default_specs", None)
        self._unchecked = {"reset", "step"}

    # Reading and setting ------------------------------------------------------------------------------------------

    def _set_spec(self, name: str, spec: TensorSpec, default_key: str) -> None:
        """Replace one of the five composites; nothing changes if the spec does not fit."""
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"{name.removeprefix('full_')} must be a TensorSpec and is a {type(spec).__name__}. "
                f"Wrap it, for example: env.{name.removeprefix('full_')} = Unbounded(shape=(3,))."
            )
        if "_modules" not in self.__dict__:  # before super().__init__(): kept until the batch size is known
            self.__dict__.setdefault("_early_specs", {})[name] = spec, default_key
            return
        if not isinstance(spec, Composite):
            _check_batch(name, spec.shape, self.batch_size)
            spec = Composite({default_key: spec}, shape=self.batch_size)
        spec = self._fitted_spec(name, spec)
        self._specs[name] = spec if not self.is_spec_locked else spec.lock_()
        self._unchecked = {"reset", "step"}
        self.empty_cache()

    def _fitted_spec(self, name: str, spec: Composite) -> Composite:
        """Copy a composite with the batch size and device of the env; of end signals, with both "done" and its twin."""
        _check_batch(name, spec.shape, self.batch_size)
        spec = spec.clone().unlock_()
        if spec.shape != self.batch_size:  # more leading dimensions, which all entries share
            spec.shape = self.batch_size
        if name in ("full_reward_spec", "full_done_spec"):
            _check_dims(name, spec)
        if self._device is not None:
            spec = spec.to(self._device)
        return with_twins(spec) if name == "full_done_spec" else spec

    def _leaf_or_composite(self, name: str) -> TensorSpec:
        """The only leaf of a composite if there is exactly one, else the composite."""
        spec = self._specs[name]
        known: tuple[Composite, TensorSpec] | None = self._cache.get(f"{name}_leaf")
        if known is None or known[0] is not spec or not self.is_spec_locked:
            keys = list(spec.keys(True, True))
            known = spec, spec[keys[0]] if len(keys) == 1 else spec
            self._cache[f"{name}_leaf"] = known
        return known[1]

    @property
    def observation_spec(self) -> Composite:
        """Everything the env gives apart from rewards and end signals."""
        return self._specs["full_observation_spec"]

    @observation_spec.setter
    def observation_spec(self, spec: TensorSpec) -> None:
        self._set_spec("full_observation_spec", spec, "observation")

    @property
    def state_spec(self) -> Composite:
        """What the env takes apart from actions; empty for an env that keeps its own state."""
        return self._specs["full_state_spec"]

    @state_spec.setter
    def state_spec(self, spec: TensorSpec) -> None:
        self._set_spec("full_state_spec", spec, "state")

    @property
    def action_spec(self) -> TensorSpec:
        """The action's spec: the leaf if there is one action, the composite if there are several."""
        return self._leaf_or_composite("full_action_spec")

    @action_spec.setter
    def action_spec(self, spec: TensorSpec) -> None:
        self._set_spec("full_action_spec", spec, "action")

    @property
    def reward_spec(self) -> TensorSpec:
        """The reward's spec: the leaf if there is one reward, the composite if there are several."""
        return self._leaf_or_composite("full_reward_spec")

    @reward_spec.setter
    def reward_spec(self, spec: TensorSpec) -> None:
        self._set_spec("full_reward_spec", spec, "reward")

    @property
    def done_spec(self) -> TensorSpec:
        """The end signals' spec: "done" and "terminated" always, "truncated" where the env tells it."""
        return self._leaf_or_composite("full_done_spec")

    @done_spec.setter
    def done_spec(self, spec: TensorSpec) -> None:
        self._set_spec("full_done_spec", spec, DONE)

    full_observation_spec = observation_spec
    full_state_spec = state_spec

    @property
    def full_action_spec(self) -> Composite:
        """The actions' specs as a composite."""
        return self._specs["full_action_spec"]

    @full_action_spec.setter
    def full_action_spec(self, spec: Composite) -> None:
        self.action_spec = spec

    @property
    def full_reward_spec(self) -> Composite:
        """The rewards' specs as a composite."""
        return self._specs["full_reward_spec"]

    @full_reward_spec.setter
    def full_reward_spec(self, spec: Composite) -> None:
        self.reward_spec = spec

    @property
    def full_done_spec(self) -> Composite:
        """The end signals' specs as a composite."""
        return self._specs["full_done_spec"]

    @full_done_spec.setter
    def full_done_spec(self, spec: Composite) -> None:
        self.done_spec = spec

    @property
    def input_spec(self) -> Composite:
        """What the env takes: "full_action_spec" and "full_state_spec". Locked."""
        return self._group("input_spec", _INPUT)

    @property
    def output_spec(self) -> Composite:
        """What the env gives: "full_observation_spec", "full_reward_spec" and "full_done_spec". Locked."""
        return self._group("output_spec", _OUTPUT)

    @property
    def specs(self) -> Composite:
        """Everything in one composite, "input_spec" and "output_spec", which outlives the env. Locked."""
        groups = {"input_spec": self.input_spec, "output_spec": self.output_spec}
        specs = Composite(groups, shape=self.batch_size, device=self.device)
        return specs.lock_() if self.is_spec_locked else specs

    def _group(self, name: str, members: tuple[str, ...]) -> Composite:
        if name not in self._cache:
            specs = {member: self._specs[member] for member in members}
            group = Composite(specs, shape=self.batch_size, device=self.device)
            if not self.is_spec_locked:
                return group
            self._cache[name] = group.lock_()
        return self._cache[name]

    # Keys ---------------------------------------------------------------------------------------------------------

    @property
    def action_keys(self) -> list[NestedKey]:
        """The keys of the actions, those at the root first."""
        return self._keys("full_action_spec")

    @property
    def action_key(self) -> NestedKey:
        """The key of the action. Raises KeyError when there are several."""
        return self._only_key("action")

    @property
    def reward_keys(self) -> list[NestedKey]:
        """The keys of the rewards, those at the root first."""
        return self._keys("full_reward_spec")

    @property
    def reward_key(self) -> NestedKey:
        """The key of the reward. Raises KeyError when there are several."""
        return self._only_key("reward")

    @property
    def done_keys(self) -> list[NestedKey]:
        """The keys of the end signals: done, terminated and truncated of every level."""
        return self._keys("full_done_spec")

    @property
    def done_key(self) -> NestedKey:
        """The key of the "done" signal. Raises KeyError when there are several levels."""
        return self._only_key("done")

    @property
    def state_keys(self) -> list[NestedKey]:
        """The keys of the inputs that are no actions."""
        return self._keys("full_state_spec")

    @property
    def observation_keys(self) -> list[NestedKey]:
        """The keys of the observations, in the order of ``observation_spec``."""
        if "observation_keys" not in self._cache:
            self._cache["observation_keys"] = list(self.observation_spec.keys(True, True))
        return list(self._cache["observation_keys"])

    @property
    def done_keys_groups(self) -> list[list[NestedKey]]:
        """The end signals of each level together, in the order of :attr:`reset_keys`."""
        if "done_keys_groups" not in self._cache:
            groups: dict[tuple[str, ...], list[NestedKey]] = {}
            for key in self.done_keys:
                groups.setdefault(as_tuple(key)[:-1], []).append(key)
            self._cache["done_keys_groups"] = list(groups.values())
        return [list(group) for group in self._cache["done_keys_groups"]]

    @property
    def reset_keys(self) -> list[NestedKey]:
        """A "_reset" key for each level that has end signals."""
        return [as_key((*as_tuple(group[0])[:-1], "_reset")) for group in self.done_keys_groups]

    def _keys(self, name: str) -> list[NestedKey]:
        if name not in self._cache:
            self._cache[name] = by_depth(self._specs[name].keys(True, True))
        return list(self._cache[name])

    def _only_key(self, what: str) -> NestedKey:
        keys = getattr(self, f"{what}_keys")
        if what == "done":
            keys = [key for key in keys if as_tuple(key)[-1] == DONE]
        if len(keys) != 1:
            raise KeyError(
                f"env.{what}_key is the key of the only {what}, and this env has {len(keys)}: {keys}. "
                f"Use env.{what}_keys."
            )
        return keys[0]

    # Life ---------------------------------------------------------------------------------------------------------

    @property
    def batch_size(self) -> torch.Size:
        """How many envs are batched together: the leading shape of all data. ``__init__`` may set it."""
        return self._batch_size

    @batch_size.setter
    def batch_size(self, batch_size: Sequence[int]) -> None:
        size = torch.Size(batch_size)
        if "_modules" not in self.__dict__:
            self.__dict__["_early_batch_size"] = size
            return
        if size == self._batch_size:
            return
        own = [spec for spec in self._specs.values() if not spec.is_empty()]
        if self.is_spec_locked or any(all(spec is not default for default in self._default_specs) for spec in own):
            raise RuntimeError(
                f"The batch size of {type(self).__name__} is {tuple(self._batch_size)}, and its specs have it already. "
                "Fix: super().__init__(batch_size=...), or set it before the specs."
            )
        self._batch_size = size
        self._specs = {name: Composite(shape=size, device=self._device) for name in self._specs}
        self._set_default_specs()

    @property
    def shape(self) -> torch.Size:
        """Another name of :attr:`batch_size`."""
        return self.batch_size

    def numel(self) -> int:
        """Count the envs: the product of the batch size.

        Returns:
            A number, 1 for a single env.
        """
        return self.batch_size.numel()

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions."""
        return len(self._batch_size)

    ndim = batch_dims

    def ndimension(self) -> int:
        """Return the number of batch dimensions, as :attr:`ndim` does."""
        return self.batch_dims

    @property
    def device(self) -> torch.device | None:
        """Device of the data; None leaves tensors where the env creates them. ``__init__`` may set it."""
        return self._device

    @device.setter
    def device(self, device: torch.device | str | int | None) -> None:
        found = None if device is None else torch.device(device)
        if "_modules" not in self.__dict__:
            self.__dict__["_early_device"] = found
            return
        if found == self._device:
            return
        if self.is_spec_locked or found is None:
            raise RuntimeError(f"device cannot be set on a {type(self).__name__}. Fix: env = env.to({str(found)!r}).")
        self._device = found
        for name, spec in self._specs.items():
            self._specs[name] = spec.to(found)
        self._default_specs = self._specs["full_reward_spec"], self._specs["full_done_spec"]

    def empty_cache(self) -> None:
        """Forget what was derived from the specs, such as lists of keys."""
        self._cache.clear()

    def assert_distinct_keys(self) -> None:
        """Refuse specs that put two things into one place.

        Raises:
            ValueError: if an entry is in two of the env's specs, or is called "next" or "_reset", or if an end signal
                is called something else than one.
        """
        for key in self.done_keys:
            if as_tuple(key)[-1] not in END_KEYS:
                raise ValueError(
                    f"done_spec has an entry {key!r}, and the key of an end signal ends with one of {END_KEYS}. "
                    "Fix: rename it, or put it into observation_spec."
                )
        homes: dict[tuple[str, ...], str] = {}
        for name, spec in self._specs.items():
            for key in map(as_tuple, spec.keys(True, True)):
                public = name.removeprefix("full_")
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

    def add_truncated_keys(self) -> EnvSpecs:
        """Add a "truncated" signal beside each "done" in the spec.

        Returns:
            The env.
        """
        done = self.full_done_spec.clone()
        for key in list(done.keys(True, True)):
            path = as_tuple(key)
            if path[-1] == DONE:
                done[as_key((*path[:-1], TRUNCATED))] = done[key].clone()
        self.done_spec = done
        return self


def with_twins(spec: Composite) -> Composite:
    """Give every level that has an end signal both "done" and "terminated"."""
    levels = {as_tuple(key)[:-1]: key for key in spec.keys(True, True) if as_tuple(key)[-1] in END_KEYS}
    present = {as_tuple(key) for key in spec.keys(True, True)}
    for level, key in levels.items():
        for name in (DONE, TERMINATED):
            if (*level, name) not in present:
                spec[as_key((*level, name))] = spec[key].clone()
    return spec


def _check_batch(name: str, shape: torch.Size, batch_size: torch.Size) -> None:
    if tuple(shape[: len(batch_size)]) == tuple(batch_size):
        return
    public = name.removeprefix("full_")
    lead = ", ".join(map(str, (*batch_size, *shape)))
    raise ValueError(
        f"{public} has shape {tuple(shape)}, and the env's batch size is {tuple(batch_size)}: "
        f"the shape of a spec starts with the batch size. "
        f"Fix: give it shape=({lead}{',' if ',' not in lead else ''}), or call spec.expand({lead})."
    )


def _check_dims(name: str, spec: Composite) -> None:
    """Refuse rewards and end signals without a dimension: they have one of size 1 behind those of the batch."""
    for key, leaf in spec.items(True, True):
        if leaf is not None and len(leaf.shape) == 0:
            public = name.removeprefix("full_")
            raise RuntimeError(
                f"The entry {key!r} of {public} has shape (), and rewards and end signals have at least one dimension. "
                f"Fix: {type(leaf).__name__.replace('Continuous', '')}(..., shape=(1,))."
            )


class ForgetfulCache(dict[str, Any]):
    """A cache in which nothing is ever found, though what was just written can be read."""

    def __contains__(self, key: object) -> bool:
        return False


__all__ = ["EnvSpecs", "ForgetfulCache", "with_twins"]
