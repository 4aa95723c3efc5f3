"""Violations: every way in which a tensor or a TensorDict does not fit its spec, with a fix for each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import torch

if TYPE_CHECKING:
    from rlnb.data.specs.base import TensorSpec

Kind = Literal["missing", "extra", "type", "shape", "dtype", "device", "domain"]


def format_number(value: float | int | bool) -> str:
    """Format a number: ``-1.0`` as ``-1``, floats with six digits."""
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def format_vector(vector: torch.Tensor) -> str:
    """Format a vector: booleans as 0 and 1, floats with four digits, at most eight entries."""
    shown = [int(v) if isinstance(v, bool) else float(f"{v:.4g}") for v in vector[:8].tolist()]
    text = ", ".join(f"{v:g}" for v in shown)
    return f"[{text}, ...]" if len(vector) > 8 else f"[{text}]"


def format_key(key: tuple[str, ...]) -> str:
    """Format a key as a user types it: a name, or a tuple of names. The root is ``value``."""
    if not key:
        return "value"
    return key[0] if len(key) == 1 else str(key)


@dataclass(frozen=True)
class Violation:
    """One way in which data does not fit its spec.

    Args:
        key: the key of the entry, as names from the root; empty for the data itself.
        kind: what is wrong.
        expected: what the spec requires.
        got: what the data has.
        index: the first index of the tensor at which a value is outside the domain.
        value: the number at that index, if it is a number.
        fix: a sentence that says how to fix it.
        member: the member of a lazy stack that contains the entry; several numbers for nested stacks, the outermost
            first. ``index`` then refers to the member's own tensor.

    Example:
        >>> from rlnb.data import Bounded
        >>> print(Bounded(-1, 1, shape=(2,)).violations(torch.tensor([0.0, 3.5]))[0])
        value: 3.5 at index (1,) is outside [-1, 1]. Clip it with spec.project(value), or widen the bounds of the spec.
    """

    key: tuple[str, ...]
    kind: Kind
    expected: str
    got: str
    index: tuple[int, ...] | None = None
    value: float | int | bool | None = None
    fix: str = ""
    member: tuple[int, ...] = ()

    def in_member(self, member: int) -> Violation:
        """Return the violation as one of a member of a lazy stack."""
        return replace(self, member=(member, *self.member))

    def __str__(self) -> str:
        where = format_key(self.key)
        if self.member:
            where += f" in member {', '.join(map(str, self.member))}"
        if self.kind == "missing":
            text = f"{where}: missing, expected {self.expected}."
        elif self.kind == "extra":
            text = f"{where}: not in the spec, which has {self.expected}."
        elif self.kind == "domain":
            text = f"{where}: {self.got} is outside {self.expected}."
        else:
            text = f"{where}: expected {self.kind} {self.expected}, got {self.got}."
        return f"{text} {self.fix}" if self.fix else text


@dataclass(frozen=True)
class Frame:
    """The dims that data has in addition to those of its spec: leading dims, and a time dim after the batch dims.

    Args:
        lead: the sizes in front of the spec's shape; None to infer them from the data.
        time_at: the number of the spec's dims that come before the time dim; None without a time dim.
        steps: the length of the time dim; None to infer it from the data.

    Example:
        >>> Frame(torch.Size([4]), time_at=0).expected(torch.Size([3]), torch.Size([4, 7, 3]))
        torch.Size([4, 7, 3])
    """

    lead: torch.Size | None = None
    time_at: int | None = None
    steps: int | None = None

    def expected(self, shape: torch.Size, got: torch.Size) -> torch.Size:
        """Return the shape that data of shape ``got`` should have if its spec has ``shape``. Variable dims stay -1."""
        timed = self.time_at is not None
        lead = self.lead
        if lead is None:
            lead = got[: max(len(got) - len(shape) - timed, 0)]
        if self.time_at is None:
            return torch.Size((*lead, *shape))
        at = len(lead) + self.time_at
        steps = self.steps if self.steps is not None else got[at] if len(got) > at else 1
        return torch.Size((*lead, *shape[: self.time_at], steps, *shape[self.time_at :]))

    def bind(self, shape: torch.Size, got: torch.Size) -> Frame:
        """Return the frame with sizes inferred from ``got``, the batch size of data whose spec has ``shape``."""
        whole = self.expected(shape, got)
        lead = whole[: len(whole) - len(shape) - (self.time_at is not None)]
        return Frame(lead, self.time_at, None if self.time_at is None else whole[len(lead) + self.time_at])

    def of_member(self, dim: int) -> Frame:
        """Return the frame of a member of a lazy stack along the dim ``dim`` of its spec."""
        if self.time_at is None or dim >= self.time_at:
            return self
        return Frame(self.lead, self.time_at - 1, self.steps)

    def stack_position(self, dim: int) -> int:
        """Return the position in the data of the dim ``dim`` of its spec."""
        lead = 0 if self.lead is None else len(self.lead)
        return lead + dim + (self.time_at is not None and dim >= self.time_at)

    def time_position(self, ndim: int, spec_ndim: int) -> int | None:
        """Return the position of the time dim in a tensor of ``ndim`` dims whose spec has ``spec_ndim``."""
        return None if self.time_at is None else ndim - spec_ndim - 1 + self.time_at


def violations(spec: TensorSpec, data: Any, *, leading: int | None = None, time_dim: bool = False) -> list[Violation]:
    """List every way in which ``data`` does not fit ``spec``.

    Args:
        spec: a leaf spec, or a Composite of shape ``[*batch]``.
        data: a tensor for a leaf, a TensorDict for a Composite.
        leading: the number of dims that ``data`` must have in front of the spec's shape; None for any number.
        time_dim: whether ``data`` has a time dim after the spec's batch dims, like the data of a rollout:
            ``[*batch, T, *feature]`` if the spec has ``[*batch, *feature]``. The batch dims are the shape of a
            Composite. A leaf has none, so that its time dim is a leading one.

    Returns:
        The violations, in the order of the spec's keys; extra keys of the data come last at each level. The list is
        empty if the data fits. ``spec.is_in(data)`` ignores extra keys.

    Example:
        >>> from rlnb.data import Bounded, Composite, OneHot
        >>> spec = Composite(observation=Bounded(-1, 1, shape=(2,)), action=OneHot(3))
        >>> data = spec.rand((4,))
        >>> violations(spec, data)
        []
        >>> del data["action"]
        >>> for violation in violations(spec, data):
        ...     print(violation)
        action: missing, expected a tensor of shape [4, 3] and dtype torch.bool. Write it before returning the data.
    """
    time_at = None
    if time_dim:
        time_at = spec.ndim if spec.domain == "composite" else 0
    lead = None
    if leading is not None:
        shape = getattr(data, "shape", torch.Size(()))
        lead = torch.Size((*shape[:leading], *[1] * (leading - len(shape))))
    return spec._violations(data, (), Frame(lead, time_at))
