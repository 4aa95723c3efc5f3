"""Data as they travel to the page: marks of one look write down only what is their own, and bytes are deflated."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rlnb_widgets._core.display import Display, Mark

#: What marks of one look have in common: their kind, their colour, and the names of their attributes.
_Key = tuple[Any, ...]


def deflated(blob: bytes) -> bytes:
    """Return bytes as they travel to the page, which inflates them (``inflated`` of ``data.js``)."""
    # Higher levels save 3% more at most, and take up to seven times as long.
    return zlib.compress(blob, 1)


def _as_json(value: Any, _widget: Any) -> bytes:
    # A lone surrogate of a name becomes the escape that JSON has for it.
    return deflated((value if isinstance(value, str) else json.dumps(value)).encode(errors="backslashreplace"))


#: Metadata of a trait that travels as deflated JSON, which ``arrived`` of ``data.js`` reads: a value, or its JSON.
AS_JSON = {"sync": True, "to_json": _as_json}


def packed(displays: Mapping[str, Display]) -> dict[str, Any]:
    """Return display lists whose marks are ``[look, *values]``, which ``unpacked`` of ``paint.js`` undoes.

    A look is what all of its marks have in common, with the names of their other attributes.

    Example:
        >>> display = Display(20)
        >>> display.text(0, 12, "one", fill="muted")
        >>> display.text(0, 24, "two", fill="muted")
        >>> packed({"list": display})["looks"]
        [[{'kind': 'text', 'x': 0, 'fill': 'muted'}, 'y', 'text']]
        >>> packed({"list": display})["lists"]
        {'list': {'height': 20.0, 'marks': [[0, 12, 'one'], [0, 24, 'two']]}}
    """
    lists = {name: display.payload() for name, display in displays.items()}
    alike: dict[_Key, list[Mark]] = {}
    for found in lists.values():
        for mark in _all_marks(found["marks"]):
            alike.setdefault(_key(mark), []).append(mark)
    looks = {key: (i, *_look(marks)) for i, (key, marks) in enumerate(alike.items())}

    def pack(mark: Mark) -> list[Any]:
        number, _, names = looks[_key(mark)]
        return [number, *([pack(inner) for inner in mark[name]] if name == "marks" else mark[name] for name in names)]

    return {
        "looks": [[common, *names] for _, common, names in looks.values()],
        "lists": {
            name: {"height": found["height"], "marks": [pack(mark) for mark in found["marks"]]}
            for name, found in lists.items()
        },
    }


class Alike:
    """What parts of a payload have alike, written down once.

    Example:
        >>> alike = Alike()
        >>> [alike.without({"kind": "leaf", "key": key}, ["kind"]) for key in "ab"]
        [{'alike': 0, 'key': 'a'}, {'alike': 0, 'key': 'b'}]
        >>> alike.parts
        [{'kind': 'leaf'}]
    """

    def __init__(self) -> None:
        self.parts: list[dict[str, Any]] = []
        self._numbers: dict[str, int] = {}

    def without(self, part: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
        """Return a part without the entries of these names, whose number among `parts` it has as ``alike``."""
        common = {name: part[name] for name in names if name in part}
        number = self._numbers.setdefault(str(common), len(self.parts))
        if number == len(self.parts):
            self.parts.append(common)
        return {"alike": number, **{name: value for name, value in part.items() if name not in common}}


def _all_marks(marks: Sequence[Mark]) -> Iterator[Mark]:
    for mark in marks:
        yield mark
        yield from _all_marks(mark.get("marks", ()))


def _key(mark: Mark) -> _Key:
    return mark["kind"], mark.get("fill"), *mark


def _look(marks: Sequence[Mark]) -> tuple[Mark, list[str]]:
    """Return what some marks with the same attributes have in common, and the names of the other attributes."""
    first = marks[0]
    names = [name for name in first if name == "marks" or any(mark[name] != first[name] for mark in marks)]
    return {name: value for name, value in first.items() if name not in names}, names
