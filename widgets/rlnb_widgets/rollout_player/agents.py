"""Groups of agents or players: their entries, rewards and end signals."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from rlnb.data.ted.keys import END_KEYS
from rlnb_widgets._core.text import path_text, plural
from rlnb_widgets.rollout_player.episodes import returns_so_far
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf

#: Activity of an agent in a step by code: it acts, its step ends it (three kinds), or it waits since it has ended.
LANES: tuple[str, ...] = ("acts", "terminated", "truncated", "done", "waits")
#: Added to the code of the first step after an agent was reset alone.
RESTART = 8


@dataclass(frozen=True, eq=False)
class Agent:
    """One agent, or one player."""

    name: str  #: name of the group, and the index in it if there are several
    label: str  #: index in the group, or the name of a group of one
    number: int  #: number among all agents, which determines the colour
    #: activity in each step, codes of `LANES`, uint8 ``[E, T]``; None without separate end signals
    lane: np.ndarray | None
    reward: np.ndarray | None  #: rewards ``[E, T]``, or None
    returns: np.ndarray | None  #: sum of the rewards since the agent's or the env's episode began, ``[E, T]``, or None


@dataclass(frozen=True)
class Group:
    """Agents whose entries share a parent key."""

    key: Key  #: the parent key
    agents: tuple[Agent, ...]  #: the agents


def find_groups(leaves: Mapping[Key, RolloutLeaf], code: np.ndarray, env: Any = None) -> tuple[Group, ...]:
    """Find the groups: nested entries of ``"next"`` that hold a reward or an end signal.

    ``code`` holds the ends of the env's episodes, ``[E, T]``. Agents have the numbers of ``env``; without an env they
    are counted group by group.

    Example:
        >>> def leaf(*key, n):
        ...     return RolloutLeaf(("next", *key), "number", "float32", (n, 1), np.ones((1, 2, n, 1)))
        >>> found = find_groups({("next", "agents", "reward"): leaf("agents", "reward", n=2)}, np.array([[0, 5]]))
        >>> [agent.name for agent in found[0].agents], found[0].agents[1].returns.tolist()
        (['agents 0', 'agents 1'], [[1.0, 2.0]])
    """
    keys = dict.fromkeys(
        key[1:-1] for key in leaves if key[0] == "next" and len(key) > 2 and key[-1] in ("reward", *END_KEYS)
    )
    alone = ("next", "reward") in leaves
    groups: list[Group] = []
    numbers = count()
    for key in sorted(keys, key=_by_number):
        ends = any(("next", *key, name) in leaves for name in END_KEYS)
        # A reward among infos does not make an agent.
        if ends or not alone or (*key, "action") in leaves:
            group = _group(leaves, key, code, _numbers(env, key), numbers)
            if group.agents:
                groups.append(group)
    return tuple(groups)


def _by_number(key: Key) -> tuple[object, ...]:
    """Sort key that puts agent_10 after agent_2."""
    return tuple(int(part) if part.isdigit() else part for name in key for part in re.split(r"(\d+)", name))


def _numbers(env: Any, key: Key) -> list[int]:
    """Return the numbers of the agents of a group, if the environment has them."""
    names: list[str] = list(getattr(env, "agent_names", None) or ())
    members: Mapping[str, list[str]] = getattr(env, "group_map", {}) if names else {}
    return [names.index(name) for name in members.get(key[0], ()) if name in names] if len(key) == 1 else []


def _group(
    leaves: Mapping[Key, RolloutLeaf], key: Key, code: np.ndarray, known: list[int], numbers: Iterator[int]
) -> Group:
    sides = {
        (side, name): leaf
        for side in ("root", "next")
        for name in ("reward", *END_KEYS)
        if (leaf := leaves.get((*(("next",) if side == "next" else ()), *key, name))) is not None
        and leaf.kind == "number"
    }
    sizes = {leaf.columns().shape[-1] for (side, _), leaf in sides.items() if side == "next"}
    if len(sizes) != 1:
        return Group(key, ())
    (size,) = sizes
    numbers = iter(known) if len(known) == size else numbers
    agents = []
    for k in range(size):
        column = {name: leaf.columns()[..., k] for name, leaf in sides.items() if leaf.columns().shape[-1] == size}
        lane = _lane(column, code)
        reward = column.get(("next", "reward"))
        returns = None if reward is None else returns_so_far(reward, _own_code(lane, code))
        whole = path_text(key)
        name, label = (f"{whole} {k}", str(k)) if size > 1 else (whole, whole)
        agents.append(Agent(name, label, next(numbers), lane, reward, returns))
    return Group(key, tuple(agents))


def _lane(column: Mapping[tuple[str, str], np.ndarray], code: np.ndarray) -> np.ndarray | None:
    ended = {name: column["next", name] != 0 for name in END_KEYS if ("next", name) in column}
    if not ended:
        return None
    over = np.logical_or.reduce([*ended.values()])
    goes_on = code[:, :-1] == 0
    at_root = [column["root", name] != 0 for name in END_KEYS if ("root", name) in column]
    if at_root:
        waits = np.logical_or.reduce(at_root)
    else:
        # An agent that has ended waits for the end of the episode.
        waits = np.zeros_like(over)
        for t in range(1, over.shape[1]):
            waits[:, t] = (over[:, t - 1] | waits[:, t - 1]) & goes_on[:, t - 1]
    lane = np.zeros(code.shape, np.uint8)
    for name in ("done", "truncated", "terminated"):
        if name in ended:
            lane[ended[name]] = LANES.index(name)
    lane[waits] = LANES.index("waits")
    lane[:, 1:][over[:, :-1] & ~waits[:, 1:] & goes_on] += RESTART
    return lane


def _own_code(lane: np.ndarray | None, code: np.ndarray) -> np.ndarray:
    """Return the ends that an agent's return is summed up to: those of the episode, and its separate resets."""
    if lane is None:
        return code
    own = code.copy()
    own[:, :-1][(lane[:, 1:] >= RESTART) & (own[:, :-1] == 0)] = LANES.index("done")
    return own


def agents_note(groups: tuple[Group, ...], code: np.ndarray, label: str = "") -> list[str]:
    """Describe the agents, and which of them end or start separately in the first environment, named by ``label``."""
    said = []
    for group in groups:
        if len(group.agents) > 1:
            said.append(f'The group "{path_text(group.key)}" has {plural(len(group.agents), "agent")}.')
    alone = []
    for agent in [agent for group in groups for agent in group.agents]:
        if agent.lane is None:
            continue
        kinds = agent.lane[0] % RESTART
        early = [int(t) for t in np.flatnonzero((kinds > 0) & (kinds < LANES.index("waits")) & (code[0] == 0))]
        again = [int(t) for t in np.flatnonzero(agent.lane[0] >= RESTART)]
        for verb, steps in (("ends", early), ("is reset", again)):
            if steps:
                more = f" and {plural(len(steps) - 3, 'more time')}" if len(steps) > 3 else ""
                at = ", ".join(map(str, steps[:3]))
                alone.append(f"{agent.name} {verb} alone at step {at}{more}")
    if alone:
        where, more = f"In {label}, " if label else "", f"; and {len(alone) - 8} more" if len(alone) > 8 else ""
        said.append(
            f"{where}{'; '.join(alone[:8])}{more}. The others go on: an end of one agent is a mark in its own lane, "
            "and bootstraps only its own value."
        )
    return said


def stretches(lanes: np.ndarray) -> np.ndarray:
    """Number the stretches ``[..., T]`` in which an agent acts, cut where it was reset; 0 where it does not act.

    Example:
        >>> stretches(np.array([0, 1, 4, 8, 0, -1])).tolist()
        [1, 1, 0, 2, 2, 0]
    """
    acts = (lanes >= 0) & (lanes % RESTART != LANES.index("waits"))
    goes_on = np.zeros_like(acts)
    goes_on[..., 1:] = acts[..., :-1] & (lanes[..., 1:] < RESTART)
    return np.cumsum(acts & ~goes_on, -1, dtype=np.int32) * acts
