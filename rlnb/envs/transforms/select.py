"""``SelectTransform``, ``ExcludeTransform`` and ``RemoveEmptySpecs``, which remove entries."""

from __future__ import annotations

from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import is_branch
from rlnb.envs.transforms.transform import Transform, key_list


class SelectTransform(Transform):
    """Keeps only the selected entries of the data and of the specs.

    Entries that an env reads back from its data (its state) are kept, too.

    Args:
        *selected_keys: the entries, or nested TensorDicts with all of their entries.
        keep_rewards: whether to keep all rewards.
        keep_dones: whether to keep all end signals.

    Example:
        >>> from rlnb.envs import PendulumEnv, StepCounter, TransformedEnv
        >>> env = TransformedEnv(PendulumEnv(), StepCounter()).append_transform(SelectTransform("step_count"))
        >>> sorted(env.reset().keys())[:3]
        ['done', 'params', 'step_count']
    """

    def __init__(self, *selected_keys: NestedKey, keep_rewards: bool = True, keep_dones: bool = True) -> None:
        super().__init__()
        self.selected_keys = key_list(list(selected_keys), "selected_keys")
        self.keep_rewards, self.keep_dones = keep_rewards, keep_dones
        self._rewards: list[NestedKey] = ["reward"]
        self._dones: list[NestedKey] = list(END_KEYS)
        self._state: list[NestedKey] = []

    def _kept(self) -> list[NestedKey]:
        """Return the entries that are kept without being selected."""
        return (self._rewards if self.keep_rewards else []) + (self._dones if self.keep_dones else []) + self._state

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for key in self.selected_keys:
            self._read(next_tensordict, key)
        return next_tensordict.select(*self.selected_keys, *self._kept(), strict=False)

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Keep only the selected entries, and rewards and end signals under "next", too; returns a new TensorDict."""
        for key in self.selected_keys:
            self._read(tensordict, key)
        kept = self._kept()
        after = [as_key(("next", *as_tuple(key))) for key in kept]
        return tensordict.select(*self.selected_keys, *kept, *after, strict=False)

    def _learn_output(self, output_spec: Composite) -> None:
        self._rewards = output_spec["full_reward_spec"].keys(True, True)
        self._dones = output_spec["full_done_spec"].keys(True, True)

    def _learn_input(self, input_spec: Composite) -> None:
        self._state = input_spec["full_state_spec"].keys(True, True)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Keep only the selected entries; see :class:`Transform`."""
        self._need_composite(observation_spec)
        return observation_spec.select(*self.selected_keys, *self._state, strict=False)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Keep all rewards, or the selected ones; see :class:`Transform`."""
        return reward_spec if self.keep_rewards else reward_spec.select(*self.selected_keys, strict=False)

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Keep all end signals, or the selected ones; see :class:`Transform`."""
        return done_spec if self.keep_dones else done_spec.select(*self.selected_keys, strict=False)


class ExcludeTransform(Transform):
    """Removes entries from the data and from the specs; missing ones are ignored.

    Args:
        *excluded_keys: the entries, or nested TensorDicts with all of their entries.
        inverse: whether to remove them in the inverse, from the inputs of the env or from data that a buffer stores,
            instead of forward.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), ExcludeTransform("truncated"))
        >>> sorted(env.reset().keys())
        ['done', 'observation', 'terminated']
    """

    def __init__(self, *excluded_keys: NestedKey, inverse: bool = False) -> None:
        super().__init__()
        self.excluded_keys = key_list(list(excluded_keys), "excluded_keys")
        self.inverse = inverse

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict if self.inverse else self._remove(next_tensordict)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._remove(tensordict) if self.inverse else tensordict

    def _remove(self, data: TensorDictBase) -> TensorDictBase:
        for key in self.excluded_keys:
            if data.get(key, None) is not None:
                data.del_(key)
        return data

    @property
    def invertible(self) -> bool:
        """Whether :meth:`inv` changes anything."""
        return self.inverse

    def _forward_specs(self, composite: Composite) -> Composite:
        self._need_composite(composite)
        return composite if self.inverse else composite.exclude(*self.excluded_keys)


class RemoveEmptySpecs(Transform):
    """Removes empty Composites from the specs, and empty TensorDicts from the data.

    Gymnasium has no equivalent space.

    Example:
        >>> from tensordict import TensorDict
        >>> sorted(RemoveEmptySpecs()(TensorDict({"info": {}, "observation": 1})).keys())
        ['observation']
    """

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        for name, value in list(next_tensordict.items()):
            if is_branch(value) and self._call(value).is_empty():
                next_tensordict.del_(name)
        return next_tensordict

    def _forward_specs(self, composite: Composite) -> Composite:
        self._need_composite(composite)
        for name, spec in list(composite.items()):
            if isinstance(spec, Composite) and self._forward_specs(spec).is_empty():
                composite.pop(name)
        return composite

    _inverse_specs = _forward_specs


__all__ = ["ExcludeTransform", "RemoveEmptySpecs", "SelectTransform"]
