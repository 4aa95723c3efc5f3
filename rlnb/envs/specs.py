"""What an environment takes and gives: its specs, and the keys that follow from them."""

from __future__ import annotations

from typing import Any

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
        self.reward_spec = Unbounded(shape=(*batch_size, 1), device=device)
        self.done_spec = Categorical(2, shape=(*batch_size, 1), dtype=torch.bool, device=device)

    def __getattr__(self, name: str) -> Any:
        if name in ("_specs", "_batch_size", "_device"):
            raise RuntimeError(
                f"{type(self).__name__}.__init__ used what the base of all environments makes. Fix: call "
                "super().__init__(batch_size=..., device=...) before anything else."
            )
        return super().__getattr__(name)

    # Reading and setting ------------------------------------------------------------------------------------------

    def _set_spec(self, name: str, spec: TensorSpec, default_key: str) -> None:
        """Replace one of the five composites; nothing changes if the spec does not fit."""
        if not isinstance(spec, TensorSpec):
            raise TypeError(
                f"{name.removeprefix('full_')} must be a TensorSpec and is a {type(spec).__name__}. "
                f"Wrap it, for example: env.{name.removeprefix('full_')} = Unbounded(shape=(3,))."
            )
        if not isinstance(spec, Composite):
            _check_batch(name, default_key, spec.shape, self.batch_size)
            spec = Composite({default_key: spec}, shape=self.batch_size)
        else:
            _check_batch(name, None, spec.shape, self.batch_size)
            spec = spec.clone()
        if self._device is not None:
            spec = spec.to(self._device)
        if name == "full_done_spec":
            spec = with_twins(spec)
        self._specs[name] = spec.lock_()
        self._unchecked = {"reset", "step"}
        self.empty_cache()

    def _leaf_or_composite(self, name: str) -> TensorSpec:
        """The only leaf of a composite if there is exactly one, else the composite."""
        spec = self._specs[name]
        known: tuple[Composite, TensorSpec] | None = self._cache.get(f"{name}_leaf")
        if known is None or known[0] is not spec:
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
        return Composite(groups, shape=self.batch_size, device=self.device).lock_()

    def _group(self, name: str, members: tuple[str, ...]) -> Composite:
        if name not in self._cache:
            specs = {member: self._specs[member] for member in members}
            self._cache[name] = Composite(specs, shape=self.batch_size, device=self.device).lock_()
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
        """How many envs are batched together: the leading shape of all data."""
        return self._batch_size

    shape = batch_size

    @property
    def batch_dims(self) -> int:
        """The number of batch dimensions."""
        return len(self._batch_size)

    ndim = batch_dims

    @property
    def device(self) -> torch.device | None:
        """Where the data of the env lives; None for no statement."""
        return self._device

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


def _check_batch(name: str, key: str | None, shape: torch.Size, batch_size: torch.Size) -> None:
    dims = len(batch_size)
    if tuple(shape[:dims]) == tuple(batch_size) and (key is not None or len(shape) == dims):
        return
    public = name.removeprefix("full_")
    lead = ", ".join(map(str, (*batch_size, *shape)))
    raise ValueError(
        f"{public} has shape {tuple(shape)}, and the env's batch size is {tuple(batch_size)}: "
        f"the shape of a spec starts with the batch size. "
        f"Fix: give it shape=({lead}{',' if ',' not in lead else ''}), or call spec.expand({lead})."
    )
