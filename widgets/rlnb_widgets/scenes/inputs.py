"""Validation of the observations and actions of scenes, and conversion of one-hot rows to indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def feature_rows(observations: Any, env: str, fields: tuple[str, ...]) -> Floats:
    """Return observations [N, F] as float64; a row with a NaN or an infinite number is all NaN.

    Raises:
        ValueError: If the shape is not [N, F].

    Example:
        >>> feature_rows([[1, float("nan")]], "Toy", ("x", "v"))
        array([[nan, nan]])
    """
    rows = np.asarray(observations)
    size = len(fields)
    if rows.ndim != 2 or rows.shape[1] != size:
        if rows.shape == (size,):
            hint = "That is a single observation; for one frame pass observations[None]."
        elif rows.ndim > 2 and rows.shape[-1] == size:
            hint = f"For a batch pick one environment, or pass observations.reshape(-1, {size})."
        else:
            hint = "Pass the observations as the env returns them, before any transform that picks or joins features."
        raise ValueError(
            f"{env} is drawn from observations of shape [N, {size}] ({', '.join(fields)}), "
            f"got shape {list(rows.shape)}. {hint}"
        )
    rows = rows.astype(np.float64)
    rows[~np.isfinite(rows).all(axis=1)] = np.nan
    return rows


def indices(values: Any, n: int, what: str) -> Floats:
    """Convert indices ([N] or [N, 1]) or one-hot rows [N, n] to indices [N], NaN for rows without a value.

    Raises:
        ValueError: If the shape matches neither encoding, or a value is out of range.

    Example:
        >>> indices([[0, 0, 1], [1, 0, 0], [0, 0, 0]], 3, "Toy states")
        array([ 2.,  0., nan])
    """
    array = np.asarray(values)
    if array.ndim == 2 and array.shape[1] == 1 != n:
        array = array[:, 0]
    if array.ndim == 1:
        return _checked_indices(array.astype(np.float64), n, what)
    if array.ndim == 2 and array.shape[1] == n:
        return _from_one_hot(array, n, what)
    hint = ""
    if array.ndim == 2:
        hint = " Was the scene made for another map or env? Ask for it with find_scene(env)."
    elif array.ndim > 2:
        hint = " For a batch pick one environment, or flatten the batch dimensions into one."
    raise ValueError(
        f"{what} must be indices of shape [N] or [N, 1], or one-hot rows of shape [N, {n}], "
        f"got shape {list(array.shape)}.{hint}"
    )


def _checked_indices(index: Floats, n: int, what: str) -> Floats:
    with np.errstate(invalid="ignore"):
        bad = ~np.isnan(index) & ~((index >= 0) & (index < n) & (index == np.floor(index)))
    if bad.any():
        at = int(bad.argmax())
        raise ValueError(
            f"{what} must be whole numbers from 0 to {n - 1} (or NaN for nothing), got {index[at]:g} at row {at}."
        )
    return index


def _from_one_hot(array: npt.NDArray[Any], n: int, what: str) -> Floats:
    on = array != 0
    count = np.count_nonzero(on, axis=1)
    first = on.argmax(axis=1)
    picked = array[np.arange(len(array)), first].astype(np.float64)
    index = np.where((count == 1) & (picked == 1), first, np.nan)
    odd = np.flatnonzero(np.isnan(index) & (count > 0))
    wrong = odd[~np.isnan(array[odd].astype(np.float64)).any(axis=1)]
    if len(wrong):
        raise ValueError(
            f"{what} of shape [N, {n}] must be one-hot (a single 1, the rest 0), "
            f"row {wrong[0]} has {count[wrong[0]]} entries that are not 0."
        )
    return index


def action_indices(actions: Any, n: int, frames: int, env: str) -> Floats:
    """Return one discrete action per frame, NaN for frames without one; the last frame may have none.

    Raises:
        ValueError: If the number or the shape of the actions does not match.

    Example:
        >>> action_indices([1, 0], 2, 3, "Toy")
        array([ 1.,  0., nan])
    """
    if actions is None:
        return np.full(frames, np.nan)
    return _fit(indices(actions, n, f"{env} actions"), frames, env)


def action_values(actions: Any, limit: float, frames: int, env: str) -> Floats:
    """Return one continuous action per frame, divided by its limit and clipped to [-1, 1]; NaN for none.

    Raises:
        ValueError: If the number or the shape of the actions does not match.

    Example:
        >>> action_values([[1.0], [-8.0]], 2.0, 2, "Toy")
        array([ 0.5, -1. ])
    """
    if actions is None:
        return np.full(frames, np.nan)
    array = np.asarray(actions)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{env} actions must be numbers of shape [N] or [N, 1], got shape {list(np.shape(actions))}.")
    return _fit(np.clip(array.astype(np.float64) / limit, -1, 1), frames, env)


def _fit(values: Floats, frames: int, env: str) -> Floats:
    if len(values) not in (frames, frames - 1):
        raise ValueError(
            f"{env} needs one action per observation, or one fewer if the last has none: "
            f"got {len(values)} actions for {frames} observations."
        )
    return values if len(values) == frames else np.append(values, np.nan)
