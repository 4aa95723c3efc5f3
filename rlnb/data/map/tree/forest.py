"""MCTSForest: rollouts put together into trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tensordict import TensorDictBase

from rlnb.data.map.tdstorage import TensorDictMap
from rlnb.data.map.tree import faults, reading
from rlnb.data.map.tree.below import data_as_text
from rlnb.data.map.tree.graph import CycleFound, StepGraph
from rlnb.data.map.tree.growth import Growth
from rlnb.data.map.tree.node import Tree
from rlnb.data.map.tree.steps import GrowingSteps
from rlnb.data.map.tree.walk import Path
from rlnb.data.specs import Composite
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_tuple

if TYPE_CHECKING:
    from rlnb.envs import EnvBase


class MCTSForest:
    """Stores rollouts, and makes trees of those that have steps in common.

    A state is known by its observation, a step by the state before it, its action and the state after it. Rollouts
    that start alike share their steps, rollouts that meet again share what follows. A forest grows without limit unless
    it is given one.

    Keyword Args:
        data_map: a :class:`TensorDictMap` whose ``max_size`` limits the forest. The steps are kept by the forest itself
            and not in the map, which is left as it is.
        node_map: likewise.
        max_size: how many different steps the forest may hold; None for no limit.
        observation_keys: entries that tell one state from another. None for ``"observation"``; where there is none, for
            all entries that are there both before a step and after it.
        action_keys: entries that are actions. None for ``"action"``, or all entries of that name below the root.
        reward_keys: entries that are rewards; None for ``"reward"``.
        done_keys: entries that end an episode; None for ``"done"``, ``"terminated"`` and ``"truncated"``.
        excluded_keys: entries that are not stored.
        consolidated: without effect: the steps lie in one piece of memory for each entry.

    Example:
        >>> import torch
        >>> from tensordict import TensorDict
        >>> def rollout(states, actions):
        ...     states = torch.tensor(states)
        ...     after = TensorDict({"observation": states[1:]}, [len(actions)])
        ...     return TensorDict(
        ...         {"observation": states[:-1], "action": torch.tensor(actions), "next": after}, [len(actions)]
        ...     )
        >>> forest = MCTSForest()
        >>> forest.extend(rollout([0, 1, 2, 3], actions=[5, 6, 7]))
        >>> forest.extend(rollout([0, 1, 4], actions=[5, 8]))
        >>> tree = forest.get_tree(TensorDict({"observation": torch.tensor(0)}))
        >>> print(tree.to_string())
        () {'observation': tensor(1)}
        (0,) {'observation': tensor(3)}
        (1,) {'observation': tensor(4)}
        >>> tree.rollout_from_path((0,))["action"]
        tensor([5, 6, 7])
    """

    def __init__(
        self,
        *,
        data_map: TensorDictMap | None = None,
        node_map: TensorDictMap | None = None,
        max_size: int | None = None,
        done_keys: Sequence[NestedKey] | None = None,
        reward_keys: Sequence[NestedKey] | None = None,
        observation_keys: Sequence[NestedKey] | None = None,
        action_keys: Sequence[NestedKey] | None = None,
        excluded_keys: Sequence[NestedKey] | None = None,
        consolidated: bool | None = None,
    ) -> None:
        limits = [each.max_size for each in (data_map, node_map) if each is not None]
        limits += [] if max_size is None else [max_size]
        if limits and min(limits) < 1:
            raise ValueError(f"max_size is the number of steps that a forest may hold, 1 or more, and is {max_size!r}.")
        self.data_map, self.node_map, self.consolidated = data_map, node_map, consolidated
        self.max_size = min(limits, default=None)
        self._done_keys = None if done_keys is None else list(done_keys)
        self._reward_keys = None if reward_keys is None else list(reward_keys)
        self._observation_keys = None if observation_keys is None else list(observation_keys)
        self._action_keys = None if action_keys is None else list(action_keys)
        self._excluded_keys = list(excluded_keys or ())
        self._specs: Composite | None = None
        self._graph, self._steps = StepGraph(), GrowingSteps()
        self._kinds: dict[tuple[str, ...], reading.Kind | None] | None = None

    # Keys -------------------------------------------------------------------------------------------------------------

    @property
    def done_keys(self) -> list[NestedKey]:
        """Entries that end an episode."""
        return list(END_KEYS) if self._done_keys is None else self._done_keys

    @property
    def reward_keys(self) -> list[NestedKey]:
        """Entries that are rewards."""
        return ["reward"] if self._reward_keys is None else self._reward_keys

    @property
    def observation_keys(self) -> list[NestedKey]:
        """Entries that tell one state from another; those of the first rollout where none were named."""
        return ["observation"] if self._observation_keys is None else self._observation_keys

    @property
    def action_keys(self) -> list[NestedKey]:
        """Entries that are actions; those of the first rollout where none were named."""
        return ["action"] if self._action_keys is None else self._action_keys

    @property
    def excluded_keys(self) -> list[NestedKey]:
        """Entries that are not stored."""
        return self._excluded_keys

    def get_keys_from_env(self, env: EnvBase) -> None:
        """Take the keys that were not named from an env, and its specs for the trees.

        Args:
            env: the env that the rollouts come from.

        Raises:
            RuntimeError: if the forest holds rollouts already.
        """
        if len(self):
            raise RuntimeError(faults.late_keys("observation and action"))
        if self._done_keys is None:
            self._done_keys = list(env.done_keys)
        if self._reward_keys is None:
            self._reward_keys = list(env.reward_keys)
        if self._action_keys is None:
            self._action_keys = list(env.action_keys)
        if self._observation_keys is None:
            self._observation_keys = list(env.observation_spec.keys(True, True))
        self._specs = env.specs

    # Growing ----------------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        """How many different steps the forest holds."""
        return len(self._steps)

    def extend(self, rollout: TensorDictBase, *, return_node: bool = False) -> Tree | None:
        """Add a rollout.

        In the trees, nodes stand only where rollouts part and where they end. A rollout that starts like another one
        and parts from it makes a node where they part and one at its end. One that goes on where another ended moves
        that end. Steps that are there already change nothing; what is stored with a step, such as its reward, is what
        came first.

        Args:
            rollout: steps in the TED format, of any batch size. They are taken row by row, so that several rollouts,
                or episodes one after the other, may come at once.
            return_node: whether to return the tree that starts where the rollout starts.

        Returns:
            That tree, or None.

        Raises:
            TypeError: if it is no TensorDict, or a value that tells states apart has no hash.
            KeyError: if an entry is missing, or the rollouts before it had others.
            ValueError: if an entry has another shape, dtype or device than before, or a step leads back to a state
                that comes before it.
            IndexError: if the forest has no room for the steps. It stays as it was in all of these cases.
        """
        if not isinstance(rollout, TensorDictBase):
            raise TypeError(faults.not_a_rollout(rollout))
        rows = rollout.batch_size.numel()
        if rows:
            self._extend(rollout, rows)
        if not return_node or not rows:
            return None
        return self.get_tree(rollout.reshape(-1)[0] if rollout.batch_dims else rollout)

    def add(self, step: TensorDictBase, *, return_node: bool = False) -> Tree | None:
        """Add one step; see :meth:`extend`.

        Args:
            step: batch size ``[]``.
            return_node: whether to return the tree that starts with the step.

        Returns:
            That tree, or None.

        Raises:
            ValueError: if it is not one step. For the other errors see :meth:`extend`.
        """
        if isinstance(step, TensorDictBase) and step.batch_dims:
            raise ValueError(faults.not_a_step(step.batch_size))
        return self.extend(step, return_node=return_node)

    def _extend(self, rollout: TensorDictBase, rows: int) -> None:
        columns, branches = reading.columns_of(rollout, self._excluded_keys)
        keys = self._keys_for(columns)
        read = reading.read_rollout(columns, branches, rows, keys, self._kinds)
        try:
            plan = self._graph.plan(read.before, read.actions, read.after)
        except CycleFound as found:
            target = read.after[found.row]
            first = next((row for row in range(found.row + 1) if read.before[row] == target), None)
            raise ValueError(faults.cycle(found.row, first, keys.observation)) from None
        if self.max_size is not None and len(self) + len(plan.edges) > self.max_size:
            raise IndexError(
                f"The forest may hold max_size={self.max_size} steps, has {len(self)}, and the rollout brings "
                f"{len(plan.edges)} new ones. Fix: MCTSForest(max_size=...) with a larger number, or without a limit."
            )
        if plan.edges:
            self._steps.append(read.columns, read.branches, list(plan.edges.values()))
            self._graph.add(plan)
        if self._kinds is None:
            self._observation_keys, self._action_keys, self._kinds = keys.observation, keys.action, read.kinds

    def _keys_for(self, columns: dict[tuple[str, ...], Any]) -> reading.Keys:
        action = self._action_keys or reading.guess_action_keys(columns)
        if self._observation_keys:
            return reading.Keys(self._observation_keys, action)
        no = [*action, *self.reward_keys, *self.done_keys]
        return reading.Keys(reading.guess_observation_keys(columns, no), action)

    # Looking ----------------------------------------------------------------------------------------------------------

    def get_tree(self, root: TensorDictBase, *, max_depth: int | None = None, compact: bool = True) -> Tree:
        """Make the tree that starts in a state.

        Args:
            root: a TensorDict of batch size ``[]`` with the observation of the state.
            max_depth: how many nodes down from the root the tree goes, by the shortest way; None for all.
            compact: whether steps that have no other beside them are put together into one node. If False each step
                is a node.

        Returns:
            The root of the tree. It is as it is now: what is added later is not in it.

        Raises:
            KeyError: if an entry of the observation is missing.
            ValueError: if the forest does not know the state, or an argument is not what it should be.
        """
        if max_depth is not None and (not isinstance(max_depth, int) or max_depth < 0):
            raise ValueError(faults.bad_depth(max_depth))
        state = self._state(root)
        growth = Growth(self._graph, self._steps.view(), self._specs, list(map(as_tuple, self.observation_keys)))
        return Tree.from_arrays(growth.arrays(state, max_depth, compact, self.action_keys))

    def get_child(self, root: TensorDictBase) -> TensorDictBase:
        """Look up what follows an action.

        Args:
            root: a TensorDict of batch size ``[]`` with the observation of a state and an action.

        Returns:
            The step that is stored, batch size ``[]``; if chance led to several states, all of these, batch size
            ``[n]``.

        Raises:
            KeyError: if an entry is missing.
            ValueError: if the forest does not know the state, or this action in it.
        """
        state = self._state(root)
        columns = reading.columns_of(root.select(*self.action_keys, strict=False), ())[0]
        action = reading.action_key(columns, self.action_keys)
        edges = self._graph.out[state]
        found = [edge for edge in edges if self._graph.edge_keys[edge][1] == action]
        if not found:
            raise ValueError(faults.unknown_child(len(edges)))
        steps = self._steps.view().take(found)
        return steps[0] if len(found) == 1 else steps

    def _state(self, root: TensorDictBase) -> int:
        if not isinstance(root, TensorDictBase):
            raise TypeError(faults.not_a_rollout(root))
        if root.batch_dims:
            raise ValueError(faults.root_has_batch(root.batch_size))
        if self._kinds is None:
            raise ValueError(faults.unknown_root(self.observation_keys, 0))
        columns = reading.columns_of(root.select(*self.observation_keys, strict=False), ())[0]
        state = self._graph.number.get(reading.state_key(columns, self.observation_keys, self._kinds))
        if state is None:
            raise ValueError(faults.unknown_root(self.observation_keys, len(self._graph.keys)))
        return state

    def to_string(self, td_root: TensorDictBase, node_format_fn: Callable[[Tree], Any] = data_as_text) -> str:
        """Write the tree that starts in a state; see :meth:`Tree.to_string`.

        Args:
            td_root: see :meth:`get_tree`.
            node_format_fn: from a node to what is written.

        Returns:
            The text.
        """
        return self.get_tree(td_root).to_string(node_format_fn)

    @classmethod
    def valid_paths(cls, tree: Tree) -> Iterator[Path]:
        """Go through the paths of a tree; see :meth:`Tree.valid_paths`.

        Args:
            tree: the tree.

        Returns:
            The paths.
        """
        return tree.valid_paths()
