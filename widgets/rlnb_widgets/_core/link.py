"""Links between the playheads and selections of several visualizers, in the page and in Python."""

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
        #: By widget: the name that is shared, and the trait that takes part under it.
        self._own = {widget: _own_names(widget, widgets, names) for widget in widgets}
        for widget, own in self._own.items():
            widget.observe(self._spread, list(own.values()))
            entries = [[t, self._group] if t == name else [t, self._group, name] for name, t in own.items()]
            widget._links = [*widget._links, *entries]
        for name in names:
            leader = next(w for w in widgets if name in self._own[w])
            self._push(leader, name, getattr(leader, self._own[leader][name]))

    def _spread(self, change: traitlets.Bunch) -> None:
        owner = change["owner"]
        for name, own in self._own[owner].items():
            if own == change["name"]:
                self._push(owner, name, change["new"])

    def _push(self, source: Visualizer, name: str, value: Any) -> None:
        # A shorter timeline clamps what it is told; that must not move the others back, hence the flag.
        if self._busy:
            return
        self._busy = True
        try:
            for widget in self.widgets:
                own = self._own[widget].get(name)
                if widget is not source and own is not None and getattr(widget, own) != value:
                    setattr(widget, own, _fitting(widget, name, value))
        finally:
            self._busy = False

    def unlink(self) -> None:
        """Cut the tie; calling it again does nothing."""
        for widget in self.widgets:
            if any(entry[1] == self._group for entry in widget._links):
                widget.unobserve(self._spread, list(self._own[widget].values()))
                widget._links = [entry for entry in widget._links if entry[1] != self._group]

    def __repr__(self) -> str:
        """Return the kinds of the widgets and the traits they share."""
        return f"Link({', '.join(type(w).__name__ for w in self.widgets)}; {', '.join(self.names)})"


def _own_names(widget: Visualizer, widgets: tuple[Visualizer, ...], names: tuple[str, ...]) -> dict[str, str]:
    """Return the shared names that a visualizer takes part in, each with its own trait."""
    found = widget._link_names(LINKABLE, tuple(w for w in widgets if w is not widget))
    return {name: own for name, own in found.items() if name in names}


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
    own = {v: _own_names(v, distinct, LINKABLE) for v in distinct}
    has = {name: [v for v in distinct if name in own[v]] for name in LINKABLE}
    names = tuple(name for name in LINKABLE if len(has[name]) >= 2)
    for v in distinct:
        if not any(v in has[name] for name in names):
            raise ValueError(
                f"{type(v).__name__} shares nothing with the others that could be linked. Linkable are "
                f"{', '.join(LINKABLE)}; it has {', '.join(n for n in LINKABLE if v.has_trait(n)) or 'none of them'}."
            )
    return Link(distinct, names)
