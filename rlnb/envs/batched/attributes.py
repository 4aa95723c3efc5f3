"""Attributes of the envs of a batch, read by name."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch

from rlnb.envs.base import EnvBase

# Values that a list holds as they are. From a list of any other values, attributes can be read.
PLAIN = (int, float, complex, str, bytes, list, tuple, dict, set, type(None), np.ndarray, np.generic, torch.Tensor)


class Method:
    """Placeholder for an attribute that can be called."""


@dataclass(frozen=True)
class Remote:
    """Placeholder for an env inside the env of a worker, such as ``unwrapped``, with its ``repr`` as text."""

    text: str

    def __repr__(self) -> str:
        return self.text


def read_attribute(env: EnvBase, name: str) -> Any:
    """Read an attribute of an env, or a :class:`Method` if it can be called. Dots are allowed, as in "unwrapped.g"."""
    value = operator.attrgetter(name)(env)
    return Method() if callable(value) and not isinstance(value, torch.nn.Module) else value


class _Batch(Protocol):
    def _attribute(self, name: str) -> Any: ...


class EnvValues(list[Any]):
    """Values of an attribute of each env. Its own attributes are read from each env in turn.

    An env inside an env of another process is a :class:`Remote`.

    Example:
        >>> from rlnb.envs import GymEnv, SerialEnv
        >>> SerialEnv(2, lambda: GymEnv("Pendulum-v1", g=9.81)).unwrapped.g
        [9.81, 9.81]
    """

    def __init__(self, batch: _Batch, name: str, values: list[Any]) -> None:
        super().__init__(values)
        self._batch, self._name = batch, name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self._batch._attribute(f"{self._name}.{name}")

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)
