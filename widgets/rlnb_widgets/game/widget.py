"""Game: an environment that is played in the cell, with mouse and keyboard."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import traitlets
from tensordict import TensorDict, TensorDictBase

from rlnb.envs import EnvBase
from rlnb_widgets._core import Svg, Visualizer, bundle_css, bundle_js
from rlnb_widgets.game.actions import actions_of
from rlnb_widgets.game.match import Match
from rlnb_widgets.game.picture import picture
from rlnb_widgets.game.static import game_svg
from rlnb_widgets.game.text import explanation, game_text, headline, status
from rlnb_widgets.scenes import find_scene

__all__ = ["Game", "play"]

_HERE = Path(__file__).parent


class Game(Visualizer):
    """Plays an env in the cell, against a policy or alone; see :func:`play`.

    Args:
        env: as for :func:`play`.
        policy: as for :func:`play`.
        you: as for :func:`play`.
        start: as for :func:`play`.
        seed: as for :func:`play`.

    Attributes:
        match: the :class:`~rlnb_widgets.game.Match` behind it.

    Raises:
        TypeError: as :class:`~rlnb_widgets.game.Match`, and for an unknown argument.
        ValueError: as :class:`~rlnb_widgets.game.Match`.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> game = Game(TicTacToeEnv(), lambda board, turn, mask: mask.long().argmax(-1))
        >>> game.act(4)
        >>> game
        Game(TicTacToeEnv, you are X, <lambda> is O, 2 moves)
          O . .
          . X .
          . . .
          O played 0. Your turn: X.
          actions: 1, 2, 3, 5, 6, 7, 8
        >>> game.rollout["action"].tolist()
        [4, 0]
    """

    _esm = bundle_js(_HERE / "game.js")
    _css = bundle_css(_HERE / "game.css")
    _head = traitlets.Dict().tag(sync=True)
    _state = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        env: EnvBase,
        policy: Any = None,
        *,
        you: int = 0,
        start: TensorDictBase | None = None,
        seed: int | None = None,
        **unknown: Any,
    ) -> None:
        self._refuse_unknown(unknown)
        if seed is not None and isinstance(env, EnvBase):
            env.set_seed(seed)
        self.match = Match(env, policy, you, start)
        self._spec = find_scene(env)
        self._actions = actions_of(self._spec, self.match.n_actions)
        self._since = len(self.match.steps)
        self._asked = 0
        self._fault = ""
        super().__init__(_head=self._describe(), _state=self._now())
        self.on_msg(self._on_message)

    # For Python ---------------------------------------------------------------------------------------------------

    @property
    def rollout(self) -> TensorDict:
        """All steps of this game in the TED format, of shape ``[time]``.

        Raises:
            ValueError: before the first move.
        """
        return self.match.rollout

    def act(self, action: int) -> None:
        """Take an action, as a click or a key does.

        Args:
            action: its index.

        Raises:
            ValueError: if it is illegal, or not your turn.
        """
        self._change("act", action)

    def new(self) -> None:
        """Start anew."""
        self._change("new")

    def take_back(self) -> None:
        """Go back to before your last move.

        Raises:
            ValueError: if there is none, or the env keeps a state of its own.
        """
        self._change("take_back")

    def swap(self) -> None:
        """Change sides with the policy.

        Raises:
            ValueError: if the env has no other side.
        """
        self._change("swap")

    def let_policy(self) -> None:
        """Let the policy choose your action.

        Raises:
            ValueError: if it is not your turn.
        """
        self._change("let_policy")

    def _change(self, what: str, *arguments: int) -> None:
        before = len(self.match.steps)
        try:
            getattr(self.match, what)(*arguments)
        finally:
            self._since = len(self.match.steps) if what == "new" else max(0, len(self.match.steps) - before)
            self._fault = ""
            self._tell()

    # For the page -------------------------------------------------------------------------------------------------

    def _on_message(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Do what the page asks for, unless it has not heard yet of what has happened since."""
        what = content.get("do") if isinstance(content, dict) else None
        if what not in ("act", "new", "take_back", "swap", "let_policy"):
            return
        if content.get("asked") != self._asked:
            self._tell()
            return
        action = content.get("action")
        try:
            if what == "act" and type(action) is not int:
                raise ValueError(f"An action is a whole number, and {action!r} is none.")
            self._change(what, *([action] if what == "act" else []))
        except Exception as error:  # nobody reads a traceback that a click has caused
            self._fault = str(error)
            self._tell()

    def _tell(self) -> None:
        self._asked += 1
        self._state = self._now()

    def _describe(self) -> dict[str, Any]:
        """Return what never changes."""
        seen = picture(self.match, self._spec, 0)
        targets = self._spec.targets() if hasattr(self._spec, "targets") and seen.scene is not None else ()  # type: ignore[union-attr]
        return {
            "scene": None if seen.scene is None else seen.scene.to_dict(),
            "targets": [asdict(target) for target in targets],
            "actions": [{"name": a.name, "keys": list(a.keys), "hint": a.hint} for a in self._actions],
            "two": self.match.two_players,
            "note": seen.note,
        }

    def _now(self) -> dict[str, Any]:
        """Return how it stands."""
        match, seen = self.match, picture(self.match, self._spec, self._since)
        thought = match.thought
        return {
            "asked": self._asked,
            "steps": len(match.steps),
            "headline": headline(match),
            "status": status(match),
            "problem": self._fault or match.problem,
            "caption": "" if seen.scene is None else seen.scene.caption_at(-1),
            "frames": [] if seen.scene is None else _frames(seen.scene.poses[seen.first :]),
            "places": list(seen.places),
            "legal": match.legal if match.your_turn else [False] * match.n_actions,
            "done": match.done,
            "can": {"take_back": match.can_take_back, "swap": match.can_swap, "let_policy": match.your_turn},
            "thought": None if thought is None else asdict(thought),
        }

    # The faces ----------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        return game_text(self.match, picture(self.match, self._spec, self._since), self._actions)

    def _svg(self) -> Svg:
        return game_svg(self.match, picture(self.match, self._spec, self._since), self._actions)

    def _explain(self) -> str:
        return explanation(self.match, picture(self.match, self._spec, self._since), self._actions)


def _frames(poses: Any) -> list[list[list[float] | None]]:
    """Write poses as JSON can hold them: None for a part that is hidden."""
    return [
        [None if any(v != v for v in pose) else [round(v, 2) for v in pose] for pose in frame]
        for frame in poses.tolist()
    ]


def play(
    env: EnvBase, policy: Any = None, *, you: int = 0, start: TensorDictBase | None = None, seed: int | None = None
) -> Game:
    """Play an env in the cell: a game against a policy, any other env alone, with mouse and keyboard.

    In a game (an env with a "turn" and the rewards of two players), choose a cell or column; the policy answers. In any
    other env each button or key is one step. What the policy wrote beside its action ("logits", "probs" or
    "action_value") can be shown on the board. A policy that fails is reported, and a random move is made in its place.

    Args:
        env: an env of one action, a discrete one, without batch dimensions.
        policy: whatever ``env.rollout`` takes: a TensorDictModule, or a function of the TensorDict or the
            observations. None: random legal moves.
        you: which player you are, 0 (who begins) or 1.
        start: passed to the reset: ``TensorDict({"board": board})`` starts a stateless game from a position.
        seed: to seed the env with first.

    Returns:
        The game: shown in the cell, and played from Python too (``act``, ``new``, ``take_back``, ``swap``,
        ``let_policy``). ``game.rollout`` holds the steps in the TED format.

    Example:
        >>> from rlnb.envs import GridWorldEnv
        >>> game = play(GridWorldEnv(["S.G"]))
        >>> game.act(2), game.act(2)
        (None, None)
        >>> game
        Game(GridWorldEnv, 2 steps, return 1)
          agent at row 0, column 2 (goal)
          The episode is over (terminated) after 2 steps, return 1.
    """
    return Game(env, policy, you=you, start=start, seed=seed)
