"""Several pictures as one, one below the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, repr=False)
class Stacked:
    """Pictures that a check shows together; each has a text and HTML.

    Args:
        pictures: from top to bottom.
    """

    pictures: tuple[Any, ...]

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.pictures))

    def _repr_html_(self) -> str:
        return "".join(f"<div>{picture._repr_html_()}</div>" for picture in self.pictures)
