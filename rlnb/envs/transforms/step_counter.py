"""``StepCounter``, which counts the steps of an episode and truncates it after a maximum."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import DONE, TERMINATED, TRUNCATED, NestedKey, as_key, as_tuple
from rlnb.envs.transforms.rows import EnvRows, Reset, RowRule, Step
from rlnb.envs.transforms.transform import Transform, key_list

_MOST = torch.iinfo(torch.int64).max


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

    # Data ---------------------------------------------------------------------------------------------------------

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

    # Specs --------------------------------------------------------------------------------------------------------

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


def _flag(done: TensorSpec) -> TensorSpec:
    return Categorical(2, shape=done.shape, dtype=torch.bool, device=done.device)


__all__ = ["StepCounter"]
