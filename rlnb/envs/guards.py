"""What an environment checks of its inputs and of its own data: rarely, and then everything at once."""

from __future__ import annotations

from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.keys import NestedKey
from rlnb.envs import faults
from rlnb.envs.specs import EnvSpecs


class EnvGuards(EnvSpecs):
    """The checks of :class:`~rlnb.envs.EnvBase`; the texts are in :mod:`rlnb.envs.faults`.

    Args:
        device: where the data of the env lives; None for no statement.
        batch_size: how many envs are batched together.

    Attributes:
        batch_locked: False for a stateless env, which takes inputs of any batch size.
        run_type_checks: whether the data of every step is checked against the specs, not of the first one only.
        is_closed: whether the env was closed.
    """

    batch_locked: bool = True

    def __init__(self, device: torch.device | None, batch_size: torch.Size) -> None:
        super().__init__(device, batch_size)
        self.is_closed = False
        self.run_type_checks = False
        self._checks_data = True

    def _assert_open(self, what: str) -> None:
        if self.is_closed:
            raise RuntimeError(faults.closed(self, what))

    def _assert_batch_size(self, tensordict: TensorDictBase, what: str) -> None:
        if not isinstance(tensordict, TensorDictBase):
            raise TypeError(faults.no_tensordict(what, tensordict))
        got, dims = tensordict.batch_size, self.ndim
        fits = got == self._batch_size if self.batch_locked else got[len(got) - dims :] == self._batch_size
        if not fits:
            raise RuntimeError(faults.batch_size(self, got, what))

    def _assert_new(self, result: Any, given: TensorDictBase | None, method: str) -> None:
        if not isinstance(result, TensorDictBase) or result is given:
            raise TypeError(faults.not_new(self, result, method))
        if self.batch_locked and result.batch_size != self._batch_size:
            raise RuntimeError(faults.result_batch_size(self, result, self._batch_size, method))

    def _action_leaves(self) -> list[tuple[NestedKey, Any]]:
        if "action_leaves" not in self._cache:
            spec = self.full_action_spec
            self._cache["action_leaves"] = [(key, spec[key]) for key in self.action_keys]
        return self._cache["action_leaves"]

    def _check_actions(self, tensordict: TensorDictBase) -> None:
        for key, spec in self._action_leaves():
            action = tensordict.get(key, None)
            if action is None:
                raise KeyError(faults.no_action(key, tensordict))
            shape = spec.shape
            if not self.batch_locked:
                shape = torch.Size((*tensordict.batch_size, *shape[self.ndim :]))
            faults.check_action(key, spec, action, shape)

    def _check_data(self, data: TensorDictBase, moment: str) -> None:
        """Compare the first data of a reset and of a step with the specs: all that is wrong, in one message.

        Later steps are only asked whether all entries are there, which costs little.
        """
        if not self._checks_data:
            return
        first = moment in self._unchecked
        if not first and not self.run_type_checks and (moment == "reset" or self._complete(data)):
            return
        if first:
            self.assert_distinct_keys()
        specs = [self.observation_spec, self.full_done_spec]
        if moment == "step":
            specs.append(self.full_reward_spec)
        faults.check_data(self, specs, data, f"first {moment}" if first else moment)
        self._unchecked.discard(moment)

    def _complete(self, data: TensorDictBase) -> bool:
        if "step_keys" not in self._cache:
            self._cache["step_keys"] = (*self.observation_keys, *self.done_keys, *self.reward_keys)
        return all(data.get(key, None) is not None for key in self._cache["step_keys"])
