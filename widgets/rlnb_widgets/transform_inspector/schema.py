"""Data model of a transform chain: boxes, changes of specs, and recorded data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ChangeKind = Literal["new", "removed", "changed", "same"]
What = Literal["reset", "step"]


@dataclass(frozen=True)
class Change:
    """What a box does to the spec of one entry.

    Args:
        key: the entry, as it is typed in code.
        kind: ``"new"``, ``"removed"``, ``"changed"`` or ``"same"``.
        before: the spec on the side of the base env; empty where there is none.
        after: the spec on the outer side; empty where there is none.
    """

    key: str
    kind: ChangeKind
    before: str
    after: str

    def text(self) -> str:
        """The change in one line.

        Example:
            >>> Change('"step_count"', "new", "", "int64 [1], [0, inf)").text()
            '"step_count" new: int64 [1], [0, inf)'
        """
        if self.kind == "changed":
            return f"{self.key} changed: {self.before} -> {self.after}"
        return f"{self.key} {self.kind}: {self.after or self.before}"


@dataclass(frozen=True)
class Picture:
    """A thumbnail, PNG.

    Args:
        data: the bytes of the file.
        width: in pixels.
        height: in pixels.
    """

    data: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Value:
    """One entry of the data between two boxes.

    Args:
        key: the entry, as it is typed in code.
        kind: what the box before, on the way of the data, did to it.
        form: dtype and shape, such as ``"float32 [4]"``.
        text: the first numbers, or the object.
        picture: a thumbnail where the entry is one.
    """

    key: str
    kind: ChangeKind
    form: str
    text: str
    picture: Picture | None = None


@dataclass(frozen=True)
class Moment:
    """One reset or step as it went through the chain.

    Args:
        what: ``"reset"`` or ``"step"``.
        label: ``"reset"``, ``"step 1"`` and so on.
        forward: the data below box 0, between boxes 0 and 1, ..., above the last; None where it did not arrive.
        inverse: the same places on the way in, which begins at the last one; all None where nothing is changed back.
        failed: the box in which it stopped, -1 for the base env, the number of boxes for the env around; None if it
            went through.
        backwards: whether it stopped on the way in.
        error: what was said.
    """

    what: What
    label: str
    forward: tuple[tuple[Value, ...] | None, ...]
    inverse: tuple[tuple[Value, ...] | None, ...]
    failed: int | None = None
    backwards: bool = False
    error: str = ""


@dataclass(frozen=True)
class Box:
    """One transform.

    Args:
        name: its class.
        code: where it is, such as ``env.transform[1]``.
        settings: its ``repr`` on one line.
        reads: the entries it reads on the way out.
        writes: the entries it writes there: its ``out_keys``, and what else is new or changed in the specs.
        inverse_reads: the entries it reads on the way in.
        inverse_writes: the entries it writes there.
        invertible: whether it changes anything on the way in.
        output: what it does to the spec of each entry that the env gives.
        input: what it does to the spec of each entry that the env takes.
        error: why the specs above it are not known.
    """

    name: str
    code: str
    settings: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    inverse_reads: tuple[str, ...]
    inverse_writes: tuple[str, ...]
    invertible: bool
    output: tuple[Change, ...]
    input: tuple[Change, ...]
    error: str = ""


@dataclass(frozen=True)
class InspectorModel:
    """Everything that the inspector shows.

    Args:
        env: the class of the base env.
        about: its ``repr`` on one line.
        boxes: the transforms, from the base env outwards.
        given: the specs of what the base env gives, all of kind ``"same"``.
        taken: the specs of what the base env takes.
        moments: what went through, in order.
        seed: the seed it was run with; None without one, and then no value is part of the text.
        note: why nothing was run.
    """

    env: str
    about: str
    boxes: tuple[Box, ...]
    given: tuple[Change, ...]
    taken: tuple[Change, ...]
    moments: tuple[Moment, ...] = ()
    seed: int | None = None
    note: str = ""
