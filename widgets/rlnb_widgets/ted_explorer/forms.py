"""Four forms of the same episodes (TED, flat, nested, Gymnasium tuples): contents and bytes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import is_non_tensor, is_tensor_collection

from rlnb.data.ted.columns import Column, read_columns
from rlnb.data.ted.ends import end_flags
from rlnb.data.ted.flat import TED2Flat
from rlnb.data.ted.gym_episodes import to_gym_episodes
from rlnb.data.ted.keys import END_KEYS, as_tuple
from rlnb.data.ted.layout import BREAKS_KEY, ROOT_KEY, FlatLayout, plan
from rlnb.data.ted.nested import TED2Nested
from rlnb.data.ted.ragged import Path
from rlnb_widgets._core.text import shorten

_PROBE = 8  # steps that are turned into tuples to see whether they can be


@dataclass(frozen=True)
class Form:
    """One form of the data."""

    name: str  #: ``"TED"``, ``"flat"``, ``"nested"`` or ``"tuples"``
    made: str  #: code that makes it
    stores: str  #: what it stores, in a sentence
    nbytes: int | None  #: bytes of its numbers; None if the data cannot be converted
    exact: bool = True  #: whether the bytes are exact; otherwise they are a lower bound
    why: str = ""  #: the reason if there are no bytes


_STORES = {
    "TED": "each observation twice: under next of a step, and at the root of the step after it",
    "flat": "each observation once, and one more behind the last step of each trajectory",
    "nested": "a row for each trajectory, as long as it is, with one observation more than steps",
    "tuples": "what env.reset and env.step return: an observation, a reward and two flags for each step",
}
_MADE = {
    "TED": "env.rollout(...)",
    "flat": "TED2Flat()(data)",
    "nested": "TED2Nested()(data)",
    "tuples": "to_gym_episodes(data)",
}


def forms_of(td: Any, nbytes: int, broken: tuple[str, ...] = (), exact: bool = False) -> tuple[Form, ...]:
    """Measure the data in four forms; Python's own objects (lists, tuples, dictionaries) are not counted.

    With ``exact`` each form is built and counted. Otherwise shapes and ends are enough, which takes no time on large
    data and gives the same, unless ``"next"`` is not the next root: the flat forms then store more. ``broken`` are the
    rules of TED that the data break.

    Example:
        >>> from tensordict import TensorDict
        >>> done = torch.tensor([False, True]).unsqueeze(-1)
        >>> x = torch.arange(3.0)
        >>> td = TensorDict({"x": x[:2], "next": {"x": x[1:], "done": done, "terminated": done}}, [2])
        >>> [(form.name, form.nbytes) for form in forms_of(td, 20)[:2]]
        [('TED', 20), ('flat', 16)]
    """
    measures: dict[str, Callable[[], int]] = {
        "flat": (lambda: _counted(TED2Flat()(td))) if exact else (lambda: _from_shapes(td)[0]),
        "nested": (lambda: _counted(TED2Nested()(td))) if exact else (lambda: _from_shapes(td)[1]),
        "tuples": lambda: _tuples(td, broken, exact),
    }
    forms = [Form("TED", _MADE["TED"], _STORES["TED"], nbytes)]
    for name, measure in measures.items():
        sure = exact or "adjacency" not in broken
        try:
            forms.append(Form(name, _MADE[name], _STORES[name], measure(), sure))
        except Exception as error:
            said = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
            why = shorten(said.partition(" Fix: ")[0] or type(error).__name__, 200)
            forms.append(Form(name, _MADE[name], _STORES[name], None, sure, why))
    return tuple(forms)


def _counted(td: Any) -> int:
    """Return the bytes of the tensors; offsets that nested tensors of one length share are counted once."""
    total, offsets = 0, {}
    for leaf in _leaves(td):
        if leaf.is_nested:
            jagged: Any = leaf
            values, lengths = jagged.values(), jagged.offsets()
            total += values.numel() * values.element_size()
            offsets[lengths.data_ptr()] = lengths.numel() * lengths.element_size()
        else:
            total += leaf.numel() * leaf.element_size()
    return total + sum(offsets.values())


def _leaves(td: Any) -> Iterator[torch.Tensor]:
    for key in td.keys():  # noqa: SIM118 - iterating a TensorDict yields rows
        value = td.get(key)
        if is_tensor_collection(value) and not is_non_tensor(value):
            yield from _leaves(value)
        elif isinstance(value, torch.Tensor):
            yield value


def _from_shapes(td: Any) -> tuple[int, int]:
    """Return the bytes of the flat and of the nested form, from shapes and ends alone."""
    ends = end_flags(td)
    columns, branches = read_columns(td)
    layout = plan(columns, branches, td.batch_size, {as_tuple(key) for key in (*END_KEYS, "reward")})
    trajectories = _trajectories(ends)
    row = _row_bytes(columns, layout)
    flat = layout.steps * sum(row.values()) + trajectories * sum(row[path] for path in layout.shared)
    # Two lists of offsets: of what has a row for each step, and of what has one more.
    return flat, flat + 2 * 8 * (trajectories + 1)


def _trajectories(ends: torch.Tensor) -> int:
    stops = ends.clone()
    stops[..., -1:] = True
    return int(stops.sum())


def _row_bytes(columns: dict[Path, Column], layout: FlatLayout) -> dict[Path, int]:
    named = {path: columns[path] for path in (*layout.shared, *layout.root)}
    named |= {("next", *path): columns["next", *path] for path in layout.next}
    named |= {(ROOT_KEY, *path): columns[path] for path in layout.twice}
    assert (BREAKS_KEY,) not in named
    return {
        path: math.prod(column.shape[1:]) * column.element_size() if isinstance(column, torch.Tensor) else 0
        for path, column in named.items()
    }


def _tuples(td: Any, broken: tuple[str, ...], exact: bool) -> int:
    if broken:
        raise ValueError(f"the data breaks the rules of TED: {', '.join(broken)}")
    if exact:
        return sum(_episode_bytes(episode) for episode in to_gym_episodes(td))
    flat = td.reshape(-1) if td.batch_dims == 1 else td[(0,) * (td.batch_dims - 1)]
    first = to_gym_episodes(flat[:_PROBE])
    each = _bytes_of(first[0].steps[0]) + _bytes_of(first[0].actions[0])
    return td.batch_size.numel() * each + _trajectories(end_flags(td)) * _bytes_of(first[0].reset)


def _episode_bytes(episode: Any) -> int:
    return _bytes_of(episode.reset) + _bytes_of(episode.actions) + _bytes_of(episode.steps)


def _bytes_of(value: Any) -> int:
    """Return the bytes of the numbers in arrays, tuples, lists and dictionaries; a flag is one byte."""
    if isinstance(value, dict):
        return sum(map(_bytes_of, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes_of, value))
    if isinstance(value, bool):
        return 1
    return int(getattr(value, "nbytes", 0))
