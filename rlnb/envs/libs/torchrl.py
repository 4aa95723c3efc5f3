"""Wrapper that makes an environment of TorchRL an environment of rlnb."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs.torchrl import from_torchrl, import_torchrl
from rlnb.envs.base import EnvBase


class TorchRLWrapper(EnvBase):
    """Wraps an environment of TorchRL, also one that is batched, transformed or stateless.

    The entries, specs, batch size and device are those of the wrapped env, which keeps its state, seeds and checks.
    Attributes that the wrapper does not have are read from the wrapped env.

    Args:
        env: the environment, a ``torchrl.envs.EnvBase``. Closing the wrapper closes it.

    Raises:
        ImportError: If torchrl is not installed.
        TypeError: If ``env`` is not an environment of TorchRL.

    Example:
        >>> from torchrl.envs import GymEnv, StepCounter, TransformedEnv  # doctest: +SKIP
        >>> env = TorchRLWrapper(TransformedEnv(GymEnv("CartPole-v1"), StepCounter(10)))  # doctest: +SKIP
        >>> env.rollout(5)["next", "step_count"].flatten()  # doctest: +SKIP
        tensor([1, 2, 3, 4, 5])
    """

    def __init__(self, env: Any) -> None:
        import_torchrl("TorchRLWrapper")
        from torchrl.envs import EnvBase as TorchRLEnv

        if not isinstance(env, TorchRLEnv):
            raise TypeError(
                f"TorchRLWrapper wraps an environment of torchrl.envs and got a {type(env).__name__}. "
                "Fix: TorchRLWrapper(torchrl.envs.GymEnv('CartPole-v1')); environments of rlnb need no wrapper."
            )
        # The wrapped env checks its own data.
        super().__init__(env.device, env.batch_size, run_type_checks=False, allow_done_after_reset=True)
        self.__dict__["_env"] = env  # not a submodule: its parameters are its own
        self.batch_locked = bool(env.batch_locked)
        self.observation_spec = from_torchrl(env.observation_spec)
        self.action_spec = from_torchrl(env.full_action_spec_unbatched).expand(*env.batch_size)
        self.state_spec = from_torchrl(env.full_state_spec)
        self.reward_spec = from_torchrl(env.full_reward_spec)
        self.done_spec = from_torchrl(env.full_done_spec)

    def _reset(self, tensordict: TensorDictBase | None = None, **kwargs: Any) -> TensorDictBase:
        given = None if tensordict is None else tensordict.clone()
        found = self._env.reset(given, **kwargs)
        keys = [*self.observation_keys, *self.done_keys, *self.state_keys]
        return self._owned(found.select(*keys, strict=False))

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        return self._owned(self._env.step(tensordict.copy()).get("next"))

    def _step_marked(self, tensordict: TensorDictBase, mask: torch.Tensor) -> TensorDictBase:
        """Let the wrapped env take the partial step, if it can."""
        return self._step(tensordict.copy().set("_step", mask))

    def _owned(self, data: TensorDictBase) -> TensorDictBase:
        """Copy memory that the wrapped env may write to again, as batched envs do."""
        return data.clone() if self.batch_size else data.copy()

    def _set_seed(self, seed: int | None) -> None:
        if seed is not None:
            self._env.set_seed(seed)

    def rand_action(self, tensordict: TensorDictBase | None = None) -> TensorDictBase:
        """Write a random action, drawn by the wrapped env: of masked actions a legal one."""
        if tensordict is None:
            tensordict = TensorDict({}, self.batch_size, device=self.device)
        self._assert_batch_size(tensordict, "rand_action")
        with self.own_randomness():
            return self._env.rand_action(tensordict)

    def _release(self) -> None:
        if not self._env.is_closed:
            self._env.close()

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name.startswith("_") or "_env" not in self.__dict__:
                raise
            return getattr(self._env, name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._env!r})"
