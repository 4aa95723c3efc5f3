"""Reading what a gym-like backend gives and takes: observations, rewards, end signals and actions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from tensordict import NonTensorData, NonTensorStack, TensorDictBase

from rlnb.data import NonTensor
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.base import EnvBase

Outputs = tuple[Any, Any, Any, Any, Any, Mapping[str, Any]]
"""Of a step: observation, reward, terminated, truncated, done and info; end signals that are not told are None."""


class GymReading(EnvBase):
    """The part of :class:`~rlnb.envs.GymLikeEnv` that knows the backend's forms; a subclass overrides what differs."""

    def _output_transform(self, step_outputs_tuple: tuple[Any, ...]) -> Outputs:
        """Take apart what the backend's step returned."""
        if not isinstance(step_outputs_tuple, tuple) or len(step_outputs_tuple) not in (4, 5):
            raise TypeError(_not_a_step(self, step_outputs_tuple))
        observation, reward, *ends, info = step_outputs_tuple
        if len(ends) == 2:
            return observation, reward, *ends, None, info
        # The customary place of a time limit where there is one end signal only.
        return observation, reward, None, info.get("TimeLimit.truncated"), ends[0], info

    def _reset_output_transform(self, reset_outputs_tuple: Any) -> tuple[Any, Mapping[str, Any]]:
        """Take apart what the backend's reset returned: an observation, or that and an info dictionary."""
        outputs = reset_outputs_tuple
        if isinstance(outputs, tuple) and len(outputs) == 2 and isinstance(outputs[1], Mapping):
            return outputs
        return outputs, {}

    def read_action(self, action: Any) -> Any:
        """Turn an action into what the backend's step takes.

        Args:
            action: a tensor if the env has one action, else the TensorDict with all of them.

        Returns:
            A number or an array (a dictionary of them for several actions).
        """
        spec = self.full_action_spec
        if isinstance(action, TensorDictBase):
            return spec.to_numpy(action.select(*self.action_keys))
        return spec[self.action_key].to_numpy(action.detach().cpu())

    def read_obs(self, observations: Any) -> dict[NestedKey, Any]:
        """Turn the backend's observations into entries.

        Args:
            observations: as the backend gave them; dictionaries may be nested.

        Returns:
            The entries, as new tensors; where the spec is :class:`~rlnb.data.NonTensor`, as wrapped data.
        """
        entries: dict[NestedKey, Any] = {}

        def walk(value: Any, path: tuple[str, ...]) -> None:
            if isinstance(value, Mapping):
                for name, member in value.items():
                    walk(member, (*path, str(name)))
                return
            key: NestedKey = path if len(path) > 1 else path[0] if path else "observation"
            spec = self.observation_spec.get(key, None)
            if isinstance(spec, NonTensor):
                entries[key] = wrapped(value, spec.shape)
                return
            # A copy: many backends write their next observation over the last.
            tensor = value.clone() if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
            entries[key] = tensor if spec is None else spec.encode(tensor, check=False)

        walk(observations, ())
        return entries

    def read_reward(self, reward: Any) -> torch.Tensor:
        """Turn the backend's reward into a tensor.

        Args:
            reward: a number, or an array that holds one for each env of the batch.

        Returns:
            A tensor of the shape and dtype of ``reward_spec``.

        Raises:
            RuntimeError: if it is anything else.
        """
        spec = self.reward_spec
        if type(reward) is float and spec.shape == (1,):
            return torch.full((1,), reward, dtype=spec.dtype)
        return torch.tensor(reward_array(reward, spec.shape.numel()), dtype=spec.dtype).reshape(spec.shape)

    def read_done(
        self, terminated: Any = None, truncated: Any = None, done: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, bool]:
        """Complete the backend's end signals.

        Args:
            terminated: whether the episode reached its end; None where the backend does not say.
            truncated: whether it was cut short; None where the backend does not say.
            done: whether it is over, for either reason. Where only this is given, the episode is terminated unless
                ``truncated`` explains it. Default: the union of the other two.

        Returns:
            Terminated, truncated and done, of the shape of ``done_spec``, and whether any env is done.

        Raises:
            ValueError: if all three are None.
        """
        if terminated is None and truncated is None and done is None:
            raise ValueError("The backend's step gave no end signal: read_done needs terminated, truncated or done.")
        if done is None and type(terminated) is bool and type(truncated) is bool and not self.batch_size:
            over = terminated or truncated
            ends = [torch.from_numpy(np.array([flag])) for flag in (terminated, truncated, over)]
            return ends[0], ends[1], ends[2], over
        flags = np.zeros((3, *self.batch_size, 1), dtype=bool)
        for i, flag in enumerate((terminated, truncated, done)):
            if flag is not None:
                flags[i] = np.reshape(np.asarray(flag, dtype=bool), flags.shape[1:])
        if terminated is None and done is not None:
            flags[0] = flags[2] & ~flags[1]
        if done is None:
            flags[2] = flags[0] | flags[1]
        ends = list(torch.from_numpy(flags).unbind(0))
        return ends[0], ends[1], ends[2], bool(flags[2].any())


def wrapped(value: Any, batch_size: torch.Size) -> Any:
    """Wrap data that is no tensor, such as text, for a TensorDict.

    Args:
        value: the data; for a batch, a sequence with that of each env.
        batch_size: of the env.

    Returns:
        A copy: a NonTensorData, or for a batch a NonTensorStack.

    Example:
        >>> wrapped("go left", torch.Size([])).data, wrapped(("left", "right"), torch.Size([2])).tolist()
        ('go left', ['left', 'right'])
    """
    if not batch_size:
        return NonTensorData(copy.deepcopy(value))
    return NonTensorStack(*[wrapped(row, batch_size[1:]) for row in value], stack_dim=0)


def repeat_step(
    step: Callable[[Any], tuple[Any, ...]], action: Any, times: int, is_over: Callable[[tuple[Any, ...]], bool]
) -> tuple[Any, ...]:
    """Step several times with one action, until the episode is over.

    Args:
        step: a backend's step; its output is (observation, reward, ...).
        action: what to call it with.
        times: how often, at the most.
        is_over: whether an output ends the episode.

    Returns:
        The last output, with the sum of the rewards.

    Example:
        >>> repeat_step(lambda action: (action, 1.0, False, {}), 5, 3, lambda outputs: outputs[2])
        (5, 3.0, False, {})
    """
    outputs = step(action)
    total = outputs[1]
    for _ in range(times - 1):
        if is_over(outputs):
            break
        outputs = step(action)
        total = total + outputs[1]
    return (outputs[0], total, *outputs[2:])


def _not_a_step(env: Any, outputs: Any) -> str:
    got = f"a tuple of {len(outputs)}" if isinstance(outputs, tuple) else f"a {type(outputs).__name__}"
    return (
        f"The step of a gym-like backend returns (observation, reward, done, info) or (observation, reward, "
        f"terminated, truncated, info), and that of {env!r} returned {got}. "
        "Fix: override _output_transform, which takes it apart."
    )


def reward_array(reward: Any, count: int) -> np.ndarray:
    """Take the rewards out of whatever a backend gives.

    Args:
        reward: a number, or an array or tensor of any shape.
        count: how many numbers it must hold.

    Returns:
        An array of that many numbers.

    Raises:
        RuntimeError: if it holds something else.

    Example:
        >>> reward_array([[0.5]], 1)
        array([[0.5]])
    """
    array = np.asarray(reward.detach().cpu() if isinstance(reward, torch.Tensor) else reward)
    if array.size != count or array.dtype.kind not in "biuf":
        what = "one number" if count == 1 else f"{count} numbers, one for each env,"
        raise RuntimeError(
            f"The reward must be {what} and is {reward!r}. Fix: let the env's step return (observation, reward, "
            "terminated, truncated, info) with a float as reward."
        )
    return array


__all__ = ["GymReading", "Outputs", "repeat_step", "reward_array", "wrapped"]
