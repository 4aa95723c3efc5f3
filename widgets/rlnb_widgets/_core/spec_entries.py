"""List of all entries of a spec."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rlnb.data.specs.base import TensorSpec
from rlnb.data.specs.composite import Composite
from rlnb_widgets._core.dims import Dim

Path = tuple[str, ...]


@dataclass(frozen=True)
class SpecEntry:
    """One entry as found in the spec."""

    path: Path  #: its keys, ``"[0]"`` and so on for members of a stack; empty for the spec itself
    spec: Any  #: the spec; None for a key without one
    node: bool  #: whether it has entries itself
    code: str  #: code that reads it
    #: its shape, with the batch dimensions of the whole spec, those of nested specs, and features
    dims: tuple[Dim, ...]


def spec_and_name(value: Any, name: str = "spec") -> tuple[Any, str]:
    """Return a spec, or the specs of an environment, and its name in code.

    Raises:
        TypeError: If it is neither.
    """
    if isinstance(value, TensorSpec):
        return value, name
    specs = getattr(value, "specs", None)
    if isinstance(specs, TensorSpec):
        return specs, "env.specs"
    raise TypeError(
        f"{name} must be a spec of rlnb.data such as env.observation_spec, or an environment, got "
        f"{type(value).__name__}."
        + (" Wrap the dict: Composite(specs)." if isinstance(value, dict) else "")
        + (" Convert the space: spec_from_space(space)." if hasattr(value, "contains") else "")
    )


@dataclass(frozen=True)
class _Part:
    key: str
    spec: Any
    code: str  # suffix to the code of the parent
    dropped: int = 0  # number of leading dimensions of the parent that it lacks


def parts_of(spec: Any) -> list[_Part] | None:
    """Return the entries, members of a stack or choices directly below a spec; None for a leaf."""
    if isinstance(spec, TensorSpec) and isinstance(getattr(spec, "specs", None), tuple):  # Stacked, StackedComposite
        before = ":, " * int(spec.stack_dim)  # type: ignore[attr-defined]
        return [_Part(f"[{i}]", part, f"[{before}{i}]", 1) for i, part in enumerate(spec.specs)]  # type: ignore[attr-defined]
    choices = getattr(spec, "choices", None)
    if isinstance(choices, (list, tuple)) and all(isinstance(choice, TensorSpec) for choice in choices):
        return [
            _Part(f"[{i}]", part, f".choices[{i}]", len(spec.shape) - len(part.shape)) for i, part in enumerate(choices)
        ]
    if isinstance(spec, Composite):
        return [_Part(str(key), part, f"[{json.dumps(str(key), ensure_ascii=False)}]") for key, part in spec.items()]
    return None


def spec_entries(spec: Any, name: str = "spec") -> Iterator[SpecEntry]:
    """Yield the entry of the spec and of everything below it, parents before children, in the order of the spec.

    Example:
        >>> from rlnb.data import Unbounded
        >>> [entry.code for entry in spec_entries(Composite(a=Composite(b=Unbounded(1))))]
        ['spec', 'spec["a"]', 'spec["a", "b"]']
    """
    root = len(spec.shape) if isinstance(spec, Composite) else 0
    yield from _walk(_Part("", spec, name), (), "", root, root)


def _walk(here: _Part, path: Path, before: str, root: int, own: int) -> Iterator[SpecEntry]:
    spec, parts = here.spec, parts_of(here.spec)
    # nested keys share a pair of brackets
    joined = before.endswith('"]') and here.code.startswith('["')
    code = f"{before[:-1]}, {here.code[1:]}" if joined else f"{before}{here.code}"
    named = len(spec.shape) if isinstance(spec, Composite) else own
    yield SpecEntry(path, spec, parts is not None, code, _dims(spec, root, named))
    for part in parts or ():
        less = (max(root - part.dropped, 0), max(named - part.dropped, 0))
        yield from _walk(part, (*path, part.key), code, *less)


def _dims(spec: Any, root: int, own: int) -> tuple[Dim, ...]:
    shape = getattr(spec, "shape", ())
    return tuple(Dim("batch" if i < root else "nested" if i < own else "feature", int(n)) for i, n in enumerate(shape))
