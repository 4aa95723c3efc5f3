"""``VecGymEnvTransform``, for vector envs that reset their sub-envs in the step that ends an episode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.partial_reset import deciding, end_masks, overwrite, reset_masks
from rlnb.envs.transforms.auto_reset import AutoResetTransform


class VecGymEnvTransform(AutoResetTransform):
    """Assigns the observations of a vector env that resets its sub-envs itself to the episodes that they belong to.

    It is for backends whose step returns the first observation of the next episode where an episode ended, and the last
    observation in its info dictionary. An info reader copies the latter to the data, under ``final_name``. This
    transform moves it under "next", and returns the first observation of the next episode from the next reset, without
    resetting the sub-env again.

    Data without ``final_name`` is unchanged: :class:`~rlnb.envs.GymWrapper` returns correct data in every autoreset
    mode of Gymnasium by itself. The transform must be the first one of its env.

    Args:
        final_name: the entry with the last observations, by the names of the observations.
        missing_obs_value: value under "next" where an episode ended and its last observation is missing; 0 for
            integers, which have no NaN.
        native_autoreset: ``True`` is not supported.

    Example:
        >>> from rlnb.envs import GymEnv, TransformedEnv
        >>> env = TransformedEnv(GymEnv("CartPole-v1", num_envs=2), VecGymEnvTransform())
        >>> env.rollout(30, break_when_any_done=False)["next", "observation"].isnan().any()
        tensor(False)
    """

    def __init__(
        self, final_name: str = "final", missing_obs_value: Any = torch.nan, *, native_autoreset: bool = False
    ) -> None:
        if native_autoreset:
            raise NotImplementedError(
                "VecGymEnvTransform(native_autoreset=True) is not supported: the env would have to reset itself in "
                "each step. Fix: leave it out; GymEnv(id, num_envs=n) returns correct data in every autoreset mode."
            )
        if not isinstance(final_name, str):
            raise TypeError(f"final_name must be a string, got a {type(final_name).__name__}.")
        super().__init__()
        self.final_name, self.missing_obs_value = final_name, missing_obs_value

    def _learn_output(self, output_spec: Composite) -> None:
        env = self._env()
        members = [] if env is None else list(getattr(env.transform, "transforms", [env.transform]))
        if members and members[0] is not self:
            raise ValueError(
                f"VecGymEnvTransform must be the first transform of its env, and the first is a "
                f"{type(members[0]).__name__}: a transform before it would not see where episodes begin. "
                "Fix: env.insert_transform(0, VecGymEnvTransform())."
            )
        observation = output_spec["full_observation_spec"]
        keys = list(observation.keys(True, True))
        self._observations: list[NestedKey] = [key for key in keys if as_tuple(key)[0] != self.final_name]

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        env = self._env()
        assert env is not None
        self.forget()
        final = next_tensordict.get(self.final_name, None)
        if final is None:
            return next_tensordict
        next_tensordict = next_tensordict.exclude(self.final_name)
        restarted = end_masks(env.base_env, next_tensordict)
        if any(bool(mask.any()) for mask in restarted.values()):
            kept = next_tensordict.select(*self._observations, strict=False)
            self.__dict__.update(_kept=kept, _restarted=restarted)
            overwrite(next_tensordict, self._last(kept, final), deciding(restarted), env.base_env.ndim)
        return next_tensordict

    def _last(self, kept: TensorDictBase, final: TensorDictBase) -> TensorDictBase:
        """Return the last observations, or ``missing_obs_value`` where they are missing."""
        last = kept.empty()
        for key in self._observations:
            value = kept.get(key)
            given = final.get(key, None)
            last.set(key, self._missing(value) if given is None else given.to(value.dtype))
        return last

    def _missing(self, value: torch.Tensor) -> torch.Tensor:
        if value.dtype.is_floating_point or self.missing_obs_value == self.missing_obs_value:
            return torch.full_like(value, self.missing_obs_value)
        return torch.zeros_like(value)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        return tensordict_reset.exclude(self.final_name)

    def _reset_base_env(
        self, given: TensorDictBase | None, reset: Callable[[TensorDictBase | None], TensorDictBase]
    ) -> TensorDictBase:
        env = self._env()
        if env is None or self._kept is None or given is None or not reset_masks(env.base_env, given):
            self.forget()
            return reset(given)
        return self.hand_out(given, reset)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Remove the last observations; see :class:`Transform`."""
        return observation_spec.exclude(as_key((self.final_name,)))

    def __repr__(self) -> str:
        return f"VecGymEnvTransform(final_name={self.final_name!r})"


__all__ = ["VecGymEnvTransform"]
