"""Checks that actions fit their spec: the kind of a distribution when an actor is made, sizes on its first call."""

from __future__ import annotations

from typing import Any

import torch
from torch.distributions import Beta, Categorical, Distribution, Independent, Normal
from torch.distributions import OneHotCategorical as TorchOneHotCategorical

from rlnb.data.specs import categorical, multi
from rlnb.data.specs.base import TensorSpec
from rlnb.data.ted.keys import NestedKey
from rlnb.modules.distributions.continuous import TanhNormal
from rlnb.modules.distributions.discrete import MaskedOneHotCategorical, OneHotCategorical

ONE_HOT = (OneHotCategorical, MaskedOneHotCategorical, TorchOneHotCategorical)
CONTINUOUS = (Beta, Normal, TanhNormal)


def check_kind(distribution: Any, key: NestedKey, spec: TensorSpec | None) -> None:
    """Check that a distribution draws what a spec describes: indices, one-hot vectors or real numbers.

    Args:
        distribution: the class. Others than the known ones, and functions, are not checked.
        key: the entry that is drawn, for the error.
        spec: its spec.

    Raises:
        ValueError: If they do not fit.
    """
    if spec is None or not isinstance(distribution, type):
        return
    one_hot, indices = (multi.MultiOneHot, categorical.OneHot), (multi.MultiCategorical, categorical.Categorical)
    if issubclass(distribution, ONE_HOT):
        what = "draws one-hot vectors"
        fits = isinstance(spec, categorical.OneHot) or not isinstance(spec, (*one_hot, *indices))
    elif issubclass(distribution, Categorical):
        what, fits = "draws indices", not isinstance(spec, one_hot)
    elif issubclass(distribution, CONTINUOUS):
        what, fits = "draws real numbers", spec.domain != "discrete"
    else:
        return
    if what != "draws real numbers":
        fits = fits and spec.domain != "continuous"
    if fits:
        return
    if isinstance(spec, categorical.OneHot):
        fix = "distribution_class=OneHotCategorical, with in_keys=['logits']"
    elif isinstance(spec, multi.MultiOneHot):
        fix = "torch.distributions.Categorical for an env with MultiCategorical actions"
    elif spec.domain == "discrete":
        fix = "distribution_class=torch.distributions.Categorical, with in_keys=['logits']"
    else:
        fix = "distribution_class=TanhNormal, with in_keys=['loc', 'scale']"
    raise ValueError(
        f"The spec of {key!r} is a {type(spec).__name__} and {distribution.__name__} {what}, which the env would not "
        f"take. Fix: {fix}."
    )


def check_distribution(dist: Distribution, key: NestedKey, spec: TensorSpec | None) -> None:
    """Check that a distribution has as many components, or choices, as a spec.

    Raises:
        ValueError: If their numbers differ.
    """
    if spec is None:
        return
    base = dist.base_dist if isinstance(dist, Independent) else dist
    if isinstance(spec, categorical.Categorical) and isinstance(base, Categorical) and not isinstance(base, ONE_HOT):
        choices = base.param_shape[-1]
        if choices != spec.n:
            raise ValueError(
                f"The spec of {key!r} has {spec.n} choices, and the distribution has {choices}. Fix: a network with "
                f"{spec.n} outputs, one for the logit of each choice."
            )
        return
    check_size(key, dist.batch_shape + dist.event_shape, spec)


def check_size(key: NestedKey, shape: torch.Size, spec: TensorSpec | None) -> None:
    """Check that a value has as many components as its spec.

    Args:
        key: the entry, for the error.
        shape: shape of the value.
        spec: its spec; without dims it fits every value.

    Raises:
        ValueError: If the last dims differ.
    """
    if spec is None or not spec.shape or spec.shape[-1] < 0 or isinstance(spec, categorical.Categorical):
        return
    if not shape or shape[-1] != spec.shape[-1]:
        got = f"{shape[-1]}: its shape is {list(shape)}" if shape else "none: it is a single number"
        size = spec.shape[-1]
        twice = f", or 2 * {size} before a NormalParamExtractor" if spec.domain == "continuous" else ""
        raise ValueError(
            f"The spec of {key!r} has {size} components ({type(spec).__name__} of shape {list(spec.shape)}), and what "
            f"the module returns has {got}. Fix: a network whose last layer has {size} outputs{twice}."
        )
