"""Conversion of specs from and to TorchRL, for programs that use both libraries.

TorchRL is optional and is imported only when a spec is converted to it.
"""

from __future__ import annotations

from typing import Any

from tensordict import is_tensor_collection

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.choice import Choice
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.stacked import LazyStack, Stacked
from rlnb.data.specs.stacked_composite import StackedComposite
from rlnb.data.specs.unbounded import Unbounded

__all__ = ["from_torchrl", "to_torchrl"]

_CONVERTIBLE = (
    *("Binary", "Bounded", "Categorical", "Choice", "Composite", "MultiCategorical", "MultiOneHot", "NonTensor"),
    *("OneHot", "Stacked", "StackedComposite", "Unbounded"),
)


def import_torchrl(needed_for: str) -> Any:
    """Return TorchRL's module ``torchrl.data``; raise an ``ImportError`` in the name of ``needed_for`` if it fails."""
    try:
        import torchrl.data
        import torchrl.data.tensor_specs
    except ImportError as error:
        raise ImportError(
            f"{needed_for} needs torchrl, which cannot be imported here ({error}). A release of torchrl works with one "
            "minor release of tensordict, so let pip choose both. Fix: pip install torchrl"
        ) from error
    return torchrl.data


def to_torchrl(spec: TensorSpec) -> Any:
    """Return the TorchRL spec of an rlnb spec.

    Shape, dtype, device, bounds, masks, members and the lock are kept. Two things that TorchRL's specs cannot hold are
    dropped: the Gymnasium space of a ``NonTensor``, and the ``start`` of a ``OneHot`` or ``MultiOneHot``, which only
    matters when vectors are written as integers.

    Args:
        spec: any spec of ``rlnb.data``. A spec of TorchRL is returned unchanged.

    Returns:
        A spec of ``torchrl.data`` that shares no memory with ``spec``.

    Raises:
        ImportError: If torchrl is not installed.
        TypeError: If ``spec`` is not a spec.
        ValueError: If TorchRL has no such spec: a ``Categorical`` or ``MultiCategorical`` that does not start at 0, a
            ``MultiCategorical`` of shape ``[]``, or a ``Choice`` with batch dims, each row of which chooses for itself.

    Example:
        >>> from rlnb.data import OneHot
        >>> to_torchrl(OneHot(4))  # doctest: +SKIP
        OneHot(
            shape=torch.Size([4]),
            space=CategoricalBox(n=4),
            device=cpu,
            dtype=torch.bool,
            domain=discrete)
    """
    torchrl = import_torchrl("to_torchrl")
    if isinstance(spec, torchrl.TensorSpec):
        return spec
    if not isinstance(spec, TensorSpec):
        raise TypeError(
            f"to_torchrl expects a spec of rlnb.data, got a {type(spec).__name__}. Fix: pass an env's spec, such as "
            "to_torchrl(env.action_spec)."
        )
    converted = _to(spec, torchrl)
    if isinstance(spec, Composite):
        _lock_like(spec, converted)
    return converted


def from_torchrl(spec: Any) -> TensorSpec:
    """Return the rlnb spec of a TorchRL spec: the inverse of ``to_torchrl``.

    Args:
        spec: any spec of ``torchrl.data``. A spec of rlnb is returned unchanged.

    Returns:
        A spec of ``rlnb.data`` that shares no memory with ``spec``. Subclasses of TorchRL's specs become the spec of
        the class that they extend.

    Raises:
        TypeError: If ``spec`` is not a spec, or has a dtype that rlnb's specs do not support, such as
            ``torch.uint16``.
        ValueError: If it is a ``Categorical`` whose number of choices is not set (``n=-1``).

    Example:
        >>> from torchrl.data import Bounded  # doctest: +SKIP
        >>> from_torchrl(Bounded(-1, 1, shape=(3,))).shape  # doctest: +SKIP
        torch.Size([3])
    """
    if isinstance(spec, TensorSpec):
        return spec
    converted = _from(spec)
    if isinstance(converted, Composite):
        _lock_like(spec, converted)
    return converted


# --- to TorchRL ------------------------------------------------------------------------------------------------------


def _to(spec: TensorSpec, torchrl: Any) -> Any:
    shape, device, dtype = spec.shape, spec.device, spec.dtype
    common = {"shape": shape, "device": device, "dtype": dtype}
    match spec:
        case StackedComposite() | Stacked():
            stack = torchrl.StackedComposite if isinstance(spec, StackedComposite) else torchrl.Stacked
            return stack(*[_to(member, torchrl) for member in spec.specs], dim=spec.stack_dim)
        case Composite():
            entries = {key: None if part is None else _to(part, torchrl) for key, part in spec.items()}
            return torchrl.Composite(entries, shape=shape, device=device, data_cls=spec.data_cls)
        case Unbounded():
            return torchrl.Unbounded(**common)
        case Bounded():
            return torchrl.Bounded(low=spec.low.clone(), high=spec.high.clone(), **common)
        case OneHot():
            return torchrl.OneHot(spec.n, mask=spec.mask, **common)
        case MultiOneHot():
            return torchrl.MultiOneHot(spec.nvec.flatten().tolist(), mask=spec.mask, **common)
        case Binary():
            return torchrl.Binary(**common)
        case Categorical():
            _refuse_start(spec, bool(spec.start))
            return torchrl.Categorical(spec.n, mask=spec.mask, **common)
        case MultiCategorical():
            _refuse_start(spec, bool(spec.start.any()))
            return _multi_to(spec, torchrl, common)
        case NonTensor():
            return torchrl.NonTensor(shape=shape, device=device, example_data=spec.example_data)
        case Choice():
            return _choice_to(spec, torchrl)
    raise TypeError(f"to_torchrl: TorchRL has no counterpart of {type(spec).__name__}.")


def _refuse_start(spec: TensorSpec, starts: bool) -> None:
    if starts:
        raise ValueError(
            f"to_torchrl: TorchRL's {type(spec).__name__} counts from 0, and this one starts at another number. "
            "One-hot vectors do not depend on the start. Fix: to_torchrl(spec.to_one_hot_spec())."
        )


def _multi_to(spec: MultiCategorical, torchrl: Any, common: dict[str, Any]) -> Any:
    if not spec.ndim:
        raise ValueError(
            "to_torchrl: TorchRL's MultiCategorical has at least one dim, and this one has shape []. "
            "Fix: to_torchrl(spec.unsqueeze(0))."
        )
    # TorchRL would draw a single choice without its dim.
    return torchrl.MultiCategorical(spec.nvec.clone(), mask=spec.mask, remove_singleton=False, **common)


def _choice_to(spec: Choice, torchrl: Any) -> Any:
    if spec.shape != spec.choices[0].shape:
        raise ValueError(
            f"to_torchrl: each row of this Choice of shape {list(spec.shape)} chooses for itself, and in TorchRL all "
            "rows take the same choice. Fix: convert the spec of one row, to_torchrl(spec[0])."
        )
    return torchrl.Choice([_to(choice, torchrl) for choice in spec.choices])


# --- from TorchRL ----------------------------------------------------------------------------------------------------


def _from(spec: Any) -> TensorSpec:
    # By class name, so that torchrl need not be imported here. Bases count too: users subclass these classes.
    names = [base.__name__ for base in type(spec).__mro__ if base.__module__.partition(".")[0] == "torchrl"]
    common: dict[str, Any] = {name: getattr(spec, name, None) for name in ("shape", "device", "dtype")}
    match next((name for name in names if name in _CONVERTIBLE), None):
        case "StackedComposite":
            members: Any = map(_from, spec.unbind(spec.stack_dim))
            return StackedComposite(*members, dim=spec.stack_dim)
        case "Stacked":
            return Stacked(*map(_from, spec.unbind(spec.stack_dim)), dim=spec.stack_dim)
        case "Composite":
            entries = {key: None if part is None else _from(part) for key, part in spec.items()}
            return Composite(entries, shape=spec.shape, device=spec.device, data_cls=spec.data_cls)
        case "Unbounded":
            return Unbounded(**common)
        case "Bounded":
            return Bounded(spec.space.low.clone(), spec.space.high.clone(), **common)
        case "Binary":
            return Binary(**common)
        case "MultiOneHot":
            return MultiOneHot([box.n for box in spec.space.boxes], mask=spec.mask, **common)
        case "OneHot":
            return OneHot(spec.space.n, mask=spec.mask, **common)
        case "MultiCategorical":
            return MultiCategorical(spec.nvec.clone(), mask=spec.mask, **common)
        case "Categorical" if spec.space.n < 1:
            raise ValueError(
                "from_torchrl: the number of choices of this Categorical is not set (n=-1). "
                "Fix: give it one, Categorical(n, shape=spec.shape)."
            )
        case "Categorical":
            return Categorical(spec.space.n, mask=spec.mask, **common)
        case "NonTensor":
            return NonTensor(shape=spec.shape, device=spec.device, example_data=spec.example_data)
        case "Choice":
            choices = spec._choices  # TorchRL has no public attribute for them
            return Choice([choice if is_tensor_collection(choice) else _from(choice) for choice in choices])
    raise TypeError(
        f"from_torchrl expects a spec of torchrl.data, got a {type(spec).__name__}. Fix: pass an env's spec, such "
        "as from_torchrl(env.action_spec)."
    )


# --- locks -----------------------------------------------------------------------------------------------------------


def _parts(spec: Any) -> list[Any]:
    """Return the Composites one level down, the members of a stack or the nested ones."""
    if isinstance(spec, LazyStack):
        return list(spec.specs)
    if hasattr(spec, "stack_dim"):
        return list(spec.unbind(spec.stack_dim))
    return [part for part in spec.values() if hasattr(part, "lock_")]


def _all_locked(spec: Any) -> bool:
    return bool(spec.is_locked) and all(map(_all_locked, _parts(spec)))


def _lock_like(spec: Any, converted: Any) -> None:
    """Lock a converted Composite, and those in it, as the original is."""
    if _all_locked(spec):
        converted.lock_()
        return
    for part, new in zip(_parts(spec), _parts(converted), strict=True):
        _lock_like(part, new)
    if spec.is_locked:
        converted.lock_(recurse=False)
