"""The normal distribution truncated to an interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributions import Distribution, constraints
from torch.special import log_ndtr, ndtri

from rlnb.modules.distributions.parameters import Number, Scale, as_bounds, location_and_scale

_LOG_SQRT_2_PI = math.log(2 * math.pi) / 2


class TruncatedNormal(Distribution):
    r"""A normal distribution truncated to bounds: what is outside has probability 0, the rest is scaled up.

    With :math:`\alpha = (low - loc) / scale`, :math:`\beta = (high - loc) / scale`, and the density :math:`\phi` and
    cumulative function :math:`\Phi` of the standard normal distribution (Burkardt 2014, *The Truncated Normal
    Distribution*, section 3):

    .. math:: \log p(a) = \sum_i \log \phi((a_i - loc_i) / scale_i) - \log scale_i - \log(\Phi(\beta_i) -
        \Phi(\alpha_i))

    Args:
        loc: location, ``[*batch, n]``. It is the mean only far from the bounds.
        scale: a tensor that broadcasts with ``loc``, a number, or a function of ``loc``.
        upscale: bound of the location with ``tanh_loc``.
        low: lower bounds of the action, a number or a tensor that broadcasts with ``loc``.
        high: upper bounds of the action.
        tanh_loc: whether to keep the location within ``upscale`` by ``loc = tanh(loc / upscale) * upscale``.

    Raises:
        ValueError: If ``high`` is not greater than ``low``, ``loc`` has NaNs, or ``scale`` is not positive.

    Example:
        >>> dist = TruncatedNormal(torch.tensor([0.0, 3.0]), torch.tensor([1.0, 1.0]))
        >>> dist.mode
        tensor([0., 1.])
        >>> dist.mean
        tensor([0.0000, 0.6294])
        >>> dist.log_prob(torch.tensor([0.0, 1.5]))
        tensor(-inf)
    """

    num_params = 2
    has_rsample = True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012 - as in torch

    def __init__(
        self,
        loc: torch.Tensor,
        scale: Scale,
        upscale: Number = 5.0,
        low: Number = -1.0,
        high: Number = 1.0,
        tanh_loc: bool = False,
    ) -> None:
        self.low, self.high = as_bounds(type(self).__name__, low, high, loc)
        self.upscale, self.tanh_loc = upscale, tanh_loc
        self.update(loc, scale)

    def update(self, loc: torch.Tensor, scale: Scale) -> None:
        """Replace the parameters, keeping the bounds.

        Args:
            loc: location, ``[*batch, n]``.
            scale: as for the constructor.
        """
        name = type(self).__name__
        self.loc, self.scale = location_and_scale(name, loc, scale, self.upscale, self.tanh_loc)
        dims = min(1, self.loc.ndim)
        shape = self.loc.shape
        super().__init__(shape[: len(shape) - dims], shape[len(shape) - dims :], validate_args=False)
        self._alpha, self._beta = (self.low - self.loc) / self.scale, (self.high - self.loc) / self.scale
        # Differences of tails are accurate on the left: an interval on the right is mirrored.
        self._mirrored = self._alpha > 0
        self._left = torch.where(self._mirrored, -self._beta, self._alpha)
        self._right = torch.where(self._mirrored, -self._alpha, self._beta)
        above, below = log_ndtr(self._right), log_ndtr(self._left)
        self._log_mass = above + torch.log(-torch.expm1(below - above))

    @property
    def min(self) -> torch.Tensor:
        """Lower bounds of the action."""
        return self.low

    @property
    def max(self) -> torch.Tensor:
        """Upper bounds of the action."""
        return self.high

    @constraints.dependent_property(is_discrete=False, event_dim=1)
    def support(self) -> constraints.Constraint:
        """Actions between the bounds."""
        return constraints.independent(constraints.interval(self.low, self.high), len(self.event_shape))

    @property
    def mode(self) -> torch.Tensor:
        """The location, or the bound closest to it, ``[*batch, n]``."""
        return torch.minimum(torch.maximum(self.loc, self.low), self.high)

    @property
    def deterministic_sample(self) -> torch.Tensor:
        """The mean."""
        return self.mean

    @property
    def mean(self) -> torch.Tensor:
        """The mean, ``[*batch, n]``, which is within the bounds."""
        mean = self.loc + self.scale * (self._ratio(self._alpha) - self._ratio(self._beta))
        return torch.minimum(torch.maximum(mean, self.low), self.high)

    @property
    def variance(self) -> torch.Tensor:
        """The variance of each component, ``[*batch, n]``."""
        at_low, at_high = self._ratio(self._alpha), self._ratio(self._beta)
        factor = 1 + self._alpha * at_low - self._beta * at_high - (at_low - at_high) ** 2
        return self.scale**2 * factor.clamp_min(0)

    def entropy(self) -> torch.Tensor:
        """Return the differential entropy in nats, ``[*batch]``."""
        ends = self._alpha * self._ratio(self._alpha) - self._beta * self._ratio(self._beta)
        return self._sum(self.scale.log() + self._log_mass + _LOG_SQRT_2_PI + (1 + ends) / 2)

    def rsample(self, sample_shape: torch.Size | Sequence[int] = ()) -> torch.Tensor:
        """Draw actions with a gradient, by the inverse of the cumulative function, ``[*sample_shape, *batch, n]``."""
        shape = self._extended_shape(torch.Size(sample_shape))
        uniform = torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device)
        part = torch.where(self._mirrored, 1 - uniform, uniform)
        tail = log_ndtr(self._left).exp()
        x = ndtri(tail + part * self._log_mass.exp())
        x = torch.where(self._mirrored, -x, x)
        action = self.loc + self.scale * x
        return torch.minimum(torch.maximum(action, self.low), self.high)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-densities of actions, ``[*batch]``; -inf for an action beyond the bounds.

        Args:
            value: actions ``[*batch, n]``.
        """
        x = (value - self.loc) / self.scale
        inside = (value >= self.low) & (value <= self.high)
        density = -(x**2) / 2 - _LOG_SQRT_2_PI - self.scale.log() - self._log_mass
        return self._sum(density.masked_fill(~inside, -math.inf))

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> TruncatedNormal:
        """Return the distribution with batch dimensions ``batch_shape``, sharing memory with this one."""
        shape = (*batch_shape, *self.event_shape)
        return type(self)(self.loc.expand(shape), self.scale.expand(shape), low=self.low, high=self.high)

    def _ratio(self, x: torch.Tensor) -> torch.Tensor:
        """Density of the standard normal distribution over the probability of the interval."""
        return torch.exp(-(x**2) / 2 - _LOG_SQRT_2_PI - self._log_mass)

    def _sum(self, value: torch.Tensor) -> torch.Tensor:
        return value.sum(-1) if self.event_shape else value

    def __repr__(self) -> str:
        return f"{type(self).__name__}(loc: {self.loc.shape}, scale: {self.scale.shape})"
