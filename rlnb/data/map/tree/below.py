"""What lies below a node: paths, edges and vertices, as text and as a drawing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Literal

import torch
from tensordict import TensorDictBase

from rlnb.data.map.tree import faults
from rlnb.data.map.tree.entries import view_of
from rlnb.data.map.tree.walk import Path, nodes_along, structure_of

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

    from rlnb.data.map.tree.node import Tree

    # A tensorclass gets most of its methods from its decorator.
    _Container: Any
else:
    _Container = object


def data_as_text(node: Tree) -> Any:
    """The data of a node as a dictionary: what to_string shows unless told otherwise."""
    return None if node.node_data is None else _plain(node.node_data.to_dict())


def _plain(value: Any) -> Any:
    """Tensors without the name of their storage, so that a tree that was loaded reads as the one that was saved."""
    if isinstance(value, dict):
        return {key: _plain(below) for key, below in value.items()}
    return value.as_subclass(torch.Tensor) if isinstance(value, torch.Tensor) else value


#: A longer path is written by its ends, so that the text of a deep tree grows with its nodes and not with their depth.
_LONGEST_PATH = 100


def _path_as_text(path: list[int]) -> str:
    """Write a path behind as many spaces as it has steps before the last one."""
    if len(path) <= _LONGEST_PATH:
        return f"{' ' * (len(path) - 1)}{tuple(path)}"
    ends = [*map(str, path[:3]), "...", *map(str, path[-3:])]
    return f"{' ' * (_LONGEST_PATH - 1)}({', '.join(ends)}: {len(path):,} steps)"


class Below(_Container):
    """The part of :class:`Tree` that goes down."""

    def valid_paths(self) -> Iterator[Path]:
        """Go through the paths from this node to each leaf, the short ones first.

        Yields:
            The place of the child to go to, at each node on the way.
        """
        structure = structure_of(self)
        return (path for row, path in structure.paths() if not structure.children[row])

    def max_length(self) -> int:
        """How many steps down the longest path goes; 0 without children."""
        return structure_of(self).fold(lambda below: max(below, default=-1) + 1)

    def num_vertices(self, *, count_repeat: bool = False) -> int:
        """Count nodes, this one included.

        Args:
            count_repeat: whether to count a node once for each path to it.

        Returns:
            How many there are.
        """
        structure = structure_of(self)
        if count_repeat:
            return structure.fold(lambda below: sum(below) + 1)
        return len({structure.vertices[row] for row in structure.rows()})

    def edges(self) -> list[tuple[int, int]]:
        """The ids of parent and child for each edge, breadth first."""
        return structure_of(self).edges()

    def vertices(self, *, key_type: Literal["id", "hash", "path"] = "hash") -> dict[Any, Tree]:
        """All nodes, this one included, breadth first.

        Args:
            key_type: what to name them by: ``"id"``, ``"hash"``, or ``"path"``, which names a node once for each path
                to it.

        Returns:
            The nodes by name.

        Raises:
            ValueError: if ``key_type`` is another, or a node has no such name.
        """
        if key_type not in ("id", "hash", "path"):
            raise ValueError(faults.unknown_key_type(key_type))
        structure = structure_of(self)
        by_path: dict[Path, Tree] = {}
        found: dict[Any, Tree] = {}
        for _, path in structure.paths() if key_type == "path" else structure.breadth_first():
            node = by_path[path] = by_path[path[:-1]].subtree[path[-1]] if path else self
            name = path if key_type == "path" else node.hash if key_type == "hash" else node.node_id
            if name is None:
                raise ValueError(faults.no_name(key_type, path))
            found.setdefault(name, node)
        return found

    def get_vertex_by_id(self, id: int) -> Tree:
        """Find a node.

        Args:
            id: its ``node_id``.

        Returns:
            The node.

        Raises:
            ValueError: if there is none.
        """
        return self._found("id", id)

    def get_vertex_by_hash(self, hash: int) -> Tree:
        """Find a node.

        Args:
            hash: its hash.

        Returns:
            The node.

        Raises:
            ValueError: if there is none.
        """
        return self._found("hash", hash)

    def _found(self, kind: str, value: int) -> Tree:
        node = self._find(kind, value)
        if node is None:
            raise ValueError(faults.not_found(kind, value, self.num_vertices()))
        return node

    def _find(self, kind: str, value: int) -> Tree | None:
        """The first node with an id or a hash; only that one is made where the tree is a view of arrays."""
        structure, viewed = structure_of(self), view_of(self._tensordict)
        hashes = viewed[0].arrays.hashes if viewed is not None and kind == "hash" else None
        for row, path in structure.breadth_first():
            if viewed is None:
                node = structure.node(path)
                name = node.node_id if kind == "id" else node.hash
            else:
                name = row if kind == "id" else None if hashes is None else hashes[row]
            if name is not None and name == value:
                return structure.node(path)
        return None

    def __contains__(self, other: Any) -> bool:
        """Whether a node is this one or below it: known by its hash, without one by being the same object.

        A stack of nodes, such as ``tree.subtree``, is in the tree if all of its nodes are.
        """
        if not isinstance(other, Below):
            return False
        if other.batch_dims > self.batch_dims:
            return all(node in self for node in other.unbind(0))
        if other.hash is not None:
            return self._find("hash", other.hash) is not None
        return any(node._tensordict is other._tensordict for node in self.vertices(key_type="path").values())

    def rollout_from_path(self, path: Path) -> TensorDictBase | None:
        """Put the rollouts of the nodes along a path together.

        Args:
            path: the place of the child to go to, at each node. The rollout of this node, if it has one, comes first.

        Returns:
            The steps, batch size ``[steps]``; None if there are none.

        Raises:
            IndexError: if the path leaves the tree.
        """
        nodes = nodes_along(self, path)
        rollouts: list[Any] = [node.rollout for node in nodes if node.rollout is not None]
        joined: Any = torch.cat(rollouts, -1) if rollouts else None
        return joined

    def to_string(self, node_format_fn: Callable[[Tree], Any] = data_as_text) -> str:
        """Write the tree as text, a line a node: the path to it and what a function says of it.

        Lines are indented by depth. Of a path of more than 100 steps the first and the last ones are written. The root
        is written, as ``()``, only if it has a rollout of its own or nothing is below it.

        Args:
            node_format_fn: from a node to what is written.

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
            figure: ``"tree"`` for nodes and edges, ``"box"`` for boxes in boxes.
            info: names of fields or properties to show beside each node; None for ``["node_id", "count", "wins"]``.
            make_labels: called with a node and the path to it, returns its label, in which plotly's tags such as
                ``<b>`` count; None for ``info``.

        Returns:
            A plotly figure. A node with several parents is drawn once.

        Raises:
            NotImplementedError: for another backend or figure.
        """
        from rlnb.data.map.tree.plot import plot_tree

        return plot_tree(self, backend, figure, info, make_labels)
