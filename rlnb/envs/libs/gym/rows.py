"""The fast rollouts of a single Gymnasium env: observations are written straight into the rows of a TED block."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from rlnb.data.ted.block import LeafInfo, TEDBlock
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey
from rlnb.envs.gym_like import GymLikeEnv
from rlnb.envs.gym_reading import reward_array
from rlnb.envs.libs.gym.codec import ObservationLeaf, drawn_actions, native_action

if TYPE_CHECKING:
    import gymnasium

_PASSED_BY = (
    "reset",
    "step",
    "rand_action",
    "rand_step",
    "maybe_reset",
    "step_and_maybe_reset",
    "read_action",
    "read_done",
    "read_info",
    "read_obs",
    "read_reward",
    "_reset",
    "_step",
    "_step_mdp",
    "_restart",
    "_output_transform",
    "_reset_output_transform",
)


class GymRows(GymLikeEnv):
    """What makes :class:`~rlnb.envs.GymWrapper` a :class:`~rlnb.envs.rows.RowEnv`."""

    _env: gymnasium.Env
    _leaves: list[ObservationLeaf]
    _one_action: bool
    from_pixels: bool
    convert_actions_to_numpy: bool

    @property
    def _fills_rows(self) -> bool:
        if "fills_rows" not in self._cache:
            # Rows go past these methods and past all checks but the first: not for who overrides or wants them, and
            # not for who changed the specs that the rows are made of.
            expected = {leaf.key for leaf in self._leaves} | ({"pixels"} if self.from_pixels else set())
            same = set(self.observation_keys) == expected and self.done_keys == list(END_KEYS)
            one_reward = len(self.reward_keys) == 1 and self.reward_spec.shape.numel() == 1
            tensors = all(leaf.is_tensor for leaf in self._leaves)
            simple = tensors and self._one_action and one_reward and not self.info_dict_reader and not self.batch_size
            on_cpu = self.device is None or self.device.type == "cpu"
            simple = simple and self.convert_actions_to_numpy
            self._cache["fills_rows"] = on_cpu and simple and same and not self._overrides()
        return self._cache["fills_rows"] and not self.run_type_checks

    def _overrides(self) -> bool:
        from rlnb.envs.libs.gym.wrapper import GymWrapper

        return any(getattr(type(self), name) is not getattr(GymWrapper, name) for name in _PASSED_BY)

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        root: dict[NestedKey, LeafInfo] = {}
        for composite in (self.observation_spec, self.full_done_spec):
            for key in composite.keys(True, True):
                spec = composite[key]
                assert spec.dtype is not None  # envs with other observations fill no rows
                root[key] = spec.shape, spec.dtype
        reward = self.full_reward_spec[self.reward_key]
        assert reward.dtype is not None  # a reward is a number
        return root, {self.reward_key: (reward.shape, reward.dtype)}

    def _row_functions(self, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        env_step, env_reset = self._advance, self._env.reset
        reward_rows = block.next[self.reward_key].reshape(-1)
        terminated_rows, truncated_rows, done_rows = (block.next[k][:, 0] for k in (TERMINATED, TRUNCATED, DONE))
        write_next = self._writer(block.next)
        write_root = self._writer(block.root)

        def step(t: int, action: Any) -> bool:
            observation, reward, terminated, truncated, _ = env_step(action)
            if "step" in self._unchecked:
                self._check_first_step(observation, reward)
            write_next(t, observation)
            reward_rows[t] = reward if type(reward) is float else reward_array(reward, 1).reshape(())
            if terminated or truncated:
                terminated_rows[t], truncated_rows[t], done_rows[t] = terminated, truncated, True
                return True
            return False

        def reset(t: int) -> None:
            write_root(t, env_reset()[0])

        return step, reset

    def _writer(self, rows: dict[NestedKey, np.ndarray]) -> Callable[[int, Any], None]:
        """Make the function that writes an observation into row t of these arrays."""
        leaves = [(leaf.writer(), rows[leaf.key]) for leaf in self._leaves]
        if self.from_pixels:
            render = self._env.render
            leaves.append((lambda frames, t, _: frames.__setitem__(t, render()), rows["pixels"]))
        if len(leaves) == 1:
            write, only = leaves[0]
            return lambda t, observation: write(only, t, observation)

        def write_all(t: int, observation: Any) -> None:
            for write, array in leaves:
                write(array, t, observation)

        return write_all

    def _check_first_step(self, observation: Any, reward: Any) -> None:
        entries = self.read_obs(observation)
        entries.update({key: torch.zeros(1, dtype=torch.bool) for key in END_KEYS})
        entries[self.reward_key] = self.read_reward(reward)
        self._check_data(self._assemble(entries, {}), "step")

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        return drawn_actions(self.action_spec, actions)

    def _native_action(self, action: torch.Tensor) -> Any:
        return native_action(self.action_spec, action)


__all__ = ["GymRows"]
