"""TanhModule, which maps the output of a network to a bounded interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, dispatch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import BoundedContinuous
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.unwrapped import Entries, Function
from rlnb.modules.tensordict_module.output_specs import as_output_spec


class TanhModule(TensorDictModuleBase):
    """Maps real numbers to an interval with tanh: the last part of a deterministic policy with bounded actions.

    Computes ``(high + low) / 2 + (high - low) / 2 * tanh(x)`` for each entry.

    Args:
        in_keys: entries that are read, of any shape.
        out_keys: entries that are written. Default: ``in_keys``, which are overwritten.
        spec: spec of the action, or a :class:`~rlnb.data.Composite` with an entry for each output. Its bounds are those
            of the interval.
        low: lower bound of an output without a spec, a number or a tensor that broadcasts. Default: -1.
        high: upper bound of an output without a spec. Default: 1.
        clamp: whether to keep the output off the bounds by a millionth of the interval or so (the resolution of its
            dtype), so that it can be inverted.

    Raises:
        ValueError: If there are not as many outputs as inputs, the spec is not bounded or has other bounds than ``low``
            and ``high``, or ``low`` is greater than ``high``.
        KeyError: If an entry is missing.

    Example:
        >>> from rlnb.data import Bounded
        >>> from tensordict import TensorDict
        >>> module = TanhModule(in_keys=["param"], out_keys=["action"], spec=Bounded(-2.0, 2.0, (1,)))
        >>> module(TensorDict({"param": torch.tensor([[0.0], [10.0]])}, [2]))["action"]
        tensor([[0.],
                [2.]])
    """

    def __init__(
        self,
        in_keys: Sequence[NestedKey] | str,
        out_keys: Sequence[NestedKey] | str | None = None,
        *,
        spec: TensorSpec | None = None,
        low: Any = None,
        high: Any = None,
        clamp: bool = False,
    ) -> None:
        super().__init__()
        self.in_keys = _as_keys(in_keys)  # type: ignore[assignment]  # keys of any depth
        self.out_keys = self.in_keys if out_keys is None else _as_keys(out_keys)  # type: ignore[assignment]
        if len(self.in_keys) != len(self.out_keys):
            raise ValueError(
                f"TanhModule writes one output for each input, got the inputs {self.in_keys} and the outputs "
                f"{self.out_keys}. Fix: out_keys=['action'] for in_keys=['param']."
            )
        self._spec = as_output_spec(self, spec, self.out_keys)
        self.clamp = clamp
        self._names = ["_".join(as_tuple(key)) for key in self.out_keys]
        for key, name in zip(self.out_keys, self._names, strict=True):
            bounds = _interval(key, self._spec[key], low, high)
            for end, value in zip(("low", "high"), bounds, strict=True):
                self.register_buffer(f"{name}_{end}", value)

    @property
    def spec(self) -> Composite:
        """Specs of the outputs; None for outputs without a known spec."""
        return self._spec

    @dispatch(auto_batch_size=False)
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Map the inputs to their intervals.

        Args:
            tensordict: data with the inputs. It is modified. Tensors by position or keyword give tensors.

        Returns:
            ``tensordict`` with the outputs.
        """
        return tensordict.update(self._outputs(tensordict))

    def _unwrap(self, batch_size: torch.Size | None) -> Function | None:
        return lambda entries: entries.update(self._outputs(entries))

    def _outputs(self, data: TensorDictBase | Entries) -> dict[NestedKey, torch.Tensor]:
        return {
            out: self._bounded(self._read(data, key), name)
            for key, out, name in zip(self.in_keys, self.out_keys, self._names, strict=True)
        }

    def _bounded(self, value: torch.Tensor, name: str) -> torch.Tensor:
        value = value.tanh()
        if self.clamp:
            most = 1 - torch.finfo(value.dtype).resolution
            value = value.clamp(-most, most)
        low, high = (getattr(self, f"{name}_{end}").to(value.dtype) for end in ("low", "high"))
        return (high + low) / 2 + (high - low) / 2 * value

    def _read(self, data: TensorDictBase | Entries, key: NestedKey) -> torch.Tensor:
        value: torch.Tensor | None = data.get(key, None)
        if value is None:
            keys = leaf_keys(data) if isinstance(data, TensorDictBase) else list(data)
            has = ", ".join(map(repr, keys)) or "nothing"
            raise KeyError(
                f"TanhModule reads {key!r}, and the data has: {has}. A network before it should write that entry. "
                f"Fix: TensorDictModule(net, in_keys=['observation'], out_keys=[{key!r}])."
            )
        return value


def _as_keys(keys: Sequence[NestedKey] | str) -> list[NestedKey]:
    return [as_key(as_tuple(key)) for key in ([keys] if isinstance(keys, str) else keys)]


def _interval(key: NestedKey, leaf: TensorSpec | None, low: Any, high: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bounds of an output.

    Raises:
        ValueError: If the spec is not bounded, the bounds are not those of the spec, or they are in the wrong order.
    """
    if leaf is not None and not isinstance(leaf, BoundedContinuous):
        raise ValueError(
            f"TanhModule maps to an interval of real numbers, and the spec of {key!r} is a {type(leaf).__name__} of "
            f"dtype {leaf.dtype}. Fix: a Bounded action, or TanhModule(..., low=-1.0, high=1.0) without a spec."
        )
    own: Any = (-1.0, 1.0) if leaf is None else (leaf.space.low, leaf.space.high)
    ends = []
    for name, given, of_spec in zip(("low", "high"), (low, high), own, strict=True):
        value = torch.as_tensor(of_spec if given is None else given)
        value = value if value.is_floating_point() else value.to(torch.get_default_dtype())
        if leaf is not None and given is not None and bool((value != of_spec).any()):
            raise ValueError(
                f"TanhModule got {name}={given!r}, and the spec of {key!r} has another one: {of_spec.tolist()}. "
                f"Fix: leave {name} out."
            )
        ends.append(value.detach().clone())
    if bool((ends[0] > ends[1]).any()):
        raise ValueError(
            f"TanhModule got a low of {ends[0].tolist()}, which is above the high of {ends[1].tolist()}. "
            "Fix: low=-1.0, high=1.0."
        )
    return ends[0], ends[1]
