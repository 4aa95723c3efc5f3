"""Distributions of continuous actions: normal ones, with or without bounds, and single points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from tensordict.nn import NormalParamExtractor
from tensordict.nn.distributions import Delta as TensorDictDelta
from torch.distributions import (
    AffineTransform,
    Independent,
    Normal,
    TanhTransform,
    Transform,
    TransformedDistribution,
    constraints,
)

from rlnb.modules.distributions.parameters import Number, Scale, as_bounds, location_and_scale
from rlnb.modules.distributions.tanh import SafeTanhTransform
from rlnb.modules.distributions.truncated_normal import TruncatedNormal

__all__ = ["Delta", "IndependentNormal", "NormalParamExtractor", "TanhDelta", "TanhNormal", "TruncatedNormal"]


class TanhNormal(TransformedDistribution):
    r"""A normal distribution squashed into bounds by the hyperbolic tangent.

    An action is ``a = low + (high - low) * (tanh(x) + 1) / 2``, where ``x`` is drawn from ``Normal(loc, scale)``. Its
    log-density is that of ``x`` less the logarithm of the derivative of ``a`` (Haarnoja et al. 2018,
    https://arxiv.org/abs/1801.01290, appendix C, equation 21):

    .. math:: \log p(a) = \log N(x; loc, scale) - \sum_i \log(1 - \tanh^2(x_i)) - \sum_i \log((high_i - low_i) / 2)

    Actions at the bounds or beyond have a finite log-probability: that of the closest action that can be drawn.

    Args:
        loc: mean of ``x``, ``[*batch, n]``.
        scale: standard deviation of ``x``: a tensor that broadcasts with ``loc``, a number, or a function of ``loc``.
        upscale: bound of the location with ``tanh_loc``.
        low: lower bounds of the action, a number or a tensor that broadcasts with ``loc``.
        high: upper bounds of the action.
        event_dims: how many of the last dims make up one action, over which log-probabilities are summed. Default: 1,
            or 0 for a ``loc`` without dims.
        tanh_loc: whether to keep the location within ``upscale`` by ``loc = tanh(loc / upscale) * upscale``.
        safe_tanh: whether to stay away from the bounds by the resolution of the dtype. Without it actions reach the
            bounds in floating point, where their log-probability is NaN.

    Raises:
        ValueError: If ``high`` is not greater than ``low``, ``loc`` has NaNs, or ``scale`` is not positive.

    Example:
        >>> dist = TanhNormal(torch.zeros(3, 2), torch.ones(3, 2), low=-2.0, high=2.0)
        >>> action, log_prob = dist.rsample_and_log_prob()
        >>> action.shape, log_prob.shape
        (torch.Size([3, 2]), torch.Size([3]))
        >>> dist.deterministic_sample[0]
        tensor([0., 0.])
        >>> dist.log_prob(torch.full((3, 2), 5.0)).isfinite().all()
        tensor(True)
    """

    num_params = 2
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}  # noqa: RUF012 - as in torch

    def __init__(
        self,
        loc: torch.Tensor,
        scale: Scale,
        upscale: Number = 5.0,
        low: Number = -1.0,
        high: Number = 1.0,
        event_dims: int | None = None,
        tanh_loc: bool = False,
        safe_tanh: bool = True,
    ) -> None:
        unit = isinstance(low, float) and isinstance(high, float) and (low, high) == (-1.0, 1.0)
        self.low, self.high = as_bounds(type(self).__name__, low, high, loc)
        self.upscale, self.tanh_loc, self.safe_tanh = upscale, tanh_loc, safe_tanh
        self._event_dims = min(1, loc.ndim) if event_dims is None else event_dims
        self._transforms = tanh_transforms(self.low, self.high, self._event_dims, safe_tanh, unit)
        self.update(loc, scale)

    def update(self, loc: torch.Tensor, scale: Scale) -> None:
        """Replace the parameters, keeping the bounds.

        Args:
            loc: mean before squashing, ``[*batch, n]``.
            scale: standard deviation before squashing.
        """
        name = type(self).__name__
        self.loc, self.scale = location_and_scale(name, loc, scale, self.upscale, self.tanh_loc)
        base = Independent(Normal(self.loc, self.scale, validate_args=False), self._event_dims, validate_args=False)
        super().__init__(base, self._transforms, validate_args=False)

    @property
    def min(self) -> torch.Tensor:
        """Lower bounds of the action."""
        return self.low

    @property
    def max(self) -> torch.Tensor:
        """Upper bounds of the action."""
        return self.high

    @property
    def root_dist(self) -> Normal:
        """The normal distribution before squashing."""
        return self.base_dist.base_dist  # type: ignore[attr-defined]  # the Independent that update() made

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> constraints.Constraint:
        """Actions between the bounds."""
        return constraints.independent(constraints.interval(self.low, self.high), self._event_dims)

    @property
    def deterministic_sample(self) -> torch.Tensor:
        """The squashed location, ``[*batch, n]``: the median of each component, neither their mode nor their mean."""
        return self._squash(self.loc)

    @property
    def mode(self) -> torch.Tensor:
        """Has no closed form; raises ``RuntimeError``. See :meth:`get_mode`."""
        raise RuntimeError(
            f"{type(self).__name__} has no closed form of its mode. Fix: take dist.deterministic_sample, the squashed "
            "location, or set_exploration_type(ExplorationType.DETERMINISTIC) around the policy."
        )

    @property
    def mean(self) -> torch.Tensor:
        """Has no closed form; raises ``NotImplementedError``. A policy estimates it from samples."""
        raise NotImplementedError(
            f"{type(self).__name__} has no closed form of its mean. Fix: dist.sample((1000,)).mean(0) estimates it; "
            "dist.deterministic_sample is the squashed location."
        )

    def get_mode(self) -> torch.Tensor:
        """Find the mode of each component on a grid, ``[*batch, n]``.

        Returns:
            The most likely action among 1,001 between the bounds. Where ``scale`` is large, it is at a bound.
        """
        steps = torch.linspace(-1, 1, 1001, dtype=self.loc.dtype, device=self.loc.device)
        squashed = steps.reshape(-1, *(1,) * self.loc.ndim)
        tanh = self._tanh
        x = tanh.inv(squashed)
        density = self.root_dist.log_prob(x) - tanh.log_abs_det_jacobian(x, squashed)
        return self._scaled(steps[density.argmax(0)])

    def rsample_and_log_prob(self, sample_shape: torch.Size | Sequence[int] = ()) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw actions with a gradient, together with their log-probabilities.

        The log-probability is that of the drawn ``x``, and so exact where ``tanh`` saturates, unlike
        ``log_prob(action)``.

        Args:
            sample_shape: shape in front of the distribution's own.

        Returns:
            The actions ``[*sample_shape, *batch, n]`` and their log-probabilities ``[*sample_shape, *batch]``.
        """
        x = self.base_dist.rsample(torch.Size(sample_shape))
        return self._squash(x), self._log_prob_of(x)

    def sample_and_log_prob(self, sample_shape: torch.Size | Sequence[int] = ()) -> tuple[torch.Tensor, torch.Tensor]:
        """Draw actions without a gradient, together with their log-probabilities, which have one for the parameters.

        Args:
            sample_shape: shape in front of the distribution's own.

        Returns:
            The actions ``[*sample_shape, *batch, n]`` and their log-probabilities ``[*sample_shape, *batch]``.
        """
        x = self.base_dist.sample(torch.Size(sample_shape))
        return self._squash(x), self._log_prob_of(x)

    def log_prob(self, value: torch.Tensor) -> torch.Tensor:
        """Return the log-densities of actions, ``[*batch]``.

        Args:
            value: actions ``[*batch, n]``; those at the bounds or beyond count as the closest that can be drawn.

        Returns:
            The log-densities, summed over the event dims.
        """
        for transform in reversed(self._transforms):
            value = transform.inv(value)
        return self._log_prob_of(value)

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> TanhNormal:
        """Return the distribution with batch dimensions ``batch_shape``, sharing memory with this one."""
        shape = (*batch_shape, *self.event_shape)
        return type(self)(
            self.loc.expand(shape),
            self.scale.expand(shape),
            low=self.low,
            high=self.high,
            event_dims=self._event_dims,
            safe_tanh=self.safe_tanh,
        )

    @property
    def _tanh(self) -> Transform:
        return self._transforms[0]

    def _scaled(self, y: torch.Tensor) -> torch.Tensor:
        for transform in self._transforms[1:]:
            y = transform(y)
        return y

    def _squash(self, x: torch.Tensor) -> torch.Tensor:
        return self._scaled(self._tanh(x))

    def _log_prob_of(self, x: torch.Tensor) -> torch.Tensor:
        """Log-density of the action that ``x`` becomes."""
        change = self._tanh.log_abs_det_jacobian(x, x)  # a function of x alone
        for transform in self._transforms[1:]:
            change = change + transform.scale.abs().log()  # type: ignore[attr-defined]  # the affine one
        if self._event_dims:
            change = change.sum(tuple(range(-self._event_dims, 0)))
        return self.base_dist.log_prob(x) - change

    def __repr__(self) -> str:
        return f"{type(self).__name__}(loc: {self.loc.shape}, scale: {self.scale.shape})"


class IndependentNormal(Independent):
    """A normal distribution of actions without bounds, whose components are independent.

    Args:
        loc: mean, ``[*batch, n]``.
        scale: standard deviation: a tensor that broadcasts with ``loc``, a number, or a function of ``loc``.
        upscale: bound of the location with ``tanh_loc``.
        tanh_loc: whether to keep the location within ``upscale`` by ``loc = tanh(loc / upscale) * upscale``.
        event_dim: how many of the last dims make up one action, over which log-probabilities are summed.
        **kwargs: those of ``torch.distributions.Normal``.

    Raises:
        ValueError: If ``loc`` has NaNs, or ``scale`` is not positive.

    Example:
        >>> dist = IndependentNormal(torch.zeros(3, 2), 0.5)
        >>> dist.batch_shape, dist.event_shape
        (torch.Size([3]), torch.Size([2]))
        >>> dist.entropy()
        tensor([1.4516, 1.4516, 1.4516])
    """

    num_params = 2

    def __init__(
        self,
        loc: torch.Tensor,
        scale: Scale,
        upscale: float = 5.0,
        tanh_loc: bool = False,
        event_dim: int = 1,
        **kwargs: Any,
    ) -> None:
        self.upscale, self.tanh_loc = upscale, tanh_loc
        self._event_dim, self._kwargs = event_dim, {"validate_args": False, **kwargs}
        self.update(loc, scale)

    def update(self, loc: torch.Tensor, scale: Scale) -> None:
        """Replace the parameters.

        Args:
            loc: mean, ``[*batch, n]``.
            scale: as for the constructor.
        """
        loc, scale = location_and_scale(type(self).__name__, loc, scale, self.upscale, self.tanh_loc)
        super().__init__(Normal(loc, scale, **self._kwargs), self._event_dim, validate_args=False)

    @property
    def mode(self) -> torch.Tensor:
        """The mean, ``[*batch, n]``."""
        return self.base_dist.mode

    @property
    def deterministic_sample(self) -> torch.Tensor:
        """The mean, ``[*batch, n]``."""
        return self.mean

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> IndependentNormal:
        """Return the distribution with batch dimensions ``batch_shape``, sharing memory with this one."""
        shape = (*batch_shape, *self.event_shape)
        base = self.base_dist
        return type(self)(base.loc.expand(shape), base.scale.expand(shape), event_dim=self._event_dim, **self._kwargs)


class Delta(TensorDictDelta):
    """All probability on one action: a deterministic policy as a distribution.

    Args:
        param: the action, ``[*batch, n]``.
        atol: absolute tolerance of :meth:`log_prob`, which is inf for the action and -inf for others.
        rtol: relative tolerance.
        batch_shape: default: all dims but the last one.
        event_shape: default: the last dim.

    Example:
        >>> dist = Delta(torch.tensor([0.5, -0.5]))
        >>> dist.sample()
        tensor([ 0.5000, -0.5000])
        >>> dist.log_prob(torch.zeros(2))
        tensor(-inf)
    """

    def expand(self, batch_shape: torch.Size | Sequence[int], _instance: Any = None) -> Delta:
        """Return the distribution with batch dimensions ``batch_shape``, sharing memory with this one."""
        shape = torch.Size(batch_shape)
        param = self.param.expand(shape + self.event_shape)
        return Delta(param, self.atol, self.rtol, batch_shape=shape, event_shape=self.event_shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(param: {self.param.shape})"


class TanhDelta(Delta):
    """All probability on one action, squashed into bounds by the hyperbolic tangent.

    Args:
        param: the action before squashing, ``[*batch, n]``.
        low: lower bounds of the action, a number or a tensor that broadcasts with ``param``.
        high: upper bounds of the action.
        event_dims: how many of the last dims make up one action.
        atol: absolute tolerance of :meth:`log_prob`, which is inf for the squashed action and -inf for others.
        rtol: relative tolerance.
        safe: whether to stay away from the bounds by the resolution of the dtype.

    Raises:
        ValueError: If ``high`` is not greater than ``low``.

    Example:
        >>> TanhDelta(torch.tensor([0.0, 9.0]), low=-2.0, high=2.0).mode
        tensor([0.0000, 2.0000])
    """

    def __init__(
        self,
        param: torch.Tensor,
        low: Number = -1.0,
        high: Number = 1.0,
        event_dims: int = 1,
        atol: float = 1e-6,
        rtol: float = 1e-6,
        safe: bool = True,
    ) -> None:
        self.low, self.high = as_bounds(type(self).__name__, low, high, param)
        self._event_dims = event_dims
        self._transforms = tanh_transforms(self.low, self.high, event_dims, safe)
        batch_dims = max(param.ndim - event_dims, 0)
        shapes = {"batch_shape": param.shape[:batch_dims], "event_shape": param.shape[batch_dims:]}
        super().__init__(param, atol=atol, rtol=rtol, **shapes)  # calls update, which squashes

    def update(self, param: torch.Tensor) -> None:
        """Replace the action before squashing, keeping the bounds.

        Args:
            param: the action before squashing, ``[*batch, n]``.
        """
        super().update(self._squash(param))

    @property
    def min(self) -> torch.Tensor:
        """Lower bounds of the action."""
        return self.low

    @property
    def max(self) -> torch.Tensor:
        """Upper bounds of the action."""
        return self.high

    def _squash(self, param: torch.Tensor) -> torch.Tensor:
        for transform in self._transforms:
            param = transform(param)
        return param


def tanh_transforms(
    low: torch.Tensor, high: torch.Tensor, event_dims: int, safe: bool, unit: bool = False
) -> list[Transform]:
    """Return the transforms that squash numbers into bounds: tanh, then an affine one unless they are -1 and 1.

    ``unit`` says that they are known to be -1 and 1.
    """
    transforms: list[Transform] = [SafeTanhTransform() if safe else TanhTransform()]
    if not unit and (bool((low != -1).any()) or bool((high != 1).any())):
        transforms.append(AffineTransform((high + low) / 2, (high - low) / 2, event_dim=event_dims))
    return transforms
