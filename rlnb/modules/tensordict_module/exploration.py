"""Modules that make the action of a policy explore: epsilon-greedy choice, Gaussian and Ornstein-Uhlenbeck noise."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase
from torch import nn

from rlnb._tensordict import entry, set_entry
from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.maskable import MaskableSpec
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.data.ted.leaves import leaf_keys
from rlnb.envs.base import EnvBase
from rlnb.envs.exploration import ExplorationType, exploration_type
from rlnb.envs.unwrapped import Entries, Function

__all__ = [
    "AdditiveGaussianModule",
    "EGreedyModule",
    "OrnsteinUhlenbeckProcessModule",
    "set_exploration_modules_spec_from_env",
]

#: The exploration types that explore. Outside of all blocks there is none.
_EXPLORING = (None, ExplorationType.RANDOM)


class _ExplorationModule(TensorDictModuleBase):
    """A module after a policy, whose exploration decreases linearly from step to step.

    Args:
        spec: spec of the action, or a composite with an entry for it.
        action_key: entry of the action.
        device: device of the buffers.
        name: name of the buffer that decreases; those of its limits are ``{name}_init`` and ``{name}_end``.
        init: its first value.
        end: its last value.
        annealing_num_steps: number of steps in between.
    """

    def __init__(
        self,
        spec: TensorSpec | None,
        action_key: NestedKey,
        device: torch.device | str | int | None,
        name: str,
        init: float,
        end: float,
        annealing_num_steps: int,
    ) -> None:
        own = type(self).__name__
        if end > init:
            raise ValueError(
                f"{own} explores less and less, got {name}_init={float(init):.4g} and {name}_end={float(end):.4g}. "
                f"Fix: {name}_init={float(end):.4g}, {name}_end={float(init):.4g}."
            )
        if annealing_num_steps < 1:
            raise ValueError(
                f"annealing_num_steps of {own} must be at least 1, got {annealing_num_steps}. Fix: for a constant "
                f"{name}, {name}_end={name}_init."
            )
        super().__init__()
        self.action_key = as_key(as_tuple(action_key))
        self.spec = spec
        self.in_keys = [self.action_key]  # type: ignore[list-item]  # keys of any depth
        self.out_keys = [self.action_key]  # type: ignore[list-item]
        self.annealing_num_steps, self._decreasing = annealing_num_steps, name
        for buffer, value in ((f"{name}_init", init), (f"{name}_end", end), (name, init)):
            self.register_buffer(buffer, torch.tensor(float(value), device=device))

    @property
    def spec(self) -> Composite | None:
        """Spec of the action, as a composite; None if it is not known yet."""
        return self._spec

    @spec.setter
    def spec(self, spec: TensorSpec | None) -> None:
        name, key = type(self).__name__, self.action_key
        if spec is None:
            self._spec = self._leaf = None
            return
        if not isinstance(spec, TensorSpec):
            raise TypeError(f"The spec of {name} must be a spec, got {type(spec).__name__}. Fix: spec=env.action_spec.")
        composite = spec if isinstance(spec, Composite) else Composite({key: spec})
        leaf = composite[key] if key in composite.keys(True, True) else None
        if leaf is None:
            raise KeyError(
                f"The spec of {name} needs an entry for the action {key!r}, it has {list(composite.keys(True, True))}. "
                "Fix: spec=env.action_spec, or the action_key= of the env."
            )
        self._check_leaf(leaf)
        self._spec, self._leaf = composite, leaf

    def _check_leaf(self, leaf: TensorSpec) -> None:
        """Raise ``ValueError`` for a spec whose actions cannot be explored."""
        if leaf.domain == "discrete":
            raise ValueError(
                f"{type(self).__name__} adds noise to real numbers, and the spec of {self.action_key!r} is a "
                f"{type(leaf).__name__}. Fix: EGreedyModule(spec) explores discrete actions."
            )

    def step(self, frames: int = 1) -> None:
        """Explore less from now on. Call it in the loop of training, once for each batch of data.

        Args:
            frames: number of frames since the last call.
        """
        value, init, end = (getattr(self, self._decreasing + suffix) for suffix in ("", "_init", "_end"))
        # In place: a policy in shared memory explores less in other processes, too.
        value.sub_((init - end) * frames / self.annealing_num_steps).clamp_(min=end)

    def _get_action(self, tensordict: TensorDictBase) -> torch.Tensor:
        action = entry(tensordict, self.action_key)
        if action is None:
            has = ", ".join(map(repr, leaf_keys(tensordict))) or "nothing"
            name = type(self).__name__
            raise KeyError(
                f"{name} changes {self.action_key!r}, and the data has: {has}. Fix: "
                f"TensorDictSequential(policy, {name}(...)), where the policy writes the action first, or action_key= "
                "for another entry."
            )
        return action

    def _leaf_like(self, action: torch.Tensor) -> TensorSpec:
        """Return the spec of the action on the device of an action."""
        leaf = self._leaf
        if leaf is None:
            raise RuntimeError(
                f"{type(self).__name__} was made without a spec. Fix: "
                "set_exploration_modules_spec_from_env(policy, env), or spec=env.action_spec."
            )
        if action.shape[max(action.ndim - len(leaf.shape), 0) :] != leaf.shape:
            raise ValueError(
                f"The spec of {self.action_key!r} in {type(self).__name__} has shape {list(leaf.shape)}, and the "
                f"action has shape {list(action.shape)}. Fix: spec=env.action_spec of the env that takes the action."
            )
        return leaf if leaf.device in (None, action.device) else leaf.to(action.device)

    def _batch_of(self, tensordict: TensorDictBase) -> torch.Size:
        """Return the batch size of the TensorDict that holds the action."""
        if isinstance(self.action_key, str):
            return tensordict.batch_size
        above = as_tuple(self.action_key)[:-1]
        return tensordict.get(above).batch_size

    def extra_repr(self) -> str:
        """Return the options that are printed."""
        value = float(getattr(self, self._decreasing))
        return f"{self._decreasing}={value:.4g}, action_key={self.action_key!r}"


class EGreedyModule(_ExplorationModule):
    r"""Replaces the action of a policy by a random one with probability :math:`\epsilon`.

    Each action of a batch is replaced or kept on its own. It explores where
    :class:`~rlnb.envs.utils.set_exploration_type` sets RANDOM, as collectors do, and outside of its blocks; with the
    other types actions stay as they are.

    Epsilon only decreases when :meth:`step` is called.

    Args:
        spec: spec of the action, which random actions are drawn from, or a :class:`~rlnb.data.Composite` with an entry
            for it.
        eps_init: first value of epsilon.
        eps_end: last value of epsilon.
        annealing_num_steps: number of frames until the last value is reached.
        action_key: entry of the action.
        action_mask_key: entry with the mask of the legal actions, booleans ``[*batch, n]``. None: all are legal.
        device: device of the buffers.

    Raises:
        ValueError: If epsilon would grow, is not between 0 and 1, or the spec has no masks; on a call, if the action
            has another shape than its spec, or no action is legal where one is drawn.
        KeyError: If a composite spec, or the data of a call, has no action.

    Example:
        >>> from rlnb.data import Categorical
        >>> from rlnb.modules import QValueActor
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictSequential
        >>> spec = Categorical(3)
        >>> greedy = QValueActor(torch.nn.Linear(4, 3), spec=spec)
        >>> explore = EGreedyModule(spec, eps_init=0.9, eps_end=0.1, annealing_num_steps=100)
        >>> policy = TensorDictSequential(greedy, explore)
        >>> policy(TensorDict({"observation": torch.randn(5, 4)}, [5]))["action"].shape
        torch.Size([5])
        >>> explore.step(frames=50)
        >>> explore.eps
        tensor(0.5000)
    """

    eps: torch.Tensor
    action_mask_key: NestedKey | None

    def __init__(
        self,
        spec: TensorSpec | None,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        *,
        action_key: NestedKey = "action",
        action_mask_key: NestedKey | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        for name, value in (("eps_init", eps_init), ("eps_end", eps_end)):
            if not 0 <= value <= 1:
                raise ValueError(f"{name} of EGreedyModule is a probability, got {float(value):.4g}. Fix: {name}=1.0.")
        self.action_mask_key = action_mask_key  # before the spec, which must have masks then
        super().__init__(spec, action_key, device, "eps", eps_init, eps_end, annealing_num_steps)
        if action_mask_key is not None:
            self.in_keys = [*self.in_keys, action_mask_key]  # type: ignore[list-item]

    def _check_leaf(self, leaf: TensorSpec) -> None:
        if self.action_mask_key is not None and not isinstance(leaf, MaskableSpec):
            raise ValueError(
                f"A mask of actions needs a spec with finitely many actions, got a {type(leaf).__name__}. "
                "Fix: action_mask_key=None."
            )

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Replace some actions by random ones.

        Args:
            tensordict: data with the action ``[*batch, *spec.shape]``, and the mask if there is one. It is modified.

        Returns:
            ``tensordict``.
        """
        if exploration_type() not in _EXPLORING:
            return tensordict
        action, mask = self._get_action(tensordict), None
        if self.action_mask_key is not None:
            mask = entry(tensordict, self.action_mask_key)
            if mask is None:
                raise KeyError(
                    f"EGreedyModule reads the mask {self.action_mask_key!r}, and the data has: "
                    f"{', '.join(map(repr, leaf_keys(tensordict)))}. An env with masks writes it. "
                    "Fix: action_mask_key=None, or the entry of the env."
                )
        explored = self.explore(action, self._batch_of(tensordict), mask)
        return tensordict if explored is action else set_entry(tensordict, self.action_key, explored)

    def _unwrap(self, batch_size: torch.Size | None) -> Function | None:
        if batch_size is None or not isinstance(self.action_key, str):
            return None
        key, mask_key, explores = self.action_key, self.action_mask_key, exploration_type() in _EXPLORING

        def run(entries: Entries) -> None:
            if explores:
                mask = None if mask_key is None else entries[mask_key]
                entries[key] = self.explore(entries[key], batch_size, mask)

        return run

    def explore(self, action: torch.Tensor, batch_size: torch.Size, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Return actions some of which are replaced by random ones, whatever the exploration type.

        Args:
            action: the actions ``[*batch, *spec.shape]``. They do not change.
            batch_size: their batch size; one random number decides about each of its entries.
            mask: the legal actions, booleans ``[*batch, n]``.

        Returns:
            The actions: ``action`` itself if all are kept.
        """
        leaf = self._leaf_like(action)
        chosen: torch.Tensor | None = None  # one of several actions, None for a single one
        if batch_size:
            chosen = torch.rand(batch_size, device=action.device) < self.eps
            if not bool(chosen.any()):
                return action
        elif not torch.rand((), device=action.device).item() < self.eps.item():  # numbers, which compare faster
            return action
        if mask is not None:
            leaf = leaf.expand(action.shape)
            # Where nothing is drawn, nothing need be legal: an env that is done may have an empty mask.
            legal = mask if chosen is None else mask | ~_expand_right(chosen, mask.ndim)
            leaf.update_mask(legal)  # type: ignore[attr-defined]  # checked before
        random = leaf.rand(action.shape[: action.ndim - len(leaf.shape)])
        if random.dtype != action.dtype:
            random = random.to(action.dtype)
        return random if chosen is None else torch.where(_expand_right(chosen, action.ndim), random, action)


class AdditiveGaussianModule(_ExplorationModule):
    r"""Adds Gaussian noise to the action of a policy.

    The action becomes :math:`a + \sigma \epsilon` with :math:`\epsilon \sim N(mean, std)`.

    It explores where :class:`~rlnb.envs.utils.set_exploration_type` sets RANDOM, as collectors do, and outside of its
    blocks. Sigma only decreases when :meth:`step` is called.

    Args:
        spec: spec of the action, or a :class:`~rlnb.data.Composite` with an entry for it.
        sigma_init: first value of sigma.
        sigma_end: last value of sigma.
        annealing_num_steps: number of frames until the last value is reached.
        mean: mean of the noise before it is multiplied by sigma.
        std: standard deviation of the noise before it is multiplied by sigma.
        action_key: entry of the action.
        safe: whether to project the noisy action onto its spec. Without it, the env gets actions beyond its bounds.
        device: device of the buffers.

    Raises:
        ValueError: If sigma would grow, or a spec is discrete; on a call, if the action has another shape than its
            spec.
        KeyError: If a composite spec, or the data of a call, has no action.

    Example:
        >>> from rlnb.data import Bounded
        >>> from rlnb.modules import Actor
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictSequential
        >>> spec = Bounded(-1.0, 1.0, (2,))
        >>> explore = AdditiveGaussianModule(spec, sigma_init=0.5, safe=True)
        >>> policy = TensorDictSequential(Actor(torch.nn.Linear(4, 2), spec=spec), explore)
        >>> spec.is_in(policy(TensorDict({"observation": torch.randn(5, 4)}, [5]))["action"])
        True
    """

    sigma: torch.Tensor
    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self,
        spec: TensorSpec | None = None,
        sigma_init: float = 1.0,
        sigma_end: float = 0.1,
        annealing_num_steps: int = 1000,
        mean: float = 0.0,
        std: float = 1.0,
        *,
        action_key: NestedKey = "action",
        safe: bool = False,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__(spec, action_key, device, "sigma", sigma_init, sigma_end, annealing_num_steps)
        self.safe = safe
        self.register_buffer("mean", torch.tensor(float(mean), device=device))
        self.register_buffer("std", torch.tensor(float(std), device=device))

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Add noise to the action.

        Args:
            tensordict: data with the action ``[*batch, *spec.shape]``. It is modified.

        Returns:
            ``tensordict``.
        """
        if exploration_type() not in _EXPLORING:
            return tensordict
        return set_entry(tensordict, self.action_key, self.explore(self._get_action(tensordict)))

    def _unwrap(self, batch_size: torch.Size | None) -> Function:
        key, explores = self.action_key, exploration_type() in _EXPLORING

        def run(entries: Entries) -> None:
            if explores:
                entries[key] = self.explore(entries[key])

        return run

    def explore(self, action: torch.Tensor) -> torch.Tensor:
        """Return the actions with noise, whatever the exploration type.

        Args:
            action: the actions ``[*batch, *spec.shape]``. They do not change.

        Returns:
            New actions of the same shape.
        """
        noisy = action + (torch.randn_like(action) * self.std + self.mean) * self.sigma
        leaf = self._leaf_like(action)
        return leaf.project(noisy) if self.safe else noisy


class OrnsteinUhlenbeckProcessModule(_ExplorationModule):
    r"""Adds noise that changes gradually to the action of a policy: an Ornstein-Uhlenbeck process.

    The noise of a step is close to that of the step before, so the agent moves on in one direction for a while
    (Lillicrap et al. 2016, https://arxiv.org/abs/1509.02971, section 3). The action becomes :math:`a + \epsilon x_t`,

    .. math:: x_t = x_{t-1} + \theta (\mu - x_{t-1}) dt + \sigma_t \sqrt{dt} W_t, \quad W_t \sim N(0, 1)

    where :math:`\sigma_t` falls linearly from ``sigma`` to ``sigma_min`` within ``n_steps_annealing`` steps of a
    trajectory. The noise and the number of steps are written into the data, and read from it on the next step; where
    "is_init" is True they start again.

    It explores where :class:`~rlnb.envs.utils.set_exploration_type` sets RANDOM, as collectors do, and outside of its
    blocks. Epsilon only decreases when :meth:`step` is called.

    Args:
        spec: spec of the action, or a :class:`~rlnb.data.Composite` with an entry for it.
        eps_init: first value of epsilon.
        eps_end: last value of epsilon.
        annealing_num_steps: number of frames until the last value is reached.
        theta: how strongly the noise is drawn towards ``mu``.
        mu: mean of the noise in the long run.
        sigma: first standard deviation of the random change.
        dt: length of a step.
        x0: noise that a trajectory starts from. Default: 0.
        sigma_min: last value of sigma. None: sigma does not change.
        n_steps_annealing: number of steps of a trajectory until ``sigma_min`` is reached.
        action_key: entry of the action.
        is_init_key: entry that is True at the first step of a trajectory, ``[*batch, 1]``; :class:`InitTracker` writes
            it.
        safe: whether to project the noisy action onto its spec.
        device: device of the buffers.

    Raises:
        ValueError: If epsilon or sigma would grow, or the spec is discrete; on a call, if the action has another shape
            than its spec.
        KeyError: If a composite spec, or the data of a call, has no action.

    Example:
        >>> from rlnb.envs import GymEnv, InitTracker, TransformedEnv
        >>> from rlnb.modules import Actor
        >>> from tensordict.nn import TensorDictSequential
        >>> env = TransformedEnv(GymEnv("Pendulum-v1"), InitTracker())
        >>> explore = OrnsteinUhlenbeckProcessModule(env.action_spec)
        >>> policy = TensorDictSequential(Actor(torch.nn.Linear(3, 1), spec=env.action_spec), explore)
        >>> data = env.rollout(10, policy)
        >>> data["_ou_steps"].tolist()
        [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    """

    eps: torch.Tensor
    x0: torch.Tensor

    def __init__(
        self,
        spec: TensorSpec | None,
        eps_init: float = 1.0,
        eps_end: float = 0.1,
        annealing_num_steps: int = 1000,
        theta: float = 0.15,
        mu: float = 0.0,
        sigma: float = 0.2,
        dt: float = 1e-2,
        x0: torch.Tensor | np.ndarray | float | None = None,
        sigma_min: float | None = None,
        n_steps_annealing: int = 1000,
        *,
        action_key: NestedKey = "action",
        is_init_key: NestedKey = "is_init",
        safe: bool = True,
        device: torch.device | str | int | None = None,
    ) -> None:
        super().__init__(spec, action_key, device, "eps", eps_init, eps_end, annealing_num_steps)
        if sigma_min is not None and sigma_min > sigma:
            raise ValueError(
                f"sigma_min of OrnsteinUhlenbeckProcessModule is the smallest sigma, got sigma={sigma:.4g} and "
                f"sigma_min={sigma_min:.4g}. Fix: sigma_min=None keeps sigma."
            )
        self.theta, self.mu, self.sigma, self.dt = theta, mu, sigma, dt
        self.sigma_min, self.n_steps_annealing = sigma if sigma_min is None else sigma_min, n_steps_annealing
        self.safe, self.is_init_key = safe, is_init_key
        x0 = torch.as_tensor(0.0 if x0 is None else x0, device=device, dtype=torch.get_default_dtype())
        self.register_buffer("x0", x0, persistent=False)
        self.out_keys = [self.action_key, "_ou_prev_noise", "_ou_steps"]  # type: ignore[list-item]
        self._warned = False

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Add noise to the action, and write the state of the noise.

        Args:
            tensordict: data with the action ``[*batch, *spec.shape]``, after the first step with the state of the
                noise, and with "is_init". It is modified.

        Returns:
            ``tensordict``.
        """
        if exploration_type() not in _EXPLORING:
            return tensordict
        action = self._get_action(tensordict)
        noise, steps = entry(tensordict, "_ou_prev_noise"), entry(tensordict, "_ou_steps")
        is_init = entry(tensordict, self.is_init_key)
        if noise is None or steps is None:
            noise = torch.zeros_like(action)
            steps = torch.zeros(self._batch_of(tensordict), dtype=torch.int64, device=action.device)
        elif is_init is None:
            self._warn_of_no_start()
        else:
            start = is_init.reshape(tensordict.batch_size)
            noise = noise.masked_fill(_expand_right(start, noise.ndim), 0)
            steps = steps.masked_fill(_expand_right(start, steps.ndim), 0)
        action, noise, steps = self.explore(action, noise, steps)
        for key, value in zip(self.out_keys, (action, noise, steps), strict=True):
            set_entry(tensordict, key, value)
        return tensordict

    def explore(
        self, action: torch.Tensor, noise: torch.Tensor, steps: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the actions with noise, and the state of the noise, whatever the exploration type.

        Args:
            action: the actions ``[*batch, *spec.shape]``. They do not change.
            noise: the noise of the step before, less ``x0``, in the shape of the actions.
            steps: the number of steps before, ``[*batch]``.

        Returns:
            New actions, noise and numbers of steps.
        """
        sigma: Any = self.sigma
        if self.sigma_min != self.sigma:
            slope = (self.sigma - self.sigma_min) / self.n_steps_annealing
            sigma = (self.sigma - slope * steps).clamp_min(self.sigma_min)
            sigma = _expand_right(sigma, action.ndim)
        change = torch.randn_like(action) * (sigma * self.dt**0.5)
        x0 = self.x0
        noise = noise + self.theta * (self.mu - noise - x0) * self.dt + change
        noisy = action + self.eps * (noise + x0)
        leaf = self._leaf_like(action)
        return leaf.project(noisy) if self.safe else noisy, noise, steps + 1

    def _warn_of_no_start(self) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"OrnsteinUhlenbeckProcessModule restarts its noise where {self.is_init_key!r} is True, and the data "
            "has no such entry: the noise of an episode goes on from that of the one before. "
            "Fix: env = TransformedEnv(env, InitTracker()).",
            stacklevel=2,
        )


def set_exploration_modules_spec_from_env(policy: nn.Module, env: EnvBase) -> None:
    """Give the spec of an env's action to all exploration modules of a policy that were made without one.

    Args:
        policy: a policy with :class:`EGreedyModule` or others inside, or one of them.
        env: the env that takes its actions.

    Raises:
        KeyError: If the env has no action of the name of a module's ``action_key``.

    Example:
        >>> from rlnb.envs import GymEnv
        >>> env, explore = GymEnv("CartPole-v1"), EGreedyModule(None)
        >>> set_exploration_modules_spec_from_env(explore, env)
        >>> explore.spec["action"] == env.action_spec
        True
    """
    for module in policy.modules():
        if isinstance(module, _ExplorationModule) and module.spec is None:
            module.spec = env.full_action_spec


def _expand_right(value: torch.Tensor, ndim: int) -> torch.Tensor:
    """Append dims of size 1 until there are ``ndim``."""
    return value.reshape((*value.shape, *(1,) * (ndim - value.ndim)))
