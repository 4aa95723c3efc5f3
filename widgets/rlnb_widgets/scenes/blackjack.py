"""Scene of Blackjack: the dealer's card, the player's sum and whether an ace counts 11."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rlnb_widgets.scenes.drawing import box, paper, pose, text
from rlnb_widgets.scenes.inputs import Floats, action_indices, feature_rows, indices
from rlnb_widgets.scenes.scene import Part, Scene

_WIDTH, _HEIGHT = 320.0, 224.0
_CARDS = _DEALER, _PLAYER = 86.0, 224.0
_MIDDLE = 122.0
_FACES = ("A", *map(str, range(2, 11)))
_CALLS = ("stick", "hit")


def _word(name: str, size: float, words: str, role: str = "ink") -> Part:
    return Part(name, [text(0, 0, size, words, role)])


class Blackjack:
    """Draws Blackjack from (player's sum, dealer's card, usable ace).

    Example:
        >>> Blackjack().pose([(14, 10, 0)], actions=[1]).caption_at(0)
        'player has 14, dealer shows 10; hit'
    """

    fields = ("player's sum", "dealer's card", "usable ace")
    background = (
        paper(_WIDTH, _HEIGHT),
        box(0, 0, _WIDTH, _HEIGHT, "ground"),
        text(_DEALER, 28, 24, "Dealer", "ink"),
        text(_PLAYER, 28, 24, "You", "ink"),
        *(box(x - 50, _MIDDLE - 66, 100, 132, "paper", stroke="muted", radius=10) for x in _CARDS),
    )
    # A number that changes is drawn as all digits, one of which is shown.
    parts = (
        *(_word(f"dealer {face}", 60, face) for face in _FACES),
        *(_word(f"tens {digit}", 60, str(digit)) for digit in range(1, 4)),
        *(_word(f"ones {digit}", 60, str(digit)) for digit in range(10)),
        _word("usable ace", 22, "A = 11", "accent"),
        _word("bust", 22, "bust", "bad"),
        *(_word(call, 24, call) for call in _CALLS),
    )

    def _fields(self, observations: Any) -> tuple[Floats, Floats, Floats]:
        if isinstance(observations, tuple) and len(observations) == 3:
            columns = observations
        else:
            columns = tuple(feature_rows(observations, "Blackjack", self.fields).T)
        total, card, ace = (
            indices(column, n, f"Blackjack {field}")
            for column, n, field in zip(columns, (32, 11, 2), self.fields, strict=True)
        )
        lengths = [len(total), len(card), len(ace)]
        if len(set(lengths)) != 1:
            raise ValueError(f"Blackjack needs as many sums as cards and aces, got {lengths}.")
        return total, card, ace

    def pose(self, observations: Any, actions: Any = None) -> Scene:
        """Return the scene of rows [N, 3], or of a tuple of three columns (indices [N] or one-hot), and the calls.

        A tuple of three is always read as columns; pass a list or an array of rows otherwise.
        """
        total, card, ace = self._fields(observations)
        call = action_indices(actions, 2, len(total), "Blackjack")
        tens, ones = np.divmod(total, 10)
        spread = np.where(tens > 0, 18.0, 0.0)

        def column(x: Any, y: float, value: Floats, of: range) -> list[npt.NDArray[np.float32]]:
            return [pose(x, y, 0.0, value == k) for k in of]

        poses = [
            *column(_DEALER, _MIDDLE, card, range(1, 11)),
            *column(_PLAYER - spread, _MIDDLE - 8, tens, range(1, 4)),
            *column(_PLAYER + spread, _MIDDLE - 8, ones, range(10)),
            *column(_PLAYER, _MIDDLE + 44, ace, range(1, 2)),
            pose(_PLAYER, _MIDDLE + 44, 0.0, (total > 21) & (ace != 1)),
            *column((_DEALER + _PLAYER) / 2, _HEIGHT - 16, call, range(2)),
        ]

        def caption(i: int) -> str:
            if np.isnan(total[i]) or np.isnan(card[i]):
                return "no observation"
            words = f"player has {total[i]:.0f}{' with a usable ace' if ace[i] == 1 else ''}"
            words += f", dealer shows {_FACES[int(card[i]) - 1] if card[i] else 'nothing'}"
            return words if np.isnan(call[i]) else f"{words}; {_CALLS[int(call[i])]}"

        return Scene(_WIDTH, _HEIGHT, self.background, self.parts, np.stack(poses, axis=1), caption)
