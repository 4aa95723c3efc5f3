"""``InitTracker``, which marks the first step of each episode."""

from __future__ import annotations

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import DONE, NestedKey, as_key, as_tuple
from rlnb.envs.transforms.rows import EnvRows, Reset, RowRule, Step
from rlnb.envs.transforms.transform import Transform


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
                flag = Categorical(2, shape=done.shape, dtype=torch.bool, device=done.device)
                observation_spec.set(flag_key, flag)
        return observation_spec


__all__ = ["InitTracker"]
