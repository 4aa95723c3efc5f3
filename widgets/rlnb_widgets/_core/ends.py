"""Lines at the ends of episodes: colour role and dashes of each kind of end, the same in all visualizers."""

from __future__ import annotations

#: Role and dashes by kind: done, where the data does not say which of the two; cut, where another trajectory follows.
ENDS: dict[str, tuple[str, tuple[float, float] | None]] = {
    "terminated": ("bad", None),
    "truncated": ("accent", (5, 4)),
    "done": ("muted", None),
    "cut": ("muted", (1.5, 3)),
}
