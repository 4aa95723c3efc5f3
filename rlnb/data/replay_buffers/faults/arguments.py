"""What replay buffers say about the arguments they are made with."""

from __future__ import annotations

from collections.abc import Sequence

from rlnb.data.replay_buffers.faults.text import listed

_COMPONENTS = {"storage": "LazyTensorStorage(1000)", "sampler": "RandomSampler()", "writer": "RoundRobinWriter()"}


def bad_size(name: str, value: object) -> str:
    """Say that a number of elements is none."""
    return f"{name} must be an integer of at least 1, and got {value!r}."


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


def only_cpu(device: object) -> str:
    """Say that files are mapped into main memory only."""
    return (
        f"Files are mapped into the memory of the CPU, and the device given is {device}. "
        'Fix: device="cpu", and move samples: buffer.sample().to("cuda").'
    )


def other_state(kind: str, state: object, max_size: int) -> str:
    """Say that a state belongs to another storage."""
    found = f"{state.get('length')} elements" if isinstance(state, dict) else "no dictionary"
    return (
        f"The state does not fit this {kind} with room for {max_size} elements: it has {found}. Nothing was changed. "
        "Fix: load it into a storage of the kind and size that it was saved from."
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
    got = f"the class {name}" if isinstance(what, type) else name
    return f"A transform must be callable, and got: {got}. Fix: give {hint}."


def no_place(index: int, length: int) -> str:
    """Say that there is no such place in a row of transforms."""
    return f"There is no place {index} among {length} transforms. Fix: a number from {-length} to {length}."
