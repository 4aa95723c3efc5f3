"""Frames of a rollout: pixels from the data, a drawn scene, or a hint how to get either."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from rlnb_widgets._core.images import is_frames
from rlnb_widgets._core.text import key_text
from rlnb_widgets.rollout_player.drawing import draw_frames
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf
from rlnb_widgets.rollout_player.pictures import Pictures, encode_frames
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
        drawn = draw_frames(leaves, extra, env)
        if not isinstance(drawn, str):
            return Frames(
                "scene", extra, drawn.note, scene=drawn.scene, limits=drawn.limits, fields=drawn.fields,
                acting=drawn.acting,
            )  # fmt: skip
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
    flat = leaf.values.reshape(-1, *leaf.shape)
    after = leaves.get(("next", *leaf.base))
    ends = flat if after is None or after.shape != leaf.shape else after.values.reshape(-1, *leaf.shape)
    n = len(flat)
    pictures = encode_frames(lambda i: flat[i] if i < n else ends[extra[i - n]], n + len(extra), budget)
    notes = [_thinned(pictures)]
    if leaf.is_next:
        notes.append('Frames are those of "next": each shows what its step led to.')
    return Frames("pixels", extra, note=" ".join(filter(None, notes)), pictures=pictures)


def _thinned(pictures: Pictures) -> str:
    if not pictures.left_out:
        return ""
    return (
        f"Frames are thinned to {len(pictures.data)} pictures: a frame that was left out shows the one before it. "
        "Raise max_bytes, or play a slice of the rollout, to see all."
    )


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
