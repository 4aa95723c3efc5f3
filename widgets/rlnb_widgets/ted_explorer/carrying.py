"""Walk from one step to the next: what ``step_mdp`` carries, drops and keeps, and what a reset replaces."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from rlnb_widgets._core.text import object_text, shorten, values_text
from rlnb_widgets.ted_explorer.carry import unequal_tensors
from rlnb_widgets.ted_explorer.numbers import as_array
from rlnb_widgets.ted_explorer.schema import TedModel

MOST_ROWS = 24

#: What happens to an entry, in words.
FATES = {
    "carried": "carried",
    "replaced": "replaced by the reset",
    "left": "left behind",
    "kept": "kept",
    "rewritten": "kept, then rewritten",
    "differs": "carried, and the root differs",
    "waits": "carried to a root beyond the data",
    "": "",
}


@dataclass(frozen=True)
class Fate:
    """What happens to one entry between two steps."""

    path: tuple[str, ...]  #: keys inside one side
    root: str  #: value at the root of the step
    next: str  #: value in ``"next"``
    then: str  #: value at the root of the next step; empty beyond the data
    kind: str  #: a key of :data:`FATES`


def fates_at(td: Any, following: Any, model: TedModel, element: int, t: int) -> tuple[Fate, ...]:
    """Follow the leaves of batch element ``element`` from step ``t`` to the next one, at most :data:`MOST_ROWS`."""
    assert model.steps is not None
    place = torch.unravel_index(torch.tensor(element), model.batch) if model.batch else ()
    at = tuple(int(i) for i in place)
    # If the root after an end is done itself, there was no reset.
    over = any(end.env == element and end.t == t for end in model.boundaries) and (element, t + 1) not in model.past
    fates = []
    for row in [row for row in model.rows if row.leaf][:MOST_ROWS]:
        root, after = (_value(side, row.path, (*at, t)) for side in (td, following))
        then = _value(td, row.path, (*at, t + 1)) if t + 1 < model.steps else None
        kind = {"dropped": "left", "kept": "kept"}.get(row.carry.kind, "")
        if row.carry.kind == "carried":
            beyond = t + 1 >= model.steps
            kind = "waits" if beyond else "replaced" if over else "carried" if _equal(after, then) else "differs"
        if kind == "kept" and then is not None and not _equal(root, then):
            kind = "rewritten"
        fates.append(Fate(row.path, _text(root), _text(after), _text(then), kind))
    return tuple(fates)


def _value(td: Any, path: tuple[str, ...], index: tuple[int, ...]) -> Any:
    try:
        value = td.get(path, None)
        return None if value is None else value[index]
    except Exception:  # a lazy stack whose sizes vary has no whole
        pass
    try:
        return td[index].get(path, None)
    except Exception:
        return None


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor):
        same = one.shape == other.shape and one.dtype == other.dtype
        return same and not bool(unequal_tensors(one.detach().cpu(), other.detach().cpu()).any())
    return _text(one) == _text(other)


def _text(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, torch.Tensor):
        return shorten(object_text(value.tolist() if hasattr(value, "tolist") else value), 28)
    if value.numel() > 8:
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return shorten(values_text(as_array(value)), 28)
