"""The live game: a widget to play an environment with mouse and keyboard."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import traitlets
from tensordict import TensorDict, TensorDictBase

from rlnb.envs.base import EnvBase
from rlnb_widgets._core.esm import bundle_css, bundle_js
from rlnb_widgets._core.svg import Svg
from rlnb_widgets._core.visualizer import Visualizer
from rlnb_widgets.game.actions import actions_of
from rlnb_widgets.game.model import Match
from rlnb_widgets.game.picture import picture
from rlnb_widgets.game.scene import game_svg
from rlnb_widgets.game.text import game_text, match_explanation, match_headline, status
from rlnb_widgets.scenes.registry import find_scene

_HERE = Path(__file__).parent


class Game(Visualizer):
    """Plays an env in the cell, against a policy or alone; see :func:`play` for the arguments.

    Attributes:
        match: the :class:`~rlnb_widgets.game.Match` that is played.

    Raises:
        TypeError: As :class:`~rlnb_widgets.game.Match`, and if an argument is unknown.
        ValueError: As :class:`~rlnb_widgets.game.Match`.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> game = Game(TicTacToeEnv(), lambda board, turn, mask: mask.long().argmax(-1))
        >>> game.act(4)
        >>> game
        Game(TicTacToeEnv, you (X) against <lambda> (O), 2 moves)
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
        self._asked = self._before = 0
        self._problem = ""
        super().__init__(_head=self._describe(), _state=self._now())
        self.match.before_answer = self._show_your_move
        self.on_msg(self._on_message)

    # For Python ---------------------------------------------------------------------------------------------------

    @property
    def rollout(self) -> TensorDict:
        """All steps of this game in the TED format, ``[time]``.

        Raises:
            ValueError: If there is no step yet.
        """
        return self.match.rollout

    def act(self, action: int) -> None:
        """Take an action, as a click or a key does.

        Args:
            action: index of the action.

        Raises:
            ValueError: If it is illegal, or not your turn.
        """
        self._change("act", action)

    def new(self) -> None:
        """Start a new game or episode."""
        self._change("new")

    def take_back(self) -> None:
        """Take back your last move, and the answers to it.

        Raises:
            ValueError: If you have not moved, or the env keeps a state.
        """
        self._change("take_back")

    def swap(self) -> None:
        """Change sides with the policy.

        Raises:
            ValueError: If the env has no other side.
        """
        self._change("swap")

    def let_policy(self) -> None:
        """Let the policy choose your action.

        Raises:
            ValueError: If it is not your turn.
        """
        self._change("let_policy")

    def _change(self, what: str, *arguments: int) -> None:
        self._before = before = len(self.match.steps)
        try:
            getattr(self.match, what)(*arguments)
        finally:
            self._since = len(self.match.steps) if what == "new" else max(0, len(self.match.steps) - before)
            self._problem = ""
            self._send_state()

    def _show_your_move(self) -> None:
        """Show your move while the policy chooses its answer."""
        self._since, self._problem = max(0, len(self.match.steps) - self._before), ""
        self._send_state()

    # For the page -------------------------------------------------------------------------------------------------

    def _on_message(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Do what the page asks for, unless it acts on an outdated state."""
        what = content.get("do") if isinstance(content, dict) else None
        if what not in ("act", "new", "take_back", "swap", "let_policy"):
            return
        if content.get("asked") != self._asked:
            self._send_state()
            return
        action = content.get("action")
        try:
            if what == "act" and type(action) is not int:
                raise ValueError(f"An action must be an integer, got {action!r}.")
            self._change(what, *([action] if what == "act" else []))
        except Exception as error:  # shown in the page, since a click has no traceback
            self._problem = str(error)
            self._send_state()

    def _send_state(self) -> None:
        self._asked += 1
        self._state = self._now()

    def _describe(self) -> dict[str, Any]:
        """Return the part of the state that never changes."""
        seen = picture(self.match, self._spec, 0)
        targets = self._spec.targets() if hasattr(self._spec, "targets") and seen.scene is not None else ()  # type: ignore[union-attr]
        return {
            "scene": None if seen.scene is None else seen.scene.to_dict(),
            "targets": [{key: x for key, x in asdict(target).items() if key != "label"} for target in targets],
            "actions": [{"name": a.name, "keys": list(a.keys), "hint": a.hint} for a in self._actions],
            "two": self.match.two_players,
            "note": seen.note,
        }

    def _now(self) -> dict[str, Any]:
        """Return the state of the match."""
        match, seen = self.match, picture(self.match, self._spec, self._since)
        thought = match.thought
        return {
            "asked": self._asked,
            "steps": len(match.steps),
            "headline": match_headline(match),
            "status": status(match),
            "problem": self._problem or match.problem,
            "caption": "" if seen.scene is None else seen.scene.caption_at(-1),
            "frames": [] if seen.scene is None else seen.scene.poses_as_lists(slice(seen.first, None)),
            "places": list(seen.places),
            "legal": match.legal if match.your_turn else [False] * match.n_actions,
            "done": match.done,
            "thinking": not match.done and not match.your_turn,
            "can": {"take_back": match.can_take_back, "swap": match.can_swap, "let_policy": match.your_turn},
            "thought": None if thought is None else asdict(thought),
        }

    # Views -------------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        return game_text(self.match, picture(self.match, self._spec, self._since), self._actions)

    def _svg(self) -> Svg:
        return game_svg(self.match, picture(self.match, self._spec, self._since), self._actions)

    def _explain(self) -> str:
        return match_explanation(self.match, picture(self.match, self._spec, self._since), self._actions)


def play(
    env: EnvBase, policy: Any = None, *, you: int = 0, start: TensorDictBase | None = None, seed: int | None = None
) -> Game:
    """Play an env in the cell with mouse and keyboard: a game against a policy, any other env alone.

    In a game (an env with a "turn" and the rewards of two players), choose a cell or column; the policy answers. In any
    other env each button or key is one step. What the policy writes besides its action ("logits", "probs" or
    "action_value") can be shown on the board. If the policy fails, the error is shown, and a random move is made
    instead.

    Args:
        env: an env with one discrete action and without batch dimensions.
        policy: any policy that ``env.rollout`` takes: a TensorDictModule, or a function of the TensorDict or the
            observations. None: random legal moves.
        you: your player, 0 (who begins) or 1.
        start: argument of ``env.reset``: ``TensorDict({"board": board})`` starts a stateless game from a position.
        seed: seed of the env. None: the env is not seeded.

    Returns:
        The game. It is shown in the cell, and can be played from Python as well (``act``, ``new``, ``take_back``,
        ``swap``, ``let_policy``). ``game.rollout`` holds the steps in the TED format.

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
