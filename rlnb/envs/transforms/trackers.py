"""Transforms that mark where in an episode a step is: ``InitTracker``, ``StepCounter`` and ``EndOfLifeTransform``."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.block import EnvRows
from rlnb.data.ted.keys import DONE, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.rows import Reset, RowRule, Step
from rlnb.envs.transforms.transform import Transform, key_list

_MOST = torch.iinfo(torch.int64).max


def _flag(done: TensorSpec) -> TensorSpec:
    """Return the spec of a flag beside a "done"."""
    return Categorical(2, shape=done.shape, dtype=torch.bool, device=done.device)


class StepCounter(Transform):
    """Counts the steps since the reset, for each env of a batch and each level with end signals.

    Args:
        max_steps: number of steps after which an episode is truncated. Default: no limit.
        truncated_key: the end signal that is set then: "truncated", or "done", which is then the only one that is set.
            Any other name adds an observation.
        step_count_key: the count, int64, of the shape of "done". It is 0 after a reset.
        update_done: whether to set "truncated" and "done" as well as ``truncated_key``.

    Raises:
        ValueError: If ``max_steps`` is not positive.

    Example:
        >>> from rlnb.envs import PendulumEnv, TransformedEnv
        >>> env = TransformedEnv(PendulumEnv(), StepCounter(max_steps=3))
        >>> rollout = env.rollout(10)
        >>> rollout["step_count"].flatten().tolist(), rollout["next", "truncated"].flatten().tolist()
        ([0, 1, 2], [False, False, True])
    """

    _env_only = "counts steps from a reset on"

    def __init__(
        self,
        max_steps: int | None = None,
        truncated_key: str = "truncated",
        step_count_key: str = "step_count",
        update_done: bool = True,
    ) -> None:
        if max_steps is not None and (isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1):
            raise ValueError(f"max_steps must be a positive integer, or None for no limit, got {max_steps!r}.")
        super().__init__()
        truncated, count = key_list([truncated_key, step_count_key], "truncated_key or step_count_key")
        if not isinstance(truncated, str) or not isinstance(count, str):
            raise ValueError(
                "StepCounter writes its entries beside each 'done' of the env, so truncated_key and step_count_key "
                f"must be strings, got {truncated_key!r} and {step_count_key!r}. Fix: step_count_key='step_count'."
            )
        self.max_steps, self.update_done = max_steps, update_done
        self.truncated_key, self.step_count_key = truncated, count
        self._shared: list[NestedKey] = []
        self._use_levels({(): None})

    @staticmethod
    def _count_spec(done: TensorSpec | None) -> TensorSpec | None:
        """Return the spec of the count for an end signal."""
        return done and Bounded(0, _MOST, shape=done.shape, dtype=torch.int64, device=done.device)

    def _at_levels(self, name: str) -> list[NestedKey]:
        return [as_key((*level, name)) for level in self._dones]

    @property
    def step_count_keys(self) -> list[NestedKey]:
        """The counts, one for each level with end signals."""
        return self._at_levels(self.step_count_key)

    @property
    def truncated_keys(self) -> list[NestedKey]:
        """The end signals that are set after ``max_steps``, one for each level."""
        return self._at_levels(self.truncated_key)

    @property
    def done_keys(self) -> list[NestedKey]:
        """The "done" of each level."""
        return self._at_levels(DONE)

    @property
    def terminated_keys(self) -> list[NestedKey]:
        """The "terminated" of each level."""
        return self._at_levels(TERMINATED)

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The masks that select the rows to reset, one for each level."""
        return self._at_levels("_reset")

    def _use_levels(self, dones: dict[tuple[str, ...], TensorSpec | None]) -> None:
        """Count at these levels; ``dones`` maps each to the spec of its "done"."""
        self._dones = dones
        self._plan: list[tuple[NestedKey, NestedKey, tuple[NestedKey, ...]]] = []
        others = (TRUNCATED, DONE) if self.update_done and self.truncated_key != DONE else ()
        signals = dict.fromkeys([self.truncated_key, *others])
        for level in dones:
            ends = tuple(as_key((*level, name)) for name in signals)
            self._plan.append((as_key((*level, self.step_count_key)), as_key((*level, DONE)), ends))

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for count_key, done_key, ends in self._plan:
            count = self._carried.get(tensordict, count_key)
            if count is None:
                count = torch.zeros_like(self._need(next_tensordict, done_key), dtype=torch.int64)
            count = count + 1
            self._carried.put(next_tensordict, count_key, count)
            if self.max_steps is not None:
                self._end(next_tensordict, count, self.max_steps, ends)
        return next_tensordict

    def _end(self, data: TensorDictBase, count: torch.Tensor, max_steps: int, ends: tuple[NestedKey, ...]) -> None:
        """Set the end signals of envs that have taken ``max_steps`` steps."""
        signals = [data.get(key, None) for key in ends]
        # Reading one number is faster than changing a tensor, and most steps are not the last one.
        if count.numel() == 1 and count.item() < max_steps and all(signal is not None for signal in signals):
            return
        over = count >= max_steps
        for key, signal in zip(ends, signals, strict=True):
            data.set(key, over.clone() if signal is None else signal | over)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for count_key, done_key, ends in self._plan:
            done = self._need(tensordict_reset, done_key)
            fresh = torch.zeros_like(done, dtype=torch.int64)
            self._carried.restart(tensordict, tensordict_reset, count_key, fresh)
            for key in ends:
                if self.max_steps is not None and tensordict_reset.get(key, None) is None:
                    tensordict_reset.set(key, torch.zeros_like(done))
        return tensordict_reset

    def _row_rule(self, output_spec: Composite) -> RowRule | None:
        cells = self._carried
        usual = self.update_done and self.truncated_key == TRUNCATED and TRUNCATED in output_spec["full_done_spec"]
        if len(self._plan) != 1 or not usual or self._plan[0][0] in output_spec["full_observation_spec"]:
            return None
        count_key, done_key, _ = self._plan[0]

        def bind(before: EnvRows, after: EnvRows) -> tuple[Step, Reset]:
            at_root, counts, limit = after.root[count_key], after.next[count_key], self.max_steps
            done, truncated = after.next[done_key].reshape(-1), after.next[TRUNCATED].reshape(-1)
            last = cells.in_rows(count_key, counts)

            def step(t: int) -> bool:
                count = last()
                count += 1
                counts[t] = count
                if limit is None or count < limit:
                    return False
                truncated[t] = done[t] = True
                return True

            def reset(t: int) -> None:
                at_root[t] = 0
                last().fill(0)

            return step, reset

        return RowRule(bind, [], [count_key])

    def _learn_output(self, output_spec: Composite) -> None:
        done_spec = output_spec["full_done_spec"]
        paths = [as_tuple(key) for key in done_spec.keys(True, True)]
        self._use_levels({path[:-1]: done_spec[as_key(path)] for path in paths if path[-1] == DONE})

        # A StepCounter before this one writes the same number, so both may write the same entry.
        observations = output_spec["full_observation_spec"]
        counts = {as_key((*level, self.step_count_key)): self._count_spec(done) for level, done in self._dones.items()}
        self._shared = [key for key, spec in counts.items() if key in observations and observations[key] == spec]

    def _new_keys(self) -> list[NestedKey]:
        own = [key for key, _, _ in self._plan if key not in self._shared]
        if self.max_steps is not None and self.truncated_key not in (TRUNCATED, DONE):
            own += [as_key((*level, self.truncated_key)) for level in self._dones]
        return own

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the count, and ``truncated_key`` if it is not an end signal; see :class:`Transform`."""
        self._need_composite(observation_spec)
        for level, done in self._dones.items():
            if done is None:
                continue
            observation_spec.set(as_key((*level, self.step_count_key)), self._count_spec(done))
            if self.max_steps is not None and self.truncated_key not in (TRUNCATED, DONE):
                observation_spec.set(as_key((*level, self.truncated_key)), _flag(done))
        return observation_spec

    def transform_done_spec(self, done_spec: Composite) -> Composite:
        """Add "truncated" if it is set; see :class:`Transform`."""
        writes = self.truncated_key != DONE and (self.update_done or self.truncated_key == TRUNCATED)
        for level, done in self._dones.items():
            key = as_key((*level, TRUNCATED))
            if self.max_steps is not None and writes and done is not None and key not in done_spec:
                done_spec.set(key, _flag(done))
        return done_spec


class InitTracker(Transform):
    """Adds a flag that is ``True`` after a reset and ``False`` after a step, for each level with end signals.

    Recurrent policies read it to reset their state at the start of each episode.

    Args:
        init_key: the flag, of the shape of "done".

    Raises:
        ValueError: If ``init_key`` is not a string.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), InitTracker())
        >>> env.rollout(3)["is_init"].flatten()
        tensor([ True, False, False])
    """

    _env_only = "marks what follows a reset"

    def __init__(self, init_key: str = "is_init") -> None:
        if not isinstance(init_key, str):
            raise ValueError(
                f"init_key must be a string, the name of a flag beside each 'done' of the env, got {init_key!r}."
            )
        super().__init__()
        self.init_key = init_key
        self._flags: list[tuple[NestedKey, NestedKey, TensorSpec | None]] = [(init_key, DONE, None)]

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for flag_key, done_key, _ in self._flags:
            self._carried.put(next_tensordict, flag_key, torch.zeros_like(self._need(next_tensordict, done_key)))
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for flag_key, done_key, _ in self._flags:
            fresh = torch.ones_like(self._need(tensordict_reset, done_key))
            self._carried.restart(tensordict, tensordict_reset, flag_key, fresh)
        return tensordict_reset

    def _row_rule(self, output_spec: Composite) -> RowRule | None:
        if len(self._flags) != 1:
            return None
        flag_key, cells = self._flags[0][0], self._carried

        def bind(before: EnvRows, after: EnvRows) -> tuple[Step, Reset]:
            at_root, following = after.root[flag_key], after.next[flag_key]
            last = cells.in_rows(flag_key, following)

            def step(t: int) -> bool:
                following[t] = False
                last().fill(False)
                return False

            def reset(t: int) -> None:
                at_root[t] = True
                last().fill(True)

            return step, reset

        return RowRule(bind, [], [flag_key])

    def _learn_output(self, output_spec: Composite) -> None:
        done_spec = output_spec["full_done_spec"]
        levels = [(as_tuple(key)[:-1], key) for key in done_spec.keys(True, True) if as_tuple(key)[-1] == DONE]
        self._flags = [(as_key((*level, self.init_key)), key, done_spec[key]) for level, key in levels]

    @property
    def init_keys(self) -> list[NestedKey]:
        """The flags, one for each level with end signals."""
        return [flag_key for flag_key, _, _ in self._flags]

    @property
    def reset_keys(self) -> list[NestedKey]:
        """The masks that select the rows to reset, one for each level."""
        return [as_key((*as_tuple(key)[:-1], "_reset")) for key in self.init_keys]

    def _new_keys(self) -> list[NestedKey]:
        return self.init_keys

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the flags; see :class:`Transform`."""
        self._need_composite(observation_spec)
        for flag_key, _, done in self._flags:
            if done is not None:
                observation_spec.set(flag_key, _flag(done))
        return observation_spec


class EndOfLifeTransform(Transform):
    """Adds the number of lives, and a flag that is ``True`` if a life was lost or the episode ended.

    An agent learns faster to avoid losing a life if value estimates stop there, although the episode continues.

    Args:
        eol_key: the flag, of the shape of ``done_key``.
        lives_key: the number of lives, int64, of the shape of ``done_key``.
        done_key: the end signal of the episode.
        eol_attribute: dotted path of the env's attribute with the number of lives, a number or a function without
            arguments.

    Raises:
        TypeError: If ``eol_attribute`` is not a string.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> class ThreeLives(CartPoleEnv):
        ...     lives = 3
        >>> env = TransformedEnv(ThreeLives(), EndOfLifeTransform(eol_attribute="lives"))
        >>> env.base_env.lives = 2
        >>> env.rollout(1)["next", "lives"].item()
        2
    """

    _shown = ("eol_key", "lives_key")
    _env_only = "reads the number of lives from an env"

    def __init__(
        self,
        eol_key: NestedKey = "end-of-life",
        lives_key: NestedKey = "lives",
        done_key: NestedKey = DONE,
        eol_attribute: str = "unwrapped.ale.lives",
    ) -> None:
        if not isinstance(eol_attribute, str):
            raise TypeError(
                f"eol_attribute must be the name of an attribute, got a {type(eol_attribute).__name__}. "
                "Fix: eol_attribute='unwrapped.ale.lives', which may be a number or a function."
            )
        super().__init__()
        names = key_list([eol_key, lives_key, done_key], "eol_key, lives_key or done_key")
        self.eol_key, self.lives_key, self.done_key = names
        self.eol_attribute = eol_attribute
        self._done_spec: TensorSpec | None = None

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        done = self._need(next_tensordict, self.done_key)
        lives = self._lives(done)
        before = self._carried.get(tensordict, self.lives_key)
        self._carried.put(next_tensordict, self.lives_key, lives)
        return next_tensordict.set(self.eol_key, done.clone() if before is None else (lives < before) | done)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        done = self._need(tensordict_reset, self.done_key)
        self._carried.restart(tensordict, tensordict_reset, self.lives_key, self._lives(done))
        return tensordict_reset.set(self.eol_key, torch.zeros_like(done))

    def _lives(self, done: torch.Tensor) -> torch.Tensor:
        """Return the number of lives of the env, in the shape of "done"."""
        env = self._env()
        if env is None:
            raise RuntimeError(errors.needs_env(self, "reads the number of lives from an env"))
        value: Any = env.base_env
        passed: list[str] = []
        for name in self.eol_attribute.split("."):
            try:
                value = getattr(value, name)
            except AttributeError:
                found = ".".join(passed) or repr(env.base_env)
                raise AttributeError(
                    f"EndOfLifeTransform looks for {self.eol_attribute!r}, and {found} has no attribute {name!r}. "
                    "Fix: EndOfLifeTransform(eol_attribute=...), the path of the number of lives in this env."
                ) from None
            passed.append(name)
        lives = torch.as_tensor(np.asarray(value() if callable(value) else value), dtype=torch.int64)
        if lives.numel() not in (1, done.numel()):
            raise ValueError(
                f"{self.eol_attribute!r} of the env must be one number of lives for each of its 'done', of shape "
                f"{tuple(done.shape)}, and has shape {tuple(lives.shape)}."
            )
        lives = lives.reshape(done.shape) if lives.numel() == done.numel() else lives.reshape(()).expand(done.shape)
        return lives.to(done.device).clone()

    def register_keys(self, loss_or_advantage: Any) -> None:
        """Make a loss or advantage estimator, through ``set_keys``, treat the loss of a life as an episode's end.

        Args:
            loss_or_advantage: an object with the method ``set_keys(done=..., terminated=...)``.
        """
        loss_or_advantage.set_keys(done=self.eol_key, terminated=self.eol_key)

    def _learn_output(self, output_spec: Composite) -> None:
        done_spec = output_spec["full_done_spec"]
        if self.done_key not in done_spec:
            raise KeyError(
                f"EndOfLifeTransform reads {self.done_key!r}, and the env's end signals are "
                f"{list(done_spec.keys(True, True))}."
            )
        self._done_spec = done_spec[self.done_key]

    def _new_keys(self) -> list[NestedKey]:
        return [self.eol_key, self.lives_key]

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the flag and the number of lives; see :class:`Transform`."""
        self._need_composite(observation_spec)
        done = self._done_spec
        if done is not None:
            observation_spec.set(self.eol_key, _flag(done))
            observation_spec.set(self.lives_key, Unbounded(shape=done.shape, dtype=torch.int64, device=done.device))
        return observation_spec
