"""``DiscreteActionProjection``, one action space for envs with different numbers of actions."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.transforms.transform import Transform, key_list


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

    # Data ---------------------------------------------------------------------------------------------------------

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

    # Specs --------------------------------------------------------------------------------------------------------

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


__all__ = ["DiscreteActionProjection"]
