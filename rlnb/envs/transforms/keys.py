"""Transforms that move, remove or concatenate entries, in the data and in the specs."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch

from rlnb._tensordict import shallow_copy
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import is_branch
from rlnb.envs.transforms.transform import Keys, Transform, key_list, remove_entry


class RenameTransform(Transform):
    """Moves entries to other keys, in the data and in the specs.

    A renamed reward is still a reward, and so on: ``env.reward_keys`` and the like follow. All entries move at once, so
    two of them can be swapped.

    Args:
        in_keys: the old keys of the entries.
        out_keys: their new keys.
        in_keys_inv: keys of inputs (actions, states) in the base env.
        out_keys_inv: their keys outside.
        create_copy: whether to keep the entries under their old keys, too; also in the inverse.

    Raises:
        ValueError: If the keys do not pair up, two entries get the same key, or an end signal gets another name.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), RenameTransform("reward", ("nested", "reward")))
        >>> env.reward_keys, env.rollout(3)["next", "nested", "reward"].shape
        ([('nested', 'reward')], torch.Size([3, 1]))
    """

    _inverts_whole = False

    def __init__(
        self,
        in_keys: Keys,
        out_keys: Keys,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
        create_copy: bool = False,
    ) -> None:
        super().__init__(in_keys, out_keys, in_keys_inv, out_keys_inv)
        for name, keys in (("in_keys", self.in_keys), ("out_keys", self.out_keys), ("in_keys_inv", self.in_keys_inv)):
            twice = [key for key in keys if keys.count(key) > 1]
            if twice:
                raise ValueError(f"RenameTransform has {twice[0]!r} twice in {name}, but an entry has only one key.")
        self.create_copy = create_copy
        self._levels: list[tuple[NestedKey, NestedKey]] = []

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return self._move(next_tensordict, self.in_keys, self.out_keys)

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._move(tensordict, self.out_keys_inv, self.in_keys_inv)

    def _move(self, data: TensorDictBase, sources: list[NestedKey], targets: list[NestedKey]) -> TensorDictBase:
        values = [self._read(data, key) for key in sources]
        for key, value in zip(sources, values, strict=True):
            if value is not None and not self.create_copy:
                remove_entry(data, as_tuple(key))
        for key, value in zip(targets, values, strict=True):
            if value is not None:
                data.set(key, value)
        return data

    def _inv_apply_transform(self, value: Any) -> Any:
        return value

    def _reset_env_preprocess(self, tensordict: TensorDictBase) -> TensorDictBase:
        tensordict = super()._reset_env_preprocess(tensordict)
        moved = [(outer, inner) for outer, inner in self._levels if tensordict.get(outer, None) is not None]
        if not moved:
            return tensordict
        tensordict = shallow_copy(tensordict)
        for outer, inner in moved:
            if tensordict.get(inner, None) is None:
                tensordict.set(inner, tensordict.get(outer))
            if not self.create_copy:
                remove_entry(tensordict, as_tuple(outer))
        return tensordict

    def _forward_specs(self, composite: Composite) -> Composite:
        return self._move_specs(composite, self.in_keys, self.out_keys)

    def _inverse_specs(self, composite: Composite) -> Composite:
        return self._move_specs(composite, self.in_keys_inv, self.out_keys_inv)

    def _move_specs(self, composite: Composite, sources: list[NestedKey], targets: list[NestedKey]) -> Composite:
        self._need_composite(composite)
        pairs = [pair for pair in zip(sources, targets, strict=True) if pair[0] in composite]
        specs = [composite[source].clone() for source, _ in pairs]
        for source, _ in pairs:
            if not self.create_copy:
                remove_entry(composite, as_tuple(source))
        for (_, target), spec in zip(pairs, specs, strict=True):
            composite.set(target, spec)
        return composite

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Rename end signals; ``ValueError`` if the new name is not that of an end signal. See :class:`Transform`."""
        self._levels = []
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            if in_key not in done_spec:
                continue
            inner, outer = as_tuple(in_key), as_tuple(out_key)
            if outer[-1] not in END_KEYS:
                raise ValueError(
                    f"RenameTransform renames the end signal {in_key!r} to {out_key!r}, but end signals must be "
                    f"named {', '.join(map(repr, END_KEYS))}, at any level. "
                    f"Fix: a key such as {as_key(('agents', inner[-1]))!r}."
                )
            masks = as_key((*outer[:-1], "_reset")), as_key((*inner[:-1], "_reset"))
            if masks[0] != masks[1] and masks not in self._levels:
                self._levels.append(masks)
        return self._forward_specs(done_spec)


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
        """Return a new TensorDict with the selected entries, and under "next" also rewards and end signals."""
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

    @property
    def invertible(self) -> bool:
        """Whether :meth:`inv` changes anything."""
        return self.inverse

    def _remove(self, data: TensorDictBase) -> TensorDictBase:
        for key in self.excluded_keys:
            if data.get(key, None) is not None:
                data.del_(key)
        return data

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


class CatTensors(Transform):
    """Concatenates entries into one.

    Args:
        in_keys: the entries. Default: the observations of the env that are vectors (or all, if none is), except those
            that it reads back (its state).
        out_key: the result.
        dim: the dimension to concatenate along, counted from the end.
        del_keys: whether to remove the entries.
        unsqueeze_if_oor: whether to add a missing dimension ``dim`` of size 1 to entries.
        sort: whether to concatenate in the alphabetical order of the keys, instead of the order of ``in_keys``.

    Raises:
        ValueError: If ``dim`` is not negative.

    Example:
        >>> from tensordict import TensorDict
        >>> cat = CatTensors(["velocity", "position"], out_key="observation")
        >>> cat(TensorDict({"position": torch.zeros(2), "velocity": torch.ones(1)}))["observation"]
        tensor([0., 0., 1.])
    """

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_key: NestedKey = "observation_vector",
        dim: int = -1,
        *,
        del_keys: bool = True,
        unsqueeze_if_oor: bool = False,
        sort: bool = True,
    ) -> None:
        if dim >= 0:
            raise ValueError(
                f"dim={dim} counts from the front, where batch and time dimensions come and go. Fix: count from the "
                "end; -1 is the last dimension."
            )
        super().__init__()
        self.dim, self.del_keys, self.unsqueeze_if_oor, self.sort = dim, del_keys, unsqueeze_if_oor, sort
        self.out_keys = key_list([out_key], "out_key")
        self._all, self._state = in_keys is None, list[NestedKey]()
        self._use(key_list(in_keys, "in_keys"))

    def _pair_up(self) -> None:
        """Accept any number of ``in_keys``: there is one ``out_key`` for all."""

    def _use(self, keys: list[NestedKey]) -> None:
        self.in_keys = sorted(keys, key=as_tuple) if self.sort else keys

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        values = [self._read(next_tensordict, key) for key in self.in_keys]
        if any(value is None for value in values) or not values:
            return next_tensordict
        result = self._cat(values, next_tensordict.batch_dims)
        if self.del_keys:
            for key in self.in_keys:
                next_tensordict.del_(key)
        return next_tensordict.set(self.out_keys[0], result)

    @dispatch(source="in_keys", dest="out_keys")
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Concatenate the entries of data; see :meth:`Transform.forward`."""
        if not self.in_keys:
            raise ValueError("CatTensors has no keys to concatenate. Fix: CatTensors(in_keys=[...]).")
        return self._call(tensordict)

    def _cat(self, values: list[torch.Tensor], batch_dims: int) -> torch.Tensor:
        if self.unsqueeze_if_oor:
            values = [self._with_dim(value, batch_dims) for value in values]
        try:
            if any(value.ndim - batch_dims < -self.dim for value in values):
                raise RuntimeError
            return torch.cat(values, self.dim)
        except RuntimeError:
            shapes = ", ".join(f"{key!r} {tuple(v.shape)}" for key, v in zip(self.in_keys, values, strict=True))
            raise ValueError(
                f"CatTensors concatenates along dimension {self.dim}, which all entries must have, with equal sizes in "
                f"all others, and got {shapes}, with {batch_dims} batch dimensions. Fix: unsqueeze_if_oor=True adds a "
                "missing dimension."
            ) from None

    def _with_dim(self, value: torch.Tensor, batch_dims: int) -> torch.Tensor:
        while value.ndim - batch_dims < -self.dim:
            value = value.unsqueeze(batch_dims)
        return value

    def _learn_input(self, input_spec: Composite) -> None:
        self._state = input_spec["full_state_spec"].keys(True, True)

    def _learn_output(self, output_spec: Composite) -> None:
        if self._all:
            specs = output_spec["full_observation_spec"]
            keys = [key for key in specs.keys(True, True) if key not in self._state]
            vectors = [key for key in keys if specs[key].ndim == specs.ndim + 1]
            self._use(vectors or keys)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Replace the entries by the result; see :class:`Transform`."""
        self._need_composite(observation_spec)
        specs = [observation_spec.get(key) for key in self.in_keys]
        if not specs or any(spec is None for spec in specs):
            return observation_spec
        result = self._cat_specs(specs, observation_spec.ndim)
        if self.del_keys:
            for key in self.in_keys:
                observation_spec.pop(key)
        return observation_spec.set(self.out_keys[0], result)

    def _cat_specs(self, specs: list[TensorSpec], batch_dims: int) -> TensorSpec:
        blank = self._cat([spec.zero() for spec in specs], batch_dims)
        if all(isinstance(spec, Bounded) and spec.dtype == blank.dtype for spec in specs):
            lows, highs = ([getattr(spec, end).expand(spec.shape) for spec in specs] for end in ("low", "high"))
            low, high = self._cat(lows, batch_dims), self._cat(highs, batch_dims)
            return Bounded(low, high, shape=blank.shape, dtype=blank.dtype, device=blank.device)
        return Unbounded(shape=blank.shape, dtype=blank.dtype, device=blank.device)

    def _forward_specs(self, composite: Composite) -> Composite:
        return composite  # rewards and end signals

    def __repr__(self) -> str:
        return f"CatTensors(in_keys={self.in_keys}, out_key={as_key(as_tuple(self.out_keys[0]))!r})"
