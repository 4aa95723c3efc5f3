"""WhenStored: the base of transforms that work on what a buffer is to store, and leave what is sampled alone."""

from __future__ import annotations

from typing import ClassVar

from tensordict import TensorDictBase

from rlnb.data import Composite
from rlnb.envs.transforms import faults
from rlnb.envs.transforms.transform import Transform


class WhenStored(Transform):
    """The part of :class:`Reward2GoTransform` and :class:`MultiStepTransform` that says when they work.

    A subclass writes ``_store``, which is given trajectories of shape ``[..., time]``. It works backwards only, and in
    no env, for it looks at steps that an env has yet to take.
    """

    #: What it does, and the line that stores trajectories, for the error.
    _does: ClassVar[str]
    _fix: ClassVar[str]

    def _store(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change trajectories, in place, and return what is stored of them."""
        raise NotImplementedError

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Leave the data as it is: what is sampled was changed when it was stored.

        Args:
            tensordict: data of any batch size.

        Returns:
            The TensorDict.
        """
        return tensordict

    def _inv_call(self, tensordict: TensorDictBase) -> TensorDictBase:
        if not tensordict.ndim:
            raise ValueError(
                f"{type(self).__name__} {self._does} along the last dimension of the data, time, and the data has "
                f"batch size (). Fix: {self._fix}."
            )
        return self._store(tensordict)

    def _learn_output(self, output_spec: Composite) -> None:
        raise ValueError(faults.buffer_only(self, "looks at steps that an env has yet to take"))


__all__ = ["WhenStored"]
