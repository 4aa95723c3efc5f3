"""Transforms of discrete action spaces: ``ActionMask`` and ``DiscreteActionProjection``."""

from __future__ import annotations

import contextlib
from typing import Any

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
from rlnb.envs.transforms.rows import choose_rows, find_mask
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

    _mask: torch.Tensor | None
    ACCEPTED_SPECS = (OneHot, Categorical, MultiOneHot, MultiCategorical)

    def __init__(self, action_key: NestedKey = "action", mask_key: NestedKey = "action_mask") -> None:
        super().__init__()
        (self.action_key,), (self.mask_key,) = key_list([action_key], "action_key"), key_list([mask_key], "mask_key")

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


class DiscreteActionProjection(Transform):
    """Extends the action space of an env; actions that the env does not have are replaced by random ones that it has.

    With it, one policy can act in envs with different numbers of actions. Actions may be one-hot or integers, as in the
    env.

    Args:
        num_actions_effective: the number of actions of the env.
        max_actions: the number of actions of the transformed env.
        action_key: the action.
        include_forward: whether to pad one-hot actions to ``max_actions`` in the forward direction, on sampled data.

    Raises:
        ValueError: If ``max_actions`` is less than ``num_actions_effective``, or the env has another number of actions.
        TypeError: If the env's actions are not discrete.

    Example:
        >>> from rlnb.envs import GymEnv, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1"), DiscreteActionProjection(2, 5))
        >>> env.action_spec.shape, env.rollout(3)["action"].shape
        (torch.Size([5]), torch.Size([3, 5]))
    """

    def __init__(
        self,
        num_actions_effective: int,
        max_actions: int,
        action_key: NestedKey = "action",
        include_forward: bool = True,
    ) -> None:
        keys = key_list([action_key], "action_key")
        super().__init__(keys if include_forward else None, None, keys)
        if not 1 <= num_actions_effective <= max_actions:
            raise ValueError(
                f"max_actions={max_actions} must be at least num_actions_effective={num_actions_effective}, which must "
                "be at least 1."
            )
        self.num_actions_effective, self.max_actions = num_actions_effective, max_actions
        self._one_hot = True

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict  # steps and resets return no actions

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Pad one-hot actions of the env with zeros, and leave integers unchanged; see :meth:`Transform.forward`."""
        for key in self.in_keys:
            action = self._need(tensordict, key)
            missing = self.max_actions - self.num_actions_effective
            if self._one_hot and action.shape[-1] == self.num_actions_effective and missing:
                tensordict.set(key, torch.nn.functional.pad(action, (0, missing)))
        return tensordict

    def _inv_apply_transform(self, value: Any) -> torch.Tensor:
        count, choices = self.num_actions_effective, value
        if self._one_hot:
            if value.shape[-1] != self.max_actions:
                raise ValueError(
                    f"The action {self.in_keys_inv[0]!r} must be one-hot, with {self.max_actions} entries, got "
                    f"shape {tuple(value.shape)}. Fix: torch.nn.functional.one_hot(number, {self.max_actions})."
                )
            choices = value.to(torch.int8).argmax(-1)
        beyond = choices >= count
        if bool(beyond.any()):
            env = self._env()
            with contextlib.nullcontext() if env is None else env.own_randomness():
                drawn = torch.randint(count, choices.shape, device=choices.device, dtype=choices.dtype)
            choices = torch.where(beyond, drawn, choices)
        return torch.nn.functional.one_hot(choices.long(), count).to(value.dtype) if self._one_hot else choices

    def _inv_apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if not isinstance(spec, (OneHot, Categorical)):
            raise TypeError(
                f"DiscreteActionProjection needs discrete actions, one-hot or integers, and {self.in_keys_inv[0]!r} "
                f"has a {type(spec).__name__} spec."
            )
        if spec.n != self.num_actions_effective:
            raise ValueError(
                f"DiscreteActionProjection got num_actions_effective={self.num_actions_effective}, but the env has "
                f"{spec.n} actions. Fix: DiscreteActionProjection({spec.n}, {max(self.max_actions, spec.n)})."
            )
        self._one_hot = isinstance(spec, OneHot)
        if isinstance(spec, OneHot):
            shape = (*spec.shape[:-1], self.max_actions)
            return OneHot(self.max_actions, shape=shape, dtype=spec.dtype, device=spec.device)
        return Categorical(self.max_actions, shape=spec.shape, dtype=spec.dtype, device=spec.device)

    def __repr__(self) -> str:
        return (
            f"DiscreteActionProjection(num_actions_effective={self.num_actions_effective}, "
            f"max_actions={self.max_actions}, keys={self.in_keys_inv})"
        )
