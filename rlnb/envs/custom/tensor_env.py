"""Base class of batched environments whose copies are the rows of a few tensors."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb._tensordict import fast_tensordict
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.ted.keys import END_KEYS
from rlnb.envs import errors
from rlnb.envs.base import EnvBase


class TensorEnv(EnvBase):
    """An env with discrete actions that runs any number of copies at once, as rows of tensors.

    A subclass sets ``observation_spec`` and implements ``_initial_state``, ``_transition`` and, if its observation is
    not its state, ``_observe``. This class handles batches, time limits, partial resets, seeds and the encoding of
    actions. ``reset(state=...)`` starts in a given state, ``[*batch_size, ...]``, instead of a random one.

    Args:
        n_actions: the number of actions.
        batch_size: the number of copies, as a shape. Default: a single one, without a batch dimension.
        device: device of the returned tensors. ``None`` (the default) leaves them on the CPU.
        seed: as for :meth:`set_seed`. ``None`` (the default) seeds with unpredictable numbers.
        max_steps: an episode is truncated after that many steps. ``None``: never.
        categorical_action_encoding: actions are indices if True, else one-hot vectors (the default), as in
            :class:`~rlnb.envs.GymEnv`.

    Attributes:
        generator: the env's random number generator. Torch's global generator is not used.
        one_hot: whether actions are one-hot vectors.

    Raises:
        ValueError: If ``max_steps`` is not positive.
    """

    def __init__(
        self,
        n_actions: int,
        batch_size: Sequence[int] | None = None,
        device: torch.device | str | int | None = None,
        seed: int | None = None,
        max_steps: int | None = None,
        categorical_action_encoding: bool = False,
    ) -> None:
        if max_steps is not None and max_steps < 1:
            raise ValueError(f"max_steps must be a positive integer, or None for no limit, and is {max_steps!r}.")
        super().__init__(device, batch_size)
        self.max_steps, self.n_actions, self.one_hot = max_steps, n_actions, not categorical_action_encoding
        self.generator = torch.Generator(self.device or "cpu")
        self._seed: int | None = None
        self._state: torch.Tensor | None = None
        self._steps = self._over = torch.empty(0)
        batch = self.batch_size
        if self.one_hot:
            self.action_spec = OneHot(n_actions, shape=(*batch, n_actions), dtype=torch.int64, device=self.device)
        else:
            self.action_spec = Categorical(n_actions, shape=batch, device=self.device)
        self.add_truncated_keys()
        self.set_seed(seed)

    # For subclasses -----------------------------------------------------------------------------------------------

    @abstractmethod
    def _initial_state(self) -> torch.Tensor:
        """Draw the initial state of an episode for each copy: ``[*batch_size, ...]``."""

    def _observe(self, state: torch.Tensor) -> dict[str, torch.Tensor]:
        """Return the observations of a state by key, in new tensors. Default: the state in float32."""
        return {"observation": state.to(torch.float32, copy=True)}

    @abstractmethod
    def _transition(self, state: torch.Tensor, action: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the next state, in a new tensor, the rewards, and which copies are terminated.

        Actions are indices. The last two results have shape ``[*batch_size]``. ``self._over`` marks the copies that
        were terminated before the step.
        """

    # Reset and step -----------------------------------------------------------------------------------------------

    def _reset(
        self, tensordict: TensorDictBase | None = None, *, state: torch.Tensor | None = None, **kwargs: Any
    ) -> TensorDictBase:
        mask = None if tensordict is None else tensordict.get("_reset", None)
        self._check_reset(kwargs, mask)
        before = self._state
        fresh = self._initial_state() if state is None else self._given_state(state)
        self._seed = None
        if mask is None or before is None:
            self._steps = torch.zeros(self.batch_size, dtype=torch.int64, device=self.device)
            self._over = torch.zeros(self.batch_size, dtype=torch.bool, device=self.device)
            self._state = fresh
        else:
            mask = mask.squeeze(-1)
            self._steps = self._steps.masked_fill(mask, 0)
            self._over = self._over & ~mask
            rows = mask.reshape((*mask.shape, *[1] * (fresh.ndim - mask.ndim)))
            self._state = torch.where(rows, fresh, before)
        no_end = {key: torch.zeros((*self.batch_size, 1), dtype=torch.bool, device=self.device) for key in END_KEYS}
        return fast_tensordict({**self._observe(self._state), **no_end}, self.batch_size, self.device)

    def _check_reset(self, options: dict[str, Any], mask: torch.Tensor | None) -> None:
        """Raise if there are unknown options, or at a partial reset before the first full one."""
        if options:
            raise TypeError(f"{type(self).__name__}.reset takes a TensorDict and state=..., and got {sorted(options)}.")
        if mask is not None and self._state is None and not bool(mask.all()):
            raise RuntimeError(
                f"A partial reset was requested of a {type(self).__name__} that was never reset: the copies that are "
                "not marked have no state to keep. Fix: call env.reset() first."
            )

    def _given_state(self, state: Any) -> torch.Tensor:
        """Validate a state that the user wants to start in."""
        before = self.generator.get_state()
        want = self._initial_state()  # an example of a state, drawn without a trace
        self.generator.set_state(before)
        found = torch.as_tensor(state, device=self.device)
        if found.shape != want.shape or not torch.can_cast(found.dtype, want.dtype):
            raise ValueError(
                f"{type(self).__name__}.reset(state=...) takes a tensor of shape {tuple(want.shape)} and dtype "
                f"{want.dtype}, and got {tuple(found.shape)} and {found.dtype}."
            )
        return found.to(want.dtype, copy=True)

    def _step(self, tensordict: TensorDictBase) -> TensorDictBase:
        if self._state is None:
            raise RuntimeError(errors.not_reset(self))
        action = self._action_index(tensordict.get("action"))
        state, reward, terminated = self._transition(self._state, action)
        steps = self._steps + 1
        truncated = torch.zeros_like(terminated) if self.max_steps is None else steps >= self.max_steps
        self._state, self._steps, self._over = state, steps, terminated
        data = self._observe(state)
        data["reward"] = reward.unsqueeze(-1)
        data["done"] = (terminated | truncated).unsqueeze(-1)
        # A copy, because the env keeps "terminated" and callers may write to what is returned.
        data["terminated"] = terminated.unsqueeze(-1).clone()
        data["truncated"] = truncated.unsqueeze(-1)
        return fast_tensordict(data, self.batch_size, self.device)

    def _step_marked(self, tensordict: TensorDictBase, mask: torch.Tensor) -> TensorDictBase:
        """Step the copies that the mask marks; the others keep their state."""
        before, steps, over = self._state, self._steps, self._over
        result = self._step(tensordict)
        mask, after = mask.to(over.device), self._state
        assert before is not None  # _step refuses an env that was not reset
        assert after is not None
        self._state = torch.where(mask.reshape((*mask.shape, *[1] * (after.ndim - mask.ndim))), after, before)
        self._steps, self._over = torch.where(mask, self._steps, steps), torch.where(mask, self._over, over)
        return result

    def _action_index(self, action: torch.Tensor) -> torch.Tensor:
        """Convert actions into indices, or raise if a value is not an action."""
        if self.one_hot:
            hot = action.to(torch.int64)
            legal = (hot.amin(-1) == 0) & (hot.sum(-1) == 1)
            if not bool(legal.all()):
                raise ValueError(self._no_action(action, legal))
            return hot.argmax(-1)
        low, high = torch.aminmax(action)
        if low < 0 or high >= self.n_actions:
            raise ValueError(self._no_action(action, (action >= 0) & (action < self.n_actions)))
        return action.to(torch.int64)

    def _no_action(self, action: torch.Tensor, legal: torch.Tensor) -> str:
        at = tuple((~legal).nonzero()[0].tolist())
        where = f" at index {at}" if at else ""
        want = f"one-hot, a single 1 among {self.n_actions} numbers" if self.one_hot else f"0 to {self.n_actions - 1}"
        return f"{type(self).__name__} got the action {action[at].tolist()}{where}, and its actions are {want}."

    # Seeds and devices --------------------------------------------------------------------------------------------

    def _set_seed(self, seed: int | None) -> None:
        self._seed = seed  # pending until a reset draws with it, so that check_env_specs can restore it
        seed_generator(self.generator, seed)

    def to(self, *args: Any, **kwargs: Any) -> TensorEnv:
        """Move the env and its state to a device.

        Generators cannot be moved: the one on the new device is seeded with a number drawn from the old one.
        """
        super().to(*args, **kwargs)
        device = self.device or torch.device("cpu")
        if device != self.generator.device:
            drawn = torch.randint(2**62, (), generator=self.generator, device=self.generator.device)
            self.generator = torch.Generator(device).manual_seed(int(drawn))
        for name, value in list(vars(self).items()):
            if isinstance(value, torch.Tensor):
                setattr(self, name, value.to(device))
        return self


def seed_generator(generator: torch.Generator, seed: int | None) -> None:
    """Seed a generator; None seeds it with unpredictable numbers."""
    if seed is None:
        generator.seed()
    else:
        generator.manual_seed(seed)
