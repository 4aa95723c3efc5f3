"""Validation of what a training loop hands to the monitor."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from rlnb_widgets.training_monitor.model import ValueMap

_DIRECTIONS = ("left", "down", "right", "up")


def check_name(name: Any) -> str:
    """Return the name of a curve.

    Raises:
        TypeError: If it is not a text.
        ValueError: If it is empty.
    """
    if not isinstance(name, str):
        raise TypeError(f'A curve has a text as its name, such as "loss", got {name!r}.')
    if not name.strip():
        raise ValueError('A curve needs a name, such as "loss", got an empty one.')
    return name


def logged_number(name: str, value: Any) -> Any:
    """Return a value as a float, or as a tensor of its own if it is on another device.

    Raises:
        TypeError: If it is not one number.
    """
    if type(value) is float:
        return value
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        # On the CPU reading costs less than keeping: the loop may overwrite the tensor, and it holds a graph. Other
        # devices would be waited for.
        return float(value.item()) if value.is_cpu else value.detach().clone()
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "biuf":
        return float(value.item())
    shape = getattr(value, "shape", None)
    got = f"a {type(value).__name__}" + ("" if shape is None else f" of shape {list(shape)}")
    fix = f"{name}={name}.mean()" if shape is not None and name.isidentifier() else f"{name}=0.5"
    raise TypeError(
        f"The monitor logs one number for {name!r}, got {got}. Nothing was logged. Fix: monitor.log({fix})."
    )


def check_step(step: Any) -> float:
    """Return a step as a float.

    Raises:
        TypeError: If it is not a number.
        ValueError: If it is not finite.
    """
    if isinstance(step, torch.Tensor) and step.numel() == 1:
        step = step.item()
    if isinstance(step, bool) or not isinstance(step, numbers.Real):
        raise TypeError(
            f"step, the place of the logged values, must be a number, got a {type(step).__name__}. Nothing was logged. "
            "Fix: monitor.log(loss=loss, step=i)."
        )
    if not math.isfinite(step):
        raise ValueError(f"step, the place of the logged values, must be finite, got {step}. Nothing was logged.")
    return float(step)


def value_map(
    values: Any, shape: tuple[int, int] | None, actions: Any, blocked: Any, goal: Any, arrows: Sequence[str]
) -> ValueMap:
    """Return the map that `TrainingMonitor.show_values` describes."""
    numbers_ = _array(values).astype(np.float64)
    if shape is None and numbers_.ndim != 2:
        raise ValueError(
            f"The values of a grid have the shape [rows, columns], got {list(numbers_.shape)}. "
            "Fix: monitor.show_values(values, shape=(rows, columns))."
        )
    rows, columns = numbers_.shape if shape is None else shape
    size = rows * columns
    if numbers_.size != size or not size:
        raise ValueError(
            f"A grid of {rows} x {columns} has {size} states, got {numbers_.size} values. "
            "Fix: shape=(rows, columns) of the env's map."
        )
    unknown = [name for name in arrows if name not in _DIRECTIONS]
    if unknown:
        raise ValueError(f"arrows are {', '.join(map(repr, _DIRECTIONS))}, got {unknown[0]!r}.")
    chosen = [""] * size
    if actions is not None:
        indices = _array(actions).reshape(-1)
        if len(indices) != size:
            raise ValueError(f"actions must have one action for each of the {size} states, got {len(indices)}.")
        if indices.max(initial=-1) >= len(arrows):
            raise ValueError(
                f"actions must be less than {len(arrows)}, the number of arrows, got {indices.max()}. "
                "Fix: arrows=[...], the direction of each action."
            )
        chosen = [arrows[int(action)] if action >= 0 else "" for action in indices]
    ends = _states(goal, size, "goal")
    walls = _states(blocked, size, "blocked")
    for state in walls | ends:
        chosen[state] = ""
    return ValueMap(rows, columns, numbers_.reshape(-1), tuple(chosen), walls, ends)


def _array(values: Any) -> np.ndarray:
    return values.detach().cpu().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def _states(given: Any, size: int, name: str) -> frozenset[int]:
    """Return states that are given as an index, as indices or as a mask."""
    if given is None:
        return frozenset()
    array = _array(list(given) if isinstance(given, (set, frozenset)) else given)
    if array.dtype == np.bool_ and array.size == size:
        return frozenset(np.flatnonzero(array.reshape(-1)).tolist())
    found = frozenset(int(state) for state in array.reshape(-1))
    if any(not 0 <= state < size for state in found):
        raise ValueError(f"{name} must be states from 0 to {size - 1}, or a mask of them, got {sorted(found)}.")
    return found
