"""What the constructor of a buffer is given: components or functions that make them, sizes, dimensions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase, is_tensorclass
from torch.utils import _pytree as pytree

from rlnb.data.replay_buffers import faults
from rlnb.data.replay_buffers.samplers import ConsumingSampler, RandomSampler, Sampler
from rlnb.data.replay_buffers.storages import Storage
from rlnb.data.replay_buffers.writers import Writer

C = TypeVar("C")


def component(name: str, base: Any, given: C | Callable[[], C] | None, default: Callable[[], C]) -> C:
    """Return a component of a buffer.

    Args:
        name: of the argument.
        base: the class that it must have.
        given: the component, a function that makes it (such as its class), or None.
        default: makes it where None was given.

    Returns:
        The component.

    Raises:
        TypeError: if it is something else.
    """
    if given is None:
        return default()
    made: Any = given
    if isinstance(given, type):
        try:
            inspect.signature(given).bind()
        except TypeError as error:
            raise TypeError(faults.component_needs_arguments(name, given.__name__, error)) from None
    if not isinstance(given, base) and callable(given):
        made = given()
    if not isinstance(made, base):
        raise TypeError(faults.no_component(name, base.__name__, given))
    return made


def batch_size(value: Any) -> int:
    """Check a batch size.

    Args:
        value: the batch size.

    Returns:
        The same, as an integer.

    Raises:
        ValueError: if it is no positive integer.
    """
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 1:
        raise ValueError(faults.bad_batch_size(value))
    return int(value.__index__())


def check(prefetch: Any, collate_fn: Any, generator: Any) -> None:
    """Check what would otherwise be noticed when the first batch is drawn.

    Args:
        prefetch: how many batches to prepare ahead, or None.
        collate_fn: a function, or None.
        generator: a ``torch.Generator``, or None.

    Raises:
        TypeError: if one is of another kind.
        ValueError: if ``prefetch`` is no number of batches.
    """
    if prefetch is not None and (isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 0):
        raise ValueError(faults.bad_prefetch(prefetch))
    if collate_fn is not None and not callable(collate_fn):
        raise TypeError(faults.not_a_function("collate_fn", collate_fn))
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(faults.no_generator(generator))


# Options of TorchRL that choose where a buffer runs, each with the values that mean "in this process".
_IN_THIS_PROCESS: dict[str, tuple[Any, ...]] = {
    "service_backend": (None, "direct"),
    "service_backend_options": (None, {}),
    "transport": (None, "auto", "direct"),
    "transport_options": (None, {}),
}
_SIZES = ("capacity", "size", "max_size", "buffer_size")
_NAMES = (
    "storage, sampler, writer, collate_fn, pin_memory, prefetch, transform, transform_factory, batch_size, dim_extend, "
    "checkpointer, generator, consume_after_n_samples, shared, compilable, delayed_init"
)


def check_options(kind: str, args: Sequence[Any], compilable: bool | None, options: dict[str, Any]) -> None:
    """Refuse options that a buffer does not have, or values that it cannot keep.

    Args:
        kind: the class of the buffer.
        args: arguments without a name; there must be none.
        compilable: whether its methods shall work inside of ``torch.compile``.
        options: arguments by names that the constructor does not list.

    Raises:
        NotImplementedError: If TorchRL has such an option, and this library does not.
        TypeError: If there is no such option, or an argument has no name.
    """
    if args:
        name = next((name for name, base in _KINDS.items() if isinstance(args[0], base)), "storage")
        raise TypeError(
            f"{kind} takes arguments by name, and got {len(args)} without. Fix: {kind}({name}={_written(args[0])})."
        )
    if compilable:
        raise NotImplementedError(
            f"compilable=True asks for a {kind} that torch.compile can trace, and this one takes locks and reads NumPy "
            "views, which cannot be traced. Fix: leave compilable out, and sample outside of the compiled function."
        )
    for name, value in options.items():
        if name in _IN_THIS_PROCESS:
            if value not in _IN_THIS_PROCESS[name]:
                raise NotImplementedError(
                    f"{name}={value!r} asks for a {kind} in another process, and buffers of this library live in their "
                    f"own. Fix: leave {name} out; LazyMemmapStorage shares elements between processes of one machine."
                )
        elif name == "sample_unit":
            if value is not None:
                raise NotImplementedError(
                    "sample_unit chooses what one sample is, and a sample of this library is an element. Fix: leave it "
                    "out, and use sampler=SliceSampler(slice_len=8) for pieces of trajectories."
                )
        else:
            size = value if isinstance(value, int) and not isinstance(value, bool) else 1000
            fix = f" Fix: {kind}(storage=LazyTensorStorage({size}))." if name in _SIZES else ""
            raise TypeError(f"{kind} got an unexpected argument {name!r}. It takes: {_NAMES}.{fix}")


_KINDS: dict[str, type] = {"storage": Storage, "sampler": Sampler, "writer": Writer, "batch_size": int}


def _written(value: Any) -> str:
    """How a value may be written in code."""
    return repr(value) if isinstance(value, int) else f"{type(value).__name__}(...)"


def consuming(count: int, sampler: Any) -> Sampler:
    """Make the sampler of a buffer whose elements are drawn a fixed number of times.

    Args:
        count: how often each is drawn.
        sampler: what was given beside it, or None.

    Returns:
        The sampler.

    Raises:
        ValueError: If the sampler given is another one, or the count is not an integer of at least 1.
    """
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(faults.bad_size("consume_after_n_samples", count))
    if sampler is None or sampler is RandomSampler or type(sampler) is RandomSampler:
        return ConsumingSampler(count)
    if isinstance(sampler, ConsumingSampler) and sampler.max_sample_count == count:
        return sampler
    raise ValueError(
        f"consume_after_n_samples={count} chooses the sampler, and got another one: {sampler!r}. "
        "Fix: leave sampler or consume_after_n_samples out."
    )


def free_writer(writer: Writer, storage: Storage) -> None:
    """Refuse a writer that writes to another storage: its buffer would write to this one from then on.

    Args:
        writer: the writer.
        storage: where it shall write.

    Raises:
        ValueError: if it is taken.
    """
    if writer._storage is not None and writer._storage is not storage:
        raise ValueError(faults.busy_writer(type(writer).__name__))


def free_sampler(sampler: Sampler, storage: Storage) -> None:
    """Refuse a sampler that remembers elements of another storage.

    Args:
        sampler: the sampler.
        storage: where it shall choose.

    Raises:
        ValueError: if it is taken.
    """
    other = sampler._of() if sampler._taken and sampler._of is not None else None
    if sampler.of_one_storage and other is not None and other is not storage:
        raise ValueError(faults.busy_sampler(type(sampler).__name__))


def swap_dims(data: Any, dim: int) -> Any:
    """Swap the first dimension of data with another.

    Args:
        data: a tensor, TensorDict or PyTree of these.
        dim: the other dimension.

    Returns:
        The data, whose tensors are views.

    Example:
        >>> swap_dims({"a": torch.zeros(2, 3, 4)}, 1)["a"].shape
        torch.Size([3, 2, 4])
    """
    if isinstance(data, (torch.Tensor, TensorDictBase)) or is_tensorclass(data):
        return data.transpose(0, dim)
    return pytree.tree_map(lambda part: swap_dims(part, dim), data, is_leaf=_has_dims)


def _has_dims(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, TensorDictBase)) or is_tensorclass(value)
