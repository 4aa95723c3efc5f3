"""Links between the playheads and selections of several visualizers, in the page and in Python."""

from __future__ import annotations

import uuid
from typing import Any

import traitlets

from rlnb_widgets._core.visualizer import Visualizer

#: Names of traits that linking shares, where both visualizers have them.
LINKABLE: tuple[str, ...] = ("t", "playing", "speed", "loop", "range", "selected_env", "selection")


class Link:
    """A link between visualizers, as `link` returns it, in effect until `unlink` is called.

    Attributes:
        widgets: The visualizers.
        names: The traits that are shared.
    """

    def __init__(self, widgets: tuple[Visualizer, ...], names: tuple[str, ...]) -> None:
        self.widgets, self.names = widgets, names
        # Several notebooks can share a page, so the name of the group must be unique across their kernels.
        self._group = uuid.uuid4().hex
        self._busy = False
        #: For each widget, the shared names and the widget's own trait for each of them.
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
        # A shorter timeline clamps the value it receives. The flag keeps that from moving the others back.
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
        """Remove the link; calling it again does nothing."""
        for widget in self.widgets:
            if any(entry[1] == self._group for entry in widget._links):
                widget.unobserve(self._spread, list(self._own[widget].values()))
                widget._links = [entry for entry in widget._links if entry[1] != self._group]

    def __repr__(self) -> str:
        """Return the classes of the widgets and the traits they share."""
        return f"Link({', '.join(type(w).__name__ for w in self.widgets)}; {', '.join(self.names)})"


def _own_names(widget: Visualizer, widgets: tuple[Visualizer, ...], names: tuple[str, ...]) -> dict[str, str]:
    """Return the shared names that a visualizer supports, each with its own trait."""
    found = widget._link_names(LINKABLE, tuple(w for w in widgets if w is not widget))
    return {name: own for name, own in found.items() if name in names}


def _fitting(widget: Visualizer, name: str, value: Any) -> Any:
    """Return a range clipped to the length of a timeline, or None if nothing is left of it."""
    length = getattr(widget, "length", None)
    if name != "range" or value is None or length is None:
        return value
    start, stop = value[0], min(value[1], length)
    return (start, stop) if start < stop else None


def link(*visualizers: Visualizer) -> Link:
    """Link the playheads and selections of visualizers, so that moving one moves all.

    The others take the values of the first visualizer. If their lengths differ, each stays within its own range.

    Args:
        *visualizers: Two or more visualizers.

    Returns:
        The link; ``.unlink()`` removes it.

    Raises:
        TypeError: If an argument is not a visualizer of this package.
        ValueError: If there are fewer than two, or one has no trait to share.

    Example:
        >>> from rlnb_widgets._core.timeline import Timeline
        >>> a, b = Timeline(10), Timeline(5)
        >>> linked = link(a, b)
        >>> a.t = 3
        >>> b.t
        3
        >>> linked.unlink()
    """
    for v in visualizers:
        if not isinstance(v, Visualizer):
            raise TypeError(f"link takes visualizers of rlnb_widgets, got {type(v).__name__}.")
    distinct = tuple(dict.fromkeys(visualizers))
    if len(distinct) < 2:
        raise ValueError(f"link needs at least two different visualizers, got {len(distinct)}.")
    own = {v: _own_names(v, distinct, LINKABLE) for v in distinct}
    has = {name: [v for v in distinct if name in own[v]] for name in LINKABLE}
    names = tuple(name for name in LINKABLE if len(has[name]) >= 2)
    for v in distinct:
        if not any(v in has[name] for name in names):
            raise ValueError(
                f"{type(v).__name__} has no trait in common with the others that can be linked. Linkable are "
                f"{', '.join(LINKABLE)}; it has {', '.join(n for n in LINKABLE if v.has_trait(n)) or 'none of them'}."
            )
    return Link(distinct, names)
