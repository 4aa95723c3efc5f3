"""Arguments of the constructor of a replay buffer: components, options of TorchRL, sizes and dimensions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from tensordict import TensorDictBase, is_tensorclass
from torch.utils import _pytree as pytree

from rlnb.data.replay_buffers import errors
from rlnb.data.replay_buffers.samplers.base import Sampler
from rlnb.data.replay_buffers.samplers.uniform import ConsumingSampler, RandomSampler
from rlnb.data.replay_buffers.storages.base import Storage
from rlnb.data.replay_buffers.writers import Writer

C = TypeVar("C")
_EXAMPLES = {"storage": "LazyTensorStorage(1000)", "sampler": "RandomSampler()", "writer": "RoundRobinWriter()"}

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


def component(name: str, base: Any, given: C | Callable[[], C] | None, default: Callable[[], C]) -> C:
    """Return a component of a buffer: ``given``, what it makes if it is a function such as a class, or the default."""
    if given is None:
        return default()
    made: Any = given
    if isinstance(given, type):
        try:
            inspect.signature(given).bind()
        except TypeError as error:
            raise TypeError(
                f"{name} is the class {given.__name__}, which cannot be made without arguments ({error}). "
                f"Fix: {name}={_EXAMPLES[name] if name == 'storage' else f'{given.__name__}(...)'}."
            ) from None
    if not isinstance(given, base) and callable(given):
        made = given()
    if not isinstance(made, base):
        what = f"class {given.__name__}" if isinstance(given, type) else type(given).__name__
        raise TypeError(
            f"{name} must be a {base.__name__} or a function that makes one, and got: {what}. "
            f"Fix: {name}={_EXAMPLES[name]}."
        )
    return made


def positive_batch_size(value: Any) -> int:
    """Return a batch size as an ``int``; raises ``ValueError`` if it is not a positive integer."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value.__index__() < 1:
        raise ValueError(f"The batch size must be an integer of at least 1, and got {value!r}. Fix: such as 32.")
    return int(value.__index__())


def check_types(prefetch: Any, collate_fn: Any, generator: Any) -> None:
    """Reject arguments that would otherwise fail only when the first batch is drawn."""
    if prefetch is not None and (isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 0):
        raise ValueError(
            "prefetch is the number of batches to prepare ahead, an integer of at least 0, and got "
            f"{prefetch!r}. Fix: prefetch=2."
        )
    if collate_fn is not None and not callable(collate_fn):
        raise TypeError(f"collate_fn must be a function, and got: {type(collate_fn).__name__}.")
    if generator is not None and not isinstance(generator, torch.Generator):
        raise TypeError(
            f"generator must be a torch.Generator, and got: {type(generator).__name__}. "
            "Fix: generator=torch.Generator().manual_seed(0)."
        )


def check_supported(kind: str, args: Sequence[Any], compilable: bool | None, options: dict[str, Any]) -> None:
    """Reject unknown options, and options of TorchRL with a value that is not supported."""
    if args:
        kinds: dict[str, type] = {"storage": Storage, "sampler": Sampler, "writer": Writer, "batch_size": int}
        name = next((name for name, base in kinds.items() if isinstance(args[0], base)), "storage")
        value = repr(args[0]) if isinstance(args[0], int) else f"{type(args[0]).__name__}(...)"
        raise TypeError(
            f"{kind} takes keyword arguments only, and got {len(args)} positional. Fix: {kind}({name}={value})."
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
                    f"{name}={value!r} asks for a {kind} in another process, and buffers of this library live in the "
                    f"process that makes them. Fix: leave {name} out; LazyMemmapStorage shares items between the "
                    "processes of one machine."
                )
        elif name == "sample_unit":
            if value is not None:
                raise NotImplementedError(
                    "sample_unit chooses what one sample is, and a sample of this library is an item. Fix: leave it "
                    "out, and use sampler=SliceSampler(slice_len=8) for pieces of trajectories."
                )
        else:
            size = value if isinstance(value, int) and not isinstance(value, bool) else 1000
            fix = f" Fix: {kind}(storage=LazyTensorStorage({size}))." if name in _SIZES else ""
            raise TypeError(f"{kind} got an unexpected argument {name!r}. It takes: {_NAMES}.{fix}")


def consuming_sampler(count: int, sampler: Any) -> Sampler:
    """Return the sampler of a buffer with ``consume_after_n_samples=count``; rejects a ``sampler`` of another kind."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(errors.bad_size("consume_after_n_samples", count))
    if sampler is None or sampler is RandomSampler or type(sampler) is RandomSampler:
        return ConsumingSampler(count)
    if isinstance(sampler, ConsumingSampler) and sampler.max_sample_count == count:
        return sampler
    raise ValueError(
        f"consume_after_n_samples={count} chooses the sampler, and got another one: {sampler!r}. "
        "Fix: leave sampler or consume_after_n_samples out."
    )


def swap_dims(data: Any, dim: int) -> Any:
    """Swap the first dimension of a tensor, TensorDict or PyTree with another one; the tensors are views."""
    if _has_dims(data):
        return data.transpose(0, dim)
    return pytree.tree_map(lambda part: swap_dims(part, dim), data, is_leaf=_has_dims)


def _has_dims(value: Any) -> bool:
    return isinstance(value, (torch.Tensor, TensorDictBase)) or is_tensorclass(value)
