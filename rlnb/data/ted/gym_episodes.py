"""to_gym_episodes: TED data as what a loop over a Gymnasium env sees."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from tensordict import TensorDictBase

from rlnb.data.ted.check import check_ted
from rlnb.data.ted.columns import Column, Constant, Path
from rlnb.data.ted.facts import Facts
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple

OBSERVATION_PATH, ACTION_PATH, REWARD_PATH = ("observation",), ("action",), ("reward",)


class GymEpisode(NamedTuple):
    """One episode, as a loop over a Gymnasium env sees it.

    Args:
        reset: what ``env.reset()`` returned: the first observation and an info.
        actions: what was given to ``env.step``, one for each step.
        steps: what ``env.step`` returned, one tuple for each step: the observation after it, the reward, terminated,
            truncated and an info.
    """

    reset: tuple[Any, dict[str, Any]]
    actions: list[Any]
    steps: list[tuple[Any, Any, bool, bool, dict[str, Any]]]


def to_gym_episodes(data: TensorDictBase, *, info_keys: Iterable[NestedKey] = ()) -> list[GymEpisode]:
    """Write TED data as episodes of Gymnasium tuples.

    An observation is the numpy array of "observation", or a dictionary if other entries stand at the root and below
    "next". An entry that stands below "next" alone goes into the info of the step.

    Args:
        data: well-formed TED data. The rows of a batch follow one another.
        info_keys: entries of the root and of "next" that belong into the infos, and not into the observation.

    Returns:
        The episodes, in order. The last one of a row may be open: neither terminated nor truncated. Arrays share
        memory with the data.

    Raises:
        ValueError: if the data is not well-formed TED (see :func:`~rlnb.data.check_ted`), or if it has an entry that
            has no place in Gymnasium's tuples.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> episode, = to_gym_episodes(GymEnv("CartPole-v1").rollout(3))
        >>> observation, info = episode.reset
        >>> observation.shape, len(episode.actions), episode.steps[0][2:]
        ((4,), 3, (False, False, {}))
    """
    check_ted(data).raise_if_broken()
    facts = Facts(data)
    infos = [as_tuple(key) for key in info_keys]
    own = {ACTION_PATH, REWARD_PATH, *((name,) for name in END_KEYS)}
    for path in (*facts.root, *facts.next):
        alone = path in facts.root and path not in facts.next and path != ACTION_PATH
        if alone or (path not in own and path[-1] in END_KEYS):
            raise ValueError(
                f"The entry {as_key(path)!r} has no place in the tuples of Gymnasium, which hold an observation, an "
                "action, a reward, terminated, truncated and an info. "
                f"Fix: leave it out with data.exclude({as_key(path)!r})."
            )
    if ACTION_PATH not in facts.root or REWARD_PATH not in facts.next:
        raise ValueError("An episode of Gymnasium has actions and rewards: 'action' and ('next', 'reward') are needed.")
    shared = [path for path in facts.root if path in facts.next and path not in own and path not in infos]
    beside = [path for path in facts.next if path not in facts.root and path not in own]
    unknown = [path for path in infos if path not in facts.next]
    if unknown:
        raise ValueError(
            f"info_keys names {as_key(unknown[0])!r}, which does not stand below 'next'. "
            f"There are: {', '.join(repr(as_key(path)) for path in facts.next)}."
        )
    in_root = [path for path in infos if path in facts.root]
    root = {path: _rows(facts.root[path], path) for path in (*shared, *in_root, ACTION_PATH)}
    after = {path: _rows(facts.next[path], path) for path in (*shared, *infos, *beside)}
    reward = _rows(facts.next[REWARD_PATH], REWARD_PATH)
    scalar = reward.shape[1:] == (1,)
    rewards = reward[:, 0] if scalar else reward
    flags = {name: _flags(facts.next.get((name,)), data.batch_size.numel()) for name in (DONE, TERMINATED, TRUNCATED)}
    episodes = []
    for start, stop in pairwise([0, *_stops(flags[DONE], facts.length)]):
        steps = [
            (
                _pack(after, shared, t),
                rewards[t],
                flags[TERMINATED][t],
                flags[TRUNCATED][t],
                _tree({path: _at(after[path], t) for path in dict.fromkeys((*infos, *beside))}),
            )
            for t in range(start, stop)
        ]
        reset = (_pack(root, shared, start), _tree({path: _at(root[path], start) for path in in_root}))
        episodes.append(GymEpisode(reset, [_at(root[ACTION_PATH], t) for t in range(start, stop)], steps))
    return episodes


def _stops(done: list[bool], length: int) -> list[int]:
    return [t + 1 for t, ended in enumerate(done) if ended or (t + 1) % length == 0]


def _flags(column: Column | None, steps: int) -> list[bool]:
    return column.reshape(steps).bool().tolist() if isinstance(column, torch.Tensor) else [False] * steps


def _rows(column: Column, path: Path) -> Any:
    if isinstance(column, torch.Tensor):
        try:
            return column.detach().cpu().numpy()
        except TypeError as error:
            raise ValueError(
                f"The entry {as_key(path)!r} has the dtype {column.dtype}, which numpy does not have. "
                f"Fix: convert it with data[{as_key(path)!r}].float()."
            ) from error
    return column


def _at(rows: Any, t: int) -> Any:
    return rows.value if isinstance(rows, Constant) else rows[t]


def _pack(columns: Mapping[Path, Any], paths: list[Path], t: int) -> Any:
    if paths == [OBSERVATION_PATH]:
        return _at(columns[OBSERVATION_PATH], t)
    return _tree({path: _at(columns[path], t) for path in paths})


def _tree(values: Mapping[Path, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path, value in values.items():
        branch = tree
        for name in path[:-1]:
            branch = branch.setdefault(name, {})
        branch[path[-1]] = value
    return tree


__all__ = ["GymEpisode", "to_gym_episodes"]
