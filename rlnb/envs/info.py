"""Info readers: convert numbers of an info dictionary into entries of the data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded


class BaseInfoDictReader(ABC):
    """Abstract base class of info readers.

    Example:
        >>> from tensordict import TensorDict
        >>> class Lives(BaseInfoDictReader):
        ...     info_spec = Composite(lives=Unbounded(shape=(), dtype=torch.int64))
        ...     def __call__(self, info_dict, tensordict):
        ...         return tensordict.set("lives", torch.tensor(info_dict["lives"]))
        >>> Lives()({"lives": 3}, TensorDict({}))["lives"]
        tensor(3)
    """

    @abstractmethod
    def __call__(self, info_dict: Mapping[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Write entries of an info dictionary into the data of a reset or step.

        Args:
            info_dict: the info dictionary that the backend returned.
            tensordict: the data, of the env's batch size; changed in place.

        Returns:
            ``tensordict``.
        """

    @property
    @abstractmethod
    def info_spec(self) -> Composite | None:
        """Spec of the entries. ``None`` if the first call is to infer it."""


class default_info_dict_reader(BaseInfoDictReader):
    """Reads numbers and arrays of numbers out of the info dictionary.

    Args:
        keys: the entries to read. ``None``: all that are numbers.
        spec: spec of the entries of a single env: one for each key, or one for all. ``None``: inferred from a step of
            the env. A composite may have the env's batch size already.
        ignore_private: leave out entries whose name starts with an underscore, which Gymnasium adds itself, unless
            they are in ``keys``. Default: True.

    Raises:
        KeyError: If an entry of ``keys`` is not in the info dictionary from which the spec is inferred.

    Example:
        >>> from tensordict import TensorDict
        >>> reader = default_info_dict_reader(["x_position"], Unbounded(shape=(), dtype=torch.float64))
        >>> reader({"x_position": 0.5, "note": "left out"}, TensorDict({}))["x_position"]
        tensor(0.5000, dtype=torch.float64)
    """

    def __init__(
        self,
        keys: Sequence[str] | None = None,
        spec: Composite | Mapping[str, TensorSpec] | Sequence[TensorSpec] | TensorSpec | None = None,
        ignore_private: bool = True,
    ) -> None:
        self.keys = None if keys is None else list(keys)
        self.ignore_private = ignore_private
        self._spec: Composite | None = None
        if isinstance(spec, Composite):
            self._spec = spec.clone()
        elif isinstance(spec, Mapping):
            self._spec = Composite(dict(spec))
        elif spec is not None:
            if self.keys is None:
                raise ValueError(
                    "default_info_dict_reader got a spec without the keys that it belongs to. "
                    "Fix: default_info_dict_reader(keys=['x_position'], spec=...), or a Composite."
                )
            specs = [spec] * len(self.keys) if isinstance(spec, TensorSpec) else list(spec)
            self._spec = Composite(dict(zip(self.keys, specs, strict=True)))
        if self._spec is not None and self.keys is None:
            self.keys = [str(key) for key in self._spec]

    @property
    def info_spec(self) -> Composite | None:
        """Spec of the entries. ``None`` until it is inferred."""
        return self._spec

    def _learn(self, info_dict: Mapping[str, Any], batch_size: torch.Size) -> None:
        """Infer the keys and the spec from an example."""
        missing = [key for key in self.keys or () if key not in info_dict]
        if missing:
            raise KeyError(
                f"The info dictionary has no {missing[0]!r}; it has {sorted(info_dict)}. "
                "Fix: name entries that every step has, default_info_dict_reader(keys=[...])."
            )
        found = {key: _as_tensor(value, key) for key, value in self._wanted(info_dict).items()}
        leaves = {key: Unbounded(shape=value.shape, dtype=value.dtype) for key, value in found.items()}
        self._spec = Composite(leaves, shape=batch_size)
        self.keys = list(found)

    def _wanted(self, info_dict: Mapping[str, Any]) -> dict[str, Any]:
        if self.keys is None:
            private = "_" if self.ignore_private else ()
            return {k: v for k, v in info_dict.items() if not k.startswith(private) and _is_number(v)}
        return {key: info_dict[key] for key in self.keys if key in info_dict}

    def __call__(self, info_dict: Mapping[str, Any], tensordict: TensorDictBase) -> TensorDictBase:
        """Write the entries, and zeros for those that are not in this info dictionary.

        Resets often have fewer entries than steps, and some entries only come with the last step of an episode.
        """
        if self._spec is None:
            self._learn(info_dict, tensordict.batch_size)
        assert self._spec is not None
        for key, value in self._wanted(info_dict).items():
            tensor, dtype = _as_tensor(value, key), self._spec[key].dtype
            if not torch.can_cast(tensor.dtype, dtype):
                raise TypeError(
                    f"The info {key!r} is {value!r} of dtype {tensor.dtype}, and its spec says {dtype}, which would "
                    f"cut it off. Fix: default_info_dict_reader([{key!r}], spec=Unbounded(shape={tuple(tensor.shape)}, "
                    f"dtype={tensor.dtype}))."
                )
            tensordict.set(key, tensor.to(dtype))
        for key in self._spec:
            if str(key) not in info_dict:
                leaf, batch = self._spec[key], tensordict.batch_size
                zero = leaf.zero() if self._spec.shape == batch else leaf.zero().expand(*batch, *leaf.shape).clone()
                tensordict.set(key, zero)
        return tensordict


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_)) or (
        isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
    )


def _as_tensor(value: Any, key: str) -> torch.Tensor:
    array = np.array(value)
    if array.dtype.kind not in "biuf":
        raise TypeError(
            f"The info {key!r} is a {type(value).__name__}, and this reader reads numbers and arrays of numbers. Fix: "
            "leave it out of keys, or write a reader of your own, a function of the info dictionary and the TensorDict."
        )
    return torch.from_numpy(array)
