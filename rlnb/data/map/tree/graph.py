"""StepGraph: an acyclic graph of the states of all rollouts and the steps between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rlnb.data.map.rows import RowKey

Edge = tuple[int, RowKey, int]


class Plan(NamedTuple):
    """The changes that a rollout makes to the graph.

    Attributes:
        states: number of each new state, by its key.
        edges: row of the rollout that each new edge comes from, by edge.
        levels: the levels that change, by state.
    """

    states: dict[RowKey, int]
    edges: dict[Edge, int]
    levels: dict[int, int]


class CycleFound(Exception):
    """Raised for a step, in a row of the rollout, that leads back to a state from which it can be reached."""

    def __init__(self, row: int) -> None:
        super().__init__(row)
        self.row = row


class StepGraph:
    """States and the steps between them, without cycles.

    A step is identified by the state before it, its action and the state after it, so one action may lead from a state
    to several states (chance). Every state has a level above the levels of all its predecessors. An edge to a higher
    level cannot close a cycle; for any other edge, the levels behind it are raised, and meeting its source is a cycle.

    Attributes:
        number: number of each state, by its key.
        keys: key of each state.
        edge_keys: state before, action and state after of each edge, in insertion order.
        out: the edges that leave each state.

    Example:
        >>> graph = StepGraph()
        >>> graph.add(graph.plan(before=["a", "b"], actions=[0, 0], after=["b", "c"]))
        >>> graph.out, graph.edge_keys
        ([[0], [1], []], [(0, 0, 1), (1, 0, 2)])
    """

    def __init__(self) -> None:
        self.number: dict[RowKey, int] = {}
        self.keys: list[RowKey] = []
        self.edge_keys: list[Edge] = []
        self.out: list[list[int]] = []
        self._edges: set[Edge] = set()
        self._levels: list[int] = []

    def plan(self, before: Sequence[RowKey], actions: Sequence[RowKey], after: Sequence[RowKey]) -> Plan:
        """Compute the changes that steps would make, without making them, for :meth:`add`.

        Each step has the key of the state before it, of its action and of the state after it.

        Raises:
            CycleFound: If a step closes a cycle.
        """
        number, known, count = self.number, self._edges, len(self.keys)
        states: dict[RowKey, int] = {}
        edges: dict[Edge, int] = {}
        for row, (key, action, next_key) in enumerate(zip(before, actions, after, strict=True)):
            source = number.get(key)
            if source is None:
                source = states.setdefault(key, count + len(states))
            target = number.get(next_key)
            if target is None:
                target = states.setdefault(next_key, count + len(states))
            edge = (source, action, target)
            if edge not in known and edge not in edges:
                edges[edge] = row
        return Plan(states, edges, self._levels_with(edges))

    def add(self, plan: Plan) -> None:
        """Make the changes of a plan, which was made for the graph as it is now."""
        for key in plan.states:
            self.keys.append(key)
            self.out.append([])
            self._levels.append(0)
        self.number.update(plan.states)
        for state, level in plan.levels.items():
            self._levels[state] = level
        for edge in plan.edges:
            self.out[edge[0]].append(len(self.edge_keys))
            self.edge_keys.append(edge)
        self._edges.update(plan.edges)

    def _levels_with(self, edges: dict[Edge, int]) -> dict[int, int]:
        """The levels that change when edges are added."""
        levels: dict[int, int] = {}
        old, count = self._levels, len(self._levels)
        added: dict[int, list[int]] = {}
        for (source, _, target), row in edges.items():
            level = levels.get(source)
            if level is None:
                level = old[source] if source < count else levels.setdefault(source, 0)
            target_level = levels.get(target, old[target] if target < count else -1)
            if target_level <= level:
                levels[target] = level + 1
                if target == source:
                    raise CycleFound(row)
                if target_level >= 0:
                    self._raise_after(target, source, levels, added, row)
            added.setdefault(source, []).append(target)
        return levels

    def _raise_after(
        self, start: int, source: int, levels: dict[int, int], added: dict[int, list[int]], row: int
    ) -> None:
        """Raise the levels of the successors of a state whose level was raised; meeting ``source`` is a cycle."""
        old, count = self._levels, len(self._levels)
        waiting = [start]
        while waiting:
            state = waiting.pop()
            level = levels[state]
            known = [self.edge_keys[edge][2] for edge in self.out[state]] if state < count else []
            for target in known + added.get(state, []):
                if target == source:
                    raise CycleFound(row)
                if levels.get(target, old[target] if target < count else 0) <= level:
                    levels[target] = level + 1
                    waiting.append(target)
