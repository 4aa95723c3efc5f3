"""The forest compared with a plain Python model, on random rollouts of random graphs."""

from __future__ import annotations

import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlnb.data import MCTSForest
from rlnb.data.map.tree.graph import CycleFound, StepGraph
from tests.data.map.graphs import make_rollout, state

# A step of a rollout: from a state one goes on to a state with a greater number, by one of a few actions.
Step = tuple[int, int, int]


@st.composite
def walks(draw) -> list[list[Step]]:
    """Rollouts through at most ten states; several actions may lead to one state, and one action to several."""
    found = []
    for _ in range(draw(st.integers(1, 7))):
        at, steps = draw(st.sampled_from([0, 0, 0, 1, 2])), []
        for _ in range(draw(st.integers(1, 5))):
            if at >= 9:
                break
            action, after = draw(st.integers(0, 2)), draw(st.integers(at + 1, 9))
            steps.append((at, action, after))
            at = after
        found.append(steps)
    return found


class Model:
    """States and steps as dictionaries; trees as nested lists."""

    def __init__(self) -> None:
        self.out: dict[int, dict[tuple[int, int], None]] = {}

    def extend(self, steps: list[Step]) -> None:
        for before, action, after in steps:
            self.out.setdefault(before, {})[action, after] = None
            self.out.setdefault(after, {})

    def chain(self, at: int, compact: bool) -> tuple[list[Step], int]:
        steps = []
        while compact and len(self.out[at]) == 1:
            ((action, after),) = self.out[at]
            steps.append((at, action, after))
            at = after
        return steps, at

    def paths(self, at: int, compact: bool) -> dict[tuple[int, ...], list[Step]]:
        """The steps of each node, by the path to it."""
        steps, end = self.chain(at, compact)
        found, waiting = {(): steps}, [((), end)]
        while waiting:
            path, end = waiting.pop()
            for place, (action, after) in enumerate(self.out[end]):
                more, last = self.chain(after, compact)
                found[*path, place] = [(end, action, after), *more]
                waiting.append(((*path, place), last))
        return found


def as_data(steps: list[Step]):
    rollout = make_rollout([steps[0][0], *(after for _, _, after in steps)], [action for _, action, _ in steps])
    rollout["next", "reward"] = rollout["next", "observation"].float().unsqueeze(-1)
    return rollout


def steps_of(rollout) -> list[Step]:
    if rollout is None:
        return []
    columns = rollout["observation"], rollout["action"], rollout["next", "observation"]
    return list(zip(*(column.tolist() for column in columns), strict=True))


@given(walks(), st.booleans())
def test_trees_are_those_of_the_model(rollouts, compact):
    forest, model = MCTSForest(), Model()
    for steps in rollouts:
        forest.extend(as_data(steps))
        model.extend(steps)
    assert len(forest) == sum(len(out) for out in model.out.values())
    for at in model.out:
        tree = forest.get_tree(state(at), compact=compact)
        expected = model.paths(at, compact)
        nodes = tree.vertices(key_type="path")
        assert set(nodes) == set(expected)
        for path, steps in expected.items():
            node = nodes[path]
            assert steps_of(node.rollout) == steps
            assert node.node_observation.item() == (steps[-1][2] if steps else at)
            assert node.num_children == sum(
                1 for other in expected if len(other) == len(path) + 1 and other[:-1] == path
            )
        heads = {tuple(steps[0]) if path else None for path, steps in expected.items()}
        assert tree.num_vertices() == len(heads) and len(tree.vertices()) == len(heads)
        assert tree.num_vertices(count_repeat=True) == len(expected)
        assert tree.max_length() == max(map(len, expected))
        leaves = {path for path in expected if (*path, 0) not in expected}
        assert set(tree.valid_paths()) == leaves


@given(walks())
def test_every_rollout_comes_back(rollouts):
    forest = MCTSForest()
    for steps in rollouts:
        forest.extend(as_data(steps))
    for steps in rollouts:
        original = as_data(steps)
        tree = forest.get_tree(original[0].exclude("next", "action"), compact=False)
        path, node = [], tree
        for row in range(len(original)):
            step = original[row]
            place = next(
                place
                for place, child in enumerate(node.subtree)
                if steps_of(child.rollout) == steps_of(step.unsqueeze(0))
            )
            path.append(place)
            node = node.subtree[place]
        assert bool((tree.rollout_from_path(tuple(path)) == original).all())


@given(walks(), st.randoms(use_true_random=False))
def test_the_order_does_not_matter(rollouts, shuffle):
    def what_is_there(order):
        forest = MCTSForest()
        for steps in order:
            forest.extend(as_data(steps))
        tree = forest.get_tree(state(rollouts[0][0][0]))
        nodes = {number: tuple(steps_of(node.rollout)) for number, node in tree.vertices(key_type="id").items()}
        edges = {(nodes[parent], nodes[child]) for parent, child in tree.edges()}
        return set(nodes.values()), edges, set(tree.vertices(key_type="hash"))

    other = list(rollouts)
    shuffle.shuffle(other)
    assert what_is_there(rollouts) == what_is_there(other)


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=25), st.integers(1, 5))
def test_cycles_are_found_and_nothing_else(edges, size):
    """Against a search of the whole graph; edges come in blocks, and a block that closes a cycle is not added."""
    graph, known = StepGraph(), set()
    for start in range(0, len(edges), size):
        block = edges[start : start + size]
        trial, first = set(known), None
        for row, edge in enumerate(block):
            trial.add(edge)
            if has_cycle(trial):
                first = row
                break
        before = [edge[0] for edge in block]
        after = [edge[1] for edge in block]
        try:
            plan = graph.plan(before, [0] * len(block), after)
        except CycleFound as found:
            assert found.row == first
            continue
        assert first is None
        graph.add(plan)
        known |= set(block)
        numbers = {(graph.keys[source], graph.keys[target]) for source, _, target in graph.edge_keys}
        assert numbers == known


def has_cycle(edges: set[tuple[int, int]]) -> bool:
    reached = {start: {end for source, end in edges if source == start} for start in range(8)}
    for _ in range(8):
        for start, ends in reached.items():
            reached[start] = ends.union(*(reached[end] for end in ends)) if ends else ends
    return any(start in ends for start, ends in reached.items())


@pytest.mark.parametrize("seed", range(3))
def test_failed_extends_leave_nothing(seed):
    choose = random.Random(seed)
    forest, twin = MCTSForest(), MCTSForest()
    for _ in range(60):
        states = [choose.randrange(12) for _ in range(choose.randrange(2, 6))]
        try:
            forest.extend(make_rollout(states))
        except ValueError:
            continue
        twin.extend(make_rollout(states))
    assert len(forest) == len(twin) > 5
    for at in range(12):
        try:
            expected = twin.get_tree(state(at), max_depth=3).to_string()
        except ValueError:
            with pytest.raises(ValueError, match="no state"):
                forest.get_tree(state(at))
        else:
            assert forest.get_tree(state(at), max_depth=3).to_string() == expected
    assert torch.equal(forest._steps.view()[0 : len(forest)]["action"], twin._steps.view()[0 : len(twin)]["action"])
