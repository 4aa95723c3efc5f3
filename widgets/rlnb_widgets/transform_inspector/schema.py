"""Data model of a transform chain: boxes, changes of specs, and recorded data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ChangeKind = Literal["new", "removed", "changed", "same"]
What = Literal["reset", "step"]


@dataclass(frozen=True)
class Change:
    """A change of the spec of one entry by a box."""

    key: str  #: key of the entry, as Python code
    kind: ChangeKind  #: ``"new"``, ``"removed"``, ``"changed"`` or ``"same"``
    before: str  #: the spec on the side of the base env; empty if there is none
    after: str  #: the spec on the outer side; empty if there is none

    def text(self) -> str:
        """Return the change in one line.

        Example:
            >>> Change('"step_count"', "new", "", "int64 [1], [0, inf)").text()
            '"step_count" new: int64 [1], [0, inf)'
        """
        if self.kind == "changed":
            return f"{self.key} changed: {self.before} -> {self.after}"
        return f"{self.key} {self.kind}: {self.after or self.before}"


@dataclass(frozen=True)
class Thumbnail:
    """A thumbnail as PNG."""

    data: bytes  #: bytes of the PNG file
    width: int  #: width in pixels
    height: int  #: height in pixels


@dataclass(frozen=True)
class Value:
    """One entry of the data between two boxes."""

    key: str  #: key of the entry, as Python code
    kind: ChangeKind  #: change by the box that the data just passed
    form: str  #: dtype and shape, such as ``"float32 [4]"``
    text: str  #: the first numbers, or the object as text
    picture: Thumbnail | None = None  #: thumbnail of an image; None for other entries


@dataclass(frozen=True)
class Moment:
    """One reset or step on its way through the chain."""

    what: What  #: ``"reset"`` or ``"step"``
    label: str  #: ``"reset"``, ``"step 1"`` and so on
    #: the data below box 0, between boxes 0 and 1, ..., above the last box; None where data did not arrive
    forward: tuple[tuple[Value, ...] | None, ...]
    #: the data at the same places on the way in, from the last to the first; all None without inverses
    inverse: tuple[tuple[Value, ...] | None, ...]
    #: the box that failed, -1 for the base env, the number of boxes for the outer env; None without a failure
    failed: int | None = None
    backwards: bool = False  #: whether it failed on the way in
    error: str = ""  #: text of the error


@dataclass(frozen=True)
class Box:
    """One transform."""

    name: str  #: name of its class
    code: str  #: code that reads it, such as ``env.transform[1]``
    settings: str  #: its ``repr`` on one line
    reads: tuple[str, ...]  #: entries that it reads on the way out
    #: entries that it writes on the way out: its ``out_keys``, and others whose specs are new or changed
    writes: tuple[str, ...]
    inverse_reads: tuple[str, ...]  #: entries that it reads on the way in
    inverse_writes: tuple[str, ...]  #: entries that it writes on the way in
    invertible: bool  #: whether it changes data on the way in
    output: tuple[Change, ...]  #: change of the spec of each output of the env
    input: tuple[Change, ...]  #: change of the spec of each input of the env
    error: str = ""  #: the reason if the specs above it are not known


@dataclass(frozen=True)
class InspectorModel:
    """The data that the inspector shows."""

    env: str  #: name of the class of the base env
    about: str  #: its ``repr`` on one line
    boxes: tuple[Box, ...]  #: the transforms, from the base env outwards
    given: tuple[Change, ...]  #: specs of the outputs of the base env, all of kind ``"same"``
    taken: tuple[Change, ...]  #: specs of its inputs
    moments: tuple[Moment, ...] = ()  #: the resets and steps, in order
    seed: int | None = None  #: the seed. None: no seed; then the text contains no values.
    note: str = ""  #: the reason if nothing was run
