"""Conversion of specs from and to Gymnasium spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical
from rlnb.data.specs.composite import Composite, is_tuple_keys
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.specs.normalize import SUPPORTED_DTYPES, Device
from rlnb.data.specs.one_hot import OneHot
from rlnb.data.specs.unbounded import Unbounded


def spec_from_space(space: Any, *, device: Device = None, categorical: bool = False) -> TensorSpec:
    """Return the spec of a Gymnasium space.

    ============================  =====================================================
    space                         spec
    ============================  =====================================================
    ``Box``, float, no bounds     `Unbounded`
    ``Box``, other                `Bounded`
    ``Discrete``                  `OneHot`, or `Categorical` with ``categorical``
    ``MultiDiscrete``             `MultiOneHot`, or `MultiCategorical` with ``categorical``
    ``MultiBinary``               `Binary`
    ``Dict``                      `Composite` of the same keys
    ``Tuple``                     `Composite` of the keys ``"0", "1", ...``
    ============================  =====================================================

    Every spec has the dtype of its space, one-hot vectors included.

    Args:
        space: the Gymnasium space.
        device: where the values live; torch's default device when None.
        categorical: whether choices are integers instead of one-hot vectors.

    Raises:
        TypeError: there is no spec for the space.

    Example:
        >>> from gymnasium.spaces import Discrete
        >>> spec_from_space(Discrete(3), categorical=True).n
        3
    """
    from gymnasium import spaces

    options: dict[str, Any] = {"device": device}
    if isinstance(space, spaces.Box):
        return _from_box(space, device)
    if isinstance(space, spaces.Discrete):
        if categorical:
            return Categorical(int(space.n), dtype=_torch_dtype(space), start=int(space.start), **options)
        return OneHot(int(space.n), dtype=_torch_dtype(space), start=int(space.start), **options)
    if isinstance(space, spaces.MultiDiscrete):
        if categorical:
            return MultiCategorical(space.nvec, dtype=_torch_dtype(space), start=space.start, **options)
        return MultiOneHot(space.nvec, dtype=_torch_dtype(space), start=space.start, **options)
    if isinstance(space, spaces.MultiBinary):
        return Binary(shape=space.shape, dtype=_torch_dtype(space), **options)
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        parts = space.spaces.items() if isinstance(space, spaces.Dict) else enumerate(space.spaces)
        return Composite(
            {str(key): spec_from_space(part, device=device, categorical=categorical) for key, part in parts},
            device=device,
        )
    raise TypeError(
        f"there is no spec for a {type(space).__name__} space. Convertible: Box, Discrete, MultiDiscrete, MultiBinary, "
        "Dict, Tuple. Wrap the environment so that its data has one of these, or use NonTensor for what is no tensor."
    )


def _torch_dtype(space: Any) -> torch.dtype:
    try:
        dtype = torch.from_numpy(np.zeros(0, space.dtype)).dtype
    except TypeError:
        dtype = None
    if dtype not in SUPPORTED_DTYPES:
        names = ", ".join(str(d).removeprefix("torch.") for d in SUPPORTED_DTYPES)
        raise TypeError(
            f"there is no spec for a {type(space).__name__} of dtype {space.dtype}. Supported: {names}. "
            "Wrap the environment so that its data has one of these."
        )
    return dtype


def _from_box(space: Any, device: Device) -> TensorSpec:
    dtype = _torch_dtype(space)
    if dtype.is_floating_point and np.isneginf(space.low).all() and np.isposinf(space.high).all():
        return Unbounded(space.shape, device=device, dtype=dtype)
    low, high = (torch.from_numpy(np.array(bound, copy=True)) for bound in (space.low, space.high))
    return Bounded(low, high, shape=space.shape, device=device, dtype=dtype)


def space_from_spec(spec: TensorSpec) -> Any:
    """Return the Gymnasium space of a spec: the inverse of `spec_from_space`.

    One-hot vectors become the integers that Gymnasium uses, and a spec of several of them a ``MultiDiscrete``. A
    `Composite` whose keys are exactly ``"0", "1", ...`` becomes a ``Tuple``, any other a ``Dict``; entries that are
    None are left out. ``spec.to_numpy(value)`` is in the space for every value of the spec.

    Args:
        spec: the spec.

    Raises:
        TypeError: there is no space for the spec.

    Example:
        >>> space_from_spec(OneHot(3, start=1))
        Discrete(3, start=1)
    """
    from gymnasium import spaces

    if isinstance(spec, (Bounded, Unbounded)):
        box = spec.space
        # numpy has no bfloat16; float32 holds all of its numbers.
        low, high = ((b.float() if b.dtype == torch.bfloat16 else b).cpu().numpy() for b in (box.low, box.high))
        return spaces.Box(low, high, shape=tuple(spec.shape), dtype=low.dtype.type)
    if isinstance(spec, (Categorical, OneHot)):
        dtype = _numpy_dtype(spec)
        shape = tuple(spec.shape) if isinstance(spec, Categorical) else tuple(spec.shape[:-1])
        if not shape:
            return spaces.Discrete(spec.n, start=spec.start, dtype=dtype)
        return spaces.MultiDiscrete(np.full(shape, spec.n), dtype=dtype, start=np.full(shape, spec.start))
    if isinstance(spec, MultiOneHot):
        return space_from_spec(spec.to_categorical_spec().to(spec._index_dtype()))
    if isinstance(spec, MultiCategorical):
        nvec, start = spec.nvec.cpu().numpy().copy(), spec.start.cpu().numpy().copy()
        return spaces.MultiDiscrete(nvec, dtype=_numpy_dtype(spec), start=start)
    if isinstance(spec, Binary):
        return spaces.MultiBinary(spec.shape[0] if spec.ndim == 1 else list(spec.shape))
    if isinstance(spec, Composite):
        parts = {key: space_from_spec(part) for key, part in spec.items() if part is not None}
        return spaces.Tuple(tuple(parts.values())) if is_tuple_keys(list(parts)) else spaces.Dict(parts)
    raise TypeError(
        f"there is no Gymnasium space for a {type(spec).__name__}. Convertible: Bounded, Unbounded, Categorical, "
        "OneHot, MultiCategorical, MultiOneHot, Binary, Composite."
    )


def _numpy_dtype(spec: Categorical | OneHot | MultiCategorical) -> Any:
    dtype = spec._index_dtype() if isinstance(spec, OneHot) else spec.dtype
    # Gymnasium's Discrete takes no booleans.
    return torch.zeros(0, dtype=torch.int64 if dtype == torch.bool else dtype).numpy().dtype.type
