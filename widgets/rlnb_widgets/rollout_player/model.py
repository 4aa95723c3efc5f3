"""Conversion of a rollout to the model that all views of the player show."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlnb_widgets._core.environments import check_env
from rlnb_widgets._core.text import plural, shorten
from rlnb_widgets.rollout_player.agents import Group, find_groups
from rlnb_widgets.rollout_player.compare import RolloutDivergence, first_parting
from rlnb_widgets.rollout_player.episodes import KINDS, Episode, ends, episodes, resets, returns_so_far
from rlnb_widgets.rollout_player.frames import Frames, find_frames
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf, read_leaves, steps_shape, with_hot
from rlnb_widgets.rollout_player.strips import (
    Strip,
    choose_strips,
    group_strips,
    lane_strips,
    with_limits,
    with_scales,
)
from rlnb_widgets.rollout_player.turns import Turns, find_turns

_MOST_SHOWN = 16


@dataclass(frozen=True, eq=False)
class PlayerModel:
    """The data that the player shows."""

    total: int  #: number of environments in the rollout
    envs: tuple[int, ...]  #: flat indices of the environments that are shown
    labels: tuple[str, ...]  #: their names
    length: int  #: number of steps T
    code: np.ndarray  #: kind of end at each step, an index into `KINDS`, ``[E, T]``
    episodes: tuple[Episode, ...]  #: all episodes, by environment and time
    leaves: tuple[RolloutLeaf, ...]  #: all entries
    strips: tuple[Strip, ...]  #: the strips over time
    frames: Frames  #: the frames
    parting: RolloutDivergence | None  #: where two compared rollouts diverge. None: they do not, or only one is shown.
    notes: tuple[str, ...]  #: what cannot be shown, and why
    resets: np.ndarray  #: kind of reset at the start of an episode, an index into `RESETS`, ``[E, T]``
    groups: tuple[Group, ...] = ()  #: groups of agents or players with separate rewards or end signals
    turns: Turns | None = None  #: players of a turn-based game. None: it is not one.

    def leaf(self, *key: str) -> RolloutLeaf | None:
        """Return the entry with a key, or None."""
        return next((leaf for leaf in self.leaves if leaf.key == key), None)


def player_model(
    rollout: Any,
    env: Any = None,
    *,
    frames: Any = None,
    strips: Any = None,
    envs: int | Iterable[int] | None = None,
    compare: Any = None,
    labels: Sequence[str] | None = None,
    max_bytes: int = 8_000_000,
) -> PlayerModel:
    """Build the model of a rollout, or of two rollouts to compare; the arguments are those of `RolloutPlayer`.

    Raises:
        TypeError: If a rollout is not a TensorDict, `env` is neither an environment nor an id, or `envs` is neither an
            index nor several.
        ValueError: If the rollout is empty, the shape of `frames` does not match, or `labels` are too few or too many.
        IndexError: If `envs` names an environment that does not exist.
        KeyError: If a key in `strips` is missing.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> done = torch.tensor([False, True, False]).unsqueeze(-1)
        >>> td = TensorDict({"next": {"reward": torch.ones(3, 1), "done": done, "terminated": done}}, [3])
        >>> [(e.start, e.stop, e.ret, e.end) for e in player_model(td).episodes]
        [(0, 2, 2.0, 'terminated'), (2, 3, 1.0, 'open')]
    """
    total, _ = steps_shape(rollout)
    check_env(env)
    if compare is not None:
        chosen = _chosen(envs if envs is not None else [0], min(total, steps_shape(compare)[0]), one=True)
        if frames is not None:
            raise ValueError('frames= belongs to one rollout; to compare two, store each one\'s frames under "pixels".')
        names = ("a", "b") if labels is None else tuple(labels)
        if len(names) != 2:
            raise ValueError(f"labels must name the two rollouts that are compared, got {plural(len(names), 'label')}.")
        side = _join(_side(rollout, chosen), _side(compare, chosen), (names[0], names[1]))
    else:
        chosen = _chosen(envs, total, one=False)
        side = _side(rollout, chosen)
        names = tuple(_label(int(e), rollout.batch_size[:-1]) for e in chosen) if labels is None else tuple(labels)
        if len(names) != len(chosen):
            shown = plural(len(chosen), "environment")
            raise ValueError(f"labels must name the {shown} that are shown, got {plural(len(names), 'label')}.")
    notes = [*side.notes]
    if len(chosen) < total and compare is None:
        notes.append(f"Showing {len(chosen)} of {plural(total, 'environment')}; envs=[...] chooses others.")
    if compare is not None and total > 1:
        notes.append(f"Environment {chosen[0]} of each is compared; envs=[i] chooses another.")
    groups = find_groups(side.leaves, side.code, env)
    returns = _returns(side.leaves, side.code, notes, any(a.reward is not None for g in groups for a in g.agents))
    seen = find_frames(side.leaves, side.code, env, frames, max_bytes, chosen, total)
    numbers = {group.key: tuple(agent.number for agent in group.agents) for group in groups}
    drawn = choose_strips(side.leaves, returns, strips, seen.fields, numbers)
    drawn = tuple(with_limits(s, seen.limits.get(s.label.removeprefix("next "), ())) for s in drawn)
    earned, left_out = group_strips(groups)
    first = sum(strip.role in ("reward", "return") for strip in drawn)
    drawn = (*lane_strips(groups, side.code), *drawn[:first], *earned, *drawn[first:])
    drawn = _without_padding(drawn, side.code == KINDS.index("padding"))
    if compare is None:
        drawn = tuple(map(with_scales, drawn))
    return PlayerModel(
        total=total, envs=tuple(chosen.tolist()), labels=names, length=side.code.shape[1], code=side.code,
        episodes=episodes(side.code, returns), leaves=tuple(side.leaves.values()), strips=drawn, frames=seen,
        parting=side.parting, notes=(*notes, *left_out), resets=resets(side.leaves, side.code), groups=groups,
        turns=find_turns(side.leaves, _signs(seen)),
    )  # fmt: skip


def _signs(frames: Frames) -> tuple[str, ...]:
    """Return the signs of the players, if the drawing has pieces with signs."""
    parts = () if frames.scene is None else frames.scene.parts
    return tuple(dict.fromkeys(part.name[0] for part in parts if part.name[:2] in ("X ", "O ")))


def _without_padding(strips: tuple[Strip, ...], padding: np.ndarray) -> tuple[Strip, ...]:
    if not padding.any():
        return strips
    masked = []
    for strip in strips:
        whole = strip.kind in ("band", "bands", "lanes")
        data = strip.data.copy() if whole else strip.data.astype(np.float64)
        data[padding] = -1 if whole else np.nan
        masked.append(replace(strip, data=data))
    return tuple(masked)


@dataclass(frozen=True, eq=False)
class _Side:
    leaves: dict[Key, RolloutLeaf]
    code: np.ndarray
    notes: list[str]
    parting: RolloutDivergence | None = None


def _side(rollout: Any, chosen: np.ndarray) -> _Side:
    _, steps = steps_shape(rollout)
    leaves, problems = read_leaves(rollout, chosen)
    by_key = {leaf.key: leaf for leaf in leaves}
    code, notes = ends(by_key, len(chosen), steps)
    padding = code == KINDS.index("padding")
    return _Side({key: with_hot(leaf, padding) for key, leaf in by_key.items()}, code, problems + notes)


def _chosen(envs: int | Iterable[int] | None, total: int, one: bool) -> np.ndarray:
    if envs is None:
        return np.arange(min(total, _MOST_SHOWN))
    try:
        chosen = np.array([*map(operator.index, envs if isinstance(envs, Iterable) else [envs])], dtype=np.int64)
    except TypeError:
        got = shorten(repr(envs), 60)
        raise TypeError(f"envs must be the index of an environment, or several, got {got}.") from None
    if not chosen.size or (one and chosen.size != 1):
        need = "one environment" if one else "at least one environment"
        raise ValueError(f"envs must name {need}, got {chosen.tolist()}.")
    outside = chosen[(chosen < 0) | (chosen >= total)]
    if outside.size:
        raise IndexError(f"envs names {outside[0]}, but there are {plural(total, 'environment')} (0 to {total - 1}).")
    return chosen


def _label(flat: int, batch: Sequence[int]) -> str:
    index = np.unravel_index(flat, tuple(batch)) if len(batch) else ()
    return f"env {', '.join(str(int(i)) for i in index)}" if index else "env"


def _returns(leaves: dict[Key, RolloutLeaf], code: np.ndarray, notes: list[str], nested: bool) -> np.ndarray | None:
    reward = leaves.get(("next", "reward"))
    if reward is None and nested:
        return None
    if reward is None or reward.kind != "number":
        notes.append('There is no ("next", "reward"): no reward and no return can be drawn.')
        return None
    columns = reward.columns()
    if columns.shape[-1] != 1:
        notes.append(f"The reward has {columns.shape[-1]} components; the return is that of component 0.")
    bad = int(np.count_nonzero(~np.isfinite(columns[..., 0])))
    if bad:
        notes.append(f"The reward is NaN or infinite in {plural(bad, 'step')}; so is the return from there on.")
    with np.errstate(invalid="ignore"):
        return returns_so_far(columns[..., 0], code)


def _join(a: _Side, b: _Side, names: tuple[str, str]) -> _Side:
    """Combine two rollouts as two environments; the shorter one is padded."""
    steps = max(a.code.shape[1], b.code.shape[1])
    code = np.concatenate([_padded(side.code, steps, KINDS.index("padding")) for side in (a, b)])
    leaves = {}
    for key in dict.fromkeys([*a.leaves, *b.leaves]):
        left, right = a.leaves.get(key), b.leaves.get(key)
        if left is not None and right is not None and (left.shape, left.kind) == (right.shape, right.kind):
            leaves[key] = _beside(left, right, steps)
        else:
            leaves[key] = _alone(left or right, steps, first=left is not None)  # type: ignore[arg-type]
    notes = [f"In {name}: {note}" for name, side in zip(names, (a, b), strict=True) for note in side.notes]
    return _Side(leaves, code, notes, first_parting(a.leaves, b.leaves, names))


def _beside(a: RolloutLeaf, b: RolloutLeaf, steps: int) -> RolloutLeaf:
    texts = tuple(dict.fromkeys([*a.texts, *b.texts]))
    values = []
    for leaf in (a, b):
        array = leaf.values
        if leaf.kind == "text":
            array = np.array([texts.index(text) for text in leaf.texts], np.int32)[array]
        values.append(_padded(array, steps))
    hot = None
    if a.hot is not None and b.hot is not None:
        hot = np.concatenate([_padded(a.hot, steps, -1), _padded(b.hot, steps, -1)])
    sizes = None
    if a.sizes is not None and b.sizes is not None:
        sizes = np.concatenate([_padded(a.sizes, steps), _padded(b.sizes, steps)])
    return replace(a, values=np.concatenate(values), texts=texts, hot=hot, sizes=sizes)


def _alone(leaf: RolloutLeaf, steps: int, first: bool) -> RolloutLeaf:
    values = _padded(leaf.values, steps)
    other = np.zeros_like(values)
    if values.dtype.kind == "f":
        other[:] = np.nan
    both = np.concatenate([values, other] if first else [other, values])
    hot = None
    if leaf.hot is not None:
        here, none = _padded(leaf.hot, steps, -1), np.full((1, steps), -1)
        hot = np.concatenate([here, none] if first else [none, here])
    sizes = None
    if leaf.sizes is not None:
        here, none = _padded(leaf.sizes, steps), np.zeros((1, steps), np.int64)
        sizes = np.concatenate([here, none] if first else [none, here])
    return replace(leaf, values=both, absent=(int(first),), hot=hot, sizes=sizes)


def _padded(array: np.ndarray, steps: int, value: int | None = None) -> np.ndarray:
    missing = steps - array.shape[1]
    if missing == 0:
        return array
    tail = np.repeat(array[:, -1:], missing, axis=1)
    if value is not None:
        tail[:] = value
    return np.concatenate([array, tail], axis=1)
