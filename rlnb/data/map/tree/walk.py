"""Traversal of trees: paths, edges and vertices from the lists of children."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from rlnb.data.map.tree.view import view_of

if TYPE_CHECKING:
    from rlnb.data.map.tree.node import Tree

Path = tuple[int, ...]


class Structure(NamedTuple):
    """The subtree of a node, as rows.

    Attributes:
        root: the row of the node itself.
        children: rows of the children of each row.
        vertices: the vertex of each row. Rows with equal vertices are occurrences of one node.
        node: returns the node at the end of a path.
    """

    root: int
    children: list[list[int]]
    vertices: Any
    node: Callable[[Path], Tree]

    def paths(self, once: bool = False) -> Iterator[tuple[int, Path]]:
        """Yield each path with the row at its end, shortest first; with ``once``, only the first path to each row."""
        seen = {self.root}
        waiting: deque[tuple[int, Path]] = deque([(self.root, ())])
        while waiting:
            row, path = waiting.popleft()
            yield row, path
            for place, child in enumerate(self.children[row]):
                if not once or child not in seen:
                    seen.add(child)
                    waiting.append((child, (*path, place)))

    def rows(self) -> list[int]:
        """List each row once, breadth first."""
        seen, order = {self.root}, [self.root]
        for row in order:
            for child in self.children[row]:
                if child not in seen:
                    seen.add(child)
                    order.append(child)
        return order

    def fold(self, value: Callable[[list[int]], int]) -> int:
        """Compute a number for the root, bottom-up: ``value`` gives that of a node from those of its children."""
        found: dict[int, int] = {}
        stack = [self.root]
        while stack:
            row = stack[-1]
            missing = [child for child in self.children[row] if child not in found]
            if missing:
                stack.extend(missing)
            else:
                found[row] = value([found[child] for child in self.children[row]])
                stack.pop()
        return found[self.root]

    def edges(self) -> list[tuple[Any, Any]]:
        """List the vertices of each edge once, breadth first."""
        edges: dict[tuple[Any, Any], None] = {}
        for row in self.rows():
            for child in self.children[row]:
                edges[self.vertices[row], self.vertices[child]] = None
        return list(edges)


def structure_of(tree: Tree) -> Structure:
    """Read the structure of a subtree: from the arrays behind it, or by visiting its nodes."""
    viewed = view_of(tree._tensordict)
    if viewed is not None:
        view, row = viewed
        return Structure(row, view.arrays.children, range(len(view.arrays)), lambda path: nodes_along(tree, path)[-1])
    nodes = [tree]
    above: list[tuple[int, int]] = [(-1, -1)]
    children: list[list[int]] = [[]]
    for row, node in enumerate(nodes):
        below = node.subtree if node.num_children else ()
        for place in range(len(below)):
            children[row].append(len(nodes))
            nodes.append(below[place])
            above.append((row, place))
            children.append([])

    def find(path: Path) -> Tree:
        row = 0
        for place in path:
            row = children[row][place]
        return nodes[row]

    return Structure(0, children, _Vertices(nodes, above), find)


class _Vertices:
    """Identities of the nodes of a tree without arrays: their ids, or their paths if they have none."""

    def __init__(self, nodes: list[Tree], above: list[tuple[int, int]]) -> None:
        self._nodes, self._above = nodes, above

    def __getitem__(self, row: int) -> Any:
        number = self._nodes[row].node_id
        if number is not None:
            return number
        path = []
        while row:
            row, place = self._above[row]
            path.append(place)
        return tuple(reversed(path))


def nodes_along(tree: Tree, path: Path) -> list[Tree]:
    """Follow a path downwards; return the nodes along it, the first one included.

    Raises:
        IndexError: If a node has no such child.
    """
    nodes = [tree]
    for step, place in enumerate(path):
        count = nodes[-1].num_children
        if not 0 <= place < count:
            raise IndexError(
                f"The path {tuple(path)} leaves the tree: the node at {tuple(path[:step])} has {count or 'no'} "
                f"{'child' if count == 1 else 'children'}, so there is no child {place}. "
                "Fix: take a path from tree.valid_paths()."
            )
        nodes.append(nodes[-1].subtree[place])
    return nodes
