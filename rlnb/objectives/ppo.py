"""Proximal policy optimization: the importance-weighted loss, its clipped form, and the one with a KL penalty."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from tensordict import TensorDictBase
from tensordict.nn import CompositeDistribution

from rlnb.data.ted.keys import NestedKey
from rlnb.objectives.actor_critic import ActorCriticLoss, networks_of
from rlnb.objectives.common import unique
from rlnb.objectives.errors import missing_entry, unknown_argument
from rlnb.objectives.keywords import dispatch
from rlnb.objectives.policies import as_list

Tensor = torch.Tensor


class PPOLoss(ActorCriticLoss):
    r"""The importance-weighted policy gradient, without a bound on the change of the policy.

    .. math::
        L = -\hat{E}_t\left[r_t(\theta) \hat{A}_t\right] + c_1 \, d(V(s_t), \hat{V}_t) - c_2 \, H(\pi_\theta(s_t)),
        \qquad r_t(\theta) = \frac{\pi_\theta(a_t | s_t)}{\pi_{old}(a_t | s_t)}

    Schulman et al., Proximal Policy Optimization Algorithms, 2017 (arXiv:1707.06347), equations 6 and 9. The terms are
    "loss_objective", "loss_critic" and "loss_entropy", to be added up, each with its coefficient in it; "entropy",
    "kl_approx" (the mean of :math:`-\log r_t`) and "explained_variance" are for logs, and so is "composite_entropy", a
    TensorDict of the entropies of the parts of a composite action (see ``CompositeDistribution`` in tensordict).

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        critic_network: writes the value of a state. None: the critic is not trained here.
        entropy_bonus: whether there is a "loss_entropy".
        samples_mc_entropy: number of samples of an entropy without a formula.
        entropy_coeff: c_2. Default: 0.01. With a composite action also a dictionary of one number for each part, by the
            key of its entropy, such as ``("action", "steering_entropy")``.
        log_explained_variance: whether there is an "explained_variance".
        critic_coeff: c_1. Default: 1.
        loss_critic_type: d: ``"l1"``, ``"l2"`` or ``"smooth_l1"``.
        normalize_advantage: whether the advantages of a batch get mean 0 and standard deviation 1.
        normalize_advantage_exclude_dims: dimensions over which they are not joined for that.
        gamma: the discount of the value estimator of the loss.
        separate_losses: whether parameters that policy and critic share learn from the policy's loss alone.
        functional: accepted as in TorchRL.
        actor: an older name of ``actor_network``.
        critic: an older name of ``critic_network``.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
        clip_value: largest change of a value away from the one in the data that still lowers the loss.
        device: device of the coefficients.

    Raises:
        TypeError: If the policy has no ``get_dist``, or is deterministic.
        KeyError: If the data lacks an entry; the message says which module writes it.
        ValueError: If an argument or a shape does not fit.
        FloatingPointError: If a term is not finite.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
        >>> actor = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(nn.Linear(3, 2), ["observation"], ["logits"]),
        ...     ProbabilisticTensorDictModule(
        ...         ["logits"], ["action"], distribution_class=torch.distributions.Categorical, return_log_prob=True
        ...     ),
        ... )
        >>> critic = TensorDictModule(nn.Linear(3, 1), ["observation"], ["state_value"])
        >>> data = actor(TensorDict({"observation": torch.ones(5, 3)}, [5]))
        >>> data = data.update({"advantage": torch.ones(5, 1), "value_target": torch.zeros(5, 1)}).detach()
        >>> terms = PPOLoss(actor, critic)(data)
        >>> sorted(terms.keys())
        ['entropy', 'explained_variance', 'kl_approx', 'loss_critic', 'loss_entropy', 'loss_objective']
        >>> round(terms["loss_objective"].item(), 4)
        -1.0
    """

    def __init__(
        self,
        actor_network: Any = None,
        critic_network: Any = None,
        *,
        entropy_bonus: bool = True,
        samples_mc_entropy: int = 1,
        entropy_coeff: float | Mapping[NestedKey, float] | None = None,
        log_explained_variance: bool = True,
        critic_coeff: float | None = None,
        loss_critic_type: str = "smooth_l1",
        normalize_advantage: bool = False,
        normalize_advantage_exclude_dims: Sequence[int] = (),
        gamma: float | None = None,
        separate_losses: bool = False,
        functional: bool = True,
        actor: Any = None,
        critic: Any = None,
        reduction: str | None = None,
        clip_value: float | None = None,
        device: Any = None,
        **unknown: Any,
    ) -> None:
        for name in unknown:
            raise TypeError(unknown_argument(self, name))
        actor_network, critic_network = networks_of(self, actor_network, critic_network, actor, critic)
        super().__init__(
            actor_network,
            critic_network,
            loss_critic_type=loss_critic_type,
            separate_losses=separate_losses,
            clip_value=clip_value,
            gamma=gamma,
            reduction=reduction,
        )
        self.entropy_bonus, self.samples_mc_entropy = entropy_bonus, samples_mc_entropy
        self.log_explained_variance = log_explained_variance
        self.normalize_advantage = normalize_advantage
        self.normalize_advantage_exclude_dims = tuple(normalize_advantage_exclude_dims)
        self._coefficient("entropy_coeff", 0.01 if entropy_coeff is None else entropy_coeff)
        if critic_network is not None:
            self._coefficient("critic_coeff", 1.0 if critic_coeff is None else critic_coeff)
        if device is not None:
            for buffer in self._buffers.values():
                buffer.data = buffer.data.to(device)  # type: ignore[union-attr]  # all of them are set

    def _default_out_keys(self) -> list[NestedKey]:
        entropy = ["entropy", "loss_entropy"] if self.entropy_bonus else []
        critic = ["loss_critic"] if self.critic_network is not None else []
        critic += ["value_clip_fraction"] if critic and self._value_clip() is not None else []
        return [*self._first_out_keys(), *entropy, *critic, *self._last_out_keys()]

    def _first_out_keys(self) -> list[str]:
        return ["loss_objective"]

    def _last_out_keys(self) -> list[str]:
        return []

    def _more_in_keys(self) -> Sequence[NestedKey]:
        return as_list(self.tensor_keys.sample_log_prob)

    @dispatch
    def forward(self, tensordict: TensorDictBase) -> TensorDictBase:
        """Compute the terms of steps ``[*B]``, which need "action", "action_log_prob", "advantage", "value_target"."""
        data = self._with_advantage(tensordict)
        self._get(data, "sample_log_prob")  # asked for while the data is as it was given
        before = self._before(data)
        log_prob, distribution = self._log_prob(data)
        log_weight = log_prob - self._old_log_prob(data, log_prob)
        advantage = self._normalized(self._advantage(data, log_prob)).squeeze(-1)
        terms = self._objective(log_weight, advantage, distribution, before, data)
        if self.entropy_bonus:
            terms.update(self._entropy_terms(distribution, data))
        if self.critic_network is not None:
            loss, logs = self._critic_terms(data, self._value_clip(), explained=self.log_explained_variance)
            terms["loss_critic"] = self.critic_coeff * loss
            terms.update(logs)
        return self._terms(terms)

    def _before(self, data: TensorDictBase) -> Any:
        """Read what the policy overwrites in the data."""
        return None

    def _objective(
        self, log_weight: Tensor, advantage: Tensor, distribution: Any, before: Any, data: TensorDictBase
    ) -> dict[str, Tensor]:
        """Compute "loss_objective", and other terms, from the log of the ratio and the advantage, both ``[*B]``."""
        loss = -self._reduce(log_weight.exp() * advantage, data)
        return {"loss_objective": loss, "kl_approx": -log_weight.detach().mean()}

    def _normalized(self, advantage: Tensor) -> Tensor:
        if not self.normalize_advantage or advantage.numel() < 2:
            return advantage
        if not self.normalize_advantage_exclude_dims:
            deviation, mean = torch.std_mean(advantage)
            return (advantage - mean) / deviation.clamp_min(1e-6)
        kept = [dim % advantage.ndim for dim in self.normalize_advantage_exclude_dims]
        dims = [dim for dim in range(advantage.ndim) if dim not in kept]
        return (advantage - advantage.mean(dims, keepdim=True)) / advantage.std(dims, keepdim=True).clamp_min(1e-6)

    def _value_clip(self) -> Tensor | float | None:
        return self.clip_value


class ClipPPOLoss(PPOLoss):
    r"""The clipped loss of PPO: a ratio that has left :math:`[1 - \epsilon, 1 + \epsilon]` gains nothing any more.

    .. math::
        L = -\hat{E}_t\left[\min\left(r_t(\theta) \hat{A}_t,
        \mathrm{clip}(r_t(\theta), 1 - \epsilon, 1 + \epsilon) \hat{A}_t\right)\right]
        + c_1 \, d(V(s_t), \hat{V}_t) - c_2 \, H(\pi_\theta(s_t))

    Schulman et al., Proximal Policy Optimization Algorithms, 2017 (arXiv:1707.06347), equations 7 and 9. Besides the
    terms of :class:`PPOLoss` there are, for logs, "clip_fraction" (the share of steps whose ratio is clipped), "ESS"
    (the effective sample size as a share of the batch, :math:`(\sum r_t)^2 / (n \sum r_t^2)`), "max_ratio" and
    "mean_ratio".

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        critic_network: writes the value of a state. None: the critic is not trained here.
        clip_epsilon: :math:`\epsilon`; a pair is for below and above 1.
        clip_value: as in :class:`PPOLoss`; True takes ``clip_epsilon``.
        kwargs: the other arguments of :class:`PPOLoss`.

    Raises:
        ValueError: If ``clip_epsilon`` is not in (0, 1), or one of the errors of :class:`PPOLoss`.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
        >>> actor = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(nn.Linear(3, 2), ["observation"], ["logits"]),
        ...     ProbabilisticTensorDictModule(
        ...         ["logits"], ["action"], distribution_class=torch.distributions.Categorical, return_log_prob=True
        ...     ),
        ... )
        >>> critic = TensorDictModule(nn.Linear(3, 1), ["observation"], ["state_value"])
        >>> data = actor(TensorDict({"observation": torch.ones(5, 3)}, [5]))
        >>> data = data.update({"advantage": torch.ones(5, 1), "value_target": torch.zeros(5, 1)}).detach()
        >>> loss = ClipPPOLoss(actor, critic, clip_epsilon=0.2)
        >>> terms = loss(data)
        >>> (terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]).backward()
        >>> terms["clip_fraction"].item(), round(terms["ESS"].item(), 3)
        (0.0, 1.0)
    """

    def __init__(
        self,
        actor_network: Any = None,
        critic_network: Any = None,
        *,
        clip_epsilon: float | tuple[float, float] = 0.2,
        clip_value: bool | float | None = None,
        **kwargs: Any,
    ) -> None:
        low, high = clip_epsilon if isinstance(clip_epsilon, (tuple, list)) else (clip_epsilon, clip_epsilon)
        if not (0 < low < 1 and high > 0):
            raise ValueError(
                f"clip_epsilon must be in (0, 1), or a pair of them for below and above 1, and got {clip_epsilon}. "
                "Fix: clip_epsilon=0.2."
            )
        pair = isinstance(clip_epsilon, (tuple, list))
        if clip_value is True and pair:
            raise ValueError("clip_value=True takes clip_epsilon, which is a pair here. Fix: clip_value=0.2.")
        value = None if clip_value is None or isinstance(clip_value, bool) else clip_value
        super().__init__(actor_network, critic_network, clip_value=value, **kwargs)
        self._clips_value_by_epsilon = clip_value is True
        device = kwargs.get("device")
        named = (("clip_epsilon_low", low), ("clip_epsilon_high", high)) if pair else (("clip_epsilon", low),)
        for name, number in named:
            self.register_buffer(name, torch.tensor(float(number), device=device))
        self._pair = pair

    def _first_out_keys(self) -> list[str]:
        return ["loss_objective", "clip_fraction"]

    def _last_out_keys(self) -> list[str]:
        return ["ESS", "kl_approx", "max_ratio", "mean_ratio"]

    def _bounds(self) -> tuple[float, float]:
        """Return the least and the greatest ratio that are not clipped."""
        if self._pair:
            return 1 - float(self.clip_epsilon_low), 1 + float(self.clip_epsilon_high)
        epsilon = float(self.clip_epsilon)
        return 1 - epsilon, 1 + epsilon

    def _objective(
        self, log_weight: Tensor, advantage: Tensor, distribution: Any, before: Any, data: TensorDictBase
    ) -> dict[str, Tensor]:
        low, high = self._bounds()
        ratio = log_weight.exp()
        clipped = ratio.clamp(low, high)
        gain = torch.min(ratio * advantage, clipped * advantage)
        with torch.no_grad():
            largest = log_weight.max()
            shares = (log_weight - largest).exp()  # of the largest ratio, so that no square is too large
            columns = (-log_weight, ratio, ratio != clipped, shares, shares.square())
            # One mean of all: a reduction takes longer than what is reduced.
            kl, mean, fraction, share, square = torch.stack(columns).reshape(len(columns), -1).mean(1).unbind()
            logs = {"clip_fraction": fraction, "ESS": share.square() / square, "kl_approx": kl}
            logs |= {"max_ratio": largest.exp(), "mean_ratio": mean}
        return {"loss_objective": -self._reduce(gain, data), **logs}

    def _value_clip(self) -> Tensor | float | None:
        return self.clip_epsilon if self._clips_value_by_epsilon else self.clip_value


class KLPENPPOLoss(PPOLoss):
    r"""The loss of PPO with a penalty for leaving the old policy, whose weight adapts itself.

    .. math::
        L = -\hat{E}_t\left[r_t(\theta) \hat{A}_t - \beta \, KL(\pi_{old}(s_t), \pi_\theta(s_t))\right]
        + c_1 \, d(V(s_t), \hat{V}_t) - c_2 \, H(\pi_\theta(s_t))

    After each call, :math:`\beta` is multiplied by ``increment`` if the mean of KL is above 1.5 ``dtarg``, and by
    ``decrement`` if it is below ``dtarg`` / 1.5. Schulman et al., Proximal Policy Optimization Algorithms, 2017
    (arXiv:1707.06347), equation 8 and section 4. The data must have the parameters of the old policy's distribution,
    such as "loc" and "scale". Besides the terms of :class:`PPOLoss` there is "kl", ``[*B, 1]``, for logs.

    Args:
        actor_network: the policy, with ``get_dist``, such as ``ProbabilisticActor``.
        critic_network: writes the value of a state. None: the critic is not trained here.
        dtarg: the KL divergence to aim at.
        beta: the first :math:`\beta`.
        increment: at least 1.
        decrement: at most 1.
        samples_mc_kl: number of samples of a divergence without a formula.
        kwargs: the other arguments of :class:`PPOLoss`.

    Raises:
        ValueError: If ``increment`` is below 1 or ``decrement`` above, or one of the errors of :class:`PPOLoss`.

    Example:
        >>> import torch
        >>> from torch import nn
        >>> from tensordict import TensorDict
        >>> from tensordict.nn import ProbabilisticTensorDictModule, ProbabilisticTensorDictSequential, TensorDictModule
        >>> actor = ProbabilisticTensorDictSequential(
        ...     TensorDictModule(nn.Linear(3, 2), ["observation"], ["logits"]),
        ...     ProbabilisticTensorDictModule(
        ...         ["logits"], ["action"], distribution_class=torch.distributions.Categorical, return_log_prob=True
        ...     ),
        ... )
        >>> critic = TensorDictModule(nn.Linear(3, 1), ["observation"], ["state_value"])
        >>> data = actor(TensorDict({"observation": torch.ones(5, 3)}, [5]))
        >>> data = data.update({"advantage": torch.ones(5, 1), "value_target": torch.zeros(5, 1)}).detach()
        >>> loss = KLPENPPOLoss(actor, critic)
        >>> _ = loss(data)
        >>> loss.beta  # the policy has not changed
        tensor(0.5000)
    """

    def __init__(
        self,
        actor_network: Any = None,
        critic_network: Any = None,
        *,
        dtarg: float = 0.01,
        beta: float = 1.0,
        increment: float = 2,
        decrement: float = 0.5,
        samples_mc_kl: int = 1,
        **kwargs: Any,
    ) -> None:
        if not (increment >= 1 >= decrement):
            raise ValueError(
                f"increment must be at least 1 and decrement at most 1, and got {increment} and {decrement}. "
                "Fix: increment=2, decrement=0.5."
            )
        super().__init__(actor_network, critic_network, **kwargs)
        self.dtarg, self.increment, self.decrement, self.samples_mc_kl = dtarg, increment, decrement, samples_mc_kl
        self._beta_init = beta
        self.register_buffer("beta", torch.tensor(float(beta), device=kwargs.get("device")))

    def reset(self) -> None:
        """Set beta back to its first value."""
        self.beta = self._beta_init

    def _first_out_keys(self) -> list[str]:
        return ["loss_objective", "kl"]

    def _more_in_keys(self) -> Sequence[NestedKey]:
        return unique([*super()._more_in_keys(), *self._parameter_keys()])

    def _parameter_keys(self) -> list[NestedKey]:
        """The entries that the distribution is made of."""
        return list(self.actor_network[-1].in_keys)

    def _before(self, data: TensorDictBase) -> Any:
        for key in self._parameter_keys():
            if data.get(key, None) is None:
                raise KeyError(missing_entry(self, key, "parameters", data))
        return self.actor_network.build_dist_from_params(data.select(*self._parameter_keys()).detach())

    def _objective(
        self, log_weight: Tensor, advantage: Tensor, distribution: Any, before: Any, data: TensorDictBase
    ) -> dict[str, Tensor]:
        kl = self._divergence(before, distribution)
        beta: Any = self.beta
        loss = -(log_weight.exp() * advantage) + beta.clone() * kl
        mean = float(kl.detach().mean())
        if math.isfinite(mean):
            self.beta = float(beta) * (
                self.increment if mean > 1.5 * self.dtarg else self.decrement if mean < self.dtarg / 1.5 else 1
            )
        approximate = -log_weight.detach().mean()
        return {"loss_objective": self._reduce(loss, data), "kl": kl.detach().unsqueeze(-1), "kl_approx": approximate}

    def _divergence(self, old: Any, new: Any) -> Tensor:
        if isinstance(old, CompositeDistribution):  # its parts are independent
            parts = [self._divergence(part, new.dists[name]) for name, part in old.dists.items()]
            return torch.stack(parts).sum(0)
        try:
            return torch.distributions.kl_divergence(old, new)
        except NotImplementedError:
            sample = old.sample((self.samples_mc_kl,))
            return (old.log_prob(sample) - new.log_prob(sample)).mean(0)
