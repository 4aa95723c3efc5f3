"""Drawings of the state of an env at each step, with the actions taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rlnb_widgets._core.text import key_text, shorten
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf, members
from rlnb_widgets.scenes.registry import find_scene
from rlnb_widgets.scenes.scene import Limit, Scene


@dataclass(frozen=True, eq=False)
class Drawing:
    """The drawing of a rollout, as `draw_frames` returns it."""

    scene: Scene  #: the drawing of all frames
    fields: tuple[str, ...]  #: names of the components of the state, if the scene knows them
    acting: tuple[int, ...]  #: parts of the scene that show the action
    limits: Mapping[str, tuple[Limit, ...]]  #: values that the env ends or clips at, by component
    note: str  #: note for the reader, such as that a map is assumed


def draw_frames(leaves: Mapping[Key, RolloutLeaf], extra: np.ndarray, env: Any) -> Drawing | str:
    """Draw the root of each step, then ``"next"`` of the flat steps ``extra``; return a reason if it is impossible."""
    spec = find_scene(env)
    name = env if isinstance(env, str) else type(env).__name__
    if spec is None:
        return (
            f"No frames: there is no drawing for {shorten(str(name), 60)}, and the env is not run again. "
            "Make it with from_pixels=True, or pass frames=..., or add a drawing with register_scene."
        )
    reads = tuple(getattr(spec, "reads", ()))
    states = _columns(reads, leaves, extra) if reads else _states(leaves, extra)
    if states is None:
        needs = " and ".join(key_text(_path(name)) for name in reads or ("observation",))
        return f"No frames: the drawing needs {needs}, which the rollout does not have."
    try:
        idle = spec.pose(states)
    except ValueError as error:
        return f"No frames: {error}"
    scene = _with_actions(spec, states, len(idle), leaves, len(idle) - len(extra)) or idle
    acts = np.isnan(idle.poses).any(-1).all(0) & ~np.isnan(scene.poses).any(-1).all(0)
    acting = tuple(np.flatnonzero(acts).tolist())
    fields = tuple(getattr(spec, "fields", ()))
    limits = {name: tuple(Limit(*limit) for limit in found) for name, found in getattr(spec, "limits", {}).items()}
    return Drawing(scene, fields, acting, limits, str(getattr(spec, "note", "")))


def _states(leaves: Mapping[Key, RolloutLeaf], extra: np.ndarray) -> Any:
    """Return the states of root and "next"; for a Tuple observation a tuple of columns."""
    for name in ("observation", "state"):
        if (leaf := leaves.get((name,))) is not None:
            return _both(leaf, leaves, extra)
        if parts := members(leaves, name):
            return tuple(_both(part, leaves, extra) for part in parts)
    return None


def _path(name: str | Key) -> Key:
    return (name,) if isinstance(name, str) else tuple(name)


def _columns(names: tuple[Any, ...], leaves: Mapping[Key, RolloutLeaf], extra: np.ndarray) -> Any:
    """Return the entries that a drawing reads: a single one as it is, several as columns, or as a tuple if nested."""
    if len(names) == 1 or not all(isinstance(name, str) for name in names):
        whole = [leaf for name in names if (leaf := leaves.get(_path(name))) is not None and leaf.kind == "number"]
        arrays = tuple(_both(leaf, leaves, extra) for leaf in whole)
        return None if len(arrays) < len(names) else arrays[0] if len(arrays) == 1 else arrays
    found = [leaf for name in names if (leaf := leaves.get((name,))) is not None and leaf.shape in ((), (1,))]
    if len(found) < len(names):
        return None
    return np.stack([_both(leaf, leaves, extra).reshape(-1) for leaf in found], axis=-1)


def _both(leaf: RolloutLeaf, leaves: Mapping[Key, RolloutLeaf], extra: np.ndarray) -> np.ndarray:
    rows = leaf.values.reshape(-1, *leaf.shape)
    after = leaves.get(("next", *leaf.base))
    ends = rows if after is None or after.shape != leaf.shape else after.values.reshape(-1, *leaf.shape)
    return np.concatenate([rows, ends[extra]])


def _with_actions(spec: Any, states: Any, frames: int, leaves: Mapping[Key, RolloutLeaf], n: int) -> Scene | None:
    action = leaves.get(tuple(getattr(spec, "acts", ("action",))))
    if action is None or action.kind != "number":
        return None
    pose: Callable[..., Scene] = spec.pose
    # No action was taken yet in the frames of "next".
    acted = action.values.reshape(n, *action.shape).astype(np.float64)
    rest = np.full((frames - n, *action.shape), 0.0 if action.shape and action.shape[-1] > 1 else np.nan)
    try:
        return pose(states, np.concatenate([acted, rest]))
    except ValueError:
        return None  # an action in an unknown encoding must not hide the drawing
