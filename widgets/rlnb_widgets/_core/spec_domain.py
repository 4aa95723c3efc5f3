"""Domains of specs, as lanes to draw and as one line of text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from rlnb.data.specs.binary import Binary
from rlnb.data.specs.bounded import Bounded
from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.specs.multi import MultiCategorical, MultiOneHot
from rlnb.data.specs.non_tensor import NonTensor
from rlnb.data.specs.unbounded import Unbounded
from rlnb_widgets._core.text import number, object_text, plural

LaneKind = Literal["line", "choices", "cells", "bits"]
DomainKind = Literal[
    "interval",
    "any",
    "choices",
    "one-hot",
    "binary",
    "multi",
    "non-tensor",
    "composite",
    "stack",
    "choice",
    "nothing",
    "unknown",
]

MAX_LANES = 8
MAX_TICKS = 24
#: Ranges of most samples of open sides: of a standard normal, and of an exponential beyond a single bound.
NORMAL, TAIL = 3.5, 5.5
#: Lanes share one scale unless the widest range is more than this many times the narrowest.
COMPARABLE = 4.0


@dataclass(frozen=True)
class Lane:
    """One lane of the picture of a domain: all components with the same legal values."""

    #: ``"line"`` (numbers between two ends), ``"choices"`` (a few integers), ``"cells"`` (the components of a one-hot
    #: vector) or ``"bits"`` (components that are 0 or 1)
    kind: LaneKind
    label: str = ""  #: the components of the lane, such as ``"[0]"``; empty for all
    low: float | None = None  #: the lower end of a line; None if it is unbounded
    high: float | None = None  #: the upper end of a line; None if it is unbounded
    view: tuple[float, float] = (0.0, 1.0)  #: the range of numbers that the picture of a line shows
    whole: bool = False  #: whether only integers are legal on a line
    n: int = 0  #: number of choices, cells or bits
    start: int = 0  #: value of the first choice
    barred: tuple[int, ...] = ()  #: indices of the masked choices
    elements: tuple[int, ...] | None = None  #: flat indices of the components; None for all
    begin: int = 0  #: index of the first cell along the last dimension


@dataclass(frozen=True)
class Domain:
    """The values that a spec allows."""

    kind: DomainKind  #: kind of the domain
    text: str  #: the domain in one line
    lanes: tuple[Lane, ...] = ()  #: lanes of its picture
    more: int = 0  #: number of lanes that are left out
    note: str = ""  #: a remark; the ``repr`` of a spec of unknown kind


def domain_of(spec: Any) -> Domain:
    """Describe the domain of a leaf spec. A spec of unknown kind gives its ``repr``, None gives a domain of any value.

    Example:
        >>> domain_of(Bounded(-1, 1, shape=(3,))).text
        '[-1, 1]'
        >>> [lane.label for lane in domain_of(MultiCategorical([2, 3])).lanes]
        ['[0]', '[1]']
    """
    if spec is None:
        return Domain("nothing", "no spec: any value")
    try:
        return _known(spec)
    except Exception as error:
        # A spec that cannot be described must not hide the others.
        return _unknown(spec, f"{type(error).__name__}: {error}")


def _known(spec: Any) -> Domain:
    if isinstance(spec, Bounded):
        return _bounded(spec)
    if isinstance(spec, Unbounded):
        return _unbounded(spec)
    if isinstance(spec, OneHot):
        return _one_hot(spec)
    if isinstance(spec, Categorical):
        return _categorical(spec)
    if isinstance(spec, MultiCategorical):
        return _multi_categorical(spec)
    if isinstance(spec, MultiOneHot):
        return _multi_one_hot(spec)
    if isinstance(spec, Binary):
        lane = Lane("bits", n=spec.n)
        return Domain("binary", f"{{0, 1}} in each of {plural(spec.n, 'place')}", (lane,))
    if isinstance(spec, NonTensor):
        space = getattr(spec, "space", None)
        if space is not None:
            return Domain("non-tensor", f"data of {object_text(space)}")
        return Domain("non-tensor", f"any data, such as {object_text(spec.example_data)}")
    return _unknown(spec, "")


def _unknown(spec: Any, why: str) -> Domain:
    shown = object_text(spec)
    return Domain("unknown", "no drawing for this kind", note=f"{shown} ({why})" if why else shown)


def _unbounded(spec: Unbounded) -> Domain:
    assert spec.dtype is not None
    name = str(spec.dtype).removeprefix("torch.")
    if spec.dtype == torch.bool:
        return Domain("any", "any bool", (Lane("choices", n=2),))
    if spec.dtype.is_floating_point:
        return Domain("any", f"any {name}", (Lane("line", view=(-NORMAL, NORMAL)),))
    info = torch.iinfo(spec.dtype)
    return Domain("any", f"any {name}", (Lane("line", view=(float(info.min), float(info.max)), whole=True),))


def _bounded(spec: Bounded) -> Domain:
    assert spec.dtype is not None
    whole = not spec.dtype.is_floating_point
    low, high = _ends(spec)
    bounds = list(zip(_numbers(low), _numbers(high), strict=True))
    groups = _groups(bounds, tuple(spec.shape))
    views = [_view(*pair) for pair, _, _ in groups]
    spans = [top / 2 - bottom / 2 for bottom, top in views]
    if len(views) > 1 and max(spans) <= COMPARABLE * min(spans):
        views = [(min(v[0] for v in views), max(v[1] for v in views))] * len(views)
    lanes = []
    for ((bottom, top), label, elements), view in zip(groups[:MAX_LANES], views, strict=False):
        if whole and top - bottom < MAX_TICKS:
            lanes.append(Lane("choices", label, n=int(top - bottom) + 1, start=int(bottom), elements=elements))
        else:
            ends = (None if math.isinf(bottom) else bottom, None if math.isinf(top) else top)
            lanes.append(Lane("line", label, *ends, view=view, whole=whole, elements=elements))
    listed = len(groups) if len(groups) <= 4 else 3
    texts = [interval_text(low, high, whole) for (low, high), _, _ in groups[:listed]]
    if not groups:
        return Domain("interval", "no elements")
    if len(groups) == 1:
        return Domain("interval", texts[0], tuple(lanes))
    text = f"{plural(len(groups), 'interval')}: {', '.join(texts)}{', ...' if len(groups) > listed else ''}"
    return Domain("interval", text, tuple(lanes), max(len(groups) - MAX_LANES, 0))


def _ends(spec: Bounded) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the bounds; one of each if all are equal, since an image has a million of them."""
    low, high = spec.low.flatten(), spec.high.flatten()
    alike = len(low) > 1 and bool((low == low[0]).all()) and bool((high == high[0]).all())
    return (low[:1], high[:1]) if alike else (low, high)


def interval_text(low: float, high: float, whole: bool = False) -> str:
    """Format an interval; open sides have round brackets. ``whole`` intervals contain only integers.

    Example:
        >>> interval_text(0, math.inf), interval_text(0, 255, whole=True), interval_text(3, 4, whole=True)
        ('[0, inf)', '{0, ..., 255}', '{3, 4}')
        >>> interval_text(0, 2**63 - 1, whole=True)
        '{0, ..., 2**63 - 1}'
    """
    if whole:
        if high - low < 4:
            return "{" + ", ".join(str(int(low) + i) for i in range(int(high - low) + 1)) + "}"
        return f"{{{_integer(low)}, ..., {_integer(high)}}}"
    left, right = "(["[math.isfinite(low)], ")]"[math.isfinite(high)]
    return f"{left}{number(low)}, {number(high)}{right}"


def _integer(value: float) -> str:
    """Format an integer; the limits of dtypes as powers of two, which people can read."""
    bits = abs(int(value) + (value > 0)).bit_length() - 1
    if bits >= 24 and abs(int(value) + (value > 0)) == 2**bits:
        return f"2**{bits} - 1" if value > 0 else f"-2**{bits}"
    return str(int(value))


def _view(low: float, high: float) -> tuple[float, float]:
    """Return the range that is drawn: up to the bounds, or as far as samples of an open side go."""
    if math.isinf(low) and math.isinf(high):
        return -NORMAL, NORMAL
    bottom, top = (high - TAIL if math.isinf(low) else low), (low + TAIL if math.isinf(high) else high)
    if bottom == top:  # a single legal number, or a bound too large to add to
        slack = max(abs(bottom) / 2, 0.5)
        return bottom - slack, top + slack
    return float(bottom), float(top)


def _numbers(tensor: torch.Tensor) -> list[Any]:
    values: list[Any] = tensor.detach().cpu().flatten().tolist()
    return [int(v) if isinstance(v, bool) else v for v in values]


def _groups(keys: Sequence[Any], shape: tuple[int, ...]) -> list[tuple[Any, str, tuple[int, ...] | None]]:
    """Group components: each on its own if there are few, else the equal ones; a single group if all are equal."""
    if len(set(keys)) == 1:
        return [(keys[0], "", None)]
    keys, shape, lead = _unrepeated(keys, shape)
    if lead > 1:
        again = [range(i, lead * len(keys), len(keys)) for i in range(len(keys))]
        return [
            (key, label.replace("[", "[..., ", 1), tuple(j for i in at or () for j in again[i]))
            for key, label, at in _groups(keys, shape)
        ]
    if len(keys) <= MAX_LANES:
        return [(key, f"[{_index(i, shape)}]", (i,)) for i, key in enumerate(keys)]
    found: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        found.setdefault(key, []).append(i)
    return [
        (key, f"[{_index(at[0], shape)}]" if len(at) == 1 else f"{len(at)} of {len(keys)}", tuple(at))
        for key, at in found.items()
    ]


def _unrepeated(keys: Sequence[Any], shape: tuple[int, ...]) -> tuple[Sequence[Any], tuple[int, ...], int]:
    """Drop leading dimensions along which the components repeat; also return the number of repetitions."""
    lead = 1
    while len(shape) > 1 and shape[0] > 0 and len(keys) % shape[0] == 0:
        each = len(keys) // shape[0]
        if any(keys[i] != keys[i - each] for i in range(each, len(keys))):
            break
        keys, shape, lead = keys[:each], shape[1:], lead * shape[0]
    return keys, shape, lead


def _index(flat: int, shape: tuple[int, ...]) -> str:
    index = []
    for size in (
        max(n, 1) for n in reversed(shape)
    ):  # a dimension of variable size is -1, with equal components along it
        index.append(str(flat % size))
        flat //= size
    return ", ".join(reversed(index))


def _masks(spec: Any, n: int) -> list[tuple[int, ...]]:
    """Return the masked choices of each leading index; one entry if all are equal."""
    mask = getattr(spec, "mask", None)
    if not isinstance(mask, torch.Tensor):
        return [()]
    rows = [tuple(i for i, legal in enumerate(row) if not legal) for row in mask.reshape(-1, n).tolist()]
    return rows[:1] if len(set(rows)) == 1 else rows


def _one_hot(spec: Any) -> Domain:
    masks = _masks(spec, spec.n)
    lanes = _masked_lanes("cells", masks, spec, tuple(spec.shape[:-1]))
    allowed = "" if masks == [()] else f": {allowed_text(spec.n, spec.start, masks)}"
    return Domain("one-hot", f"one-hot of {spec.n}{allowed}", lanes, max(len(masks) - MAX_LANES, 0))


def _categorical(spec: Categorical) -> Domain:
    n = int(spec.n)
    if n < 1:
        return _unknown(spec, "the number of choices is not known")
    masks = _masks(spec, n)
    more = max(len(masks) - MAX_LANES, 0)
    if masks != [()]:
        text = allowed_text(n, spec.start, masks)
        return Domain("choices", text, _masked_lanes("choices", masks, spec, tuple(spec.shape)), more)
    if spec.dtype == torch.bool and n == 2:
        return Domain("choices", "{False, True}", (Lane("choices", n=2),))
    return Domain("choices", interval_text(spec.start, spec.start + n - 1, whole=True), (_choice(n, spec.start),))


def _choice(n: int, start: int, label: str = "", elements: tuple[int, ...] | None = None) -> Lane:
    if n <= MAX_TICKS:
        return Lane("choices", label, n=n, start=start, elements=elements)
    last = float(start + n - 1)
    return Lane("line", label, float(start), last, (float(start), last), whole=True, elements=elements)


def _masked_lanes(kind: Any, masks: list[tuple[int, ...]], spec: Any, lead: tuple[int, ...]) -> tuple[Lane, ...]:
    if len(masks) == 1:
        return (Lane(kind, n=spec.n, start=spec.start, barred=masks[0]),)
    return tuple(
        Lane(kind, f"[{_index(i, lead)}]", n=spec.n, start=spec.start, barred=barred, elements=(i,))
        for i, barred in enumerate(masks[:MAX_LANES])
    )


def allowed_text(n: int, start: int, masks: Sequence[tuple[int, ...]]) -> str:
    """Format the choices that masks leave; each mask lists the masked choices, counted from 0.

    Example:
        >>> allowed_text(4, 0, [(1, 3)]), allowed_text(2, 0, [(1,), (0,)])
        ('{0, 2} of 4', '2 masks over 2 choices')
    """
    if len(masks) > 1:
        return f"{plural(len(masks), 'mask')} over {n} choices"
    legal = [start + i for i in range(n) if i not in masks[0]]
    shown = ", ".join(map(str, legal[:8])) + (", ..." if len(legal) > 8 else "")
    return f"{{{shown}}} of {n}"


def _multi_categorical(spec: MultiCategorical) -> Domain:
    pairs = list(zip(_numbers(spec.nvec.expand(spec.shape)), _numbers(spec.start.expand(spec.shape)), strict=True))
    barred = _multi_barred(spec, [n for n, _ in pairs])
    keys = [(n, start, out) for (n, start), out in zip(pairs, barred, strict=True)]
    groups = _groups(keys, tuple(spec.shape))
    lanes = []
    for (n, start, out), label, elements in groups[:MAX_LANES]:
        lane = _choice(n, start, label, elements)
        lanes.append(Lane("choices", label, n=n, start=start, barred=out, elements=elements) if out else lane)
    counts = _unrepeated([n for n, _ in pairs], tuple(spec.shape))[0]
    return Domain("multi", f"choices of {_counts(counts, ', ')}", tuple(lanes), max(len(groups) - MAX_LANES, 0))


def _multi_one_hot(spec: MultiOneHot) -> Domain:
    pairs = list(zip(_numbers(spec.nvec), _numbers(spec.start.expand(spec.nvec.shape)), strict=True))
    barred = _multi_barred(spec, [n for n, _ in pairs])
    lanes, begin = [], 0
    for i, ((n, start), out) in enumerate(zip(pairs, barred, strict=True)):
        if i == MAX_LANES:
            break
        index = _index(i, tuple(spec.nvec.shape))
        lanes.append(Lane("cells", f"[{index}]", n=n, start=start, barred=out, begin=begin))
        begin += n
    text = f"one-hot of {_counts([n for n, _ in pairs], ' + ')}"
    return Domain("multi", text, tuple(lanes), max(len(pairs) - MAX_LANES, 0))


def _multi_barred(spec: Any, counts: list[int]) -> list[tuple[int, ...]]:
    mask = getattr(spec, "mask", None)
    if not isinstance(mask, torch.Tensor) or mask.numel() % max(sum(counts), 1):
        return [()] * len(counts)
    flat = mask.reshape(-1, sum(counts))[0].tolist()
    out, begin = [], 0
    for n in counts:
        out.append(tuple(i for i in range(n) if not flat[begin + i]))
        begin += n
    return out


def _counts(counts: Sequence[int], joint: str) -> str:
    shown = joint.join(str(n) for n in counts[:8])
    return f"{shown}{joint}... ({len(counts)} in all)" if len(counts) > 8 else shown
