"""Drivers: what runs one env of a batch, in this process or in a worker, and puts its data where it belongs."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb._tensordict import shallow_copy
from rlnb.data import Composite
from rlnb.data.ted.block import LeafInfo, Rows
from rlnb.data.ted.keys import NestedKey
from rlnb.envs import faults
from rlnb.envs.base import EnvBase
from rlnb.envs.transforms import ActionMask, TransformedEnv


class Method:
    """Stands for an attribute of an env that can be called."""


@dataclass(frozen=True)
class Remote:
    """Stands for an env inside the env of a worker, such as ``unwrapped``: it stays in its process.

    Args:
        text: its ``repr``.
    """

    text: str

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class EnvInfo:
    """What a batch must know of one of its envs, picklable.

    Args:
        name: of its class.
        text: its ``repr``.
        specs: its input and output specs.
        batch_size: its batch size.
        device: where its data lives.
        root: of the rows that it can fill, the entries that a reset writes; None if it cannot fill rows.
        next_only: of those rows, the entries that only a step writes.
        draws: whether it draws random actions in a way of its own, such as legal ones only.
    """

    name: str
    text: str
    specs: Composite
    batch_size: torch.Size
    device: torch.device | None
    root: dict[NestedKey, LeafInfo] | None
    next_only: dict[NestedKey, LeafInfo] | None
    draws: bool

    @classmethod
    def of(cls, env: EnvBase) -> EnvInfo:
        """Describe an env.

        Args:
            env: the env.

        Returns:
            The description.
        """
        rows: Any = env
        fills = getattr(env, "_fills_rows", False) and not env.batch_size
        root, next_only = rows._row_leaves() if fills else (None, None)
        draws = _draws_actions(env)
        return cls(type(env).__name__, repr(env), env.specs, env.batch_size, env.device, root, next_only, draws)


def _draws_actions(env: EnvBase) -> bool:
    own = env.__dict__.get("_draws")  # a batch knows it of its envs
    if own is not None:
        return bool(own)
    if isinstance(env, TransformedEnv):
        if any(isinstance(module, ActionMask) for module in env.modules()):
            return True
        return not env._inverts and _draws_actions(env.base_env)
    return type(env).rand_action is not EnvBase.rand_action


class DataDriver:
    """Runs any env, a TensorDict a step; keeps the root of its next step.

    Args:
        env: the env.

    Attributes:
        moments: when what happened last, see :data:`~rlnb.envs.batched.trace.MOMENTS`.
    """

    def __init__(self, env: EnvBase) -> None:
        self.env = env
        self.root: TensorDictBase | None = None
        self.moments = np.zeros(4, dtype=np.int64)

    def reset(self, given: TensorDictBase | None, kwargs: Mapping[str, Any]) -> TensorDictBase:
        """Reset the env.

        Args:
            given: entries for the reset, such as "_reset" masks of envs within this one; None for a full reset.
            kwargs: for the env's reset.

        Returns:
            The data of the reset.
        """
        if given is not None and self.root is not None:
            given = shallow_copy(self.root).update(given)
        self.root = self.env.reset(given, **kwargs)
        return shallow_copy(self.root)

    def step(self, inputs: TensorDictBase) -> TensorDictBase:
        """Step the env.

        Args:
            inputs: the actions, and whatever else the env is to read in place of what it gave last.

        Returns:
            The results.
        """
        root = TensorDict({}, self.env.batch_size) if self.root is None else shallow_copy(self.root)
        data = self.env.step(root.update(inputs))
        self.root = self.env._step_mdp(data)
        return data.get("next")


class BlockDriver(DataDriver):
    """Runs any env, and writes its data into the first of its rows.

    Args:
        env: the env.
        rows: its rows of the batch's block.
        inputs: what a step reads, by key: its parts of arrays, of shape ``[1, *batch_size, ...]``.
        given: whether the batch wrote each of these; what it did not write is what the env gave last.
    """

    def __init__(self, env: EnvBase, rows: Rows, inputs: Mapping[NestedKey, np.ndarray], given: np.ndarray) -> None:
        super().__init__(env)
        self.given = given
        self.inputs = {key: torch.from_numpy(array)[0] for key, array in inputs.items()}
        self.root_row, self.next_row = (
            {key: torch.from_numpy(array)[0] for key, array in leaves.items()} for leaves in (rows.root, rows.next)
        )

    def reset_row(self, given: TensorDictBase | None, kwargs: Mapping[str, Any]) -> None:
        """Reset the env; see :meth:`DataDriver.reset`."""
        data = self.reset(given, kwargs)
        self.moments[2] = time.perf_counter_ns()
        _write(self.root_row, data, "reset")
        self.moments[3] = time.perf_counter_ns()

    def step_row(self) -> None:
        """Step the env."""
        inputs = TensorDict({}, self.env.batch_size, device=self.env.device)
        for (key, tensor), given in zip(self.inputs.items(), self.given.tolist(), strict=True):
            if given:
                inputs.set(key, tensor.clone())
        with torch.no_grad():
            data = self.step(inputs)
            self.moments[1] = time.perf_counter_ns()
            _write(self.next_row, data, "step")
        self.moments[3] = time.perf_counter_ns()


class RowDriver:
    """Runs an env that fills rows of numpy arrays.

    Args:
        env: a :class:`~rlnb.envs.rows.RowEnv`.
        rows: its rows of the batch's block.
        actions: what the batch writes the backend's action to, an array of shape ``[1, ...]``.
    """

    def __init__(self, env: Any, rows: Rows, actions: np.ndarray) -> None:
        self.env, self.rows, self.actions = env, rows, actions
        self._step, self._reset = env._row_functions(rows)
        self._root, self._next = list(rows.root.values()), list(rows.next.values())
        self.started = False
        self.moments = np.zeros(4, dtype=np.int64)

    def reset_row(self, given: TensorDictBase | None, kwargs: Mapping[str, Any]) -> None:
        """Reset the env.

        Args:
            given: not read: an env that fills rows has none within it.
            kwargs: for the env's reset.
        """
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
        """Step the env with the action that the batch wrote."""
        if not self.started:
            raise RuntimeError(faults.not_reset(self.env))
        for array in self._next:
            array[0] = 0
        action = self.actions[0]
        # A backend may keep the action that it is given.
        self._step(0, action.copy() if isinstance(action, np.ndarray) else action)
        self.moments[1] = self.moments[3] = time.perf_counter_ns()


def _write(row: dict[NestedKey, torch.Tensor], data: TensorDictBase, moment: str) -> None:
    """Copy data into a row, all of it or nothing."""
    values = {}
    for key, tensor in row.items():
        value = data.get(key, None)
        if value is None and moment == "reset":
            tensor.zero_()
            continue
        if not isinstance(value, torch.Tensor) or value.shape != tensor.shape or value.dtype != tensor.dtype:
            got = "nothing" if value is None else f"shape {tuple(value.shape)} and dtype {value.dtype}"
            raise RuntimeError(
                f"The {moment} gave {got} for {key!r}, whose spec says shape {tuple(tensor.shape)} and dtype "
                f"{tensor.dtype}. rlnb.envs.utils.check_env_specs(env) tells all about it. Where shapes are to change, "
                "let the spec say so with -1."
            )
        values[key] = value
    for key, value in values.items():
        row[key].copy_(value)


def read_attribute(env: EnvBase, name: str) -> Any:
    """Read an attribute of an env.

    Args:
        env: the env.
        name: of the attribute; with dots, of an attribute of an attribute, such as "unwrapped.g".

    Returns:
        Its value, or a :class:`Method` if it can be called.
    """
    value = operator.attrgetter(name)(env)
    return Method() if callable(value) and not isinstance(value, torch.nn.Module) else value


Driver = DataDriver | BlockDriver | RowDriver
MakeEnv = Callable[..., EnvBase]

__all__ = [
    "BlockDriver",
    "DataDriver",
    "Driver",
    "EnvInfo",
    "MakeEnv",
    "Method",
    "Remote",
    "RowDriver",
    "read_attribute",
]
