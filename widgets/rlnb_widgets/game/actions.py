"""Names and keys of the actions of an env."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# By class of the scene, in the order of the actions.
_NAMES = {
    "Acrobot": ("left", "none", "right"),
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "MountainCar": ("left", "none", "right"),
    "Taxi": ("south", "north", "east", "west", "pick up", "drop off"),
}
_KEYS = {
    "left": "ArrowLeft", "right": "ArrowRight", "up": "ArrowUp", "down": "ArrowDown", "none": "ArrowDown",
    "west": "ArrowLeft", "east": "ArrowRight", "north": "ArrowUp", "south": "ArrowDown",
}  # fmt: skip
_ARROWS = {"ArrowLeft": "←", "ArrowRight": "→", "ArrowUp": "↑", "ArrowDown": "↓"}


@dataclass(frozen=True)
class Action:
    """One action."""

    name: str  #: its name, or its number
    keys: tuple[str, ...]  #: the keys that take it, by their ``KeyboardEvent.key``

    @property
    def hint(self) -> str:
        """The first key as printed on a button."""
        return _ARROWS.get(self.keys[0], self.keys[0]) if self.keys else ""


def actions_of(scene: Any, n: int) -> tuple[Action, ...]:
    """Return the actions of an env with their names and keys: arrows for directions, and digits.

    Example:
        >>> from rlnb_widgets.scenes import find_scene
        >>> [(action.name, action.keys) for action in actions_of(find_scene("CartPole-v1"), 2)]
        [('left', ('ArrowLeft', '0')), ('right', ('ArrowRight', '1'))]
        >>> actions_of(None, 12)[11]
        Action(name='11', keys=())
    """
    names = tuple(getattr(scene, "words", ()) or ()) if not callable(getattr(scene, "words", None)) else ()
    names = names or _NAMES.get(type(scene).__name__, ())
    if len(names) != n:
        names = tuple(map(str, range(n)))
    digits = [(str(k),) if k < 10 else () for k in range(n)]
    return tuple(
        Action(name, (_KEYS[name], *digit) if name in _KEYS else digit)
        for name, digit in zip(names, digits, strict=True)
    )
