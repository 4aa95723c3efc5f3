"""Helpers of losses: target network updates, distances, held-out networks, and the kinds of value estimators."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import Any, Protocol

import torch
from torch import nn

from rlnb.objectives.errors import unknown_choice
from rlnb.objectives.value.advantages import GAE, TD0Estimator, TD1Estimator, TDLambdaEstimator, ValueEstimatorBase

Tensor = torch.Tensor


class ValueEstimators(Enum):
    """The kinds of value estimators that ``loss.make_value_estimator`` takes.

    Example:
        >>> ValueEstimators.GAE.value
        'Generalized advantage estimate'
    """

    TD0 = "Bootstrapped TD (1-step return)"
    TD1 = "TD(1) (infinity-step return)"
    TDLambda = "TD(lambda)"
    GAE = "Generalized advantage estimate"


_ESTIMATORS: dict[ValueEstimators, type[ValueEstimatorBase]] = {
    ValueEstimators.TD0: TD0Estimator,
    ValueEstimators.TD1: TD1Estimator,
    ValueEstimators.TDLambda: TDLambdaEstimator,
    ValueEstimators.GAE: GAE,
}


def default_value_kwargs(value_type: ValueEstimators) -> dict[str, Any]:
    """Return the discounts that a value estimator of a loss has by default.

    Example:
        >>> default_value_kwargs(ValueEstimators.GAE)
        {'gamma': 0.99, 'lmbda': 0.95, 'differentiable': True}
    """
    lmbda = {"lmbda": 0.95} if value_type in (ValueEstimators.GAE, ValueEstimators.TDLambda) else {}
    return {"gamma": 0.99, **lmbda, "differentiable": True}


def build_value_estimator(
    value_type: ValueEstimators | str | type[ValueEstimatorBase], network: Any, **hyperparams: Any
) -> ValueEstimatorBase:
    """Make the value estimator of a loss.

    Args:
        value_type: a member of :class:`ValueEstimators`, its name, or a class of estimators.
        network: the value network, or None.
        hyperparams: arguments of the estimator; the discounts have defaults.

    Raises:
        TypeError: If ``value_type`` is something else.
        ValueError: If there is no such kind.

    Example:
        >>> build_value_estimator("TD0", None, gamma=0.5).gamma
        tensor(0.5000)
    """
    if isinstance(value_type, str):
        if value_type not in ValueEstimators.__members__:
            raise ValueError(unknown_choice("The value estimator", value_type, ValueEstimators.__members__))
        value_type = ValueEstimators[value_type]
    if isinstance(value_type, ValueEstimators):
        kind, defaults = _ESTIMATORS[value_type], default_value_kwargs(value_type)
    elif not (isinstance(value_type, type) and issubclass(value_type, ValueEstimatorBase)):
        raise TypeError(
            f"A value estimator is chosen by a member of ValueEstimators, its name, a class or an estimator, and got a "
            f"{type(value_type).__name__}. Fix: loss.make_value_estimator(ValueEstimators.TD0, gamma=0.99)."
        )
    else:
        kind = value_type
        defaults = next((default_value_kwargs(name) for name, known in _ESTIMATORS.items() if known is kind), {})
    # A loss decides by itself where gradients stop.
    return kind(**{**defaults, "differentiable": False, "value_network": network, **hyperparams})


_DISTANCES = {
    "l1": nn.functional.l1_loss,
    "l2": nn.functional.mse_loss,
    "smooth_l1": nn.functional.smooth_l1_loss,
}


def distance_loss(
    v1: Tensor, v2: Tensor, loss_function: str, strict_shape: bool = True, *, reduction: str = "none"
) -> Tensor:
    """Compute the distance of each number of two tensors.

    Args:
        v1: a tensor.
        v2: a tensor of the same shape.
        loss_function: ``"l1"`` for the absolute difference d, ``"l2"`` for its square, ``"smooth_l1"`` for d²/2 below 1
            and d - 1/2 above.
        strict_shape: whether different shapes are refused instead of being broadcast.
        reduction: ``"none"``, or ``"mean"`` or ``"sum"`` over all numbers.

    Returns:
        The distances, or their mean or sum.

    Raises:
        ValueError: If shapes differ, or the function is unknown.

    Example:
        >>> distance_loss(torch.tensor([3.0, 0.5]), torch.zeros(2), "smooth_l1")
        tensor([2.5000, 0.1250])
    """
    check_distance(loss_function)
    if v1.shape != v2.shape:
        if strict_shape:
            raise ValueError(
                f"A loss compares tensors of one shape, and got {list(v1.shape)} and {list(v2.shape)}, which would be "
                "broadcast against each other. Fix: prediction.squeeze(-1) or target.unsqueeze(-1), where a last "
                "dimension of 1 is the difference."
            )
        v1, v2 = torch.broadcast_tensors(v1, v2)
    return _DISTANCES[loss_function](v1, v2, reduction=reduction)


def check_distance(loss_function: str) -> None:
    """Raise a ``ValueError`` if :func:`distance_loss` does not know a function.

    Example:
        >>> check_distance("l2")
    """
    if loss_function not in _DISTANCES:
        raise ValueError(unknown_choice("The loss function", loss_function, _DISTANCES))


@contextmanager
def hold_out_net(network: nn.Module) -> Iterator[None]:
    """Keep the parameters of a network out of the graph: gradients flow through it, and none reaches them.

    Args:
        network: the network. What required gradients before does so again after the block.

    Example:
        >>> net = nn.Linear(2, 1)
        >>> with hold_out_net(net):
        ...     net(torch.ones(2, requires_grad=True)).backward()
        >>> net.weight.grad is None, net.weight.requires_grad
        (True, True)
    """
    parameters = [value for value in network.parameters() if value.requires_grad]
    for value in parameters:
        value.requires_grad_(False)
    try:
        yield
    finally:
        for value in parameters:
            value.requires_grad_(True)


@contextmanager
def hold_out_params(params: Iterable[Tensor]) -> Iterator[tuple[Tensor, ...]]:
    """Give parameters without their gradients, as a tuple.

    Example:
        >>> with hold_out_params(nn.Linear(2, 1).parameters()) as params:
        ...     [value.requires_grad for value in params]
        [False, False]
    """
    yield tuple(value.detach() for value in params)


def group_optimizers(*optimizers: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Make one optimizer of several, each of whose parameter groups keeps its options, such as the learning rate.

    Args:
        optimizers: optimizers of one class, no parameter in two of them. They are not changed, and what they remember
            of earlier steps is copied into the new one.

    Returns:
        The optimizer of all their parameters.

    Raises:
        TypeError: If something else is given.
        ValueError: If nothing is given, or the optimizers are of different classes or share a parameter.

    Example:
        >>> actor, critic = nn.Linear(4, 2), nn.Linear(4, 1)
        >>> slow, fast = torch.optim.Adam(actor.parameters(), lr=3e-4), torch.optim.Adam(critic.parameters(), lr=1e-3)
        >>> [group["lr"] for group in group_optimizers(slow, fast).param_groups]
        [0.0003, 0.001]
    """
    kinds = {type(optimizer): None for optimizer in optimizers}
    wrong = next((kind.__name__ for kind in kinds if not issubclass(kind, torch.optim.Optimizer)), None)
    if wrong is not None:
        raise TypeError(
            f"group_optimizers takes optimizers, and got a {wrong}. "
            "Fix: group_optimizers(torch.optim.Adam(actor.parameters()), torch.optim.Adam(critic.parameters()))."
        )
    if len(kinds) != 1:
        found = " and ".join(kind.__name__ for kind in kinds) or "none"
        raise ValueError(
            f"group_optimizers takes optimizers of one class, and got {found}. "
            "Fix: make them of one class, or call step and zero_grad of each."
        )
    owners = [id(value) for optimizer in optimizers for group in optimizer.param_groups for value in group["params"]]
    if len(set(owners)) < len(owners):
        raise ValueError(
            "A parameter is in two of the optimizers, and would be updated twice in a step. "
            "Fix: leave it out of one of them."
        )
    kind: Any = type(optimizers[0])
    grouped: torch.optim.Optimizer = kind([dict(group) for each in optimizers for group in each.param_groups])
    for optimizer in optimizers:
        grouped.state.update(copy.deepcopy(optimizer.state, {id(value): value for value in optimizer.state}))
    return grouped


class _Targets(Protocol):
    def target_pairs(self) -> list[tuple[list[Tensor], list[Tensor]]]:
        """Pairs of the tensors of a network and of its target."""


class TargetNetUpdater:
    """Base class of what moves the target networks of a loss towards its networks.

    Args:
        loss_module: a loss with target networks, such as ``DQNLoss(..., delay_value=True)``.

    Raises:
        ValueError: If the loss has no target network.

    Example:
        >>> from tensordict.nn import TensorDictModule
        >>> from rlnb.objectives import DQNLoss
        >>> class Halfway(TargetNetUpdater):
        ...     def step(self):
        ...         self._move(0.5)
        >>> net = TensorDictModule(nn.Linear(3, 2), ["observation"], ["action_value"])
        >>> loss = DQNLoss(net, action_space="categorical")
        >>> Halfway(loss).step()
    """

    def __init__(self, loss_module: _Targets) -> None:
        if not loss_module.target_pairs():
            name = type(loss_module).__name__
            raise ValueError(
                f"This {name} has no target network to update. Fix: {name}(..., delay_value=True), or delay_qvalue or "
                "delay_actor where it has them."
            )
        self.loss_module, self.initialized = loss_module, True

    def init_(self) -> None:
        """Copy the networks to their targets."""
        self._move(1.0)

    def step(self) -> None:
        """Update the targets; call it after each step of the optimizer."""
        raise NotImplementedError

    @torch.no_grad()
    def _move(self, share: float) -> None:
        for sources, targets in self.loss_module.target_pairs():
            numbers = [pair for pair in zip(sources, targets, strict=True) if pair[1].is_floating_point()]
            if share < 1 and numbers:
                torch._foreach_lerp_([target for _, target in numbers], [source for source, _ in numbers], share)
            else:
                for source, target in numbers:
                    target.copy_(source)
            for source, target in zip(sources, targets, strict=True):
                if not target.is_floating_point():
                    target.copy_(source)

    def state_dict(self) -> dict[str, Any]:
        """Return what ``load_state_dict`` restores; target networks are part of the loss."""
        return {name: value for name, value in vars(self).items() if name != "loss_module"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore a state of ``state_dict``."""
        vars(self).update(state_dict)

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value}" for name, value in vars(self).items() if name != "loss_module")
        return f"{type(self).__name__}({type(self.loss_module).__name__}, {given})"


class SoftUpdate(TargetNetUpdater):
    r"""Move the targets a small share of the way: :math:`\theta' \leftarrow \tau \theta + (1 - \tau) \theta'`.

    Lillicrap et al., Continuous Control with Deep Reinforcement Learning, 2016 (arXiv:1509.02971), algorithm 1.

    Args:
        loss_module: a loss with target networks.
        eps: the share of the target that stays, :math:`1 - \tau`.
        tau: the share of the network that is taken. Exactly one of the two is needed.

    Raises:
        ValueError: If both or none of ``eps`` and ``tau`` are given, one is not in [0, 1], or there is no target.

    Example:
        >>> from tensordict.nn import TensorDictModule
        >>> from rlnb.objectives import DQNLoss
        >>> net = TensorDictModule(nn.Linear(3, 2), ["observation"], ["action_value"])
        >>> loss = DQNLoss(net, action_space="categorical")
        >>> updater = SoftUpdate(loss, tau=0.005)
        >>> updater.step()
    """

    def __init__(self, loss_module: _Targets, *, eps: float | None = None, tau: float | None = None) -> None:
        super().__init__(loss_module)
        if (eps is None) == (tau is None):
            got = "neither" if eps is None else "both"
            raise ValueError(f"SoftUpdate needs one of eps and tau = 1 - eps, and got {got}. Fix: tau=0.005.")
        share = tau if tau is not None else 1 - eps  # type: ignore[operator]  # one of the two is given
        if not 0 <= share <= 1:
            name, value = ("tau", tau) if tau is not None else ("eps", eps)
            raise ValueError(f"{name} must be in [0, 1], and got {value}. Fix: tau=0.005, or eps=0.995.")
        self.eps = 1 - share

    @property
    def tau(self) -> float:
        """The share of the network that is taken."""
        return 1 - self.eps

    def step(self) -> None:
        """Move the targets; call it after each step of the optimizer."""
        self._move(1 - self.eps)


class HardUpdate(TargetNetUpdater):
    """Copy the networks to their targets every few steps.

    Mnih et al., Human-level Control through Deep Reinforcement Learning, 2015, algorithm 1.

    Args:
        loss_module: a loss with target networks.
        value_network_update_interval: number of steps from one copy to the next.

    Raises:
        ValueError: If the interval is smaller than 1, or there is no target.

    Example:
        >>> from tensordict.nn import TensorDictModule
        >>> from rlnb.objectives import DQNLoss
        >>> net = TensorDictModule(nn.Linear(3, 2), ["observation"], ["action_value"])
        >>> updater = HardUpdate(DQNLoss(net, action_space="categorical"), value_network_update_interval=100)
        >>> updater.step()
        >>> updater.counter
        1
    """

    def __init__(self, loss_module: _Targets, *, value_network_update_interval: float = 1000) -> None:
        super().__init__(loss_module)
        if not value_network_update_interval >= 1:
            raise ValueError(
                f"value_network_update_interval must be at least 1, and got {value_network_update_interval}. "
                "Fix: value_network_update_interval=1000."
            )
        self.value_network_update_interval, self.counter = value_network_update_interval, 0

    def step(self) -> None:
        """Count a step, and copy when the interval is over; call it after each step of the optimizer."""
        self.counter += 1
        if self.counter >= self.value_network_update_interval:
            self._move(1.0)
            self.counter = 0
