"""Matches: a human plays an env, alone or against a policy, and every step is kept as TED."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.specs.categorical import Categorical, OneHot
from rlnb.data.ted.keys import DONE, as_key, as_tuple
from rlnb.data.ted.step_mdp import step_mdp
from rlnb.envs.base import EnvBase
from rlnb.envs.errors import policy_name, policy_returned, policy_wrote_no_action
from rlnb.envs.policies import is_random, make_policy
from rlnb.envs.stacking import stack_steps
from rlnb_widgets.game.thought import Thought, read_thought

#: What the two players of a game are called.
SIDES = ("X", "O")
_PLAYERS = (("player0", "reward"), ("player1", "reward"))
_MASKS = ("mask", "action_mask")


class Match:
    """A game or an episode that you play, move by move.

    An env with a "turn" and the rewards of two players is a game: the policy answers whenever it is not your turn. Any
    other env is played alone, and its policy moves only when you ask it to. If the policy fails, a random legal move is
    made instead, and `problem` describes the error.

    Args:
        env: an env with one discrete action and without batch dimensions.
        policy: any policy that ``env.rollout`` takes. None: random legal moves.
        you: your player, 0 or 1; 0 in an env that is played alone.
        start: argument of ``env.reset``, such as a position of a stateless game.

    Attributes:
        steps: the steps so far, a TensorDict each, with "next".
        movers: who chose the action of each step, "you" or "policy".
        root: the root of the next step.
        thought: what the policy wrote about its last move; None if it wrote nothing.
        problem: the error of the policy at your last action, or an empty text.
        taken_back: whether the last thing that happened is that you took a move back.

    Raises:
        TypeError: If ``env`` is not an env, or has several actions or one that is not discrete.
        ValueError: If the env is batched, or has no player ``you``.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> match = Match(TicTacToeEnv(seed=0))
        >>> match.act(4)
        >>> match.movers, match.your_turn, match.rollout.batch_size
        (['you', 'policy'], True, torch.Size([2]))
    """

    def __init__(self, env: EnvBase, policy: Any = None, you: int = 0, start: TensorDictBase | None = None) -> None:
        _check_env(env)
        self.env, self.policy = env, policy
        self.n_actions = int(env.action_spec.space.n)
        self.two_players = "turn" in env.observation_keys and set(_PLAYERS) <= set(env.reward_keys)
        self.can_swap = self.two_players and not getattr(env, "single_player", False)
        if you not in ((0, 1) if self.can_swap else (0,)):
            legal = "0 or 1" if self.can_swap else "0, as the env has no other side"
            raise ValueError(f"you, your player, must be {legal}, got {you!r}.")
        self.you = you
        self._start = start
        self._act = make_policy(env, policy)
        self.policy_name = "random moves" if is_random(env, policy) else policy_name(policy)
        self.steps: list[TensorDictBase] = []
        self.movers: list[str] = []
        self._roots: list[TensorDictBase] = []
        self.thought: Thought | None = None
        self.problem = ""
        self.taken_back = False
        #: Called before the policy chooses its answer.
        self.before_answer: Callable[[], None] = lambda: None
        self.root: TensorDictBase = TensorDict({})
        self.new()

    # State --------------------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Whether the game or episode is over."""
        return bool(self.steps) and bool(self._last(DONE).any())

    @property
    def turn(self) -> int:
        """The player to move; 0 in an env that is played alone."""
        return int(self.root["turn"]) if self.two_players else 0

    @property
    def your_turn(self) -> bool:
        """Whether the next action is yours."""
        return not self.done and (not self.two_players or self.turn == self.you)

    @property
    def legal(self) -> list[bool]:
        """Whether each action is legal, by the mask of the env if it has one; all False at the end."""
        if self.done:
            return [False] * self.n_actions
        for key in _MASKS:
            mask = self.root.get(key, None)
            if isinstance(mask, torch.Tensor) and mask.numel() == self.n_actions:
                return [bool(flag) for flag in mask.reshape(-1).tolist()]
        return [True] * self.n_actions

    @property
    def can_take_back(self) -> bool:
        """Whether you have made a move, in an env that keeps no state."""
        return not self.env.batch_locked and "you" in self.movers

    @property
    def rewards(self) -> list[float]:
        """The reward of each step, in a game your own."""
        key = _PLAYERS[self.you] if self.two_players else self.env.reward_keys[0]
        return [float(step.get(as_key(("next", *as_tuple(key)))).sum()) for step in self.steps]

    @property
    def winner(self) -> int | None:
        """The winner, or -1 for a draw; None before the end and in an env that is played alone."""
        if not self.two_players or not self.done:
            return None
        paid = [float(self._last(*key).sum()) for key in _PLAYERS]
        return -1 if paid[0] == paid[1] else int(paid[1] > paid[0])

    @property
    def rollout(self) -> TensorDict:
        """All steps in the TED format, ``[time]``, with the entries that they have in common.

        Raises:
            ValueError: If there is no step yet.
        """
        if not self.steps:
            raise ValueError("There is no step yet: make a move, in the cell or with game.act(action).")
        return stack_steps(self.steps, 0, ["time"])

    def _last(self, *key: str) -> torch.Tensor:
        found: torch.Tensor = self.steps[-1].get(("next", *key))
        return found

    # Moves --------------------------------------------------------------------------------------------------------

    def new(self) -> None:
        """Start a new game or episode; if it is not your turn, the policy moves."""
        root = self.env.reset(None if self._start is None else self._start.clone())
        self.root, self.steps, self.movers, self._roots = root, [], [], []
        self.thought, self.problem, self.taken_back = None, "", False
        self._answer()

    def act(self, action: int) -> None:
        """Take an action; in a game the policy answers.

        Args:
            action: index of the action.

        Raises:
            ValueError: If it is illegal, out of range, or not your turn. The match then stays unchanged.
        """
        self._assert_your_turn()
        if not 0 <= action < self.n_actions:
            raise ValueError(f"The actions are 0 to {self.n_actions - 1}, got {action}.")
        self._step(self.root.copy().set(self.env.action_key, self.env.action_spec.encode(action)), "you")
        self.problem = ""
        self._answer()

    def let_policy(self) -> None:
        """Let the policy choose your action.

        Raises:
            ValueError: If it is not your turn.
        """
        self._assert_your_turn()
        self.problem = ""
        self._policy_step("you")
        self._answer()

    def take_back(self) -> None:
        """Take back your last move, and the answers to it.

        Raises:
            ValueError: If you have not moved, or the env keeps a state.
        """
        if self.env.batch_locked:
            name = type(self.env).__name__
            raise ValueError(f"{name} keeps its state to itself, so no move can be taken back. Start again instead.")
        if not self.can_take_back:
            raise ValueError("There is no move of yours to take back.")
        at = len(self.movers) - 1 - self.movers[::-1].index("you")
        self.root = self._roots[at]
        del self.steps[at:], self.movers[at:], self._roots[at:]
        self.thought, self.problem, self.taken_back = None, "", True

    def swap(self) -> None:
        """Change sides with the policy, which moves if it then is its turn.

        Raises:
            ValueError: If the env has no other side.
        """
        if not self.can_swap:
            raise ValueError(f"{type(self.env).__name__} has no other side to change to.")
        self.you, self.problem, self.taken_back = 1 - self.you, "", False
        self._answer()

    def _assert_your_turn(self) -> None:
        if self.done:
            raise ValueError("The game is over." if self.two_players else "The episode is over. Start again.")
        if not self.your_turn:
            raise ValueError("It is not your turn.")

    def _answer(self) -> None:
        while self.two_players and not self.done and self.turn != self.you:
            self.before_answer()
            self._policy_step("policy")

    def _policy_step(self, mover: str) -> None:
        """Let the policy act for itself or for you; if it fails, take a random legal action instead."""
        before, key = set(self.root.keys(True, True)), self.env.action_key
        try:
            acted = self._act(self.root.copy())
            if not isinstance(acted, TensorDictBase):
                raise policy_returned(self._act, acted)
            if acted.get(key, None) is None:
                raise policy_wrote_no_action(self._act, [key], before, acted)
            thought = read_thought(acted, self.legal)
            self._step(acted, mover)
            self.thought = thought
        except Exception as error:  # a learner's policy may raise anything; show it and continue the game
            words = error.args[0] if isinstance(error, KeyError) and error.args else error
            self.problem = f"{self.policy_name} failed, and a random move was made. {type(error).__name__}: {words}"
            self.thought = None
            self._step(self.env.rand_action(self.root.copy()), mover)

    def _step(self, data: TensorDictBase, mover: str) -> None:
        root, step = self.root, self.env.step(data)
        env = self.env
        self.root = step_mdp(step, reward_keys=env.reward_keys, done_keys=env.done_keys, action_keys=env.action_keys)
        self.taken_back = False
        self.steps.append(step)
        self.movers.append(mover)
        self._roots.append(root)

    @property
    def roots(self) -> list[TensorDictBase]:
        """The root of each step, and that of the next one."""
        return [*self._roots, self.root]


def _check_env(env: Any) -> None:
    if not isinstance(env, EnvBase):
        what = f"the class {env.__name__}" if isinstance(env, type) else f"a {type(env).__name__}"
        raise TypeError(f"play takes an env of rlnb, got {what}. Fix: play(TicTacToeEnv()), play(GymEnv('...')).")
    name = type(env).__name__
    if env.batch_dims:
        raise ValueError(
            f"play takes one env, and {name} has batch size {tuple(env.batch_size)}. Fix: make it without batch_size."
        )
    spec = env.action_spec
    if len(env.action_keys) != 1 or not isinstance(spec, (Categorical, OneHot)) or spec.shape.numel() > _width(spec):
        kind = f"{len(env.action_keys)} actions" if len(env.action_keys) != 1 else f"a {type(spec).__name__} action"
        raise TypeError(
            f"play needs an env with one discrete action, and {name} has {kind}, for which there is no key."
        )


def _width(spec: Any) -> int:
    return int(spec.space.n) if isinstance(spec, OneHot) else 1
