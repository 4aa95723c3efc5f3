"""Plain functions as transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensordict import TensorDictBase

from rlnb.envs.transforms import faults
from rlnb.envs.transforms.transform import Transform, checked


class _CallableTransform(Transform):
    """A function of a TensorDict, called with the data of each step and of each reset.

    What it adds is in no spec: :func:`~rlnb.envs.check_env_specs` reports it. A function that is to be used in a
    batched env, or whose entries others shall find in the specs, is better written as a :class:`Transform`.

    Args:
        function: takes and returns a TensorDict.
    """

    def __init__(self, function: Callable[[TensorDictBase], TensorDictBase]) -> None:
        super().__init__()
        self.function = function

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return checked(self, self.function(next_tensordict))


def as_transform(what: Any) -> Transform:
    """Make a transform of a transform or a function.

    Args:
        what: a :class:`Transform`, or a function that takes and returns a TensorDict.

    Returns:
        The transform itself, or one that calls the function.

    Raises:
        TypeError: if it is neither.

    Example:
        >>> as_transform(lambda td: td)
        _CallableTransform(keys=[])
    """
    if isinstance(what, Transform):
        return what
    if not callable(what) or isinstance(what, type):
        raise TypeError(faults.no_transform(what))
    return _CallableTransform(what)


__all__ = ["as_transform"]
