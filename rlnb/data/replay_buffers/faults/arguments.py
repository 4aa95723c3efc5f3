"""What replay buffers say about the arguments they are made with."""

from __future__ import annotations

from collections.abc import Sequence

from rlnb.data.replay_buffers.faults.text import listed

_COMPONENTS = {"storage": "LazyTensorStorage(1000)", "sampler": "RandomSampler()", "writer": "RoundRobinWriter()"}


def bad_size(name: str, value: object) -> str:
    """Say that a number of elements is none."""
    fix = f" Fix: {name}={int(value)}." if isinstance(value, float) and value >= 1 and value.is_integer() else ""
    return f"{name} must be an integer of at least 1, and got {value!r}.{fix}"


def component_needs_arguments(name: str, kind: str, cause: TypeError) -> str:
    """Say that a class was given where it cannot make a component by itself."""
    return (
        f"{name} is the class {kind}, which cannot be made without arguments ({cause}). "
        f"Fix: {name}={_COMPONENTS[name] if name == 'storage' else f'{kind}(...)'}."
    )


def busy_writer(kind: str) -> str:
    """Say that a writer writes to one storage."""
    return (
        f"This {kind} writes for another buffer, which would then write here. Fix: a writer of its own for each buffer."
    )


def busy_sampler(kind: str) -> str:
    """Say that a sampler knows the elements of one storage."""
    return (
        f"This {kind} samples for another buffer, and would take the elements of one for those of the other. "
        "Fix: a sampler of its own for each buffer."
    )


def bad_prefetch(value: object) -> str:
    """Say what can be prefetched."""
    return (
        "prefetch is how many batches are prepared ahead, an integer of at least 0, and got "
        f"{value!r}. Fix: prefetch=2."
    )


def not_a_function(name: str, got: object) -> str:
    """Say that something cannot be called."""
    return f"{name} must be a function, and got: {type(got).__name__}."


def no_generator(got: object) -> str:
    """Say that something is no source of randomness."""
    return (
        f"generator must be a torch.Generator, and got: {type(got).__name__}. "
        "Fix: generator=torch.Generator().manual_seed(0)."
    )


def no_component(name: str, base: str, got: object) -> str:
    """Say that a component of a buffer is none."""
    what = f"class {got.__name__}" if isinstance(got, type) else type(got).__name__
    return f"{name} must be a {base} or a function that makes one, and got: {what}. Fix: {name}={_COMPONENTS[name]}."


def bad_dim_extend(value: object, ndim: int) -> str:
    """Say which dimensions data can be appended along."""
    return (
        f"dim_extend must be from 0 to {ndim - 1} for a storage with ndim={ndim}, and got {value!r}. "
        "It is the dimension along which new data is appended, usually time, the last one."
    )


def container_too_small(size: int, lead: Sequence[int]) -> str:
    """Say that a container has fewer elements than asked for."""
    return f"max_size is {size}, and the storage given has room for {list(lead)} elements. Fix: leave max_size out."


def no_container(got: object) -> str:
    """Say that there is no memory to take."""
    return (
        f"TensorStorage takes the memory to write to, a tensor, TensorDict or PyTree of tensors, and got: "
        f"{type(got).__name__}. Fix: LazyTensorStorage(1000), which makes its own memory for 1000 elements."
    )


def only_cpu(device: object) -> str:
    """Say that files are mapped into main memory only."""
    return (
        f"Files are mapped into the memory of the CPU, and the device given is {device}. "
        'Fix: device="cpu", and move samples: buffer.sample().to("cuda").'
    )


def other_state(kind: str, state: object, max_size: int) -> str:
    """Say that a state belongs to another storage."""
    found = "no dictionary"
    if isinstance(state, dict):
        found = f"{state.get('length')} elements, saved with room for {state.get('max_size')}"
    return (
        f"The state does not fit this {kind} with room for {max_size} elements: it has {found}. Nothing was changed. "
        "Fix: load it into a storage of the kind and size that it was saved from, empty or with data of the same keys, "
        "shapes and dtypes."
    )


def no_buffer_state(state: object) -> str:
    """Say that something is not the state of a buffer."""
    got = type(state).__name__
    if isinstance(state, dict):
        got = f"a dictionary with the keys {listed(list(state))}" if state else "an empty dictionary"
    return (
        "The state of a buffer is a dictionary with the keys '_storage', '_writer', '_sampler', and got: "
        f"{got}. Nothing was changed. Fix: buffer.load_state_dict(other.state_dict())."
    )


def other_component_state(name: str, kind: str, cause: Exception) -> str:
    """Say that the state of a sampler or a writer is that of another kind."""
    return (
        f"The state does not fit the {name} of this buffer, a {kind} ({type(cause).__name__}: {cause}). Nothing was "
        f"changed. Fix: load it into a buffer with a {name} like that of the buffer that it was saved from."
    )


def unknown_reduction(got: object, legal: Sequence[str]) -> str:
    """Say which reductions there are."""
    return f"There is no reduction {got!r}. There are {listed(legal)}."


def negative_argument(name: str, value: object) -> str:
    """Say that a number must not be negative."""
    return f"{name} must be a number of at least 0, and got {value!r}."


def no_transform(what: object) -> str:
    """Say that something cannot transform data."""
    name = what.__name__ if isinstance(what, type) else type(what).__name__
    hint = f"an instance, {name}(...)" if isinstance(what, type) else "a Transform or a function of the data"
    hint = "one for all, Compose(*transforms)" if isinstance(what, (list, tuple)) else hint
    got = f"the class {name}" if isinstance(what, type) else name
    return f"A transform must be callable, and got: {got}. Fix: give {hint}."


def no_place(index: int, length: int) -> str:
    """Say that there is no such place in a row of transforms."""
    return f"There is no place {index} among {length} transforms. Fix: a number from {-length} to {length}."
