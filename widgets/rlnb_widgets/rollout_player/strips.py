"""Selection of the strips over time: reward, return, observations, actions, and those of agent groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rlnb_widgets._core.colors import agent_role
from rlnb_widgets._core.text import key_text, shorten
from rlnb_widgets.rollout_player.agents import Agent, Group
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf, members
from rlnb_widgets.scenes.scene import Limit

_MOST_COMPONENTS = 4
_MOST_LINES = 8
_MOST_ACTIONS = 4
_FLAT = 10.0  # a line is flat on a scale that is so many times as long as its range
_PROBABILITIES = ("action_probs", "probs", "probabilities")
_VALUES = ("state_value", "value", "action_value")


@dataclass(frozen=True, eq=False)
class Strip:
    """One row of the picture over time."""

    label: str  #: text on its left
    #: ``"line"``, ``"band"`` (categories as colours), ``"area"`` (probabilities, stacked), ``"bands"`` (a band for each
    #: agent) or ``"lanes"`` (what each agent does, codes of `agents.LANES`)
    kind: str
    data: np.ndarray  #: ``[E, T, K]``: K lines, shares, bands or lanes; K is 1 for a band
    low: float  #: smallest finite value
    high: float  #: largest finite value
    #: names of the lines, shares or categories; of the agents for ``"bands"`` and ``"lanes"``
    names: tuple[str, ...] = ()
    role: str = ""  #: ``"reward"``, ``"return"``, ``"lanes"`` or empty
    values: tuple[str, ...] = ()  #: names of the categories of ``"bands"``
    numbers: tuple[int, ...] = ()  #: numbers of the agents that are shown, which determine the colours
    limits: tuple[Limit, ...] = ()  #: values that the env ends or clips at
    scales: tuple[tuple[float, float], ...] = ()  #: smallest and largest value in each env that has a scale of its own


def with_limits(strip: Strip, limits: Sequence[Limit]) -> Strip:
    """Return the strip with limits, without those of clipping that are so far away that they would flatten the line."""
    far = 2 * max(abs(strip.low), abs(strip.high))
    return replace(strip, limits=tuple(v for v in limits if v.role != "muted" or abs(v.value) <= far))


def with_scales(strip: Strip) -> Strip:
    """Return the strip with a scale for each env if the line of one would be flat on the scale of all.

    Example:
        >>> with_scales(lines("reward", np.array([[[0.0], [1.0]], [[0.0], [30.0]]]))).scales
        ((0.0, 1.0), (0.0, 30.0))
    """
    if strip.kind != "line" or strip.limits or len(strip.data) == 1:
        return strip
    scales = tuple(_range(values) for values in strip.data)
    flat = any(0 < high - low < (strip.high - strip.low) / _FLAT for low, high in scales)
    return replace(strip, scales=scales) if flat else strip


def line_role(strip: Strip, k: int) -> str:
    """Return the colour of line, lane or band k: that of its agent, else c0, c2 and so on (c1 is much like ends).

    Example:
        >>> bare = Strip("reward", "line", np.zeros((1, 1, 3)), 0.0, 0.0)
        >>> [line_role(bare, k) for k in range(3)], line_role(replace(bare, numbers=(4,)), 0)
        (['c0', 'c2', 'c3'], 'agent4')
    """
    return agent_role(strip.numbers[k]) if strip.numbers else f"c{0 if k == 0 else k % 7 + 1}"


#: Colours of categories: that of lines comes last, and orange, which is much like an agent's, is left out.
_CATEGORIES = ("c2", "c4", "c5", "c6", "c7", "c3", "c0")
CATEGORY_COLORS = len(_CATEGORIES)
#: Role and dashes of both rollouts that are compared: the second one's lines would hide the first where they are equal.
COMPARED: tuple[tuple[str, tuple[float, float] | None], ...] = (("c0", None), ("other", (6.0, 4.0)))
_MOST_ROWS = 4


def category_rows(count: int) -> int:
    """Return into how many rows a band of categories divides: each has every colour once, so that none means two.

    Example:
        >>> [category_rows(count) for count in (2, 7, 9, 15, 1_000)]
        [1, 1, 2, 3, 4]
    """
    return min(max(-(-count // CATEGORY_COLORS), 1), _MOST_ROWS)


def category_role(k: int) -> str:
    """Return the colour of category k, such as an action; the first ones are no colour of an agent or a line.

    Example:
        >>> category_role(0), category_role(7)
        ('c2', 'c2')
    """
    return _CATEGORIES[k % CATEGORY_COLORS]


def choose_strips(
    leaves: dict[Key, RolloutLeaf],
    returns: np.ndarray | None,
    wanted: Any,
    fields: Sequence[str],
    agents: Mapping[Key, tuple[int, ...]] | None = None,
) -> tuple[Strip, ...]:
    """Return the strips: reward and return, then the wanted ones, or a selection if ``wanted`` is None.

    Raises:
        KeyError: If a wanted key is not there.
        IndexError: If a wanted component is not there.
        TypeError: If a wanted strip is neither a key nor a key with a number.
    """
    reward = leaves.get(("next", "reward"))
    strips: list[Strip] = []
    if reward is not None and reward.kind == "number":
        strips.append(lines("reward", reward.columns()[..., :_MOST_LINES], role="reward"))
    if returns is not None:
        strips.append(lines("return so far", returns[..., None], role="return"))
    if wanted is not None:
        items = [wanted] if _is_one(leaves, wanted) else wanted
        strips += [_wanted(leaves, item, fields, agents or {}) for item in items]
    else:
        strips += _automatic(leaves, fields, agents or {})
    return tuple(strips)


def _is_one(leaves: dict[Key, RolloutLeaf], wanted: Any) -> bool:
    """Return whether a single strip is given: a name, or a key with or without a component."""
    if not isinstance(wanted, tuple):
        return isinstance(wanted, (str, int))
    return wanted in leaves or (len(wanted) > 1 and type(wanted[-1]) is int)


def _automatic(
    leaves: dict[Key, RolloutLeaf], fields: Sequence[str], agents: Mapping[Key, tuple[int, ...]]
) -> list[Strip]:
    found = []
    for name in _VALUES:
        if (leaf := leaves.get((name,))) is not None and leaf.kind == "number" and len(leaf.shape) < 2:
            found.append(lines(name, leaf.columns()[..., :_MOST_LINES]))
    state = leaves.get(("observation",)) or next((v for k, v in leaves.items() if _is_state(k, v)), None)
    found += [_size(leaf) for key, leaf in leaves.items() if _varies(key, leaf)][:_MOST_COMPONENTS]
    if state is not None and state.hot is not None:
        found.append(_place(state, state.hot))
    elif state is not None and _is_state(state.key, state):
        for i in range(min(state.columns().shape[-1], _MOST_COMPONENTS)):
            found.append(_component(state, i, fields))
    if state is None:
        found += _tuple(leaves, fields)
    for name in _PROBABILITIES:
        if (leaf := leaves.get((name,))) is not None and leaf.kind == "number" and len(leaf.shape) == 1:
            found.append(_shares(name, leaf))
            break
    actions = [leaf for key, leaf in leaves.items() if key[-1] == "action" and not leaf.is_next]
    found += [_action(leaf, agents) for leaf in actions[:_MOST_ACTIONS]]
    return [strip for strip in found if strip is not None]


def _tuple(leaves: dict[Key, RolloutLeaf], fields: Sequence[str]) -> list[Strip]:
    parts = members(leaves, "observation")
    strips = [_place(leaf, leaf.hot) if leaf.hot is not None else _component(leaf, 0, ()) for leaf in parts]
    if len(fields) == len(parts):
        strips = [replace(strip, label=field) for strip, field in zip(strips, fields, strict=True)]
    return strips[:_MOST_COMPONENTS]


def _is_state(key: Key, leaf: RolloutLeaf) -> bool:
    plain = leaf.kind == "number" and len(leaf.shape) <= 1 and key[0] not in ("next", "collector")
    named = key[-1] in ("observation", "state", "obs") or (len(key) > 1 and "observation" in key[-1])
    return plain and named


def _varies(key: Key, leaf: RolloutLeaf) -> bool:
    return leaf.sizes is not None and not leaf.is_next and key[-1] != "action"


def _wanted(
    leaves: dict[Key, RolloutLeaf], item: Any, fields: Sequence[str], agents: Mapping[Key, tuple[int, ...]]
) -> Strip:
    path = (item,) if isinstance(item, str) else tuple(item) if isinstance(item, (tuple, list)) else None
    index = path[-1] if path and isinstance(path[-1], int) else None
    key = path[:-1] if path and index is not None else path
    if not key or not all(isinstance(part, str) for part in key):
        raise TypeError(
            f'a strip is a key like "value", or a key and a component like ("observation", 0), got {item!r}.'
        )
    leaf = leaves.get(key)
    if leaf is not None and leaf.sizes is not None and index is None:
        return _size(leaf)
    if leaf is None or leaf.kind != "number":
        legal = ", ".join(shorten(key_text(k), 40) for k, v in leaves.items() if v.kind == "number")
        raise KeyError(f"the rollout has no numbers under {key_text(key)}; it has {legal or 'none at all'}.")
    size = leaf.columns().shape[-1]
    if index is not None:
        if not -size <= index < size:
            raise IndexError(f"{key_text(key)} has {size} components (0 to {size - 1}), got {index}.")
        return _component(leaf, index % size, fields)
    if key[-1] == "action":
        return _action(leaf, agents)
    if key[-1] in _PROBABILITIES and len(leaf.shape) == 1:
        return _shares(_label(key), leaf)
    if leaf.hot is not None:
        return _place(leaf, leaf.hot)
    if leaf.dtype == "bool" and size == 1:
        return _band(_label(key), leaf.columns()[..., 0], ("False", "True"))
    return lines(_label(key), leaf.columns()[..., :_MOST_LINES])


def _label(key: Key) -> str:
    return shorten(" / ".join(key), 40)


def _component(leaf: RolloutLeaf, i: int, fields: Sequence[str]) -> Strip:
    size = leaf.columns().shape[-1]
    label = _label(leaf.key) + ("" if leaf.shape in ((), (1,)) else f"[{i}]")
    if leaf.base == ("observation",) and len(fields) == size and size > 1:
        label = f"{'next ' if leaf.is_next else ''}{fields[i]}"
    return lines(label, leaf.columns()[..., i : i + 1])


def _place(leaf: RolloutLeaf, hot: np.ndarray) -> Strip:
    """Return the strip of a one-hot vector: the index of its 1."""
    data = np.where(hot < 0, np.nan, hot)[..., None]
    return Strip(f"{_label(leaf.key)} (one-hot)", "line", data, 0.0, float(leaf.shape[0] - 1))


def _size(leaf: RolloutLeaf) -> Strip:
    """Return the strip of an entry of varying size: its size at each step."""
    assert leaf.sizes is not None
    return lines(f"size of {_label(leaf.key)}", leaf.sizes[..., None])


def _action(leaf: RolloutLeaf, agents: Mapping[Key, tuple[int, ...]]) -> Strip:
    label = _label(leaf.key)
    if leaf.sizes is not None:
        return _size(leaf)
    data = leaf.columns()
    if leaf.kind == "text":
        return _band(label, leaf.values, leaf.texts)
    whole = leaf.dtype == "bool" or "int" in leaf.dtype
    if whole and (several := _several(leaf)) is not None:
        size, values = several.shape[-1], tuple(map(str, range(_categories(leaf, several))))
        names = tuple(map(str, range(size)))
        numbers = agents.get(leaf.base[:-1], ())[:size]
        numbers = numbers if len(numbers) == size else ()
        return Strip(label, "bands", several.astype(np.int32), 0.0, float(len(values) - 1), names, "", values, numbers)
    if whole and data.shape[-1] > 1 and set(np.unique(data).tolist()) <= {0, 1} and data.sum(-1).max() == 1:
        # One-hot: the index of the category, -1 for an empty row.
        return _band(label, np.where(data.any(-1), data.argmax(-1), -1), tuple(map(str, range(data.shape[-1]))))
    if whole and data.shape[-1] == 1 and data.min() >= 0 and data.max() < 64:
        return _band(label, data[..., 0], tuple(map(str, range(int(data.max()) + 1))))
    return lines(label, data[..., :_MOST_LINES])


def _several(leaf: RolloutLeaf) -> np.ndarray | None:
    """Return the category that each agent of a group chose, ``[E, T, agents]``; None if there are none."""
    data = leaf.values
    if len(leaf.shape) == 2 and leaf.shape[-1] > 1 and data.min() >= 0 and (data.max(-1) <= 1).all():
        if (data.sum(-1) <= 1).all():
            return np.where(data.any(-1), data.argmax(-1), -1)[..., :_MOST_LINES]
        return None
    alone = len(leaf.shape) == 2 and leaf.shape[-1] == 1
    if len(leaf.base) > 1 and (alone or (len(leaf.shape) == 1 and leaf.shape[0] > 1)):
        numbers = data.reshape(*data.shape[:2], -1)
        if numbers.min() >= 0 and numbers.max() < 64 and not (numbers.sum(-1) == 1).all():
            return numbers[..., :_MOST_LINES]
    return None


def _categories(leaf: RolloutLeaf, chosen: np.ndarray) -> int:
    return leaf.shape[-1] if len(leaf.shape) == 2 and leaf.shape[-1] > 1 else int(chosen.max()) + 1


def _shares(label: str, leaf: RolloutLeaf) -> Strip:
    """Return the strip of probabilities; the last of many is that of all actions that have no colour of their own."""
    data = leaf.columns()
    count, own = data.shape[-1], CATEGORY_COLORS - 1
    names = tuple(map(str, range(count)))
    if count > CATEGORY_COLORS:
        data = np.concatenate([data[..., :own], data[..., own:].sum(-1, keepdims=True)], -1)
        names = (*names[:own], f"{own} to {count - 1}")
    return Strip(label, "area", data, 0.0, 1.0, names)


def _band(label: str, data: np.ndarray, names: tuple[str, ...]) -> Strip:
    return Strip(label, "band", data.astype(np.int32)[..., None], 0.0, float(max(len(names) - 1, 0)), names)


def lines(
    label: str, data: np.ndarray, names: tuple[str, ...] = (), role: str = "", numbers: tuple[int, ...] = ()
) -> Strip:
    """Return a strip of the lines ``[E, T, K]``; several lines without names are numbered."""
    if not names and data.shape[-1] > 1:
        names = tuple(map(str, range(data.shape[-1])))
    return Strip(label, "line", data, *_range(data), names, role, numbers=numbers)


def _range(data: np.ndarray) -> tuple[float, float]:
    good = data[np.isfinite(data)] if data.dtype.kind == "f" else data.ravel()
    return (float(good.min()), float(good.max())) if good.size else (0.0, 0.0)


_MOST_AGENTS = 8
_MOST_ALONE = 4


def group_strips(groups: tuple[Group, ...]) -> tuple[tuple[Strip, ...], list[str]]:
    """Return the strips of rewards and returns, and notes on agents that are left out."""
    several = [group for group in groups if len(group.agents) > 1]
    single = [group.agents[0] for group in groups if len(group.agents) == 1 and group.agents[0].reward is not None]
    strips: list[Strip] = []
    notes: list[str] = []
    for group in several:
        name = shorten(" / ".join(group.key), 20)
        strips += _together(name, [agent for agent in group.agents[:_MOST_AGENTS] if agent.reward is not None])
        if len(group.agents) > _MOST_AGENTS:
            notes.append(f'Drawn are {_MOST_AGENTS} of the {len(group.agents)} agents of "{name}".')
    if len(single) > _MOST_ALONE:
        strips += _together("", single[:_MOST_AGENTS])
        if len(single) > _MOST_AGENTS:
            notes.append(f"Drawn are {_MOST_AGENTS} of the {len(single)} agents.")
    else:
        for agent in single:
            assert agent.reward is not None
            strips.append(
                lines(f"{shorten(agent.label, 20)} reward", agent.reward[..., None], (), "reward", (agent.number,))
            )
        strips += _together("", single)[1:]
    return tuple(strips), notes


def _together(name: str, agents: list[Agent]) -> list[Strip]:
    if not agents:
        return []
    labels = tuple(shorten(agent.label, 16) for agent in agents)
    rewards = np.stack([agent.reward for agent in agents if agent.reward is not None], -1)
    returns = np.stack([agent.returns for agent in agents if agent.returns is not None], -1)
    numbers = tuple(agent.number for agent in agents)
    return [
        lines(f"{name} reward".strip(), rewards, labels, "reward", numbers),
        lines(f"{name} return so far".strip(), returns, labels, "return", numbers),
    ]


def lane_strips(groups: tuple[Group, ...], code: np.ndarray) -> tuple[Strip, ...]:
    """Return a strip of lanes for each group in which some agent ends or starts while others continue."""
    found = []
    for group in groups:
        agents = [agent for agent in group.agents[:_MOST_AGENTS] if agent.lane is not None]
        lanes = [agent.lane for agent in agents if agent.lane is not None]
        if not lanes or not any(((lane != 0) & (code == 0)).any() for lane in lanes):
            continue
        labels = tuple(shorten(agent.label, 16) for agent in agents)
        name = shorten(" / ".join(group.key), 20)
        numbers = tuple(agent.number for agent in agents)
        data = np.stack(lanes, -1).astype(np.int32)
        found.append(Strip(name, "lanes", data, 0.0, 0.0, labels, "lanes", numbers=numbers))
    return tuple(found)
