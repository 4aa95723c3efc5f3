"""MCTS: a Monte Carlo tree search over one root or many, run or stepped forwards and backwards."""

from __future__ import annotations

import copy
import math
import warnings
from random import Random
from typing import TYPE_CHECKING, Any

import numpy as np

from rlnb.search import faults, phases
from rlnb.search.budget import Budget, Progress, held_interrupt
from rlnb.search.evaluation import Evaluation, RandomRollout
from rlnb.search.games import Array, Game, game_of
from rlnb.search.gumbel import Gumbel
from rlnb.search.history import History, Record
from rlnb.search.noise import RootNoise
from rlnb.search.recording import record_simulation, redo, undo
from rlnb.search.results import SearchResults
from rlnb.search.rules import UCB1, Rule
from rlnb.search.single import SingleTree, fits_single, single_tree
from rlnb.search.solver import Solver
from rlnb.search.tree import FIRST_CAPACITY, SearchTree

if TYPE_CHECKING:
    from tensordict import TensorDictBase

    from rlnb.data import Tree
    from rlnb.envs import EnvBase

#: A game with at most so many positions is small: unless told otherwise, a search solves it.
SMALL_GAME = 100_000
#: For how many simulations room is made at once; beyond that it grows as it is filled.
MOST_AHEAD = 4096


class MCTS(SearchResults):
    """Monte Carlo tree search: select, expand and evaluate, back up.

    A simulation goes down from the root by the rule, adds one node, evaluates it, and adds what it found to all that
    lies on the way back. With many roots each has its own tree, and a simulation adds one node to each of them with
    one call of the network. In a game of two players the values of a node are those of the player who is to move.

    A new root is evaluated and counts as visited once. So the visits of a node are 1 plus those of its actions, unless
    the episode ends there.

    Args:
        env: what is searched: an env whose step reads all from the TensorDict, one that ``copy.deepcopy`` copies, or
            a :class:`Game`. It is not stepped.
        rule: selects the actions: :class:`UCB1` (the default), :class:`UCB1Tuned`, :class:`PUCT`, :class:`EXP3` or
            :class:`Gumbel`.
        evaluation: of the leaves: :class:`RandomRollout` (the default) or :class:`Network`.
        discount: of rewards, for each step, above 0 and at most 1.
        value_range: the least and the greatest return. The rules are made for returns of about -1 to 1, and others
            are mapped to that before they are scored. Where each of at most 50 steps gives 1, it is (0, 50).
        solver: whether wins, losses and draws that are proven are backed up, and what is settled is searched no more: a
            :class:`Solver`. It needs an env without chance. None (the default): where the game is small, that is, where
            its ``most_positions`` are known and at most ``SMALL_GAME``, as those of tic-tac-toe are. Proofs rest on
            the least and the greatest return: those of ``value_range`` if it is given, else those of the game.
        noise: mixed into the prior of the roots; None: none.
        seed: of all that is drawn here: one seed, one search. None draws one from the system.

    Attributes:
        nodes: the trees, a :class:`SearchTree`.
        history: the recorded simulations, a :class:`History`.
        simulations: how many were done since the reset, or since the roots advanced.
        interrupted: whether the last run ended by an interrupt.
        reused: how many nodes of each tree were kept when its root advanced, int64 ``[B]``; they are its first ones.

    Raises:
        TypeError: if the env can be neither stepped from a TensorDict nor copied, or its actions are not discrete.
        ValueError: if ``discount`` is not in (0, 1], or ``value_range`` is empty.

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
            raise ValueError(f"discount is above 0 and at most 1, and is {discount!r}.")
        if not low < high:
            raise ValueError(f"value_range is the least and the greatest return, and is {value_range!r}.")
        # A rule knows its draws and its range, so two searches share none.
        self.rule = UCB1() if rule is None else copy.copy(rule)
        self.evaluation = RandomRollout() if evaluation is None else evaluation
        if isinstance(rule, Gumbel) and isinstance(self.evaluation, RandomRollout) and self.evaluation.rollouts == 1:
            warnings.warn(faults.noisy_gumbel(), stacklevel=2)
        self.rule.scale(low, high)
        self.discount, self.value_range, self.noise, self.seed = discount, (low, high), noise, seed
        if solver is None:
            solver = self.game.most_positions is not None and self.game.most_positions <= SMALL_GAME
        self.solver = Solver(*(known or (-math.inf, math.inf)), discount) if solver else None
        self.rng, self.random = np.random.default_rng(seed), Random(seed)
        self.history = History()
        self.simulations, self.interrupted = 0, False
        self._nodes: SearchTree | None = None
        self._single: SingleTree | None = None
        self._live = self.reused = np.zeros(0, dtype=np.int64)
        self._shape: tuple[int, ...] = ()

    # Roots --------------------------------------------------------------------------------------------------------

    def reset(self, tensordict: TensorDictBase | None = None, *, seed: int | None = None) -> MCTS:
        """Start from new roots.

        Args:
            tensordict: what ``env.reset()`` or ``env.step()`` returned last, ``[*batch]``. For an env that keeps a
                state there is one root, the state that the env is in. None: a new episode.
            seed: starts all draws again; None: they go on.

        Returns:
            The search.

        Raises:
            ValueError: if an episode has ended or a root has no legal action. The search is left as it was.
        """
        game = self.game
        positions = game.start(tensordict)
        stuck = ~positions.legal.any(-1)
        if stuck.any():
            raise ValueError(faults.no_legal(int(stuck.argmax()), "root"))
        if seed is not None:
            self.seed, self.rng, self.random = seed, np.random.default_rng(seed), Random(seed)
        prior, value, bounds = phases.evaluate(game, self.evaluation, positions, self.rng, self.discount, self.solver)
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
        """Prepare the roots, which are there, for a search."""
        tree = self.nodes
        self.history.clear()
        self.simulations = 0
        self._live = self._unsettled()
        if self.noise is not None:
            tree.prior[:, 0] = self.noise(tree.prior[:, 0], tree.legal[:, 0], self.rng)
        self.rule.start(tree, self.rng)
        self._single = None
        if fits_single(tree.batch, self.game, self.rule, self.evaluation):
            self._single = single_tree(
                tree, self.game, self.rule, self.evaluation, self.random, self.discount, self.solver
            )

    def _unsettled(self) -> Array:
        """Return the trees in which there is something to search: no end of an episode, no proven root."""
        tree = self.nodes
        open_ = ~tree.terminal[:, 0]
        if self.solver is not None:
            open_ &= tree.lower[:, 0] < tree.upper[:, 0]
        return np.flatnonzero(open_)

    def advance(self, actions: Any) -> MCTS:
        """Take an action in each root: its subtree is kept, with all that is known of it, and the rest is dropped.

        The record of the simulations ends here. A root whose episode has ended stays as it is.

        Args:
            actions: one for each root, ``[*batch]``; a number where there is one root.

        Returns:
            The search.

        Raises:
            ValueError: if an action is illegal. The search is left as it was.
        """
        tree = self.nodes
        chosen = np.broadcast_to(np.asarray(actions).reshape(-1), (tree.batch,)).astype(np.int64)
        playing = np.flatnonzero(~tree.terminal[:, 0])
        for b in playing.tolist():
            if not 0 <= chosen[b] < tree.n_actions or not tree.legal[b, 0, chosen[b]]:
                raise ValueError(faults.illegal_action(b, int(chosen[b]), tree.legal[b, 0]))
        children = tree.children[playing, 0, chosen[playing]]
        new = playing[children < 0]
        if len(new):
            tree.reserve(1)
            zeros = np.zeros(len(new), dtype=np.int64)
            selected = phases.Selected(new, nodes=zeros, actions=chosen[new], children=zeros - 1)
            leaves, values = self._expand(selected)
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
            raise RuntimeError(faults.no_roots())
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
        """Do simulations until a budget is spent, or an interrupt comes; the tree is whole in either case.

        With a solver, a tree whose root is proven takes no more simulations, and the run ends when all of them are.

        Args:
            simulations: the most; each adds a node to every tree.
            seconds: the most.
            progress: True writes a bar to stderr; a function is called with the simulations done, how many there
                shall be, and the seconds that passed.
            record: keep what is needed to go :meth:`back`.

        Returns:
            The search.

        Raises:
            RuntimeError: if there is no root, or all of them are ends of episodes.
            ValueError: if there is no budget.
        """
        budget = Budget(simulations, seconds, progress)
        tree = self._ready()
        self.interrupted = False
        if simulations is not None:
            tree.reserve(min(simulations, MOST_AHEAD))
        del self.history.records[self.history.position :]
        if not record:
            self.history.clear()
        simulate = self._recorded if record else self._simulate
        with held_interrupt() as interrupt:
            while not budget.spent() and not interrupt.asked and len(self._live):
                simulate()
                budget.count()
        self.interrupted = interrupt.asked
        budget.tell()
        return self

    def step(self) -> Record:
        """Do one simulation and record it; or, after :meth:`back`, do again the one that was taken back.

        Returns:
            What it did.

        Raises:
            RuntimeError: if there is no root, or all of them are ends of episodes or proven.
        """
        tree = self._ready()
        if not len(self._live) and not self.history.can_redo:
            raise RuntimeError(faults.solved())
        if self.history.can_redo:
            record = redo(tree, self.history, self.rng, self.random)
            self.simulations += 1
            self._live = self._unsettled()
            return record
        return self._recorded()

    def back(self) -> Record:
        """Take the last simulation back: every number of the tree, and what is drawn next, is as before it.

        Returns:
            What is taken back.

        Raises:
            RuntimeError: if no simulation is recorded that could be.
        """
        tree = self.nodes
        if self.history.position == 0:
            raise RuntimeError(faults.nothing_to_undo())
        self.simulations -= 1
        record = undo(tree, self.history, self.rng, self.random)
        self._live = self._unsettled()
        return record

    def tree(self, tree: int = 0) -> Tree:
        """View one tree as a :class:`~rlnb.data.Tree`, to be walked, printed and plotted.

        Its counts are the visits and its wins the sums of the returns, for the player who is to move in a node; both
        are the memory of the search. Nodes that are added later need a new view.

        Args:
            tree: which.

        Returns:
            The Tree.
        """
        from rlnb.search.as_tree import as_tree  # a search that nobody views does not load the trees of rlnb.data

        return as_tree(self.nodes, self.game, tree)

    def _ready(self) -> SearchTree:
        tree = self.nodes
        if tree.terminal[:, 0].all():
            raise RuntimeError(faults.over())
        return tree

    def _simulate(self) -> None:
        """Do the three phases."""
        tree, rule, single = self.nodes, self.rule, self._single
        if int(tree.count.max()) == tree.capacity:
            tree.reserve(1)
        if single is not None:
            path = single.select()
            leaf, found = single.expand(path)
            root_changed = single.back_up(path, leaf, found)
        else:
            selected = phases.select(tree, rule, self._live, self.rng)
            leaves, values = self._expand(selected)
            root_changed = phases.back_up(tree, rule, selected, leaves, values, self.discount, self.solver)
        self.simulations += 1
        if root_changed:
            self._live = self._unsettled()

    def _expand(self, selected: phases.Selected) -> tuple[Array, Array]:
        return phases.expand(self.nodes, self.game, self.evaluation, selected, self.rng, self.discount, self.solver)

    def _recorded(self) -> Record:
        self.nodes.reserve(1)
        record = record_simulation(self, self._single, self._live)
        self.history.append(record)
        self.simulations += 1
        self._live = self._unsettled()
        return record

    def __repr__(self) -> str:
        where = "no root" if self._nodes is None else f"{self.nodes.batch} roots, {self.simulations} simulations"
        return f"MCTS({self.rule!r}, {self.evaluation!r}: {where.replace('1 roots', '1 root')})"


__all__ = ["MCTS"]
