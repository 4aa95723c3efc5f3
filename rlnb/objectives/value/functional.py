"""Returns and advantages of trajectories: TD(0), TD(1), TD(lambda) and GAE, for all steps of a batch at once.

All tensors have the shape ``[*B, T, *F]``: batch, time, and features, often just one. ``time_dim`` says
which dimension is time. What follows a step is decided by two flags:

- *terminated*: the episode ended; nothing follows, so the value of the next state counts as 0;
- *done* without terminated: the trajectory was cut (a time limit, the end of a batch); the value of the next state
  stands for what would have followed, and the steps after it belong to another trajectory.

The last step of the data is cut too, if it is not terminated.
"""

from __future__ import annotations

from typing import Any

import torch

from rlnb.objectives.value.scan import reverse_scan

Tensor = torch.Tensor


def generalized_advantage_estimate(
    gamma: float | Tensor,
    lmbda: float | Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    *,
    time_dim: int = -2,
) -> tuple[Tensor, Tensor]:
    r"""Estimate advantages and returns with GAE.

    .. math::
        \delta_t = r_t + \gamma (1 - terminated_t) V(s_{t+1}) - V(s_t), \qquad
        A_t = \delta_t + \gamma \lambda (1 - done_t) A_{t+1}

    Schulman et al., High-Dimensional Continuous Control Using Generalized Advantage Estimation, 2016
    (arXiv:1506.02438), equations 12 and 16.

    Args:
        gamma: the discount, in [0, 1]; a number or a tensor that broadcasts.
        lmbda: the weight of longer returns, in [0, 1].
        state_value: V(s_t), ``[*B, T, *F]``.
        next_state_value: V(s_{t+1}), of the same shape.
        reward: r_t, of the same shape.
        done: whether step t is the last of its trajectory, of the same shape.
        terminated: whether the episode ended with step t. Default: ``done``.
        time_dim: the dimension of time.

    Returns:
        The advantages, and the returns ``advantage + state_value``.

    Raises:
        ValueError: If shapes differ, or a discount is not in [0, 1].

    Example:
        >>> ones = torch.ones(3, 1)
        >>> done = torch.tensor([[False], [False], [True]])
        >>> advantage, value_target = generalized_advantage_estimate(0.5, 1.0, ones, ones, ones, done)
        >>> advantage.flatten().tolist(), value_target.flatten().tolist()
        ([0.75, 0.5, 0.0], [1.75, 1.5, 1.0])
    """
    done, terminated = _flags(done, terminated)
    _check(gamma, lmbda, state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    delta = bootstrapped(gamma, next_state_value, reward, terminated) - state_value
    keep = done.logical_not().to(delta.dtype) * (gamma * lmbda)
    advantage = _over_time(delta, keep, time_dim)
    return advantage, advantage + state_value


def td0_return_estimate(
    gamma: float | Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    terminated: Tensor | None = None,
    *,
    done: Tensor | None = None,
) -> Tensor:
    r"""Compute the TD(0) return, :math:`r_t + \gamma (1 - terminated_t) V(s_{t+1})`.

    Sutton and Barto, Reinforcement Learning, 2nd edition, equation 6.2.

    Args:
        gamma: the discount, in [0, 1].
        next_state_value: V(s_{t+1}), ``[*B, *F]``.
        reward: r_t, of the same shape.
        terminated: whether the episode ended with step t.
        done: an older name of ``terminated``.

    Returns:
        The returns, of the same shape.

    Raises:
        ValueError: If shapes differ, or the discount is not in [0, 1].
        TypeError: If there is no ``terminated``.

    Example:
        >>> td0_return_estimate(0.9, torch.tensor([10.0, 10.0]), torch.ones(2), torch.tensor([False, True]))
        tensor([10.,  1.])
    """
    terminated = done if terminated is None else terminated
    if terminated is None:
        raise TypeError(
            "td0_return_estimate needs terminated, the flags of steps that end their episode. "
            "Fix: td0_return_estimate(gamma, next_state_value, reward, terminated)."
        )
    _check(gamma, next_state_value=next_state_value, reward=reward, terminated=terminated)
    return bootstrapped(gamma, next_state_value, reward, terminated.bool())


def td0_advantage_estimate(
    gamma: float | Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
) -> Tensor:
    r"""Compute the TD error, :math:`r_t + \gamma (1 - terminated_t) V(s_{t+1}) - V(s_t)`.

    Sutton and Barto, Reinforcement Learning, 2nd edition, equation 6.5. The arguments are those of
    :func:`generalized_advantage_estimate`.

    Example:
        >>> td0_advantage_estimate(0.9, torch.ones(1), torch.ones(1), torch.ones(1), torch.tensor([False]))
        tensor([0.9000])
    """
    done, terminated = _flags(done, terminated)
    _check(gamma, state_value=state_value, next_state_value=next_state_value, reward=reward, done=done)
    return bootstrapped(gamma, next_state_value, reward, terminated) - state_value


def td1_return_estimate(
    gamma: float | Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    r"""Compute the TD(1) return: all rewards to the end of the trajectory, and the value where it was cut.

    .. math::
        G_t = r_t + \gamma G_{t+1}, \qquad
        G_t = r_t + \gamma (1 - terminated_t) V(s_{t+1}) \text{ at the last step of a trajectory}

    Sutton and Barto, Reinforcement Learning, 2nd edition, equation 3.9. The arguments are those of
    :func:`td_lambda_return_estimate`.

    Example:
        >>> ones, done = torch.ones(3, 1), torch.tensor([[False], [False], [True]])
        >>> td1_return_estimate(0.5, ones, ones, done).flatten()
        tensor([1.7500, 1.5000, 1.0000])
    """
    return td_lambda_return_estimate(
        gamma, 1.0, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )


def td1_advantage_estimate(
    gamma: float | Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    time_dim: int = -2,
) -> Tensor:
    """Compute the TD(1) return minus the value of the state; see :func:`td1_return_estimate`.

    Example:
        >>> ones, done = torch.ones(3, 1), torch.tensor([[False], [False], [True]])
        >>> td1_advantage_estimate(0.5, ones, ones, ones, done).flatten()
        tensor([0.7500, 0.5000, 0.0000])
    """
    return td_lambda_advantage_estimate(
        gamma, 1.0, state_value, next_state_value, reward, done, terminated, rolling_gamma, time_dim
    )


def td_lambda_return_estimate(
    gamma: float | Tensor,
    lmbda: float | Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    *,
    time_dim: int = -2,
) -> Tensor:
    r"""Compute the lambda return, a weighted mean of the returns over all numbers of steps.

    .. math::
        G_t = r_t + \gamma \big((1 - \lambda) V(s_{t+1}) + \lambda G_{t+1}\big)

    and :math:`r_t + \gamma (1 - terminated_t) V(s_{t+1})` at the last step of a trajectory. Sutton and Barto,
    Reinforcement Learning, 2nd edition, equation 12.18 (with values of states).

    Args:
        gamma: the discount, in [0, 1]; a number or a tensor that broadcasts.
        lmbda: the weight of longer returns, in [0, 1].
        next_state_value: V(s_{t+1}), ``[*B, T, *F]``.
        reward: r_t, of the same shape.
        done: whether step t is the last of its trajectory, of the same shape.
        terminated: whether the episode ended with step t. Default: ``done``.
        rolling_gamma: where gamma is a tensor with a value for each step: whether a value belongs to its step (the
            default), or to the whole return of the trajectory that starts there, which takes T times as long.
        time_dim: the dimension of time.

    Returns:
        The returns, of the same shape.

    Raises:
        ValueError: If shapes differ, a discount is not in [0, 1], or ``rolling_gamma`` is False and gamma has no value
            for each step.

    Example:
        >>> ones, done = torch.ones(3, 1), torch.tensor([[False], [False], [True]])
        >>> td_lambda_return_estimate(0.5, 0.5, ones, ones, done).flatten()
        tensor([1.6250, 1.5000, 1.0000])
    """
    done, terminated = _flags(done, terminated)
    _check(gamma, lmbda, next_state_value=next_state_value, reward=reward, done=done)
    if rolling_gamma is not None and not rolling_gamma:
        return _with_gamma_of_the_start(gamma, lmbda, next_state_value, reward, done, terminated, time_dim)
    keep = done.logical_not().to(reward.dtype if reward.is_floating_point() else next_state_value.dtype) * lmbda
    keep = keep.transpose(time_dim, -1).contiguous().clone()
    keep[..., -1] = 0  # what follows the last step is its value alone
    keep = keep.transpose(time_dim, -1)
    increment = bootstrapped(gamma, next_state_value * (1 - keep), reward, terminated)
    return _over_time(increment, keep * gamma, time_dim)


def td_lambda_advantage_estimate(
    gamma: float | Tensor,
    lmbda: float | Tensor,
    state_value: Tensor,
    next_state_value: Tensor,
    reward: Tensor,
    done: Tensor,
    terminated: Tensor | None = None,
    rolling_gamma: bool | None = None,
    time_dim: int = -2,
) -> Tensor:
    """Compute the lambda return minus the value of the state; see :func:`td_lambda_return_estimate`.

    Example:
        >>> ones, done = torch.ones(3, 1), torch.tensor([[False], [False], [True]])
        >>> td_lambda_advantage_estimate(0.5, 0.5, ones, ones, ones, done).flatten()
        tensor([0.6250, 0.5000, 0.0000])
    """
    _check(gamma, state_value=state_value, next_state_value=next_state_value)
    returns = td_lambda_return_estimate(
        gamma, lmbda, next_state_value, reward, done, terminated, rolling_gamma, time_dim=time_dim
    )
    return returns - state_value


def reward2go(reward: Tensor, done: Tensor, gamma: float | Tensor, *, time_dim: int = -2) -> Tensor:
    r"""Compute the reward-to-go: the discounted sum of the rewards from each step to the end of its trajectory.

    .. math::
        G_t = r_t + \gamma (1 - done_t) G_{t+1}

    Sutton and Barto, Reinforcement Learning, 2nd edition, equation 3.9. Nothing is added for what would have followed
    the last step: :func:`td1_return_estimate` adds the value of the next state where a trajectory was cut.

    Args:
        reward: r_t, ``[*B, T, *F]``.
        done: whether step t is the last of its trajectory, of the same shape.
        gamma: the discount, in [0, 1]; a number or a tensor that broadcasts.
        time_dim: the dimension of time.

    Returns:
        The sums, of the same shape.

    Raises:
        ValueError: If shapes differ, or the discount is not in [0, 1].

    Example:
        >>> ones, done = torch.ones(4, 1), torch.tensor([[False], [True], [False], [False]])
        >>> reward2go(ones, done, gamma=0.5).flatten().tolist()
        [1.5, 1.0, 1.5, 1.0]
    """
    _check(gamma, reward=reward, done=done)
    keep = done.logical_not().to(reward.dtype) * gamma
    return _over_time(reward, keep, time_dim)


# There is one implementation, which handles all steps at once. TorchRL has a second name for it.
vec_generalized_advantage_estimate = generalized_advantage_estimate
vec_td1_return_estimate = td1_return_estimate
vec_td1_advantage_estimate = td1_advantage_estimate
vec_td_lambda_return_estimate = td_lambda_return_estimate
vec_td_lambda_advantage_estimate = td_lambda_advantage_estimate


def bootstrapped(gamma: float | Tensor, next_state_value: Tensor, reward: Tensor, terminated: Tensor) -> Tensor:
    """Add the discounted value of the next state to the reward, except where the episode ended; nothing is checked.

    Example:
        >>> bootstrapped(0.5, torch.ones(2), torch.ones(2), torch.tensor([False, True]))
        tensor([1.5000, 1.0000])
    """
    # Filled, not multiplied: a value of a state after the end may be anything, also NaN.
    return reward + next_state_value.masked_fill(terminated, 0) * gamma


def _over_time(increment: Tensor, factor: Tensor, time_dim: int) -> Tensor:
    rows, factor = (value.transpose(time_dim, -1) for value in torch.broadcast_tensors(increment, factor))
    return reverse_scan(rows, factor.to(rows.dtype)).transpose(time_dim, -1)


def _with_gamma_of_the_start(
    gamma: Any, lmbda: Any, value: Tensor, reward: Tensor, done: Tensor, terminated: Tensor, time_dim: int
) -> Tensor:
    """Compute the return of each start with its own discount."""
    if not isinstance(gamma, Tensor) or gamma.shape != reward.shape:
        shape = list(gamma.shape) if isinstance(gamma, Tensor) else gamma
        raise ValueError(
            f"rolling_gamma=False takes the discount of a return from the step where it starts, so gamma must be a "
            f"tensor of shape {list(reward.shape)}, and got {shape}. Fix: leave rolling_gamma out."
        )
    length, starts = reward.shape[time_dim], []
    for t in range(length):
        n, r, d, end = (x.narrow(time_dim, t, length - t) for x in (value, reward, done, terminated))
        own = gamma.narrow(time_dim, t, 1).expand_as(r)
        part = lmbda.narrow(time_dim, t, length - t) if isinstance(lmbda, Tensor) and lmbda.ndim else lmbda
        returns = td_lambda_return_estimate(own, part, n, r, d, end, time_dim=time_dim)
        starts.append(returns.narrow(time_dim, 0, 1))
    return torch.cat(starts, time_dim)


def _flags(done: Tensor, terminated: Tensor | None) -> tuple[Tensor, Tensor]:
    """Both flags; a terminated step ends its trajectory even where done does not say so."""
    if terminated is None:
        return done.bool(), done.bool()
    if terminated.shape != done.shape:
        raise ValueError(different_shapes({"done": done, "terminated": terminated}))
    return done.bool() | terminated.bool(), terminated.bool()


def _check(gamma: float | Tensor, lmbda: float | Tensor = 1.0, **tensors: Tensor) -> None:
    check_discount("gamma", gamma)
    check_discount("lmbda", lmbda)
    if len({value.shape for value in tensors.values()}) > 1:
        raise ValueError(different_shapes(tensors))


def different_shapes(tensors: dict[str, Tensor]) -> str:
    """Text for tensors of different shapes.

    Example:
        >>> different_shapes({"reward": torch.ones(2, 1), "done": torch.ones(2)}).split(", and got ")[1].split(".")[0]
        'reward [2, 1], done [2]'
    """
    found = ", ".join(f"{name} {list(value.shape)}" for name, value in tensors.items())
    return (
        f"Values, rewards and flags must have the same shape [*batch, time, *features], and got {found}. "
        "A last dimension of 1 is often missing in one of them. Fix: value.unsqueeze(-1)."
    )


def check_discount(name: str, value: float | Tensor) -> None:
    """Raise a ``ValueError`` if a discount is not in [0, 1].

    Tensors that are on an accelerator are not looked at, since that would wait for it.

    Example:
        >>> check_discount("gamma", 0.99)
    """
    if isinstance(value, Tensor):
        if value.device.type != "cpu" or not value.numel():
            return
        value = value.detach()
        low, high = (float(x) for x in (value.aminmax() if value.ndim else (value, value)))
    else:
        low = high = float(value)
    if not (low >= 0 and high <= 1):
        got = low if not low >= 0 else high
        why = "With more than 1, the later a reward comes the more it would count. " if got > 1 else ""
        usual = 0.95 if name == "lmbda" else 0.99
        raise ValueError(f"{name} must be in [0, 1], and got {got:g}. {why}Fix: {name}={usual}.")
