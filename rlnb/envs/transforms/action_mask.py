"""``ActionMask``, which writes the mask of legal actions into the action spec."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.keys import unknown_key
from rlnb.data.specs.maskable import MaskableSpec
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.carried import choose_rows, find_mask
from rlnb.envs.transforms.transform import Transform, key_list


class ActionMask(Transform):
    """Writes the mask of legal actions into the action spec, after each step and each reset.

    ``env.rand_action`` and everything else that draws from ``env.action_spec`` then draws legal actions. With a batched
    env, put the transform around the batch, not into its members.

    Args:
        action_key: the action, whose spec must be discrete, such as :class:`~rlnb.data.OneHot`.
        mask_key: the mask among the observations, ``True`` (or 1) for legal actions.

    Raises:
        KeyError: If the env has no such action or no such mask.
        TypeError: If the action of the env is not discrete.
        RuntimeError: If it is called without an env.

    Example:
        >>> from rlnb.envs import GridWorldEnv, TransformedEnv
        >>> env = TransformedEnv(GridWorldEnv(["S.G"], action_mask=True), ActionMask())
        >>> env.reset()["action_mask"].tolist(), env.rand_action()["action"].tolist()
        ([False, False, True, False], [0, 0, 1, 0])
    """

    ACCEPTED_SPECS = (OneHot, Categorical, MultiOneHot, MultiCategorical)

    def __init__(self, action_key: NestedKey = "action", mask_key: NestedKey = "action_mask") -> None:
        super().__init__()
        (self.action_key,), (self.mask_key,) = key_list([action_key], "action_key"), key_list([mask_key], "mask_key")
        self._mask: torch.Tensor | None = None

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        self._write(self._need(next_tensordict, self.mask_key))
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        fresh = self._need(tensordict_reset, self.mask_key)
        rows = find_mask(tensordict, self.mask_key)
        before = None if rows is None else tensordict.get(self.mask_key, self._mask)
        self._write(choose_rows(rows, fresh, before, tensordict.ndim))
        return tensordict_reset

    def _write(self, mask: torch.Tensor) -> None:
        env = self._env()
        if env is None:
            raise RuntimeError(errors.needs_env(self, "writes into the action spec of an env"))
        self._mask = mask
        # Gymnasium's masks are integers, 1 for legal actions.
        env.full_action_spec[self.action_key].update_mask(mask.bool())

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Not supported: data has no action spec."""
        raise RuntimeError(errors.needs_env(self, "writes into the action spec of an env"))

    def transform_action_spec(self, action_spec: Composite) -> Composite:
        """Write the last mask into a new spec; see :class:`Transform`."""
        self._need_composite(action_spec)
        if self.action_key not in action_spec:
            raise unknown_key(self.action_key, action_spec.keys(True, True), "the action spec")
        spec = action_spec[self.action_key]
        if not isinstance(spec, MaskableSpec):
            raise errors.SpecTypeError(
                f"ActionMask masks a choice among actions, and the spec of {self.action_key!r} is a "
                f"{type(spec).__name__}. Specs that can be masked: Categorical, OneHot, MultiCategorical, MultiOneHot."
            )
        if self._mask is not None:
            spec.update_mask(self._mask.bool())
        return action_spec

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Check that the mask exists; see :class:`Transform`."""
        self._need_composite(observation_spec)
        if self.mask_key not in observation_spec:
            raise unknown_key(self.mask_key, observation_spec.keys(True, True), "the observation spec")
        return observation_spec

    def _forget(self) -> None:
        super()._forget()
        self._mask = None

    @property
    def action_spec(self) -> TensorSpec:
        """The spec of the action in the env around the transform."""
        env = self._env()
        if env is None:
            raise RuntimeError(errors.needs_env(self, "has the action spec of an env"))
        spec: TensorSpec = env.full_action_spec[self.action_key]
        return spec

    def __repr__(self) -> str:
        return f"ActionMask(keys={[self.action_key, self.mask_key]})"


__all__ = ["ActionMask"]
