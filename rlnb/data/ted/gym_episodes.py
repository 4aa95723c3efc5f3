"""Conversion between TED data and the tuples of Gymnasium's reset and step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.ted.check import check_ted
from rlnb.data.ted.columns import Branch, Column, Constant, build
from rlnb.data.ted.facts import Facts
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple, nested_dict
from rlnb.data.ted.ragged import Path

_OBSERVATION, _ACTION, _REWARD = ("observation",), ("action",), ("reward",)
_LACKS = object()
_STEP = "(observation, reward, terminated, truncated, info)"


class GymEpisode(NamedTuple):
    """One episode in the tuples of Gymnasium.

    Args:
        reset: the return value of ``env.reset()``: the first observation and an info.
        actions: the argument of ``env.step``, one per step.
        steps: the return value of ``env.step``, one tuple per step: the next observation, the reward, terminated,
            truncated and an info.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> (episode,) = to_gym_episodes(GymEnv("CartPole-v1").rollout(3))
        >>> len(episode.actions), len(episode.steps)
        (3, 3)
    """

    reset: tuple[Any, dict[str, Any]]
    actions: list[Any]
    steps: list[tuple[Any, Any, bool, bool, dict[str, Any]]]


def to_gym_episodes(data: TensorDictBase, *, info_keys: Iterable[NestedKey] = ()) -> list[GymEpisode]:
    """Convert TED data to episodes in the tuples of Gymnasium.

    An observation is the numpy array of "observation", or a dictionary if there are other entries at the root and under
    "next". An entry that exists only under "next" becomes part of the info of the step.

    Args:
        data: well-formed TED data. The rows of a batch are converted one after another.
        info_keys: keys of entries, at the root and under "next", that belong to the infos and not to the observation.

    Returns:
        The episodes, in order. The last one of a row may be open, neither terminated nor truncated. Arrays share memory
        with the data.

    Raises:
        ValueError: If the data is not well-formed TED (see :func:`~rlnb.data.check_ted`), or has an entry that does not
            fit into Gymnasium's tuples.

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
    own = {_ACTION, _REWARD, *((name,) for name in END_KEYS)}
    for path in (*facts.root, *facts.next):
        alone = path in facts.root and path not in facts.next and path != _ACTION
        if alone or (path not in own and path[-1] in END_KEYS):
            raise ValueError(
                f"The entry {as_key(path)!r} does not fit into the tuples of Gymnasium, which hold an observation, an "
                "action, a reward, terminated, truncated and an info. "
                f"Fix: leave it out with data.exclude({as_key(path)!r})."
            )
    if _ACTION not in facts.root or _REWARD not in facts.next:
        raise ValueError(
            "A Gymnasium episode has actions and rewards, so the data must have 'action' and ('next', 'reward'). "
            "Fix: rename the entries, for example data.rename_key_('move', 'action')."
        )
    shared = [path for path in facts.root if path in facts.next and path not in own and path not in infos]
    beside = [path for path in facts.next if path not in facts.root and path not in own]
    unknown = [path for path in infos if path not in facts.next]
    if unknown:
        raise ValueError(
            f"info_keys names {as_key(unknown[0])!r}, which is not under 'next'. The entries under 'next' are: "
            f"{', '.join(repr(as_key(path)) for path in facts.next)}. Fix: leave it out of info_keys."
        )
    in_root = [path for path in infos if path in facts.root]
    size = data.batch_size.numel()
    root = {path: _rows(facts.root[path], path, size) for path in (*shared, *in_root, _ACTION)}
    after = {path: _rows(facts.next[path], path, size) for path in (*shared, *infos, *beside)}
    rewards = _rows(facts.next[_REWARD], _REWARD, size)
    rewards = rewards[:, 0] if rewards.shape[1:] == (1,) else rewards
    done, terminated, truncated = (_flags(facts.next.get((name,)), size) for name in END_KEYS)
    in_infos = list(dict.fromkeys((*infos, *beside)))
    stops = [t + 1 for t, ended in enumerate(done) if ended or (t + 1) % facts.length == 0]
    episodes = []
    for start, stop in pairwise([0, *stops]):
        steps = [
            (_observation(after, shared, t), rewards[t], terminated[t], truncated[t], _row(after, in_infos, t))
            for t in range(start, stop)
        ]
        reset = (_observation(root, shared, start), _row(root, in_root, start))
        episodes.append(GymEpisode(reset, [root[_ACTION][t] for t in range(start, stop)], steps))
    return episodes


def _flags(column: Column | None, steps: int) -> list[bool]:
    return column.reshape(steps).bool().tolist() if isinstance(column, torch.Tensor) else [False] * steps


def _rows(column: Column, path: Path, steps: int) -> Any:
    if isinstance(column, torch.Tensor):
        try:
            return column.detach().cpu().numpy()
        except TypeError as error:
            raise ValueError(
                f"The entry {as_key(path)!r} has dtype {column.dtype}, which numpy does not support. "
                f"Fix: convert it with data[{as_key(path)!r}].float()."
            ) from error
    return [column.value] * steps if isinstance(column, Constant) else column


def _row(columns: Mapping[Path, Any], paths: list[Path], t: int) -> dict[str, Any]:
    return nested_dict({path: columns[path][t] for path in paths})


def _observation(columns: Mapping[Path, Any], paths: list[Path], t: int) -> Any:
    return columns[_OBSERVATION][t] if paths == [_OBSERVATION] else _row(columns, paths, t)


# From Gymnasium to TED ------------------------------------------------------------------------------------------------


def from_gym_episodes(
    episodes: Iterable[GymEpisode | Sequence[Any]], *, info_keys: Iterable[NestedKey] = ()
) -> TensorDict:
    """Convert episodes in the tuples of Gymnasium to TED data.

    Undoes :func:`to_gym_episodes` for data of one row, except that the memory is copied.

    Args:
        episodes: the episodes, each a :class:`GymEpisode` or a tuple ``(reset, actions, steps)`` with the same content.
            Only the last one may be open, that is, end without terminated or truncated.
        info_keys: keys of entries to read from the infos. An entry in the infos of all resets is written to the root
            and under "next"; one in the infos of steps only, under "next".

    Returns:
        TED data of batch size ``[steps]``.

    Raises:
        ValueError: If an episode has a different number of actions and steps, continues after its end, or stops without
            one, or if values differ in shape or dtype. The text names the episode and the step.

    Example:
        >>> import gymnasium
        >>> env = gymnasium.make("CartPole-v1")
        >>> reset, actions, steps = env.reset(seed=0), [], []
        >>> while not steps or not (steps[-1][2] or steps[-1][3]):
        ...     actions.append(env.action_space.sample())
        ...     steps.append(env.step(actions[-1]))
        >>> data = from_gym_episodes([(reset, actions, steps)])
        >>> data.batch_size[0] == len(steps) and data["observation"].shape[-1] == 4
        True
    """
    read = [_checked(episode, number) for number, episode in enumerate(episodes)]
    if not read:
        raise ValueError("from_gym_episodes needs at least one episode, got none.")
    for number, episode in enumerate(read[:-1]):
        if not (episode.steps[-1][2] or episode.steps[-1][3]):
            raise ValueError(
                f"Episode {number} stops without terminated or truncated, but episode {number + 1} follows it, so "
                "nothing would separate them in TED data. Fix: set truncated to True in its last step."
            )
    root, after = _Collected(), _Collected()
    paths = [as_tuple(key) for key in info_keys]
    in_root = [path for path in paths if _in_resets(path, read)]
    for number, (reset, actions, steps) in enumerate(read):
        observation, info = reset
        for t, (action, step) in enumerate(zip(actions, steps, strict=True)):
            root.add(_leaves(observation, number, t), number, t)
            root.add(_picked(info, in_root, number, t), number, t)
            root.add({_ACTION: action}, number, t)
            observation, reward, terminated, truncated, info = step
            after.add(_leaves(observation, number, t), number, t)
            after.add(_picked(info, paths, number, t), number, t)
            ends = {(DONE,): terminated or truncated, (TERMINATED,): terminated, (TRUNCATED,): truncated}
            after.add({path: [bool(flag)] for path, flag in ends.items()}, number, t)
            after.add({_REWARD: reward if np.ndim(reward) else np.reshape(_scalar(reward), 1)}, number, t)
    columns = root.columns()
    columns |= {("next", *path): column for path, column in after.columns().items()}
    size = sum(len(episode.steps) for episode in read)
    columns |= {(name,): torch.zeros(size, 1, dtype=torch.bool) for name in END_KEYS}
    branches = {path[:depth] for path in columns for depth in range(len(path))}
    return build(columns, [size], [Branch(path, (), ("time",)) for path in sorted(branches, key=len)])


def _checked(episode: Any, number: int) -> GymEpisode:
    try:
        (observation, info), actions, steps = episode
        actions, steps = list(actions), list(steps)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Episode {number} must have the form ((observation, info), actions, steps): the return value of "
            "env.reset(), a list of actions, and a list of the return values of env.step(action)."
        ) from error
    if len(actions) != len(steps):
        raise ValueError(
            f"Episode {number} must have one step for each action, got {len(actions)} actions and {len(steps)} steps. "
            "Fix: append the action and the return value of env.step in the same iteration of the loop."
        )
    if not steps:
        raise ValueError(f"Episode {number} has no steps. Fix: leave it out.")
    for t, step in enumerate(steps):
        if not isinstance(step, tuple | list) or len(step) != 5:
            count = f"{len(step)} elements" if isinstance(step, tuple | list) else f"a {type(step).__name__}"
            raise ValueError(
                f"Step {t} of episode {number} must be {_STEP}, got {count}. Fix: append the return value of env.step."
            )
        if (step[2] or step[3]) and t + 1 < len(steps):
            raise ValueError(
                f"Episode {number} continues after step {t}, which is terminated or truncated. "
                "Fix: start a new episode with env.reset() there."
            )
    return GymEpisode((observation, info), actions, steps)


def _in_resets(path: Path, episodes: list[GymEpisode]) -> bool:
    has = [_find(episode.reset[1], path) is not _LACKS for episode in episodes]
    if any(has) and not all(has):
        raise ValueError(
            f"info_keys names {as_key(path)!r}, which is in the info of some resets, but not in that of episode "
            f"{has.index(False)}. Fix: leave it out of info_keys."
        )
    return all(has)


def _find(info: Any, path: Path) -> Any:
    """The value at a path of an info, or ``_LACKS``."""
    for name in path:
        if not isinstance(info, Mapping) or name not in info:
            return _LACKS
        info = info[name]
    return info


def _picked(info: Any, paths: list[Path], number: int, t: int) -> dict[Path, Any]:
    found = {path: _find(info, path) for path in paths}
    for path, value in found.items():
        if value is _LACKS:
            names = ", ".join(map(repr, info)) if isinstance(info, Mapping) else ""
            raise ValueError(
                f"info_keys names {as_key(path)!r}, which the info at step {t} of episode {number} lacks. Its entries "
                f"are: {names or 'none'}. Fix: leave it out of info_keys."
            )
    return found


def _leaves(observation: Any, number: int, t: int, prefix: Path = ()) -> dict[Path, Any]:
    if isinstance(observation, Mapping):
        found: dict[Path, Any] = {}
        for name, value in observation.items():
            found |= _leaves(value, number, t, (*prefix, str(name)))
        return found
    if isinstance(observation, tuple):
        raise ValueError(
            f"The observation at step {t} of episode {number} is a tuple, but the entries of TED data have names. "
            "Fix: convert it to a dictionary."
        )
    return {prefix or _OBSERVATION: observation}


def _scalar(value: Any) -> Any:
    return torch.tensor(float(value)).numpy() if type(value) in (int, float, bool) else value


class _Collected:
    """Collects the values of each entry, which must not change in shape or dtype."""

    def __init__(self) -> None:
        self.values: dict[Path, list[Any]] = {}
        self.kinds: dict[Path, Any] = {}
        self.steps = 0

    def add(self, values: Mapping[Path, Any], number: int, t: int) -> None:
        """Add the values of one step."""
        for path, value in values.items():
            array = np.asarray(_scalar(value) if type(value) is float else value)
            text = array.dtype.kind in "USO"
            kind = "non-tensor data" if text else (array.shape, array.dtype)
            if self.kinds.setdefault(path, kind) != kind:
                raise ValueError(
                    f"All values of {as_key(path)!r} must have one shape and dtype, got {_kind(kind)} at step {t} of "
                    f"episode {number} and {_kind(self.kinds[path])} before. Fix: pad or convert them."
                )
            self.values.setdefault(path, []).append(value if text else array)
        self.steps = max(self.steps, *(len(self.values[path]) for path in values)) if values else self.steps

    def columns(self) -> dict[Path, Column]:
        """Stack the values."""
        for path, values in self.values.items():
            if len(values) != self.steps:
                raise ValueError(
                    f"{as_key(path)!r} must have a value at every step, got {len(values)} values for {self.steps} "
                    "steps. Fix: leave it out, or fill the gaps."
                )
        return {
            path: values if self.kinds[path] == "non-tensor data" else torch.from_numpy(np.stack(values))
            for path, values in self.values.items()
        }


def _kind(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"shape {list(kind[0])} and dtype {kind[1]}"
