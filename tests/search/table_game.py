"""A game given by formulas, so that another library can play exactly the same one; and a network for it."""

from __future__ import annotations

import numpy as np
from tensordict import TensorDict

from rlnb.search import Evaluation, Game, Positions

STATES, ACTIONS = 9973, 4


def next_state(state, action):
    return (state * ACTIONS + action + 1) % STATES


def logit(state, action):
    return ((state * 7919 + action * 1049 + 13) % 1009) / 1009 * 3 - 1.5


def value(state):
    return ((state * 6151 + 31) % 1013) / 1013 * 2 - 1


def reward(state):
    return ((state * 3571 + 7) % 101) / 101 * 0.4 - 0.2


class TableGame(Game):
    """Integers as states. No episode ends."""

    n_actions, state_shape, state_dtype = ACTIONS, (), np.int64

    def __init__(self, n_players=1, roots=(0,)):
        self.n_players, self.roots = n_players, np.array(roots)

    def start(self, tensordict):
        return self._positions(self.roots, np.zeros(len(self.roots), np.int8))

    def step(self, states, actions):
        after = next_state(states, actions)
        return self._positions(after, np.zeros(len(after), np.int8)), reward(after)

    def _positions(self, states, turn):
        n = len(states)
        return Positions(states, turn, np.ones((n, ACTIONS), bool), np.zeros(n, bool))

    def playout(self, positions, rng, discount, max_steps):
        return value(positions.states)

    def observe(self, states):
        return TensorDict({}, [len(states)])


class TwoPlayerTableGame(TableGame):
    """The same, where two take turns: the state has the turn in its second place."""

    state_shape = (2,)

    def __init__(self, roots=(0,)):
        super().__init__(2, roots)

    def start(self, tensordict):
        return self._both(self.roots, np.zeros(len(self.roots), np.int64))

    def _both(self, states, turn):
        n = len(states)
        both = np.stack((states, turn), -1)
        return Positions(both, turn.astype(np.int8), np.ones((n, ACTIONS), bool), np.zeros(n, bool))

    def step(self, states, actions):
        after = next_state(states[:, 0], actions)
        return self._both(after, 1 - states[:, 1]), reward(after)


class TableNetwork(Evaluation):
    """The formulas as prior and value."""

    def __call__(self, game, positions, rng, discount):
        states = positions.states if positions.states.ndim == 1 else positions.states[:, 0]
        logits = logit(states[:, None], np.arange(ACTIONS))
        shares = np.exp(logits - logits.max(-1, keepdims=True))
        return shares / shares.sum(-1, keepdims=True), value(states)
