"""Explorer of TED data: a tree of entries, with the root and ``"next"`` side by side."""

from __future__ import annotations

from rlnb_widgets.ted_explorer.forms import Form
from rlnb_widgets.ted_explorer.model import ted_model
from rlnb_widgets.ted_explorer.schema import (
    Boundary,
    Carry,
    Cell,
    Dim,
    Finding,
    Place,
    Row,
    Stats,
    TedModel,
    Thumb,
    Verdict,
)
from rlnb_widgets.ted_explorer.widget import TEDExplorer

__all__ = [
    "Boundary",
    "Carry",
    "Cell",
    "Dim",
    "Finding",
    "Form",
    "Place",
    "Row",
    "Stats",
    "TEDExplorer",
    "TedModel",
    "Thumb",
    "Verdict",
    "ted_model",
]
