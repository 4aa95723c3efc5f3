"""ShapeMethods: what every spec does with its dims like a tensor, and the torch functions that take specs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch

from rlnb.data.specs.normalize import as_sizes, leading_dim
from rlnb.data.specs.variable import TensorMap, map_size, shape_text

if TYPE_CHECKING:
    from rlnb.data.specs.base import TensorSpec


class ShapeMethods:
    """Reshaping of specs, in terms of `_mapped`, indexing, ``squeeze`` and ``unsqueeze``."""

    #: How many trailing dims hold one encoded choice, so that no shape operation may touch them.
    _event_dims: ClassVar[int] = 0
    _shape: torch.Size

    def _mapped(self, fn: TensorMap) -> Self:
        """Apply a shape operation, given as a function of a tensor that begins with the spec's leading shape."""
        raise NotImplementedError(f"{type(self).__name__} must define _mapped or its own reshaping.")

    def reshape(self, *shape: Any) -> Self:
        """Return the spec of the same entries in another shape.

        Args:
            *shape: the whole new shape; one -1 stands for what is left. The dim of a one-hot encoding stays last.

        Raises:
            ValueError: the number of entries differs, or the encoding would be torn apart.

        Example:
            >>> from rlnb.data import Bounded, OneHot
            >>> Bounded(0, 1, shape=(2, 6)).reshape(3, -1).shape
            torch.Size([3, 4])
            >>> OneHot(4, shape=(2, 3, 4)).reshape(6, 4).shape
            torch.Size([6, 4])
        """
        sizes, count = as_sizes(shape), len(self._shape) - self._event_dims
        lead, event = sizes[: len(sizes) - self._event_dims], sizes[len(sizes) - self._event_dims :]
        own = self._shape[:count]
        try:
            if event != tuple(self._shape[count:]):
                raise RuntimeError
            if -1 not in own:
                # Without the dims that an entry of a Composite has beyond, -1 always has one meaning.
                lead = tuple(map_size(lambda tensor: tensor.reshape(lead), own))
            return self._mapped(lambda tensor: tensor.reshape((*lead, *tensor.shape[count:])))
        except RuntimeError:
            ending = f" ending with {list(self._shape[count:])}, the encoding" if self._event_dims else ""
            raise ValueError(
                f"{type(self).__name__} of shape {shape_text(self._shape)} does not reshape to {list(sizes)}: give a "
                f"shape of as many entries{ending}."
            ) from None

    def view(self, *shape: Any) -> Self:
        """Return the spec of the same entries in another shape (another name of `reshape`)."""
        return self.reshape(*shape)

    def flatten(self, start_dim: int = 0, end_dim: int = -1) -> Self:
        """Return the spec with the dims from ``start_dim`` to ``end_dim``, both included, merged into one.

        Raises:
            IndexError: there is no such dim, or it holds the encoding.
            ValueError: the last dim comes before the first, or a variable dim cannot be merged.

        Example:
            >>> from rlnb.data import Unbounded
            >>> Unbounded((2, 3, 4)).flatten(0, 1).shape
            torch.Size([6, 4])
        """
        who = f"{type(self).__name__}.flatten"
        first = leading_dim(start_dim, len(self._shape), self._event_dims, who)
        last = leading_dim(end_dim, len(self._shape), self._event_dims, who)
        if first > last:
            raise ValueError(f"{who}: start_dim {start_dim} comes after end_dim {end_dim}. Swap them.")
        return self._mapped(lambda tensor: tensor.flatten(first, last))

    def unflatten(self, dim: int, sizes: Sequence[int]) -> Self:
        """Return the spec with the dim ``dim`` split into dims of these sizes, one of which may be -1.

        Raises:
            IndexError: there is no such dim, or it holds the encoding.
            ValueError: the sizes do not multiply to the dim's.

        Example:
            >>> from rlnb.data import Unbounded
            >>> Unbounded((6, 4)).unflatten(0, (2, 3)).shape
            torch.Size([2, 3, 4])
        """
        who = f"{type(self).__name__}.unflatten"
        at = leading_dim(dim, len(self._shape), self._event_dims, who)
        try:
            return self._mapped(lambda tensor: tensor.unflatten(at, tuple(sizes)))
        except RuntimeError:
            raise ValueError(
                f"{who}: dim {dim} of the shape {shape_text(self._shape)} does not split into {list(sizes)}: the sizes "
                "must multiply to its own."
            ) from None

    def unbind(self, dim: int = 0) -> tuple[Self, ...]:
        """Return the specs along the dim ``dim``, as ``torch.Tensor.unbind`` does with tensors.

        Raises:
            IndexError: there is no such dim, or it holds the encoding.
            ValueError: the dim is of variable size.

        Example:
            >>> from rlnb.data import Bounded
            >>> [int(spec.high) for spec in Bounded([0, 0], [1, 5]).unbind()]
            [1, 5]
        """
        at = leading_dim(dim, len(self._shape), self._event_dims, f"{type(self).__name__}.unbind")
        if self._shape[at] == -1:
            raise ValueError(f"{type(self).__name__}.unbind: dim {dim} is of variable size: {shape_text(self._shape)}.")
        return tuple(self[(*[slice(None)] * at, i)] for i in range(self._shape[at]))

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> Any: ...

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Let ``torch.stack``, ``torch.squeeze``, ``torch.unsqueeze`` and ``torch.index_select`` work on specs."""
        handler = _TORCH_FUNCTIONS.get(func)
        return NotImplemented if handler is None else handler(*args, **(kwargs or {}))


def _stack_specs(tensors: Sequence[TensorSpec], dim: int = 0) -> TensorSpec:
    # Stacks are made of all kinds of specs, which are made of this class.
    from rlnb.data.specs.stacking import stack_specs

    return stack_specs(tensors, dim)


def _squeeze(input: TensorSpec, dim: int | None = None) -> TensorSpec:
    return input.squeeze(dim)


def _unsqueeze(input: TensorSpec, dim: int) -> TensorSpec:
    return input.unsqueeze(dim)


def _index_select(input: TensorSpec, dim: int, index: torch.Tensor) -> TensorSpec:
    at = leading_dim(dim, input.ndim, input._event_dims, "torch.index_select")
    selected: TensorSpec = input[(*[slice(None)] * at, index)]
    return selected


_TORCH_FUNCTIONS: dict[Any, Callable[..., TensorSpec]] = {
    torch.stack: _stack_specs,
    torch.squeeze: _squeeze,
    torch.unsqueeze: _unsqueeze,
    torch.index_select: _index_select,
}
