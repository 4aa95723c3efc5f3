"""Ties playheads and selections of several visualizers: in the page without a round trip, and in Python too."""

from __future__ import annotations

import uuid
from typing import Any

import traitlets

from rlnb_widgets._core.visualizer import Visualizer

__all__ = ["LINKABLE", "Link", "link"]

#: Names of traits that linking shares, where both visualizers have them.
LINKABLE: tuple[str, ...] = ("t", "playing", "speed", "loop", "range", "selected_env", "selection")


class Link:
    """What `link` returns: the tie between some visualizers, until `unlink` is called.

    Attributes:
        widgets: The visualizers.
        names: The traits they share through this link.
    """

    def __init__(self, widgets: tuple[Visualizer, ...], names: tuple[str, ...]) -> None:
        self.widgets, self.names = widgets, names
        # Several notebooks can live in one page: the name of the group must be unique over all their kernels.
        self._group = uuid.uuid4().hex
        self._busy = False
        self._entries = [[name, self._group] for name in names]
        for widget in widgets:
            own = [entry for entry in self._entries if widget.has_trait(entry[0])]
            widget.observe(self._spread, [entry[0] for entry in own])
            widget._links = [*widget._links, *own]
        for name in names:
            leader = next(w for w in widgets if w.has_trait(name))
            self._push(leader, name, getattr(leader, name))

    def _spread(self, change: traitlets.Bunch) -> None:
        self._push(change["owner"], change["name"], change["new"])

    def _push(self, source: Visualizer, name: str, value: Any) -> None:
        # A shorter timeline clamps what it is told; that must not move the others back, hence the flag.
        if self._busy:
            return
        self._busy = True
        try:
            for widget in self.widgets:
                if widget is not source and widget.has_trait(name) and getattr(widget, name) != value:
                    setattr(widget, name, _fitting(widget, name, value))
        finally:
            self._busy = False

    def unlink(self) -> None:
        """Cut the tie; calling it again does nothing."""
        for widget in self.widgets:
            names = [name for name in self.names if widget.has_trait(name)]
            if any(entry[1] == self._group for entry in widget._links):
                widget.unobserve(self._spread, names)
                widget._links = [entry for entry in widget._links if entry[1] != self._group]

    def __repr__(self) -> str:
        """Return the kinds of the widgets and the traits they share."""
        return f"Link({', '.join(type(w).__name__ for w in self.widgets)}; {', '.join(self.names)})"


def _fitting(widget: Visualizer, name: str, value: Any) -> Any:
    """Return a range cut to what a shorter timeline has, None where nothing is left of it."""
    length = getattr(widget, "length", None)
    if name != "range" or value is None or length is None:
        return value
    start, stop = value[0], min(value[1], length)
    return (start, stop) if start < stop else None


def link(*visualizers: Visualizer) -> Link:
    """Tie playheads and selections of visualizers, so that moving one moves all.

    The first visualizer's values are taken over by the others. Where lengths differ, each stays within its own range.

    Args:
        *visualizers: Two or more.

    Returns:
        The tie; ``.unlink()`` cuts it.

    Raises:
        TypeError: If something is not a visualizer of this package.
        ValueError: If fewer than two are given, or one shares nothing with the others.

    Example:
        >>> from rlnb_widgets._core.timeline import Timeline
        >>> a, b = Timeline(10), Timeline(5)
        >>> tie = link(a, b)
        >>> a.t = 3
        >>> b.t
        3
        >>> tie.unlink()
    """
    for v in visualizers:
        if not isinstance(v, Visualizer):
            raise TypeError(f"link ties visualizers of rlnb_widgets, got {type(v).__name__}.")
    distinct = tuple(dict.fromkeys(visualizers))
    if len(distinct) < 2:
        raise ValueError(f"link needs at least two different visualizers, got {len(distinct)}.")
    has = {name: [v for v in distinct if v.has_trait(name)] for name in LINKABLE}
    names = tuple(name for name in LINKABLE if len(has[name]) >= 2)
    for v in distinct:
        if not any(v in has[name] for name in names):
            raise ValueError(
                f"{type(v).__name__} shares nothing with the others that could be linked. Linkable are "
                f"{', '.join(LINKABLE)}; it has {', '.join(n for n in LINKABLE if v.has_trait(n)) or 'none of them'}."
            )
    return Link(distinct, names)
