"""Payload of the page: a description and compact columns, so that no frame needs Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from rlnb_widgets._core.display_svg import legend_payload
from rlnb_widgets._core.packing import deflated
from rlnb_widgets._core.text import key_text, shorten
from rlnb_widgets.rollout_player.agents import LANES, RESTART
from rlnb_widgets.rollout_player.columns import PackedColumns
from rlnb_widgets.rollout_player.episodes import KINDS, RESETS
from rlnb_widgets.rollout_player.frames import Frames
from rlnb_widgets.rollout_player.leaves import RolloutLeaf
from rlnb_widgets.rollout_player.legend import meanings, player_legend
from rlnb_widgets.rollout_player.marks import jump_marks
from rlnb_widgets.rollout_player.model import PlayerModel
from rlnb_widgets.rollout_player.scene import PlayerScene, own_scale, scale_notes
from rlnb_widgets.rollout_player.strips import Strip
from rlnb_widgets.rollout_player.turns import Turns

_MOST_VALUES = 6
_MOST_BYTES = 8_000_000  # before they are deflated
# Scene units and radians are sent as integers: far finer than a pixel, in two bytes instead of four.
_UNITS, _TURNS, HIDDEN = 32.0, 4096.0, -32768


def player_payload(model: PlayerModel) -> tuple[dict[str, Any], bytes, bytes]:
    """Return the description, the deflated bytes of all columns, and the bytes of all images."""
    scene = PlayerScene(model)
    count, steps = model.code.shape
    columns = PackedColumns(count * steps)
    head: dict[str, Any] = {
        "labels": list(model.labels),
        "steps": steps,
        "kinds": list(KINDS),
        "code": columns.add(model.code.ravel()),
        "strips": [_strip(strip, columns) for strip in model.strips],
    }
    pairs = zip(head["strips"], model.strips, strict=True)
    head["returns"] = [column for out, strip in pairs if strip.role == "return" for column in out["columns"]]
    head |= {"resets": columns.add(model.resets.ravel()), "resetKinds": list(RESETS)}
    head |= {"episode": columns.add(scene.numbers.ravel()), "episodes": scene.numbers.max(1).tolist()}
    head["list"] = scene.strips().payload()
    head["recipes"] = [
        [kind, lane, columns.add(_small(of).ravel()), *settings] for kind, lane, of, settings in scene.recipes
    ]
    marks = jump_marks(model)
    bits = sum(where.astype(np.uint8) << k for k, where in enumerate(marks.values()))
    head |= {"marks": list(marks), "marked": columns.add(np.asarray(bits).ravel())}
    head["legend"] = legend_payload(player_legend(model, range(count)))
    head["rules"] = meanings(model)
    head["turns"] = _turns(model.turns, model.code == KINDS.index("terminated"), columns)
    head["entries"] = _entries(model, columns)
    head["columns"] = columns.described
    head["extra"] = model.frames.extra.tolist()
    head["notes"] = [*model.notes, *scale_notes(model)]
    head["parting"] = None if model.parting is None else str(model.parting)
    blob = columns.blob
    head["frames"], blob, pictures = frames_payload(model.frames, blob)
    return head, deflated(blob), pictures


def _strip(strip: Strip, columns: PackedColumns) -> dict[str, Any]:
    out: dict[str, Any] = {
        "label": strip.label,
        "kind": strip.kind,
        "names": list(strip.names) if strip.kind == "area" else [],
        "columns": [columns.add(_small(strip.data[..., i]).ravel()) for i in range(strip.data.shape[-1])],
    }
    lanes = [*LANES, *[""] * (RESTART - len(LANES)), *LANES]
    if words := {"band": list(strip.names), "bands": list(strip.values), "lanes": lanes}.get(strip.kind):
        out["words"] = words
    if strip.scales:
        out["scales"] = [own_scale(strip, env) for env in range(len(strip.scales))]
    return out


def _turns(turns: Turns | None, over: np.ndarray, columns: PackedColumns) -> dict[str, Any] | None:
    if turns is None:
        return None
    words, now, after = turns.numbered(over)
    return {"words": words, "now": columns.add(now.ravel()), "after": columns.add(after.ravel())}


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
        key = shorten(key_text(base), 60)
        lines = (f"{side}: {_form(leaf)}" for side, leaf in zip(("root", "next"), sides, strict=True))
        entries.append({"key": key, "about": "\n".join((key, *lines)), "root": root, "next": following})
    return entries


def _form(leaf: RolloutLeaf | None) -> str:
    return "not there" if leaf is None else f"{leaf.dtype} {list(leaf.shape)}"


def _entry(
    leaf: RolloutLeaf | None, columns: PackedColumns, ahead_of: dict[str, Any] | None, hot: bool
) -> dict[str, Any] | None:
    if leaf is None:
        return None
    entry: dict[str, Any] = {"absent": list(leaf.absent), "columns": [], "around": [_form(leaf), ""]}
    before = [] if ahead_of is None else ahead_of["columns"]
    if leaf.kind == "text":
        return {**entry, "texts": list(leaf.written), "columns": [columns.add(leaf.values.ravel())], "around": ["", ""]}
    data, size = leaf.columns(), int(np.prod(leaf.shape))
    if hot and leaf.hot is not None and data.shape[-1] > _MOST_VALUES:
        # The index replaces hundreds of numbers.
        index = columns.add(leaf.hot.ravel(), ahead_of=next(iter(before), None))
        return {**entry, "columns": [index], "around": [f"one-hot [{size}], 1\u00a0at\u00a0", ""]}
    if len(leaf.shape) >= 2 and data.shape[-1] > _MOST_VALUES:
        return entry
    for i in range(min(data.shape[-1], _MOST_VALUES)):
        if columns.size > _MOST_BYTES:
            break
        ahead = before[i] if i < len(before) else None
        entry["columns"].append(columns.add(data[..., i].ravel(), ahead_of=ahead))
    if entry["columns"]:
        alone = size == 1 and len(leaf.shape) <= 1
        rest = f", … {size}]" if size > len(entry["columns"]) else "]"
        entry["around"] = ["", ""] if alone else ["[", rest]
    if leaf.dtype == "bool":
        entry["texts"] = ["False", "True"]
    return entry


def frames_payload(frames: Frames, blob: bytes = b"") -> tuple[dict[str, Any], bytes, bytes]:
    """Return the description of the frames, ``blob`` with their numbers added, and the bytes of all pictures."""
    head: dict[str, Any] = {"kind": frames.kind, "note": frames.note}
    if frames.scene is not None:
        poses = frames.scene.poses
        moving = PackedColumns(len(poses))
        fine = np.nan_to_num(poses * (_UNITS, _UNITS, _TURNS))
        whole = np.rint(np.clip(fine, HIDDEN + 1, -HIDDEN - 1)).astype(np.int16)
        whole[~np.isfinite(poses).all(-1)] = HIDDEN
        head["poses"] = [[moving.add(column) for column in part] for part in whole.transpose(1, 2, 0)]
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
