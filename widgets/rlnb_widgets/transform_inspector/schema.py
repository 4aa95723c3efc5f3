"""Data model of a transform chain: boxes, changes of specs, and recorded data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ChangeKind = Literal["new", "removed", "changed", "same"]
What = Literal["reset", "step"]


@dataclass(frozen=True)
class Change:
    """A change of the spec of one entry by a box.

    Args:
        key: key of the entry, as Python code.
        kind: ``"new"``, ``"removed"``, ``"changed"`` or ``"same"``.
        before: the spec on the side of the base env; empty if there is none.
        after: the spec on the outer side; empty if there is none.
    """

    key: str
    kind: ChangeKind
    before: str
    after: str

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
class Picture:
    """A thumbnail as PNG.

    Args:
        data: bytes of the PNG file.
        width: width in pixels.
        height: height in pixels.
    """

    data: bytes
    width: int
    height: int


@dataclass(frozen=True)
class Value:
    """One entry of the data between two boxes.

    Args:
        key: key of the entry, as Python code.
        kind: change by the box that the data just passed.
        form: dtype and shape, such as ``"float32 [4]"``.
        text: the first numbers, or the object as text.
        picture: thumbnail of an image; None for other entries.
    """

    key: str
    kind: ChangeKind
    form: str
    text: str
    picture: Picture | None = None


@dataclass(frozen=True)
class Moment:
    """One reset or step on its way through the chain.

    Args:
        what: ``"reset"`` or ``"step"``.
        label: ``"reset"``, ``"step 1"`` and so on.
        forward: the data below box 0, between boxes 0 and 1, ..., above the last box; None where data did not arrive.
        inverse: the data at the same places on the way in, from the last to the first; all None without inverses.
        failed: the box that failed, -1 for the base env, the number of boxes for the outer env; None without a failure.
        backwards: whether it failed on the way in.
        error: text of the error.
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
        name: name of its class.
        code: code that reads it, such as ``env.transform[1]``.
        settings: its ``repr`` on one line.
        reads: entries that it reads on the way out.
        writes: entries that it writes on the way out: its ``out_keys``, and others whose specs are new or changed.
        inverse_reads: entries that it reads on the way in.
        inverse_writes: entries that it writes on the way in.
        invertible: whether it changes data on the way in.
        output: change of the spec of each output of the env.
        input: change of the spec of each input of the env.
        error: the reason if the specs above it are not known.
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
    """The data that the inspector shows.

    Args:
        env: name of the class of the base env.
        about: its ``repr`` on one line.
        boxes: the transforms, from the base env outwards.
        given: specs of the outputs of the base env, all of kind ``"same"``.
        taken: specs of its inputs.
        moments: the resets and steps, in order.
        seed: the seed. None: no seed; then the text contains no values.
        note: the reason if nothing was run.
    """

    env: str
    about: str
    boxes: tuple[Box, ...]
    given: tuple[Change, ...]
    taken: tuple[Change, ...]
    moments: tuple[Moment, ...] = ()
    seed: int | None = None
    note: str = ""
