"""MaskedCategorical: one of n actions, of which only some are legal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.distributions import Categorical
from torch.distributions.utils import lazy_property, logits_to_probs, probs_to_logits

from rlnb.modules.distributions.legal import action_mask, check_weights


class MaskedCategorical(Categorical):
    """A categorical distribution over the legal ones of ``n`` actions.

    Masked actions have probability 0 and are never drawn, whatever their logits; the probabilities of the others
    sum to 1. Exactly one of ``logits`` and ``probs`` and one of ``mask`` and ``indices`` must be given; their batch
    dimensions are broadcast.

    Args:
        logits: log-probabilities up to a constant, shape ``[*batch, n]``.
        probs: probabilities up to a factor, shape ``[*batch, n]``.
        mask: booleans of shape ``[*batch, n]``, True for the legal actions.
        indices: the legal actions themselves, integers of shape ``[*batch, k]``, in any order.
        neg_inf: the log-probability that masked actions are said to have. A finite number keeps arithmetic finite;
            it changes neither what is drawn nor the other log-probabilities.
        padding_value: entries of ``indices`` with this value are left out, so that rows can differ in length.
        validate_args: check the arguments and the values given to :meth:`log_prob`; None for torch's default.

    Raises:
        TypeError: if the mask is not of booleans, or the indices are not integers.
        ValueError: if arguments are missing or do not fit together, or a row has no legal action.

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
            raise ValueError(f"{name} takes logits or probs, and got {'neither' if logits is None else 'both'}.")
        validate = type(self)._validate_args if validate_args is None else validate_args
        given = probs if logits is None else logits
        assert given is not None
        if not given.ndim:
            raise ValueError(f"{name} needs a number for each action, and got a single one: {given.item():.4g}.")
        legal = action_mask(name, given.shape[-1], mask, indices, padding_value, validate)
        try:
            given, legal = torch.broadcast_tensors(given, legal)
        except RuntimeError:
            raise ValueError(
                f"The batch dimensions of {name} do not fit: {'probs' if logits is None else 'logits'} of shape "
                f"{list(given.shape)}, {'indices' if mask is None else 'mask'} for {list(legal.shape[:-1])}."
            ) from None
        weights = given.masked_fill(~legal, 0.0 if logits is None else -float("inf"))
        if validate:
            check_weights(name, weights, legal, are_logits=logits is not None)
        self._mask, self.neg_inf, self.padding_value = legal, neg_inf, padding_value
        if logits is None:
            super().__init__(probs=weights, validate_args=False)
        else:
            super().__init__(logits=weights, validate_args=False)
            del self.logits  # from here on `_param`, without neg_inf, is what everything else follows from
        self._from_logits = logits is not None
        self._validate_args = validate

    @property
    def mask(self) -> torch.Tensor:
        """Which actions are legal, booleans of shape ``[*batch, n]``."""
        return self._mask

    @lazy_property
    def logits(self) -> torch.Tensor:
        """Log-probabilities, shape ``[*batch, n]``; ``neg_inf`` for masked actions."""
        return self._log_probs.masked_fill(~self._mask, self.neg_inf)

    @lazy_property
    def probs(self) -> torch.Tensor:
        """Probabilities, shape ``[*batch, n]``; 0 for masked actions."""
        return logits_to_probs(self._param)

    @property
    def _log_probs(self) -> torch.Tensor:
        """Log-probabilities, -inf for masked actions whatever ``neg_inf`` is."""
        if self._from_logits:
            return self._param
        return probs_to_logits(self.probs).masked_fill(~self._mask, -float("inf"))

    @property
    def mode(self) -> torch.Tensor:
        """The most likely action, the first one if several are; int64, shape ``[*batch]``."""
        return self.probs.argmax(-1)

    @property
    def deterministic_sample(self) -> torch.Tensor:
        """The mode."""
        return self.mode

    @property
    def mean(self) -> torch.Tensor:
        """Not defined: actions are labels, not amounts."""
        raise self._no_moments("mean")

    @property
    def variance(self) -> torch.Tensor:
        """Not defined: actions are labels, not amounts."""
        raise self._no_moments("variance")

    def _no_moments(self, what: str) -> Exception:
        return ValueError(
            f"{type(self).__name__} has no {what}: its actions are labels, not amounts. "
            "Fix: take dist.mode, or set_exploration_type(ExplorationType.MODE) around the policy."
        )

    def sample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> torch.Tensor:
        """Draw actions.

        Args:
            sample_shape: sizes in front of the batch dimensions.

        Returns:
            int64, shape ``[*sample_shape, *batch]``.
        """
        size = torch.Size(sample_shape or ())
        drawn = torch.multinomial(self.probs.detach().reshape(-1, self._num_events), size.numel(), replacement=True)
        return drawn.T.reshape(size + self.batch_shape)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of actions.

        Args:
            value: integers, of a shape that broadcasts with ``[*batch]``.

        Returns:
            The log-probabilities; ``neg_inf`` for masked actions.

        Raises:
            ValueError: if a value is no action.
        """
        return super().log_prob(value)

    def entropy(self) -> torch.Tensor:
        """Return the entropy in nats, shape ``[*batch]``: 0 where one action is legal, at most the log of their number.

        Returns:
            The entropy.
        """
        # Impossible actions contribute 0, and no NaN to a gradient.
        possible = self._log_probs.isfinite()
        return -(self.probs * self._log_probs.masked_fill(~possible, 0.0)).sum(-1)

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> MaskedCategorical:
        """Return the distribution with other batch dimensions.

        Args:
            batch_shape: what the present ones are expanded to.

        Returns:
            A new distribution over the same memory.
        """
        new = self._get_checked_instance(MaskedCategorical, _instance)
        super().expand(batch_shape, _instance=new)
        shape = (*new.batch_shape, self._num_events)
        new._param, new._mask = self._param.expand(shape), self._mask.expand(shape)
        new._from_logits, new.neg_inf, new.padding_value = self._from_logits, self.neg_inf, self.padding_value
        return new

    def __repr__(self) -> str:
        kind = "logits" if self._from_logits else "probs"
        return f"{type(self).__name__}({kind}: {list(self._param.shape)}, legal: {int(self._mask.sum())})"


__all__ = ["MaskedCategorical"]
