"""A batch of envs that fill rows of numpy arrays is such an env itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlnb.data.ted.block import LeafInfo
from rlnb.data.ted.keys import NestedKey
from rlnb.envs.batched.batched_env import BatchedEnvBase
from rlnb.envs.libs.gym.codec import drawn_actions, native_action


class RowBatch(BatchedEnvBase):
    """What makes a batch a :class:`~rlnb.envs.rows.RowEnv`, where its envs are."""

    @property
    def _fills_rows(self) -> bool:
        on_cpu = self.device is None or self.device.type == "cpu"
        return on_cpu and self._row_mode and not self._draws and not self.run_type_checks

    def _row_leaves(self) -> tuple[dict[NestedKey, LeafInfo], dict[NestedKey, LeafInfo]]:
        return self._leaf_infos()

    def _drawn_actions(self, actions: torch.Tensor) -> list[Any]:
        return drawn_actions(self.full_action_spec[self.action_key], actions)

    def _native_action(self, action: torch.Tensor) -> np.ndarray:
        return native_action(self.full_action_spec[self.action_key], action)

    def _action_array(self) -> np.ndarray:
        """Zeros in the form of the backend's actions, one for each env."""
        state = torch.get_rng_state()
        try:
            example = self._drawn_actions(self.full_action_spec[self.action_key].rand((1,)))[0]
        finally:
            torch.set_rng_state(state)
        return np.zeros_like(np.asarray(example))


__all__ = ["RowBatch"]
