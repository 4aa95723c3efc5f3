"""Plotly figure of a tree with a static picture beside it, for viewers that run no JavaScript."""

from __future__ import annotations

import re
from html import escape, unescape
from typing import Any

import numpy as np
import plotly.graph_objects as go

_WIDTH, _ROW, _MARGIN, _LINE = 760.0, 64.0, 24.0, 12.0


class TreeFigure(go.Figure):
    """A ``plotly.graph_objects.Figure`` of nodes and edges that notebooks save with an SVG of the same."""

    def picture(self) -> str:
        """Return nodes, edges and labels as SVG."""
        edges, marks = self.data
        x, y = np.asarray(marks.x, float), np.asarray(marks.y, float)
        wide, deep = max(float(np.ptp(x)), 1.0), max(float(-y.min()), 1.0)
        labels = ["" if "text" not in (marks.mode or "") else str(text) for text in marks.text or [""] * len(x)]
        lines = [[unescape(re.sub(r"<[^>]*>", "", part)) for part in label.split("<br>")] for label in labels]
        row = max(_ROW, _LINE * (max(map(len, lines), default=1) + 1))

        def place(px: Any, py: Any) -> tuple[float, float]:
            return _MARGIN + float(px) / wide * (_WIDTH - 4 * _MARGIN), _MARGIN - float(py) * row

        style = 'stroke="#969696" stroke-width="1"'
        parts = []
        for i in range(0, len(edges.x), 3):
            (x1, y1), (x2, y2) = (place(edges.x[i + k], edges.y[i + k]) for k in (0, 1))
            parts.append(f'<path d="M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}" {style}/>')
        for px, py, text in zip(x, y, lines, strict=True):
            at = place(px, py)
            parts.append(f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="5" fill="#4477aa"/>')
            for k, line in enumerate(text):
                where = f'x="{at[0] + 8:.1f}" y="{at[1] + 4 + _LINE * k:.1f}"'
                parts.append(f'<text {where} fill="#767676">{escape(line, quote=False)}</text>')
        height = 2 * _MARGIN + deep * row
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH:.0f} {height:.0f}" width="{_WIDTH:.0f}"'
        return f'{head} font-family="sans-serif" font-size="11"><title>Tree</title>{"".join(parts)}</svg>'

    def _repr_mimebundle_(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        bundle: dict[str, Any] = super()._repr_mimebundle_(*args, **kwargs)
        return {**bundle, "image/svg+xml": self.picture()} if bundle else bundle

    def _ipython_display_(self) -> None:
        bundle = self._repr_mimebundle_()
        if not bundle:  # plotly shows it in a window of its own
            super()._ipython_display_()
            return
        from IPython.display import display

        display(bundle, raw=True)
