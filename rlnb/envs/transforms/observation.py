"""ObservationTransform: the base of transforms of observations, which know what these are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase

from rlnb.data import Bounded, Composite, TensorSpec, Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms.transform import Keys, Transform


class ObservationTransform(Transform):
    """The base of transforms that change observations and leave rewards and end signals alone.

    Args:
        in_keys: the observations. Default: "observation" and "pixels", whichever there are; transforms of images have
            "pixels" alone.
        out_keys: where the results go. Default: ``in_keys``.
        in_keys_inv: as for :class:`Transform`.
        out_keys_inv: as for :class:`Transform`.

    Example:
        >>> from tensordict import TensorDict
        >>> class Half(ObservationTransform):
        ...     '''Halves observations.'''
        ...     def _apply_transform(self, value):
        ...         return value / 2
        >>> Half()(TensorDict({"observation": torch.ones(2)}))["observation"]
        tensor([0.5000, 0.5000])
    """

    _default_keys: ClassVar[tuple[str, ...]] = ("observation", "pixels")
    #: Whether one of the default keys is enough.
    _any_of = False

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        in_keys_inv: Keys | None = None,
        out_keys_inv: Keys | None = None,
    ) -> None:
        self._any_of = in_keys is None and len(self._default_keys) > 1
        super().__init__(list(self._default_keys) if in_keys is None else in_keys, out_keys, in_keys_inv, out_keys_inv)

    def _read(self, data: TensorDictBase, key: NestedKey) -> Any:
        value = data.get(key, None)
        if value is None and self._any_of and any(data.get(other, None) is not None for other in self.in_keys):
            return None
        return super()._read(data, key) if value is None else value

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Leave the rewards as they are; see :class:`Transform`."""
        return reward_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Leave the end signals as they are; see :class:`Transform`."""
        return done_spec


def spec_of(function: Callable[[torch.Tensor], torch.Tensor], spec: TensorSpec, monotone: bool = True) -> TensorSpec:
    """Find the spec of what a function makes of the values of a spec.

    Args:
        function: of a tensor.
        spec: of what it is given.
        monotone: whether a greater value never has a smaller result, so that bounds stay bounds. That holds of floating
            point sums with weights from 0 on too, rounding included.

    Returns:
        A Bounded spec if ``spec`` is one and the function is monotone, else an Unbounded one.

    Example:
        >>> spec_of(lambda x: x.float() / 255, Bounded(0, 255, shape=(3,), dtype=torch.uint8)).high
        tensor([1., 1., 1.])
    """
    if monotone and isinstance(spec, Bounded):
        low, high = (function(bound.expand(spec.shape)) for bound in (spec.low, spec.high))
        return Bounded(low, high, shape=low.shape, dtype=low.dtype, device=spec.device)
    blank = function(spec.zero())
    return Unbounded(shape=blank.shape, dtype=blank.dtype, device=spec.device)


__all__ = ["ObservationTransform", "spec_of"]
