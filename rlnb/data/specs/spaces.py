"""Conversion of specs to Gymnasium spaces and back."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.choice import Choice
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.leaf import LeafSpec
from rlnb.data.specs.maskable import index_dtype
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.normalize import SUPPORTED_DTYPES, Device
from rlnb.data.specs.stacked import LazyStack
from rlnb.data.specs.unbounded import Unbounded
from rlnb.data.specs.variable import shape_text


def spec_from_space(space: Any, *, device: Device = None, categorical: bool = False) -> TensorSpec:
    """Return the spec of a Gymnasium space.

    ============================  =====================================================
    space                         spec
    ============================  =====================================================
    ``Box``, float, no bounds     ``Unbounded``
    ``Box``, other                ``Bounded``
    ``Discrete``                  ``OneHot``, or ``Categorical`` with ``categorical``
    ``MultiDiscrete``             ``MultiOneHot``, or ``MultiCategorical`` with ``categorical``
    ``MultiBinary``               ``Binary``
    ``Dict``                      ``Composite`` of the same keys
    ``Tuple``                     ``Composite`` of the keys ``"0", "1", ...``
    ``OneOf``                     ``Choice`` of Composites with the member's number ``"0"`` and its value ``"1"``
    ``Text, Sequence, Graph``     ``NonTensor`` with the space
    ============================  =====================================================

    Every spec has the dtype of its space, including one-hot vectors. ``space_from_spec`` returns an equal space, except
    that keys of a ``Dict`` become strings. ``spec.encode(space.sample())`` is in the spec, and ``spec.to_numpy(...)``
    of it is in the space.

    Args:
        space: the Gymnasium space.
        device: the device of the values; torch's default device if None.
        categorical: whether choices are integers instead of one-hot vectors.

    Raises:
        TypeError: If there is no spec for the space.

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
        kind = Categorical if categorical else OneHot
        return kind(int(space.n), dtype=_torch_dtype(space), start=int(space.start), **options)
    if isinstance(space, spaces.MultiDiscrete):
        several = MultiCategorical if categorical else MultiOneHot
        return several(space.nvec, dtype=_torch_dtype(space), start=space.start, **options)
    if isinstance(space, spaces.MultiBinary):
        spec = Binary(shape=space.shape, dtype=_torch_dtype(space), **options)
        spec._size_in_list = not isinstance(space.n, (int, np.integer))
        return spec
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        return _from_members(space, device, categorical)
    if isinstance(space, spaces.OneOf):
        members = [spec_from_space(member, device=device, categorical=categorical) for member in space.spaces]
        numbers = [Categorical(1, start=i, device=device) for i in range(len(members))]
        parts = zip(numbers, members, strict=True)
        return Choice([Composite({"0": number, "1": member}, device=device) for number, member in parts])
    if isinstance(space, (spaces.Text, spaces.Sequence, spaces.Graph)):
        return NonTensor(shape=(), device=device, space=space)
    raise TypeError(
        f"there is no spec for a {type(space).__name__} space. Convertible: Box, Discrete, MultiDiscrete, MultiBinary, "
        "Dict, Tuple, OneOf, Text, Sequence, Graph. Wrap the environment so that its data has one of these."
    )


def _from_members(space: Any, device: Device, categorical: bool) -> Composite:
    is_dict = hasattr(space.spaces, "items")
    parts = list(space.spaces.items() if is_dict else enumerate(space.spaces))
    names = [str(key) for key, _ in parts]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise TypeError(
            f"there is no spec for a Dict space in which two keys become {twice!r}: the keys of a Composite are "
            "strings. Rename one of them."
        )
    members = {str(key): spec_from_space(part, device=device, categorical=categorical) for key, part in parts}
    spec = Composite(members, device=device)
    spec._as_tuple = not is_dict
    return spec


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
    """Return the Gymnasium space of a spec: the inverse of ``spec_from_space``.

    A one-hot vector becomes a ``Discrete``, and a spec of several choices a ``MultiDiscrete``. A ``Composite`` whose
    keys are exactly ``"0", "1", ...`` becomes a ``Tuple`` (unless it was made from a ``Dict``), any other a ``Dict``
    without the entries that are None. A lazy stack becomes the ``Tuple`` of its members. ``spec.to_numpy(value)`` is in
    the space for every value of the spec.

    Args:
        spec: the spec.

    Raises:
        TypeError: If there is no space for the spec.

    Example:
        >>> space_from_spec(OneHot(3, start=1))
        Discrete(3, start=1)
    """
    from gymnasium import spaces

    if isinstance(spec, LeafSpec) and -1 in spec.shape:
        raise TypeError(
            f"there is no Gymnasium space for a {type(spec).__name__} of shape {shape_text(spec.shape)}: a space has "
            "no dims of variable size. Give the dim its largest size, and pad the data to it."
        )
    if isinstance(spec, (Bounded, Unbounded)):
        box = spec.space
        # NumPy has no bfloat16. float32 holds all of its numbers.
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
        return spaces.MultiBinary(spec.shape[0] if spec.ndim == 1 and not spec._size_in_list else list(spec.shape))
    if isinstance(spec, LazyStack):
        return spaces.Tuple(tuple(space_from_spec(member) for member in spec.specs))
    if isinstance(spec, Composite):
        parts = {key: space_from_spec(part) for key, part in spec.items() if part is not None}
        return spaces.Tuple(tuple(parts.values())) if spec._gives_tuple else spaces.Dict(parts)
    if isinstance(spec, Choice):
        return spaces.OneOf(tuple(space_from_spec(member) for member in _numbered_members(spec)))
    if isinstance(spec, NonTensor):
        if spec.space is not None and not spec.shape:
            return copy.deepcopy(spec.space)
        lack = (
            f"is of shape {list(spec.shape)}: index a row" if spec.space is not None else "does not describe its data"
        )
        raise TypeError(
            f"there is no Gymnasium space for a NonTensor that {lack}. Describe the data of one row: "
            "NonTensor(shape=(), space=gymnasium.spaces.Text(...))."
        )
    raise TypeError(
        f"there is no Gymnasium space for a {type(spec).__name__}. Convertible: Bounded, Unbounded, Categorical, "
        "OneHot, MultiCategorical, MultiOneHot, Binary, Composite, Choice, Stacked, StackedComposite, NonTensor."
    )


def _numbered_members(spec: Choice) -> list[TensorSpec]:
    """Return the members of a ``Choice`` whose values contain the number of the member, like Gymnasium's ``OneOf``."""
    members = []
    for i, choice in enumerate(spec.choices):
        number = choice.get("0") if isinstance(choice, Composite) and choice.keys() == ["0", "1"] else None
        if spec.ndim or not isinstance(number, Categorical) or (number.n, number.start) != (1, i):
            raise TypeError(
                "there is no Gymnasium space for this Choice: a OneOf value also contains the number of its member. "
                'Make each choice a Composite of shape () with the keys "0" and "1": '
                f'Composite({{"0": Categorical(1, start={i}), "1": spec}}).'
            )
        members.append(choice["1"])
    return members


def _numpy_dtype(spec: Categorical | OneHot | MultiCategorical) -> Any:
    # Gymnasium's Discrete takes only integers.
    dtype = spec._index_dtype() if isinstance(spec, OneHot) else index_dtype(spec._dtype, 0, 0)
    return torch.zeros(0, dtype=dtype).numpy().dtype.type
