"""End-of-episode signals: "done" is the union of "terminated" and "truncated", at every level of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import DONE, END_KEYS, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.validation import warn_once

if TYPE_CHECKING:
    from rlnb.envs.base import EnvBase


def terminated_or_truncated(
    data: TensorDictBase,
    full_done_spec: Composite | None = None,
    key: NestedKey | None = "_reset",
    write_full_false: bool = False,
) -> bool:
    """Whether anything has ended; writes where into the data.

    At every level of the data that has end signals ("done", "terminated", "truncated"), an entry is written that is
    True where any of them is. Its default name makes it the mask of a partial reset.

    Args:
        data: the data, such as :func:`~rlnb.envs.utils.step_mdp` of a step; written to.
        full_done_spec: the spec of the end signals, such as ``env.full_done_spec``, which names the levels. ``None``
            (the default): every end signal in the data, also those under "next".
        key: of the entry, below its level. An existing entry is overwritten. ``None`` writes nothing.
        write_full_false: write the entry even if nothing has ended. Default: False.

    Returns:
        True if any end signal is True.

    Raises:
        TypeError: If ``full_done_spec`` is not a composite.
        KeyError: If the spec names end signals at a level where the data has none.

    Example:
        >>> from tensordict import TensorDict
        >>> signals = {"terminated": torch.tensor([[True], [False]]), "truncated": torch.tensor([[False], [False]])}
        >>> data = TensorDict(signals, batch_size=2)
        >>> terminated_or_truncated(data)
        True
        >>> data["_reset"].tolist()
        [[True], [False]]
    """
    ended = _union_by_level(data, full_done_spec)
    any_ended = any(bool(flags.any()) for flags in ended.values())
    if key is not None and (any_ended or write_full_false):
        for level, flags in ended.items():
            data.set(as_key((*level, *as_tuple(key))), flags)
    return any_ended


def _union_by_level(data: TensorDictBase, full_done_spec: Composite | None) -> dict[tuple[str, ...], torch.Tensor]:
    levels: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    if full_done_spec is not None and not isinstance(full_done_spec, Composite):
        raise TypeError(
            f"The end signals are described by a Composite, and full_done_spec is a {type(full_done_spec).__name__}. "
            "Fix: pass env.full_done_spec."
        )
    if full_done_spec is None:
        paths = [path for path in map(as_tuple, leaf_keys(data)) if path[-1] in END_KEYS]
    else:
        paths = [as_tuple(key) for key in full_done_spec.keys(True, True)]
    for path in paths:
        levels.setdefault(path[:-1], []).append(path)
    ended = {}
    for level, signals in levels.items():
        found = [flags for flags in (data.get(as_key(path), None) for path in signals) if flags is not None]
        if not found:
            names = ", ".join(repr(as_key(path)) for path in signals)
            raise KeyError(
                f"The spec names the end signals {names}, and the data has none of them. It has: "
                f"{', '.join(repr(key) for key in leaf_keys(data)) or 'nothing'}. "
                "Fix: after a step the end signals are under 'next': pass step_mdp(data) or data['next']."
            )
        # A new tensor: writing to the mask must not change a signal.
        ended[level] = torch.stack(torch.broadcast_tensors(*found)).any(0)
    return ended


def override(env: EnvBase, data: TensorDictBase, given: TensorDictBase) -> None:
    """Overwrite what a step computed with the entries that were under "next" before the step, ``given``.

    Where an end signal is overridden, the others of its level are dropped, to be derived from it. Warns once if nothing
    of what was computed is left: then ``given`` is rather of an earlier step.
    """
    if set(data.keys(True, True)) <= set(given.keys(True, True)):
        warn_once(
            env,
            "all is given",
            'The TensorDict given to step has a "next" with all that the step computes, so the result of the step is '
            'dropped: entries under "next" prevail. Likely they are of the step before, or of memory made to hold a '
            'step. Fix: env.step(td.exclude("next")).',
        )
    for group in env.done_keys_groups:
        if any(given.get(key, None) is not None for key in group):
            for key in group:
                if given.get(key, None) is None and data.get(key, None) is not None:
                    data.del_(key)
    data.update(given)


def complete_done(env: EnvBase, data: TensorDictBase, at_reset: bool = False) -> None:
    """Write the end signals that the env did not return, so that ``done == terminated | truncated`` holds.

    A lone "done" is read as "terminated", unless "truncated" explains it. A level without any signal is not done: a
    reset may leave them out, and a step warns once.
    """
    for group in env.done_keys_groups:
        level = as_tuple(group[0])[:-1]
        keys = {as_tuple(key)[-1]: key for key in group}
        found = {name: data.get(as_key((*level, name)), None) for name in (DONE, TERMINATED, TRUNCATED)}
        if all(found[name] is not None for name in keys):
            continue
        done, terminated, truncated = map(_as_bool, found.values())
        if done is None and terminated is None and truncated is None:
            if not at_reset:
                warn_once(
                    env,
                    f"no end {level}",
                    f"{type(env).__name__}._step returned none of {group}: they are read as False. Fix: return "
                    f"{group[0]!r} with every step, torch.zeros((*self.batch_size, 1), dtype=torch.bool) if none ends.",
                )
            spec = env.full_done_spec[keys[DONE]]
            shape = (*data.batch_size, *spec.shape[env.batch_dims :])
            done = torch.zeros(shape, dtype=torch.bool, device=data.device or env.device)
        if terminated is None:
            ended = done if done is not None else torch.zeros_like(truncated)
            terminated = ended if truncated is None else ended & ~truncated
        if truncated is None:
            truncated = torch.zeros_like(terminated) if done is None else done & ~terminated
        if done is None:
            done = terminated | truncated
        for name, value in ((DONE, done), (TERMINATED, terminated), (TRUNCATED, truncated)):
            if name in keys and found[name] is None:
                # Each signal gets its own memory: writing to one in place must not change another.
                data.set(keys[name], value.to(env.full_done_spec[keys[name]].dtype, copy=True))


def _as_bool(signal: Any) -> Any:
    """Read numbers as truth values; the check of the first step reports their dtype."""
    return signal if signal is None or signal.dtype is torch.bool else signal != 0


class ClearSignal:
    """Remembers the last end signal in which nothing was True, so that the next step need not read it again."""

    def __init__(self) -> None:
        self._zeros: torch.Tensor | None = None
        self._seen: torch.Tensor | None = None
        self._version = 0

    def check(self, done: torch.Tensor) -> bool:
        """Whether nothing in a boolean signal is True. Comparing it with zeros is three times as fast as ``any``."""
        zeros = self._zeros
        if zeros is None or zeros.shape != done.shape or zeros.device != done.device:
            zeros = self._zeros = torch.zeros_like(done)
        if not torch.equal(done, zeros):
            return False
        if not done.is_inference():  # inference tensors do not count how often they are written to
            self._seen, self._version = done, done._version
        return True

    def is_known(self, done: torch.Tensor) -> bool:
        """Whether this very tensor was checked, and not written to since."""
        return done is self._seen and done._version == self._version
