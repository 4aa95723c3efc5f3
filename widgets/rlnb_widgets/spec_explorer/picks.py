"""Example values to pick: a sample, the ends of the domain, and values outside of it."""

from __future__ import annotations

import math
from typing import Any

import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb_widgets.spec_explorer.samples import seeded
from rlnb_widgets.spec_explorer.schema import Cell, Row

#: More numbers than this are not worth reading in a text field.
MOST = 24

_BY_KIND: dict[str, tuple[str, ...]] = {
    "interval": ("sample", "lowest", "highest", "too high", "wrong shape"),
    "any": ("sample", "zeros", "wrong shape"),
    "choices": ("sample", "first", "last", "beyond the last", "a fraction"),
    "one-hot": ("sample", "an integer", "all zeros", "two ones"),
    "binary": ("sample", "zeros", "twos", "halves"),
    "multi": ("sample", "zeros", "wrong shape"),
    "non-tensor": ("sample", "a number"),
    "composite": ("sample",),
    "choice": ("sample",),
}


def picks_of(row: Row) -> list[str]:
    """Return the names of the values that can be picked for a row."""
    cell = row.cell
    names = _BY_KIND.get(cell.domain.kind, ()) if row.here and 0 < _size(cell) <= MOST else ()
    return [name for name in names if _offered(name, cell)]


def _offered(name: str, cell: Cell) -> bool:
    lanes = cell.domain.lanes
    if name == "lowest":
        return all(lane.kind != "line" or lane.low is not None for lane in lanes)
    if name == "too high":
        return any(lane.kind == "choices" or lane.high is not None for lane in lanes)
    if name == "highest":
        return all(lane.kind != "line" or lane.high is not None for lane in lanes)
    if name == "a fraction":
        return cell.dtype != "bool"
    return True


def pick(spec: TensorSpec, name: str, seed: int) -> Any:
    """Return the value with a name of `picks_of`, as one would type it; ``seed`` is that of a sample.

    Raises ``ValueError`` if there is no such value.
    """
    if name == "sample":
        with seeded(spec, seed):
            return plain(spec.rand())
    if name in ("lowest", "highest") and isinstance(spec, Bounded):
        return plain(spec.low if name == "lowest" else spec.high)
    if name == "too high" and isinstance(spec, Bounded):
        # float64: one more than the largest integer of a dtype would wrap around
        high = spec.high.to(torch.float64)
        return plain(torch.where(high.isinf(), 0.0, high + 1))
    shape, n, start = tuple(spec.shape), int(getattr(spec, "n", 1)), int(_scalar(getattr(spec, "start", 0)))
    made: dict[str, Any] = {
        "zeros": lambda: plain(spec.zero()),
        "all zeros": lambda: plain(spec.zero()),
        "wrong shape": lambda: [0] * (shape[-1] + 1 if shape else 2),
        "first": lambda: _filled(shape, start),
        "last": lambda: _filled(shape, start + n - 1),
        "beyond the last": lambda: _filled(shape, start + n),
        "a fraction": lambda: _filled(shape, start + 0.5),
        "an integer": lambda: _filled(shape[:-1], start),
        "two ones": lambda: _filled(shape[:-1], [1, 1, *[0] * (n - 2)] if n > 1 else [2]),
        "twos": lambda: _filled(shape, 2),
        "halves": lambda: _filled(shape, 0.5),
        "a number": lambda: 1,
    }
    if name not in made:
        raise ValueError(f"there is no pick {name!r}; there are sample, lowest, highest, too high, {', '.join(made)}.")
    return made[name]()


def plain(value: Any) -> Any:
    """Convert a tensor, a TensorDict or non-tensor data to numbers, lists and dictionaries."""
    if isinstance(value, torch.Tensor):
        numbers = value.detach().cpu()
        return _short(numbers.tolist()) if numbers.is_floating_point() else numbers.tolist()
    if hasattr(value, "keys"):
        return {key: plain(value.get(key)) for key in value.keys()}  # noqa: SIM118 - iterating is by rows
    return value.data if hasattr(value, "data") else value


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(part) for part in value]
    return float(f"{value:.4g}") if math.isfinite(value) and abs(value) < 1e6 else value


def _filled(shape: tuple[int, ...], value: Any) -> Any:
    for size in reversed(shape):
        value = [value] * max(size, 1)
    return value


def _scalar(value: Any) -> Any:
    return value.flatten()[0].item() if isinstance(value, torch.Tensor) else value


def _size(cell: Cell) -> int:
    return math.prod(1 if dim.size in (None, -1) else dim.size for dim in cell.dims)
