"""Seeded samples of a leaf spec, counted per bin of its lanes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from rlnb_widgets._core.spec_domain import Domain, Lane
from rlnb_widgets._core.text import shorten, without_addresses

DRAWS = 200
BINS = 24
#: The most numbers drawn for one leaf; a leaf with many components is drawn less often.
BUDGET = 40_000
LEVELS = 99


@dataclass(frozen=True)
class Samples:
    """The samples of one leaf."""

    draws: int  #: number of draws
    levels: tuple[tuple[int, ...], ...] = ()  #: heights of the bars of each lane, from 0 to 99 (the highest)
    note: str = ""  #: the reason if there is nothing to show


def draw_samples(spec: Any, domain: Domain, seed: int, draws: int = DRAWS) -> Samples:
    """Draw from a leaf spec as ``torch.manual_seed(seed); spec.rand((draws,))`` does, and restore the generators.

    Values with very many elements are drawn less often. If drawing fails, the note of the result says why.

    Example:
        >>> from rlnb.data import Categorical
        >>> from rlnb_widgets._core.spec_domain import domain_of
        >>> spec = Categorical(2)
        >>> draw_samples(spec, domain_of(spec), seed=0)
        Samples(draws=200, levels=((97, 99),), note='')
    """
    if not domain.lanes:
        return Samples(0)
    size = max(int(np.prod([max(int(n), 1) for n in spec.shape], dtype=np.int64)), 1)
    draws = max(min(draws, BUDGET // size), 1)
    try:
        with seeded(spec, seed):
            drawn = spec.rand((draws,))
        numbers = as_float64(drawn)
        return Samples(draws, tuple(_levels(_counts(lane, numbers)) for lane in domain.lanes))
    except Exception as error:
        return Samples(0, note=shorten(f"cannot be drawn from: {without_addresses(str(error))}", 200))


@contextmanager
def seeded(spec: Any, seed: int) -> Iterator[None]:
    """Seed torch's generators of a spec's device as ``torch.manual_seed`` does, and restore them afterwards."""
    cuda = getattr(spec.device, "type", "cpu") == "cuda"
    with torch.random.fork_rng(devices=[spec.device] if cuda else []):
        # torch.manual_seed also visits every other kind of device, which takes longer than drawing
        torch.default_generator.manual_seed(seed)
        if cuda:
            torch.cuda.manual_seed_all(seed)
        yield


def as_float64(tensor: torch.Tensor) -> np.ndarray:
    """Return a tensor of real numbers as a float64 array."""
    return tensor.detach().cpu().to(torch.float64).numpy()


def lane_values(lane: Lane, numbers: np.ndarray) -> np.ndarray:
    """Select the components of a lane: rows of cells or bits, or a single column of numbers."""
    rows = numbers.reshape(len(numbers), -1)
    if lane.kind in ("cells", "bits"):
        cells = numbers.reshape(len(numbers), -1, numbers.shape[-1] if numbers.ndim > 1 else 1)
        picked = cells if lane.elements is None else cells[:, list(lane.elements)]
        return picked[..., lane.begin : lane.begin + lane.n].reshape(-1, lane.n)
    return (rows if lane.elements is None else rows[:, list(lane.elements)]).reshape(-1, 1)


def _counts(lane: Lane, numbers: np.ndarray) -> np.ndarray:
    values = lane_values(lane, numbers)
    if lane.kind in ("cells", "bits"):
        totals = (values != 0).sum(0)
        return totals if lane.n <= BINS else np.array([part.sum() for part in np.array_split(totals, BINS)])
    if lane.kind == "choices":
        places = np.clip(np.rint(values[:, 0]) - lane.start, 0, lane.n - 1).astype(np.int64)
        return np.bincount(places, minlength=lane.n)
    # bars cover the legal range; on an open side they end with the picture
    low = lane.view[0] if lane.low is None else float(lane.low)
    high = lane.view[1] if lane.high is None else float(lane.high)
    if low == high:
        return np.array([len(values)])
    share = np.clip(_shares(values[:, 0], low, high), 0, 1 - 1e-9)
    return np.bincount((share * BINS).astype(np.int64), minlength=BINS)


def positions(lane: Lane, values: np.ndarray) -> np.ndarray:
    """Return the positions of numbers on a line: 0 at the left end of the picture, 1 at the right end."""
    return _shares(values, *lane.view)


def _shares(values: np.ndarray, low: float, high: float) -> np.ndarray:
    # halved, since the difference of the largest floats overflows
    shares = (values / 2 - low / 2) / (high / 2 - low / 2)
    return np.asarray(np.nan_to_num(shares, nan=0.5, posinf=2.0, neginf=-1.0))


def _levels(counts: np.ndarray) -> tuple[int, ...]:
    top = counts.max(initial=0)
    return tuple(int(c) for c in np.rint(counts * LEVELS / top)) if top else (0,) * len(counts)
