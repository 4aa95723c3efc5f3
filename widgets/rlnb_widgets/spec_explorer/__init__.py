"""Explorer of specs: a tree of entries with drawn domains, and tests of values."""

from __future__ import annotations

from rlnb_widgets._core.spec_domain import Domain, Lane, domain_of
from rlnb_widgets.spec_explorer.answer import Answer, Reply
from rlnb_widgets.spec_explorer.model import spec_model
from rlnb_widgets.spec_explorer.schema import Cell, Difference, Row, SpecModel
from rlnb_widgets.spec_explorer.widget import SpecExplorer

__all__ = [
    "Answer",
    "Cell",
    "Difference",
    "Domain",
    "Lane",
    "Reply",
    "Row",
    "SpecExplorer",
    "SpecModel",
    "domain_of",
    "spec_model",
]
