"""Value estimators: modules that write the advantage and the value target of each step into TED data."""

from __future__ import annotations

import functools
import inspect
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar, Self

import torch
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModuleBase, set_skip_existing

from rlnb._tensordict import entry
from rlnb.data.ted.keys import MASK_KEYS, TRAJ_IDS_KEYS, NestedKey, as_key, as_tuple
from rlnb.objectives.errors import missing_entry, unknown_key_name
from rlnb.objectives.keywords import dispatch
from rlnb.objectives.value.functional import (
    bootstrapped,
    check_discount,
    different_shapes,
    generalized_advantage_estimate,
    td_lambda_return_estimate,
)

Tensor = torch.Tensor

_MIN_DEVIATION = 1e-4  # what a standard deviation counts at least, so that equal numbers become zeros


class ValueEstimatorBase(TensorDictModuleBase):
    r"""Base class of value estimators.

    An estimator reads TED data whose last dimension is time (or the one that is named "time"), calls the value network
    on the states and the next states, and writes "advantage" and "value_target". A trajectory ends where "done" is set,
    where the trajectory id changes from one step to the next, at the last step before padding, and at the end of the
    data. Only "terminated" makes the value of the next state count as 0.

    Args:
        value_network: writes the value of a state. None: the values are in the data already.
        gamma: the discount, in [0, 1].
        shifted: accepted as in TorchRL; values of states and next states are exact either way.
        differentiable: whether gradients flow through the value network into the results.
        skip_existing: whether a value that is in the data is kept instead of calling the network.
        advantage_key: use ``set_keys(advantage=...)``.
        value_target_key: use ``set_keys(value_target=...)``.
        value_key: use ``set_keys(value=...)``.
        device: where the discounts are kept.
        time_dim: the dimension of time in the data. Default: the one named "time", or the last one.
        deactivate_vmap: accepted as in TorchRL; the network is called twice, without vmap.

    Raises:
        TypeError: If there is no such argument.
        ValueError: If a discount is not in [0, 1].

    Example:
        >>> from tensordict import TensorDict
        >>> class Myopic(ValueEstimatorBase):
        ...     '''The target is the reward: nothing later counts.'''
        ...     def _target(self, tensordict, next_value, time_dim):
        ...         return tensordict["next", "reward"]
        >>> step = {"reward": torch.ones(2, 1), "state_value": torch.zeros(2, 1)}
        >>> step |= {"done": torch.zeros(2, 1).bool(), "terminated": torch.zeros(2, 1).bool()}
        >>> data = TensorDict({"state_value": torch.full((2, 1), 0.25), "next": step}, [2])
        >>> Myopic(value_network=None, gamma=0.9)(data)["advantage"].flatten()
        tensor([0.7500, 0.7500])
    """

    @dataclass
    class _AcceptedKeys:
        advantage: NestedKey = "advantage"
        value_target: NestedKey = "value_target"
        value: NestedKey = "state_value"
        reward: NestedKey = "reward"
        done: NestedKey = "done"
        terminated: NestedKey = "terminated"
        steps_to_next_obs: NestedKey = "steps_to_next_obs"
        sample_log_prob: NestedKey = "action_log_prob"

    default_keys: ClassVar[type] = _AcceptedKeys

    def __init__(
        self,
        *,
        value_network: TensorDictModuleBase | None,
        gamma: float | Tensor,
        shifted: bool = False,
        differentiable: bool = False,
        skip_existing: bool | None = None,
        advantage_key: NestedKey | None = None,
        value_target_key: NestedKey | None = None,
        value_key: NestedKey | None = None,
        device: Any = None,
        time_dim: int | None = None,
        deactivate_vmap: bool = False,
        **unknown: Any,
    ) -> None:
        super().__init__()
        for name in unknown:
            raise TypeError(f"{type(self).__name__} has no argument {name!r}. Fix: one of {_arguments(type(self))}.")
        check_discount("gamma", gamma)
        self.register_buffer("gamma", torch.as_tensor(gamma, device=device))
        self.tensor_keys = self._key_defaults = self._AcceptedKeys()
        self.value_network = value_network
        self.shifted, self.deactivate_vmap = shifted, deactivate_vmap
        self.differentiable, self.skip_existing, self.time_dim = differentiable, skip_existing, time_dim
        if value_network is not None and value_key is None and "state_value" not in value_network.out_keys:
            value_key = value_network.out_keys[0]  # a network with one output writes the value there
        given = {"advantage": advantage_key, "value_target": value_target_key, "value": value_key}
        self.set_keys(**{name: key for name, key in given.items() if key is not None})

    def set_keys(self, **kwargs: NestedKey | None) -> Self:
        """Name the entries to read and write.

        Args:
            kwargs: keys by their names in ``tensor_keys``, such as ``reward=("agents", "reward")``. Keys of what a
                step leads to are named without "next". None: the default.

        Raises:
            KeyError: If a name is unknown; nothing changes then.
        """
        self.tensor_keys = changed_keys(self, kwargs)
        return self

    @property
    def in_keys(self) -> list[NestedKey]:
        """The entries that are read; they follow the value network and ``set_keys``."""
        keys, given = self.tensor_keys, self.__dict__.get("_given_in_keys")
        if given is not None:
            return list(given)
        states = list(self.value_network.in_keys) if self.value_network is not None else [keys.value]
        after = [_next(key) for key in (keys.reward, keys.done, keys.terminated, *states)]
        return [*states, *after]

    @in_keys.setter
    def in_keys(self, keys: Any) -> None:
        self.__dict__["_given_in_keys"] = list(keys)

    @property
    def out_keys(self) -> list[NestedKey]:
        """The entries of the advantage and the value target."""
        given = self.__dict__.get("_given_out_keys")
        return [self.tensor_keys.advantage, self.tensor_keys.value_target] if given is None else list(given)

    @out_keys.setter
    def out_keys(self, keys: Any) -> None:
        self.__dict__["_given_out_keys"] = list(keys)

    @dispatch
    def forward(
        self,
        tensordict: TensorDictBase,
        *,
        params: TensorDictBase | None = None,
        target_params: TensorDictBase | None = None,
        time_dim: int | None = None,
    ) -> TensorDictBase:
        """Write the advantage, the value target and the values of both states into TED data.

        Args:
            tensordict: data of shape ``[*B, T]``.
            params: parameters of the value network to use instead of its own.
            target_params: those for the next states. Default: ``params``.
            time_dim: the dimension of time.

        Returns:
            The same TensorDict.

        Raises:
            KeyError: If an entry is missing.
            ValueError: If shapes do not fit.
        """
        keys = self.tensor_keys
        with nullcontext() if self.differentiable else torch.no_grad():
            value = self._value(tensordict, params)
            next_value = self._next_value(tensordict, params if target_params is None else target_params)
            advantage, target = self._estimate(tensordict, value, next_value, time_dim)
        tensordict.set(keys.value, value)
        tensordict.set(_next(keys.value), next_value)
        tensordict.set(keys.advantage, advantage)
        tensordict.set(keys.value_target, target)
        return tensordict

    def value_estimate(
        self,
        tensordict: TensorDictBase,
        target_params: TensorDictBase | None = None,
        next_value: Tensor | None = None,
        time_dim: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Compute the value target alone, without writing anything.

        Args:
            tensordict: data of shape ``[*B, T]``.
            target_params: parameters of the value network for the next states.
            next_value: the values of the next states; the network is not called then.
            time_dim: the dimension of time.
            kwargs: accepted as in TorchRL.

        Returns:
            The value target, of the shape of the reward.
        """
        if next_value is None:
            with nullcontext() if self.differentiable else torch.no_grad():
                next_value = self._next_value(tensordict, target_params)
        return self._target(tensordict, next_value, time_dim)

    # What subclasses compute ---------------------------------------------------------------------------------------

    def _target(self, tensordict: TensorDictBase, next_value: Tensor, time_dim: int | None) -> Tensor:
        """Compute the value target."""
        raise NotImplementedError

    def _estimate(
        self, tensordict: TensorDictBase, value: Tensor, next_value: Tensor, time_dim: int | None
    ) -> tuple[Tensor, Tensor]:
        """Compute the advantage and the value target."""
        target = self._target(tensordict, next_value, time_dim)
        self._check_shape(value, target)
        return target - value, target

    # Values --------------------------------------------------------------------------------------------------------

    def _value(self, data: TensorDictBase, params: TensorDictBase | None) -> Tensor:
        return self._call(data, data, params)

    def _next_value(self, data: TensorDictBase, params: TensorDictBase | None) -> Tensor:
        after = data.get("next", None)
        if after is None:
            raise KeyError(missing_entry(self, _next(self.tensor_keys.reward), "reward", data))
        return self._call(after, data, params)

    def _call(self, state: TensorDictBase, data: TensorDictBase, params: TensorDictBase | None) -> Tensor:
        """Call the network on the entries of a state, the root of ``data`` or what is under "next"."""
        key, network = self.tensor_keys.value, self.value_network
        known = state.get(key, None)
        if known is not None and (network is None or self.skip_existing):
            return known
        if network is None:
            where = key if state is data else _next(key)
            raise KeyError(missing_entry(self, where, "value", data))
        given = state.select(*network.in_keys, strict=False)
        for name in network.in_keys:
            if given.get(name, None) is None:
                # Recurrent networks restart in both at the same steps.
                shared = data.get(name, None) if as_tuple(name)[-1] == "is_init" else None
                if shared is None:
                    raise KeyError(missing_entry(self, name if state is data else _next(name), "input", data))
                given.set(name, shared)
        use = nullcontext() if params is None else params.to_module(network)
        with use, nullcontext() if self.skip_existing is None else set_skip_existing(self.skip_existing):
            found = network(given).get(key, None)
        if found is None:
            raise KeyError(
                f"{type(self).__name__} expects the value at {key!r}, but the value network writes {network.out_keys}. "
                f"Fix: set_keys(value={network.out_keys[0]!r})."
            )
        return found

    # Data ----------------------------------------------------------------------------------------------------------

    def _get(self, data: TensorDictBase, role: str) -> Tensor:
        key = _next(getattr(self.tensor_keys, role))
        found = entry(data, key)
        if found is None:
            raise KeyError(missing_entry(self, key, role, data))
        return found

    def _reward(self, data: TensorDictBase) -> Tensor:
        reward = self._get(data, "reward")
        if getattr(self, "average_rewards", False):
            reward = (reward - reward.mean()) / reward.std().clamp_min(_MIN_DEVIATION)
        return reward

    def _ends(self, data: TensorDictBase, time_dim: int) -> tuple[Tensor, Tensor]:
        """Return the flags of the steps that end a trajectory, and of those that end an episode."""
        done = self._get(data, "done")
        terminated = data.get(_next(self.tensor_keys.terminated), None)
        seams = _seams(data, time_dim)
        # Without terminated, an end of an episode and a cut are the same, except at a seam.
        terminated = done if terminated is None else terminated
        if seams is not None:
            done = done | seams.reshape(*seams.shape, *[1] * (done.ndim - seams.ndim))
        return done, terminated

    def _time_dim(self, data: TensorDictBase, time_dim: int | None) -> int:
        """Return the dimension of time, from the left."""
        found = self.time_dim if time_dim is None else time_dim
        if found is None:
            names = data.names if data._has_names() else []
            found = names.index("time") if "time" in names else data.ndim - 1
        return found if found >= 0 else data.ndim + found

    def _discount(self, data: TensorDictBase, reward: Tensor) -> Tensor:
        """Return gamma, to the power of the number of steps that a transition spans, where that is in the data."""
        steps = entry(data, self.tensor_keys.steps_to_next_obs)
        gamma: Tensor = self.gamma  # type: ignore[assignment]  # a buffer
        return gamma if steps is None else gamma ** steps.reshape(reward.shape)

    def _check_shape(self, value: Tensor, reward: Tensor) -> None:
        if value.shape != reward.shape:
            raise ValueError(wrong_value_shape(self, value, reward))


def wrong_value_shape(owner: object, value: Tensor, reward: Tensor) -> str:
    """Text for a value that has another shape than the reward."""
    return (
        f"{type(owner).__name__} expects values of the shape of the reward, {list(reward.shape)}, and got "
        f"{list(value.shape)}. A value network whose last layer has one output gives [..., 1]; the cause may be a "
        "squeeze(-1) in it, or a reward without its last dimension. "
        "Fix: nn.Linear(..., 1) as the last layer, without squeeze."
    )


class TD0Estimator(ValueEstimatorBase):
    r"""One-step returns: :math:`G_t = r_t + \gamma (1 - terminated_t) V(s_{t+1})`, :math:`A_t = G_t - V(s_t)`.

    Sutton and Barto, Reinforcement Learning, 2nd edition, equations 6.2 and 6.5. Where the data was processed with
    MultiStep, "steps_to_next_obs" is the power of the discount.

    Args:
        average_rewards: whether rewards are standardized first.
        kwargs: those of :class:`ValueEstimatorBase`; ``gamma`` and ``value_network`` are needed.

    Example:
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> critic = TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["state_value"])
        >>> flags = torch.tensor([[False], [True]])
        >>> after = {"observation": torch.ones(2, 3), "reward": torch.ones(2, 1), "done": flags, "terminated": flags}
        >>> data = TensorDict({"observation": torch.ones(2, 3), "next": after}, [2])
        >>> TD0Estimator(gamma=0.9, value_network=critic)(data)["value_target"][1]
        tensor([1.])
    """

    def __init__(self, *, average_rewards: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.average_rewards = average_rewards

    def _target(self, tensordict: TensorDictBase, next_value: Tensor, time_dim: int | None) -> Tensor:
        reward = self._reward(tensordict)
        self._check_shape(next_value, reward)
        terminated = entry(tensordict, _next(self.tensor_keys.terminated))
        terminated = self._get(tensordict, "done") if terminated is None else terminated
        if terminated.shape != reward.shape:
            raise ValueError(different_shapes({"reward": reward, "terminated": terminated}))
        return bootstrapped(self._discount(tensordict, reward), next_value, reward, terminated)


class TDLambdaEstimator(ValueEstimatorBase):
    r"""Lambda returns: :math:`G_t = r_t + \gamma ((1 - \lambda) V(s_{t+1}) + \lambda G_{t+1})`.

    The advantage is :math:`G_t - V(s_t)`. Sutton and Barto, Reinforcement Learning, 2nd edition, equation 12.18.

    Args:
        lmbda: the weight of longer returns, in [0, 1].
        average_rewards: whether rewards are standardized first.
        vectorized: accepted as in TorchRL; all steps are computed at once.
        kwargs: those of :class:`ValueEstimatorBase`; ``gamma`` and ``value_network`` are needed.

    Raises:
        ValueError: If a discount is not in [0, 1].

    Example:
        >>> from tensordict import TensorDict
        >>> flags, ones = torch.tensor([[False], [True]]), torch.ones(2, 1)
        >>> after = {"state_value": ones, "reward": ones, "done": flags, "terminated": flags}
        >>> data = TensorDict({"state_value": ones, "next": after}, [2])
        >>> estimator = TDLambdaEstimator(gamma=0.5, lmbda=0.5, value_network=None)
        >>> estimator(data)["value_target"].flatten()
        tensor([1.5000, 1.0000])
    """

    def __init__(
        self,
        *,
        lmbda: float | Tensor = 0.95,
        average_rewards: bool = False,
        vectorized: bool | None = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_discount("lmbda", lmbda)
        self.register_buffer("lmbda", torch.as_tensor(lmbda, device=kwargs.get("device")))
        self.average_rewards, self.vectorized = average_rewards, vectorized

    def _target(self, tensordict: TensorDictBase, next_value: Tensor, time_dim: int | None) -> Tensor:
        reward, time_dim = self._reward(tensordict), self._time_dim(tensordict, time_dim)
        self._check_shape(next_value, reward)
        done, terminated = self._ends(tensordict, time_dim)
        lmbda: Tensor = self.lmbda  # type: ignore[assignment]  # a buffer
        gamma = self._discount(tensordict, reward)
        return td_lambda_return_estimate(gamma, lmbda, next_value, reward, done, terminated, time_dim=time_dim)


class TD1Estimator(TDLambdaEstimator):
    r"""Full returns: the discounted rewards to the end of the trajectory, plus the value where it was cut.

    The advantage is :math:`G_t - V(s_t)`. Sutton and Barto, Reinforcement Learning, 2nd edition, equation 3.9.

    Args:
        average_rewards: whether rewards are standardized first.
        kwargs: those of :class:`ValueEstimatorBase`; ``gamma`` and ``value_network`` are needed.

    Example:
        >>> from tensordict import TensorDict
        >>> flags, ones = torch.tensor([[False], [True]]), torch.ones(2, 1)
        >>> after = {"state_value": ones, "reward": ones, "done": flags, "terminated": flags}
        >>> data = TensorDict({"state_value": ones, "next": after}, [2])
        >>> TD1Estimator(gamma=0.5, value_network=None)(data)["value_target"].flatten()
        tensor([1.5000, 1.0000])
    """

    def __init__(self, *, average_rewards: bool = False, **kwargs: Any) -> None:
        if "lmbda" in kwargs:
            raise TypeError("TD1Estimator has no argument 'lmbda', which is 1 here. Fix: TDLambdaEstimator(lmbda=...).")
        super().__init__(lmbda=1.0, average_rewards=average_rewards, **kwargs)


class GAE(ValueEstimatorBase):
    r"""Generalized advantage estimates.

    .. math::
        \delta_t = r_t + \gamma (1 - terminated_t) V(s_{t+1}) - V(s_t), \qquad
        A_t = \delta_t + \gamma \lambda (1 - done_t) A_{t+1}

    The value target is :math:`A_t + V(s_t)`. Schulman et al., High-Dimensional Continuous Control Using Generalized
    Advantage Estimation, 2016 (arXiv:1506.02438), equations 12 and 16.

    Args:
        gamma: the discount, in [0, 1].
        lmbda: the weight of longer returns, in [0, 1].
        value_network: writes the value of a state. None: the values are in the data already.
        average_gae: whether the advantages are standardized in the end.
        vectorized: accepted as in TorchRL; all steps are computed at once.
        auto_reset_env: whether the observation after a cut is not valid, so that the value of the state before it
            takes its place.
        kwargs: those of :class:`ValueEstimatorBase`.

    Raises:
        ValueError: If a discount is not in [0, 1].

    Example:
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import TensorDictModule
        >>> critic = TensorDictModule(torch.nn.Linear(3, 1), ["observation"], ["state_value"])
        >>> flags = torch.tensor([[False], [True]])
        >>> after = {"observation": torch.ones(2, 3), "reward": torch.ones(2, 1), "done": flags, "terminated": flags}
        >>> data = TensorDict({"observation": torch.ones(2, 3), "next": after}, [2])
        >>> advantage = GAE(gamma=0.99, lmbda=0.95, value_network=critic)
        >>> data = advantage(data)
        >>> data["advantage"].shape, data["value_target"].shape
        (torch.Size([2, 1]), torch.Size([2, 1]))
    """

    def __init__(
        self,
        *,
        gamma: float | Tensor,
        lmbda: float | Tensor,
        value_network: TensorDictModuleBase | None,
        average_gae: bool = False,
        vectorized: bool | None = None,
        auto_reset_env: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(gamma=gamma, value_network=value_network, **kwargs)
        check_discount("lmbda", lmbda)
        self.register_buffer("lmbda", torch.as_tensor(lmbda, device=kwargs.get("device")))
        self.average_gae, self.vectorized, self.auto_reset_env = average_gae, vectorized, auto_reset_env

    def _estimate(
        self, tensordict: TensorDictBase, value: Tensor, next_value: Tensor, time_dim: int | None
    ) -> tuple[Tensor, Tensor]:
        reward, time_dim = self._reward(tensordict), self._time_dim(tensordict, time_dim)
        self._check_shape(value, reward)
        self._check_shape(next_value, reward)
        done, terminated = self._ends(tensordict, time_dim)
        if self.auto_reset_env:
            next_value = torch.where(done & ~terminated, value, next_value)
        gamma = self._discount(tensordict, reward)
        lmbda: Tensor = self.lmbda  # type: ignore[assignment]  # a buffer
        advantage, target = generalized_advantage_estimate(
            gamma, lmbda, value, next_value, reward, done, terminated, time_dim=time_dim
        )
        if self.average_gae:
            advantage = (advantage - advantage.mean()) / advantage.std().clamp_min(_MIN_DEVIATION)
        return advantage, target

    def value_estimate(
        self,
        tensordict: TensorDictBase,
        target_params: TensorDictBase | None = None,
        next_value: Tensor | None = None,
        time_dim: int | None = None,
        **kwargs: Any,
    ) -> Tensor:
        """Compute the value target alone, without writing anything; see :meth:`ValueEstimatorBase.value_estimate`."""
        with nullcontext() if self.differentiable else torch.no_grad():
            value = self._value(tensordict, None)
            if next_value is None:
                next_value = self._next_value(tensordict, target_params)
        return self._estimate(tensordict, value, next_value, time_dim)[1]


def _arguments(kind: type[ValueEstimatorBase]) -> str:
    """List the arguments of an estimator: its own, and those of all."""
    parameters = [
        *inspect.signature(kind).parameters.values(),
        *inspect.signature(ValueEstimatorBase).parameters.values(),
    ]
    return ", ".join(dict.fromkeys(one.name for one in parameters if one.kind is one.KEYWORD_ONLY))


def changed_keys(owner: Any, given: dict[str, NestedKey | None]) -> Any:
    """Return the ``tensor_keys`` of a loss or an estimator with some of them changed; None stands for the default."""
    defaults = asdict(owner._key_defaults)
    for name in given:
        if name not in defaults:
            raise KeyError(unknown_key_name(owner, name, defaults))
    return replace(owner.tensor_keys, **{name: defaults[name] if key is None else key for name, key in given.items()})


@functools.cache
def _next(key: NestedKey) -> NestedKey:
    return as_key(("next", *as_tuple(key)))


def _seams(data: TensorDictBase, time_dim: int) -> Tensor | None:
    """Return the flags, of the shape of the data, of the steps whose successor belongs to another trajectory."""
    length = data.shape[time_dim]
    seams = None
    for keys in (TRAJ_IDS_KEYS, MASK_KEYS):
        marks = next((found for key in keys if (found := data.get(key, None)) is not None), None)
        if not isinstance(marks, Tensor) or marks.shape[: data.ndim] != data.shape:
            continue
        marks = marks.reshape(*data.shape, -1)[..., 0]
        found = torch.zeros(data.shape, dtype=torch.bool, device=marks.device)
        before, after = marks.narrow(time_dim, 0, length - 1), marks.narrow(time_dim, 1, length - 1)
        found.narrow(time_dim, 0, length - 1).copy_(before != after)
        seams = found if seams is None else seams | found
    return seams


__all__ = ["GAE", "TD0Estimator", "TD1Estimator", "TDLambdaEstimator", "ValueEstimatorBase"]
