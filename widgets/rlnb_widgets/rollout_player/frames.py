"""Frames of a rollout: pixels from the data, a drawn scene, or a hint how to get either."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlnb_widgets._core.display import Display
from rlnb_widgets._core.images import is_frames
from rlnb_widgets._core.text import key_text, shorten
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf, members
from rlnb_widgets.rollout_player.pictures import Pictures, encode_frames
from rlnb_widgets.scenes.registry import find_scene
from rlnb_widgets.scenes.scene import Limit, Scene

NO_FRAMES = (
    "No frames: the rollout holds no pixels. Make the env with from_pixels=True, or pass frames=..., "
    "or pass env=... if the env can be drawn from its state."
)


@dataclass(frozen=True, eq=False)
class Frames:
    """The frames of all environments that are shown.

    Frame ``e * T + t`` is what the agent saw at step *t* of environment *e*. Where the row after *t* does not show what
    step *t* led to (at the end of an episode and of the data), one more frame does; these follow after ``E * T``, in
    the order of `extra`.
    """

    kind: str  #: ``"scene"``, ``"pixels"`` or ``"none"``
    extra: np.ndarray  #: flat steps ``e * T + t`` with an additional frame for ``"next"``, int32, sorted
    note: str = ""  #: note for the reader, or the reason why there are no frames
    scene: Scene | None = None  #: for ``"scene"``: the drawing with ``E * T + len(extra)`` poses
    pictures: Pictures | None = None  #: for ``"pixels"``: the encoded frames
    #: values that the env ends or clips at, by component of the state
    limits: Mapping[str, tuple[Limit, ...]] = field(default_factory=dict)
    fields: tuple[str, ...] = ()  #: names of the components of the state, if the scene knows them
    acting: tuple[int, ...] = ()  #: parts of the scene that show the action; a frame of "next" is drawn without them

    def draw(self, display: Display, i: int, place: tuple[float, float, float, float], **options: Any) -> None:
        """Draw frame ``i`` into a place (x, y, width, height); drawings take the options of :meth:`Scene.draw`."""
        x, y, wide, tall = place
        if self.scene is not None:
            with display.placed((x, y, 0), wide / self.scene.width, (self.scene.width, self.scene.height)):
                self.scene.draw(display, i, **options)
        elif self.pictures is not None:
            data = base64.b64encode(self.pictures.data[self.pictures.index[i]]).decode()
            display.image(x, y, wide, tall, f"data:{self.pictures.mime};base64,{data}")
        display.box(x, y, wide, tall, stroke="line", radius=3)


def find_frames(
    leaves: dict[Key, RolloutLeaf], code: np.ndarray, env: Any, frames: Any, budget: int, chosen: np.ndarray, total: int
) -> Frames:
    """Find or draw the frames of the environments ``chosen``, out of ``total``, with at most ``budget`` bytes.

    Raises:
        ValueError: If `frames` were given and do not fit.
    """
    if frames is not None:
        return _given(frames, code, budget, chosen, total)
    extra = _breaks(code)
    notes = []
    pixels = _pixel_leaf(leaves)
    if pixels is not None:
        try:
            return _from_leaf(pixels, leaves, extra, budget)
        except ValueError as error:
            notes.append(f"{key_text(pixels.key)} cannot be drawn: {error}")
    if env is not None:
        drawn = _drawn(leaves, extra, env)
        if isinstance(drawn, Frames):
            return drawn
        notes.append(drawn)
    return Frames("none", extra, note=" ".join(notes) or NO_FRAMES)


def _breaks(code: np.ndarray) -> np.ndarray:
    ends = (code != 0) & (code != 6)
    ends[:, -1] = True
    return np.flatnonzero(ends.ravel()).astype(np.int32)


def _pixel_leaf(leaves: dict[Key, RolloutLeaf]) -> RolloutLeaf | None:
    named = [v for k, v in leaves.items() if k[-1] in ("pixels", "frame", "rgb") and v.kind == "number"]
    pictures = [v for v in leaves.values() if v.kind == "number" and v.dtype == "uint8" and not v.is_next]
    for leaf in [*sorted(named, key=lambda v: v.is_next), *pictures]:
        if is_frames(leaf.shape):
            return leaf
    return None


def _from_leaf(leaf: RolloutLeaf, leaves: dict[Key, RolloutLeaf], extra: np.ndarray, budget: int) -> Frames:
    flat, ends = _root_and_next(leaf, leaves)
    n = len(flat)
    pictures = encode_frames(lambda i: flat[i] if i < n else ends[extra[i - n]], n + len(extra), budget)
    notes = [_thinned(pictures)]
    if leaf.is_next:
        notes.append('Frames are those of "next": each shows what its step led to.')
    return Frames("pixels", extra, note=" ".join(filter(None, notes)), pictures=pictures)


def _root_and_next(leaf: RolloutLeaf, leaves: Mapping[Key, RolloutLeaf]) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of a leaf and those of ``"next"``, which are the same ones if it has no such leaf."""
    rows = leaf.values.reshape(-1, *leaf.shape)
    after = leaves.get(("next", *leaf.base))
    return rows, rows if after is None or after.shape != leaf.shape else after.values.reshape(-1, *leaf.shape)


def _thinned(pictures: Pictures) -> str:
    if not pictures.left_out:
        return ""
    return (
        f"Frames are thinned to {len(pictures.data)} pictures: a frame that was left out shows the one before it. "
        "Raise max_bytes, or play a slice of the rollout, to see all."
    )


def _drawn(leaves: Mapping[Key, RolloutLeaf], extra: np.ndarray, env: Any) -> Frames | str:
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
    scene = _with_actions(spec, states, leaves, extra) or idle
    acts = np.isnan(idle.poses).any(-1).all(0) & ~np.isnan(scene.poses).any(-1).all(0)
    acting = tuple(np.flatnonzero(acts).tolist())
    fields = tuple(getattr(spec, "fields", ()))
    limits = {name: tuple(Limit(*limit) for limit in found) for name, found in getattr(spec, "limits", {}).items()}
    note = str(getattr(spec, "note", ""))
    return Frames("scene", extra, note, scene=scene, limits=limits, fields=fields, acting=acting)


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
    """Return the rows of a leaf, then ``"next"`` of the flat steps ``extra``."""
    rows, ends = _root_and_next(leaf, leaves)
    return np.concatenate([rows, ends[extra]])


def _with_actions(spec: Any, states: Any, leaves: Mapping[Key, RolloutLeaf], extra: np.ndarray) -> Scene | None:
    """Draw the states with the actions taken; return None if the rollout has none that the scene can draw."""
    action = leaves.get(tuple(getattr(spec, "acts", ("action",))))
    if action is None or action.kind != "number":
        return None
    pose: Callable[..., Scene] = spec.pose
    # No action was taken yet in the frames of "next".
    acted = action.values.reshape(-1, *action.shape).astype(np.float64)
    rest = np.full((len(extra), *action.shape), 0.0 if action.shape and action.shape[-1] > 1 else np.nan)
    try:
        return pose(states, np.concatenate([acted, rest]))
    except ValueError:
        return None  # an action in an unknown encoding must not hide the drawing


def _given(frames: Any, code: np.ndarray, budget: int, chosen: np.ndarray, total: int) -> Frames:
    count, steps = code.shape
    batch = _as_arrays(frames)
    shape = np.shape(batch)
    lead = (total, steps) if len(shape) >= 2 and shape[:2] in ((total, steps), (total, steps + 1)) else (steps,)
    batched = len(lead) == 2 and is_frames(shape[2:])
    if not batched:
        batch = [batch]
    length = len(batch[0])
    if (not batched and total != 1) or length not in (steps, steps + 1):
        want = f"[{steps}, ...]" if total == 1 else f"[{total}, {steps}, ...]"
        raise ValueError(
            f"frames must hold one picture a step, {want} or one more at the end, got shape {list(shape)}. "
            "Render a frame before every step, and one after the last."
        )
    rows = [batch[int(e)] if batched else batch[0] for e in chosen]
    extra = np.flatnonzero(np.arange(count * steps) % steps == steps - 1).astype(np.int32)

    def frame_at(i: int) -> Any:
        if i < count * steps:
            return rows[i // steps][i % steps]
        return rows[i - count * steps][length - 1]

    pictures = encode_frames(frame_at, count * steps + count, budget)
    return Frames("pixels", extra, note=_thinned(pictures), pictures=pictures)


def _as_arrays(frames: Any) -> Any:
    if isinstance(frames, torch.Tensor):
        return frames.detach().cpu().numpy()
    if isinstance(frames, np.ndarray):
        return frames
    items = list(frames)
    if not items:
        raise ValueError("frames is empty: give one picture a step.")
    return np.stack([np.asarray(f) for f in items])
