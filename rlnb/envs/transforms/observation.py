"""``ObservationTransform``, the base class of transforms of observations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms.transform import Keys, Transform


class ObservationTransform(Transform):
    """Base class of transforms that change observations, but not rewards and end signals.

    Args:
        in_keys: the observations. Default: "observation" and "pixels", whichever exist; for image transforms, "pixels".

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
    #: Whether one of the default keys suffices.
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
        """Return the spec of the rewards unchanged; see :class:`Transform`."""
        return reward_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Return the spec of the end signals unchanged; see :class:`Transform`."""
        return done_spec


def spec_of(function: Callable[[torch.Tensor], torch.Tensor], spec: TensorSpec, monotone: bool = True) -> TensorSpec:
    """Return the spec of the results of a function of tensors: Bounded if ``spec`` is and the function is monotone.

    ``monotone``: a greater input never has a smaller result, so that bounds map to bounds. This also holds for
    floating-point sums with non-negative weights, including rounding.
    """
    if monotone and isinstance(spec, Bounded):
        low, high = (function(bound.expand(spec.shape)) for bound in (spec.low, spec.high))
        return Bounded(low, high, shape=low.shape, dtype=low.dtype, device=spec.device)
    blank = function(spec.zero())
    return Unbounded(shape=blank.shape, dtype=blank.dtype, device=spec.device)


__all__ = ["ObservationTransform", "spec_of"]
