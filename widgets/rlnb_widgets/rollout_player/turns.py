"""Turn-based games: the player to move and the winner, for captions and text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rlnb_widgets.rollout_player.episodes import Episode
from rlnb_widgets.rollout_player.leaves import Key, RolloutLeaf


@dataclass(frozen=True, eq=False)
class Turns:
    """The players of a turn-based game."""

    players: tuple[str, ...]  #: names of the players, with their sign on the board if they have one
    short: tuple[str, ...]  #: short names: the sign, or else the name
    turn: np.ndarray  #: number of the player to move, ``[E, T]``
    after: np.ndarray | None  #: the same in ``"next"``; None if it is missing
    rewards: tuple[np.ndarray, ...]  #: rewards of each player, ``[E, T]``

    def at(self, env: int, t: int, short: bool = False) -> str:
        """Return the player to move at a step, in words."""
        return self._to_move(self.turn[env, t], short)

    def _to_move(self, number: float, short: bool) -> str:
        names = self.short if short else self.players
        return f"{names[int(number)] if 0 <= number < len(names) else f'player {number:g}'} to move"

    def numbered(self, over: np.ndarray) -> tuple[list[list[str]], np.ndarray, np.ndarray]:
        """Return the words for whose turn it is, long and short; their number before and after each step, ``[E, T]``.

        ``over`` says which steps end a game, ``[E, T]``.
        """
        sides = [self.turn, *([] if self.after is None else [self.after])]
        moves, where = np.unique(np.stack(sides), return_inverse=True)
        said = [[self._to_move(number, short) for short in (False, True)] for number in moves]
        said += [[words] * 2 for words in (*(f"{name} has won" for name in self.players), "a draw", "")]
        before, *rest = where.reshape(len(sides), *self.turn.shape)
        after = rest[0] if rest else np.full_like(before, len(said) - 1)
        rewards = np.stack(self.rewards)
        result = np.where(rewards.max(0) > 0, rewards.argmax(0), len(self.players))
        return said, before, np.where(over, len(moves) + result, after)

    def winner(self, env: int, t: int) -> str:
        """Return the winner of an episode, in words."""
        best = max(range(len(self.rewards)), key=lambda k: float(self.rewards[k][env, t]))
        return f"{self.players[best]} has won" if self.rewards[best][env, t] > 0 else "a draw"

    def results(self, episodes: Sequence[Episode]) -> str:
        """Count the games that each player has won."""
        ended = [self.winner(e.env, e.stop - 1) for e in episodes if e.end == "terminated"]
        counts = Counter(ended)
        said = [f"{name} won {counts[f'{name} has won']}" for name in self.players]
        said += [f"{counts['a draw']} drawn"] * bool(counts["a draw"])
        open_ones = sum(e.end == "open" for e in episodes)
        return ", ".join([*said, *([f"{open_ones} not over"] if open_ones else [])])


def find_turns(leaves: Mapping[Key, RolloutLeaf], signs: Sequence[str] = ()) -> Turns | None:
    """Find a turn-based game: an entry ``"turn"``, and a reward for each of several players; None if there is none.

    ``signs`` are those of the players in the drawing.
    """
    turn, after = leaves.get(("turn",)), leaves.get(("next", "turn"))
    keys = [key for key in leaves if key[0] == "next" and len(key) == 3 and key[-1] == "reward"]
    if turn is None or turn.kind != "number" or turn.shape not in ((), (1,)) or len(keys) < 2:
        return None
    found = [leaves[key] for key in sorted(keys)]
    if any(leaf.kind != "number" or leaf.shape not in ((), (1,)) for leaf in found):
        return None
    names = [key[1] for key in sorted(keys)]
    short = tuple(names)
    if len(signs) == len(names):
        short = tuple(signs)
        names = [f"{name} ({sign})" for name, sign in zip(names, signs, strict=True)]
    following = after.columns()[..., 0] if after is not None and after.shape == turn.shape else None
    return Turns(
        tuple(names), short, turn.columns()[..., 0], following, tuple(leaf.columns()[..., 0] for leaf in found)
    )
