"""Differences between two TensorDicts: keys, shapes, dtypes, and the first unequal value."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from rlnb_widgets._core.text import number_text, object_text, shorten
from rlnb_widgets.ted_explorer.carry import first_true, unequal_tensors
from rlnb_widgets.ted_explorer.entries import Path, TedEntry, ted_entries, values
from rlnb_widgets.ted_explorer.schema import Finding, Side


def ted_differences(td: Any, other: Any) -> dict[Path, tuple[Finding, ...]]:
    """Compare two TensorDicts, the shown one (got) and another (expected); return findings by path.

    Equal entries are not listed. NaN equals NaN.

    Example:
        >>> from tensordict import TensorDict
        >>> a, b = TensorDict(x=torch.zeros(3), batch_size=[3]), TensorDict(x=torch.eye(3)[1], batch_size=[3])
        >>> ted_differences(a, b)[("x",)][0].text()
        'root: value at [1]: expected 1, got 0'
    """
    here, there = _flat(td), _flat(other)
    found: dict[Path, tuple[Finding, ...]] = {}
    for key in dict.fromkeys((*here, *there)):
        try:
            finding = _differ(key[0], here.get(key), there.get(key))
        except Exception as error:  # sparse tensors, data on the meta device
            finding = Finding(key[0], "not compared", _brief(there.get(key)), type(error).__name__)
        if finding is not None:
            found[key[1]] = (*found.get(key[1], ()), finding)
    return found


def _flat(td: Any) -> dict[tuple[Side, Path], TedEntry]:
    entries: dict[tuple[Side, Path], TedEntry] = {}
    for entry in ted_entries(td):
        inside = entry.path[0] == "next" and len(entry.path) > 1
        if inside:
            entries["next", entry.path[1:]] = entry
        elif entry.path != ("next",) or entry.kind != "node":
            entries["root", entry.path] = entry
    return entries


def _differ(side: Side, here: TedEntry | None, there: TedEntry | None) -> Finding | None:
    if here is None or there is None:
        kind = "only here" if there is None else "only in the other"
        return Finding(side, kind, _brief(there), _brief(here))
    if here.kind != there.kind or (here.kind == "leaf" and here.value.dtype != there.value.dtype):
        return Finding(side, "dtype", _brief(there), _brief(here))
    if here.kind == "node":
        return None
    if here.kind == "non-tensor":
        left, right = object_text(here.value.tolist()), object_text(there.value.tolist())
        return None if left == right else Finding(side, "value", right, left)
    if here.kind == "ragged":
        return _differ_rows(side, here, there)
    if here.kind != "leaf":
        return None
    if here.value.shape != there.value.shape:
        return Finding(side, "shape", str(list(there.value.shape)), str(list(here.value.shape)))
    return _differ_values(side, here.value, there.value)


def _differ_values(side: Side, here: torch.Tensor, there: torch.Tensor) -> Finding | None:
    here, there = here.detach().cpu(), there.detach().cpu()
    index = first_true(unequal_tensors(here, there))
    if index is None:
        return None
    return Finding(side, "value", number_text(there[index].item()), number_text(here[index].item()), index)


def _differ_rows(side: Side, here: TedEntry, there: TedEntry) -> Finding | None:
    left, right = values(here), values(there)
    shapes = [_shapes(elements) for elements in (right, left)]
    if shapes[0] != shapes[1]:
        return Finding(side, "shape", shorten(shapes[0], 60), shorten(shapes[1], 60))
    for place in np.ndindex(*left.shape):
        one, other = left[place], right[place]
        finding = _differ_values(side, one, other) if isinstance(one, torch.Tensor) else None
        if finding is not None:
            return Finding(side, "value", finding.expected, finding.got, (*place, *finding.index))
    return None


def _shapes(elements: np.ndarray) -> str:
    def shape(element: Any) -> Any:
        return [*map(shape, element)] if isinstance(element, list) else None if element is None else [*element.shape]

    return str(shape(elements.tolist()))


def _brief(entry: TedEntry | None) -> str:
    if entry is None:
        return "nothing"
    if entry.kind == "leaf":
        return f"{str(entry.value.dtype).removeprefix('torch.')} {list(entry.value.shape)}"
    return {"node": "a nested TensorDict", "non-tensor": "non-tensor data"}.get(entry.kind, "a lazy stack")
