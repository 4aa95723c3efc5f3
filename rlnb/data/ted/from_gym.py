"""from_gym_episodes: TED data made of what a loop over a Gymnasium env saw."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from tensordict import TensorDict

from rlnb.data.ted.columns import Branch, Column, Path, build
from rlnb.data.ted.gym_episodes import ACTION_PATH, OBSERVATION_PATH, REWARD_PATH, GymEpisode
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple

_STEP = "(observation, reward, terminated, truncated, info)"


def from_gym_episodes(
    episodes: Iterable[GymEpisode | Sequence[Any]], *, info_keys: Iterable[NestedKey] = ()
) -> TensorDict:
    """Make TED data of what loops over a Gymnasium env saw.

    This undoes :func:`to_gym_episodes` for one row of steps, up to the memory that is shared.

    Args:
        episodes: each a :class:`GymEpisode`, or a tuple ``(reset, actions, steps)`` of the same content. Only the last
            one may be open, that is end without terminated or truncated.
        info_keys: what to take from the infos. An entry that the infos of all resets have stands at the root and below
            "next"; one that no reset has stands below "next".

    Returns:
        TED data of batch size ``[steps]``.

    Raises:
        ValueError: if the lengths of an episode do not fit, if an episode goes on after its end or ends without one, or
            if values differ in shape or dtype; the text says in which episode and at which step.

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
        raise ValueError("There is no episode to make TED data of.")
    for number, episode in enumerate(read[:-1]):
        if not (episode.steps[-1][2] or episode.steps[-1][3]):
            raise ValueError(
                f"Episode {number} ends without terminated or truncated, and episode {number + 1} follows it: in TED "
                "data nothing would divide them. Fix: set truncated to True in its last step."
            )
    root, after = _Collected(), _Collected()
    paths = [as_tuple(key) for key in info_keys]
    in_root = [path for path in paths if _in_resets(path, read)]
    for number, (reset, actions, steps) in enumerate(read):
        observation, info = reset
        for t, (action, step) in enumerate(zip(actions, steps, strict=True)):
            root.add(_leaves(observation, number, t), number, t)
            root.add({path: _find(info, path, number, t) for path in in_root}, number, t)
            root.add({ACTION_PATH: action}, number, t)
            observation, reward, terminated, truncated, info = step
            after.add(_leaves(observation, number, t), number, t)
            after.add({path: _find(info, path, number, t) for path in paths}, number, t)
            ends = {(DONE,): terminated or truncated, (TERMINATED,): terminated, (TRUNCATED,): truncated}
            after.add({path: [bool(flag)] for path, flag in ends.items()}, number, t)
            after.add({REWARD_PATH: reward if np.ndim(reward) else np.reshape(_scalar(reward), 1)}, number, t)
    columns = {path: column for path, column in root.columns().items()}
    columns |= {("next", *path): column for path, column in after.columns().items()}
    size = sum(len(episode.steps) for episode in read)
    columns |= {(name,): torch.zeros(size, 1, dtype=torch.bool) for name in END_KEYS}
    branches = {path[:depth] for path in columns for depth in range(len(path))}
    return build(columns, [size], [Branch(path, (), ("time",)) for path in sorted(branches, key=len)])


def _checked(episode: Any, number: int) -> GymEpisode:
    where = f"Episode {number}"
    try:
        (observation, info), actions, steps = episode
        actions, steps = list(actions), list(steps)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{where} is not of the form ((observation, info), actions, steps): what env.reset() returned, a list of "
            "actions, and a list of what env.step(action) returned."
        ) from error
    if len(actions) != len(steps):
        raise ValueError(
            f"{where} has {len(actions)} actions and {len(steps)} steps: each step is what env.step returned for one "
            "action. Fix: append the action and the step in the same turn of the loop."
        )
    if not steps:
        raise ValueError(f"{where} has no steps. Fix: leave it out.")
    for t, step in enumerate(steps):
        if not isinstance(step, tuple | list) or len(step) != 5:
            count = f"{len(step)} elements" if isinstance(step, tuple | list) else f"the type {type(step).__name__}"
            raise ValueError(
                f"Step {t} of episode {number} is not {_STEP}: it has {count}. Fix: append what env.step returned."
            )
        if (step[2] or step[3]) and t + 1 < len(steps):
            raise ValueError(
                f"Episode {number} goes on after step {t}, which says that it has ended. "
                "Fix: start a new episode with env.reset() there."
            )
    return GymEpisode((observation, info), actions, steps)


def _in_resets(path: Path, episodes: list[GymEpisode]) -> bool:
    has = [_has(episode.reset[1], path) for episode in episodes]
    if any(has) and not all(has):
        raise ValueError(
            f"info_keys names {as_key(path)!r}, which the info of some resets has and that of episode "
            f"{has.index(False)} has not. Fix: leave it out of info_keys."
        )
    return all(has)


def _has(info: Any, path: Path) -> bool:
    for name in path:
        if not isinstance(info, Mapping) or name not in info:
            return False
        info = info[name]
    return True


def _find(info: Any, path: Path, number: int, t: int) -> Any:
    if not _has(info, path):
        names = ", ".join(map(repr, info)) if isinstance(info, Mapping) else ""
        raise ValueError(
            f"info_keys names {as_key(path)!r}, which the info at step {t} of episode {number} does not have. It has: "
            f"{names or 'nothing'}. Fix: leave it out of info_keys."
        )
    for name in path:
        info = info[name]
    return info


def _leaves(observation: Any, number: int, t: int, prefix: Path = ()) -> dict[Path, Any]:
    if isinstance(observation, Mapping):
        found: dict[Path, Any] = {}
        for name, value in observation.items():
            found |= _leaves(value, number, t, (*prefix, str(name)))
        return found
    if isinstance(observation, tuple):
        raise ValueError(
            f"The observation at step {t} of episode {number} is a tuple, and the entries of TED data have names. "
            "Fix: make it a dictionary."
        )
    return {prefix or OBSERVATION_PATH: observation}


def _scalar(value: Any) -> Any:
    return torch.tensor(float(value)).numpy() if type(value) in (int, float, bool) else value


class _Collected:
    """Values by entry, of one shape and dtype each."""

    def __init__(self) -> None:
        self.values: dict[Path, list[Any]] = {}
        self.kinds: dict[Path, Any] = {}
        self.steps = 0

    def add(self, values: Mapping[Path, Any], number: int, t: int) -> None:
        """Add what one step holds."""
        for path, value in values.items():
            array = np.asarray(_scalar(value) if type(value) is float else value)
            text = array.dtype.kind in "USO"
            kind = "non-tensor data" if text else (array.shape, array.dtype)
            if self.kinds.setdefault(path, kind) != kind:
                raise ValueError(
                    f"{as_key(path)!r} at step {t} of episode {number} is {_kind(kind)}, and was "
                    f"{_kind(self.kinds[path])} before. The values of an entry have one shape and dtype. "
                    "Fix: pad or convert them."
                )
            self.values.setdefault(path, []).append(value if text else array)
        self.steps = max(self.steps, *(len(self.values[path]) for path in values)) if values else self.steps

    def columns(self) -> dict[Path, Column]:
        """Stack the values."""
        for path, values in self.values.items():
            if len(values) != self.steps:
                raise ValueError(
                    f"{as_key(path)!r} is there at {len(values)} of {self.steps} steps. An entry has a value at "
                    "every step. Fix: leave it out, or fill the gaps."
                )
        return {
            path: values if self.kinds[path] == "non-tensor data" else torch.from_numpy(np.stack(values))
            for path, values in self.values.items()
        }


def _kind(kind: Any) -> str:
    return kind if isinstance(kind, str) else f"of shape {list(kind[0])} and dtype {kind[1]}"


__all__ = ["from_gym_episodes"]
