"""Tree: a node of a search tree, as a tensorclass that holds the subtree below it."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

from rlnb.data.map.tree import state
from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.data.map.tree.tensorclass import ParentLink, linked
from rlnb.data.map.tree.view import NodeView, view_of
from rlnb.data.map.tree.walk import Path, nodes_along, structure_of
from rlnb.data.specs.composite import Composite
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.data.ted.leaves import leaf_keys

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    # The tensorclass decorator adds most methods, which a type checker does not see.
    _Container: Any
else:
    _Container = object

#: Longer paths are abbreviated, so that the text of a deep tree grows with its nodes and not with their depth squared.
_LONGEST_PATH = 100


class _Env(Protocol):
    """The part of an env that :meth:`Tree.fully_expanded` reads."""

    @property
    def full_action_spec(self) -> Composite: ...


def data_as_text(node: Tree) -> Any:
    """Default format of :meth:`Tree.to_string`: the data of a node as a dictionary of plain tensors, or ``None``."""
    return None if node.node_data is None else _plain(node.node_data.to_dict())


def _plain(value: Any) -> Any:
    """Show memory-mapped tensors as plain ones, so that a loaded tree reads like the one that was saved."""
    if isinstance(value, dict):
        return {key: _plain(nested) for key, nested in value.items()}
    return value.as_subclass(torch.Tensor) if isinstance(value, torch.Tensor) else value


def _path_as_text(path: list[int]) -> str:
    """Write a path, indented by its depth."""
    if len(path) <= _LONGEST_PATH:
        return f"{' ' * (len(path) - 1)}{tuple(path)}"
    ends = [*map(str, path[:3]), "...", *map(str, path[-3:])]
    return f"{' ' * (_LONGEST_PATH - 1)}({', '.join(ends)}: {len(path):,} steps)"


@linked
class Tree(_Container):
    """A node of a tree of rollouts, with the subtree below it.

    Trees come from :meth:`MCTSForest.get_tree` or from a search. Such a tree is a view of arrays: a node is created
    when it is first accessed, so an untouched tree of thousands of nodes costs nothing. A node is a tensorclass: it can
    be stacked, cloned, saved, loaded and moved to a device, together with its subtree.

    Attributes:
        count: number of visits of the node.
        wins: sum of the returns that were backed up through the node.
        index: numbers, in the forest, of the first step towards each child, shape ``[num_children]``.
        hash: hash of the step that branches off to the node; at the root, hash of the state.
        node_id: number of the node in its tree; the root is 0.
        rollout: the steps from the parent to the node in the TED format, batch size ``[steps]``. There are several
            where no other rollout branches off on the way. At the root: the steps before the first branch, or ``None``.
        node_data: data of the node, such as its observation.
        subtree: the children as a stack of batch size ``[num_children]``, or ``None``.
        specs: specs of the env, or ``None``.

    Example:
        >>> root = Tree.make_node(TensorDict({"observation": torch.tensor(0)}))
        >>> child = Tree.make_node(TensorDict({"observation": torch.tensor(1)}))
        >>> root.subtree = Tree.lazy_stack([child])
        >>> root.num_children, root.subtree[0].is_terminal
        (1, True)
        >>> print(root.to_string())
        (0,) {'observation': tensor(1)}
    """

    count: int | torch.Tensor | None = None
    wins: int | torch.Tensor | None = None
    index: torch.Tensor | None = None
    hash: int | None = None
    node_id: int | None = None
    rollout: TensorDict | None = None
    node_data: TensorDict | None = None
    subtree: Tree = None  # type: ignore[assignment]  # None at a leaf, whose children are never accessed
    _parent: weakref.ref | list[weakref.ref] | None = dataclasses.field(default=None, repr=False)
    specs: Composite | None = None

    # Construction -----------------------------------------------------------------------------------------------------

    @classmethod
    def make_node(
        cls,
        data: TensorDictBase,
        *,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
        specs: Composite | None = None,
    ) -> Tree:
        """Make a node without a subtree, with ``count`` and ``wins`` zero.

        Args:
            data: the data of the node, ``node_data``.
            device: device to move the data to. Default: that of the data.
            batch_size: batch size of the node. Default: that of the data.
            specs: specs of the env, from which the tree takes its keys. Default: none.
        """
        data = data if device is None else data.to(device)
        size = data.batch_size if batch_size is None else torch.Size(batch_size)
        count = torch.zeros(size, dtype=torch.int32, device=data.device)
        wins = torch.zeros(size, device=data.device)
        return cls(count=count, wins=wins, node_data=data, specs=specs, batch_size=size, device=data.device)

    @classmethod
    def from_arrays(cls, arrays: TreeArrays) -> Tree:
        """View :class:`TreeArrays` as a tree, at a cost that does not depend on its size, and return the root."""
        return cls._from_tensordict(NodeView(arrays).root())

    @classmethod
    def from_pytree(
        cls,
        pytree: Any,
        *,
        batch_size: torch.Size | None = None,
        auto_batch_size: bool = False,
        batch_dims: int | None = None,
    ) -> Any:
        """Make a node from a dictionary of its fields; see ``TensorDict.from_pytree``.

        Args:
            pytree: the dictionary, which may be nested.
            batch_size: the batch size. Default: ``[]``, unless it is inferred.
            auto_batch_size: whether to infer the batch size from the tensors.
            batch_dims: the most dimensions that an inferred batch size has. Default: no limit.
        """
        options: dict[str, Any] = {} if batch_dims is None else {"batch_dims": batch_dims}
        data = TensorDict.from_pytree(pytree, batch_size=batch_size, auto_batch_size=auto_batch_size, **options)
        # tensordict records the type of the container, which is not a field of a node.
        return cls.from_tensordict(data.exclude("_pytree_type"))

    # Specs ------------------------------------------------------------------------------------------------------------

    @property
    def full_observation_spec(self) -> Composite:
        """The spec of the observations."""
        return self._spec("output_spec", "full_observation_spec")

    @property
    def full_reward_spec(self) -> Composite:
        """The spec of the rewards."""
        return self._spec("output_spec", "full_reward_spec")

    @property
    def full_done_spec(self) -> Composite:
        """The spec of the end-of-episode signals."""
        return self._spec("output_spec", "full_done_spec")

    @property
    def full_state_spec(self) -> Composite:
        """The spec of the state that a step reads besides the action."""
        return self._spec("input_spec", "full_state_spec")

    @property
    def full_action_spec(self) -> Composite:
        """The spec of the actions."""
        return self._spec("input_spec", "full_action_spec")

    def _spec(self, *path: str) -> Composite:
        if self.specs is None:
            raise ValueError(
                f"The tree has no specs, so {path[-1]} is not available. Fix: forest.get_keys_from_env(env) before "
                "forest.get_tree(root), or Tree.make_node(data, specs=env.specs)."
            )
        return self.specs[path]

    def _spec_keys(self, *path: str) -> list[NestedKey]:
        """The keys of a spec; empty if the specs are unknown or lack it."""
        spec = None if self.specs is None else self.specs.get(path, None)
        return [] if spec is None else list(spec.keys(True, True))

    # This node --------------------------------------------------------------------------------------------------------

    @property
    def visits(self) -> int | torch.Tensor | None:
        """Number of visits; an alias of ``count``."""
        return self.count

    @property
    def parent(self) -> Tree | None:
        """The parent, or ``None`` for the root and once nothing holds the rest of the tree any more.

        The returned object is new, and shares content and memory with the parent. For a node with several parents it is
        a stack of them.
        """
        parents = [(link(), link.above) for link in self._links() if link() is not None]
        trees = [Tree._from_tensordict(data, {} if above is None else {"_parent": above}) for data, above in parents]
        if len(trees) < 2:
            return trees[0] if trees else None
        return Tree._from_tensordict(LazyStackedTensorDict(*[tree._tensordict for tree in trees], stack_dim=0))

    def _links(self) -> list[ParentLink]:
        """Links to all parents: from the arrays if there are several, else to the one this node was reached from."""
        viewed = view_of(self._tensordict)
        above = [] if viewed is None else viewed[0].arrays.parents[viewed[1]]
        known: Any = self._parent
        if viewed is not None and (len(above) > 1 or (known is None and above)):
            found = [viewed[0].if_alive(parent) for parent in above]
            return [ParentLink(parent) for parent in found if parent is not None]
        return [link for link in (known if isinstance(known, list) else [known]) if link is not None]

    @property
    def num_children(self) -> int:
        """Number of children."""
        viewed = view_of(self._tensordict)
        if viewed is not None:
            return len(viewed[0].arrays.children[viewed[1]])
        children = self.subtree
        return 0 if children is None else len(children)

    @property
    def is_terminal(self) -> bool | torch.Tensor:
        """Whether the node has no children; for a stack of nodes a tensor of its batch size."""
        if self.batch_dims:
            return torch.tensor([node.num_children == 0 for node in self.reshape(-1)]).reshape(self.batch_size)
        return self.num_children == 0

    def fully_expanded(self, env: _Env) -> bool:
        """Whether every action of an env has been tried in this node.

        Args:
            env: the env, whose actions are counted: by its ``cardinality`` if it has one, else by its action spec.

        Returns:
            True if there are as many children as actions.
        """
        count = getattr(env, "cardinality", None)
        if count is None:
            count = env.full_action_spec.cardinality
        return self.num_children == (count() if callable(count) else count)

    @property
    def branching_action(self) -> torch.Tensor | TensorDictBase | None:
        """The action that left the parent towards this node: the first of ``rollout``, or ``None`` without a rollout.

        A TensorDict if there are several action entries.
        """
        return self._action(0)

    @property
    def prev_action(self) -> torch.Tensor | TensorDictBase | None:
        """The action before this node's observation: the last of ``rollout``, or ``None`` without a rollout."""
        return self._action(-1)

    @property
    def selected_actions(self) -> torch.Tensor | TensorDictBase | None:
        """The actions that lead from this node to its children, stacked; ``None`` without children."""
        if not self.num_children:
            return None
        return torch.stack([child.branching_action for child in self.subtree], 0)

    def _action(self, place: int) -> torch.Tensor | TensorDictBase | None:
        rollout = self.rollout
        if rollout is None:
            return None
        keys = self._action_keys(rollout)
        step = rollout[..., place]
        return step.get(keys[0]) if len(keys) == 1 else step.select(*keys)

    def _action_keys(self, rollout: TensorDictBase) -> list[NestedKey]:
        if keys := self._spec_keys("input_spec", "full_action_spec"):
            return keys
        viewed = view_of(self._tensordict)
        if viewed is not None and viewed[0].arrays.action_keys is not None:
            return list(viewed[0].arrays.action_keys)
        at_root = [key for key in leaf_keys(rollout) if as_tuple(key)[0] != "next"]
        found = [key for key in at_root if as_tuple(key)[-1] == "action"]
        if not found:
            raise KeyError(
                "It is unknown which entries of the rollout are actions. Its entries are: "
                f"{', '.join(map(repr, at_root)) or 'none'}. Fix: give the tree specs, tree.specs = env.specs."
            )
        return found

    @property
    def node_observation(self) -> torch.Tensor | TensorDictBase:
        """The observation of this node: the last one of ``rollout``, or that of ``node_data``.

        A TensorDict if there are several observation entries; :attr:`node_observations` always is one.
        """
        observations = self.node_observations
        keys = leaf_keys(observations)
        return observations.get(keys[0]) if len(keys) == 1 else observations

    @property
    def node_observations(self) -> TensorDictBase:
        """The observations of this node, by key."""
        data = self.node_data
        keys = self._spec_keys("output_spec", "full_observation_spec")
        keys = keys or ([] if data is None else leaf_keys(data))
        after = None if self.rollout is None else self.rollout[..., -1].get("next")
        if after is not None and (data is None or all(key in leaf_keys(after) for key in keys)):
            data = after
        if data is None:
            raise ValueError(
                "The node has no observation: both node_data and rollout are None. "
                "Fix: create it with Tree.make_node(data)."
            )
        return data.select(*keys, strict=False) if keys else data

    # The subtree ------------------------------------------------------------------------------------------------------

    def valid_paths(self) -> Iterator[Path]:
        """Iterate over the paths from this node to each leaf, shortest first.

        A path lists, for each node, the position of the child to descend to.
        """
        structure = structure_of(self)
        return (path for row, path in structure.paths() if not structure.children[row])

    def max_length(self) -> int:
        """Length of the longest path to a leaf, in edges; 0 without children."""
        return structure_of(self).fold(lambda below: max(below, default=-1) + 1)

    def num_vertices(self, *, count_repeat: bool = False) -> int:
        """Count the nodes of the subtree, this one included; with ``count_repeat``, a node once for each path to it."""
        structure = structure_of(self)
        if count_repeat:
            return structure.fold(lambda below: sum(below) + 1)
        return len({structure.vertices[row] for row in structure.rows()})

    def edges(self) -> list[tuple[int, int]]:
        """List the ids of parent and child of each edge of the subtree, breadth first."""
        return structure_of(self).edges()

    def vertices(self, *, key_type: Literal["id", "hash", "path"] = "hash") -> dict[Any, Tree]:
        """Map names to the nodes of the subtree, this one included, breadth first.

        Args:
            key_type: the names: ``"id"``, ``"hash"`` or ``"path"``. A node that several paths lead to has several
                paths, and one id and hash.

        Returns:
            The nodes by name.

        Raises:
            ValueError: If ``key_type`` is unknown, or a node has no such name.
        """
        if key_type not in ("id", "hash", "path"):
            raise ValueError(
                f'key_type must be "id", "hash" or "path", got {key_type!r}. Fix: tree.vertices(key_type="path").'
            )
        structure = structure_of(self)
        by_path: dict[Path, Tree] = {}
        found: dict[Any, Tree] = {}
        for _, path in structure.paths(once=key_type != "path"):
            node = by_path[path] = by_path[path[:-1]].subtree[path[-1]] if path else self
            name = path if key_type == "path" else node.hash if key_type == "hash" else node.node_id
            if name is None:
                field = "node_id" if key_type == "id" else "hash"
                raise ValueError(
                    f"The node at path {path} has no {field}. "
                    'Fix: tree.vertices(key_type="path"), which works for every tree.'
                )
            found.setdefault(name, node)
        return found

    def get_vertex_by_id(self, id: int) -> Tree:
        """Find a node by its ``node_id``; raise ``ValueError`` if there is none."""
        return self._found("id", id)

    def get_vertex_by_hash(self, hash: int) -> Tree:
        """Find a node by its hash; raise ``ValueError`` if there is none."""
        return self._found("hash", hash)

    def _found(self, kind: str, value: int) -> Tree:
        node = self._find(kind, value)
        if node is None:
            raise ValueError(
                f"None of the {self.num_vertices()} nodes has the {kind} {value}. "
                f'Fix: take one from tree.vertices(key_type="{kind}").'
            )
        return node

    def _find(self, kind: str, value: int) -> Tree | None:
        """The first node with an id or a hash. In a view of arrays, no other node is created."""
        structure, viewed = structure_of(self), view_of(self._tensordict)
        hashes = viewed[0].arrays.hashes if viewed is not None and kind == "hash" else None
        for row, path in structure.paths(once=True):
            if viewed is None:
                node = structure.node(path)
                name = node.node_id if kind == "id" else node.hash
            else:
                name = row if kind == "id" else None if hashes is None else hashes[row]
            if name is not None and name == value:
                return structure.node(path)
        return None

    def __contains__(self, other: Any) -> bool:
        """Whether a node is this one or below it: compared by hash, or by identity if it has no hash.

        A stack of nodes, such as ``tree.subtree``, is in the tree if all of its nodes are.
        """
        if not isinstance(other, Tree):
            return False
        if other.batch_dims > self.batch_dims:
            return all(node in self for node in other.unbind(0))
        if other.hash is not None:
            return self._find("hash", other.hash) is not None
        return any(node._tensordict is other._tensordict for node in self.vertices(key_type="path").values())

    def rollout_from_path(self, path: Path) -> TensorDictBase | None:
        """Concatenate the rollouts of the nodes along a path, batch size ``[steps]``; ``None`` if there are no steps.

        Args:
            path: the positions of the children to descend to. The rollout of this node comes first.

        Raises:
            IndexError: If the path leaves the tree.
        """
        nodes = nodes_along(self, path)
        rollouts: list[Any] = [node.rollout for node in nodes if node.rollout is not None]
        joined: Any = torch.cat(rollouts, -1) if rollouts else None
        return joined

    # Text and figures -------------------------------------------------------------------------------------------------

    def to_string(self, node_format_fn: Callable[[Tree], Any] = data_as_text) -> str:
        """Write the tree as text, one line per node: the path to the node and a description of it.

        Lines are indented by depth. Paths longer than 100 are abbreviated to their first and last parts. The root is
        written, as ``()``, only if it has a rollout or no children.

        Args:
            node_format_fn: called with each node, returns its description. Default: its data as a dictionary.

        Returns:
            The text.
        """
        structure = structure_of(self)
        lines: list[str] = []
        path: list[int] = []
        nodes: list[Tree] = []  # those along the path
        waiting = [(structure.root, 0, -1)]
        while waiting:
            row, depth, place = waiting.pop()
            del nodes[depth:], path[max(depth - 1, 0) :]
            path += [place] if depth else []
            nodes.append(nodes[-1].subtree[place] if depth else self)
            below = structure.children[row]
            if depth or nodes[-1].rollout is not None or not below:
                lines.append(f"{_path_as_text(path)} {node_format_fn(nodes[-1])}")
            waiting.extend((below[i], depth + 1, i) for i in range(len(below) - 1, -1, -1))
        return "\n".join(lines)

    def plot(
        self,
        backend: str = "plotly",
        figure: str = "tree",
        info: list[str] | None = None,
        make_labels: Callable[..., Any] | None = None,
    ) -> Figure:
        """Draw the tree.

        Args:
            backend: ``"plotly"``.
            figure: ``"tree"`` for nodes and edges, ``"box"`` for nested boxes.
            info: names of the fields or properties to show at each node. Default: ``["node_id", "count", "wins"]``.
            make_labels: called with a node and the path to it, returns its label, which may contain plotly's tags such
                as ``<b>``. Default: the text of ``info``.

        Returns:
            A plotly figure, with nodes and edges also as a static picture for viewers that run no JavaScript. A node
            with several parents is drawn once.

        Raises:
            NotImplementedError: If the backend or figure is unknown.
            ValueError: If ``info`` names something that a node does not have.
        """
        from rlnb.data.map.tree.plot import plot_tree  # only now: trees are used without plotly as well

        return plot_tree(self, backend, figure, info, make_labels)

    # Conversion -------------------------------------------------------------------------------------------------------

    def to_tensordict(self, *, retain_none: bool | None = True) -> TensorDictBase:
        """Copy the node and its subtree to a plain TensorDict, which :meth:`from_tensordict` turns back into a tree.

        With ``retain_none``, fields without a value become entries that hold ``None``.
        """
        return state.as_tensordict(self, bool(retain_none))

    def state_dict(
        self, destination: Any = None, prefix: str = "", keep_vars: bool = False, flatten: bool = False
    ) -> dict[str, Any]:
        """Return the state of the node and of its subtree.

        Args:
            destination: a dictionary to write to. Default: a new one.
            prefix: prefix of each name.
            keep_vars: whether tensors stay attached to their autograd graph.
            flatten: whether to return one flat dictionary, whose names join the nested names with dots.

        Returns:
            Tensors, TensorDicts and children under ``"_tensordict"``, other values under ``"_non_tensordict"``.
        """
        found = state.state_of(self, keep_vars)
        flat = {prefix + name: value for name, value in (state.flattened(found) if flatten else found).items()}
        if destination is None:
            return flat
        destination.update(flat)
        return destination

    def load_state_dict(
        self, state_dict: dict[str, Any], strict: bool = True, assign: bool = False, from_flatten: bool = False
    ) -> Any:
        """Load a state; tensors of the same shape and dtype are written in place.

        Args:
            state_dict: a dictionary returned by :meth:`state_dict`.
            strict: whether the node must have exactly the fields of the state.
            assign: whether to take over the tensors themselves instead of copying their values.
            from_flatten: whether the state was made with ``flatten=True``.

        Returns:
            This node.

        Raises:
            RuntimeError: If the dictionary is not the state of a node, or with ``strict`` the fields differ. Nothing is
                loaded then.
        """
        state.load_state(self, state.unflattened(state_dict) if from_flatten else state_dict, strict, assign)
        return self
