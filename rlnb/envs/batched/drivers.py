"""Drivers, each of which runs one env of a batch and passes its data on: as TensorDicts, or in rows of a block."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import set_entry, shallow_copy
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.block import EnvRows, LeafInfo
from rlnb.data.ted.keys import NestedKey
from rlnb.envs import errors
from rlnb.envs.base import EnvBase
from rlnb.envs.transforms.actions import ActionMask
from rlnb.envs.transforms.transformed_env import TransformedEnv


@dataclass(frozen=True)
class EnvInfo:
    """Picklable description of an env of a batch."""

    name: str  # of its class
    specs: Composite  # input and output specs
    batch_size: torch.Size
    device: torch.device | None
    root: dict[NestedKey, LeafInfo] | None  # entries of a reset if it can fill rows (see rlnb.envs.rows), else None
    next_only: dict[NestedKey, LeafInfo] | None  # entries that only a step has if it can fill rows, else None
    draws: bool  # whether its rand_action does more than sample from the spec, such as to draw only legal actions

    @classmethod
    def of(cls, env: EnvBase) -> EnvInfo:
        """Describe an env."""
        rows: Any = env
        # In the rows of a batch, actions are one array.
        fills = getattr(env, "_fills_rows", False) and not env.batch_size and env.action_keys == ["action"]
        root, next_only = rows._row_leaves() if fills else (None, None)
        draws = _draws_actions(env)
        return cls(type(env).__name__, env.specs, env.batch_size, env.device, root, next_only, draws)


def _draws_actions(env: EnvBase) -> bool:
    own = env.__dict__.get("_draws")  # set by a batch of envs
    if own is not None:
        return bool(own)
    if isinstance(env, TransformedEnv):
        if any(isinstance(module, ActionMask) for module in env.modules()):
            return True
        return not env._inverts and _draws_actions(env.base_env)
    return type(env).rand_action is not EnvBase.rand_action


class DataDriver:
    """Driver of any env, with one TensorDict a step. It keeps the input of the next step.

    Its ``moments`` are the times of its last actions, ``[4]``; see :data:`~rlnb.envs.batched.trace.MOMENTS`.
    """

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root: TensorDictBase | None = None
        self.moments = np.zeros(4, dtype=np.int64)

    def reset(self, given: TensorDictBase | None, kwargs: Mapping[str, Any]) -> TensorDictBase:
        """Reset the env. ``given`` are entries for it, such as "_reset" masks of envs within this one."""
        if given is not None and self.root is not None:
            given = shallow_copy(self.root).update(given)
        self.root = self.env.reset(given, **kwargs)
        return shallow_copy(self.root)

    def step(self, inputs: TensorDictBase) -> TensorDictBase:
        """Step the env. ``inputs`` are the actions, and entries that replace those of the last reset or step."""
        return self._step(self._new_root().update(inputs))

    def _new_root(self) -> TensorDictBase:
        return TensorDict({}, self.env.batch_size) if self.root is None else shallow_copy(self.root)

    def _step(self, root: TensorDictBase) -> TensorDictBase:
        data = self.env.step(root)
        self.root = self.env._step_mdp(data)
        return data.get("next")


class BlockDriver(DataDriver):
    """Driver of any env that writes its data to its rows of a block.

    ``inputs`` are what a step reads, ``[1, *batch_size, ...]``, and ``given`` is which of them the batch has written,
    ``[number of inputs]``: others are those of the last reset or step.
    """

    def __init__(self, env: EnvBase, rows: EnvRows, inputs: Mapping[NestedKey, np.ndarray], given: np.ndarray) -> None:
        super().__init__(env)
        self.given = given
        self.inputs = {key: torch.from_numpy(array)[0] for key, array in inputs.items()}
        self.root_row, self.next_row = (
            {key: torch.from_numpy(array)[0] for key, array in leaves.items()} for leaves in (rows.root, rows.next)
        )

    def reset_row(self, given: TensorDictBase | None, kwargs: Mapping[str, Any]) -> None:
        """Reset the env; see :meth:`DataDriver.reset` for the arguments."""
        data = self.reset(given, kwargs)
        self.moments[2] = time.perf_counter_ns()
        _write(self.root_row, data, "reset")
        self.moments[3] = time.perf_counter_ns()

    def step_row(self) -> None:
        """Step the env with the inputs that the batch has written."""
        root = self._new_root()
        for (key, tensor), given in zip(self.inputs.items(), self.given.tolist(), strict=True):
            if given:
                set_entry(root, key, tensor.clone())
        with torch.no_grad():
            data = self._step(root)
            self.moments[1] = time.perf_counter_ns()
            _write(self.next_row, data, "step")
        self.moments[3] = time.perf_counter_ns()


class RowDriver:
    """Driver of a :class:`~rlnb.envs.rows.RowEnv`. The batch writes its action, of the backend, to ``[1, ...]``."""

    def __init__(self, env: Any, rows: EnvRows, actions: np.ndarray) -> None:
        self.env, self.rows, self.actions = env, rows, actions
        self._step, self._reset = env._row_functions(rows)
        self._root, self._next = list(rows.root.values()), list(rows.next.values())
        self.started = False
        self.moments = np.zeros(4, dtype=np.int64)

    def reset_row(self, given: TensorDictBase | None, kwargs: Mapping[str, Any]) -> None:
        """Reset the env. ``given`` has no effect: there are no envs within an env that fills rows."""
        if self.started and not kwargs and self.env._seed is None:
            for array in self._root:
                array[0] = 0
            self._reset(0)
        else:
            data = self.env.reset(**kwargs)
            for key, array in self.rows.root.items():
                array[0] = data.get(key).numpy()
            self.started = True
        self.moments[2] = self.moments[3] = time.perf_counter_ns()

    def step_row(self) -> None:
        """Step the env with the action that the batch has written."""
        if not self.started:
            raise RuntimeError(errors.not_reset(self.env))
        for array in self._next:
            array[0] = 0
        action = self.actions[0]
        # A backend may keep the action.
        self._step(0, action.copy() if isinstance(action, np.ndarray) else action)
        self.moments[1] = self.moments[3] = time.perf_counter_ns()


def _write(row: dict[NestedKey, torch.Tensor], data: TensorDictBase, what: str) -> None:
    """Copy data into a row: all of it, or nothing if an entry does not fit."""
    values = {}
    for key, tensor in row.items():
        value = data.get(key, None)
        if value is None and what == "reset":
            tensor.zero_()
            continue
        if not isinstance(value, torch.Tensor) or value.shape != tensor.shape or value.dtype != tensor.dtype:
            got = "nothing" if value is None else f"shape {tuple(value.shape)} and dtype {value.dtype}"
            raise RuntimeError(
                f"The {what} must return {key!r} with the shape {tuple(tensor.shape)} and dtype {tensor.dtype} of its "
                f"spec, got {got}. rlnb.envs.utils.check_env_specs(env) lists all differences. "
                "Fix: correct the spec; a dimension that varies has size -1 in it."
            )
        values[key] = value
    for key, value in values.items():
        row[key].copy_(value)


Driver = DataDriver | BlockDriver | RowDriver
