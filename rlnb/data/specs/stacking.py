"""``torch.stack`` of specs: a dense spec if they are equal, a lazy stack if they differ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb.data.specs.lazy_stack import LazyStack
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.stacked import Stacked
from rlnb.data.specs.stacked_composite import StackedComposite


def stack_specs(specs: Sequence[TensorSpec], dim: int = 0) -> Any:
    """Stack specs along a new dim, like ``torch.stack``.

    Args:
        specs: leaf specs of one class, or Composites of one shape.
        dim: the position of the new dim.

    Returns:
        A spec of their class if they are equal; a `Stacked` or `StackedComposite` otherwise.

    Raises:
        ValueError: If there are no specs, or they cannot be stacked.

    Example:
        >>> from rlnb.data import Categorical
        >>> stack_specs([Categorical(3), Categorical(3)]).shape
        torch.Size([2])
        >>> stack_specs([Categorical(3), Categorical(4)])
        StackedCategorical(
            shape=torch.Size([2]), device=cpu, dtype=torch.int64, domain=discrete)
    """
    if not specs:
        raise ValueError("torch.stack needs at least one spec, got none.")
    first, others = specs[0], specs[1:]
    if all(stacks_densely(first, other) for other in others):
        return first._stack(others, dim)
    lazy: Any = StackedComposite if isinstance(first, Composite) else Stacked
    return lazy(*specs, dim=dim)


def stacks_densely(first: Any, other: Any) -> bool:
    """Return whether the stack of two specs is a spec of the same class with one more dim.

    The example data of `NonTensor` is not compared: the stack gets that of the first spec.

    Example:
        >>> from rlnb.data import Bounded
        >>> stacks_densely(Bounded(0, 1, (2,)), Bounded(0, 2, (2,)))
        False
    """
    if type(first) is not type(other):
        return False
    if isinstance(first, NonTensor):
        return bool(first == other._with(example_data=first.example_data))
    if not isinstance(first, Composite) or isinstance(first, LazyStack):
        return bool(first == other)
    about = ("shape", "device", "data_cls", "_gives_tuple")
    return (
        all(getattr(first, name) == getattr(other, name) for name in about)
        and set(first.keys()) == set(other.keys())
        and all(stacks_densely(first[key], other[key]) for key in first.keys())  # noqa: SIM118 - iteration is over rows
    )


__all__ = ["stack_specs", "stacks_densely"]
