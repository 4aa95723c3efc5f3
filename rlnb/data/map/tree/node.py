"""Tree: a node of a search tree, and with it all that is below."""

from __future__ import annotations

import dataclasses
import weakref
from typing import TYPE_CHECKING, Any

import torch
from tensordict import LazyStackedTensorDict, TensorDict, TensorDictBase

from rlnb.data.map.tree import faults
from rlnb.data.map.tree.arrays import TreeArrays
from rlnb.data.map.tree.below import Below
from rlnb.data.map.tree.entries import NodeView, view_of
from rlnb.data.map.tree.links import ParentLink, linked
from rlnb.data.map.tree.state import Stateful
from rlnb.data.specs import Composite
from rlnb.data.ted.keys import NestedKey, as_tuple
from rlnb.data.ted.leaves import leaf_keys

if TYPE_CHECKING:
    from rlnb.envs import EnvBase


@linked
class Tree(Below, Stateful):
    """A node of a tree of rollouts, with the nodes below it.

    A tree comes from :meth:`MCTSForest.get_tree` or a search, and is a view of arrays: its nodes are made when one
    looks at them, so that a tree of thousands of nodes costs nothing before. A node is a tensorclass: it can be
    stacked, cloned, saved and loaded, and moved to a device, with all that is below it.

    Attributes:
        count: how often the node was visited.
        wins: the sum of what was won below it.
        index: numbers of the children's first steps in the forest, shape ``[num_children]``.
        hash: of the step that branches off to the node; of the state at the root.
        node_id: the number of the node in its tree; the root is 0.
        rollout: the steps that led from the parent to the node, batch size ``[steps]``, as TED data. Several where
            nothing branches off on the way. At the root the steps before the first branch, or None.
        node_data: the data of the node, such as its observation.
        subtree: the children, a stack of batch size ``[num_children]``, or None.
        specs: of the env, or None.

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
    subtree: Tree = None  # type: ignore[assignment]  # a leaf has none, and is not asked for its children
    _parent: weakref.ref | list[weakref.ref] | None = dataclasses.field(default=None, repr=False)
    specs: Composite | None = None

    @classmethod
    def make_node(
        cls,
        data: TensorDictBase,
        *,
        device: torch.device | None = None,
        batch_size: torch.Size | None = None,
        specs: Composite | None = None,
    ) -> Tree:
        """Make a node that was not visited yet.

        Args:
            data: the data of the node.
            device: where the node shall be; None for that of ``data``.
            batch_size: of the node; None for that of ``data``.
            specs: of the env.

        Returns:
            A node with ``count`` and ``wins`` zero.
        """
        data = data if device is None else data.to(device)
        size = data.batch_size if batch_size is None else torch.Size(batch_size)
        count = torch.zeros(size, dtype=torch.int32, device=data.device)
        wins = torch.zeros(size, device=data.device)
        return cls(count=count, wins=wins, node_data=data, specs=specs, batch_size=size, device=data.device)

    @classmethod
    def from_arrays(cls, arrays: TreeArrays) -> Tree:
        """See arrays as a tree. Costs nothing that grows with the tree.

        Args:
            arrays: the nodes, one a row; see :class:`TreeArrays`.

        Returns:
            The root.
        """
        return cls._from_tensordict(NodeView(arrays).root())

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
        """The spec of the ends of episodes."""
        return self._spec("output_spec", "full_done_spec")

    @property
    def full_state_spec(self) -> Composite:
        """The spec of the state that a step needs beside the action."""
        return self._spec("input_spec", "full_state_spec")

    @property
    def full_action_spec(self) -> Composite:
        """The spec of the actions."""
        return self._spec("input_spec", "full_action_spec")

    def _spec(self, *path: str) -> Composite:
        if self.specs is None:
            raise ValueError(faults.no_specs(path))
        return self.specs[path]

    def _spec_keys(self, *path: str) -> list[NestedKey]:
        """The keys of a spec; none where there are no specs, or not this one."""
        spec = None if self.specs is None else self.specs.get(path, None)
        return [] if spec is None else list(spec.keys(True, True))

    # This node --------------------------------------------------------------------------------------------------------

    @property
    def visits(self) -> int | torch.Tensor | None:
        """How often the node was visited; another name of ``count``."""
        return self.count

    @property
    def parent(self) -> Tree | None:
        """The parent; None for the root, and where nobody holds the tree any more.

        Content and memory are those of the parent, the object is a new one. A node that several nodes lead to has a
        stack of parents.
        """
        parents = [(link(), link.above) for link in self._links() if link() is not None]
        trees = [Tree._from_tensordict(data, {} if above is None else {"_parent": above}) for data, above in parents]
        if len(trees) < 2:
            return trees[0] if trees else None
        return Tree._from_tensordict(LazyStackedTensorDict(*[tree._tensordict for tree in trees], stack_dim=0))

    def _links(self) -> list[ParentLink]:
        """References to all parents: those in the arrays where there are several, else that where one came from."""
        viewed = view_of(self._tensordict)
        above = [] if viewed is None else viewed[0].arrays.parents[viewed[1]]
        known: Any = self._parent
        if viewed is not None and (len(above) > 1 or (known is None and above)):
            found = [viewed[0].if_alive(parent) for parent in above]
            return [ParentLink(parent) for parent in found if parent is not None]
        return [link for link in (known if isinstance(known, list) else [known]) if link is not None]

    @property
    def num_children(self) -> int:
        """How many children the node has."""
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

    def fully_expanded(self, env: EnvBase) -> bool:
        """Whether each action of an env has been tried in this node.

        Args:
            env: its actions are counted.

        Returns:
            True if there are as many children as actions.
        """
        count = getattr(env, "cardinality", None)
        if count is None:
            count = env.full_action_spec.cardinality
        return self.num_children == (count() if callable(count) else count)

    @property
    def branching_action(self) -> torch.Tensor | TensorDictBase | None:
        """The action that left the parent for this node: the first of ``rollout``. None without one.

        A TensorDict where there are several action entries.
        """
        return self._action(0)

    @property
    def prev_action(self) -> torch.Tensor | TensorDictBase | None:
        """The action that led to this node's observation: the last of ``rollout``. None without one."""
        return self._action(-1)

    @property
    def selected_actions(self) -> torch.Tensor | TensorDictBase | None:
        """The actions that leave this node, one for each child; None without children."""
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
        there = [key for key in leaf_keys(rollout) if as_tuple(key)[0] != "next"]
        found = [key for key in there if as_tuple(key)[-1] == "action"]
        if not found:
            raise KeyError(faults.no_action(there))
        return found

    @property
    def node_observation(self) -> torch.Tensor | TensorDictBase:
        """The observation of this node: the last one of ``rollout``, or that of ``node_data``.

        A TensorDict where there are several observation entries; :attr:`node_observations` is always one.
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
            raise ValueError(faults.no_data())
        return data.select(*keys, strict=False) if keys else data
