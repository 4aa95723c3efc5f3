"""Batched environment whose envs are stepped one after another, in this process."""

from __future__ import annotations

import contextlib
import copy
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from tensordict import TensorDictBase

from rlnb.data.ted.block import TEDBlock
from rlnb.envs import errors
from rlnb.envs.base import EnvBase
from rlnb.envs.batched.attributes import read_attribute
from rlnb.envs.batched.batched_env import Arguments, BatchedEnvBase, ResetArguments
from rlnb.envs.batched.drivers import DataDriver, EnvInfo, RowDriver
from rlnb.envs.rows import overridden


class SerialEnv(BatchedEnvBase):
    """Several envs in one: they are stepped one after another, and their data is stacked.

    The batch size is ``[num_workers, *batch_size]`` with the batch size of one env. A :class:`ParallelEnv` with the
    same seed gives the same data, but gradients pass only through a ``SerialEnv``.

    An attribute that the batch does not have is read from each env, as a list; a method is called on each env.

    Args:
        num_workers: number of envs.
        create_env_fn: function that makes an env, or a list with a function for each env, for different tasks.
        num_threads, num_sub_threads, serial_for_single, mp_start_method: have no effect: there are no processes.
        **kwargs: options of :class:`~rlnb.envs.batched_envs.BatchedEnvBase`.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> env = SerialEnv(3, lambda: GymEnv("Pendulum-v1", g=9.81))
        >>> env.rollout(5).batch_size, env.g
        (torch.Size([3, 5]), [9.81, 9.81, 9.81])
    """

    _drivers: list[Any]
    _envs: list[Any]

    def __init__(
        self,
        num_workers: int,
        create_env_fn: Any,
        *,
        num_threads: int | None = None,
        num_sub_threads: int = 1,
        serial_for_single: bool = False,
        mp_start_method: str | None = None,
        **kwargs: Any,
    ) -> None:
        self._drivers, self._envs = [], []
        super().__init__(num_workers, create_env_fn, **kwargs)

    def _make_envs(self) -> list[EnvInfo]:
        envs: list[EnvBase] = []
        try:
            for i, (fn, kwargs) in enumerate(zip(self._fns, self._kwargs, strict=True)):
                made = fn(**kwargs)
                if not isinstance(made, EnvBase):
                    raise TypeError(errors.wrong_return(f"create_env_fn of env {i} of {self.num_workers}", made))
                envs.append(made)
            return [EnvInfo.of(env) for env in envs]
        finally:
            self._envs = envs

    def _end_envs(self) -> None:
        envs, self._envs, self._drivers = self._envs, [], []
        with contextlib.ExitStack() as stack:  # which closes the others if one raises
            for env in envs:
                stack.callback(env.close)

    def _connect(self, block: TEDBlock | None) -> None:
        if block is None:
            self._drivers = [DataDriver(env) for env in self._envs]
            return
        self._actions = self._action_array()
        self._drivers = [RowDriver(env, block.env(i), self._actions[i : i + 1]) for i, env in enumerate(self._envs)]

    def __deepcopy__(self, memo: dict[int, Any]) -> SerialEnv:
        """Copy the envs with their states."""
        copied: SerialEnv = type(self).__new__(type(self))
        memo[id(self)] = copied
        own = {"_drivers", "_block"}  # they hold views of memory, which must be memory of the copy
        copied.__dict__.update({k: copy.deepcopy(v, memo) for k, v in vars(self).items() if k not in own})
        copied.__dict__.update({"_drivers": [], "_block": None})
        if not self._drivers:
            return copied
        if self._block is not None:
            copied._block = copied._new_block()
            for rows, old in ((copied._block.root, self._block.root), (copied._block.next, self._block.next)):
                for key, array in old.items():
                    rows[key][...] = array
        copied._connect(copied._block)
        for driver, original in zip(copied._drivers, self._drivers, strict=True):
            for name in {"root", "started"} & vars(original).keys():
                setattr(driver, name, copy.deepcopy(getattr(original, name), memo))
        return copied

    def _write_inputs(self, tensordict: TensorDictBase) -> None:
        self._actions[...] = self._native_action(tensordict.get(self.action_key))

    def _step_envs(
        self, which: Sequence[int], inputs: Mapping[int, TensorDictBase] | None
    ) -> dict[int, TensorDictBase] | None:
        start, found = time.perf_counter_ns(), {}
        for i in which:
            driver = self._drivers[i]
            driver.moments[0] = time.perf_counter_ns()
            if inputs is None:
                driver.step_row()
            else:
                found[i] = driver.step(inputs[i])
                driver.moments[1] = driver.moments[3] = time.perf_counter_ns()
        self._record("step", which, start, [driver.moments for driver in self._drivers])
        return None if inputs is None else found

    def _reset_envs(self, which: dict[int, ResetArguments]) -> dict[int, TensorDictBase] | None:
        start, found = time.perf_counter_ns(), {}
        for i, arguments in which.items():
            driver = self._drivers[i]
            driver.moments[0] = time.perf_counter_ns()
            if self._block is None:
                found[i] = driver.reset(*arguments)
                driver.moments[2] = driver.moments[3] = time.perf_counter_ns()
            else:
                driver.reset_row(*arguments)
        self._record("reset", list(which), start, [driver.moments for driver in self._drivers])
        return found if self._block is None else None

    def _read_each(self, name: str) -> list[Any]:
        return [read_attribute(env, name) for env in self._envs]

    def _call_each(self, name: str, arguments: list[Arguments]) -> list[Any]:
        return [self._call_one(i, name, given) for i, given in enumerate(arguments)]

    def _call_one(self, i: int, name: str, arguments: Arguments) -> Any:
        self.start()
        args, kwargs = arguments
        return operator.attrgetter(name)(self._envs[i])(*args, **kwargs)

    @property
    def _fills_rows(self) -> bool:
        return super()._fills_rows and not overridden(self, SerialEnv)

    def _row_functions(self, block: TEDBlock) -> tuple[Callable[[int, Any], bool], Callable[[int], None]]:
        functions = [env._row_functions(block.env(i)) for i, env in enumerate(self._envs)]
        steps, resets = ([pair[0] for pair in functions], [pair[1] for pair in functions])
        roots, everyone = list(block.root.values()), range(self.num_workers)
        moments = [driver.moments for driver in self._drivers]
        ended: list[int] = []
        if self._trace is not None:
            steps = [self._stamped(i, step_env, 1) for i, step_env in enumerate(steps)]
            resets = [self._stamped(i, reset_env, 2) for i, reset_env in enumerate(resets)]

        def step(t: int, actions: np.ndarray) -> bool:
            start = time.perf_counter_ns()
            ended.clear()
            for i, step_env in enumerate(steps):
                if step_env(t, actions[i]):
                    ended.append(i)
            self._record("step", everyone, start, moments)
            return bool(ended)

        def reset(t: int) -> None:
            start = time.perf_counter_ns()
            for i in ended:
                for array in roots:
                    array[i, t] = 0
                resets[i](t)
            self._record("reset", ended, start, moments)

        return step, reset

    def _stamped(self, i: int, act: Callable[..., Any], moment: int) -> Callable[..., Any]:
        """Note the times before and after a step or reset of env ``i``."""
        moments = self._drivers[i].moments

        def stamped(*arguments: Any) -> Any:
            moments[0] = time.perf_counter_ns()
            result = act(*arguments)
            moments[moment] = moments[3] = time.perf_counter_ns()
            return result

        return stamped
