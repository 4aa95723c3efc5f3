"""Monte Carlo tree search (MCTS) over one root or a batch of roots, with results, undo and redo."""

from __future__ import annotations

import copy
import math
import warnings
from random import Random
from typing import Any, NamedTuple

import numpy as np
from tensordict import TensorDictBase

from rlnb.data.map.tree.node import Tree
from rlnb.envs.base import EnvBase
from rlnb.search import errors
from rlnb.search.as_tree import as_tree
from rlnb.search.budget import Budget, Progress, held_interrupt
from rlnb.search.evaluation import Evaluation, RandomRollout
from rlnb.search.games import Array, Game, game_of
from rlnb.search.gumbel import Gumbel
from rlnb.search.history import History, Record, SimulationPhases, record_simulation
from rlnb.search.noise import RootNoise
from rlnb.search.phases import Phases, Selected, evaluate
from rlnb.search.rules import UCB1, Rule
from rlnb.search.scalar_phases import ScalarPhases
from rlnb.search.solver import Solver
from rlnb.search.tree import FIRST_CAPACITY, SearchTree

#: A game with at most this many positions is solved by default.
SMALL_GAME = 100_000
#: Most simulations that memory is reserved for in advance; beyond that it grows as the trees do.
MOST_AHEAD = 4096


class ActionRow(NamedTuple):
    """The statistics of one action of a node.

    Attributes:
        action: index of the action.
        legal: whether the action is legal.
        visits: number of simulations that took it.
        value: mean return for the player who takes it; 0 if it was never taken.
        prior: probability under the policy.
        score: the score that the rule selects by.
        child: the node that it leads to; -1 if it was never taken.
        lower: lower bound of its return that a solver has proven; None without a solver or if the action is illegal.
        upper: upper bound, likewise. The return is proven where both are equal.

    Example:
        >>> from rlnb.envs import TicTacToeEnv
        >>> row = MCTS(TicTacToeEnv(), seed=0).reset().run(100).table()[4]
        >>> row.action, row.legal
        (4, True)
    """

    action: int
    legal: bool
    visits: int
    value: float
    prior: float
    score: float
    child: int
    lower: float | None = None
    upper: float | None = None


class MCTS:
    """Monte Carlo tree search: select, expand and evaluate, back up.

    A simulation descends from the root by the rule, adds one node, evaluates it, and adds the result to every node and
    action on the way back up. With a batch of roots each has its own tree; a simulation adds one node to each of them,
    with one call of the network. In a game of two players the values of a node are those of the player to move there.

    A new root is evaluated and counts as visited once. So the visits of a node are 1 plus those of its actions, unless
    the node is terminal.

    The results (:attr:`visits`, :attr:`q_values`, :attr:`policy` and so on) are arrays over the batch of roots:
    ``[*batch, A]``, or ``[A]`` for a single root.

    Args:
        env: the env to search: one whose ``step`` reads everything from the TensorDict, one that ``copy.deepcopy`` can
            copy, or a :class:`Game`. The env itself is never stepped.
        rule: selects the actions: :class:`UCB1` (the default), :class:`UCB1Tuned`, :class:`PUCT`, :class:`EXP3` or
            :class:`Gumbel`.
        evaluation: estimates the value of new nodes: :class:`RandomRollout` (the default) or :class:`Network`.
        discount: discount of rewards per step, above 0 and at most 1.
        value_range: the least and the greatest return. The rules are tuned for returns from about -1 to 1; returns are
            mapped to that range before they are scored. If each of at most 50 steps gives 1, it is (0, 50).
        solver: whether proven wins, losses and draws are backed up, and proven nodes are no longer searched; see
            :class:`Solver`. The env must be deterministic. None (the default): if the game is small, that is, if its
            ``most_positions`` is known and at most ``SMALL_GAME``, as that of tic-tac-toe is. Proofs rely on the least
            and the greatest return: those of ``value_range`` if it is given, else those of the game.
        noise: noise to mix into the prior of the roots. None: no noise.
        seed: seed of everything random in the search. None: a random seed.

    Attributes:
        nodes: the trees, a :class:`SearchTree`.
        history: the recorded simulations, a :class:`History`.
        simulations: number of simulations since the last :meth:`reset` or :meth:`advance`.
        interrupted: whether the last :meth:`run` ended by an interrupt.
        reused: number of nodes of each tree that the last :meth:`advance` kept, int64 ``[B]``; they come first.

    Raises:
        TypeError: If the env can be neither stepped from a TensorDict nor copied, or its actions are not discrete.
        ValueError: If ``discount`` is not in (0, 1], or ``value_range`` is empty.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> from rlnb.envs import TicTacToeEnv
        >>> env = TicTacToeEnv()
        >>> board = torch.tensor([[0, 0, -1], [1, 1, -1], [-1, -1, -1]], dtype=torch.int32)
        >>> search = MCTS(env, seed=0).reset(env.reset(TensorDict({"board": board})))
        >>> int(search.run(simulations=200).best_action)
        2
    """

    def __init__(
        self,
        env: EnvBase | Game,
        *,
        rule: Rule | None = None,
        evaluation: Evaluation | None = None,
        discount: float = 1.0,
        value_range: tuple[float, float] | None = None,
        solver: bool | None = None,
        noise: RootNoise | None = None,
        seed: int | None = None,
    ) -> None:
        self.game = game_of(env)
        known = self.game.returns if value_range is None else value_range
        low, high = known or (-1.0, 1.0)
        if not 0 < discount <= 1:
            raise ValueError(f"discount must be above 0 and at most 1, got {discount!r}.")
        if not low < high:
            raise ValueError(f"value_range must be (least return, greatest return), got {value_range!r}.")
        # A copy, since a rule holds the draws and the range of one search.
        self.rule = UCB1() if rule is None else copy.copy(rule)
        self.evaluation = RandomRollout() if evaluation is None else evaluation
        if isinstance(rule, Gumbel) and isinstance(self.evaluation, RandomRollout) and self.evaluation.rollouts == 1:
            warnings.warn(
                "Gumbel drops half of the actions after a few visits, so it needs accurate values, which a single "
                "random rollout is not: more simulations do not make the play better. "
                "Fix: MCTS(..., evaluation=Network(module)) or RandomRollout(rollouts=16), or rule=UCB1().",
                stacklevel=2,
            )
        self.rule.scale(low, high)
        self.discount, self.value_range, self.noise, self.seed = discount, (low, high), noise, seed
        if solver is None:
            solver = self.game.most_positions is not None and self.game.most_positions <= SMALL_GAME
        self.solver = Solver(*(known or (-math.inf, math.inf)), discount) if solver else None
        self.rng, self.random = np.random.default_rng(seed), Random(seed)
        self.history = History()
        self.simulations, self.interrupted = 0, False
        self._nodes: SearchTree | None = None
        self._live = self.reused = np.zeros(0, dtype=np.int64)
        self._shape: tuple[int, ...] = ()

    # Roots --------------------------------------------------------------------------------------------------------

    def reset(self, tensordict: TensorDictBase | None = None, *, seed: int | None = None) -> MCTS:
        """Start from new roots.

        Args:
            tensordict: what ``env.reset()`` or ``env.step()`` returned last, ``[*batch]``. An env that keeps a state
                has one root, its current state. None: a new episode.
            seed: new seed of everything random. None: the random generators continue.

        Returns:
            The search itself.

        Raises:
            ValueError: If an episode has ended or a root has no legal action. The search then stays unchanged.
        """
        game = self.game
        positions = game.start(tensordict)
        stuck = ~positions.legal.any(-1)
        if stuck.any():
            raise ValueError(errors.no_legal_action(int(stuck.argmax()), "root"))
        if seed is not None:
            self.seed, self.rng, self.random = seed, np.random.default_rng(seed), Random(seed)
        prior, value, bounds = evaluate(game, self.evaluation, positions, self.rng, self.discount, self.solver)
        batch = len(value)
        tree = SearchTree(
            batch, game.n_actions, game.state_shape, game.state_dtype,
            capacity=FIRST_CAPACITY, rule_fields=self.rule.fields,
            solver=self.solver is not None,
        )  # fmt: skip
        tree.add(np.arange(batch), positions, np.zeros(batch), prior, value, bounds)
        tree.visits[:, 0], tree.value_sum[:, 0] = 1, value
        env = getattr(game, "env", None)
        shape = tensordict.batch_size if tensordict is not None else getattr(env, "batch_size", (batch,))
        self._nodes, self._shape, self.reused = tree, tuple(shape), np.zeros(batch, dtype=np.int64)
        self._begin()
        return self

    def _begin(self) -> None:
        """Prepare a search from the roots that the trees now have."""
        tree = self.nodes
        self.history.clear()
        self.simulations = 0
        self._live = self._unsettled()
        if self.noise is not None:
            tree.prior[:, 0] = self.noise(tree.prior[:, 0], tree.legal[:, 0], self.rng)
        self.rule.start(tree, self.rng)
        scalar = ScalarPhases.of(tree, self.game, self.rule, self.evaluation, self.random, self.discount, self.solver)
        self._phases: SimulationPhases = self._array_phases() if scalar is None else scalar

    def _array_phases(self) -> Phases:
        return Phases(self.nodes, self.game, self.rule, self.evaluation, self.rng, self.discount, self.solver)

    def _unsettled(self) -> Array:
        """Return the trees that are still searched: those whose root is neither terminal nor proven."""
        tree = self.nodes
        open_ = ~tree.terminal[:, 0]
        if self.solver is not None:
            open_ &= tree.lower[:, 0] < tree.upper[:, 0]
        return np.flatnonzero(open_)

    def advance(self, actions: Any) -> MCTS:
        """Take an action in each root. Its subtree is kept, with all statistics; the rest of the tree is dropped.

        This clears the history. A root whose episode has ended stays as it is.

        Args:
            actions: one action for each root, ``[*batch]``; a number for a single root.

        Returns:
            The search itself.

        Raises:
            ValueError: If an action is illegal. The search then stays unchanged.
        """
        tree = self.nodes
        chosen = np.broadcast_to(np.asarray(actions).reshape(-1), (tree.batch,)).astype(np.int64)
        playing = np.flatnonzero(~tree.terminal[:, 0])
        for b in playing.tolist():
            if not 0 <= chosen[b] < tree.n_actions or not tree.legal[b, 0, chosen[b]]:
                raise ValueError(
                    f"advance got the action {int(chosen[b])} for tree {b}, and the legal actions of its root are "
                    f"{np.flatnonzero(tree.legal[b, 0]).tolist()}."
                )
        children = tree.children[playing, 0, chosen[playing]]
        new = playing[children < 0]
        if len(new):
            tree.reserve(1)
            zeros = np.zeros(len(new), dtype=np.int64)
            selected = Selected(new, nodes=zeros, actions=chosen[new], children=zeros - 1)
            leaves, values = self._array_phases().expand(selected)
            tree.visits[new, leaves], tree.value_sum[new, leaves] = 1, values
        for b in playing.tolist():
            tree.keep_subtree(b, int(tree.children[b, 0, chosen[b]]))
        self.reused = tree.count.copy()
        self.reused[new] = 0
        self._begin()
        return self

    @property
    def nodes(self) -> SearchTree:
        """The trees."""
        if self._nodes is None:
            raise RuntimeError(
                "The search has no root. Fix: search.reset(td) with what env.reset() or env.step() returned, then run."
            )
        return self._nodes

    # Simulations --------------------------------------------------------------------------------------------------

    def run(
        self,
        simulations: int | None = None,
        *,
        seconds: float | None = None,
        progress: bool | Progress = False,
        record: bool = False,
    ) -> MCTS:
        """Run simulations until a budget is spent or an interrupt arrives. Either way no simulation is left half done.

        With a solver, trees whose root is proven are no longer searched, and the run ends when all roots are proven.

        Args:
            simulations: the most simulations to run; each adds a node to every tree.
            seconds: the most seconds to run.
            progress: True writes a progress bar to stderr. A function is called with the simulations done, their total
                and the seconds elapsed.
            record: record the simulations, so that :meth:`back` can undo them.

        Returns:
            The search itself.

        Raises:
            RuntimeError: If there is no root, or all roots are terminal.
            ValueError: If there is no budget.
        """
        budget = Budget(simulations, seconds, progress)
        tree = self._ready()
        self.interrupted = False
        if simulations is not None:
            tree.reserve(min(simulations, MOST_AHEAD))
        self.history.drop_undone()
        if not record:
            self.history.clear()
        simulate = self._recorded if record else self._simulate
        with held_interrupt() as interrupt:
            while not budget.spent() and not interrupt.asked and len(self._live):
                simulate()
                budget.count()
        self.interrupted = interrupt.asked
        budget.report()
        return self

    def step(self) -> Record:
        """Run one simulation and record it; after :meth:`back`, redo the simulation that was undone last.

        Returns:
            The record of the simulation.

        Raises:
            RuntimeError: If there is no root, or all roots are terminal or proven.
        """
        tree = self._ready()
        if self.history.can_redo:
            record = self.history.redo(tree, self.rng, self.random)
            self.simulations += 1
            self._live = self._unsettled()
            return record
        if not len(self._live):
            raise RuntimeError(
                "Every root is proven, so no simulation can find out more. Fix: play search.best_action, advance, or "
                "make the search with solver=False."
            )
        return self._recorded()

    def back(self) -> Record:
        """Undo the last simulation: every number of the tree and every future random draw is as before it.

        Returns:
            The record of the simulation.

        Raises:
            RuntimeError: If there is no recorded simulation to undo.
        """
        tree = self.nodes
        if self.history.position == 0:
            raise RuntimeError(
                "There is no recorded simulation to take back: the search is at its first one, or the simulations were "
                "run without a record. Fix: search.step(), or search.run(..., record=True), records them."
            )
        self.simulations -= 1
        record = self.history.undo(tree, self.rng, self.random)
        self._live = self._unsettled()
        return record

    def _ready(self) -> SearchTree:
        tree = self.nodes
        if tree.terminal[:, 0].all():
            raise RuntimeError(
                "All roots are ends of episodes, so there is nothing to search. Fix: search.reset(td) with a new "
                "episode."
            )
        return tree

    def _simulate(self) -> None:
        """Run one simulation."""
        tree, phases = self.nodes, self._phases
        if int(tree.count.max()) == tree.capacity:
            tree.reserve(1)
        path = phases.select(self._live)
        leaves, values = phases.expand(path)
        root_changed = phases.back_up(path, leaves, values)
        self.simulations += 1
        if root_changed:
            self._live = self._unsettled()

    def _recorded(self) -> Record:
        """Run one simulation and record it."""
        tree = self.nodes
        tree.reserve(1)
        record = record_simulation(self._phases, tree, self._live, self.simulations, self.rng, self.random)
        self.history.append(record)
        self.simulations += 1
        self._live = self._unsettled()
        return record

    # Results ------------------------------------------------------------------------------------------------------

    def _shaped(self, array: Array) -> Array:
        return array.reshape((*self._shape, *array.shape[1:])).copy()

    @property
    def visits(self) -> Array:
        """Visits of each action of a root, int64 ``[*batch, A]``."""
        return self._shaped(self.nodes.edge_visits[:, 0])

    @property
    def q_values(self) -> Array:
        """Mean return of each action of a root, float64 ``[*batch, A]``; NaN for actions never taken.

        With a solver, means are clipped to the proven bounds.
        """
        nodes = self.nodes
        known = nodes.edge_visits[:, 0] > 0
        if self.solver is not None:
            known |= nodes.legal[:, 0] & (nodes.edge_lower[:, 0] == nodes.edge_upper[:, 0])
        return self._shaped(np.where(known, self._means(nodes.roots), np.nan))

    @property
    def value(self) -> Array:
        """Mean return of a root for the player to move, float64 ``[*batch]``; the proven return of a proven root."""
        nodes = self.nodes
        means = nodes.value_sum[:, 0] / nodes.visits[:, 0]
        if self.solver is not None:
            means = np.minimum(np.maximum(means, nodes.lower[:, 0]), nodes.upper[:, 0])
        return self._shaped(means)

    @property
    def solved(self) -> Array:
        """Whether a solver has proven the return of a root under best play, bool ``[*batch]``."""
        return self._shaped(~np.isnan(self._proven()))

    @property
    def proven(self) -> Array:
        """The proven return of a root under best play, float64 ``[*batch]``; NaN where none is proven.

        It is the return of the player to move; in a game with one winner 1 is a win, 0 a draw and -1 a loss.
        """
        return self._shaped(self._proven())

    def _proven(self) -> Array:
        nodes = self.nodes
        if self.solver is None:
            return np.full(nodes.batch, np.nan)
        lower, upper = nodes.lower[:, 0], nodes.upper[:, 0]
        return np.where(lower == upper, lower, np.nan)

    def _means(self, rows: Array) -> Array:
        """Mean returns of the actions of some nodes, 0 without a visit; with a solver clipped to their bounds."""
        flat = self.nodes.flat
        means: Array = flat.edge_value_sum[rows] / np.maximum(flat.edge_visits[rows], 1)
        if self.solver is not None:
            lower, upper = flat.edge_lower[rows], flat.edge_upper[rows]
            means = np.where(flat.legal[rows], np.minimum(np.maximum(means, lower), upper), means)
        return means

    def _worthy(self, rows: Array) -> Array:
        """Return which actions of some nodes may be best, bool ``[k, A]``.

        With a solver, an action is left out if it is proven that an action still open is at least as good.
        """
        flat = self.nodes.flat
        if self.solver is None:
            legal: Array = flat.legal[rows]
            return legal
        lower, upper = flat.lower[rows][:, None], flat.upper[rows][:, None]
        best = flat.edge_lower[rows] == lower  # in a proven node, only the actions proven to be as good
        open_ = flat.open[rows]
        rival = np.where(open_, flat.edge_lower[rows], -np.inf).max(-1, keepdims=True)
        return flat.legal[rows] & np.where(lower == upper, best, open_ | (flat.edge_upper[rows] > rival) & best)

    @property
    def prior(self) -> Array:
        """Prior probability of each action of a root, noise included, float64 ``[*batch, A]``."""
        return self._shaped(self.nodes.prior[:, 0])

    @property
    def policy(self) -> Array:
        """The policy found by the search, float64 ``[*batch, A]``: shares of the visits, or Gumbel's improved policy.

        With a solver, an action has probability 0 if another one is proven to be better, or proven to be as good and
        still open.
        """
        policy = self.rule.policy(self.nodes)
        if self.solver is not None:
            worthy = self._worthy(self.nodes.roots)
            policy = np.where(worthy, policy, 0.0)
            total = policy.sum(-1, keepdims=True)
            policy = np.where(total > 0, policy / np.where(total > 0, total, 1), worthy / worthy.sum(-1, keepdims=True))
        return self._shaped(policy)

    @property
    def best_action(self) -> Array:
        """The action to play, int64 ``[*batch]``.

        With a solver, the action with the greatest proven return, unless another action has a better mean.
        """
        nodes = self.nodes
        best = self.rule.best(nodes)
        if self.solver is not None:
            trees, certain = np.arange(nodes.batch), nodes.edge_lower[:, 0] == nodes.lower[:, :1]
            settle = (self._means(nodes.roots)[trees, best] <= nodes.lower[:, 0]) | ~nodes.open[:, 0].any(-1)
            # Among actions with the same proven return, prefer the one with the best mean of the evaluations.
            means = nodes.edge_value_sum[:, 0] / np.maximum(nodes.edge_visits[:, 0], 1)
            best = np.where(settle, np.where(certain, means, -np.inf).argmax(-1), best)
        return self._shaped(best)

    def table(self, node: int = 0, tree: int = 0) -> list[ActionRow]:
        """List the statistics of the actions of a node.

        Args:
            node: index of the node; 0 is the root.
            tree: index of the tree.

        Returns:
            A row for each action.
        """
        nodes = self.nodes
        rows = np.array([tree * nodes.capacity + node])
        lower, upper = self._bounds_of(rows)
        columns: tuple[Any, ...] = (
            range(nodes.n_actions),
            nodes.legal[tree, node].tolist(),
            nodes.edge_visits[tree, node].tolist(),
            self._means(rows)[0].tolist(),
            nodes.prior[tree, node].tolist(),
            self.rule.scores(nodes, rows)[0].tolist(),
            nodes.children[tree, node].tolist(),
            lower,
            upper,
        )
        return [ActionRow(*row) for row in zip(*columns, strict=True)]

    def _bounds_of(self, rows: Array) -> list[list[float | None]]:
        """Return the lower and the upper bounds of the actions of a node."""
        legal = self.nodes.flat.legal[rows][0].tolist()
        if self.solver is None:
            return [[None] * len(legal)] * 2
        bounds = self.nodes.flat.edge_lower[rows][0], self.nodes.flat.edge_upper[rows][0]
        return [[b if ok else None for b, ok in zip(bound.tolist(), legal, strict=True)] for bound in bounds]

    def principal_variation(self, tree: int = 0) -> list[int]:
        """List the most visited actions from the root on, among equals the one with the best value.

        With a solver, actions that are proven to be worse than another action are left out.

        Args:
            tree: index of the tree.

        Returns:
            The actions; an empty list if nothing was visited.
        """
        nodes, node, actions = self.nodes, 0, []
        while nodes.edge_visits[tree, node].any():
            rows = np.array([tree * nodes.capacity + node])
            visits, mean = np.where(self._worthy(rows)[0], nodes.edge_visits[tree, node], -1), self._means(rows)[0]
            actions.append(int(np.where(visits == visits.max(), mean, -np.inf).argmax()))
            node = int(nodes.children[tree, node, actions[-1]])
        return actions

    def tree(self, tree: int = 0) -> Tree:
        """View one tree as a :class:`~rlnb.data.Tree`, to walk, print and plot it.

        Its counts are the visits and its wins the sums of the returns for the player to move in a node. Both share
        memory with the search. Nodes that are added later need a new view.

        Args:
            tree: index of the tree.

        Returns:
            The root of the view.
        """
        return as_tree(self.nodes, self.game, tree)

    def __repr__(self) -> str:
        where = "no root" if self._nodes is None else f"{self.nodes.batch} roots, {self.simulations} simulations"
        return f"MCTS({self.rule!r}, {self.evaluation!r}: {where.replace('1 roots', '1 root')})"


__all__ = ["MCTS", "ActionRow"]
