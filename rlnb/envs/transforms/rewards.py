"""Transforms of rewards: binarized, clipped, scaled, penalized, summed, or still to be earned."""

from __future__ import annotations

import copy
from typing import Any

import torch
from tensordict import TensorDictBase

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.ted.block import EnvRows
from rlnb.data.ted.keys import NestedKey, as_key, as_tuple
from rlnb.envs.transforms import errors
from rlnb.envs.transforms.clip import check_bound_dtype, check_bounds, clipped_spec
from rlnb.envs.transforms.normalization import Affine, Number
from rlnb.envs.transforms.rows import Reset, RowRule, Step
from rlnb.envs.transforms.transform import Keys, Transform, key_list


class RewardTransform(Transform):
    """Base class of transforms of rewards: by default, of all rewards of the env, in place."""

    def __init__(self, in_keys: Keys | None = None, out_keys: Keys | None = None) -> None:
        super().__init__()
        self._use_rewards(in_keys, out_keys)

    def _use_rewards(self, in_keys: Keys | None, out_keys: Keys | None) -> None:
        """Set the keys: those that are given, or "reward" until the specs of an env name its rewards."""
        self._all_rewards = in_keys is None and out_keys is None
        self.in_keys = key_list("reward" if in_keys is None else in_keys, "in_keys")
        self.out_keys = list(self.in_keys) if out_keys is None else key_list(out_keys, "out_keys")
        self._pair_up()

    def _learn_output(self, output_spec: Composite) -> None:
        if self._all_rewards:
            self.in_keys = list(output_spec["full_reward_spec"].keys(True, True))
            self.out_keys = list(self.in_keys)


class BinarizeReward(RewardTransform):
    """Replaces rewards by 1 if they are positive, otherwise by 0, in their own dtype.

    Args:
        in_keys: the rewards. Default: all rewards of the env; on plain data, "reward".

    Example:
        >>> from tensordict import TensorDict
        >>> BinarizeReward()(TensorDict({"reward": torch.tensor([-2.0, 0.0, 0.5])}))["reward"]
        tensor([0., 0., 1.])
    """

    _elementwise = True

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        return (value > 0).to(value.dtype)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        return Binary(shape=spec.shape, dtype=spec.dtype, device=spec.device)


class RewardClipping(RewardTransform):
    """Clips rewards.

    Args:
        clamp_min: lower bound; ``None`` for no lower bound.
        clamp_max: upper bound; ``None`` for no upper bound.
        in_keys: the rewards. Default: all rewards of the env; on plain data, "reward".

    Raises:
        TypeError: If both bounds are ``None``.
        ValueError: If ``clamp_min`` is not below ``clamp_max``.

    Example:
        >>> from rlnb.envs import PendulumEnv, TransformedEnv
        >>> env = TransformedEnv(PendulumEnv(), RewardClipping(-0.5, 0.0))
        >>> env.reward_spec.space.low, bool((env.rollout(20)["next", "reward"] >= -0.5).all())
        (tensor([-0.5000]), True)
    """

    _shown = ("clamp_min", "clamp_max", "keys")
    _elementwise = True

    def __init__(
        self,
        clamp_min: float | None = None,
        clamp_max: float | None = None,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
    ) -> None:
        check_bounds(self, "clamp_min", clamp_min, "clamp_max", clamp_max)
        super().__init__(in_keys, out_keys)
        self.clamp_min, self.clamp_max = clamp_min, clamp_max

    def _apply_transform(self, value: torch.Tensor) -> torch.Tensor:
        return value.clamp(self.clamp_min, self.clamp_max)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        assert spec.dtype is not None
        check_bound_dtype(self, spec.dtype, clamp_min=self.clamp_min, clamp_max=self.clamp_max)
        return clipped_spec(spec, self.clamp_min, self.clamp_max)


class RewardScaling(RewardTransform, Affine):
    """Computes ``reward * scale + loc``, or ``(reward - loc) / scale``.

    Args:
        loc: a number, or a tensor that broadcasts to the rewards.
        scale: a number, or a tensor that broadcasts to the rewards.
        in_keys: the rewards. Default: all rewards of the env; on plain data, "reward".
        standard_normal: whether to compute ``(reward - loc) / scale``.

    Raises:
        TypeError: If ``loc`` or ``scale`` is not a number.
        ValueError: If a scale is 0.

    Example:
        >>> from tensordict import TensorDict
        >>> RewardScaling(loc=1.0, scale=0.5)(TensorDict({"reward": torch.tensor([4.0])}))["reward"]
        tensor([3.])
    """

    _elementwise = True

    def __init__(
        self,
        loc: Number,
        scale: Number,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        standard_normal: bool = False,
    ) -> None:
        for name, value in (("loc", loc), ("scale", scale)):
            if value is None:
                raise TypeError(f"RewardScaling takes a number or a tensor for {name}, and got a NoneType.")
        Affine.__init__(self, loc, scale, standard_normal)
        self._use_rewards(in_keys, out_keys)

    def __repr__(self) -> str:
        return f"RewardScaling(loc={_shown(self.loc)}, scale={_shown(self.scale)}, keys={self.in_keys})"


def _shown(value: torch.Tensor | None) -> Any:
    return None if value is None else value.item() if value.numel() == 1 else tuple(value.shape)


class KLRewardTransform(RewardTransform):
    """Subtracts from the reward the contribution of a step to the divergence between a policy and a frozen copy of it.

    The contribution is ``log pi(a | s) - log pi_frozen(a | s)``, whose mean over actions is the Kullback-Leibler
    divergence KL(pi || pi_frozen). ``log pi(a | s)`` is read from the data if the policy wrote it
    (``return_log_prob=True``), otherwise computed by the policy.

    Args:
        actor: the policy, a probabilistic TensorDictModule. Its current state is copied.
        coef: coefficient of the divergence.
        in_keys: the rewards. Default: all rewards of the env; on plain data, "reward".
        requires_grad: whether the frozen copy computes gradients.
        log_prob_key: entry to which the policy writes the log-probability of its action, of the batch size of the data,
            with or without a last dimension of size 1. Default: "action_log_prob", or if the data has no such entry
            "sample_log_prob".
        action_key: the action. Default: that of the env; on plain data, "action".
        functional: accepted for code written for TorchRL. The frozen copy is a module of its own either way.
        device: device of the frozen copy. Default: that of the policy.

    Attributes:
        frozen_actor: the copy.

    Raises:
        TypeError: If the policy has no ``get_dist``.

    Example:
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule as Probabilistic
        >>> from tensordict.nn import ProbabilisticTensorDictSequential, TensorDictModule
        >>> net = TensorDictModule(torch.nn.Linear(4, 2), ["observation"], ["logits"])
        >>> draw = Probabilistic(["logits"], ["action"], distribution_class=torch.distributions.Categorical)
        >>> actor = ProbabilisticTensorDictSequential(net, draw)
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(categorical_action_encoding=True), KLRewardTransform(actor))
        >>> env.rollout(2, actor)["next", "reward"].flatten()
        tensor([1., 1.])
    """

    _shown = ("coef", "keys")

    actor: Any
    frozen_actor: Any

    def __init__(
        self,
        actor: Any,
        coef: float = 1.0,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        requires_grad: bool = False,
        log_prob_key: NestedKey | None = None,
        action_key: NestedKey | None = None,
        functional: bool | None = None,
        device: torch.device | str | int | None = None,
    ) -> None:
        if not callable(getattr(actor, "get_dist", None)):
            raise TypeError(
                "KLRewardTransform needs a policy with get_dist, which returns its distribution, and got a "
                f"{type(actor).__name__}. Fix: a ProbabilisticTensorDictSequential."
            )
        super().__init__(in_keys, out_keys)
        self.coef = float(coef)
        self.frozen_actor = copy.deepcopy(actor).to(device).requires_grad_(requires_grad)
        # Not by setattr: the policy's parameters must not become parameters of the transform.
        self.__dict__["actor"] = actor
        self.device = None if device is None else torch.device(device)
        self.log_prob_key = None if log_prob_key is None else key_list([log_prob_key], "log_prob_key")[0]
        self.action_key = None if action_key is None else key_list([action_key], "action_key")[0]

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        divergence = self._divergence(tensordict)
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            reward = self._need(next_tensordict, in_key)
            next_tensordict.set(out_key, self._correct(reward, divergence))
        return next_tensordict

    def _call(self, next_tensordict: TensorDictBase) -> TensorDictBase:
        return next_tensordict  # a reset has no reward

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Change the rewards, under "next", of steps in the TED format; see :meth:`Transform.forward`."""
        divergence = self._divergence(tensordict)
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            reward = self._need(tensordict, as_key(("next", *as_tuple(in_key))))
            tensordict.set(as_key(("next", *as_tuple(out_key))), self._correct(reward, divergence))
        return tensordict

    def _divergence(self, data: TensorDictBase) -> torch.Tensor:
        """Return the difference of the log-probabilities, of the batch size of the data."""
        parent = self.parent if self.action_key is None else None
        action_key = self.action_key or ("action" if parent is None else parent.action_key)
        action = self._need(data, action_key)
        given = data.exclude("next")
        log_prob = self._written_log_prob(data)
        if log_prob is None:
            with torch.no_grad():
                log_prob = self.actor.get_dist(given.copy()).log_prob(action)
        elif log_prob.shape == (*data.batch_size, 1):
            log_prob = log_prob.squeeze(-1)
        elsewhere = given.copy() if self.device is None else given.to(self.device)
        frozen = self.frozen_actor.get_dist(elsewhere).log_prob(action.to(self.device)).to(log_prob.device)
        if frozen.shape != data.batch_size or log_prob.shape != data.batch_size:
            raise ValueError(
                f"The log-probability of {action_key!r} must have the batch size of the data, "
                f"{tuple(data.batch_size)}, and has {tuple(log_prob.shape)}, that of the frozen copy "
                f"{tuple(frozen.shape)}. Fix: torch.distributions.Independent(distribution, 1), which sums over the "
                "dimensions of an action."
            )
        return log_prob - frozen

    def _written_log_prob(self, data: TensorDictBase) -> torch.Tensor | None:
        keys = ("action_log_prob", "sample_log_prob") if self.log_prob_key is None else (self.log_prob_key,)
        return next((found for found in (data.get(key, None) for key in keys) if found is not None), None)

    def _correct(self, reward: torch.Tensor, divergence: torch.Tensor) -> torch.Tensor:
        extra = reward.ndim - divergence.ndim
        return reward - self.coef * divergence.reshape((*divergence.shape, *[1] * extra)).to(reward.dtype)

    def _apply_to_spec(self, spec: TensorSpec) -> TensorSpec:
        if spec.dtype is None or not spec.dtype.is_floating_point:
            raise TypeError(
                f"KLRewardTransform needs floating-point rewards, and these have dtype {spec.dtype}. Fix: put "
                f"DTypeCastTransform({spec.dtype}, torch.float32, in_keys=['reward']) before it."
            )
        return Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device)


_MODES = ("reduce", "constant")


class PerReward(Transform):
    """Base class of transforms that keep one number per reward and carry it from step to step.

    A subclass names the entry of the number in ``_entry_name``.
    """

    def __init__(self, in_keys: Keys | None, out_keys: Keys | None) -> None:
        super().__init__()
        self._all_rewards, self._named_out = in_keys is None, out_keys is not None
        self._specs: dict[NestedKey, TensorSpec] = {}
        self._batch_dims = 0
        self._use(key_list("reward" if in_keys is None else in_keys, "in_keys"), key_list(out_keys, "out_keys"))

    def _entry_name(self, reward: str) -> str:
        """Return the name of the entry for a reward of this name."""
        raise NotImplementedError

    def _use(self, rewards: list[NestedKey], named: list[NestedKey]) -> None:
        paths = map(as_tuple, rewards)
        found = named if self._named_out else [as_key((*path[:-1], self._entry_name(path[-1]))) for path in paths]
        if len(rewards) != len(found):
            raise ValueError(errors.unequal_keys(self, "in_keys", len(rewards), "out_keys", len(found)))
        self.in_keys, self.out_keys = rewards, found

    def _pairs(self) -> list[tuple[NestedKey, NestedKey]]:
        """Return the pairs of keys in the data of a step, without "next"."""
        return list(zip(map(_of_step, self.in_keys), map(_of_step, self.out_keys), strict=True))

    def _initial(self, in_key: NestedKey, data: TensorDictBase, number: float) -> torch.Tensor:
        """Return the number of a reward after a reset, for all rows of ``data``."""
        spec = self._specs.get(in_key)
        if spec is None:
            return torch.full((*data.batch_size, 1), number, device=data.device)
        shape = (*data.batch_size, *spec.shape[self._batch_dims :])
        return torch.full(shape, number, dtype=spec.dtype, device=spec.device)

    def _learn_output(self, output_spec: Composite) -> None:
        rewards = output_spec["full_reward_spec"]
        if self._all_rewards:
            self._use(list(rewards.keys(True, True)), self.out_keys)
        self._batch_dims = output_spec.ndim
        self._specs = {key: rewards[key] for key, _ in self._pairs() if key in rewards}

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the numbers; see :class:`Transform`."""
        self._need_composite(observation_spec)
        for in_key, out_key in self._pairs():
            spec = self._specs.get(in_key)
            if spec is not None:
                observation_spec.set(out_key, Unbounded(shape=spec.shape, dtype=spec.dtype, device=spec.device))
        return observation_spec

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Return the spec of the rewards unchanged; see :class:`Transform`."""
        return reward_spec


class RewardSum(PerReward):
    """Sums the rewards since the reset.

    On a rollout, it sums along the dimension named "time", from the first step and again after each "done".

    Args:
        in_keys: the rewards, such as "reward"; ``("next", "reward")`` means the same in an env. Default: all rewards of
            the env.
        out_keys: the sums. Default: "episode_reward" for "reward", at the same level. They are 0 after a reset.
        reset_keys: for each of ``in_keys`` the mask that selects its rows to reset, or one mask for all. Default: the
            nearest one at or above each reward.
        reward_spec: whether the sums are rewards of the env, instead of observations.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), RewardSum())
        >>> env.rollout(3)["next", "episode_reward"].flatten()
        tensor([1., 2., 3.])
    """

    def __init__(
        self,
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        reset_keys: Keys | None = None,
        *,
        reward_spec: bool = False,
    ) -> None:
        self.reward_spec = bool(reward_spec)
        self.reset_keys = None if reset_keys is None else key_list(reset_keys, "reset_keys")
        super().__init__(in_keys, out_keys)

    def _entry_name(self, reward: str) -> str:
        return f"episode_{reward}"

    def _use(self, rewards: list[NestedKey], named: list[NestedKey]) -> None:
        if self.reset_keys is not None and len(self.reset_keys) == 1:
            self.reset_keys = self.reset_keys * len(rewards)  # one mask for all
        if self.reset_keys is not None and len(self.reset_keys) != len(rewards):
            n_resets = len(self.reset_keys)
            raise ValueError(errors.unequal_keys(self, "in_keys", len(rewards), "reset_keys", n_resets))
        super()._use(rewards, named)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in self._pairs():
            reward = self._read(next_tensordict, in_key)
            if reward is not None:
                total = self._carried.get(tensordict, out_key)
                self._carried.put(next_tensordict, out_key, reward.clone() if total is None else total + reward)
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for i, (in_key, out_key) in enumerate(self._pairs()):
            reset_key = None if self.reset_keys is None else self.reset_keys[i]
            fresh = self._initial(in_key, tensordict_reset, 0.0)
            self._carried.restart(tensordict, tensordict_reset, out_key, fresh, reset_key)
        return tensordict_reset

    def _row_rule(self, output_spec: Composite) -> RowRule | None:
        rewards, cells = output_spec["full_reward_spec"], self._carried
        pairs = self._pairs()
        if self.reset_keys is not None or self.reward_spec or any(key not in rewards for key, _ in pairs):
            return None

        def bind(before: EnvRows, after: EnvRows) -> tuple[Step, Reset]:
            rewards = [before.next[key] for key, _ in pairs]
            at_root, following = ([rows[key] for _, key in pairs] for rows in (after.root, after.next))
            last = [cells.in_rows(key, rows) for (_, key), rows in zip(pairs, following, strict=True)]
            adding, clearing = list(zip(rewards, following, last, strict=True)), list(zip(at_root, last, strict=True))

            def step(t: int) -> bool:
                for reward, sums, read in adding:
                    total = read()
                    total += reward[t]
                    sums[t] = total
                return False

            def reset(t: int) -> None:
                for sums, read in clearing:
                    sums[t] = 0
                    read().fill(0)

            return step, reset

        return RowRule(bind, [], [key for _, key in pairs])

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        """Add the sums, unless they are rewards; see :class:`Transform`."""
        self._need_composite(observation_spec)
        return observation_spec if self.reward_spec else super().transform_observation_spec(observation_spec)

    def transform_reward_spec(self, reward_spec: Composite) -> Composite:
        """Add the sums if they are rewards; see :class:`Transform`."""
        return super().transform_observation_spec(reward_spec) if self.reward_spec else reward_spec

    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Sum the rewards of a rollout in the TED format, ``[*batch, time]``, again from 0 after each "done".

        The sums are written at the root and under "next".

        Raises:
            ValueError: If not exactly one dimension is named "time".
            KeyError: If there is no reward, or no "done", under "next".
        """
        if list(tensordict.names).count("time") != 1:
            raise ValueError(
                "RewardSum sums along the dimension named 'time', and the dimensions of this data are named "
                f"{list(tensordict.names)}. Fix: data.names = [..., 'time'] if it is a rollout; a sample of single "
                "steps has no sums."
            )
        dim = list(tensordict.names).index("time")
        for in_key, out_key in zip(self.in_keys, self.out_keys, strict=True):
            path = as_tuple(in_key)
            under_next = path[0] == "next" and len(path) > 1
            reward = self._read(tensordict, in_key if under_next else as_key(("next", *path)))
            if reward is None:
                continue
            ended = self._nearest_done(tensordict, as_key(path[1:]) if under_next else in_key)
            before, after = _running_sums(reward, ended, dim)
            if under_next:  # the keys name the place in the rollout themselves
                tensordict.set(out_key, after)
                continue
            tensordict.set(out_key, before)
            tensordict.set(as_key(("next", *as_tuple(out_key))), after)
        return tensordict


class TargetReturn(PerReward):
    """Adds the return that a policy should earn from here on, for return-conditioned policies.

    Args:
        target_return: the target at the start of an episode.
        mode: ``"reduce"`` (the default) subtracts the rewards that were earned; ``"constant"`` keeps the target.
        in_keys: the rewards. Default: all rewards of the env.
        out_keys: the targets. Default: "target_return", at the level of the reward.
        reset_key: the mask that selects the rows to reset. Default: the nearest one at or above each entry.

    Raises:
        ValueError: If the mode is unknown, or the keys do not pair up.

    Example:
        >>> from rlnb.envs import CartPoleEnv, TransformedEnv
        >>> env = TransformedEnv(CartPoleEnv(), TargetReturn(10.0))
        >>> env.rollout(3)["target_return"].flatten()
        tensor([10.,  9.,  8.])
    """

    _env_only = "counts rewards from a reset on"

    def __init__(
        self,
        target_return: float,
        mode: str = "reduce",
        in_keys: Keys | None = None,
        out_keys: Keys | None = None,
        reset_key: NestedKey | None = None,
    ) -> None:
        if mode not in _MODES:
            raise ValueError(f"There is no mode {mode!r}. The modes are: {', '.join(_MODES)}.")
        super().__init__(in_keys, out_keys)
        self.target_return, self.mode = float(target_return), mode
        self.reset_key = None if reset_key is None else key_list([reset_key], "reset_key")[0]

    def _entry_name(self, reward: str) -> str:
        return "target_return"

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in self._pairs():
            reward = self._read(next_tensordict, in_key)
            if reward is None:
                continue
            left = self._carried.get(tensordict, out_key)
            if left is None:
                left = torch.full_like(reward, self.target_return)
            self._carried.put(next_tensordict, out_key, left - reward if self.mode == "reduce" else left.clone())
        return next_tensordict

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        for in_key, out_key in self._pairs():
            fresh = self._initial(in_key, tensordict_reset, self.target_return)
            self._carried.restart(tensordict, tensordict_reset, out_key, fresh, self.reset_key)
        return tensordict_reset

    def __repr__(self) -> str:
        return f"TargetReturn(target_return={self.target_return}, mode={self.mode}, keys={self.in_keys})"


def _of_step(key: NestedKey) -> NestedKey:
    path = as_tuple(key)
    return as_key(path[1:]) if path[0] == "next" and len(path) > 1 else key


def _running_sums(reward: torch.Tensor, done: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the sums before and after each step, restarted after each ``True``, as an env would compute them."""
    before, after = [], []
    total = torch.zeros_like(reward.select(dim, 0))
    for t in range(reward.shape[dim]):
        before.append(total)
        total = total + reward.select(dim, t)
        after.append(total)
        ended = done.select(dim, t)
        total = total.masked_fill(ended.reshape((*ended.shape, *[1] * (total.ndim - ended.ndim))), 0)
    return torch.stack(before, dim), torch.stack(after, dim)
