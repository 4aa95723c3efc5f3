"""``EndOfLifeTransform``, which marks the loss of a life in games with several lives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.keys import DONE, NestedKey
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.transform import Transform, key_list


class EndOfLifeTransform(Transform):
    """Adds the number of lives, and a flag that is ``True`` if a life was lost or the episode ended.

    An agent learns faster to avoid losing a life if value estimates stop there, although the episode continues.

    Args:
        eol_key: the flag, of the shape of ``done_key``.
        lives_key: the number of lives, int64, of the shape of ``done_key``.
        done_key: the end signal of the episode.
        eol_attribute: dotted path of the env's attribute with the number of lives, a number or a function without
            arguments.

    Raises:
        TypeError: If ``eol_attribute`` is not a string.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> class ThreeLives(CartPoleEnv):
        ...     lives = 3
        >>> env = TransformedEnv(ThreeLives(), EndOfLifeTransform(eol_attribute="lives"))
        >>> env.base_env.lives = 2
        >>> env.rollout(1)["next", "lives"].item()
        2
    """

    _env_only = "asks an env for its lives"

    def __init__(
        self,
        eol_key: NestedKey = "end-of-life",
        lives_key: NestedKey = "lives",
        done_key: NestedKey = DONE,
        eol_attribute: str = "unwrapped.ale.lives",
    ) -> None:
        if not isinstance(eol_attribute, str):
            raise TypeError(
                f"eol_attribute must be the name of an attribute, got a {type(eol_attribute).__name__}. "
                "Fix: eol_attribute='unwrapped.ale.lives', which may be a number or a function."
            )
        super().__init__()
        names = key_list([eol_key, lives_key, done_key], "eol_key, lives_key or done_key")
        self.eol_key, self.lives_key, self.done_key = names
        self.eol_attribute = eol_attribute
        self._done_spec: TensorSpec | None = None

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        done = self._need(next_tensordict, self.done_key)
        lives = self._lives(done)
        before = self._carried.get(tensordict, self.lives_key)
        self._carried.put(next_tensordict, self.lives_key, lives)
        return next_tensordict.set(self.eol_key, done.clone() if before is None else (lives < before) | done)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        done = self._need(tensordict_reset, self.done_key)
        self._carried.restart(tensordict, tensordict_reset, self.lives_key, self._lives(done))
        return tensordict_reset.set(self.eol_key, torch.zeros_like(done))

    def _lives(self, done: torch.Tensor) -> torch.Tensor:
        """Return the number of lives of the env, in the shape of "done"."""
        env = self._env()
        if env is None:
            raise RuntimeError(errors.needs_env(self, "asks an env for its lives"))
        value: Any = env.base_env
        passed: list[str] = []
        for name in self.eol_attribute.split("."):
            try:
                value = getattr(value, name)
            except AttributeError:
                found = ".".join(passed) or repr(env.base_env)
                raise AttributeError(
                    f"EndOfLifeTransform looks for {self.eol_attribute!r}, and {found} has no attribute {name!r}. "
                    "Fix: EndOfLifeTransform(eol_attribute=...), the path of the number of lives in this env."
                ) from None
            passed.append(name)
        lives = torch.as_tensor(np.asarray(value() if callable(value) else value), dtype=torch.int64)
        if lives.numel() not in (1, done.numel()):
            raise ValueError(
                f"{self.eol_attribute!r} of the env must be one number of lives for each of its 'done', of shape "
                f"{tuple(done.shape)}, and has shape {tuple(lives.shape)}."
            )
        lives = lives.reshape(done.shape) if lives.numel() == done.numel() else lives.reshape(()).expand(done.shape)
        return lives.to(done.device).clone()

    def register_keys(self, loss_or_advantage: Any) -> None:
        """Make a loss or an advantage estimator treat the loss of a life as the end of an episode.

        Args:
            loss_or_advantage: an object with ``set_keys(done=..., terminated=...)``.
        """
        set_keys: Callable[..., Any] = loss_or_advantage.set_keys
        set_keys(done=self.eol_key, terminated=self.eol_key)

    # Specs --------------------------------------------------------------------------------------------------------

    def _learn_output(self, output_spec: Composite) -> None:
        done_spec = output_spec["full_done_spec"]
        if self.done_key not in done_spec:
            raise KeyError(
                f"EndOfLifeTransform reads {self.done_key!r}, and the env's end signals are "
                f"{list(done_spec.keys(True, True))}."
            )
        self._done_spec = done_spec[self.done_key]

    def _new_keys(self) -> list[NestedKey]:
        return [self.eol_key, self.lives_key]

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the flag and the number of lives; see :class:`Transform`."""
        self._need_composite(observation_spec)
        done = self._done_spec
        if done is not None:
            observation_spec.set(self.eol_key, Categorical(2, shape=done.shape, dtype=torch.bool, device=done.device))
            observation_spec.set(self.lives_key, Unbounded(shape=done.shape, dtype=torch.int64, device=done.device))
        return observation_spec

    def __repr__(self) -> str:
        return f"EndOfLifeTransform(eol_key={self.eol_key!r}, lives_key={self.lives_key!r})"


__all__ = ["EndOfLifeTransform"]
