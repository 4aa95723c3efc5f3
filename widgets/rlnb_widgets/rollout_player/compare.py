"""Comparison of two rollouts: the first step at which they diverge, and the entry that differs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rlnb_widgets._core.text import key_text, shorten
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf


@dataclass(frozen=True)
class RolloutDivergence:
    """The place where two rollouts diverge."""

    t: int | None  #: first step that differs; None without a difference
    keys: tuple[Key, ...]  #: entries that differ at that step, root before ``"next"``
    first: str  #: text of the first of these entries in the first rollout
    second: str  #: the same in the second rollout
    only: tuple[tuple[Key, str], ...]  #: entries of one rollout only, or of differing shape: (key, problem)
    lengths: tuple[int, int]  #: number of steps of both rollouts
    names: tuple[str, str] = ("a", "b")  #: names of both

    def __str__(self) -> str:
        """Return the comparison as a sentence."""
        if self.t is None:
            short = min(self.lengths)
            text = f"Equal in all {short} steps"
            longer = max(self.lengths)
            text += "." if short == longer else f" they share; then one goes on to {longer}."
        else:
            values = f"{self.first} in {self.names[0]} and {self.second} in {self.names[1]}"
            text = f"They part at step {self.t}: {shorten(key_text(self.keys[0]), 60)} is {values}."
            if self.keys[1:]:
                text += f" Also {', '.join(shorten(key_text(k), 40) for k in self.keys[1:5])}"
                text += f" and {len(self.keys) - 5} more." if len(self.keys) > 5 else "."
        extras = "; ".join(f"{shorten(key_text(k), 60)} {why}" for k, why in self.only[:5])
        return f"{text} {extras}." if extras else text


def first_parting(
    a: dict[Key, RolloutLeaf], b: dict[Key, RolloutLeaf], names: tuple[str, str] = ("a", "b")
) -> RolloutDivergence:
    """Compare the first environments of two rollouts entry by entry.

    NaN equals NaN. An entry that only one of them has, or whose shape differs, is listed and does not count as a
    divergence.
    """
    lengths = (_steps(a), _steps(b))
    steps = min(lengths)
    only: list[tuple[Key, str]] = []
    firsts: dict[Key, int] = {}
    for key in sorted({*a, *b}, key=lambda k: (k[0] == "next", k)):
        if key not in a or key not in b:
            only.append((key, f"is only in {names[key not in a]}"))
        elif a[key].shape != b[key].shape or a[key].kind != b[key].kind:
            only.append((key, f"has shape {list(a[key].shape)} in {names[0]} and {list(b[key].shape)} in {names[1]}"))
        else:
            differs = np.flatnonzero(_differs(a[key], b[key], steps))
            if differs.size:
                firsts[key] = int(differs[0])
    if not firsts:
        return RolloutDivergence(None, (), "", "", tuple(only), lengths, names)
    t = min(firsts.values())
    keys = tuple(key for key, first in firsts.items() if first == t)
    first, second = (leaves[keys[0]].text_at(0, t) for leaves in (a, b))
    return RolloutDivergence(t, keys, first, second, tuple(only), lengths, names)


def _steps(leaves: dict[Key, RolloutLeaf]) -> int:
    return next((leaf.values.shape[1] for leaf in leaves.values()), 0)


def _differs(a: RolloutLeaf, b: RolloutLeaf, steps: int) -> np.ndarray:
    if a.kind == "text":
        x = np.array(a.texts, dtype=object)[a.values[0, :steps]]
        y = np.array(b.texts, dtype=object)[b.values[0, :steps]]
        return np.asarray(x != y, dtype=bool)
    left, right = a.columns()[0, :steps], b.columns()[0, :steps]
    return np.asarray(((left != right) & ~((left != left) & (right != right))).any(-1))
