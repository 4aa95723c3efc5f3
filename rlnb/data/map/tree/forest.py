"""MCTSForest: merges rollouts that share states into search trees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import torch
from tensordict import TensorDictBase

from rlnb.data.map.rows import row_keys
from rlnb.data.map.tdstorage import TensorDictMap
from rlnb.data.map.tree.graph import CycleFound, StepGraph
from rlnb.data.map.tree.growth import tree_arrays
from rlnb.data.map.tree.node import Tree, data_as_text
from rlnb.data.map.tree.steps import GrowingSteps
from rlnb.data.map.tree.walk import Path
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.columns import Column, read_columns
from rlnb.data.ted.keys import END_KEYS, NestedKey, as_key, as_tuple
from rlnb.data.ted.ragged import Path as EntryPath

#: Shape, dtype and device of one row of an entry; None for Python objects.
_Kind: TypeAlias = tuple[torch.Size, torch.dtype, torch.device] | None
_Columns: TypeAlias = dict[EntryPath, Column]


class _Env(Protocol):
    """The part of an env that :meth:`MCTSForest.get_keys_from_env` reads."""

    @property
    def done_keys(self) -> Sequence[NestedKey]: ...
    @property
    def reward_keys(self) -> Sequence[NestedKey]: ...
    @property
    def action_keys(self) -> Sequence[NestedKey]: ...
    @property
    def observation_spec(self) -> Composite: ...
    @property
    def specs(self) -> Composite: ...


class _Keys(NamedTuple):
    """The entries that identify states and actions."""

    observation: list[NestedKey]
    action: list[NestedKey]


class MCTSForest:
    """Stores rollouts, and makes search trees of those that share steps.

    A state is identified by its observation, a step by the state before it, its action and the state after it. Rollouts
    with the same first state share their common steps, and rollouts that reach the same state share what follows. The
    number of steps is unlimited unless a limit is given.

    Args:
        data_map: a :class:`TensorDictMap` whose ``max_size`` limits the forest. The forest stores the steps itself and
            does not write to the map.
        node_map: another map whose ``max_size`` limits the forest.
        max_size: the largest number of different steps. Default: unlimited.
        done_keys: keys of the end-of-episode signals. Default: ``"done"``, ``"terminated"`` and ``"truncated"``.
        reward_keys: keys of the rewards. Default: ``"reward"``.
        observation_keys: keys of the entries that identify a state. Default: ``"observation"``, or without such an
            entry all entries that exist both at the root and under ``"next"``.
        action_keys: keys of the actions. Default: ``"action"``, or without such an entry all nested entries of that
            name.
        excluded_keys: keys of entries that are not stored.
        consolidated: no effect: every entry is stored in one block of memory anyway.

    Raises:
        ValueError: If ``max_size`` is below 1.

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
            raise ValueError(f"max_size must be at least 1, the number of steps the forest may hold, got {max_size!r}.")
        self.data_map, self.node_map, self.consolidated = data_map, node_map, consolidated
        self.max_size = min(limits, default=None)
        given = (done_keys, reward_keys, observation_keys, action_keys)  # None for those to infer
        self._done_keys, self._reward_keys, self._observation_keys, self._action_keys = (
            None if keys is None else list(keys) for keys in given
        )
        self.excluded_keys = list(excluded_keys or ())
        self._specs: Composite | None = None
        self._graph, self._steps = StepGraph(), GrowingSteps()
        self._kinds: dict[EntryPath, _Kind] | None = None  # of the entries; None before the first rollout

    # Keys -------------------------------------------------------------------------------------------------------------

    @property
    def done_keys(self) -> list[NestedKey]:
        """Keys of the end-of-episode signals."""
        return list(END_KEYS) if self._done_keys is None else self._done_keys

    @property
    def reward_keys(self) -> list[NestedKey]:
        """Keys of the rewards."""
        return ["reward"] if self._reward_keys is None else self._reward_keys

    @property
    def observation_keys(self) -> list[NestedKey]:
        """Keys of the entries that identify a state; inferred from the first rollout unless given."""
        return ["observation"] if self._observation_keys is None else self._observation_keys

    @property
    def action_keys(self) -> list[NestedKey]:
        """Keys of the actions; inferred from the first rollout unless given."""
        return ["action"] if self._action_keys is None else self._action_keys

    def get_keys_from_env(self, env: _Env) -> None:
        """Take the keys that were not given from an env, and its specs for the trees.

        Args:
            env: the env that the rollouts come from.

        Raises:
            RuntimeError: If the forest holds rollouts already.
        """
        if len(self):
            raise RuntimeError(
                "The observation and action keys are fixed once the forest holds rollouts. "
                "Fix: set them before the first forest.extend, or create a new forest."
            )
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
        """Number of different steps that the forest holds."""
        return len(self._steps)

    def extend(self, rollout: TensorDictBase, *, return_node: bool = False) -> Tree | None:
        """Add a rollout.

        Trees have nodes only where rollouts branch and where they end. A rollout that starts like an earlier
        one and then branches off adds a node at the branch and one at its end. A rollout that continues where another
        one ended moves that end. Steps that are stored already change nothing: the other entries of a step, such as its
        reward, keep the values that were added first.

        Args:
            rollout: steps in the TED format, of any batch size. The rows are read in order, so a batch may hold several
                rollouts, and a row several episodes.
            return_node: whether to return the tree that starts at the first state of the rollout.

        Returns:
            That tree, or ``None``.

        Raises:
            TypeError: If the rollout is not a TensorDict, or a value that identifies states has no hash.
            KeyError: If an entry is missing, or earlier rollouts had other entries.
            ValueError: If an entry has another shape, dtype or device than before, or a step leads back to a state that
                comes before it.
            IndexError: If the forest has no room for the steps. It is unchanged after each of these errors.
        """
        _assert_rollout(rollout)
        rows = rollout.batch_size.numel()
        if rows:
            self._extend(rollout, rows)
        if not return_node or not rows:
            return None
        return self.get_tree(rollout.reshape(-1)[0] if rollout.batch_dims else rollout)

    def add(self, step: TensorDictBase, *, return_node: bool = False) -> Tree | None:
        """Add one step; see :meth:`extend`.

        Args:
            step: a step of batch size ``[]``.
            return_node: whether to return the tree that starts with the step.

        Returns:
            That tree, or ``None``.

        Raises:
            ValueError: If the batch size is not ``[]``. For the other errors see :meth:`extend`.
        """
        if isinstance(step, TensorDictBase) and step.batch_dims:
            raise ValueError(
                "forest.add takes one step, a TensorDict of batch size [], got batch size "
                f"{list(step.batch_size)}. Fix: forest.extend(rollout)."
            )
        return self.extend(step, return_node=return_node)

    def _extend(self, rollout: TensorDictBase, rows: int) -> None:
        columns, branches = read_columns(rollout if rollout.batch_dims else rollout.unsqueeze(0))
        _exclude(columns, self.excluded_keys)
        keys = self._keys_for(columns)
        before = _entries(columns, keys.observation, "observation")
        actions = _entries(columns, keys.action, "action")
        after = _entries(columns, keys.observation, "observation", in_next=True)
        kinds = {path: _kind_of(column) for path, column in columns.items()}
        _check_kinds(kinds, self._kinds, keys)
        _assert_hashable([*before, *actions, *after], [*keys.observation, *keys.action, *keys.observation])
        before_keys, action_keys, after_keys = (row_keys(entries, rows) for entries in (before, actions, after))
        try:
            plan = self._graph.plan(before_keys, action_keys, after_keys)
        except CycleFound as found:
            row, target = found.row, after_keys[found.row]
            first = next((step for step in range(row + 1) if before_keys[step] == target), None)
            where = (
                "to a state that comes before it in rollouts added earlier"
                if first is None
                else f"back to the state before step {first}"
            )
            raise ValueError(
                f"Step {row} of the rollout leads {where}: a cycle, and a tree has none. States are told apart by "
                f"{_listed(keys.observation)}. Fix: add what grows with time to them, such as a step count: "
                'env.append_transform(StepCounter()) and MCTSForest(observation_keys=[..., "step_count"]).'
            ) from None
        if self.max_size is not None and len(self) + len(plan.edges) > self.max_size:
            raise IndexError(
                f"The forest is limited to max_size={self.max_size} steps and holds {len(self)}; the rollout has "
                f"{len(plan.edges)} new ones. Fix: MCTSForest(max_size=...) with a larger number, or without a limit."
            )
        if plan.edges:
            self._steps.append(columns, branches, list(plan.edges.values()))
            self._graph.add(plan)
        if self._kinds is None:
            self._observation_keys, self._action_keys, self._kinds = keys.observation, keys.action, kinds

    def _keys_for(self, columns: _Columns) -> _Keys:
        action = self._action_keys or _guess_action_keys(columns)
        if self._observation_keys:
            return _Keys(self._observation_keys, action)
        return _Keys(_guess_observation_keys(columns, [*action, *self.reward_keys, *self.done_keys]), action)

    # Reading ----------------------------------------------------------------------------------------------------------

    def get_tree(self, root: TensorDictBase, *, max_depth: int | None = None, compact: bool = True) -> Tree:
        """Make the tree that starts at a state.

        Args:
            root: a TensorDict of batch size ``[]`` with the observation of the state.
            max_depth: depth of the deepest nodes, counted along the shortest path. Default: unlimited.
            compact: whether a chain of steps without branches becomes one node. If False, every step is a node.

        Returns:
            The root of the tree, a snapshot: steps that are added later do not appear in it.

        Raises:
            KeyError: If an entry of the observation is missing.
            ValueError: If the forest does not know the state, or an argument is out of range.
        """
        if max_depth is not None and (not isinstance(max_depth, int) or max_depth < 0):
            raise ValueError(
                f"max_depth must be an integer of at least 0, the depth of the deepest nodes, got {max_depth!r}. "
                "Fix: forest.get_tree(root, max_depth=3)."
            )
        arrays = tree_arrays(
            self._graph,
            self._steps.view(),
            self._state(root),
            max_depth=max_depth,
            compact=compact,
            observation=list(map(as_tuple, self.observation_keys)),
            action_keys=self.action_keys,
            specs=self._specs,
        )
        return Tree.from_arrays(arrays)

    def get_child(self, root: TensorDictBase) -> TensorDictBase:
        """Look up the step that an action led to.

        Args:
            root: a TensorDict of batch size ``[]`` with the observation of a state and an action.

        Returns:
            The stored step, batch size ``[]``. If the action has led to several states, all of these steps, batch size
            ``[n]``.

        Raises:
            KeyError: If an entry is missing.
            ValueError: If the forest does not know the state, or this action in it.
        """
        state = self._state(root)
        columns = read_columns(root.select(*self.action_keys, strict=False).unsqueeze(0))[0]
        entries = _entries(columns, self.action_keys, "action", where="The step")
        _assert_hashable(entries, self.action_keys)
        action = row_keys(entries, 1)[0]
        edges = self._graph.out[state]
        found = [edge for edge in edges if self._graph.edge_keys[edge][1] == action]
        if not found:
            count = len(edges)
            raise ValueError(
                f"This action was not taken in this state; {count or 'no'} "
                f"{'other was' if count == 1 else 'others were'}. "
                "Fix: take a step from a rollout that was added, or see forest.get_tree(root).selected_actions."
            )
        steps = self._steps.view()[torch.tensor(found)]
        return steps[0] if len(found) == 1 else steps

    def _state(self, root: TensorDictBase) -> int:
        """The number of a state in the graph."""
        _assert_rollout(root)
        if root.batch_dims:
            raise ValueError(
                f"The root of a tree must be one state, a TensorDict of batch size [], got batch size "
                f"{list(root.batch_size)}. Fix: pass one row, such as rollout[0]."
            )
        state = None
        if self._kinds is not None:
            columns = read_columns(root.select(*self.observation_keys, strict=False).unsqueeze(0))[0]
            entries = _entries(columns, self.observation_keys, "observation", where="The root")
            for key, column in zip(self.observation_keys, entries, strict=True):
                kind, expected = _kind_of(column), self._kinds[as_tuple(key)]
                if (kind and kind[:2]) != (expected and expected[:2]):
                    raise ValueError(_other_kind(as_tuple(key), expected, kind))
            _assert_hashable(entries, self.observation_keys)
            state = self._graph.number.get(row_keys(entries, 1)[0])
        if state is None:
            raise ValueError(
                f"The forest has no state with these values of {_listed(self.observation_keys)}; it holds "
                f"{len(self._graph.keys)} states. "
                "Fix: take the root from a rollout that was added, such as forest.get_tree(rollout[0])."
            )
        return state

    def to_string(self, td_root: TensorDictBase, node_format_fn: Callable[[Tree], Any] = data_as_text) -> str:
        """Write the tree that starts at a state; see :meth:`Tree.to_string`.

        Args:
            td_root: see :meth:`get_tree`.
            node_format_fn: called with each node, returns its description.

        Returns:
            The text.
        """
        return self.get_tree(td_root).to_string(node_format_fn)

    @classmethod
    def valid_paths(cls, tree: Tree) -> Iterator[Path]:
        """Iterate over the paths of a tree; see :meth:`Tree.valid_paths`."""
        return tree.valid_paths()


# Reading rollouts -----------------------------------------------------------------------------------------------------


def _assert_rollout(value: Any) -> None:
    if not isinstance(value, TensorDictBase):
        raise TypeError(
            f"A forest takes rollouts, which are TensorDicts, got a {type(value).__name__}. "
            "Fix: forest.extend(env.rollout(100))."
        )


def _exclude(columns: _Columns, excluded: Sequence[NestedKey]) -> None:
    """Delete entries, at the root and under "next"."""
    for parts in map(as_tuple, excluded):
        in_next = ("next", *parts)
        for path in list(columns):
            if parts == path[: len(parts)] or in_next == path[: len(in_next)]:
                del columns[path]


def _guess_observation_keys(columns: _Columns, others: Sequence[NestedKey]) -> list[NestedKey]:
    """``"observation"``, or all entries at the root and under "next" but ``others`` and end-of-episode signals."""
    if ("observation",) in columns:
        return ["observation"]
    no = {as_tuple(key) for key in others}
    found = [
        as_key(path)
        for path in columns
        if ("next", *path) in columns and path not in no and path[-1] not in END_KEYS and not path[-1].startswith("_")
    ]
    if not found:
        raise KeyError(
            'The forest cannot tell which entries are observations: no entry exists both at the root and under "next". '
            f"The entries are: {_listed(map(as_key, columns))}. Fix: MCTSForest(observation_keys=[...])."
        )
    return found


def _guess_action_keys(columns: _Columns) -> list[NestedKey]:
    """``"action"``, or all nested entries of that name."""
    if ("action",) in columns:
        return ["action"]
    found = [as_key(path) for path in columns if path[0] != "next" and path[-1] == "action"]
    if not found:
        raise KeyError(
            'The forest cannot tell which entries are actions: no entry is called "action". '
            f"The entries are: {_listed(map(as_key, columns))}. Fix: MCTSForest(action_keys=[...])."
        )
    return found


def _entries(
    columns: _Columns, keys: Sequence[NestedKey], what: str, *, in_next: bool = False, where: str = "The rollout"
) -> list[Any]:
    """The columns of some keys."""
    found = []
    for key in keys:
        path = ("next", *as_tuple(key)) if in_next else as_tuple(key)
        if path not in columns:
            level = 'under "next"' if in_next else "at the root"
            there = [as_key(path[1:] if in_next else path) for path in columns if (path[0] == "next") == in_next]
            raise KeyError(
                f"{where} has no entry {key!r} {level}, which is one of the {what} keys of the forest. "
                f"The entries {level} are: {_listed(there)}. "
                f"Fix: name the entries that identify {'a state' if what == 'observation' else 'an action'}, "
                f"MCTSForest({what}_keys=[...]), or forest.get_keys_from_env(env) before the first rollout."
            )
        found.append(columns[path])
    return found


def _check_kinds(kinds: dict[EntryPath, _Kind], known: dict[EntryPath, _Kind] | None, keys: _Keys) -> None:
    """Compare the entries of a rollout with those of earlier ones, or for the first rollout root with "next"."""
    if kinds == known:
        return
    if known is None:
        for path in map(as_tuple, keys.observation):
            one, other = kinds[path], kinds["next", *path]
            if one != other:
                raise ValueError(
                    f"The entry {as_key(path)!r} has {_text(one)} per step at the root and {_text(other)} under "
                    '"next", so no state could be recognized after a step. Fix: give both the same shape and dtype.'
                )
        return
    missing = [as_key(path) for path in known if path not in kinds]
    extra = [as_key(path) for path in kinds if path not in known]
    if missing or extra:
        parts = [f"lacks {_listed(missing)}"] if missing else []
        parts += [f"also has {_listed(extra)}"] if extra else []
        fix = "give all rollouts the same entries" if missing else f"rollout.exclude({_listed(extra)})"
        raise KeyError(
            f"All rollouts of a forest must have the same entries, but this one {' and '.join(parts)}. "
            f"Fix: {fix}, or leave entries out of the forest with MCTSForest(excluded_keys=[...])."
        )
    for path, kind in kinds.items():
        if kind != known[path]:
            raise ValueError(_other_kind(path, known[path], kind))


def _other_kind(path: EntryPath, expected: _Kind, found: _Kind) -> str:
    return (
        f"The entry {as_key(path)!r} had {_text(expected)} per step in earlier rollouts, got {_text(found)}. "
        "Fix: give all rollouts of a forest the same shapes, dtypes and device, or use one forest for each kind."
    )


def _assert_hashable(columns: Sequence[Any], keys: Sequence[NestedKey]) -> None:
    for column, key in zip(columns, keys, strict=True):
        if not isinstance(column, torch.Tensor):
            try:
                row_keys([column], 1 if not isinstance(column, list) else len(column))
            except TypeError as error:
                raise TypeError(
                    f"The entry {key!r} identifies states or actions, but its values have no hash ({error}). "
                    f"Fix: store it as a tensor, a string or a tuple, or take {key!r} out of observation_keys and "
                    "action_keys."
                ) from error


def _kind_of(column: Column) -> _Kind:
    return (column.shape[1:], column.dtype, column.device) if isinstance(column, torch.Tensor) else None


def _text(kind: _Kind) -> str:
    if kind is None:
        return "a Python object"
    shape, dtype, device = kind
    return f"{str(dtype).removeprefix('torch.')} {list(shape)}" + ("" if device.type == "cpu" else f" on {device}")


def _listed(keys: Any) -> str:
    return ", ".join(map(repr, keys)) or "none"
