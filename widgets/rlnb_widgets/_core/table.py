"""Static tables and lists of lines as display lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from rlnb_widgets._core.dims import COLORS, ROLE_TAG, Dim
from rlnb_widgets._core.display import Display
from rlnb_widgets._core.display_svg import WIDTH
from rlnb_widgets._core.text import plural

#: Width of a letter of the fixed-width font at size 10.
CHAR = 6.05
_HEAD, _LINE, _MORE = 24.0, 16.0, 20.0

Row = TypeVar("Row")


def table_display(
    heads: Sequence[tuple[float, str]], rows: Sequence[Row], most: int,
    height: Callable[[Row], float], draw: Callable[[Display, Row], None],
) -> Display:  # fmt: skip
    """Draw the heads of a table and at most ``most`` of its rows.

    Args:
        heads: Left edge and title of each column.
        rows: The rows.
        most: Number of rows that are drawn at most.
        height: Function that returns the height of a row.
        draw: Function that draws a row, with its top edge at 0.
    """
    shown, hidden = rows[:most], max(len(rows) - most, 0)
    display = Display(_HEAD + sum(map(height, shown)) + (_MORE if hidden else 0))
    for x, title in heads:
        display.text(x, 12, title, fill="muted")
    y = _HEAD
    with display.frame(0, 0):
        display.line(0, y - 4, 1, y - 4)
    for i, row in enumerate(shown):
        with display.moved(y):
            if i % 2:
                with display.frame(0, 0):
                    display.rect(0, 1, 0, height(row), fill="panel", radius=3)
            draw(display, row)
        y += height(row)
    if hidden:
        display.text(0, y + 14, f"+{plural(hidden, 'more row')}", fill="muted")
    return display


def lines_display(lines: Sequence[tuple[str, str]], most: int) -> Display:
    """Draw at most ``most`` lines of text, each given with its role, and how many more there are."""
    shown = list(lines[:most])
    if len(lines) > most:
        shown.append((f"+{len(lines) - most} more", "muted"))
    display = Display(_LINE * len(shown))
    for i, (text, role) in enumerate(shown):
        display.text(0, 12 + _LINE * i, text, fill=role, within=WIDTH)
    return display


def draw_shape(display: Display, dims: tuple[Dim, ...], x: float, y: float) -> float:
    """Write a shape with a colour for each role of its dimensions; return where it ends."""
    parts: list[tuple[str, str]] = [("[", "muted")]
    for i, dim in enumerate(dims):
        same = i > 0 and dims[i - 1].role == dim.role
        if i:
            parts.append(("," if same else " | ", "muted"))
        tag = "" if same or not ROLE_TAG[dim.role] else f"{ROLE_TAG[dim.role]}="
        parts.append((tag + ("-1" if dim.size is None else str(dim.size)), COLORS[dim.role]))
    for text, role in [*parts, ("]", "muted")]:
        # SVG drops blanks at the start of a text.
        blanks = len(text) - len(text.lstrip())
        display.text(x + CHAR * blanks, y, text.strip(), fill=role, size=10, mono=True)
        x += CHAR * len(text)
    return x
