"""MaskedOneHotCategorical: one of n actions, of which only some are legal, as a vector with a single 1."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributions import RelaxedOneHotCategorical, constraints

from rlnb.modules.distributions.masked_categorical import MaskedCategorical


class ReparamGradientStrategy(enum.Enum):
    """Where the gradient of a one-hot sample comes from: both are biased, as a choice has no gradient of its own.

    - ``PassThrough``: from the probabilities (Bengio et al. 2013, https://arxiv.org/abs/1308.3432, section 4).
    - ``RelaxedOneHot``: from a relaxed sample at temperature 1 (Jang et al. 2017, https://arxiv.org/abs/1611.01144).
    """

    PassThrough = 1
    RelaxedOneHot = 2


class MaskedOneHotCategorical(MaskedCategorical):
    """A :class:`MaskedCategorical` whose samples are one-hot vectors.

    Args:
        logits: see :class:`MaskedCategorical`.
        probs: see :class:`MaskedCategorical`.
        mask: see :class:`MaskedCategorical`.
        indices: see :class:`MaskedCategorical`.
        neg_inf: see :class:`MaskedCategorical`.
        padding_value: see :class:`MaskedCategorical`.
        grad_method: where the gradient of :meth:`rsample` comes from.
        validate_args: see :class:`MaskedCategorical`.

    Raises:
        TypeError: if the mask is not of booleans, or the indices are not integers.
        ValueError: if arguments are missing or do not fit together, or a row has no legal action.

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
        """The most likely action, the first one if several are; one-hot int64, shape ``[*batch, n]``."""
        return self._one_hot(super().mode)

    @property
    def mean(self) -> torch.Tensor:
        """The probabilities, shape ``[*batch, n]``."""
        return self.probs

    @property
    def variance(self) -> torch.Tensor:
        """The variance of each entry, shape ``[*batch, n]``."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> torch.Tensor:
        """Draw actions.

        Args:
            sample_shape: sizes in front of the batch dimensions.

        Returns:
            One-hot int64, shape ``[*sample_shape, *batch, n]``.
        """
        return self._one_hot(super().sample(sample_shape))

    def rsample(self, sample_shape: torch.Size | Sequence[int] | None = None) -> torch.Tensor:
        """Draw actions that carry a gradient, by ``grad_method``.

        ``has_rsample`` stays False: policies draw with :meth:`sample`, as envs want integers.

        Args:
            sample_shape: sizes in front of the batch dimensions.

        Returns:
            One-hot vectors of the dtype of the probabilities, shape ``[*sample_shape, *batch, n]``.
        """
        if self.grad_method is ReparamGradientStrategy.PassThrough:
            soft = self.probs
            hard = self.sample(sample_shape)
        else:
            relaxed = RelaxedOneHotCategorical(self.probs.new_ones(()), logits=self._log_probs, validate_args=False)
            soft = relaxed.rsample(torch.Size(sample_shape or ()))
            hard = self._one_hot(soft.argmax(-1))
        return hard + (soft - soft.detach())  # the bracket is exactly 0

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of actions.

        Args:
            value: one-hot vectors of any dtype, of a shape that broadcasts with ``[*batch, n]``.

        Returns:
            The log-probabilities, shape ``[*batch]``; ``neg_inf`` for masked actions.

        Raises:
            ValueError: if a value is no one-hot vector.
        """
        if self._validate_args:
            self._validate_sample(value)
        index = (value.to(torch.uint8) if value.dtype == torch.bool else value).argmax(-1, keepdim=True)
        index, log_probs = torch.broadcast_tensors(index, self.logits)
        return log_probs.gather(-1, index[..., :1]).squeeze(-1)

    def enumerate_support(self, expand: bool = True) -> torch.Tensor:
        """Return all actions, legal or not.

        Args:
            expand: repeat them over the batch dimensions.

        Returns:
            One-hot int64, shape ``[n, *batch, n]``; ``[n, 1, .., n]`` without ``expand``.
        """
        return self._one_hot(super().enumerate_support(expand))

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> MaskedOneHotCategorical:
        """Return the distribution with other batch dimensions.

        Args:
            batch_shape: what the present ones are expanded to.

        Returns:
            A new distribution over the same memory.
        """
        new = self._get_checked_instance(MaskedOneHotCategorical, _instance)
        super().expand(batch_shape, _instance=new)
        new.grad_method, new._event_shape = self.grad_method, self._event_shape
        return new

    def _one_hot(self, index: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(index, self._num_events)


__all__ = ["MaskedOneHotCategorical", "ReparamGradientStrategy"]
