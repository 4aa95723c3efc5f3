"""Visualizers side by side in one output, to see one follow the other."""

from __future__ import annotations

from typing import Any

import ipywidgets

from rlnb_widgets._core.svg import image_tag
from rlnb_widgets._core.visualizer import Visualizer


class SideBySide(ipywidgets.HBox):
    """Visualizers in one row, as `side_by_side` returns them; where there is no room they stand one below the other."""

    def __init__(self, visualizers: tuple[Visualizer, ...]) -> None:
        for visualizer in visualizers:
            visualizer.layout.flex, visualizer.layout.min_width = "1 1 320px", "0"
        row = ipywidgets.Layout(display="flex", flex_flow="row wrap", align_items="flex-start", grid_gap="8px 16px")
        super().__init__(visualizers, layout=row)

    def __repr__(self) -> str:
        """Return the texts of all, one below the other."""
        return "\n\n".join(map(repr, self.children))

    __str__ = __repr__

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, meta = bundle if isinstance(bundle, tuple) else (bundle, {})
        pictures = "\n".join(image_tag(str(v._svg()), v._alt()) for v in self.children)
        return {**(data or {}), "text/plain": repr(self), "text/html": pictures}, meta


def side_by_side(*visualizers: Visualizer) -> SideBySide:
    """Show visualizers side by side; below about 650 pixels of width they stand one below the other.

    Args:
        *visualizers: Two or more visualizers, often linked by :func:`~rlnb_widgets.link`.

    Raises:
        TypeError: If an argument is not a visualizer of this package.
        ValueError: If there are fewer than two different ones.

    Example:
        >>> from rlnb_widgets import Timeline
        >>> side_by_side(Timeline(10), Timeline(5))
        Timeline(t=0 of 10 steps)
        <BLANKLINE>
        Timeline(t=0 of 5 steps)
    """
    for visualizer in visualizers:
        if not isinstance(visualizer, Visualizer):
            raise TypeError(
                f"side_by_side takes visualizers of rlnb_widgets, got {type(visualizer).__name__}. "
                "Fix: side_by_side(player, timeline)."
            )
    if len(set(visualizers)) < 2 or len(set(visualizers)) < len(visualizers):
        raise ValueError(
            f"side_by_side needs two or more different visualizers, got {len(visualizers)}. "
            "A widget can be in one place of a row only."
        )
    return SideBySide(visualizers)
