"""Specs of libraries that describe their data as dm_env does: dm_control, Melting Pot and Jumanji."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.unbounded import Unbounded


def spec_from_dm_env(
    spec: Any, *, device: torch.device | None = None, categorical: bool = False, number_shape: Sequence[int] = ()
) -> TensorSpec:
    """Return the spec of values that dm_env describes.

    ==================================  ======================================================
    dm_env                              spec
    ==================================  ======================================================
    a dictionary of specs               ``Composite`` of the same keys
    ``DiscreteArray``                   ``OneHot``, or ``Categorical`` with ``categorical``
    ``MultiDiscreteArray`` (Jumanji)    ``MultiOneHot``, or ``MultiCategorical`` with ``categorical``
    ``BoundedArray``                    ``Bounded``; ``Unbounded`` if no bound is finite
    ``StringArray``                     ``NonTensor``
    ``Array``                           ``Unbounded``
    any array of bool                   ``Binary``
    ==================================  ======================================================

    Args:
        spec: a spec, or a dictionary of specs, which may be nested.
        device: the device of the values; torch's default device if None.
        categorical: whether choices are integers instead of one-hot vectors.
        number_shape: the shape of a value that is a single number. Default: none, ``[]``.

    Example:
        >>> from types import SimpleNamespace
        >>> described = SimpleNamespace(shape=(2,), dtype=np.float64, minimum=-1.0, maximum=[1.0, 2.0])
        >>> spec_from_dm_env({"torque": described})["torque"].dtype
        torch.float64
    """
    if isinstance(spec, Mapping):
        options: Any = {"device": device, "categorical": categorical, "number_shape": number_shape}
        return Composite({str(key): spec_from_dm_env(v, **options) for key, v in spec.items()}, device=device)
    if np.dtype(spec.dtype).kind in "OSU":
        return NonTensor(shape=spec.shape, device=device)
    dtype = torch.from_numpy(np.empty(0, spec.dtype)).dtype
    values = getattr(spec, "num_values", None)
    if values is not None:
        sizes = np.asarray(values)
        if sizes.ndim:
            return (MultiCategorical if categorical else MultiOneHot)(sizes.tolist(), dtype=dtype, device=device)
        return (Categorical if categorical else OneHot)(int(sizes), dtype=dtype, device=device)
    shape = tuple(spec.shape or number_shape)
    if hasattr(spec, "minimum"):
        low, high = (np.broadcast_to(np.asarray(b, spec.dtype), shape) for b in (spec.minimum, spec.maximum))
        if dtype is not torch.bool and (np.isfinite(low).any() or np.isfinite(high).any()):
            return Bounded(torch.tensor(low), torch.tensor(high), shape=shape, dtype=dtype, device=device)
    if dtype is torch.bool:
        return Binary(shape=shape, dtype=dtype, device=device)
    return Unbounded(shape=shape, dtype=dtype, device=device)
