"""Categorical distributions of actions, as indices or one-hot vectors, with or without a mask of the legal ones."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributions import Categorical as TorchCategorical
from torch.distributions import RelaxedOneHotCategorical, constraints
from torch.distributions.utils import lazy_property, logits_to_probs, probs_to_logits


class ReparamGradientStrategy(enum.Enum):
    """Gradient estimators for one-hot samples. Both are biased, since sampling has no gradient.

    - ``PassThrough``: from the probabilities (Bengio et al. 2013, https://arxiv.org/abs/1308.3432, section 4).
    - ``RelaxedOneHot``: from a relaxed sample at temperature 1 (Jang et al. 2017, https://arxiv.org/abs/1611.01144).

    Example:
        >>> logits = torch.zeros(3, requires_grad=True)
        >>> mask, method = torch.tensor([True, True, False]), ReparamGradientStrategy.RelaxedOneHot
        >>> dist = MaskedOneHotCategorical(logits, mask=mask, grad_method=method)
        >>> dist.rsample().requires_grad
        True
    """

    PassThrough = 1
    RelaxedOneHot = 2


class OneHotCategorical(TorchCategorical):
    """A categorical distribution whose samples are one-hot vectors.

    Args:
        logits: log-probabilities up to a constant, ``[*batch, n]``. Give either these or ``probs``.
        probs: probabilities up to a factor, ``[*batch, n]``.
        grad_method: gradient estimator of :meth:`rsample`.
        validate_args: whether to validate the parameters. None: torch's default.

    Raises:
        ValueError: If not exactly one of ``logits`` and ``probs`` is given, or its values are invalid, such as NaN.

    Example:
        >>> dist = OneHotCategorical(probs=torch.tensor([0.1, 0.6, 0.3]))
        >>> dist.mode
        tensor([0, 1, 0])
        >>> dist.log_prob(torch.eye(3))
        tensor([-2.3026, -0.5108, -1.2040])
        >>> dist.sample((5,)).shape
        torch.Size([5, 3])
    """

    num_params = 1

    _param: torch.Tensor
    _num_events: int

    def __init__(
        self,
        logits: torch.Tensor | None = None,
        probs: torch.Tensor | None = None,
        grad_method: ReparamGradientStrategy = ReparamGradientStrategy.PassThrough,
        validate_args: bool | None = None,
    ) -> None:
        if (logits is None) == (probs is None):
            raise ValueError(
                f"{type(self).__name__} takes logits or probs, got {'neither' if logits is None else 'both'}. "
                "In a policy, check that in_keys=['logits'] is what the network writes."
            )
        self.grad_method = ReparamGradientStrategy(grad_method)
        super().__init__(probs=probs, logits=logits, validate_args=validate_args)
        self._event_shape = self._param.shape[-1:]

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """One-hot vectors."""
        return constraints.one_hot

    @property
    def mode(self) -> torch.Tensor:
        """The most likely action, the first one among equals, one-hot int64 ``[*batch, n]``."""
        return self._one_hot(self._param.argmax(-1))

    @property
    def deterministic_sample(self) -> torch.Tensor:
        """The mode."""
        return self.mode

    @property
    def mean(self) -> torch.Tensor:
        """The probabilities, ``[*batch, n]``."""
        return self.probs

    @property
    def variance(self) -> torch.Tensor:
        """The variance of each component, ``[*batch, n]``."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> torch.Tensor:
        """Draw actions as one-hot int64 ``[*sample_shape, *batch, n]``."""
        size = torch.Size(sample_shape or ())
        drawn = torch.multinomial(self.probs.detach().reshape(-1, self._num_events), size.numel(), replacement=True)
        return self._one_hot(drawn.T.reshape(size + self.batch_shape))

    def rsample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> torch.Tensor:
        """Draw actions that carry a gradient, estimated by ``grad_method``.

        ``has_rsample`` is False nevertheless, so that policies draw with :meth:`sample`: envs need integers.

        Returns:
            One-hot vectors with the dtype of the probabilities, ``[*sample_shape, *batch, n]``.
        """
        return _with_gradient(self, self.grad_method, self.logits, torch.Size(sample_shape or ()))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of actions, ``[*batch]``.

        Args:
            value: one-hot vectors of any dtype, whose shape broadcasts with ``[*batch, n]``. Of other vectors, such as
                padding, the largest entry counts.
        """
        return _log_prob_of_one_hot(value, self.logits)

    def entropy(self) -> torch.Tensor:
        """Return the entropy in nats, ``[*batch]``."""
        return super().entropy()

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        """Return all actions, one-hot int64 ``[n, *batch, n]``; ``[n, 1, .., n]`` without ``expand``."""
        return self._one_hot(super().enumerate_support(expand))

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> OneHotCategorical:
        """Return the distribution with batch dimensions ``batch_shape``, sharing memory with this one."""
        new = self._get_checked_instance(OneHotCategorical, _instance)
        super().expand(batch_shape, _instance=new)
        new.grad_method, new._event_shape = self.grad_method, self._event_shape
        return new

    def _one_hot(self, index: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(index, self._num_events)

    def __repr__(self) -> str:
        given = "probs" if "probs" in self.__dict__ and "logits" not in self.__dict__ else "logits"
        return f"{type(self).__name__}({given}: {self._param.shape})"


class MaskedCategorical(TorchCategorical):
    """A categorical distribution over the legal actions among ``n`` actions.

    Masked actions have probability 0 and are never drawn, whatever their logits; the probabilities of the legal ones
    sum to 1. Give exactly one of ``logits`` and ``probs``, and exactly one of ``mask`` and ``indices``. Their batch
    dimensions are broadcast.

    Args:
        logits: log-probabilities up to a constant, ``[*batch, n]``.
        probs: probabilities up to a factor, ``[*batch, n]``.
        mask: booleans ``[*batch, n]``, True for the legal actions.
        indices: the legal actions as integers ``[*batch, k]``, in any order.
        neg_inf: log-probability that is returned for masked actions. A finite number keeps later arithmetic finite. It
            affects neither sampling nor the other log-probabilities.
        padding_value: value of ``indices`` to ignore, for rows of different lengths.
        validate_args: whether to validate the arguments and the values given to :meth:`log_prob`. None: torch's
            default.

    Raises:
        TypeError: If the mask is not a boolean tensor, or the indices are not integers.
        ValueError: If arguments are missing or their shapes do not match, or a row has no legal action.

    Example:
        >>> dist = MaskedCategorical(logits=torch.zeros(4), mask=torch.tensor([True, False, True, False]))
        >>> dist.probs
        tensor([0.5000, 0.0000, 0.5000, 0.0000])
        >>> sorted(set(dist.sample((100,)).tolist()))
        [0, 2]
        >>> dist.log_prob(torch.tensor([0, 1]))
        tensor([-0.6931,    -inf])
        >>> MaskedCategorical(logits=torch.zeros(4), indices=torch.tensor([0, 2])).entropy()
        tensor(0.6931)
    """

    _mask: torch.Tensor
    _param: torch.Tensor
    _num_events: int
    neg_inf: float
    padding_value: int | None

    def __init__(
        self,
        logits: torch.Tensor | None = None,
        probs: torch.Tensor | None = None,
        *,
        mask: torch.Tensor | None = None,
        indices: torch.Tensor | None = None,
        neg_inf: float = -float("inf"),
        padding_value: int | None = None,
        validate_args: bool | None = None,
    ) -> None:
        name = type(self).__name__
        if (logits is None) == (probs is None):
            raise ValueError(f"{name} takes logits or probs, got {'neither' if logits is None else 'both'}.")
        validate = type(self)._validate_args if validate_args is None else validate_args
        given = probs if logits is None else logits
        assert given is not None
        if not given.ndim:
            raise ValueError(f"{name} needs one number per action, got a single number: {given.item():.4g}.")
        legal = _action_mask(name, given.shape[-1], mask, indices, padding_value, validate)
        try:
            given, legal = torch.broadcast_tensors(given, legal)
        except RuntimeError:
            raise ValueError(
                f"The batch dimensions of {name} do not match: {'probs' if logits is None else 'logits'} of shape "
                f"{list(given.shape)}, {'indices' if mask is None else 'mask'} for {list(legal.shape[:-1])}."
            ) from None
        weights = given.masked_fill(~legal, 0.0 if logits is None else -float("inf"))
        if validate:
            _check_weights(name, weights, legal, are_logits=logits is not None)
        self._mask, self.neg_inf, self.padding_value = legal, neg_inf, padding_value
        self._from_logits = logits is not None
        super().__init__(**{"logits" if self._from_logits else "probs": weights}, validate_args=False)
        if self._from_logits:
            del self.logits  # recomputed lazily with neg_inf; `_param` stays without it
        self._validate_args = validate

    @property
    def mask(self) -> torch.Tensor:
        """Mask of the legal actions, booleans ``[*batch, n]``."""
        return self._mask

    @lazy_property
    def logits(self) -> torch.Tensor:
        """Log-probabilities, ``[*batch, n]``; ``neg_inf`` for masked actions."""
        return self._log_probs.masked_fill(~self._mask, self.neg_inf)

    @lazy_property
    def probs(self) -> torch.Tensor:
        """Probabilities, ``[*batch, n]``; 0 for masked actions."""
        return logits_to_probs(self._param)

    @property
    def _log_probs(self) -> torch.Tensor:
        """Log-probabilities, -inf for masked actions whatever ``neg_inf`` is."""
        if self._from_logits:
            return self._param
        return probs_to_logits(self.probs).masked_fill(~self._mask, -float("inf"))

    @property
    def mode(self) -> torch.Tensor:
        """The most likely action, the first one among equals, int64 ``[*batch]``."""
        return self.probs.argmax(-1)

    @property
    def deterministic_sample(self) -> torch.Tensor:
        """The mode."""
        return self.mode

    @property
    def mean(self) -> torch.Tensor:
        """Undefined, since actions are labels and not quantities; raises ``ValueError``."""
        raise self._no_moments("mean")

    @property
    def variance(self) -> torch.Tensor:
        """Undefined, since actions are labels and not quantities; raises ``ValueError``."""
        raise self._no_moments("variance")

    def _no_moments(self, what: str) -> Exception:
        return ValueError(
            f"{type(self).__name__} has no {what}: its actions are labels, not quantities. "
            "Fix: take dist.mode, or set_exploration_type(ExplorationType.MODE) around the policy."
        )

    def sample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> torch.Tensor:
        """Draw actions, int64 ``[*sample_shape, *batch]``."""
        size = torch.Size(sample_shape or ())
        drawn = torch.multinomial(self.probs.detach().reshape(-1, self._num_events), size.numel(), replacement=True)
        return drawn.T.reshape(size + self.batch_shape)

    def entropy(self) -> torch.Tensor:
        """Return the entropy in nats, ``[*batch]``: from 0 for one legal action to the logarithm of their number."""
        # Mask before multiplying: 0 * -inf is NaN, and would be NaN in the gradient.
        possible = self._log_probs.isfinite()
        return -(self.probs * self._log_probs.masked_fill(~possible, 0.0)).sum(-1)

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> MaskedCategorical:
        """Return the distribution with batch dimensions ``batch_shape``, sharing memory with this one."""
        new = self._get_checked_instance(MaskedCategorical, _instance)
        super().expand(batch_shape, _instance=new)
        shape = (*new.batch_shape, self._num_events)
        new._param, new._mask = self._param.expand(shape), self._mask.expand(shape)
        new._from_logits, new.neg_inf, new.padding_value = self._from_logits, self.neg_inf, self.padding_value
        return new

    def __repr__(self) -> str:
        kind = "logits" if self._from_logits else "probs"
        return f"{type(self).__name__}({kind}: {list(self._param.shape)}, legal: {int(self._mask.sum())})"


class MaskedOneHotCategorical(MaskedCategorical):
    """A :class:`MaskedCategorical` whose samples are one-hot vectors.

    The other arguments, and the errors, are those of :class:`MaskedCategorical`.

    Args:
        grad_method: gradient estimator of :meth:`rsample`.

    Example:
        >>> dist = MaskedOneHotCategorical(probs=torch.tensor([0.6, 0.3, 0.1]), mask=torch.tensor([False, True, True]))
        >>> dist.mode
        tensor([0, 1, 0])
        >>> dist.log_prob(torch.eye(3))
        tensor([   -inf, -0.2877, -1.3863])
        >>> dist.sample((5,)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        logits: torch.Tensor | None = None,
        probs: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        indices: torch.Tensor | None = None,
        neg_inf: float = -float("inf"),
        padding_value: int | None = None,
        grad_method: ReparamGradientStrategy = ReparamGradientStrategy.PassThrough,
        validate_args: bool | None = None,
    ) -> None:
        super().__init__(
            logits,
            probs,
            mask=mask,
            indices=indices,
            neg_inf=neg_inf,
            padding_value=padding_value,
            validate_args=validate_args,
        )
        self.grad_method = ReparamGradientStrategy(grad_method)
        self._event_shape = self._param.shape[-1:]

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> constraints.Constraint:
        """One-hot vectors."""
        return constraints.one_hot

    @property
    def mode(self) -> torch.Tensor:
        """The most likely action, the first one among equals, one-hot int64 ``[*batch, n]``."""
        return self._one_hot(super().mode)

    @property
    def mean(self) -> torch.Tensor:
        """The probabilities, ``[*batch, n]``."""
        return self.probs

    @property
    def variance(self) -> torch.Tensor:
        """The variance of each component, ``[*batch, n]``."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> torch.Tensor:
        """Draw actions as one-hot int64 ``[*sample_shape, *batch, n]``."""
        return self._one_hot(super().sample(sample_shape))

    def rsample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> torch.Tensor:
        """Draw actions that carry a gradient, estimated by ``grad_method``.

        ``has_rsample`` is False nevertheless, so that policies draw with :meth:`sample`: envs need integers.

        Returns:
            One-hot vectors with the dtype of the probabilities, ``[*sample_shape, *batch, n]``.
        """
        return _with_gradient(self, self.grad_method, self._log_probs, torch.Size(sample_shape or ()))

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of actions.

        Args:
            value: one-hot vectors of any dtype, whose shape broadcasts with ``[*batch, n]``.

        Returns:
            The log-probabilities, ``[*batch]``; ``neg_inf`` for masked actions.

        Raises:
            ValueError: If a value is not a one-hot vector.
        """
        if self._validate_args:
            self._validate_sample(value)
        return _log_prob_of_one_hot(value, self.logits)

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        """Return all actions, legal or not, one-hot int64 ``[n, *batch, n]``; ``[n, 1, .., n]`` without ``expand``."""
        return self._one_hot(super().enumerate_support(expand))

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> MaskedOneHotCategorical:
        """Return the distribution with batch dimensions ``batch_shape``, sharing memory with this one."""
        new = self._get_checked_instance(MaskedOneHotCategorical, _instance)
        super().expand(batch_shape, _instance=new)
        new.grad_method, new._event_shape = self.grad_method, self._event_shape
        return new

    def _one_hot(self, index: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(index, self._num_events)


def _with_gradient(
    dist: OneHotCategorical | MaskedOneHotCategorical,
    method: ReparamGradientStrategy,
    log_probs: torch.Tensor,
    shape: torch.Size,
) -> torch.Tensor:
    """Draw one-hot vectors whose gradient is that of the probabilities, or of a relaxed sample."""
    if method is ReparamGradientStrategy.PassThrough:
        soft, hard = dist.probs, dist.sample(shape)
    else:
        soft = RelaxedOneHotCategorical(log_probs.new_ones(()), logits=log_probs, validate_args=False).rsample(shape)
        hard = dist._one_hot(soft.argmax(-1))
    return hard + (soft - soft.detach())  # adds the gradient of soft, and exactly 0 to the value


def _log_prob_of_one_hot(value: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    index = (value.to(torch.uint8) if value.dtype == torch.bool else value).argmax(-1, keepdim=True)
    index, logits = torch.broadcast_tensors(index, logits)
    return logits.gather(-1, index[..., :1]).squeeze(-1)


def _action_mask(
    name: str,
    n_actions: int,
    mask: torch.Tensor | None,
    indices: torch.Tensor | None,
    padding_value: int | None,
    validate: bool,
) -> torch.Tensor:
    """Return the mask of the legal actions ``[*batch, n_actions]``, from the mask or the indices that were given.

    Raises:
        TypeError: If the mask is not a boolean tensor, or the indices are not integers.
        ValueError: If not exactly one of them is given, or it does not match the number of actions.
    """
    if (mask is None) == (indices is None):
        raise ValueError(
            f"{name} takes a mask (booleans, True for a legal action) or indices (of the legal actions), got "
            f"{'neither' if mask is None else 'both'}. In a policy, check that the TensorDict has the entry "
            "that in_keys names, such as 'action_mask'."
        )
    if mask is None:
        assert indices is not None
        return _mask_of(name, n_actions, indices, padding_value, validate)
    if mask.dtype != torch.bool:
        raise TypeError(f"The mask of {name} must have dtype torch.bool, got {mask.dtype}. Fix: mask.bool().")
    if not mask.ndim or mask.shape[-1] != n_actions:
        raise ValueError(
            f"The mask of {name} must have an entry for each of the {n_actions} actions in its last dimension, "
            f"got shape {list(mask.shape)}."
        )
    return mask


def _mask_of(
    name: str, n_actions: int, indices: torch.Tensor, padding_value: int | None, validate: bool
) -> torch.Tensor:
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == torch.bool:
        raise TypeError(
            f"The indices of {name} must be integers, got dtype {indices.dtype}. "
            f"{'Fix: pass booleans as mask=.' if indices.dtype == torch.bool else 'Fix: indices.long().'}"
        )
    if not indices.ndim:
        raise ValueError(f"The indices of {name} must have at least one dimension. Fix: indices.unsqueeze(-1).")
    indices = indices.long()
    padding = torch.zeros_like(indices, dtype=torch.bool) if padding_value is None else indices == padding_value
    outside = ~padding & ((indices < 0) | (indices >= n_actions))
    if validate and bool(outside.any()):
        raise ValueError(
            f"The indices of {name} must be between 0 and {n_actions - 1}, got {int(indices[outside][0])}. "
            f"If it pads a shorter row: padding_value={int(indices[outside][0])}."
        )
    # Padding is scattered to an additional column, which is then dropped.
    places = indices.masked_fill(padding, n_actions)
    mask = torch.zeros(*indices.shape[:-1], n_actions + 1, dtype=torch.bool, device=indices.device)
    return mask.scatter_(-1, places, True)[..., :n_actions]


def _check_weights(name: str, weights: torch.Tensor, mask: torch.Tensor, are_logits: bool) -> None:
    """Raise ``ValueError`` if a row has no legal action, or invalid logits or probabilities.

    The weights of masked actions are -inf or 0.
    """
    if are_logits:
        good = weights.amax(-1).isfinite()  # the maximum is NaN or infinite if any logit is NaN or inf
    else:
        good = (weights >= 0).all(-1) & weights.sum(-1).isfinite() & (weights.sum(-1) > 0)
    if bool(good.all()):
        return
    row = tuple((~good).nonzero()[0].tolist())
    where = f" in row {list(row)}" if row else ""
    if not bool(mask[row].any()):
        raise ValueError(
            f"{name} has no legal action{where}: its mask is all False. "
            "The usual cause is the mask of an episode that has ended. Fix: reset before acting, "
            "or leave such rows out: data[data['action_mask'].any(-1)]."
        )
    kind = "logits" if are_logits else "probs"
    need = "finite, or -inf for some of them" if are_logits else "finite, not negative, and not all zero"
    legal = ", ".join(f"{value:.4g}" for value in weights[row][mask[row]].tolist())
    raise ValueError(f"The {kind} of {name}{where} must be {need}; those of the legal actions are: {legal}.")
