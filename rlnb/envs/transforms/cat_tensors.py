"""``CatTensors``, the concatenation of several entries."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase
from tensordict.nn import dispatch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms.transform import Keys, Transform, key_list


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


__all__ = ["CatTensors"]
