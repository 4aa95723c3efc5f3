"""Payload of the page: a description and compact columns, so that no frame needs Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.ends import ENDS
from rlnb_widgets._core.text import key_text, shorten
from rlnb_widgets.rollout_player.agents import LANES, RESTART
from rlnb_widgets.rollout_player.columns import PackedColumns
from rlnb_widgets.rollout_player.episodes import (
    KINDS,
    RESET_RULES,
    RESET_SIGNS,
    RESETS,
    RULES,
    STOPPED,
    stopped_at_the_end,
)
from rlnb_widgets.rollout_player.frames import Frames
from rlnb_widgets.rollout_player.leaves import RolloutLeaf
from rlnb_widgets.rollout_player.model import PlayerModel
from rlnb_widgets.rollout_player.scene import LEFT, RIGHT, PlayerScene
from rlnb_widgets.rollout_player.strips import category_role, line_role
from rlnb_widgets.rollout_player.turns import Turns

_LINED = ("line", "lanes", "bands")
_MOST_VALUES = 6
_MOST_BYTES = 6_000_000
# Scene units and radians are sent as integers: far finer than a pixel, in two bytes instead of four.
_UNITS, _TURNS, HIDDEN = 32.0, 4096.0, -32768
_MOST_PLACES, _PROBE = 256, 512


def player_payload(model: PlayerModel) -> tuple[dict[str, Any], bytes, bytes]:
    """Return the description, the bytes of all columns, and the bytes of all images."""
    scene = PlayerScene(model)
    strips = scene.strips()
    count, steps = model.code.shape
    columns = PackedColumns(count * steps)
    head: dict[str, Any] = {
        "labels": list(model.labels),
        "steps": steps,
        "kinds": list(KINDS),
        "rules": RULES,
        "code": columns.add(model.code.ravel()),
        "strips": [
            {
                "label": strip.label, "kind": strip.kind, "low": strip.low, "high": strip.high,
                "names": list(strip.names), "role": strip.role, "values": list(strip.values),
                "roles": [line_role(strip, k) for k in range(strip.data.shape[-1])] if strip.kind in _LINED else [],
                "categories": [category_role(k) for k in range(min(len(strip.values or strip.names), 12))],
                "columns": [columns.add(_small(strip.data[..., i]).ravel()) for i in range(strip.data.shape[-1])],
            }
            for strip in model.strips
        ],
    }  # fmt: skip
    head |= {"list": strips.payload(), "recipes": scene.recipes, "rows": scene.rows, "left": LEFT, "right": RIGHT}
    head |= {"resetKinds": list(RESETS), "resetRules": RESET_RULES, "resetSigns": RESET_SIGNS}
    head["ends"] = ENDS
    head |= {"resets": columns.add(model.resets.ravel()), "lanes": list(LANES), "restart": RESTART}
    head["stopped"] = STOPPED if stopped_at_the_end(model.code) else ""
    head["turns"] = _turns(model.turns, columns)
    head["entries"] = _entries(model, columns)
    head["columns"] = columns.described
    head["extra"] = model.frames.extra.tolist()
    head["notes"] = list(model.notes)
    head["parting"] = None if model.parting is None else {"t": model.parting.t, "text": str(model.parting)}
    blob = columns.blob
    head["frames"], blob, pictures = frames_payload(model.frames, blob)
    return head, blob, pictures


def _turns(turns: Turns | None, columns: PackedColumns) -> dict[str, Any] | None:
    if turns is None:
        return None
    return {
        "players": list(turns.players),
        "short": list(turns.short),
        "turn": columns.add(turns.turn.ravel()),
        "after": None if turns.after is None else columns.add(turns.after.ravel()),
        "rewards": [columns.add(reward.ravel()) for reward in turns.rewards],
    }


def _small(data: np.ndarray) -> np.ndarray:
    return data.astype(np.float32) if data.dtype == np.float64 else data


def _entries(model: PlayerModel, columns: PackedColumns) -> list[dict[str, Any]]:
    """Describe the rows of root and "next". Values are sent in order, until the byte limit is reached."""
    roots = {leaf.base: leaf for leaf in model.leaves if not leaf.is_next}
    nexts = {leaf.base: leaf for leaf in model.leaves if leaf.is_next}
    entries = []
    for base in sorted({*roots, *nexts}):
        sides = roots.get(base), nexts.get(base)
        # Both sides or neither, so that they can be compared.
        hot = all(leaf is None or leaf.hot is not None for leaf in sides)
        root = _entry(sides[0], columns, None, hot)
        following = _entry(sides[1], columns, root, hot)
        entries.append({"key": shorten(key_text(base), 60), "root": root, "next": following})
    return entries


def _entry(
    leaf: RolloutLeaf | None, columns: PackedColumns, ahead_of: dict[str, Any] | None, hot: bool
) -> dict[str, Any] | None:
    if leaf is None:
        return None
    entry: dict[str, Any] = {"dtype": leaf.dtype, "shape": list(leaf.shape), "absent": list(leaf.absent), "columns": []}
    if leaf.kind == "text":
        entry["texts"] = list(leaf.written)
        entry["columns"] = [columns.add(leaf.values.ravel())]
        return entry
    data = leaf.columns()
    if hot and leaf.hot is not None and data.shape[-1] > _MOST_VALUES:
        # The index replaces hundreds of numbers.
        entry["hot"] = True
        before = None if ahead_of is None else ahead_of["columns"][0]
        entry["columns"] = [columns.add(leaf.hot.ravel(), ahead_of=before)]
        return entry
    if len(leaf.shape) >= 2 and data.shape[-1] > _MOST_VALUES:
        return entry
    for i in range(min(data.shape[-1], _MOST_VALUES)):
        if columns.size > _MOST_BYTES:
            break
        before = None if ahead_of is None or i >= len(ahead_of["columns"]) else ahead_of["columns"][i]
        entry["columns"].append(columns.add(data[..., i].ravel(), ahead_of=before))
    return entry


def _pose(poses: np.ndarray, moving: PackedColumns) -> Any:
    """Describe the poses ``[frames, 3]`` of one part: as indices into few places, or a column for each coordinate."""
    # A piece of a board is always in one of few places, a pendulum in a new one in each frame.
    joined = _joined(poses)
    places = np.unique(joined[:: max(len(joined) // _PROBE, 1)])
    if len(places) <= min(_MOST_PLACES, len(joined) // 4 + 1):
        index = np.minimum(np.searchsorted(places, joined), len(places) - 1)
        if not (places[index] == joined).all():
            places, index = np.unique(joined, return_inverse=True)
        if len(places) <= _MOST_PLACES:
            of = places[:, None].view(np.int16)[:, :3].tolist()
            return {"at": moving.add(index.astype(np.uint8)), "of": of}
    return [moving.add(poses[:, c]) for c in range(3)]


def _joined(poses: np.ndarray) -> np.ndarray:
    wide = np.zeros((len(poses), 4), np.int16)
    wide[:, :3] = poses
    return wide.view(np.int64)[:, 0]


def frames_payload(frames: Frames, blob: bytes = b"") -> tuple[dict[str, Any], bytes, bytes]:
    """Return the description of the frames, ``blob`` with their numbers added, and the bytes of all pictures."""
    head: dict[str, Any] = {"kind": frames.kind, "note": frames.note}
    if frames.scene is not None:
        poses = frames.scene.poses
        moving = PackedColumns(len(poses))
        fine = np.nan_to_num(poses * (_UNITS, _UNITS, _TURNS))
        whole = np.rint(np.clip(fine, HIDDEN + 1, -HIDDEN - 1)).astype(np.int16)
        whole[~np.isfinite(poses).all(-1)] = HIDDEN
        head["poses"] = [_pose(whole[:, p], moving) for p in range(whole.shape[1])]
        head |= {"columns": moving.described, "units": _UNITS, "turns": _TURNS, "hidden": HIDDEN, "start": len(blob)}
        head |= {"scene": frames.scene.to_dict(), "acting": list(frames.acting)}
        return head, blob + moving.blob, b""
    if frames.pictures is None:
        return head, blob, b""
    pictures = frames.pictures
    index = PackedColumns(len(pictures.index))
    head["index"] = index.add(pictures.index)
    head |= {"columns": index.described, "start": len(blob), "width": pictures.width, "height": pictures.height}
    head["mime"] = pictures.mime
    head["offsets"] = np.cumsum([0, *map(len, pictures.data)]).tolist()
    return head, blob + index.blob, b"".join(pictures.data)
