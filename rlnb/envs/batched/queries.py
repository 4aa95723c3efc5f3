"""What may be asked of the envs of a batch: seeds, attributes, methods, states."""

from __future__ import annotations

import contextlib
import time
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rlnb.envs.batched import faults
from rlnb.envs.batched.drivers import Method
from rlnb.envs.batched.life import BatchLife
from rlnb.envs.batched.trace import BatchTrace, Turn


class BatchQueries(BatchLife):
    """Questions to all envs of a batch."""

    _trace: BatchTrace | None = None

    @contextlib.contextmanager
    def tracing(self) -> Iterator[BatchTrace]:
        """Note what each env does and when, while the block of code runs.

        Yields:
            The trace, which fills up meanwhile.

        Example:
            >>> from rlnb.envs import GymEnv, SerialEnv
            >>> env = SerialEnv(2, lambda: GymEnv("Pendulum-v1"))
            >>> env.start()
            >>> with env.tracing() as trace:
            ...     _ = env.rollout(5)
            >>> trace
            BatchTrace(SerialEnv, num_workers=2, steps=5, resets=1)
        """
        before, self._trace = self._trace, BatchTrace(type(self).__name__, self.num_workers)
        try:
            yield self._trace
        finally:
            self._trace = before

    def _note(self, what: str, which: Sequence[int], start: int, moments: Any) -> None:
        """Add a turn to the trace, if there is one."""
        if self._trace is not None:
            stop = time.perf_counter_ns()
            noted = np.array(moments)  # some of it may be of an earlier turn
            self._trace.turns.append(Turn(what, tuple(which), start, stop, np.where(noted >= start, noted, 0)))

    def set_seed(self, seed: int | None = None, static_seed: bool = False) -> int | None:
        """Seed the envs, each with another seed, and the random actions.

        Args:
            seed: of the first env; each next one gets what ``set_seed`` of the one before returns.
            static_seed: give all envs the same seed.

        Returns:
            The seed for the next env of a chain; ``seed`` itself with ``static_seed``.
        """
        super().set_seed(seed, static_seed)
        after = seed
        for i in range(self.num_workers):
            after = self._ask_one(i, "set_seed", ((after,), {"static_seed": static_seed}))
        return after

    @abstractmethod
    def _ask_one(self, i: int, name: str, arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
        """Call a method of one env."""

    def _set_seed(self, seed: int | None) -> None:
        """The envs are seeded by :meth:`set_seed`."""

    def state_dict(self, *args: Any, **kwargs: Any) -> dict[str, Any]:  # type: ignore[override]  # no overloads
        """Return the state of each env, as "worker0" and so on.

        Args:
            *args: as for ``torch.nn.Module.state_dict``, which is called on each env.
            **kwargs: likewise.

        Returns:
            A dictionary of dictionaries.
        """
        self.start()
        states = self._ask("state_dict", [(args, kwargs)] * self.num_workers)
        return {f"worker{i}": state for i, state in enumerate(states)}

    def load_state_dict(self, state_dict: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
        """Load the state of each env.

        Args:
            state_dict: what :meth:`state_dict` returned.
            *args: as for ``torch.nn.Module.load_state_dict``, which is called on each env.
            **kwargs: likewise.

        Raises:
            KeyError: if the state of an env is missing. Nothing is loaded then.
        """
        self.start()
        missing = [f"worker{i}" for i in range(self.num_workers) if f"worker{i}" not in state_dict]
        if missing:
            raise KeyError(faults.missing_states(missing, state_dict))
        states = [((state_dict[f"worker{i}"], *args), kwargs) for i in range(self.num_workers)]
        self._ask("load_state_dict", states)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "_given_device" not in self.__dict__:
            return super().__getattr__(name)
        self.start()
        return self._attribute(name)

    def _attribute(self, name: str) -> Any:
        """Read an attribute of each env; its name may have dots."""
        values = self._ask(name, None)
        if all(isinstance(value, Method) for value in values):
            return lambda *args, **kwargs: self._ask(name, [(args, kwargs)] * self.num_workers)
        return values if all(isinstance(value, _PLAIN) for value in values) else EnvValues(self, name, values)


_PLAIN = (int, float, complex, str, bytes, list, tuple, dict, set, type(None), np.ndarray, np.generic, torch.Tensor)


class EnvValues(list[Any]):
    """The values of an attribute of each env, whose own attributes are read from each env in turn.

    Args:
        batch: whose envs they are of.
        name: of the attribute.
        values: of each env. An env inside an env of another process stays there, and is only named.

    Example:
        >>> from rlnb.envs import GymEnv, SerialEnv
        >>> SerialEnv(2, lambda: GymEnv("Pendulum-v1", g=9.81)).unwrapped.g
        [9.81, 9.81]
    """

    def __init__(self, batch: BatchQueries, name: str, values: list[Any]) -> None:
        super().__init__(values)
        self._batch, self._name = batch, name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._batch._attribute(f"{self._name}.{name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


__all__ = ["BatchQueries", "EnvValues"]
